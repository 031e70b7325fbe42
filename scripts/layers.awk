# layers.awk -- the floors of docs/architecture.md as a check over #include lines.
# Usage: awk -f scripts/layers.awk FILES. Prints each include that looks up or sideways; exit 1 then.
BEGIN {
    n = split("base:0 compute:1 model:2 kv:2 cache:3 store:3 engine:4 reuse:5 retrieve:5 serve:6 server:7 cmd:7", list, " ")
    for (i = 1; i <= n; i++) { split(list[i], pair, ":"); floor_of[pair[1]] = pair[2] }
}
FNR == 1 { split(FILENAME, path, "/"); here = path[2]; files++ }
/^#include "/ {
    split($2, quoted, "\""); header = quoted[2]
    if (header == "spolia.h") next
    split(header, part, "/"); there = part[1]
    if (!(there in floor_of)) { print FILENAME ":" FNR ": " header " is on no floor"; bad++; next }
    if (there == here) next
    if (floor_of[there] >= floor_of[here]) {
        print FILENAME ":" FNR ": " here " (floor " floor_of[here] ") includes " header " (floor " floor_of[there] ")"
        bad++
    }
}
END { if (bad) exit 1; print "layers: " files " files keep to their floors" }
