# layers.awk -- the floors of docs/architecture.md as a check over #include lines.
# Usage: awk -f scripts/layers.awk FILES. Prints each include that looks up or sideways; exit 1 then.
#
# Floor 7 has four folders. cli (options, errors, progress) is shared by the others; cmd sees one header of lab and
# one of server.
BEGIN {
    n = split("base:0 compute:1 model:2 kv:2 cache:3 store:3 engine:4 reuse:5 retrieve:5 serve:6 cli:7 cmd:7 lab:7 server:7",
              list, " ")
    for (i = 1; i <= n; i++) { split(list[i], pair, ":"); floor_of[pair[1]] = pair[2] }
    allowed["cmd", "lab/lab.h"] = 1
    allowed["cmd", "server/server.h"] = 1
    shared = "cli" # seen by all of its floor
    public = "cli cmd server" # clients of the library: they see spolia.h alone
}
FNR == 1 { split(FILENAME, path, "/"); here = path[2]; files++ }
/^#include "/ {
    split($2, quoted, "\""); header = quoted[2]
    if (header == "spolia.h" || header == "spolia_base.h" || header == "spolia_graph.h" || header == "spolia_documents.h") next
    split(header, part, "/"); there = part[1]
    if (!(there in floor_of)) { print FILENAME ":" FNR ": " header " is on no floor"; bad++; next }
    if (there == here || ((here, header) in allowed)) next
    if (there == shared && floor_of[there] == floor_of[here]) next
    if (floor_of[there] >= floor_of[here]) {
        print FILENAME ":" FNR ": " here " (floor " floor_of[here] ") includes " header " (floor " floor_of[there] ")"
        bad++
    } else if (index(" " public " ", " " here " ")) {
        print FILENAME ":" FNR ": " here " is a client of the library and includes " header
        bad++
    }
}
END { if (bad) exit 1; print "layers: " files " files keep to their floors" }
