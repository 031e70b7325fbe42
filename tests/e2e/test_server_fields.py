"""`spolia serve`: the fields that shape an answer (JSON, logit_bias, logprobs, echo, ...), in answers and in streams."""
import json
import math
import random
import re

import pytest

from conftest import ROOT, random_model, succeed
from reference import gguf_writer, vocab
from reference.gguf import read
from serving import LONG, MODEL, Server, chat

SCHEMA = {"type": "object", "additionalProperties": False, "required": ["name", "boats"],
          "properties": {"name": {"type": "string", "maxLength": 12}, "boats": {"type": "integer"}}}
TEXT = {"prompt": "The harbour", "temperature": 0, "max_tokens": 6, "min_tokens": 6}
TIDES = {"type": "function", "function": {"name": "tides", "parameters": {"type": "object", "properties": {}}}}
WARM = {"temperature": 1, "top_k": 1000, "seed": 4}


def events(server, path, body):
    """The JSON of each event of a stream, which must end with [DONE]."""
    status, text = server.call(path, {**body, "stream": True})
    assert status == 200, text
    data = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
    assert data.pop() == "[DONE]"
    return [json.loads(d) for d in data]


def is_boats(text):
    found = json.loads(text)
    return list(found) == ["name", "boats"] and isinstance(found["name"], str) and isinstance(found["boats"], int)


def test_system_texts_at_the_beginning_are_one(server):
    """Of a system and a developer message, and the tools: a paragraph each."""
    def text(*roles, **fields):
        messages = [{"role": role, "content": f"Text {i}."} for i, role in enumerate(roles)]
        return server.call("/apply-template", {"messages": messages, **fields})[1]["prompt"]
    begin = "<|im_start|>system\nText 0."
    assert text("developer", "user") == text("system", "user")
    assert text("system", "user").startswith(begin + "<|im_end|>")
    assert text("system", "developer", "user").startswith(begin + "\n\nText 1.<|im_end|>")
    assert text("system", "user", tools=[TIDES]).startswith(begin + "\n\n# Tools\n\n")


@pytest.mark.parametrize("role", ["user", "system", "assistant"])
def test_a_message_has_content(server, role):
    """An assistant's may lack it: it has called tools."""
    for message in ({"role": role, "content": None}, {"role": role}):
        body = {"messages": [{"role": "user", "content": "Boats?"}, message], "max_tokens": 1}
        if role == "assistant":
            body["messages"].append({"role": "user", "content": "Hotels?"})
        status, o = server.call("/v1/chat/completions", body)
        assert status == 200 if role == "assistant" else (status, o["error"]["param"]) == (400, "messages[1].content"), o


@pytest.mark.parametrize("field, value", [
    ("response_format", {"type": "json_schema", "json_schema": {"name": "boats", "strict": True, "schema": SCHEMA}}),
    ("response_format", {"type": "json_object", "schema": SCHEMA}),
    ("json_schema", SCHEMA), ("guided_json", SCHEMA), ("guided_json", json.dumps(SCHEMA)),
    ("structured_outputs", {"json": SCHEMA})])
def test_a_schema_holds(server, field, value):
    ask = {**chat(max_tokens=300, n=2), **WARM, field: value}
    status, answer = server.call("/v1/chat/completions", ask)
    assert status == 200, answer
    for choice in answer["choices"]:
        assert choice["finish_reason"] == "stop" and is_boats(choice["message"]["content"])
    text = "".join(e["choices"][0]["delta"].get("content", "")
                   for e in events(server, "/v1/chat/completions", {**ask, "n": 1}))
    assert is_boats(text)


def test_openai_parses_a_class(server):
    pydantic = pytest.importorskip("pydantic")

    class Boats(pydantic.BaseModel):
        name: str = pydantic.Field(max_length=9)
        boats: int
    answer = server.client().chat.completions.parse(**chat(max_tokens=600, seed=1, temperature=1), response_format=Boats)
    assert isinstance(answer.choices[0].message.parsed, Boats)


