"""`spolia serve`: OpenAI's client unmodified, documents, tenants, limits, hostile requests, shutdown."""
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import openai
import pytest

from conftest import ROOT, refuse, succeed
from reference import random_model
from serving import LONG, MODEL, busy, chat, documents

# -- OpenAI's client -----------------------------------------------------------------------------


def test_models(server):
    models = server.client().models.list().data
    assert [m.id for m in models] == ["model.gguf"]
    assert server.client().models.retrieve("model.gguf").owned_by == "spolia"
    with pytest.raises(openai.NotFoundError):
        server.client().models.retrieve("another")


def test_documents_are_reused_whatever_their_order(server):
    one, two = documents("northern")
    ask = {**chat(), "extra_body": {"documents": [one, two]}}
    first = server.client().chat.completions.create(**ask)
    assert first.usage.prompt_tokens_details.cached_tokens == 0
    assert [d["missed"] for d in first.spolia["documents"]] == ["never seen"] * 2
    ask["extra_body"] = {"chat_template_kwargs": {"documents": [two, one]}}
    second = server.client().chat.completions.create(**ask)
    told = second.spolia["documents"]
    assert [d["id"] for d in told] == ["b", "a"]
    assert all(d["reused"] == d["tokens"] > 0 and d["from"] == "memory" for d in told)
    assert second.usage.prompt_tokens_details.cached_tokens >= sum(d["tokens"] for d in told)
    assert second.timings["cache_n"] + second.timings["prompt_n"] == second.usage.prompt_tokens


def test_known_chunks_are_found_in_plain_messages(server):
    one, two = documents("eastern")
    system = {"role": "system", "content": "Answer briefly."}
    ask = chat(documents=[one])
    server.call("/v1/chat/completions", {**ask, "messages": [system, *ask["messages"]]})
    text = {"role": "user", "content": f"[Harbour]\n{one['text']}\n\nWho came?"}
    _, answer = server.call("/v1/chat/completions", {**chat(), "messages": [system, text]})
    chunks = [s for s in answer["spolia"]["segments"] if s["kind"] == "chunk"]
    assert len(chunks) == 1 and chunks[0]["from"] == "memory"


def test_an_answer_is_that_of_ask(server, tmp_path):
    docs = ROOT / "demo/docs"
    succeed("index", docs, "-o", tmp_path / "i.db")
    question = json.loads((ROOT / "demo/questions.jsonl").read_text().splitlines()[0])["question"]
    out = json.loads(succeed("ask", "-m", MODEL, "--index", tmp_path / "i.db", "--reuse", "off", "--json", question))
    hits = json.loads(succeed("search", "--index", tmp_path / "i.db", "-k", "8", "--json", question))
    hits = sorted(hits, key=lambda h: h["id"])
    given = [{"title": h["title"], "text": h["text"]} for h in hits]
    _, answer = server.call("/v1/chat/completions", chat(question, documents=given, quality="exact", max_tokens=64))
    assert answer["choices"][0]["message"]["content"] == out["text"]
    assert answer["usage"]["prompt_tokens"] == out["usage"]["prompt_tokens"]


