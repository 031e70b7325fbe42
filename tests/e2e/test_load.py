"""bench/load.py: the load arrives as asked, what a server does is counted as what it is, and figures add up."""
import csv
import json
import subprocess
import sys

import pytest
from conftest import PROGRAM, ROOT, run
from peer import Peer
from serving import Server


def call(*options):
    command = [sys.executable, ROOT / "bench/load.py", "--spolia", PROGRAM, *options]
    return subprocess.run([str(x) for x in command], capture_output=True, text=True, timeout=300)


def turned_down(*options, naming, code=1):
    """One line says what is wrong."""
    done = call(*options)
    assert done.returncode == code, done
    assert len(done.stderr.splitlines()) == 1 and all(str(w) in done.stderr for w in naming), done.stderr


def load(*options, code=0):
    """Lines of JSON, and what was said."""
    done = call("--json", *options)
    assert done.returncode == code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def jsonl(path, *objects):
    path.write_text("".join(json.dumps(o) + "\n" for o in objects))
    return path


def trace_of(tmp_path):
    docs = jsonl(tmp_path / "docs.jsonl", *({"id": f"d{i}", "title": f"Title {i}", "text": f"Text {i}."} for i in range(9)))
    return ("--docs", docs, "--trace", jsonl(tmp_path / "trace.jsonl", *(
        {"question": f"What of {i}?", "doc_ids": [f"d{(i + k) % 9}" for k in range(3)]} for i in range(5))))


# -- what is sent ----------------------------------------------------------------------------------

@pytest.mark.parametrize("how", ["text", "field"])
def test_requests_of_a_trace(tmp_path, how):
    with Peer() as peer:
        rows, _ = load("--url", peer.url + "/v1/", *trace_of(tmp_path), "--requests", 7, "--rates", 0, "--concurrency", 1,
                       "--documents", how, "--key", "sk-1", "-n", 4, "--chunks", 2, "--extra", '{"top_k": 7}', "--ignore-end")
        assert rows[0]["answered"] == 7 and rows[0]["most_open"] == 1
        assert set(peer.keys) == {"Bearer sk-1"} and len(peer.asked) == 7
        for i, (path, body) in enumerate(peer.asked):
            i %= 5  # the trace starts over
            assert path == "/v1/chat/completions"
            assert body["stream"] and body["stream_options"]["include_usage"] and body["max_tokens"] == 4
            assert body["model"] == "first" and body["top_k"] == 7 and body["ignore_eos"] is True
            user = body["messages"][1]["content"]
            texts = [(f"Title {i + k}", f"Text {i + k}.") for k in range(2)]
            if how == "field":
                assert user == f"What of {i}?"
                assert [(d["title"], d["text"]) for d in body["documents"]] == texts
            else:
                assert user == "".join(f"{t}\n{x}\n\n" for t, x in texts) + f"What of {i}?" and "documents" not in body


def test_documents_of_an_index(tmp_path):
    (tmp_path / "a.txt").write_text("The lighthouse of Brix has a red door.\n")
    (tmp_path / "b.txt").write_text("The bakery of Brix opens at six.\n")
    assert run("index", tmp_path / "a.txt", tmp_path / "b.txt", "-o", tmp_path / "x.db").returncode == 0
    trace = jsonl(tmp_path / "q.jsonl", {"question": "When does the bakery open?"}, {"question": "zzzz"})
    with Peer() as peer:
        rows, _ = load("--url", peer.url, "--trace", trace, "--index", tmp_path / "x.db", "--requests", 2, "--chunks", 1)
        assert rows[0]["answered"] == 2  # the question without a document is skipped
        assert all("opens at six" in body["messages"][1]["content"] for _, body in peer.asked)


