"""Other APIs than OpenAI's on the same server: Anthropic's and Ollama's own packages, llama.cpp's paths."""
import json
import re
import urllib.error
import urllib.request

import gguf
import pytest

from serving import MODEL


TOOL = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["city", "days"], "additionalProperties": False}
SURE = {"temperature": 0, "ignore_eos": True} # fields that the package does not have
FREE = {"temperature": 1, "seed": 5}
QUESTION = [{"role": "user", "content": "Who is the keeper?"}]


SERVER = ("--reuse", "full", "--alias", "tiny")


# -- Anthropic ----------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def claude(server):
    anthropic = pytest.importorskip("anthropic")
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=300)


def test_a_message_has_text_and_usage(claude):
    m = claude.messages.create(model="tiny", max_tokens=8, messages=QUESTION, system="Be brief.", extra_body=SURE)
    assert m.type == "message" and m.role == "assistant" and m.model == "tiny"
    assert [b.type for b in m.content] == ["text"] and m.content[0].text
    assert m.stop_reason == "max_tokens" and m.usage.output_tokens == 8
    again = claude.messages.create(model="tiny", max_tokens=8, messages=QUESTION, extra_body=SURE,
                                   system=[{"type": "text", "text": "Be brief."}])
    assert again.content[0].text == m.content[0].text
    assert again.usage.cache_read_input_tokens > again.usage.input_tokens


def test_a_streamed_message_is_the_whole_one(claude):
    ask = {"model": "tiny", "max_tokens": 16, "messages": QUESTION, "extra_body": SURE}
    whole = claude.messages.create(**ask)
    with claude.messages.stream(**ask) as s:
        events = [e.type for e in s]
        final = s.get_final_message()
    assert final.content[0].text == whole.content[0].text and final.stop_reason == whole.stop_reason
    assert final.usage.output_tokens == whole.usage.output_tokens
    assert events[0] == "message_start" and events[-1] == "message_stop" and "content_block_stop" in events


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_sequence_is_named(claude, stream):
    ask = {"model": "tiny", "max_tokens": 60, "messages": QUESTION, "extra_body": SURE}
    text = claude.messages.create(**ask).content[0].text
    stop = text[10:13]
    if stream:
        with claude.messages.stream(**ask, stop_sequences=[stop]) as s:
            m = s.get_final_message()
    else:
        m = claude.messages.create(**ask, stop_sequences=[stop])
    assert m.stop_reason == "stop_sequence" and m.stop_sequence == stop
    assert m.content[0].text == text[:text.index(stop)]


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_is_used_and_its_result_read(claude, stream):
    ask = {"model": "tiny", "max_tokens": 200, "extra_body": FREE,
           "tools": [{"name": "weather", "description": "The weather", "input_schema": TOOL}],
           "tool_choice": {"type": "tool", "name": "weather"}, "messages": QUESTION}
    if stream:
        with claude.messages.stream(**ask) as s:
            m = s.get_final_message()
    else:
        m = claude.messages.create(**ask)
    use = m.content[-1]
    assert m.stop_reason == "tool_use" and use.type == "tool_use" and use.name == "weather"
    assert set(use.input) == {"city", "days"} and 1 <= use.input["days"] <= 9
    ask["messages"] = QUESTION + [
        {"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in m.content]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "rain"}]},
                                     {"type": "text", "text": "And now?"}]}]
    ask["tool_choice"] = {"type": "none"}
    assert claude.messages.create(**ask).stop_reason in ("end_turn", "max_tokens")


def test_documents_are_reused_at_any_position(claude):
    def ask(*names):
        blocks = [{"type": "document", "title": n, "source": {"type": "text", "media_type": "text/plain",
                   "data": f"The keeper of the {n} lighthouse is called Anna Berg and came there in 1931 by boat."}}
                  for n in names]
        return claude.messages.create(model="tiny", max_tokens=4, messages=[
            {"role": "user", "content": blocks + [{"type": "text", "text": "Who is the keeper?"}]}])
    ask("north", "south")
    account = ask("south", "north").model_extra["spolia"]
    assert [d["title"] for d in account["documents"]] == ["south", "north"]
    assert all(d["reused"] > 0 for d in account["documents"])


