"""Replicas that share copies through a Redis server (--remote): what one has computed the others load."""
import json
import shutil
import signal
import time

import pytest

from conftest import ROOT, refuse, succeed
from support.redis_server import Redis
from serving import Server, chat, servers
from test_server_documents import register, send

pytestmark = pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is not installed")

def text_of(name):
    return f"The harbour of {name} was built by the town in 1870. It has room for forty boats, and in winter for ten. " * 6


@pytest.fixture
def redis():
    r = Redis()
    yield r
    r.stop()


@pytest.fixture
def replica(redis):
    """On slow kernels: computing a copy takes longer than a loaded machine needs to load it."""
    with servers("--reuse", "full") as run:  # a test may change redis.url
        yield lambda *options: run(*([] if "--remote" in options else ["--remote", redis.url]),
                                   *([] if "--cpu" in options else ["--cpu", "ref"]), *options)


def ask(server, *names, key=None, **more):
    documents = [{"id": n, "title": n, "text": text_of(n)} for n in names]
    status, o = server.call("/v1/chat/completions", chat(documents=documents, **more), key)
    assert status == 200, o
    return o


def sources(answer):
    return [d["from"] or d["missed"] for d in answer["spolia"]["documents"]]


def wait_for(what, seconds=300):
    end = time.time() + seconds
    while not what():
        assert time.time() < end, f"it has not happened within {seconds} s"
        time.sleep(0.05)


def wait_until_known(server, n):
    """Until the server has heard of n copies in the remote tier."""
    server.wait_for("remote_copies", n)


def load_by_another(start, n_copies, *requests):
    """A new replica that knows n_copies, and what it answers to requests, each some documents' names. Where a load is
    slower than computing, as on a busy machine, a copy is "late": then another replica is asked, up to eight."""
    for _ in range(8):
        late = start()
        wait_until_known(late, n_copies)
        answers = [ask(late, *names) for names in requests]
        if not any("late" in sources(a) for a in answers):
            break
    return late, answers


def read_by_another(start, names, n_copies):
    """What a new replica answers about each document by its copy in the remote tier."""
    _, answers = load_by_another(start, n_copies, *((name,) for name in names))
    assert [sources(a) for a in answers] == [["remote"]] * len(names)
    return dict(zip(names, answers))


def tiers_of(server):
    """Of the plain copies of documents, which are below the system prompt."""
    (head,) = server.call("/v1/copies")[1]["data"]
    below = server.call(f"/v1/copies?parent={head['name']}")[1]["data"]
    return [c["tiers"] for c in below if c["kind"] == "plain"]


def test_what_one_computed_the_other_reuses(redis, replica):
    one, two = replica(), replica()
    first = ask(one, "Velm", "Torin")
    assert sources(first) == ["never seen", "never seen"]
    wait_until_known(two, 2)
    assert redis.copies() == 2 and two.metric("remote_answers") == 1
    again = ask(two, "Torin", "Velm")
    assert sources(again) == ["remote", "remote"]
    assert all(d["reused"] == d["tokens"] for d in again["spolia"]["documents"])
    assert two.metric('prompt_tokens_by_source_total{source="remote"}') == sum(d["tokens"] for d in again["spolia"]["documents"])
    assert sources(ask(two, "Velm", "Torin")) == ["memory", "memory"]
    assert tiers_of(two) == [["memory", "remote"]] * 2
    same = ask(one, "Torin", "Velm")
    assert same["choices"][0]["message"]["content"] == again["choices"][0]["message"]["content"]
    read_by_another(replica, ["Velm"], 2) # the index that is there when it starts


def test_other_kernels_and_other_keys_have_copies_of_their_own(redis, replica, tmp_path):
    keys = [tmp_path / name for name in ("ours", "theirs")]
    for k in keys:
        k.write_text(k.name * 10)
    one, two = (replica("--remote-key-file", k) for k in keys)
    others = replica("--cpu", "avx2"), replica("--cpu", "avx2", "--exact-products")
    ask(one, "Velm")
    wait_until_known(two, 1)
    other = ask(two, "Velm")
    assert sources(other) != ["memory"] and other["spolia"]["reused_tokens"] < 40 # computed: the copy is not authentic
    assert other["choices"][0]["message"]["content"] == ask(one, "Velm")["choices"][0]["message"]["content"]
    for other in others:
        n = redis.copies()
        assert sources(ask(other, "Velm")) == ["never seen"]
        wait_for(lambda: redis.copies() == n + 1)
    assert "not authentic" in two.read_log()
    keyless = replica()
    wait_until_known(keyless, 1)
    assert ask(keyless, "Velm")["spolia"]["documents"][0]["missed"] == "damaged"
    assert "--remote-key-file" in keyless.read_log()


