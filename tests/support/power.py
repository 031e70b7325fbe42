"""What a loss of power may leave of a folder: replays the log of tests/support/power.c up to a moment.

What was synced is there. Of the writes to a file since its last sync each one is there, is not, or is torn: some of
its sectors are there. Names are in the folder once that was synced; later changes of names are there up to a random
one, since file systems keep them in order.
"""
import dataclasses
import struct
import subprocess

CREATE, WRITE, CUT, PUNCH, GROW, RENAME, UNLINK, FOLDER, SYNC_BEGIN, SYNC_END = range(10)
HEAD = struct.Struct("<4I2Q")
SECTOR = 512


def build_preload(folder, root):
    made = folder / "power.so"
    source = root / "tests/support/power.c"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", "-o", made, source, "-ldl"], check=True)
    return made


@dataclasses.dataclass
class Record:
    kind: int
    path: str
    to: str
    at: int
    n: int
    data: bytes
    end: int  # offset in the log


def read_log(path):
    log, at, records = path.read_bytes(), 0, []
    while at + HEAD.size <= len(log):
        kind, n_path, n_to, n_data, pos, n = HEAD.unpack_from(log, at)
        at += HEAD.size
        if at + n_path + n_to + n_data > len(log):
            break  # the process was killed
        name = log[at:at + n_path].decode()
        to = log[at + n_path:at + n_path + n_to].decode()
        data = log[at + n_path + n_to:at + n_path + n_to + n_data]
        at += n_path + n_to + n_data
        records.append(Record(kind, name, to, pos, n, data, at))
    return records


class File:
    """Its bytes on disk, and the changes since."""

    def __init__(self):
        self.bytes, self.pending = bytearray(), []  # [(index, record)]

    @staticmethod
    def apply(to, r, sectors=None):
        """sectors: which of a write are there; None: all."""
        if r.kind == CUT:
            del to[r.at:]
            to.extend(bytes(r.at - len(to)))
        elif r.kind == PUNCH:
            n = max(0, min(r.n, len(to) - r.at))
            to[r.at:r.at + n] = bytes(n)
        elif r.kind == GROW:
            to.extend(bytes(max(0, r.at + r.n - len(to))))
        elif sectors is None:
            to.extend(bytes(max(0, r.at + r.n - len(to))))
            to[r.at:r.at + r.n] = r.data
        else:
            for i in sectors:
                part = r.data[i * SECTOR:(i + 1) * SECTOR]
                to.extend(bytes(max(0, r.at + i * SECTOR + len(part) - len(to))))
                to[r.at + i * SECTOR:r.at + i * SECTOR + len(part)] = part

    def sync(self, before):
        for index, r in self.pending:
            if index < before:
                self.apply(self.bytes, r)
        self.pending = [x for x in self.pending if x[0] >= before]

    def after_loss(self, rng):
        left = bytearray(self.bytes)
        kept = rng.choice([0, 0.3, 0.7, 1])  # a file of which nothing, some, all was written in time
        for _, r in self.pending:
            if rng.random() < kept:
                self.apply(left, r)
            elif r.kind == WRITE and kept and rng.random() < 0.5:
                n = -(-r.n // SECTOR)
                self.apply(left, r, sorted(rng.sample(range(n), rng.randint(0, n))))
        return left


class Disk:
    """Files by name: as programs see them, and as the disk has them."""

    def __init__(self):
        self.live, self.names, self.pending = {}, {}, []  # pending: [(index, record, file)]
        self.folders, self.syncs = set(), {}

    def feed(self, index, r):
        if r.kind == FOLDER:
            self.folders.add(r.path)  # a folder is made once; that it is there is no promise of ours
        elif r.kind == CREATE:
            self.live[r.path] = File()
            self.pending.append((index, r, self.live[r.path]))
        elif r.kind == RENAME:
            self.live[r.to] = self.live.pop(r.path)
            self.pending.append((index, r, self.live[r.to]))
        elif r.kind == UNLINK:
            self.pending.append((index, r, self.live.pop(r.path, None)))
        elif r.kind == SYNC_BEGIN:
            self.syncs[r.at] = (index, self.live.get(r.path))
        elif r.kind == SYNC_END:
            before, file = self.syncs.pop(r.at)
            if file:
                file.sync(before)
            elif r.path not in self.live:
                self.sync_folder(r.path, before)
        elif r.path in self.live:  # not one that has been removed
            self.live[r.path].pending.append((index, r))

    @staticmethod
    def rename(names, r, file):
        if r.kind == CREATE:
            names[r.path] = file
        elif r.kind == RENAME:
            names.pop(r.path, None)
            names[r.to] = file
        else:
            names.pop(r.path, None)

    def sync_folder(self, path, before):
        mine = [x for x in self.pending if x[0] < before and x[1].path.rpartition("/")[0] == path]
        for _, r, file in mine:
            self.rename(self.names, r, file)
        self.pending = [x for x in self.pending if x not in mine]

    def after_loss(self, rng):
        """{path: bytes}"""
        names = dict(self.names)
        for _, r, file in self.pending[:rng.randint(0, len(self.pending))]:
            self.rename(names, r, file)
        return {path: file.after_loss(rng) for path, file in names.items()}


def leave(records, end, rng, top, to):
    """Writes to the folder `to` what a loss of power when the log had `end` bytes leaves of `top`."""
    disk = Disk()
    for index, r in enumerate(records):
        if r.end > end:
            break
        disk.feed(index, r)
    to.mkdir(parents=True)
    for path in sorted(disk.folders):
        if path != str(top):
            (to / path[len(str(top)) + 1:]).mkdir(parents=True, exist_ok=True)
    for path, data in disk.after_loss(rng).items():
        where = to / path[len(str(top)) + 1:]
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_bytes(data)