def test_documents_go_into_the_field_of_this_server(server):
    """--documents auto: it knows itself, and reuses them."""
    rows, _ = load("--url", "me=" + server.url, "--requests", 12, "--rates", 0, "--concurrency", 2, "--random-documents", 5,
                   "--words", 30, "-n", 6, "--ignore-end")
    row = rows[0]
    assert row["server"] == "me" and row["answered"] == 12 and row["most_open"] == 2 and row["error"] is None
    assert row["cached"] > 0.5
    assert 0 < row["ttft_ms"]["p50"] <= row["ttft_ms"]["p95"] <= row["ttft_ms"]["p99"] <= row["total_ms"]["p99"]
    assert abs(row["tokens_s"] * row["seconds"] - 12 * 6) < 1
    assert abs(row["requests_s"] * row["seconds"] - 12) < 0.1


# -- when it is sent -------------------------------------------------------------------------------

def test_arrivals_are_a_poisson_process():
    """400 arrivals at 200 a second last 2 s, give or take four standard deviations, or longer on a busy machine."""
    with Peer() as peer:
        rows, _ = load("--url", peer.url, "--requests", 400, "--rates", 200, "--words", 2, "--chunks", 1)
        assert rows[0]["answered"] == 400
        assert 1.6 < rows[0]["seconds"]


def test_waiting_for_a_free_place_counts():
    """Four at once, one at a time, 0.1 s each: the last one waits 0.3 s for its turn."""
    with Peer(delay=0.1) as peer:
        rows, _ = load("--url", peer.url, "--requests", 4, "--rates", 0, "--concurrency", 1)
        assert 230 < rows[0]["ttft_ms"]["mean"] and 390 < rows[0]["ttft_ms"]["p99"] + 10
    with Peer(delay=0.1, together=4) as peer:
        rows, _ = load("--url", peer.url, "--requests", 4, "--rates", 0)
        assert rows[0]["most_open"] == 4 and 100 <= rows[0]["ttft_ms"]["p50"]
        assert 0 < rows[0]["drain_s"] <= rows[0]["seconds"]  # it ends with its last answer


# -- what comes back -------------------------------------------------------------------------------

@pytest.mark.parametrize("mode, said", [
    ("status 500", "status 500: refused:"), ("no stream", "no stream of events"), ("an error event", "no memory"),
    ("no token", "before the first token"), ("broken stream", "status 200")])
def test_failures_are_counted(mode, said):
    with Peer(mode=mode) as peer:
        rows, errors = load("--url", peer.url, "--requests", 3, "--rates", 0, code=1)
        assert rows[0]["failed"] == 3 and rows[0]["answered"] == 0 and said in rows[0]["error"], rows
        assert "no request was answered" in errors
    with Peer(mode="fails later") as peer:
        rows, errors = load("--url", peer.url, "--requests", 5, "--rates", 0, "--concurrency", 1)
        assert rows[0]["answered"] == 3 and rows[0]["failed"] == 2 and "2 requests failed" in errors


def test_a_full_server_refuses():
    with Server("--parallel", 1, "--queue", 2) as s:
        rows, _ = load("--url", s.url, "--requests", 30, "--rates", 0, "-n", 400, "--ignore-end")
        assert rows[0]["refused"] > 0 and rows[0]["refused"] + rows[0]["answered"] == 30 and rows[0]["failed"] == 0


def test_clients_that_hang_up(server):
    rows, _ = load("--url", server.url, "--requests", 40, "--rates", 0, "--concurrency", 8, "--hang-up", 0.5, "-n", 400,
                   "--ignore-end", "--words", 5)
    # half of them after up to 200 events; of a server that is faster than its client an event has several tokens
    assert 1 <= rows[0]["left"] <= 32 and rows[0]["left"] + rows[0]["answered"] == 40 and rows[0]["failed"] == 0
    server.wait_for("num_requests_running", 0)


