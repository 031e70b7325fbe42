"""`spolia sim`: hits of small traces by hand, generated workloads, planning, damaged input."""
import json
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT, choices, refuse, succeed

POLICIES = ",".join([*choices("ask", "evict"), "lfu+ghosts", "belady"])


def write(path, requests, size=16):
    with open(path, "w") as f:
        for i, docs in enumerate(requests):
            f.write(json.dumps({"id": str(i), "doc_ids": list(docs), "sizes": [size] * len(docs)}) + "\n")
    return path


def sim(*args):
    rows = [json.loads(line) for line in succeed("sim", *args, "--json").splitlines()]
    return {(r["policy"], r["memory"]): r for r in rows}


def hits(rows):
    return {policy: round(r["hit_rate"] * r["documents"]) for (policy, _), r in rows.items()}


def test_hits_by_hand(tmp_path):
    # Two documents fit. After A B A, C takes the place of B, and B that of C; belady keeps B.
    trace = write(tmp_path / "t.jsonl", "ABACAB")
    rows = sim(trace, "--memory", "32", "--policy", POLICIES)
    assert hits(rows) == {**{p: 2 for p in POLICIES.split(",")}, "belady": 3}
    assert set(hits(sim(trace, "--memory", "32"))) == {*POLICIES.split(",")} - {"lfu+ghosts"}  # without --policy: all
    assert {p: r["evictions"] for (p, _), r in rows.items()}["lru"] == 2
    assert {p: r["evictions"] for (p, _), r in rows.items()}["belady"] == 0
    assert all(r["copies"] == 2 and r["token_hit_rate"] == r["hit_rate"] for r in rows.values())  # of one size
    both = sim(trace, "--memory", "32,16", "--policy", "lru,belady")
    assert len(both) == 4 and all(r["of_belady"] == 1 for (p, _), r in both.items() if p == "belady")
    assert next(r for (p, _), r in both.items() if p == "lru")["of_belady"] == pytest.approx(2 / 3, rel=1e-5)


def test_frequency_and_its_past(tmp_path):
    # A is used twice; B to E take each other's place, and A stays.
    trace = write(tmp_path / "t.jsonl", "AABCDEA")
    assert hits(sim(trace, "--memory", "32", "--policy", "lru,lfu")) == {"lru": 1, "lfu": 2}
    # A returns after C; only with its past it stays when D comes.
    trace = write(tmp_path / "t.jsonl", "BBBAACADA")
    plain = hits(sim(trace, "--memory", "32", "--policy", "lfu"))["lfu"]
    ghosts = hits(sim(trace, "--memory", "32", "--policy", "lfu+ghosts"))["lfu+ghosts"]
    assert (plain, ghosts) == (3, 4)


def test_paths_by_hand(tmp_path):
    trace = write(tmp_path / "t.jsonl", ["AB", "AC", "BA", "AB"])
    assert hits(sim(trace, "--memory", "160", "--policy", "lru", "--by", "path"))["lru"] == 3
    assert hits(sim(trace, "--memory", "160", "--policy", "lru"))["lru"] == 5
    # One document fits: the head of each path; its leaf never does.
    assert hits(sim(trace, "--memory", "16", "--policy", "lru", "--by", "path"))["lru"] == 1
    # Of each request the first document is kept.
    assert hits(sim(trace, "--memory", "160", "--policy", "lru", "--by", "path", "--keep", "1"))["lru"] == 2
    assert hits(sim(trace, "--memory", "160", "--policy", "lru", "--top-k", "1"))["lru"] == 2


