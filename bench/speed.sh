#!/bin/sh
# speed -- the tables of docs/lab/ for the models given: prefill, decode, batched decode.
#
#     bench/speed.sh [-o DIR] MODEL.gguf... [-- OPTIONS OF ALL BENCHES]
#
# Runs `spolia bench` (build/spolia, or $SPOLIA) and keeps the CSV files in DIR (build/speed). Options
# after -- apply to every run, e.g. --rounds 5, -t 2.
set -eu
spolia=${SPOLIA:-build/spolia} out=build/speed models=
while [ $# -gt 0 ]; do
    case $1 in
    -o) out=${2:?a folder is missing after -o}; shift 2 ;;
    --) shift; break ;;
    -h|--help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    -*) echo "speed: unknown option $1; --help explains" >&2; exit 2 ;;
    *) models="$models -m $1"; shift ;;
    esac
done
[ -n "$models" ] || { echo "speed: give a model; --help explains" >&2; exit 2; }
mkdir -p "$out"
# shellcheck disable=SC2086 -- a list of options
{
"$spolia" bench prefill $models --sizes 512 -b 512 -c 1024 --csv "$out/prefill.csv" "$@"
"$spolia" bench prefill $models --sizes 512,8192 -b 512 -c 9216 --rounds 2 --csv "$out/prefill-long.csv" "$@"
"$spolia" bench decode $models --batches 1,8 --depths 0 -n 16 -c 8192 --csv "$out/decode.csv" "$@"
"$spolia" bench decode $models --batches 1 --depths 4096,16384 -n 16 -c 16640 --kv-memory 2048 --rounds 2 \
    --csv "$out/decode-deep.csv" "$@"
}
echo "CSV files: $out" >&2