def test_servers_side_by_side(tmp_path, server):
    with Peer(delay=0.02) as peer:
        rows, _ = load("--url", "one=" + server.url, "--url", f"two={peer.url}", "--rates", "20,40", "--requests", 5,
                       "--warm", 2, "--factor", 100, "--csv", tmp_path / "x.csv")
    assert [(r["server"], r["rate"]) for r in rows[:4]] == [("one", 20), ("two", 20), ("one", 40), ("two", 40)]
    assert [r["server"] for r in rows[4:]] == ["one", "two"] and rows[5]["goodput"] == 40
    assert len(peer.asked) == 12
    with open(tmp_path / "x.csv", newline="") as f:
        lines = list(csv.DictReader(f))
    assert [(x["server"], float(x["rate"]), int(x["answered"])) for x in lines] == [
        (r["server"], r["rate"], 5) for r in rows[:4]]
    assert abs(float(lines[1]["ttft_ms"]) - rows[1]["ttft_ms"]["mean"]) < 0.01 and float(lines[1]["ttft_ms"]) >= 20


def test_a_server_that_falls_behind_gets_no_higher_rates():
    """50 ms each, one at a time: 10 a second are served as they come, 2,000 a second wait for each other."""
    options = ("--rates", "10,2000,4000", "--requests", 12, "--concurrency", 1, "--stop-beyond", "--by", "median")
    with Peer(delay=0.05) as peer:
        for _ in range(5):  # a busy machine may make both alike
            rows, _ = load("--url", peer.url, *options, "--factor", 2)
            if [r["rate"] for r in rows if "rate" in r] == [10, 2000]:
                break
        assert [r["rate"] for r in rows if "rate" in r] == [10, 2000]
        assert rows[-1]["goodput"] == 10 and rows[-1]["by"] == "median" and rows[-1]["reached_its_limit"]
        rows, _ = load("--url", peer.url, *options, "--factor", 1000)
        assert len(rows) == 4 and rows[-1]["goodput"] == 4000 and not rows[-1]["reached_its_limit"]


def test_the_time_of_a_rate_is_limited():
    with Peer(delay=0.4) as peer:
        rows, said = load("--url", peer.url, "--rates", "0", "--requests", 30, "--concurrency", 1, "--limit", 2)
        assert 1 <= rows[0]["answered"] <= 5 and rows[0]["answered"] + rows[0]["failed"] == 30
        assert "--limit" in rows[0]["error"] and "requests failed" in said


def test_wrong_usage(tmp_path, server):
    good = ("--url", server.url)
    turned_down(naming=["--url"], code=2)
    turned_down("--url", "ftp://x", naming=["http://"])
    turned_down("--url", "http://127.0.0.1:9", naming=["127.0.0.1:9"])
    turned_down(*good, "--trace", "x", naming=["--docs"], code=2)
    turned_down(*good, "--documents", "here", naming=["here"], code=2)
    turned_down(*good, "--rates", "1,-2", naming=["--rates"], code=2)
    turned_down(*good, "--hang-up", "1.5", naming=["range"], code=2)
    turned_down(*good, "--rates", "4,0.1", "--requests", "20", "--limit", "60", naming=["--limit", "0.1"], code=2)
    turned_down(*good, "--by", "mode", naming=["--by", "mode"], code=2)
    turned_down(*good, "--extra", "[1]", naming=["--extra"], code=2)
    docs = jsonl(tmp_path / "docs", {"id": "a", "text": "x"})
    turned_down(*good, "--docs", docs, "--trace", jsonl(tmp_path / "t", {"doc_ids": ["b"]}), naming=["line 1", "b", "--docs"])
    turned_down(*good, "--docs", docs, "--trace", jsonl(tmp_path / "t", {"doc_ids": 1}), naming=["line 1", "doc_ids"])
    turned_down(*good, "--docs", jsonl(tmp_path / "d", {"id": "a"}), "--trace", docs, naming=["line 1", "text"])
    turned_down(*good, "--csv", tmp_path / "no" / "x.csv", naming=["x.csv"])
