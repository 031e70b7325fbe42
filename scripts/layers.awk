# layers.awk -- the floors of docs/architecture.md as a check over #include lines.
# Usage: awk -f scripts/layers.awk FILES. Prints each include that looks up or sideways; exit 1 then.
#
# Rooms: the folders inside serve have floors of their own; what is directly in serve/ sees them all. A header named
# *_int.h is included from its own folder only.
#
# Floor 7 has five folders. cli (options, errors, progress) is shared by the others; cmd sees one header each of
# doctor, lab and server, whose rooms are floors, too: api includes http.
BEGIN {
    n = split("base:0 compute:1 model:2 kv:2 cache:3 store:3 engine:4 reuse:5 retrieve:5 serve:6 cli:7 cmd:7 doctor:7 lab:7 server:7",
              list, " ")
    for (i = 1; i <= n; i++) { split(list[i], pair, ":"); floor_of[pair[1]] = pair[2] }
    allowed["cmd", "doctor/doctor.h"] = 1
    allowed["cmd", "lab/lab.h"] = 1
    allowed["cmd", "server/server.h"] = 1
    # rooms, the lower first; files beside the rooms of store are below them, those of server above
    n = split("server/http:0 server/page:1 server/api:2 server/server.h:3 store/aio:0 store/disk:1 store/host:1 store/remote:1", list, " ")
    for (i = 1; i <= n; i++) { split(list[i], pair, ":"); room_of[pair[1]] = pair[2] }
    shared = "cli" # seen by all of its floor
    public = "cli cmd server" # clients of the library: they see spolia.h alone
    split("prompt:0 queue:0 tiers:0 embed:0 search:0 guard:1 request:2 check:3 documents:3", list, " ")
    for (i in list) { split(list[i], pair, ":"); room_of[pair[1]] = pair[2] }
}
# folder -- of a path: "serve/request" of "serve/request/find.c"
function folder(path) { sub(/\/[^\/]*$/, "", path); return path }
# check_rooms -- an include within serve
function check_rooms(from, to,    a, b) {
    if (from == "serve" || from == to) return
    split(from, a, "/"); split(to, b, "/")
    if (!(a[2] in room_of) || !(b[2] in room_of) || room_of[a[2]] <= room_of[b[2]]) {
        print FILENAME ":" FNR ": " from " includes " header
        bad++
    }
}
FNR == 1 { split(FILENAME, path, "/"); here = path[2]; files++ }
/^#include "/ {
    split($2, quoted, "\""); header = quoted[2]
    if (header ~ /^spolia(_[a-z]+)?\.h$/) next
    own = folder(substr(FILENAME, index(FILENAME, "src/") + 4))
    if (header ~ /_int\.h$/ && folder(header) != own && !((own, folder(header)) in shares)) {
        print FILENAME ":" FNR ": " header " belongs to " folder(header)
        bad++
    }
    if (here == "serve" && header ~ /^serve\//) check_rooms(own, folder(header))
    split(header, part, "/"); there = part[1]
    if (!(there in floor_of)) { print FILENAME ":" FNR ": " header " is on no floor"; bad++; next }
    room = path[2] "/" path[3]; other = part[1] "/" part[2]
    if ((room in room_of) && there == here && room != other && other in room_of && room_of[other] >= room_of[room]) {
        print FILENAME ":" FNR ": " room " includes " header; bad++; next
    }
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