def test_any_object_and_choices(server):
    ask = {**chat(max_tokens=500), **WARM}
    for field in ({"response_format": {"type": "json_object"}}, {"structured_outputs": {"json_object": True}}):
        _, answer = server.call("/v1/chat/completions", {**ask, **field, "seed": 5})
        choice = answer["choices"][0]
        assert choice["message"]["content"].lstrip()[:1] == "{"
        assert choice["finish_reason"] == "length" or isinstance(json.loads(choice["message"]["content"]), dict)
    for field in ({"guided_choice": ["yes", "no"]},
                  {"structured_outputs": {"choice": ["yes", "no"], "json_object": False}}):
        _, answer = server.call("/v1/chat/completions", {**ask, **field})
        assert answer["choices"][0]["message"]["content"] in ("yes", "no")


@pytest.mark.parametrize("field, value, pattern", [
    ("grammar", 'root ::= year "-" [0-9]{2}\nyear ::= "20" [0-9] [0-9]', r"20\d\d-\d\d"),
    ("guided_grammar", 'root ::= ("a" | "é")+ "."', "[aé]+\\."),
    ("structured_outputs", {"grammar": 'root ::= "x"{3}'}, "xxx"),
    ("guided_regex", r"(\d{1,3}\.){3}\d{1,3}", r"(\d{1,3}\.){3}\d{1,3}"),
    ("structured_outputs", {"regex": r"[A-Z]\w{2,5}: (?:yes|no)"}, r"[A-Z][A-Za-z0-9_]{2,5}: (yes|no)")])
def test_grammars_and_expressions(server, field, value, pattern):
    ask = {**chat(max_tokens=120), **WARM, field: value}
    status, answer = server.call("/v1/chat/completions", ask)
    assert status == 200, answer
    choice = answer["choices"][0]
    cut = choice["finish_reason"] == "length" and field == "guided_grammar"  # it may repeat as often as it likes
    assert cut or (choice["finish_reason"] == "stop" and re.fullmatch(pattern, choice["message"]["content"])), choice


def test_errors_of_grammars_name_line_and_column(server):
    for field, value, said in (("grammar", "root ::= a\na ::= [b", "line 2, column 7"), ("guided_regex", r"(a)\1", "column 4")):
        status, answer = server.call("/v1/chat/completions", {**chat(), field: value})
        assert status == 400 and answer["error"]["param"] == field and said in answer["error"]["message"]


def test_errors_of_sparse_decoding_name_the_field(server):
    for value in ("nonsense", "sparse:0%", "sparse:10%,depth=x"):
        status, answer = server.call("/v1/chat/completions", {**chat(), "decode": value})
        assert status == 400 and answer["error"]["param"] == "decode", answer


def test_tokens_that_end_an_answer(server):
    boats = server.call("/tokenize", {"content": " boats"})[1]["tokens"][0]
    ask = {**TEXT, "logprobs": 0, "min_tokens": 0, "ignore_eos": True, "logit_bias": {str(boats): 100}}
    named = {**ask, "stop_token_ids": [boats, 0]}
    choice = server.call("/v1/completions", ask)[1]["choices"][0]
    assert choice["finish_reason"] == "length" and len(choice["logprobs"]["tokens"]) == 6
    word = choice["logprobs"]["tokens"][0]
    choice = server.call("/v1/completions", named)[1]["choices"][0]
    assert choice["finish_reason"] == "stop" and choice["text"] == ""
    choice = server.call("/v1/completions", {**named, "min_tokens": 3})[1]["choices"][0]
    assert choice["finish_reason"] == "stop" and len(choice["logprobs"]["tokens"]) == 3
    assert word not in choice["logprobs"]["tokens"]
    status, answer = server.call("/v1/completions", {**ask, "stop_token_ids": [10 ** 8]})
    assert status == 400 and answer["error"]["param"] == "stop_token_ids"
    n = int(answer["error"]["message"].split("there are ")[1])
    assert server.call("/v1/completions", {**TEXT, "stop_token_ids": [n - 1], "logit_bias": {str(n - 1): 1}})[0] == 200
    assert server.call("/v1/completions", {**TEXT, "stop_token_ids": [n]})[0] == 400
    status, answer = server.call("/v1/completions", {**TEXT, "logit_bias": {str(n): 1}})
    assert status == 400 and answer["error"]["param"] == "logit_bias"


