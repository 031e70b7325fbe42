"""`spolia serve`: tools, in the form of each model's template; /apply-template."""
import json

import pytest

from conftest import ROOT
from reference.gguf import read
from reference.gguf_writer import Source, write
from serving import MODEL, Server, chat, documents

BOATS = {"type": "function", "function": {
    "name": "count_boats", "description": "Counts the boats of a harbour.",
    "parameters": {"type": "object", "required": ["harbour", "day"], "additionalProperties": False,
                   "properties": {"harbour": {"type": "string", "maxLength": 8}, "day": {"$ref": "#/$defs/day"}},
                   "$defs": {"day": {"enum": ["monday", "friday"]}}}}}
TIDES = {"type": "function", "function": {"name": "tides", "parameters": {"type": "object", "properties": {}}}}
WARM = {"temperature": 1, "top_k": 1000, "seed": 4}


@pytest.fixture(scope="module", params=["", "qwen2.5", "mistral-v0.3", "llama3.1"])
def server(request, tmp_path_factory):
    """The demo's model, with another model's template."""
    options = []
    if request.param:
        f = read(MODEL)
        f.metadata["tokenizer.chat_template"] = (ROOT / f"tests/unit/model/templates/{request.param}.jinja").read_text()
        path = tmp_path_factory.mktemp("model") / f"{request.param}.gguf"
        write(path, f.metadata, [Source(t.name, t.type, t.shape, lambda t=t: [t.data]) for t in f.tensors.values()])
        options = ["-m", path]
    with Server(*options, "--reuse", "full") as s:
        s.template = request.param
        yield s


def is_count(call):
    found = json.loads(call.function.arguments)
    return call.function.name == "count_boats" and list(found) == ["harbour", "day"] and found["day"] in ("monday", "friday")


def test_a_required_call(server):
    ask = {**chat(max_tokens=400), "tools": [BOATS], "tool_choice": "required", "parallel_tool_calls": False,
           "temperature": 1, "seed": 4}
    choice = server.client().chat.completions.create(**ask).choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    assert len(choice.message.tool_calls) == 1 and is_count(choice.message.tool_calls[0])
    name, arguments, ids, reason = "", "", set(), None
    for event in server.client().chat.completions.create(**ask, stream=True):
        delta = event.choices[0].delta
        assert not delta.content
        for call in delta.tool_calls or []:
            name += call.function.name or ""
            arguments += call.function.arguments or ""
            assert call.index == 0 and (call.id is None) == (call.function.name is None)
            ids |= {call.id} - {None}
        reason = event.choices[0].finish_reason or reason
    assert (name, arguments, reason) == ("count_boats", choice.message.tool_calls[0].function.arguments, "tool_calls")
    assert len(ids) == 1

    def count_deltas():
        stream = server.client().chat.completions.create(**ask, stream=True)
        return sum(len(e.choices[0].delta.tool_calls or []) for e in stream)
    # as it is generated; on a busy machine one event may carry all of an answer
    assert any(count_deltas() > 2 for _ in range(20))
    with server.client().chat.completions.stream(**ask) as stream:  # the client's own accumulation
        last = stream.get_final_completion().choices[0]
    assert last.message.tool_calls[0].function.arguments == arguments and last.finish_reason == "tool_calls"


@pytest.mark.parametrize("parameters", [{}, {"parameters": {"type": "object", "properties": {}}},
                                        {"parameters": {"properties": {}, "required": [], "title": "Nothing"}}])
def test_a_function_without_parameters_is_called_without_arguments(parameters, server):
    ask = {**chat(max_tokens=400), "tools": [BOATS, {"type": "function", "function": {"name": "stop", **parameters}}],
           "tool_choice": {"type": "function", "function": {"name": "stop"}}, "temperature": 2}
    for seed in range(3):
        choice = server.client().chat.completions.create(**ask, seed=seed).choices[0]
        assert choice.finish_reason == "tool_calls", "nothing is invented until max_tokens"
        (call,) = choice.message.tool_calls
        assert call.function.name == "stop" and json.loads(call.function.arguments) == {}