def test_a_stream_has_the_same_text(server):
    ask = chat(extra_body={"documents": documents("western")})
    whole = server.client().chat.completions.create(**ask).choices[0]
    events = list(server.client().chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    text = "".join(e.choices[0].delta.content or "" for e in events if e.choices)
    assert text == whole.message.content
    assert events[0].choices[0].delta.role == "assistant"
    assert events[-2].choices[0].finish_reason == whole.finish_reason
    assert events[-1].choices == [] and events[-1].usage.prompt_tokens_details.cached_tokens > 0
    assert events[-2].spolia["documents"][0]["from"] == "memory"


def test_several_choices(server):
    ask = {**LONG, "model": "any", "max_tokens": 6, "n": 3, "extra_body": {"top_k": 2000, "ignore_eos": True}}
    del ask["top_k"], ask["ignore_eos"]
    whole, one = server.client().completions.create(**ask), server.client().completions.create(**{**ask, "n": 1})
    choices = whole.choices
    assert [c.index for c in choices] == [0, 1, 2]
    assert whole.usage.prompt_tokens == one.usage.prompt_tokens  # read once
    assert whole.usage.completion_tokens == 3 * one.usage.completion_tokens == 18
    assert len({c.text for c in choices}) > 1
    assert [c.text for c in server.client().completions.create(**ask).choices] == [c.text for c in choices]
    streamed, n_timings = ["", "", ""], 0
    for event in server.client().completions.create(**ask, stream=True):
        n_timings += "timings" in event.model_extra
        for c in event.choices:
            streamed[c.index] += c.text
    assert n_timings == 1
    assert streamed == [c.text for c in choices]


def test_stop_and_length(server):
    ask = {**LONG, "max_tokens": 20}
    _, whole = server.call("/v1/completions", ask)
    text = whole["choices"][0]["text"]
    assert len(text) > 8
    _, cut = server.call("/v1/completions", {**ask, "stop": [text[3:6]]})
    assert cut["choices"][0]["text"] == text[:text.index(text[3:6])]
    assert cut["choices"][0]["finish_reason"] == "stop"
    _, short = server.call("/v1/completions", {**ask, "max_tokens": 2})
    assert short["usage"]["completion_tokens"] == 2 and short["choices"][0]["finish_reason"] == "length"


def test_warm_up_and_cache_prompt(server):
    docs = documents("southern")
    _, warm = server.call("/v1/chat/completions", {**chat(documents=docs), "max_tokens": None, "n_predict": 0})
    assert warm["usage"]["completion_tokens"] == 0
    _, answer = server.call("/v1/chat/completions", chat(documents=docs))
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    _, cold = server.call("/v1/chat/completions", chat(documents=docs, cache_prompt=False))
    assert cold["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


@pytest.mark.parametrize("share", [0.15, 0.3, 0.123456])
def test_the_account_has_the_share_as_it_was_given(share, server):
    reuse = {"mode": "fusion", "recompute": share}
    status, answer = server.call("/v1/chat/completions", chat(max_tokens=1, documents=documents("share"), reuse=reuse))
    assert status == 200 and answer["spolia"]["recompute"] == share


@pytest.mark.parametrize("more", [{"reuse": {"mode": "fusion", "recompute": 0.5}}, {"quality": "balanced"}])
def test_recomputation_is_accounted(server, more):
    docs = documents("old" if "reuse" in more else "new")
    server.call("/v1/chat/completions", chat(documents=docs))
    status, answer = server.call("/v1/chat/completions", chat("Which boats?", documents=docs[::-1], **more))
    assert status == 200
    assert answer["usage"]["prompt_tokens_details"]["recomputed_tokens"] > 0


def test_tokens(server):
    _, cut = server.call("/tokenize", {"content": "The harbour of the town: é 鳥"})
    assert cut["count"] == len(cut["tokens"]) > 0
    assert server.call("/detokenize", {"tokens": cut["tokens"]})[1]["content"].strip() == "The harbour of the town: é 鳥"
    n_vocab = server.call("/v1/models")[1]["data"][0]["meta"]["n_vocab"]
    assert server.call("/detokenize", {"tokens": [n_vocab - 1]})[0] == 200
    for ids in ([n_vocab], [-1], [10**9], ["a"], "a"):
        status, reply = server.call("/detokenize", {"tokens": ids})
        assert status == 400 and reply["error"]["param"] == "tokens"
    for name in ("content", "prompt"):
        status, reply = server.call("/tokenize", {name: 7})
        assert status == 400 and reply["error"]["param"] == name
        plain, special = (server.call("/tokenize", {name: "A boat", **more})[1]["count"] for more in ({}, {"add_special": True}))
        assert plain == server.call("/tokenize", {name: "A boat", "add_special_tokens": False})[1]["count"] <= special
    marked = server.call("/apply-template", chat("A boat"))[1]["prompt"]  # counted as a completion counts it, less BOS
    counts = [server.call("/tokenize", {"content": marked, **more})[1]["count"] for more in (
        {}, {"parse_special": True}, {"add_special": True}, {"add_special": True, "parse_special": False})]
    used = server.call("/v1/completions", {"prompt": marked, "max_tokens": 0})[1]["usage"]["prompt_tokens"]
    n_bos = server.call("/tokenize", {"content": "", "add_special": True})[1]["count"]
    assert counts == [counts[0], used - n_bos, used, counts[0] + n_bos] and counts[0] > used
    ids = {**LONG, "prompt": cut["tokens"], "max_tokens": 1}
    assert server.call("/v1/completions", ids)[1]["usage"]["prompt_tokens"] == cut["count"]


def test_ids_of_answers_are_the_server_s_own(start):
    """Of servers that start in the same second, too."""
    several = [start() for _ in range(3)]
    asked = [s.call(path, body)[1]["id"] for s in several for path, body in (
        ("/v1/chat/completions", chat()), ("/v1/rerank", {"query": "a", "documents": ["a", "b"]}))]
    assert len({i.partition("-")[2] for i in asked}) == len(asked), asked


def test_small_endpoints(server):
    assert server.call("/health") == (200, {"status": "ok"})
    assert server.call("/ping")[0] == 200
    assert server.call("/version")[1]["version"]
    before = server.metric("generation_tokens_total")
    _, answer = server.call("/v1/chat/completions", chat())
    assert server.metric("generation_tokens_total") == before + answer["usage"]["completion_tokens"]
    names = ("prompt_tokens_total", 'prompt_tokens_by_source_total{source="memory"}', "generation_tokens_total")
    before = [server.metric(name) for name in names]
    usage = server.call("/v1/chat/completions", chat(n=3))[1]["usage"]  # the prompt counts once
    added = [server.metric(name) - b for name, b in zip(names, before)]
    assert added == [usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], usage["completion_tokens"]]
    assert server.call("/nowhere")[0] == 404
    assert server.call("/v1/models", b"{}")[0] == 405


def test_the_example_for_python(server):
    done = subprocess.run([sys.executable, ROOT / "examples/openai_client.py", server.url + "/v1"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    told = re.findall(r"  \w+: (\d+) of (\d+) tokens reused (.+)", done.stdout)
    assert [t[2] for t in told] == ["never seen"] * 2 + ["memory"] * 2
    assert all(reused == total for reused, total, _ in told[2:])
    assert re.findall(r"\? (.+) \(", done.stdout) == ["March", "1987"]


# -- errors name the field -------------------------------------------------------------------------

@pytest.mark.parametrize("field, value, param", [
    ("n", 10**12, "n"), ("n", -1, "n"), ("n", 1.5, "n"), ("max_tokens", -5, "max_tokens"), ("max_tokens", "x", "max_tokens"),
    ("temperature", -1, "temperature"), ("temperature", "hot", "temperature"), ("top_p", 2, "top_p"), ("seed", "x", "seed"),
    ("stop", 7, "stop"), ("stop", ["a"] * 99, "stop"), ("stop", [1], "stop[0]"), ("stream", "yes", "stream"),
    ("messages", [], "messages"), ("messages", "hello", "messages"),
    ("messages", [{"role": "king", "content": ""}], "messages[0].role"),
    ("messages", [{"role": "user", "content": 7}], "messages[0].content"),
    ("messages", [{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content"),
    ("messages", [{"role": "user", "content": "word " * 9000}], "messages"), ("chat_template_kwargs", 7, "chat_template_kwargs"),
    ("documents", {}, "documents"), ("documents", [{"title": "x"}], "documents[0].text"),
    ("reuse", {"mode": "magic"}, "reuse.mode"), ("reuse", {"mode": "full", "recompute": 3}, "reuse"), ("quality", "best", "quality"),
    ("tools", [{"type": "function"}], "tools[0].function.name"), ("logprobs", 3, "logprobs"), ("logit_bias", {"999999": 1}, "logit_bias"),
    ("response_format", {"type": "xml"}, "response_format.type")])
def test_errors_name_the_field(server, field, value, param):
    status, answer = server.call("/v1/chat/completions", {**chat(), field: value})
    assert status == 400, answer
    assert answer["error"]["param"] == param and answer["error"]["type"] == "invalid_request_error"
    assert param.split("[")[0].split(".")[0] in answer["error"]["message"] or answer["error"]["code"] == "context_length_exceeded"


def test_a_prompt_over_the_context(server):
    with pytest.raises(openai.BadRequestError) as caught:
        server.client().chat.completions.create(**chat("word " * 9000))
    assert caught.value.code == "context_length_exceeded"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"nul", b'{"messages": "\xff\xfe"}', b"[" * 100000,
                                  b'{"a":' * 5000, b'{"prompt": "\\ud800"}', b'"' * 1000])
def test_bodies_that_are_no_request(server, body):
    status, answer = server.call("/v1/completions", body)
    assert status == 400 and answer["error"]["message"]
    assert server.call("/health")[0] == 200


# -- hostile connections ---------------------------------------------------------------------------

POST = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def receive(s):
    data = b""
    while True:
        try:
            piece = s.recv(65536)
        except ConnectionResetError:
            return data
        if not piece:
            return data
        data += piece


def test_a_body_over_the_limit(start):
    s = start("--body", 1)
    with s.socket() as c:
        c.sendall(POST + b"Content-Length: 99999999999\r\n\r\n")
        assert b" 413 " in receive(c)
    with s.socket() as c:  # one of the limit is read, and is no JSON
        c.sendall(POST + b"Connection: close\r\nContent-Length: 1048576\r\n\r\n" + b" " * 1048576)
        assert b" 400 " in receive(c)
    with s.socket() as c:
        c.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        piece = b"10000\r\n" + b" " * 65536 + b"\r\n"
        try:
            for _ in range(64):
                c.sendall(piece)
        except OSError:
            pass
        receive(c)
    assert s.call("/health")[0] == 200


@pytest.mark.parametrize("data", [b"\0" * 4000, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", POST + b"Content-Length: -1\r\n\r\n",
                                  POST + b"Content-Length: x\r\n\r\n", b"A" * 100000])
def test_what_is_no_http(server, data):
    with server.socket() as c:
        try:
            c.sendall(data)
            c.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        receive(c)
    assert server.call("/health")[0] == 200


def test_pipelined_requests(server):
    body = json.dumps({**LONG, "max_tokens": 1}).encode()
    one = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with server.socket() as c:
        c.sendall(one + one + b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert receive(c).count(b"HTTP/1.1 200") == 3


def test_a_client_that_is_too_slow_is_cut_off(start):
    s = start("--read-timeout", 1)
    with s.socket() as c:
        c.sendall(POST)
        end = time.time() + 300
        with pytest.raises(ConnectionError):
            while time.time() < end:
                c.sendall(b"X: y\r\n")
                time.sleep(0.1)
    assert s.call("/health")[0] == 200
    for tokens in (500, 1000, 2000, 3000):  # a client that waits longer for its answer is not
        began = time.time()
        status, answer = s.call("/v1/completions", {**LONG, "max_tokens": tokens})
        assert status == 200, answer
        if time.time() - began > 1.5:
            break


def test_idle_connections_are_limited(start):
    s = start("--connections", 20, "--read-timeout", 2)
    held = [s.socket() for _ in range(60)]
    end = time.time() + 300
    while not is_healthy(s):  # until idle ones have been closed
        assert time.time() < end
        time.sleep(0.2)
    for c in held:
        c.close()


def is_healthy(s):
    try:
        return s.call("/health")[0] == 200
    except OSError:
        return False


@pytest.mark.parametrize("stream", [False, True])
def test_hanging_up_cancels(start, stream):
    s = start("--parallel", 1, "-c", 4096)
    with busy(s, prompt="The " * 3000, stream=stream):
        pass
    s.wait_for("num_requests_running", 0)
    assert s.metric('request_success_total{finished_reason="canceled"}') >= 1
    assert s.call("/v1/completions", {**LONG, "max_tokens": 1})[0] == 200


def test_what_reading_takes_is_said_before_and_after(start):
    """/props guesses before the first answer; cold_ms is what reading everything takes, by what it took."""
    s = start("--reuse", "full")
    guess = s.call("/props")[1]["prefill"]
    assert guess["ms_per_token"] > 0 and not guess["measured"]
    ratios = []
    while len(ratios) < 5 or (not 0.4 < sorted(ratios[-5:])[2] < 2.5 and len(ratios) < 40):  # the machine may be busy for a while
        i = len(ratios)
        given = [{"text": f"Document {i} {k} has {i * 7 + k} boats. " + "The harbour is old. " * 60} for k in range(4)]
        cold, warm = (s.call("/v1/chat/completions", chat(q, documents=given, max_tokens=1))[1]["timings"] for q in ("Why?", "Who?"))
        assert cold["cold_ms"] == pytest.approx(cold["prompt_ms"], abs=0.01) or cold["cache_n"]
        assert warm["cache_n"] > 1000 and warm["cold_ms"] > 0
        ratios.append(warm["cold_ms"] / cold["prompt_ms"])
    measured = s.call("/props")[1]["prefill"]
    assert measured["measured"]
    assert 0.4 < sorted(ratios[-5:])[2] < 2.5, ratios
    assert guess["ms_per_token"] / 300 < measured["ms_per_token"] < guess["ms_per_token"] * 300  # a busy machine; a wrong unit is 1000
    assert s.call("/v1/completions", {"model": "any", "prompt": "No token.", "max_tokens": 0})[1]["timings"]["cold_ms"] is None


def test_what_clients_of_llama_cpp_ask(start):
    s = start("--parallel", 3, "--temp", 0.5, "--top-k", 7, "--top-p", 0.75, "--min-p", 0.25, "--repeat-penalty", 1.5,
              "--repeat-last-n", 9, "--seed", 5, "-n", 12, "--alias", "harbour")
    status, props = s.call("/props")
    assert status == 200 and props["total_slots"] == 3 and props["model_alias"] == "harbour"
    assert props["kv_bytes_per_token"] > 0
    assert props["default_generation_settings"]["n_ctx"] == s.call("/v1/models")[1]["data"][0]["max_model_len"]
    assert props["default_generation_settings"]["params"] == {
        "n_predict": 12, "seed": 5, "temperature": 0.5, "top_k": 7, "top_p": 0.75, "min_p": 0.25, "repeat_last_n": 9,
        "repeat_penalty": 1.5, "presence_penalty": 0, "frequency_penalty": 0}
    assert "<|im_start|>" in props["chat_template"]
    status, slots = s.call("/slots")
    assert status == 200 and [x["id"] for x in slots] == [0, 1, 2] and not any(x["is_processing"] for x in slots)
    with busy(s, running=3, n=15):
        assert [x["is_processing"] for x in s.call("/slots")[1]] == [True] * 3
    s.wait_for("num_requests_running", 0)
    for _ in range(20):  # on a busy machine both may end before they are seen
        thread = threading.Thread(target=s.call, args=("/v1/completions", {**LONG, "n": 2}))
        thread.start()
        seen = []
        while thread.is_alive() and seen != [True, True, False]:
            seen = [x["is_processing"] for x in s.call("/slots")[1]]
        thread.join()
        if seen == [True, True, False]:
            break
    assert seen == [True, True, False]


def test_a_full_queue_is_refused(start):
    s = start("--parallel", 1, "--queue", 0)
    with busy(s):
        with pytest.raises(openai.RateLimitError) as caught:
            s.client().completions.create(model="any", prompt="x")
        assert caught.value.response.headers["retry-after"] == "1"
    for _ in range(3):  # each gives back as many places as it has choices
        end = time.time() + 20
        while (status := s.call("/v1/completions", {**LONG, "max_tokens": 1, "n": 3})[0]) == 429 and time.time() < end:
            time.sleep(0.05)
        assert status == 200
    assert s.metric("requests_refused_total") >= 1


def test_many_streams_at_once(server):
    wrong = []

    def ask(i):
        try:
            docs = documents(f"number {i % 5}")
            events = list(server.client().chat.completions.create(**chat(extra_body={"documents": docs}), stream=True))
            if events[-1].choices[0].finish_reason not in ("stop", "length"):
                wrong.append(events[-1])
        except Exception as e:  # noqa: BLE001
            wrong.append(e)
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(40)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    server.wait_for("num_requests_running", 0)


# -- tenants ---------------------------------------------------------------------------------------


def test_tenants_share_nothing(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# tenants\nred\n\nblue\n")
    s = start("--api-keys", keys, "--reuse", "full", "--store", tmp_path / "store")
    assert s.call("/health")[0] == 200
    for key in (None, "green", "re", "redd"):
        assert s.call("/v1/models", key=key)[0] == 401
    with pytest.raises(openai.AuthenticationError):
        s.client("green").models.list()
    ask = chat(documents=documents("secret"))
    edited = chat(documents=[{**d, "text": d["text"] + " And more."} for d in documents("secret")])
    plain = chat("\n\n".join(f"[{d['title']}]\n{d['text']}" for d in documents("secret")) + "\n\nWho?")
    assert s.call("/v1/chat/completions", ask, "red")[1]["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert s.call("/v1/chat/completions", ask, "red")[1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    for body in (plain, edited, ask):
        told = s.call("/v1/chat/completions", body, "blue")[1]
        assert sum(seg["reused"] for seg in told["spolia"]["segments"][1:]) == 0 # blue's own system text is cached
        if body is not ask: # which begins like blue's own edited chunks
            assert {d["missed"] for d in told["spolia"]["documents"]} <= {"never seen"}
        assert body is not plain or all(seg["kind"] != "chunk" for seg in told["spolia"]["segments"])
    keys.write_text("blue\n")
    s.process.send_signal(signal.SIGHUP)
    end = time.time() + 300
    while s.call("/v1/models", key="red")[0] != 401:
        assert time.time() < end
        time.sleep(0.05)
    assert s.call("/v1/models", key="blue")[0] == 200


def test_refusals(tmp_path):
    (tmp_path / "empty").write_text("# none\n")
    refuse("serve", "-m", MODEL, "--port", "0", "--api-keys", tmp_path / "empty", naming=["empty", "no API key"])
    (tmp_path / "bytes").write_bytes(b"good\n\n# \xff\nb\x80d\n")
    refuse("serve", "-m", MODEL, "--port", "0", "--api-keys", tmp_path / "bytes", naming=["bytes, line 4", "byte 2", "0x80"])
    refuse("serve", "-m", MODEL, "--port", "70000", naming=["--port"], code=2)
    refuse("serve", "-m", MODEL, "--host", "256.1.1.1", naming=["256.1.1.1"])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refuse("serve", "-m", MODEL, "--port", taken.getsockname()[1], naming=[taken.getsockname()[1]])


def test_a_model_without_a_tokenizer_is_not_served(tmp_path):
    folder = tmp_path / "model"
    random_model.write_folder(folder, random_model.PRESETS["tiny-llama"], "f16")
    (folder / "tokenizer.json").unlink()
    refuse("serve", "-m", folder, "--port", 0, naming=[folder, "no tokenizer"])


# -- shutdown --------------------------------------------------------------------------------------


def test_shutdown_lets_answers_finish(start):
    s = start("--drain", 120)  # time enough for a build with sanitizers
    body = json.dumps({**LONG, "prompt": "The " * 200, "max_tokens": 1500, "stream": True}).encode()
    with s.socket() as c:
        c.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        c.recv(1, socket.MSG_PEEK)  # it has begun
        assert s.stop() == 0
        assert receive(c).count(b"data: [DONE]") == 1


def test_shutdown_without_time_cancels(start):
    s = start("--drain", 0, "--parallel", 1)
    with busy(s) as c:
        assert s.stop(signal.SIGINT) == 0
        assert b"[DONE]" not in receive(c)


def test_a_second_signal_ends_the_wait(start):
    s = start("--drain", 300, "--parallel", 1, "--stall-timeout", 600)
    with busy(s) as c:
        s.process.send_signal(signal.SIGTERM)
        while s.call("/health")[0] != 503:
            time.sleep(0.05)
        assert s.stop() == 0 and b"[DONE]" not in receive(c)


def test_priorities_and_deadlines(start):
    s = start("--parallel", 1)
    done = []

    def ask(name, **fields):
        status, answer = s.call("/v1/completions", {**LONG, "max_tokens": 800, **fields})
        done.append((name, status, answer))
    with busy(s) as c:
        others = s.metric("num_requests_waiting")  # the other answers of that stream
        threads = []
        waiting = [("late", {"max_wait_ms": 50}), ("low", {"priority": 5}), ("first", {"priority": -1})]
        for i, (name, fields) in enumerate(waiting):
            threads.append(threading.Thread(target=ask, args=(name,), kwargs=fields))
            threads[-1].start()
            if name == "late":
                threads[-1].join()
            else:
                s.wait_for("num_requests_waiting", others + i)
    for t in threads:
        t.join()
    assert [name for name, *_ in done] == ["late", "first", "low"]
    error = done[0][2]["error"]
    assert done[0][1] == 504 and error["code"] == "deadline_exceeded" and "50 ms" in error["message"]
    assert [status for _, status, _ in done[1:]] == [200, 200]
    status, answer = s.call("/v1/completions", {**LONG, "priority": "high"})
    assert status == 400 and answer["error"]["param"] == "priority"
