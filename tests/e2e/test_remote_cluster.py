"""A remote tier on a cluster of three redis-servers: found by itself, while slots move and servers die."""
import shutil
import threading
import time

import pytest

from conftest import refuse
from support.ports import free_port
from support.redis_cluster import Cluster
from test_remote import ask, load_by_another, replica, sources, wait_for, wait_until_known  # noqa: F401 -- replica is a fixture
from test_remote_fill import cache, index, precompute  # noqa: F401 -- index is a fixture
from test_remote_tls import certificate

pytestmark = pytest.mark.skipif(not shutil.which("redis-server") or not shutil.which("redis-cli"),
                                reason="redis-server or redis-cli is not installed")

PLACES = ["Velm", "Torin", "Asker", "Brin", "Colm", "Duna", "Elver", "Fass"]
# What a user of the cluster must be allowed to do; docs/replicas.md says so.
ALLOWED = ("~SPOLIA:* &SPOLIA:* +auth +ping +cluster|slots +asking +scan +hscan +hget +hset +hexists +hdel +set +del +exists "
           "+expire +persist +publish +subscribe").split()
LITTLE = ["--kv-memory", "1", "--ctx-size", "768", "--parallel", "1"]  # nearly every request loads its copies


@pytest.fixture
def redis(tmp_path, request):
    """The parameter: how many of the servers have a replica."""
    c = Cluster(tmp_path, n_replicas=getattr(request, "param", 0))
    yield c
    c.stop()


def fill(server, cluster):
    """Answers of a server that computes all places, each with its successor."""
    pairs = list(zip(PLACES, PLACES[1:] + PLACES[:1]))
    wanted = {p: ask(server, *p)["choices"][0]["message"]["content"] for p in pairs}
    wait_for(lambda: cluster.copies() == len(PLACES))
    return wanted


def all_are_loaded(start):
    """A new replica, which has loaded a copy of each place."""
    server, [answer] = load_by_another(start, len(PLACES), PLACES)
    assert sources(answer) == ["remote"] * len(PLACES)
    return server


def test_what_one_computed_the_other_reuses(redis, replica):  # noqa: F811
    one, two = replica(), replica()
    wanted = fill(one, redis)
    assert all(n.copies() for n in redis.masters)
    wait_until_known(two, len(PLACES))
    found = set()
    for pair, text in wanted.items():
        again = ask(two, *pair)
        assert again["choices"][0]["message"]["content"] == text
        found |= set(sources(again))
    assert "remote" in found and found <= {"remote", "memory", "late"}
    down = f"redis://127.0.0.1:{free_port()},127.0.0.1:{free_port()},127.0.0.1:{redis.masters[2].port}"
    all_are_loaded(lambda: replica("--remote", down))  # any server leads to all, whatever else is down


def test_slots_move_while_requests_run(redis, replica):  # noqa: F811
    wanted = fill(replica(), redis)
    two = replica(*LITTLE)
    wait_until_known(two, len(PLACES))
    moved, failures = [], []

    def reshard():
        try:
            for i, source in enumerate(redis.masters):
                for slot in redis.slots_with_keys(source):
                    redis.move(slot, source, redis.masters[(i + 1) % 3])
                    moved.append(slot)
        except Exception as e:  # noqa: BLE001 -- said below
            failures.append(e)
    t = threading.Thread(target=reshard)
    t.start()
    n, from_remote = 0, 0
    while t.is_alive() or n < 3 * len(wanted):
        for pair, text in wanted.items():
            answer = ask(two, *pair)
            assert answer["choices"][0]["message"]["content"] == text
            from_remote += sources(answer).count("remote")
            n += 1
    t.join()
    assert not failures and len(moved) >= len(PLACES)
    assert from_remote > n / 2
    assert "does not answer" not in two.read_log()
    all_are_loaded(replica)


def test_a_server_that_dies_costs_its_copies_and_no_answer(redis, replica):  # noqa: F811
    one = replica()
    wanted = fill(one, redis)
    two, three = replica(*LITTLE), replica("--remote", redis.masters[2].url, *LITTLE)
    for s in (two, three):
        wait_until_known(s, len(PLACES))
    lost = redis.masters[0].copies()
    redis.masters[0].kill()
    for server in (two, three):
        seen = set()
        for pair, text in [*wanted.items(), *wanted.items()]:
            answer = ask(server, *pair)
            assert answer["choices"][0]["message"]["content"] == text
            seen |= {p for p, s in zip(pair, sources(answer)) if s == "remote"}
        assert len(seen) >= len(PLACES) - lost > 0
    late, [answer] = load_by_another(lambda: replica("--remote", redis.masters[1].url), len(PLACES) - lost, PLACES)
    assert sources(answer).count("remote") == len(PLACES) - lost
    assert "a part of the remote tier does not answer" in late.read_log()