def test_a_function_of_any_arguments_may_get_some(server):
    free = {"type": "object", "properties": {}, "additionalProperties": {"type": "integer"}, "minProperties": 1}
    ask = {**chat(max_tokens=400), "tools": [{"type": "function", "function": {"name": "put", "parameters": free}}],
           "tool_choice": "required", "parallel_tool_calls": False, "temperature": 0}
    choice = server.client().chat.completions.create(**ask).choices[0]
    if choice.finish_reason == "tool_calls":
        assert json.loads(choice.message.tool_calls[0].function.arguments)
    else:  # cut in the middle of them
        assert len(choice.message.tool_calls[0].function.arguments) > 20


def test_a_call_that_is_cut(server):
    ask = {**chat(max_tokens=24), "tools": [BOATS], "tool_choice": "required", "temperature": 1, "seed": 4}
    name, arguments, content = "", "", ""
    for event in server.client().chat.completions.create(**ask, stream=True):
        delta = event.choices[0].delta
        content += delta.content or ""
        for call in delta.tool_calls or []:
            name += call.function.name or ""
            arguments += call.function.arguments or ""
        reason = event.choices[0].finish_reason
    assert reason == "length" and (not name or (name == "count_boats" and not content))
    with pytest.raises(ValueError):
        json.loads(arguments)


def test_a_named_call_and_its_result(server):
    ask = {**chat(max_tokens=400), **WARM, "tools": [TIDES, BOATS],
           "tool_choice": {"type": "function", "function": {"name": "count_boats"}}}
    message = server.call("/v1/chat/completions", ask)[1]["choices"][0]["message"]
    assert [c["function"]["name"] for c in message["tool_calls"]] == ["count_boats"]
    talk = [*ask["messages"], message,
            {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "Forty boats."}]
    for more in ({"tools": [TIDES, BOATS]}, {"tools": [TIDES], "tool_choice": "none"}, {}):
        status, answer = server.call("/v1/chat/completions", {**chat(), "messages": talk, **more})
        assert status == 200, answer
    text = server.call("/apply-template", {"messages": talk, "tools": [TIDES, BOATS]})[1]["prompt"]
    assert "Forty boats." in text and "count_boats" in text and "tides" in text
    assert text.index("count_boats") < text.index("Forty boats.")


def test_tools_and_documents(server):
    docs = documents("called")
    ask = {**chat(documents=docs), "tools": [BOATS]}
    first, second = (server.call("/v1/chat/completions", ask)[1] for _ in range(2))
    assert [d["from"] for d in second["spolia"]["documents"]] == ["memory"] * 2
    assert second["choices"][0]["message"] == first["choices"][0]["message"]
    none = server.call("/v1/chat/completions", {**ask, "tool_choice": "none"})[1]
    assert none["usage"]["prompt_tokens"] < first["usage"]["prompt_tokens"] - 20


@pytest.mark.parametrize("mark,begins", [("<|tool_call|>", '[{"name":'), ("<|START_ACTION|>", '[{"tool_name":')])
def test_a_required_call_has_the_form_of_the_template(mark, begins, tmp_path):
    f = read(MODEL)
    f.metadata["tokenizer.chat_template"] = f"{{{{ tools }}}}{mark}{{% for m in messages %}}{{{{ m.content }}}}{{% endfor %}}"
    write(tmp_path / "m.gguf", f.metadata, [Source(t.name, t.type, t.shape, lambda t=t: [t.data]) for t in f.tensors.values()])
    with Server("-m", tmp_path / "m.gguf") as s:
        choice = s.client().chat.completions.create(**chat(max_tokens=400), tools=[BOATS], tool_choice="required",
                                                    parallel_tool_calls=False, temperature=1, seed=4,
                                                    logprobs=True).choices[0]
    said = "".join(x.token for x in choice.logprobs.content)
    assert said.replace(" ", "").replace("\n", "").startswith(begins), said
    assert len(choice.message.tool_calls) == 1 and is_count(choice.message.tool_calls[0])