FIM = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]


def model_that_fills_in_the_middle(folder, monkeypatch):
    """A random model with the tokens FIM."""
    def with_marks(shape):
        v = random_vocab(shape)
        v.tokens[-6:-3], v.types[-6:-3] = FIM, [vocab.CONTROL] * 3  # of the last merges
        v.merges = v.merges[:-3]
        return v
    random_vocab = random_model.vocabulary
    monkeypatch.setattr(random_model, "vocabulary", with_marks)
    random_model.write_gguf(folder / "fim.gguf", random_model.PRESETS["tiny-qwen2"], "q8_0")
    return folder / "fim.gguf"


def test_suffix_needs_a_model_that_fills_in_the_middle(server, tmp_path, monkeypatch):
    status, answer = server.call("/v1/completions", {**TEXT, "suffix": " wall."})
    assert status == 400 and answer["error"]["param"] == "suffix" and "fill in the middle" in answer["error"]["message"]
    status, answer = server.call("/v1/completions", {**TEXT, "suffix": " wall.", "echo": True})
    assert status == 400 and "not with echo" in answer["error"]["message"]
    with Server("-m", model_that_fills_in_the_middle(tmp_path, monkeypatch)) as s:
        ask = {"prompt": "The old", "suffix": " wall.", "max_tokens": 3, "min_tokens": 3, "temperature": 0}
        status, answer = s.call("/v1/completions", ask)
        assert status == 200, answer
        same = f"{FIM[0]}The old{FIM[1]} wall.{FIM[2]}"
        _, plain = s.call("/v1/completions", {**ask, "prompt": same, "suffix": None})
        assert answer["choices"][0]["text"] == plain["choices"][0]["text"]
        n = len(s.call("/tokenize", {"content": "The old"})[1]["tokens"] + s.call("/tokenize", {"content": " wall."})[1]["tokens"])
        assert answer["usage"]["prompt_tokens"] == n + 3
        assert s.call("/v1/completions", {**ask, "prompt": [1, 2]})[0] == 400
        assert s.call("/v1/chat/completions", {**chat(), "suffix": "x"})[0] == 400


def test_biases_choose_and_forbid(server):
    ask = TEXT
    wanted = server.call("/tokenize", {"content": " boats"})[1]["tokens"][0]
    _, answer = server.call("/v1/completions", {**ask, "logit_bias": {str(wanted): 100}, "logprobs": 0})
    assert len(set(answer["choices"][0]["logprobs"]["tokens"])) == 1
    _, first = server.call("/v1/completions", {**ask, "logprobs": 0})
    common = server.call("/tokenize", {"content": first["choices"][0]["logprobs"]["tokens"][0]})[1]["tokens"]
    for bias in ({str(t): -100 for t in common}, [[t, False] for t in common]):
        _, other = server.call("/v1/completions", {**ask, "logit_bias": bias, "logprobs": 0})
        assert first["choices"][0]["logprobs"]["tokens"][0] not in other["choices"][0]["logprobs"]["tokens"]


def test_logprobs_of_chat(server):
    ask = {**chat(max_tokens=6), "logprobs": True, "top_logprobs": 3, "extra_body": {"min_tokens": 6}}
    whole = server.client().chat.completions.create(**ask).choices[0]
    tokens = whole.logprobs.content
    assert len(tokens) == 6 and all(len(t.top_logprobs) == 3 for t in tokens)
    assert all(t.token == t.top_logprobs[0].token and t.logprob == t.top_logprobs[0].logprob for t in tokens) # greedy
    assert b"".join(bytes(t.bytes) for t in tokens).decode().strip() == whole.message.content.strip()
    assert sum(math.exp(t.logprob) for t in tokens[0].top_logprobs) <= 1.0001
    streamed = [t for e in server.client().chat.completions.create(**ask, stream=True)
                for t in (e.choices[0].logprobs.content if e.choices and e.choices[0].logprobs else [])]
    assert [(t.token, t.logprob) for t in streamed] == [(t.token, t.logprob) for t in tokens]