def test_tenants_do_not_share(redis, replica, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("anna-key\nbert-key\n")
    one, two = replica("--api-keys", keys), replica("--api-keys", keys)
    ask(one, "Velm", key="anna-key")
    two.key = "anna-key"
    wait_until_known(two, 1)
    assert sources(ask(two, "Velm", key="bert-key")) == ["never seen"]
    assert sources(ask(two, "Velm", key="anna-key")) == ["remote"]


def test_smaller_forms_are_read_by_everybody(redis, replica):
    ways = {"Velm": [], "Torin": ["--remote-kv", "q8_0"], "Asker": ["--remote-compress", "3"],
            "Brin": ["--remote-kv", "q8_0", "--remote-compress", "3"]}
    sizes, wanted = {}, {}
    for name, options in ways.items():
        wanted[name] = ask(replica(*options), name)["choices"][0]["message"]["content"]
        wait_for(lambda: redis.copies() == len(wanted))
        sizes[name] = int(redis.do("EVAL", "local n = 0 for _, k in ipairs(redis.call('KEYS', 'SPOLIA:*:copy:*')) do "
                                   "if not k:find(':lock$') then n = n + redis.call('HSTRLEN', k, '0') end end return n",
                                   "0").lstrip(":")) - sum(sizes.values())
    assert sizes["Torin"] < 0.6 * sizes["Velm"] and sizes["Asker"] < sizes["Velm"] and sizes["Brin"] <= sizes["Torin"]
    for options in ways.values():
        again = read_by_another(lambda: replica(*options), ways, 4)  # noqa: B023
        assert all(again[n]["choices"][0]["message"]["content"] == wanted[n] for n in ("Velm", "Asker"))
    done = json.loads(succeed("cache", "verify", "--remote", redis.url, "--json"))
    assert (done["copies"], done["damaged"]) == (4, 0)


def test_heads_that_q8_0_cannot_have_are_shared_as_they_are(redis, make_model):
    model = make_model("tiny-llama-mha")  # 16 values a head
    with servers("--reuse", "full", "--cpu", "ref", "--remote", redis.url) as run:
        one, two = (run(model=model) for _ in range(2))
        document = [{"text": "Two boats leave at nine."}]
        status, first = one.call("/v1/chat/completions", chat(documents=document))
        assert status == 200, first
        wait_until_known(two, 1)
        answers = [first, two.call("/v1/chat/completions", chat(documents=document))[1]]
        assert [sources(a) for a in answers] == [["never seen"], ["remote"]]
        assert answers[0]["choices"] == answers[1]["choices"]
    refuse("run", "-m", model, "--remote", redis.url, "--remote-kv", "q8_0", "-p", "x", naming=["q8_0", "32"])


def test_a_deleted_document_leaves_the_remote_tier(redis, replica):
    one = replica()
    register(one, "velm", text_of("Velm"))
    ask(one, "Torin")
    status, o = send(one, "POST", "/v1/chat/completions", chat(documents=[{"id": "velm"}]))
    assert status == 200, o
    wait_for(lambda: redis.copies() == 2)
    assert send(one, "DELETE", "/v1/documents/velm")[0] == 200
    assert redis.copies() == 1


@pytest.mark.parametrize("where", ["memory", "file"])
def test_a_deletion_that_nobody_will_continue_is_told_at_the_end(redis, replica, tmp_path, where):
    options = () if where == "memory" else ("--documents", tmp_path / "documents.db")
    one = replica(*options)
    register(one, "velm", text_of("Velm"))
    assert send(one, "POST", "/v1/chat/completions", chat(documents=[{"id": "velm"}]))[0] == 200
    wait_for(lambda: redis.copies() == 1)
    redis.process.send_signal(signal.SIGSTOP)
    status, o = send(one, "DELETE", "/v1/documents/velm")
    assert status == 500 and "no answer in time" in o["error"]["message"], o
    assert one.stop() == 0, one.said
    assert ("1 deleted document may have copies" in one.said) == (where == "memory"), one.said
    redis.process.send_signal(signal.SIGCONT)
    if where == "file":
        replica(*options)
        wait_for(lambda: redis.copies() == 0)
    else:
        two = replica()
        wait_until_known(two, 1)
        register(two, "velm", text_of("Velm"))
        assert send(two, "DELETE", "/v1/documents/velm")[0] == 200 and redis.copies() == 0
        assert two.stop() == 0 and "deleted document" not in two.said


def test_a_server_that_hangs_or_dies_costs_no_answer(redis, replica):
    one = replica("--load-timeout", "1000")
    wanted = ask(one, "Velm", "Torin")["choices"][0]["message"]["content"]
    wait_for(lambda: redis.copies() == 2)
    two = replica("--load-timeout", "1000")
    wait_until_known(two, 2)
    redis.process.send_signal(signal.SIGSTOP)
    for _ in range(3):
        assert ask(two, "Velm", "Torin")["choices"][0]["message"]["content"] == wanted
    ask(two, "Elsewhere")
    redis.stop()
    assert ask(two, "Another")["choices"][0]["message"]["content"]
    redis.start()
    ask(two, "New")
    end = time.time() + 300
    while redis.copies() == 0: # it is found again, and takes copies
        assert time.time() < end, "the mended server takes no copies"
        ask(two, f"Place {time.time()}")
        time.sleep(0.2)
    assert "the remote tier does not answer: redis at " in two.read_log()


def test_a_server_that_hangs_while_it_takes_a_copy_keeps_no_request_out(redis):
    one = Server("--reuse", "full", "--remote", redis.url, "--kv-memory", "1", "--ctx-size", "512", "--parallel", "1",
                 "--load-timeout", "40000")
    ask(one, "Velm")
    wait_for(lambda: redis.copies() == 1)
    redis.process.send_signal(signal.SIGSTOP)
    for name in ("Torin", "Asker", "Brin"):  # each needs the memory that the put of the first one still reads
        assert ask(one, name * 7)["timings"]["queue_ms"] < 8000  # Redis is given up after 20 s
    redis.process.send_signal(signal.SIGCONT)
    assert one.stop() == 0, one.said
    assert "Sanitizer" not in one.said, one.said


def test_a_server_that_ends_hands_over_what_the_others_lack(redis, replica):
    redis.stop()
    one = replica("--drain", "600")
    first = ask(one, "Velm", "Torin") # Redis is not there to take the copies
    redis.start()
    one.wait_for("remote_answers", 1)
    assert redis.copies() == 0
    assert one.stop() == 0, one.said
    assert redis.copies() == 2 and "handed over" not in one.said
    _, [again] = load_by_another(replica, 2, ("Torin", "Velm"))
    assert sources(first) == ["never seen", "never seen"] and sources(again) == ["remote", "remote"]


def test_a_server_that_ends_does_not_wait_for_one_that_is_gone(redis, replica):
    one = replica("--drain", "600")
    redis.stop()
    ask(one, "Velm")
    assert one.stop(seconds=300) == 0 # of the 600 that it may take
    assert "not all copies were handed over" in one.said
    redis.start() # for the fixture


@pytest.mark.parametrize("options, words, code", [
    (["--remote", "http://x"], ["redis://"], 2), (["--remote", "redis://h:99999"], ["--remote: ", "port"], 2),
    (["--remote", "redis://h/x"], ["--remote: ", "database"], 2), (["--remote", "s3://X"], ["--remote: ", "bucket"], 2),
    (["--remote", "redis://127.0.0.1:1", "--remote-key-file", "/no/such/key"], ["/no/such/key", "key"], 1),
    (["--remote", "redis://127.0.0.1:1", "--remote-kv", "q4_0"], ["--remote-kv", "q4_0", "q8_0"], 2),
    (["--remote-kv", "f16"], ["--remote-kv"], 2), (["-ctk", "x"], ["--ctk"], 2), (["-ctv", "x"], ["--ctv"], 2), (["--host-kv", "x"], ["--host-kv"], 2),
    (["--host-evict", "x"], ["--host-evict"], 2), (["--store-evict", "x"], ["--store-evict"], 2),
    (["--remote", "redis://127.0.0.1:1", "--remote-compress", "99"], ["--remote-compress", "from 0 to 19"], 2),
])
def test_wrong_options_are_named(options, words, code):
    refuse("run", "-m", ROOT / "demo/model.gguf", *options, "-p", "x", naming=words, code=code)


@pytest.mark.parametrize("command", [["serve"], ["chat"], ["ask", "-i", "/nowhere.db", "Who?"]])
def test_what_can_never_be_right_is_wrong_usage(command):
    for options in (["--remote", "redis://h:99999"], ["--remote", "s3://X"], ["--remote", "redis://h", "--remote-kv", "q4_0"]):
        refuse(command[0], "-m", ROOT / "demo/model.gguf", *command[1:], *options, naming=[options[-2]], code=2)


def test_a_server_of_copies_that_can_never_be_right_is_wrong_usage():
    for url in ("redis://h:99999", "s3://X", "x"):
        refuse("cache", "list", "--remote", url, naming=["--remote: "], code=2)


def test_a_key_that_is_too_short_is_named(tmp_path):
    (tmp_path / "key").write_text("short")
    refuse("run", "-m", ROOT / "demo/model.gguf", "--remote", "redis://127.0.0.1:1", "--remote-key-file", tmp_path / "key", "-p", "x",
           naming=[tmp_path / "key", "16 to 64"])


def test_passwords_are_not_shown():
    r = Redis(password="s3cret")
    try:
        name = r.url.removeprefix("redis://")
        for form in ((), ("--json",)):
            said = succeed("cache", "list", "--remote", f"redis://:s3cret@{name}", *form)
            assert name in said and "s3cret" not in said
    finally:
        r.stop()


def test_without_a_server_everything_works():
    s = Server("--reuse", "full", "--remote", "redis://127.0.0.1:1")
    assert sources(ask(s, "Velm")) == ["never seen"] and sources(ask(s, "Velm")) == ["memory"]
    assert s.stop() == 0
    assert "remote tier does not answer" in s.said
