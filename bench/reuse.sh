#!/bin/sh
# reuse -- the tables of docs/benchmarks.md on the time to the first token with reused chunks, for one model.
#
#     bench/reuse.sh [-o DIR] [-p PARTS] MODEL.gguf [-- OPTIONS OF ALL PARTS]
#
# PARTS are any of these, with commas between (main,orders,sizes,long). Minutes are for 0.5B parameters in Q8_0
# on two cores:
#
#     main     8 x 256 tokens, shuffled, five ratios, 3 rounds               5
#     orders   8 x 256, same order and half new, at 0 and 15 %, 2 rounds   4
#     sizes    4, 16 x 256 and 4, 8 x 512, at 0 and 15 %, 2 rounds          12
#     long     32 x 256 and 16, 32 x 512, at 0 and 15 %, 1 round            38
#     all      every size, ratio and order, 3 rounds: a night and a day
#
# Each part is a run of `spolia bench reuse` (build/spolia, or $SPOLIA) with its own CSV file in DIR
# (build/reuse); bench/plot.py draws it. A part that was interrupted, or ended by --minutes, continues when the script is called again; a
# complete one prints its tables. Options after -- apply to every part, e.g. -t 2, --minutes 30.
set -eu
spolia=${SPOLIA:-build/spolia} out=build/reuse parts=main,orders,sizes,long model=
while [ $# -gt 0 ]; do
    case $1 in
    -o) out=${2:?a folder is missing after -o}; shift 2 ;;
    -p) parts=${2:?parts are missing after -p}; shift 2 ;;
    --) shift; break ;;
    -h|--help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    -*) echo "reuse: unknown option $1; --help explains" >&2; exit 2 ;;
    *) [ -z "$model" ] || { echo "reuse: one model only" >&2; exit 2; }; model=$1; shift ;;
    esac
done
[ -n "$model" ] || { echo "reuse: give a model; --help explains" >&2; exit 2; }
mkdir -p "$out"

# part NAME OPTIONS...
part() {
    name=$1; shift
    echo "
## $name"
    "$spolia" bench reuse -m "$model" --policies prefix,full,blend,craft,fusion,flow -c 16640 -b 512 --kv-memory 2048 \
        --csv "$out/$name.csv" --resume "$@"
}

for name in $(echo "$parts" | tr , ' '); do
    case $name in
    main)   part main --chunks 8 --chunk-tokens 256 --orders shuffled --rounds 3 "$@" ;;
    orders) part orders --chunks 8 --chunk-tokens 256 --orders same,half-new --ratios 0,0.15 --rounds 2 "$@" ;;
    sizes)  part sizes-256 --chunks 4,16 --chunk-tokens 256 --orders shuffled --ratios 0,0.15 --rounds 2 "$@"
            part sizes-512 --chunks 4,8 --chunk-tokens 512 --orders shuffled --ratios 0,0.15 --rounds 2 "$@" ;;
    long)   part long-256 --chunks 32 --chunk-tokens 256 --orders shuffled --ratios 0,0.15 --rounds 1 "$@"
            part long-512 --chunks 16,32 --chunk-tokens 512 --orders shuffled --ratios 0,0.15 --rounds 1 "$@" ;;
    all)    part all --rounds 3 "$@" ;;
    *)      echo "reuse: unknown part \"$name\": main, orders, sizes, long, all" >&2; exit 2 ;;
    esac
done
echo "CSV files: $out" >&2