@pytest.mark.parametrize("redis", [1], indirect=True)
def test_a_replica_takes_over(redis, replica):  # noqa: F811
    redis.url = redis.masters[2].url
    wanted = fill(replica(), redis)
    two = replica(*LITTLE)
    wait_until_known(two, len(PLACES))
    redis.masters[0].kill()
    end = time.time() + 300
    while redis.master_of(0) is not redis.nodes[3]:
        for pair, text in wanted.items():
            assert ask(two, *pair)["choices"][0]["message"]["content"] == text
        assert time.time() < end
    late = all_are_loaded(replica)
    ask(late, "Somewhere new")
    wait_for(lambda: redis.copies() == len(PLACES) + 1)
    wait_for(lambda: {s for pair in wanted for s in sources(ask(two, *pair))} <= {"remote", "memory"})


def test_a_user_needs_some_commands_only(redis, replica):  # noqa: F811
    for n in redis.masters:
        n.cli("ACL", "SETUSER", "anna", "on", ">s3cret", *ALLOWED)
    one = replica("--remote", redis.url.replace("//", "//anna:s3cret@"))
    fill(one, redis)
    moved = redis.slots_with_keys(redis.masters[0])[0]
    redis.move(moved, redis.masters[0], redis.masters[1])
    two = all_are_loaded(lambda: replica("--remote", redis.url.replace("//", "//anna:s3cret@")))
    for s in (one, two):
        assert "NOPERM" not in s.read_log()


def test_a_user_who_may_not_ask_for_slots_is_told(redis):
    for n in redis.masters:
        n.cli("ACL", "SETUSER", "bert", "on", ">s3cret", *ALLOWED, "-cluster")
    refuse("cache", "list", "--remote", redis.masters[1].url.replace("//", "//bert:s3cret@"), naming=["cluster|slots"])


def test_it_is_filled_checked_and_cleaned(redis, index):  # noqa: F811
    parts = [precompute(redis, index, "--shard", f"{k}/2") for k in (1, 2)]
    n = sum(p["fused"] for p in parts)
    assert n == redis.copies() > 50 and all(m.copies() > n / 6 for m in redis.masters)
    assert precompute(redis, index)["fused"] == 0
    assert len(cache(redis, "list")["copies"]) == cache(redis, "verify")["copies"] == n
    for i, node in enumerate(redis.masters):  # what is lost, and what no index names, at each server
        keys = node.cli("KEYS", "SPOLIA:*:copy:*").split()
        node.cli("DEL", keys[0])
        at = keys[1].replace(":copy:", " ").split()
        node.cli("HDEL", f"{at[0]}:index", at[1])
    assert cache(redis, "gc") == {"store": redis.url, "dropped": 3, "forgotten": 3}
    assert cache(redis, "gc") == {"store": redis.url, "dropped": 0, "forgotten": 0}
    left = cache(redis, "list")["copies"]
    assert len(left) == redis.copies() == n - 6
    cache(redis, "drop", left[0]["id"])
    assert redis.copies() < n - 6
    assert precompute(redis, index)["unchanged"] < n and redis.copies() == n


def test_with_tls(tmp_path, index):  # noqa: F811
    cert, key = certificate(tmp_path, "server", "127.0.0.1")
    ports = [free_port() for _ in range(3)]
    cluster = Cluster(tmp_path, options=lambda i: ["--tls-port", ports[i], "--tls-cert-file", cert,
                                                   "--tls-key-file", key, "--tls-auth-clients", "no", "--tls-ca-cert-file", cert, "--tls-cluster", "yes"])
    try:
        cluster.url = f"rediss://127.0.0.1:{ports[0]}"
        n = precompute(cluster, index, "--remote-ca", cert)["fused"]
        assert all(m.copies() > n / 6 for m in cluster.masters)
        assert cache(cluster, "verify", "--remote-ca", cert)["copies"] == n
    finally:
        cluster.stop()
