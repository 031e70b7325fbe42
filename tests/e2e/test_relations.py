"""What must hold between answers to requests that are drawn at random: a stream and the whole answer, a long and a short
one, with and without a stop text, through one API and another, computed and reused. SPOLIA_REQUESTS: how many a test."""
import json
import os
import random

import pytest
from conftest import CPU, EMULATED
from serving import MODEL, Server

N = int(os.environ.get("SPOLIA_REQUESTS", 2 if EMULATED or CPU == "ref" else 20))
WORDS = "The harbour keeper boats Anna Berg 1931 é naïve 日本語 🙂 Velm, ( ) \" \\ {x} <|im_end|> [TOOL_CALLS] Ωμέγα . Who is ?".split(" ")
TEXTS = ["The keeper of the lighthouse is called Anna Berg and came in 1931.", "日本語のテキスト。灯台の番人はアンナです。",
         "The harbour was built by the town in 1870 and has forty boats. 🙂"]
NUMBER = {"type": "integer", "minimum": 0, "maximum": 99}
TOOLS = [{"type": "function", "function": {"name": "count", "parameters": {
            "type": "object", "properties": {"day": {"enum": ["monday", "é"]}, "n": NUMBER}, "required": ["day"], "additionalProperties": False}}},
         {"type": "function", "function": {"name": "tides", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}]
FORMS = [{"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "array", "items": NUMBER}}}},
         {"guided_choice": ["yes", "né", "yesterday"]}, {"guided_regex": "[^0-9]{4,8}é"}, {"grammar": 'root ::= ("日" | "x" | "<think>"){1,6}'}]


@pytest.fixture(scope="module", params=["trained", "random"])
def server(request, make_model):
    """A random model writes all bytes: half characters, controls, NUL."""
    with Server("--reuse", "prefix", model=MODEL if request.param == "trained" else make_model("tiny-llama", n_ctx=4096)) as s:
        yield s


@pytest.fixture(params=range(N))
def r(request):
    return random.Random(request.param)


def words(r, n):
    return " ".join(r.choice(WORDS) for _ in range(r.randint(1, n)))


def some(r, chance, **fields):
    return {k: v for k, v in fields.items() if r.random() < chance}


def sampling(r):
    how = {"temperature": 0} if r.random() < .3 else {"temperature": r.choice([.5, 1, 2]), "seed": r.randint(1, 10**6)}
    return {"max_tokens": r.randint(1, 40), **how, **some(
        r, .2, top_k=r.choice([1, 5, 1000]), top_p=r.choice([.1, .9]), min_p=.1, repeat_penalty=1.3, frequency_penalty=r.choice([-1, 1]),
        presence_penalty=1, ignore_eos=True, logit_bias={str(r.choice([0, r.randrange(300)])): r.choice([-100, 5, 5]) for _ in range(3)},
        n=r.randint(2, 3), stop=[r.choice(["e", "é", " ", "ar"]), "a b"], cache_prompt=False)}


def completion(r):
    prompt = r.choice([words(r, 9), r.choice(TEXTS), [r.randrange(300) for _ in range(9)], [words(r, 3), words(r, 3)]])
    return "/v1/completions", {**sampling(r), "prompt": prompt, **some(r, .4, logprobs=r.randint(0, 5), echo=True),
                               **(r.choice(FORMS) if r.random() < .2 else {})}


def chat(r):
    talk = [{"role": "system", "content": words(r, 5)}] if r.random() < .5 else []
    for _ in range(r.choice([0, 0, 1])):
        talk += [{"role": "user", "content": words(r, 5)}, {"role": "assistant", "content": words(r, 5)}]
    ask = {**sampling(r), "messages": [*talk, {"role": "user", "content": words(r, 6)}]}
    ask |= some(r, .3, documents=r.sample(TEXTS, 2))
    ask |= {"logprobs": True, "top_logprobs": r.randint(0, 3)} if r.random() < .3 else {}
    if r.random() < .4:
        return "/v1/chat/completions", {**ask, "max_tokens": r.randint(5, 90), "tools": TOOLS, "tool_choice": r.choice(
            ["auto", "required", "required", {"type": "function", "function": {"name": "count"}}])}
    return "/v1/chat/completions", {**ask, **(r.choice(FORMS) if r.random() < .3 else {})}


def plain(c):
    """A choice, or what a stream has collected of it, without ids."""
    m = c.get("message", c)
    return {"text": m.get("content") or c.get("text") or "", "thought": m.get("reasoning_content") or "",
            "calls": [(t["function"]["name"], t["function"]["arguments"]) for t in m.get("tool_calls") or []],
            "finish": c["finish_reason"], "logprobs": {k: v for k, v in (c.get("logprobs") or {}).items() if v}}


def whole(server, path, body):
    """From a second request: it reuses the prompt, as those that it is compared with."""
    server.call(path, {**body, "max_tokens": 0})
    status, o = server.call(path, body)
    assert status == 200, o
    return [plain(c) for c in o["choices"]], o["usage"]


def streamed(server, path, body):
    status, text = server.call(path, {**body, "stream": True, "stream_options": {"include_usage": True}})
    assert status == 200, text
    events = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]
    found = {}
    for c in (c for e in events for c in e["choices"]):
        d, o = c.get("delta", c), found.setdefault(c["index"], {"content": "", "reasoning_content": "", "tool_calls": [], "logprobs": {}})
        assert not o.get("finish_reason"), "after the end"
        o["content"] += d.get("content") or d.get("text") or ""
        o["reasoning_content"] += d.get("reasoning_content") or ""
        for t in d.get("tool_calls") or []:
            if t["index"] == len(o["tool_calls"]):
                o["tool_calls"].append({"function": {"name": t["function"]["name"], "arguments": ""}})
            o["tool_calls"][t["index"]]["function"]["arguments"] += t["function"].get("arguments", "")
        for name, values in (c.get("logprobs") or {}).items():
            o["logprobs"][name] = (o["logprobs"].get(name) or []) + values if values is not None else None
        o["finish_reason"] = c["finish_reason"]
    return [plain(found[i]) for i in sorted(found)], next(e["usage"] for e in reversed(events) if e.get("usage"))


def is_broken(choice):
    """A call that a stop text ended: a stream has begun it, the whole answer has it as text."""
    try:
        return choice["finish"] == "stop" and [json.loads(a) for _, a in choice["calls"]] is None
    except ValueError:
        return True


def close(a, b):
    """Equal, with log probabilities up to the order of sums."""
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) < 2e-3
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(close, a, b))
    return a == b


