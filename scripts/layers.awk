# layers.awk -- the floors of docs/architecture.md as a check over #include lines.
# Usage: awk -f scripts/layers.awk FILES. Prints each include that looks up or sideways; exit 1 then.
#
# Rooms: the folders inside some folders are floors, too. What is beside the rooms of serve and server is above them, what
# is beside those of store, cli and cmd is below, but for cli/cli.h. A header named *_int.h is included from its own
# folder only.
#
# Floor 7 has five folders. cli (options, errors, progress) is shared by the others; cmd sees one header each of
# doctor, lab and server.
BEGIN {
    floors("base:0 compute:1 model:2 kv:2 cache:3 store:3 engine:4 reuse:5 retrieve:5 serve:6", floor_of)
    floors("cli:7 cmd:7 doctor:7 lab:7 server:7", floor_of)
    floors("store/aio:0 store/disk:1 store/host:1 store/remote:1", room_of)
    floors("retrieve/text:0 retrieve/db:0 retrieve/vectors:0 retrieve/documents:1", room_of)
    floors("retrieve/index:2 retrieve/graph:2 retrieve/shelf:3", room_of)
    floors("serve/prompt:0 serve/queue:0 serve/tiers:0 serve/embed:0 serve/search:0 serve/guard:1 serve/request:2", room_of)
    floors("serve/check:3 serve/documents:3", room_of)
    floors("server/http:0 server/page:1 server/body:1 server/documents:2 server/api:3 server/dialects:4", room_of)
    floors("cli/hub:0 cli/options:1 cli/answer:2 cmd/cache:0 cmd/graph:0 cmd/ask:1", room_of)
    floors("store:0 cli:0 cmd:0", is_below)
    for (room in room_of) { split(room, path, "/"); has_rooms[path[1]] = 1 }
    allowed["cmd", "doctor/doctor.h"] = 1
    allowed["cmd", "lab/lab.h"] = 1
    allowed["cmd", "server/server.h"] = 1
    shared = "cli" # seen by all of its floor
    public = "cli cmd server" # clients of the library: they see spolia.h alone
}
# floors -- notes in `of` what "name:floor name:floor" says
function floors(list, of,    n, i, all, pair) {
    n = split(list, all, " ")
    for (i = 1; i <= n; i++) { split(all[i], pair, ":"); of[pair[1]] = pair[2] }
}
# folder -- of a path: "serve/request" of "serve/request/find.c"
function folder(path) { sub(/\/[^\/]*$/, "", path); return path }
FNR == 1 { split(FILENAME, path, "/"); here = path[2]; room = path[2] "/" path[3]; files++ }
FNR == 1 && (here in has_rooms) && path[4] && !(room in room_of) { print FILENAME ": " room " is no room of " here; bad++ }
/^#include "/ {
    split($2, quoted, "\""); header = quoted[2]
    if (header ~ /^spolia(_[a-z]+)?\.h$/) next
    own = folder(substr(FILENAME, index(FILENAME, "src/") + 4))
    if (header ~ /_int\.h$/ && folder(header) != own) {
        print FILENAME ":" FNR ": " header " belongs to " folder(header)
        bad++
    }
    split(header, part, "/"); there = part[1]
    if (!(there in floor_of)) { print FILENAME ":" FNR ": " header " is on no floor"; bad++; next }
    other = part[1] "/" part[2]
    if ((room in room_of) && there == here && room != other &&
        (other in room_of ? room_of[other] >= room_of[room] : !(there in is_below) || header == "cli/cli.h")) {
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