def test_logprobs_of_completions(server):
    ask = {**TEXT, "logprobs": 2}
    choice = server.call("/v1/completions", ask)[1]["choices"][0]
    told = choice["logprobs"]
    assert "".join(told["tokens"]) == choice["text"]
    assert all(p <= max(top.values()) <= 0 and len(top) <= 3 for p, top in zip(told["token_logprobs"], told["top_logprobs"]))
    assert told["text_offset"] == [len("".join(told["tokens"][:i])) for i in range(6)]
    pieces = [e["choices"][0]["logprobs"] for e in events(server, "/v1/completions", ask)]
    for name in ("tokens", "token_logprobs", "text_offset"):
        assert sum((p[name] for p in pieces if p), []) == told[name]


@pytest.mark.parametrize("ids", [False, True])
def test_echo(server, ids):
    prompt = "The harbour é"
    given = server.call("/tokenize", {"content": prompt})[1]["tokens"] if ids else prompt
    ask = {**TEXT, "prompt": given, "echo": True}
    text = server.call("/v1/completions", ask)[1]["choices"][0]["text"]
    assert text.strip().startswith(prompt) and len(text) > len(prompt)
    assert "".join(e["choices"][0]["text"] for e in events(server, "/v1/completions", ask)) == text
    ask = {**TEXT, "prompt": given, "echo": True, "logprobs": 2}
    choice = server.call("/v1/completions", ask)[1]["choices"][0]
    told = choice["logprobs"]
    assert told["token_logprobs"][0] is None and told["top_logprobs"][0] is None
    assert "".join(told["tokens"]).endswith(choice["text"].split("é")[1])
    assert "bytes:\\xc3" in told["tokens"] and "bytes:\\xa9" in told["tokens"]
    assert all(top[token] == p for token, p, top in list(zip(told["tokens"], told["token_logprobs"], told["top_logprobs"]))[1:])
    assert choice["text"][told["text_offset"][-1]:] == told["tokens"][-1]  # characters, as Python counts them
    n = len(told["tokens"]) - TEXT["max_tokens"]
    assert all(p <= max(top.values()) <= 0 for p, top in zip(told["token_logprobs"][1:], told["top_logprobs"][1:]))
    assert told["token_logprobs"][n:] == server.call("/v1/completions", {**ask, "echo": False})[1]["choices"][0]["logprobs"][
        "token_logprobs"]
    pieces = [e["choices"][0]["logprobs"] for e in events(server, "/v1/completions", ask)]
    assert sum((p["token_logprobs"] for p in pieces if p), []) == told["token_logprobs"]
    only = server.call("/v1/completions", {**ask, "max_tokens": 0, "min_tokens": 0})[1]["choices"][0]
    assert only["logprobs"]["token_logprobs"] == told["token_logprobs"][:n]
    # what the answer's tokens cost is what they cost as a prompt
    again = server.call("/tokenize", {"content": choice["text"]})[1]["tokens"]
    again = server.call("/v1/completions", {**ask, "prompt": again, "max_tokens": 0, "min_tokens": 0})[1]["choices"][0]["logprobs"]
    assert again["tokens"] == told["tokens"]
    assert again["token_logprobs"][1:] == pytest.approx(told["token_logprobs"][1:], abs=0.3)  # other kernels


def test_offsets_are_those_of_the_text(tmp_path):
    """Also after BOS, which the echo of a text lacks, and after control tokens, which an answer lacks."""
    f = read(MODEL)
    f.metadata.update({"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": f.metadata["tokenizer.ggml.eos_token_id"]})
    gguf_writer.write(tmp_path / "bos.gguf", f.metadata, [gguf_writer.Source(t.name, t.type, t.shape, lambda t=t: [t.data])
                                                          for t in f.tensors.values()])
    with Server(model=tmp_path / "bos.gguf") as s:
        ask = {"prompt": "The harbour", "max_tokens": 30, "ignore_eos": True, "temperature": 0, "logprobs": 0}
        for echo in (True, False):
            choice = s.call("/v1/completions", {**ask, "echo": echo})[1]["choices"][0]
            told = choice["logprobs"]
            shown = [(t, at) for t, at in zip(told["tokens"], told["text_offset"]) if t not in ("<|im_end|>", "<|im_start|>")]
            assert len(told["tokens"]) > len(shown) > 5
            assert all(choice["text"].startswith(t, at) for t, at in shown)
            assert [at for _, at in shown] == [len("".join(t for t, _ in shown[:i])) for i in range(len(shown))]
            pieces = [e["choices"][0]["logprobs"] for e in events(s, "/v1/completions", {**ask, "echo": echo})]
            assert sum((p["text_offset"] for p in pieces if p), []) == told["text_offset"]