@pytest.mark.parametrize("draw", [completion, chat])
def test_a_stream_is_the_answer(server, r, draw):
    path, ask = draw(r)
    answer, usage = whole(server, path, ask)
    pieces, counted = streamed(server, path, ask)
    for a, b in zip(answer, pieces, strict=True):
        assert is_broken(b) or close(a, b), ask
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert [usage[x] for x in names] == [counted[x] for x in names]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert all(a["finish"] in ("stop", "length", "tool_calls") for a in answer)


@pytest.mark.parametrize("draw", [completion, chat])
def test_a_part_begins_the_answer(server, r, draw):
    """With fewer tokens, and with a stop text that the answer has."""
    path, ask = draw(r)
    ask = {k: v for k, v in ask.items() if k not in ("stop", "tools", "tool_choice", "echo", "logprobs", "top_logprobs")}
    long, _ = whole(server, path, ask)
    short, _ = whole(server, path, {**ask, "max_tokens": r.randint(1, ask["max_tokens"])})
    for a, b in zip(long, short, strict=True):
        assert a["text"].startswith(b["text"].rstrip("\ufffd"))
    text = r.choice(long)["text"]
    at = r.randrange(len(text)) if text else 0
    stop = text[at:at + r.randint(1, 4)]
    if not stop.strip() or "\ufffd" in stop:
        return
    cut, _ = whole(server, path, {**ask, "stop": [stop, "no such text"]})
    for a, b in zip(long, cut, strict=True):
        assert b["text"] == a["text"].split(stop)[0] and b["finish"] == ("stop" if stop in a["text"] else a["finish"])


def test_each_api_says_the_same(server, r):
    path, ask = chat(r)
    for name in ("n", "logprobs", "top_logprobs", "response_format"):
        ask.pop(name, None)
    ((one,), usage) = whole(server, path, ask)
    calls = [(n, json.loads(a)) for n, a in one["calls"]] if one["finish"] != "length" else []
    want = one["text"], one["finish"], usage["completion_tokens"], calls
    tools, choice, stop = ask.pop("tools", None), ask.pop("tool_choice", None), ask.pop("stop", None)
    n, talk = ask.pop("max_tokens"), ask.pop("messages")
    functions = [t["function"] for t in tools or []]
    named = choice["function"]["name"] if isinstance(choice, dict) else None

    body = {**ask, "messages": [m for m in talk if m["role"] != "system"], "max_tokens": n, "stop_sequences": stop}
    if talk[0]["role"] == "system":
        body["system"] = talk[0]["content"]
    if tools:
        body |= {"tools": [{"name": f["name"], "input_schema": f["parameters"]} for f in functions],
                 "tool_choice": {"type": "tool", "name": named} if named else {"type": {"auto": "auto", "required": "any"}[choice]}}
    o = server.call("/v1/messages", body)[1]
    finish = {"max_tokens": "length", "tool_use": "tool_calls"}.get(o["stop_reason"], "stop")
    got = [(b["name"], b["input"]) for b in o["content"] if b["type"] == "tool_use"] if finish != "length" else []
    assert want == ("".join(b.get("text", "") for b in o["content"]), finish, o["usage"]["output_tokens"], got)

    body = {**ask, "input": talk, "max_output_tokens": n, "stop": stop}
    if tools:
        body |= {"tools": [{"type": "function", **f} for f in functions], "tool_choice": {"type": "function", "name": named} if named else choice}
    o = server.call("/v1/responses", body)[1]
    got = [(x["name"], json.loads(x["arguments"])) for x in o["output"] if x["type"] == "function_call"] if want[1] != "length" else []
    text = "".join(p["text"] for x in o["output"] if x["type"] == "message" for p in x["content"])
    assert want == (text, "length" if o["status"] == "incomplete" else "tool_calls" if got else "stop", o["usage"]["output_tokens"], got)


def test_accounts_add_up(server, r):
    path, ask = chat(r)
    ask = {**ask, "documents": r.sample(TEXTS, 2), "cache_salt": str(r.random())}
    answers = [server.call(path, {**ask, "cache_prompt": reused})[1] for reused in (True, True, False)]
    for o in answers:
        account, usage = o["spolia"], o["usage"]
        assert sum(s["tokens"] for s in account["segments"]) == usage["prompt_tokens"]
        assert sum(s["reused"] for s in account["segments"]) == usage["prompt_tokens_details"]["cached_tokens"]
        assert account["reused_tokens"] + account["computed_tokens"] == usage["prompt_tokens"]
        assert server.call(f"/v1/requests/{o['id']}/explain")[1]["segments"] == account["segments"]
    assert [o["spolia"]["reused_tokens"] > 0 for o in answers] == [False, True, False]