def test_cache_control_retains_what_it_marks(start):
    """In memory for two prompts or three, the marked one outlives newer ones; in OpenAI's parts, too."""
    import anthropic
    s = start("--reuse", "prefix", "--kv-memory", 2)
    client = anthropic.Anthropic(base_url=s.url, api_key="none", max_retries=0, timeout=300)

    def system(name):
        return f"The {name} lighthouse has a keeper who came by boat. " * 14

    def ask(name, **mark):
        return client.messages.create(model="any", max_tokens=1, messages=QUESTION, system=[
            {"type": "text", "text": system(name), **mark}]).usage.cache_read_input_tokens

    def fill(*names):
        for name in names:
            ask(name)
    ask("plain")
    fill(*"abcdefgh")
    assert ask("plain") < 50 # the memory is small enough for this test
    ask("kept", cache_control={"type": "ephemeral", "ttl": "1h"})
    fill(*"abcdefgh")
    assert ask("kept") > 100
    parts = [{"type": "text", "text": system("other"), "cache_control": {"type": "ephemeral"}}]
    body = {"max_tokens": 1, "messages": [{"role": "system", "content": parts}, *QUESTION]}
    s.call("/v1/chat/completions", body)
    fill(*"abcdefgh")
    assert s.call("/v1/chat/completions", body)[1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 100
    for bad in ({"type": "x"}, {"type": "ephemeral", "ttl": "soon"}, {"type": "ephemeral", "ttl": "25h"}, 7):
        parts[0]["cache_control"] = bad
        status, e = s.call("/v1/chat/completions", body)
        assert status == 400 and e["error"]["param"] == "messages[0].content[0].cache_control", e


def test_tokens_are_counted(claude):
    n = claude.messages.count_tokens(model="tiny", messages=QUESTION, system="Be brief.").input_tokens
    u = claude.messages.create(model="tiny", max_tokens=1, messages=QUESTION, system="Be brief.").usage
    assert n == u.input_tokens + u.cache_read_input_tokens


def test_anthropic_errors_name_the_field(claude):
    anthropic = pytest.importorskip("anthropic")
    for change, part in [({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "messages[0].content[0]"),
                         ({"stop_sequences": 7}, "stop"), ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
                         ({"messages": [{"role": "system", "content": "x"}]}, "messages[0].role")]:
        with pytest.raises(anthropic.BadRequestError) as e:
            claude.messages.create(**{"model": "tiny", "max_tokens": 4, "messages": QUESTION, **change})
        assert e.value.body["type"] == "error" and part in e.value.body["error"]["message"]


def as_text(server, path, key):
    """The error of a body that is said not to be JSON."""
    headers = {"Content-Type": "text/plain", "Authorization": f"Bearer {key}"}
    with pytest.raises(urllib.error.HTTPError) as e:
        urllib.request.urlopen(urllib.request.Request(server.url + path, b"{}", headers), timeout=300)
    return e.value.code, json.load(e.value)


OF_OPENAI = {"error": {"message", "type", "param", "code"}}


@pytest.mark.parametrize("path, form", [
    ("/v1/messages", {"type": "error", "error": {"type", "message", "code"}}), ("/v1/messages/none", {"type": "error", "error": {"type", "message"}}),
    ("/api/chat", {"error": str}), ("/api/none", {"error": str}), ("/v1/chat/completions", OF_OPENAI), ("/v1/none", OF_OPENAI)])
def test_refusals_have_the_form_of_the_path(start, tmp_path, path, form):
    """Of a request that is not read: without the key, another type, another method, too many."""
    keys = tmp_path / "keys"
    keys.write_text("a-key\n# limits: requests=1\nslow-key\n")
    server = start("--api-keys", keys)
    body = {"model": "any", "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}], "stream": False}
    unknown = path.endswith("none")
    answers = [server.call(path, body), as_text(server, path, "a-key"), server.call(path, key="a-key")]
    assert [status for status, _ in answers] == ([404, 404, 404] if unknown else [401, 415, 405])
    if not unknown:
        assert server.call(path, body, "slow-key")[0] == 200
        answers.append(server.call(path, body, "slow-key"))
        assert answers[-1][0] == 429
    for status, o in answers:
        assert o.keys() == form.keys()
        if form["error"] is str:
            assert o["error"]
        else:
            assert o.get("type") == form.get("type") and {*o["error"]} - {"code"} == {*form["error"]} - {"code"}


def said(error):
    """The text of an error, in whichever form."""
    e = error["error"]
    return e if isinstance(e, str) else e["message"]


@pytest.mark.parametrize("path, change, begins", [
    ("/v1/messages", {"system": {"type": "text", "text": "Be brief."}}, "system must be"),
    ("/v1/messages", {"tools": {"name": "f"}}, "tools must be a list"),
    ("/v1/messages", {"documents": "Anna."}, "documents must be a list"),
    ("/v1/messages", {"output_config": "json"}, "output_config must be an object"),
    ("/v1/messages", {"thinking": "enabled"}, "thinking must be an object"),
    ("/v1/messages", {"mcp_servers": [{"type": "url", "url": "http://x"}]}, "mcp_servers is not supported"),
    ("/v1/messages", {"stop_sequences": 7}, "stop_sequences must be"),
    ("/v1/messages", {"stop_sequences": ["a", 7]}, "stop_sequences[1] must be"),
    ("/v1/responses", {"tools": {"type": "function"}}, "tools must be a list"),
    ("/v1/responses", {"text": "json"}, "text must be an object"),
    ("/v1/responses", {"include": "message.output_text.logprobs"}, "include must be a list"),
    ("/v1/responses", {"max_output_tokens": "4"}, "max_output_tokens must be"),
    ("/v1/responses", {"input": [{"role": "x", "content": "a"}]}, "input: role must be"),
    ("/api/chat", {"tools": {"type": "function"}}, "tools must be a list"),
    ("/api/chat", {"messages": "Who?"}, "messages must be a list"),
    ("/api/chat", {"logprobs": True}, "logprobs is not supported"),
    ("/api/chat", {"options": {"num_predict": 2**40}}, "options.num_predict is"),
    ("/api/generate", {"context": [1, 2]}, "context is not supported"),
    ("/api/generate", {"images": "aGVsbG8="}, "images: images are not supported"),
    ("/api/generate", {"raw": True, "system": "Be brief."}, "system is not supported with raw"),
    ("/completion", {"documents": ["Anna."]}, "documents need a chat"),
    ("/v1/completions", {"documents": ["Anna."]}, "documents need a chat"),
    ("/v1/chat/completions", {"documents": [{"title": 1984, "text": "Anna."}]}, "documents[0].title must be a string"),
    ("/v1/chat/completions", {"documents": [{"id": 7, "text": "Anna."}]}, "documents[0].id must be a string"),
    ("/v1/chat/completions", {"messages": [{"role": "assistant", "tool_calls": "f()"}]}, "messages[0].tool_calls must be"),
    ("/v1/chat/completions", {"rerank": True}, "rerank needs a collection"),
])
def test_what_would_be_lost_is_refused(server, path, change, begins):
    """By the name that the field has in that API."""
    body = {"max_tokens": 2, "n_predict": 2, "messages": QUESTION, "input": "Who?", "prompt": "Who?", "stream": False}
    if path == "/v1/responses":
        del body["prompt"]
    status, e = server.call(path, {**body, **change})
    assert status == 400 and said(e).startswith(begins), e


def test_no_limit_is_minus_one_where_peers_have_it(start):
    """llama-server and LM Studio take max_tokens: -1; Anthropic and OpenAI's responses do not."""
    server = start("-c", 700)
    ask = {"messages": QUESTION, "prompt": "Who?", "input": "Who?", "stream": False, **SURE}

    def length(path, **fields):
        status, o = server.call(path, {**ask, **fields})
        assert status == 200, o
        return o["usage"]["completion_tokens"] if "usage" in o else o["tokens_predicted"]
    for path in ("/v1/chat/completions", "/v1/completions", "/completion"):
        for name in ("max_tokens", "max_completion_tokens", "n_predict"):
            assert length(path, **{name: 5}) == 5, (path, name)
            assert length(path, **{name: -1}) > 600, (path, name)  # -n is 512
            status, e = server.call(path, {**ask, name: -2})
            assert status == 400 and "is -2 and must be" in said(e), e
    for path, name in [("/v1/messages", "max_tokens"), ("/v1/responses", "max_output_tokens")]:
        status, e = server.call(path, {**{k: v for k, v in ask.items() if k != "prompt"}, name: -1})
        assert status == 400 and f"{name} is -1 and must be" in said(e), e


def test_values_that_ask_for_nothing_are_not_lost(server):
    for path, change in [("/api/chat", {"logprobs": False, "top_logprobs": 0, "tools": None}), ("/api/generate", {"context": [], "images": []}),
                         ("/v1/messages", {"mcp_servers": [], "tools": None, "system": None}), ("/v1/completions", {"documents": []})]:
        body = {"max_tokens": 2, "options": {"num_predict": 2}, "messages": QUESTION, "prompt": "Who?", "stream": False}
        assert server.call(path, {**body, **change})[0] == 200, path


def test_output_follows_a_schema(claude):
    m = claude.messages.create(model="tiny", max_tokens=200, messages=QUESTION, extra_body=FREE,
                               output_config={"format": {"type": "json_schema", "schema": TOOL}})
    assert 1 <= json.loads(m.content[0].text)["days"] <= 9


def test_a_format_has_an_older_name_and_can_be_null(server):
    ask = {"max_tokens": 200, "messages": QUESTION, **FREE}
    status, m = server.call("/v1/messages", {**ask, "output_format": {"type": "json_schema", "schema": TOOL}})
    assert status == 200 and 1 <= json.loads(m["content"][0]["text"])["days"] <= 9
    for free in ({"output_config": {"format": None}}, {"output_format": None}):
        assert server.call("/v1/messages", {**ask, "max_tokens": 2, **free})[0] == 200
    status, e = server.call("/v1/messages", {**ask, "output_format": {"type": "text"}})
    assert status == 400 and "must be json_schema" in said(e)


# -- Ollama ---------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def llama(server):
    return pytest.importorskip("ollama").Client(host=server.url)


def test_ollama_chats(llama):
    ask = {"model": "tiny", "messages": QUESTION, "options": {"temperature": 0, "num_predict": 12}}
    whole = llama.chat(**ask)
    assert whole.message.role == "assistant" and whole.message.content and whole.done_reason == "stop"
    assert 0 < whole.eval_count <= 12 and whole.prompt_eval_count > 0 and whole.eval_duration > 0
    pieces = list(llama.chat(**ask, stream=True))
    assert "".join(p.message.content for p in pieces) == whole.message.content
    assert [p.done for p in pieces] == [False] * (len(pieces) - 1) + [True] and len(pieces) > 1


def test_numbers_of_a_stream_have_nine_digits(server):
    ask = {"messages": QUESTION, "options": {"num_predict": 2}, "reuse": {"mode": "fusion", "recompute": 0.3}}
    lines = server.call("/api/chat", ask)[1].splitlines()
    numbers = re.findall(r"\d+\.\d+", json.dumps(json.loads(lines[-1], parse_float=str)["spolia"]))
    assert len(lines) > 1 and len(numbers) > 1 and all(len(n.replace(".", "").lstrip("0")) <= 9 for n in numbers), numbers


def test_ollama_generates(llama):
    ask = {"model": "tiny", "prompt": "Who is the keeper?", "options": {"temperature": 0, "num_predict": 12}}
    whole = llama.generate(**ask, system="Be brief.")
    assert whole.response and whole.done and 0 < whole.eval_count <= 12
    pieces = list(llama.generate(**ask, system="Be brief.", stream=True))
    assert "".join(p.response for p in pieces) == whole.response
    raw = llama.generate(**ask, raw=True)
    assert raw.prompt_eval_count < whole.prompt_eval_count


def test_ollama_formats_and_tools(llama):
    options = {"temperature": 1, "num_predict": 200}
    made = json.loads(llama.chat(model="tiny", messages=QUESTION, format=TOOL, options=options).message.content)
    assert 1 <= made["days"] <= 9
    assert isinstance(json.loads(llama.generate(model="tiny", prompt="x", format=TOOL, options=options).response), dict)
    tools = [{"type": "function", "function": {"name": "weather", "parameters": TOOL}}]
    history = QUESTION + [{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Rome", "days": 2}}}]},
                          {"role": "tool", "content": "rain", "tool_name": "weather"}]
    assert llama.chat(model="tiny", messages=history, tools=tools, options=options).done


def test_ollama_required_calls(server):
    body = {"model": "tiny", "messages": QUESTION, "tools": [{"type": "function", "function": {"name": "weather", "parameters": TOOL}}],
            "tool_choice": "required", "options": {"num_predict": 300, "temperature": 1}}
    for stream in (False, True):
        status, text = server.call("/api/chat", {**body, "stream": stream})
        lines = [text] if not stream else [json.loads(line) for line in text.splitlines()]
        calls = [c for line in lines for c in line["message"].get("tool_calls", [])]
        assert status == 200 and calls and calls[0]["function"]["name"] == "weather"
        assert 1 <= calls[0]["function"]["arguments"]["days"] <= 9


def test_ollama_names_the_model(llama, server):
    assert [m.model for m in llama.list().models] == ["tiny"]
    shown = llama.show("tiny")
    assert "completion" in shown.capabilities
    info, reader = shown.modelinfo, gguf.GGUFReader(MODEL)
    arch = info["general.architecture"]
    for name in ("context_length", "embedding_length", "block_count", "attention.head_count", "attention.head_count_kv"):
        assert info[f"{arch}.{name}"] == reader.fields[f"{arch}.{name}"].contents(), name
    n = sum(int(t.n_elements) for t in reader.tensors if len(t.shape) > 1)
    assert info["general.parameter_count"] == n and shown.details.parameter_size == f"{n / 1e6:.1f}M"
    assert llama.ps().models[0].model == "tiny"
    assert server.call("/api/version")[1]["version"]
    loaded = server.call("/api/generate", {"model": "tiny"})[1]  # nothing to answer: is the model loaded?
    assert (loaded["done_reason"], loaded["done"], loaded["response"], "message" in loaded) == ("load", True, "", False)
    loaded = server.call("/api/chat", {"model": "tiny", "messages": []})[1]
    assert loaded["done_reason"] == "load" and loaded["message"]["content"] == "" and "response" not in loaded


def test_ollama_errors(llama):
    ollama = pytest.importorskip("ollama")
    with pytest.raises(ollama.ResponseError, match="images are not supported"):
        llama.chat(model="tiny", messages=[{"role": "user", "content": "x", "images": ["AAAA"]}])
    with pytest.raises(ollama.ResponseError, match="temperature is -3"):
        llama.generate(model="tiny", prompt="x", options={"temperature": -3})


# -- llama.cpp ---------------------------------------------------------------------------------------------------

def events(server, path, body):
    request = urllib.request.Request(server.url + path, json.dumps({**body, "stream": True}).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as r:
        return [json.loads(line[6:]) for line in r.read().decode().splitlines() if line.startswith("data: ")]


def test_llama_completion(server):
    ask = {"prompt": "The harbour", "n_predict": 40, "ignore_eos": True, **FREE}
    status, whole = server.call("/completion", ask)
    assert status == 200 and whole["content"] and whole["stop"] and whole["stop_type"] == "limit"
    assert whole["tokens_predicted"] == 40 and whole["tokens_evaluated"] > 0 and whole["timings"]["predicted_n"] == 40
    assert whole["prompt"] == "The harbour" and whole["model"] == "tiny"
    pieces = events(server, "/completion", ask)
    assert "".join(p["content"] for p in pieces) == whole["content"]
    assert [p["stop"] for p in pieces] == [False] * (len(pieces) - 1) + [True]
    stop = whole["content"][4:7]
    stopped = server.call("/completion", {**ask, "stop": [stop]})[1]
    assert stopped["stop_type"] == "word" and stopped["stopping_word"] == stop
    made = server.call("/completion", {**ask, **FREE, "n_predict": 200, "ignore_eos": False, "json_schema": TOOL})[1]
    assert 1 <= json.loads(made["content"])["days"] <= 9


def test_llama_tokens_with_pieces(server):
    """A piece of a character is its bytes."""
    text = "The harbour, 東京 \U0001f600"
    plain = server.call("/tokenize", {"content": text})[1]["tokens"]
    tokens = server.call("/tokenize", {"content": text, "with_pieces": True})[1]["tokens"]
    assert [t["id"] for t in tokens] == plain and any(isinstance(t["piece"], list) for t in tokens)
    pieces = [t["piece"].encode() if isinstance(t["piece"], str) else bytes(t["piece"]) for t in tokens]
    assert b"".join(pieces).decode().strip() == text
    assert server.call("/tokenize", {"content": text, "with_pieces": 1})[1]["error"]["param"] == "with_pieces"


def test_llama_infill(server):
    status, e = server.call("/infill", {"input_prefix": "def f(x):\n", "input_suffix": "\n    return y", "n_predict": 4})
    assert status == 400 and e["error"]["param"] == "input_suffix" # the test model has no tokens to fill in the middle
    status, whole = server.call("/infill", {"input_prefix": "The harbour", "input_suffix": "", "n_predict": 6, **SURE,
                                            "input_extra": [{"filename": "a.txt", "text": "Boats."}]})
    assert status == 200 and whole["prompt"] == "# a.txt\nBoats.\n\nThe harbour" and whole["tokens_predicted"] == 6
    assert server.call("/infill", {"input_prefix": "x"})[1]["error"]["param"] == "input_suffix"
    body = {"input_prefix": "x", "input_suffix": "", "prompt_logprobs": 1}  # begins like "prompt", which is input_prefix here
    assert server.call("/infill", body)[1]["error"]["param"] == "prompt_logprobs"