def bytes_of(name):
    """Of a token, which is named by its bytes where it is a part of a character."""
    return bytes.fromhex(name[6:].replace("\\x", "")) if name.startswith("bytes:") else name.encode()


@pytest.mark.parametrize("seed", range(4))
def test_offsets_are_those_of_a_text_that_is_no_utf8(server, seed):
    """Answers, streams and echoes of beginnings and ends of characters in any order: each maximal part is one U+FFFD."""
    parts = [b"a", b"\xc3", b"\xa9", b"\xe3", b"\x81", b"\xf0", b"\x9f", b"\xff"]
    every = {i: server.call("/detokenize", {"tokens": [i]})[1]["content"] for i in range(400)}
    told = server.call("/v1/completions", {"prompt": [list(every)], "echo": True, "max_tokens": 0, "logprobs": 1})[1]
    ids = {bytes_of(name): i for i, name in enumerate(told["choices"][0]["logprobs"]["tokens"]) if bytes_of(name) in parts}
    assert len(ids) >= 7
    random.seed(seed)
    ask = {"max_tokens": 30, "ignore_eos": True, "temperature": 5, "seed": seed + 1, "logprobs": 1, "logit_bias": {str(i): 100 for i in ids.values()},
           "prompt": [*random.choices([*ids.values()], k=19), ids[b"\xc3"]]}  # the answer continues no character of it
    for echo in (False, True):
        choice = server.call("/v1/completions", {**ask, "echo": echo})[1]["choices"][0]
        tokens, at, n = choice["logprobs"]["tokens"], choice["logprobs"]["text_offset"], 20 * echo
        first, rest = (b"".join(map(bytes_of, part)) for part in (tokens[:n], tokens[n:]))
        assert choice["text"] == first.decode("utf-8", "replace") + rest.decode("utf-8", "replace")
        for i in range(len(tokens)):
            before = [b"".join(map(bytes_of, part)).decode("utf-8", "replace") for part in (tokens[:min(i, n)], tokens[n:i])]
            assert at[i] == len("".join(before)), (i, tokens, at)
        pieces = [e["choices"][0]["logprobs"] for e in events(server, "/v1/completions", {**ask, "echo": echo})]
        assert sum((p["text_offset"] for p in pieces if p), []) == at


def test_nul_does_not_end_an_answer(server):
    """A model may write it: it becomes U+FFFD, in answers, streams and echoes alike, and is named by its byte."""
    nul = next(i for i in range(400) if server.call("/detokenize", {"tokens": [i]})[1]["content"] == "\0")
    ask = {**TEXT, "logit_bias": {str(nul): 100}, "logprobs": 1}
    choice = server.call("/v1/completions", ask)[1]["choices"][0]
    assert choice["text"] == "\ufffd" * 6 and choice["logprobs"]["tokens"] == ["bytes:\\x00"] * 6
    assert all(top["bytes:\\x00"] < 0 for top in choice["logprobs"]["top_logprobs"])
    assert "".join(e["choices"][0]["text"] for e in events(server, "/v1/completions", ask)) == choice["text"]
    told = server.call("/v1/completions", {"prompt": [nul, nul], "echo": True, "max_tokens": 0})[1]["choices"][0]
    assert told["text"] == "\ufffd\ufffd"


