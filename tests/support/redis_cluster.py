"""A cluster of redis-servers of a test: slots can be moved, servers can die."""
import contextlib
import subprocess
import time

from support.ports import free_port
from support.redis_server import Redis

SLOTS = 16384


class Node(Redis):
    def __init__(self, folder, timeout_ms, options):
        self.bus = free_port()
        self.options = ["--cluster-enabled", "yes", "--cluster-port", self.bus, "--cluster-node-timeout", timeout_ms,
                        "--cluster-require-full-coverage", "no", "--dir", folder, "--cluster-config-file",
                        f"nodes-{self.bus}.conf", *options]
        super().__init__()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.id = self.cli("CLUSTER", "MYID")
        self.meets_at = dict(zip(options[::2], options[1::2])).get("--tls-port", self.port)

    def cli(self, *words):
        done = subprocess.run(["redis-cli", "-p", str(self.port), *map(str, words)], capture_output=True, text=True,
                              timeout=300, check=True)
        assert not done.stdout.startswith(("ERR", "MOVED", "ASK", "CLUSTERDOWN")), (words, done.stdout)
        return done.stdout.strip()


class Cluster:
    """`n` servers share the slots; the first `n_replicas` of them have a replica each."""

    def __init__(self, folder, n=3, n_replicas=0, options=lambda node: []):
        timeout_ms = 3000 if n_replicas else 15000  # a server that the machine keeps waiting is not dead
        self.nodes = [Node(folder, timeout_ms, options(i)) for i in range(n + n_replicas)]
        self.masters = self.nodes[:n]
        first = self.nodes[0]
        for i, node in enumerate(self.masters):
            node.cli("CLUSTER", "ADDSLOTSRANGE", i * SLOTS // n, (i + 1) * SLOTS // n - 1)
        for i, node in enumerate(self.nodes):
            node.cli("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for node in self.nodes[1:]:
            first.cli("CLUSTER", "MEET", "127.0.0.1", node.meets_at, node.bus)
        self.await_all(lambda node: f"cluster_known_nodes:{len(self.nodes)}" in node.cli("CLUSTER", "INFO"))
        for i, node in enumerate(self.nodes[n:]):
            node.cli("CLUSTER", "REPLICATE", self.masters[i].id)
        self.await_ok()
        self.await_replicas()
        self.url = first.url

    def await_all(self, holds):
        end = time.time() + 300
        while not all(holds(n) for n in self.nodes):
            assert time.time() < end, "the cluster does not come up"
            time.sleep(0.1)

    def await_ok(self):
        """Every server sees every slot served."""
        self.await_all(lambda node: "cluster_state:ok" in node.cli("CLUSTER", "INFO") and
                       f"cluster_slots_ok:{SLOTS}" in node.cli("CLUSTER", "INFO"))

    def await_replicas(self):
        """They have what their masters have."""
        self.await_all(lambda node: "role:master" in (said := node.cli("INFO", "replication")) or
                       "master_link_status:up" in said)

    def alive(self):
        return [n for n in self.nodes if n.process.poll() is None]

    def serving(self):
        return [n for n in self.alive() if "role:master" in n.cli("INFO", "replication")]

    def master_of(self, slot):
        """As the first server that lives sees it."""
        for line in self.alive()[0].cli("CLUSTER", "NODES").splitlines():
            fields = line.split()
            for r in fields[8:] if "master" in fields[2] and "fail" not in fields[2] else []:
                low, _, high = r.partition("-")
                if low.isdigit() and int(low) <= slot <= int(high or low):
                    return next(n for n in self.nodes if n.id == fields[0])

    def copies(self):
        """Of all servers that have slots."""
        return sum(n.copies() for n in self.serving())

    def slots_with_keys(self, node):
        keys = node.cli("KEYS", "*").split()
        return sorted({int(node.cli("CLUSTER", "KEYSLOT", k)) for k in keys})

    def move(self, slot, source, target):
        target.cli("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.cli("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        while keys := source.cli("CLUSTER", "GETKEYSINSLOT", slot, 1):
            source.cli("MIGRATE", "127.0.0.1", target.port, keys, 0, 5000, "REPLACE")
            time.sleep(0.05)  # both servers have a part of the slot
        for node in (target, source, *(n for n in self.serving() if n not in (source, target))):
            node.cli("CLUSTER", "SETSLOT", slot, "NODE", target.id)

    def stop(self):
        for n in self.nodes:
            with contextlib.suppress(ProcessLookupError):
                n.stop()