@pytest.mark.parametrize("choice", ["auto", "required", "none"])
def test_a_schema_beside_tools(server, choice):
    """The answer is a call, or its text fits the schema; tool_choice may leave one of them."""
    schema = {"type": "object", "required": ["day"], "properties": {"day": {"type": "integer"}}, "additionalProperties": False}
    kinds = []
    for first in ("{", {"mistral-v0.3": "[", "llama3.1": "{"}.get(server.template, "<")):
        ask = {**chat(max_tokens=200), "temperature": 1, "seed": 4, "tools": [TIDES], "tool_choice": choice, "parallel_tool_calls": False,
               "response_format": {"type": "json_schema", "json_schema": {"name": "day", "schema": schema}},
               "logit_bias": {str(server.call("/tokenize", {"content": first})[1]["tokens"][0]): 100}}
        message = server.call("/v1/chat/completions", ask)[1]["choices"][0]["message"]
        calls = message.get("tool_calls")
        kinds.append("call" if calls else "text")
        assert calls[0]["function"]["name"] == "tides" if calls else list(json.loads(message["content"])) == ["day"], message
        stream = server.client().chat.completions.create(**ask, stream=True)
        deltas = [e.choices[0].delta for e in stream]
        assert "".join(d.content or "" for d in deltas) == (message["content"] or "")
        assert any(d.tool_calls for d in deltas) == bool(calls)
    if choice != "auto" or server.template != "llama3.1":  # whose calls begin as the text does
        assert kinds == {"auto": ["text", "call"], "required": ["call"] * 2, "none": ["text"] * 2}[choice]


def test_some_tools_are_allowed(server):
    """Calls are of these; the prompt is that of all tools."""
    def ask(names, mode, **more):
        allowed = {"mode": mode, "tools": [{"type": "function", "function": {"name": name}} for name in names]}
        status, answer = server.call("/v1/chat/completions", {**chat(max_tokens=200), **WARM, "tools": [TIDES, BOATS],
                                     "tool_choice": {"type": "allowed_tools", "allowed_tools": allowed}, **more})
        return answer["error"] if status == 400 else answer
    for name in ("tides", "count_boats"):
        answer = ask([name], "required")
        assert {c["function"]["name"] for c in answer["choices"][0]["message"]["tool_calls"]} == {name}
    plain = server.call("/v1/chat/completions", {**chat(max_tokens=0), "tools": [TIDES, BOATS]})[1]["usage"]["prompt_tokens"]
    assert ask(["tides"], "auto", max_tokens=0)["usage"]["prompt_tokens"] == answer["usage"]["prompt_tokens"] == plain
    for names, mode, said in ((["tides"], "none", "mode"), ([], "auto", "1 to 128"), (["x"], "auto", 'names "x"'), ([None], "auto", "item 0"),
                              (["tides"] * 129, "auto", "1 to 128")):
        error = ask(names, mode)
        assert error["param"] == "tool_choice" and said in error["message"]


def test_the_text_of_a_template(server):
    messages = [{"role": "user", "content": "Who?"}]
    status, answer = server.call("/apply-template", {"messages": messages})
    assert status == 200, answer
    used = server.call("/v1/chat/completions", {**chat("Who?"), "max_tokens": 0})[1]["usage"]["prompt_tokens"]
    cut = server.call("/tokenize", {"content": answer["prompt"], "add_special": True})[1]["count"]
    assert abs(cut - used) <= 3 # BOS; marks that are no tokens of this vocabulary
    closed = server.call("/apply-template", {"messages": messages, "add_generation_prompt": False})[1]["prompt"]
    assert answer["prompt"].startswith(closed)
    assert server.call("/apply-template", {"messages": []})[1]["error"]["param"] == "messages"