def test_several_prompts(server):
    """Each has n choices, in order; usage counts each prompt once."""
    ids = server.call("/tokenize", {"content": "A boat"})[1]["tokens"]
    ask = {**TEXT, "echo": True, "temperature": 1, "seed": 3, "n": 2}
    alone = [server.call("/v1/completions", {**ask, "prompt": p})[1] for p in ("The harbour", "In winter")]
    both = server.call("/v1/completions", {**ask, "prompt": ["The harbour", "In winter"]})[1]
    assert [c["index"] for c in both["choices"]] == [0, 1, 2, 3]
    assert [c["text"] for c in both["choices"]] == [c["text"] for one in alone for c in one["choices"]]
    for name in ("prompt_tokens", "completion_tokens"):
        assert both["usage"][name] == sum(one["usage"][name] for one in alone)
    texts = ["", "", "", ""]
    for e in events(server, "/v1/completions", {**ask, "prompt": ["The harbour", "In winter"]}):
        for c in e["choices"]:
            texts[c["index"]] += c["text"]
    assert texts == [c["text"] for c in both["choices"]]
    assert len(server.call("/v1/completions", {**TEXT, "prompt": [ids, ids]})[1]["choices"]) == 2
    for prompt in ("", [], ["a"] * 9, ["a", 7], [[]], {}):
        status, answer = server.call("/v1/completions", {**ask, "prompt": prompt})
        assert status == 400 and answer["error"]["param"] == "prompt", answer


def test_least_length(server):
    end = server.call("/v1/completions", {**LONG, "prompt": "x", "max_tokens": 1})[1]
    assert end["usage"]["completion_tokens"] == 1
    ask = {**chat("Who?", max_tokens=60), "min_tokens": 40}
    assert server.call("/v1/chat/completions", ask)[1]["usage"]["completion_tokens"] >= 40


def test_progress_of_the_prompt(server):
    ask = {**LONG, "prompt": "The boats of the harbour. " * 300, "max_tokens": 2, "return_progress": True}
    told = [e["prompt_progress"] for e in events(server, "/v1/completions", ask) if "prompt_progress" in e]
    assert told[0]["processed"] == told[0]["cache"] == 0
    assert told[-1]["processed"] == told[-1]["total"] > 300
    assert all(a["processed"] <= b["processed"] for a, b in zip(told, told[1:]))
    assert not any("prompt_progress" in e for e in events(server, "/v1/completions", {**ask, "return_progress": False}))
    again = list(events(server, "/v1/completions", {**ask, "stream_options": {"include_usage": True}}))
    told = [e["prompt_progress"] for e in again if "prompt_progress" in e]
    cached = again[-1]["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert told[-1]["cache"] == cached > 0 and told[-1]["processed"] == told[-1]["total"]


def test_cache_salt(server):
    ask = {**LONG, "prompt": "A salted text about boats and harbours. " * 20, "max_tokens": 1}

    def cached(**more):
        return server.call("/v1/completions", {**ask, **more})[1]["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached(cache_salt="red") == 0 and cached(cache_salt="red") > 0
    assert cached(cache_salt="blue") == 0 and cached() == 0


def test_the_program_has_schemas_too(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    out = json.loads(succeed("run", "-m", MODEL, "-p", "The harbour", "--json-schema", path, "--json", "-n", "300",
                             "--temp", "1", "-s", "4"))
    assert is_boats(out["text"])
    succeed("index", ROOT / "demo/docs", "-o", tmp_path / "i.db")
    out = json.loads(succeed("ask", "-m", MODEL, "--index", tmp_path / "i.db", "--json-schema", path, "--json", "-n", "300",
                             "--temp", "1", "-s", "4", "--allow-empty", "Who keeps the lighthouse?"))
    assert is_boats(out["text"])


@pytest.mark.parametrize("more, param", [
    ({"tools": {}}, "tools"), ({"tools": [{"type": "x"}]}, "tools[0].type"), ({"tools": [TIDES] * 200}, "tools"),
    ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
    ({"tools": [TIDES], "tool_choice": "magic"}, "tool_choice"), ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [TIDES], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
    ({"tools": [TIDES], "response_format": {"type": "xml"}}, "response_format.type"),
    ({"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]}, "messages[0].tool_calls[0].function.name")])
def test_errors_of_tools_name_the_field(server, more, param):
    status, answer = server.call("/v1/chat/completions", {**chat(), **more})
    assert status == 400 and answer["error"]["param"] == param, answer