def test_times_and_bytes():
    made = ("--generate", "zipf", "--requests", "3000", "--docs", "2000", "--memory", "20%", "--policy", "lru,hazard")
    for row in map(json.loads, succeed("sim", *made, "--times", "--json").splitlines()):
        for op in ("look_up_us", "use_us", "add_us"):
            assert 0 < row[op]["p50"] <= row[op]["p99"] <= row[op]["max"] and row[op]["n"] > 0
        assert row["look_up_us"]["n"] == 5 * -(-3000 // 16) == row["use_us"]["n"] + row["add_us"]["n"]
        assert row["entry_bytes"] > 360  # sp_copy alone
    assert "p99" in succeed("sim", *made, "--times") and "add_us" not in succeed("sim", *made, "--json")


def test_looking_ahead(tmp_path):
    # C needs room while B is about to be used and A is not.
    trace = write(tmp_path / "t.jsonl", "BACBD")
    assert hits(sim(trace, "--memory", "32", "--policy", "lacr"))["lacr"] == 0
    assert hits(sim(trace, "--memory", "32", "--policy", "lacr", "--lookahead", "2"))["lacr"] == 1
    # When C comes, A is read next and B later: B goes, though it was read last.
    trace = write(tmp_path / "t.jsonl", "ABCADBA")
    assert hits(sim(trace, "--memory", "32", "--policy", "lacr", "--lookahead", "3"))["lacr"] == 2


@pytest.mark.parametrize("kind", ["zipf", "temporal", "uniform", "novel"])
def test_generated_workloads_repeat_and_obey_the_bound(kind, tmp_path):
    args = ["--generate", kind, "--requests", "800", "--docs", "400", "--memory", "20000"]
    rows = hits(sim(*args, "--policy", POLICIES, "--trace-out", tmp_path / "t.jsonl"))
    assert rows["belady"] == max(rows.values()) > 0
    assert hits(sim(tmp_path / "t.jsonl", "--memory", "20000", "--policy", POLICIES)) == rows
    other = hits(sim(*args, "--seed", "2", "--policy", POLICIES))
    assert other != rows


def test_a_steep_curve_draws_what_is_most_popular(tmp_path):
    """With an exponent of 50 a draw of the third rank is not to be expected: the request has the first five."""
    args = ["--generate", "zipf", "--zipf", "50", "--requests", "20", "--docs", "100", "--policy", "lru"]
    assert sim(*args, "--memory", "100%", "--trace-out", tmp_path / "t.jsonl")[("lru", 1)]["hit_rate"] == 0.95
    assert {d for x in (tmp_path / "t.jsonl").read_text().splitlines() for d in json.loads(x)["doc_ids"]} == {f"d{i}" for i in range(5)}
    refuse("sim", *args[:3], "-1", naming=['--zipf: "-1" is not a number from 0 to 100'], code=2)


def test_memory_beyond_all_documents_holds_all(tmp_path):
    """By path a document has a copy for each path: all of them are more tokens than the documents have."""
    orders = [f"{a}{b}{c}" for a in "ABC" for b in "ABC" for c in "ABC" if len({a, b, c}) == 3]
    trace, plan = write(tmp_path / "t.jsonl", orders * 2), ["--policy", "lru", "--by", "path"]
    rows = sim(trace, *plan, "--memory", "1e30")
    assert hits(rows) == hits(sim(trace, *plan, "--memory", "100000")) == {"lru": 3 + 18}
    tier = json.loads(succeed("sim", trace, *plan, "--tiers", "device:1000T", "--json"))
    assert tier["hit_rate"] == pytest.approx(21 / 36, rel=1e-5)
    shared = ["--replicas", "2", "--router", "random", "--tiers", "device:1", "--remote", "latency=0s,bandwidth=1000GB/s"]
    for found, how in ((21, plan), (33, plan[:2])):
        assert sum(fleet(trace, *how, *shared)[0]["tiers"].values()) == pytest.approx(found / 36, rel=1e-5)


def test_new_orders_are_found_by_content_alone():
    args = ["--generate", "novel", "--requests", "500", "--docs", "200", "--memory", "50%", "--policy", "lru"]
    path, content = (sim(*args, "--by", by)[("lru", 0.5)]["hit_rate"] for by in ("path", "content"))
    assert content > 3 * path


def test_planning():
    args = ["--generate", "zipf", "--requests", "500", "--docs", "2000", "--policy", "lru", "--json"]
    small, large = (json.loads(succeed("sim", *args, "--tiers", tiers)) for tiers in
                    ("device:8M,disk:1G@3G", "device:200G,disk:1T@3G"))
    assert small["tiers"]["device"] < large["tiers"]["device"] and large["tiers"]["disk"] == 0
    assert large["ttft"] < small["ttft"] < small["ttft_cold"] == large["ttft_cold"]
    slow = json.loads(succeed("sim", *args, "--tiers", "device:8M,disk:1G@1M"))
    assert slow["computed_instead"] > 0 and slow["tiers"]["disk"] == 0


def test_tiers_by_hand(tmp_path):
    """Sizes have units of 1,024; hits are a share of documents; the slowest requests are cold ones."""
    pairs = write(tmp_path / "p.jsonl", ["AB", "AB"])
    for unit, kv in (("32K", 1 << 10), ("32M", 1 << 20), ("32G", 1 << 30), ("1T", 1 << 30)):
        how = [pairs, "--policy", "lru", "--kv-bytes", kv, "--tiers", f"device:{unit}"]
        row = json.loads(succeed("sim", *how, "--json"))
        assert row["hit_rate"] == row["tiers"]["device"] == 0.5
    trace = write(tmp_path / "t.jsonl", ["A", "B", "C", "DE", "FG", *"AAAAAAA"])
    how = [trace, "--policy", "lru", "--tiers", "device:1G", "--prefill", "1000"]
    row, said = json.loads(succeed("sim", *how, "--json")), succeed("sim", *how)
    assert row["ttft_p99"] > row["ttft_cold"] > row["ttft"] == pytest.approx(0.5 * row["ttft_cold"], rel=1e-2)
    assert f"TTFT {row['ttft']:.4g} s, p99 {row['ttft_p99']:.4g} s, without a cache {row['ttft_cold']:.4g} s" in said
    fleet_row, = fleet(*how, "--replicas", "1", "--router", "least", "--rate", "0.001")
    assert fleet_row["ttft_p50"] == 0 and fleet_row["ttft_p99"] == pytest.approx(row["ttft_p99"], rel=1e-4)
    said = succeed("sim", *how, "--replicas", "1", "--router", "least", "--rate", "0.001")
    assert f"p50 0 s, p99 {fleet_row['ttft_p99']:.4g} s" in said


def test_what_is_generated_follows_its_options(tmp_path):
    def of(*options):
        args = ["--generate", "zipf", "--requests", "2000", "--docs", "1000", "--memory", "10%", "--policy", "lru"]
        return hits(sim(*args, *options, "--trace-out", tmp_path / "t.jsonl"))["lru"]
    assert of("--zipf", "0.2") < of() < of("--zipf", "2")
    usual = of()
    requests = map(json.loads, (tmp_path / "t.jsonl").read_text().splitlines())
    sizes = {d: n for x in requests for d, n in zip(x["doc_ids"], x["sizes"])}
    assert len(sizes) > 900 and 400 < sum(sizes.values()) / len(sizes) < 600
    assert of("--drift", "100") != usual


def test_files(tmp_path):
    args = ["--generate", "zipf", "--requests", "200", "--docs", "100", "--policy", "lru,lfu"]
    rows = list(sim(*args, "--csv", tmp_path / "r.csv").values())
    lines = [x.split(",") for x in (tmp_path / "r.csv").read_text().splitlines()]
    assert len(lines) == 7 and lines[0][2:4] == ["hit_rate", "token_hit_rate"]
    assert [(float(x[2]), float(x[3])) for x in lines[1:]] == [(r["hit_rate"], r["token_hit_rate"]) for r in rows]
    trace, chunks = tmp_path / "t.jsonl", tmp_path / "c.jsonl"
    trace.write_text('{"id": "1", "doc_ids": ["a", "b"]}\n')
    chunks.write_text('{"id": "a", "text": "%s"}\n{"id": "b", "tokens": 160}\n' % ("x" * 640))
    row = sim(trace, "--chunks", chunks, "--memory", "320", "--policy", "lru")[("lru", 1)]
    assert row["memory"] == 1  # 160 tokens each
    chunks.write_text('{"id": "a", "text": "short"}\n')
    trace.write_text('{"id": "1", "doc_ids": ["a", "b"], "sizes": [160, 160]}\n')
    rows = sim(trace, "--chunks", chunks, "--memory", "320", "--policy", "lru")
    assert ("lru", 1) in rows  # the trace's sizes count


def test_damaged_lines_are_named(tmp_path):
    good = '{"id": "1", "doc_ids": ["a"], "sizes": [3]}\n'
    for line, why in [("{", "line 2"), ("[]", "not a JSON object"), ('{"doc_ids": 3}', "doc_ids"),
                      ('{"doc_ids": [4]}', "names are strings"),
                      ('{"doc_ids": ["b"], "sizes": []}', "one for each"),
                      ('{"doc_ids": ["a"], "sizes": [4]}', "another size"),
                      ('{"doc_ids": ["a"], "sizes": [0]}', "sizes")]:
        (tmp_path / "t.jsonl").write_text(good + line + "\n")
        refuse("sim", tmp_path / "t.jsonl", naming=[why])
    (tmp_path / "t.jsonl").write_text(good)
    refuse("sim", tmp_path / "t.jsonl", "--policy", "fifo", naming=['"fifo" is unknown', "belady", "+ghosts"], code=2)
    refuse("sim", tmp_path / "t.jsonl", "--policy", "lru+ghosts,lf", naming=['"lf" is unknown', "belady"], code=2)
    refuse("sim", tmp_path / "t.jsonl", "--memory", "no", naming=["--memory"], code=2)
    refuse("sim", tmp_path / "t.jsonl", "--tiers", "device", naming=["--tiers"], code=2)
    (tmp_path / "p.json").write_text('{"cached": [0, 1], "new": [2, 1], "us": []}')
    refuse("sim", tmp_path / "t.jsonl", "--profile", tmp_path / "p.json", naming=["new"])


def test_a_profile_is_measured_and_used(tmp_path):
    model, out = ROOT / "demo/model.gguf", tmp_path / "p.json"
    table = succeed("profile", "-m", model, "-o", out, "--cached", "0,64,256", "--new", "16,128", "--rounds", "2")
    made = json.loads(out.read_text())
    assert made["cached"] == [0, 64, 256] and made["new"] == [16, 128] and "256" in table
    assert all(len(row) == 2 and min(row) > 0 for row in made["us"])
    args = ["--generate", "zipf", "--requests", "2000", "--docs", "500", "--by", "path", "--top-k", "2"]
    plain = sim(*args, "--policy", "pgdsf", "--memory", "10%")
    made["us"] = [[us * 30 ** i for us in row] for i, row in enumerate(made["us"])] # behind others a token costs much more
    out.write_text(json.dumps(made))
    used = sim(*args, "--policy", "pgdsf", "--memory", "10%", "--profile", out)
    assert hits(plain) != hits(used)
    by_hand = tmp_path / "q.json"
    by_hand.write_text('{"cached": [0, 1000], "new": [1, 1001], "us": [[1000, 1001000], [1000, 1001000]]}')
    plan = ["--policy", "pgdsf", "--profile", by_hand, "--tiers", "device:1T", "--json"]
    row = json.loads(succeed("sim", *args, *plan))
    assert abs(row["ttft"] - (1 - row["hit_rate"]) * row["ttft_cold"]) < 0.3 * row["ttft_cold"]  # sizes differ
    refuse("profile", "-m", model, "-o", tmp_path / "none/p.json", "--cached", "0,16", "--new", "1,2",
           naming=["none/p.json"])
    refuse("profile", "-m", model, "--cached", "5,5", code=2, naming=["rising"])
    refuse("run", "-m", model, "--profile", tmp_path / "none.json", "-p", "hi", naming=["none.json"])


@pytest.mark.parametrize("given", ["{}/model//", "{}/model/.", "{}/model/inside/..", ".", "./"])
def test_slashes_and_dots_after_a_folder_are_no_part_of_its_name(given, make_model, tmp_path):
    """What is kept beside a model is beside its folder, whatever the folder is called."""
    shutil.copytree(make_model("tiny-llama3", folder=True), tmp_path / "model")
    (tmp_path / "model/inside").mkdir()
    succeed("profile", "-m", given.format(tmp_path), "--cached", "0,16", "--new", "1,2", "--rounds", "1", cwd=tmp_path / "model")
    assert json.loads((tmp_path / "model.profile.json").read_text())["model"] == "model"
    assert not list((tmp_path / "model").glob("*profile*")) and not list((tmp_path / "model").glob(".*"))


def test_the_engine_takes_every_policy():
    model = ROOT / "demo/model.gguf"
    for policy in ("lfu", "gdsf+ghosts", "pgdsf", "fr", "hazard"):
        assert succeed("run", "-m", model, "--evict", policy, "-n", "2", "-p", "Once upon a time")
    refuse("run", "-m", model, "--evict", "fifo", "-p", "hi", naming=["hazard"], code=2)


@pytest.mark.parametrize("by, policy", [("path", "prefix"), ("content", "full")])
def test_the_engine_finds_what_the_simulator_finds(by, policy, tmp_path):
    """Documents that the engine reuses whole, prompt by prompt, with room for all of them."""
    requests = [[(i * i + k * (1 + i % 3)) % 9 for k in range(3)] for i in range(24)]
    prompts = "".join(json.dumps({"system": "Be brief.", "question": "When?",
                                  "chunks": [{"title": f"T{d}", "text": f"Boat {d} leaves at {d} and docks."}
                                             for d in docs]}) + "\n" for docs in requests)
    done = subprocess.run([sys.executable, ROOT / "bench/trace.py", "-m", ROOT / "demo/model.gguf", "--reuse", policy,
                           "-n", "1"], input=prompts, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    out = done.stdout
    found = 0
    for line in out.splitlines():
        chunks = [s for s in json.loads(line)["segments"] if s["kind"] == "chunk"]
        assert len(chunks) == 3
        found += sum(s["reused"] == s["tokens"] for s in chunks)
    trace = write(tmp_path / "t.jsonl", [[f"d{d}" for d in docs] for docs in requests])
    assert found == hits(sim(trace, "--by", by, "--memory", "100000", "--policy", "lru"))["lru"] > 0


# -- several servers ---------------------------------------------------------------------------------

def fleet(*args):
    return [json.loads(line) for line in succeed("sim", *args, "--json").splitlines()]


def test_a_shared_tier_by_hand(tmp_path):
    """A document of 1,000 tokens: computed in a good second (c), loaded in 0.1 s and 20 ms; the servers' own tier is too small for it."""
    trace = write(tmp_path / "t.jsonl", "A" * 10, 1000)
    how = [trace, "--replicas", "3", "--router", "random", "--rate", "0.0001", "--kv-bytes", "1000", "--prefill", "1000", "--tiers", "device:1"]
    alone, = fleet(*how)
    c = alone["ttft_cold"]
    assert 1 <= c < 1.1 and alone["token_hit_rate"] == 0 and alone["ttft"] == pytest.approx(c) and alone["remote_bytes_read"] == 0
    shared, = fleet(*how, "--remote", "latency=20ms,bandwidth=10MB/s")
    assert shared["ttft"] == pytest.approx((c + 9 * 0.12) / 10) and shared["tiers"] == {"device": 0, "remote": 0.9}
    assert (shared["remote_bytes_written"], shared["remote_bytes_read"]) == (1e6, 9e6)
    slow, = fleet(*how, "--remote", "latency=20ms,bandwidth=0.5MB/s") # computing is sooner
    assert slow["ttft"] == pytest.approx(c) and slow["remote_bytes_read"] == 0 and slow["remote_bytes_written"] == 1e6
    in_us, = fleet(*how, "--remote", "latency=20000us,bandwidth=10MB/s")
    assert in_us["ttft"] == shared["ttft"]
    pairs = write(tmp_path / "p.jsonl", ["AB"] * 10, 1000)
    both, = fleet(pairs, *how[1:], "--remote", "latency=20ms,bandwidth=10MB/s")  # the latency counts once
    assert both["ttft"] == pytest.approx((both["ttft_cold"] + 9 * 0.22) / 10, rel=1e-5)
    own, = fleet(*how[:1], "--replicas", "1", *how[3:-1], "device:1G", "--remote", "latency=20ms,bandwidth=10MB/s")
    assert own["tiers"] == {"device": 0.9, "remote": 0} and own["remote_bytes_read"] == 0
    two = write(tmp_path / "two.jsonl", "AABB", 1000)  # of 1,000 GB each: there is room for one
    large, = fleet(two, *how[1:7], "--kv-bytes", "1000000000", "--tiers", "device:1",
                   "--remote", "latency=0s,bandwidth=1000TB/s,size=1T")
    assert large["tiers"]["remote"] == 0.5
    usual, = fleet(*how[:5], *how[7:])  # without --rate
    assert usual["rate"] == pytest.approx(0.7 * 3 / c, rel=1e-5)


def test_requests_wait_for_the_one_before(tmp_path):
    trace = write(tmp_path / "t.jsonl", "ABCDEFGHIJ", 1000)
    how = [trace, "--replicas", "1", "--router", "least", "--kv-bytes", "1000", "--prefill", "1000", "--tiers", "device:1"]
    apart, = fleet(*how, "--rate", "0.0001")
    at_once, = fleet(*how, "--rate", "1e6")
    c = apart["ttft_cold"]
    assert apart["ttft"] == pytest.approx(c) and apart["busy"] < 0.01
    assert at_once["ttft"] == pytest.approx(5.5 * c, rel=1e-3) and at_once["busy"] == pytest.approx(1, rel=1e-3)
    two, = fleet(*how[:2], "2", *how[3:], "--rate", "1e6")
    assert two["ttft"] == pytest.approx(3 * c, rel=1e-3) and two["busiest"] == 1
    assert two["busy"] == pytest.approx(1, rel=1e-3)


def test_a_hash_keeps_what_is_read_together(tmp_path):
    """Twelve sets of documents, each all fit the memory of a server: with a hash each is computed once, chance does not."""
    sets = [[f"{s}{k}" for k in range(4)] for s in "abcdefghijkl"]
    trace = write(tmp_path / "t.jsonl", [sets[(7 * i) % 12] for i in range(240)], 1000)
    rows = {r["router"]: r for r in fleet(trace, "--replicas", "6", "--kv-bytes", "1000", "--prefill", "100000", "--rate", "0.01",
                                          "--tiers", "device:64M")}
    assert set(rows) == {"random", "least", "hash", "bounded-hash"}
    assert rows["hash"]["token_hit_rate"] == rows["bounded-hash"]["token_hit_rate"] > 0.9
    assert rows["random"]["token_hit_rate"] < 0.75
    assert rows["hash"]["busiest"] > rows["random"]["busiest"] >= 1


def test_requests_without_documents_go_to_one_server(tmp_path):
    """A half of all requests: that server has it, and its share of the others. Nothing is read beyond the last document."""
    trace = write(tmp_path / "t.jsonl", [docs for i in range(200) for docs in ([], [f"d{i}"])])
    row, = fleet(trace, "--replicas", "4", "--router", "hash")
    assert row["busiest"] > 2


def test_the_bound_spreads_one_hot_set(tmp_path):
    trace = write(tmp_path / "t.jsonl", ["A"] * 300, 1000)
    how = [trace, "--replicas", "4", "--kv-bytes", "1000", "--prefill", "1000", "--tiers", "device:1", "--rate", "3"]
    rows = {r["router"]: r for r in fleet(*how)}
    assert rows["hash"]["busiest"] == 4 and rows["hash"]["ttft_p99"] > 3 * rows["bounded-hash"]["ttft_p99"]
    assert rows["bounded-hash"]["busiest"] <= 2.5


@pytest.mark.parametrize("options, words", [
    (["--replicas", "2", "--router", "magic"], ["magic", "bounded-hash"]), (["--replicas", "2", "--remote", "latency=2"], ["latency=2", "2ms"]),
    (["--replicas", "2", "--remote", "bandwidth=0"], ["bandwidth=0"]), (["--replicas", "2", "--remote", "speed=1"], ["speed=1"]),
    (["--router", "hash"], ["--replicas"]), (["--replicas", "-1"], ["--replicas"]), (["--replicas", "2", "--policy", "belady"], ["belady"]),
])
def test_wrong_fleets_are_named(tmp_path, options, words):
    trace = write(tmp_path / "t.jsonl", "AB")
    refuse("sim", trace, *options, naming=words, code=2)
