"""An answer that has begun is continued: vLLM's continue_final_message, and a last message of the assistant with
Anthropic and Ollama."""
import json

import pytest

from reference.gguf import read
from reference.gguf_writer import Source, write
from serving import MODEL, Server

MESSAGES = [{"role": "user", "content": "Who is the keeper?"}, {"role": "assistant", "content": "The keeper is"}]
ASK = {"messages": MESSAGES, "temperature": 0, "max_tokens": 12, "ignore_eos": True}
CONTINUE = {**ASK, "continue_final_message": True, "add_generation_prompt": False}
CALL = {"id": "a", "type": "function", "function": {"name": "tides", "arguments": "{}"}}
TIDES = {"type": "function", "function": {"name": "tides", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture(scope="module")
def server():
    with Server("--reuse", "full") as s:
        yield s


def asked(server, path="/v1/chat/completions", **fields):
    status, answer = server.call(path, {**CONTINUE, **fields})
    assert status == 200, answer
    return answer


def test_the_answer_is_that_of_the_text(server):
    """The same as a completion of the rendered text, which ends with the message; only what is new is sent."""
    text = asked(server, "/apply-template")["prompt"]
    assert text.endswith("<|im_start|>assistant\nThe keeper is")
    status, plain = server.call("/v1/completions", {**ASK, "messages": None, "prompt": text})
    chat = asked(server, logprobs=True)
    said = chat["choices"][0]["message"]["content"]
    assert status == 200 and said == plain["choices"][0]["text"] and said.startswith(" ")
    assert chat["usage"]["prompt_tokens"] == plain["usage"]["prompt_tokens"]
    tokens = [t["token"] for t in chat["choices"][0]["logprobs"]["content"]]
    assert "".join(tokens).replace("<|im_end|>", "").startswith(said)
    stream = [json.loads(line[6:]) for line in asked(server, stream=True).split("\n") if line.startswith("data: {")]
    assert "".join(e["choices"][0]["delta"].get("content", "") for e in stream) == said
    assert asked(server, stop=[said.split()[-1]])["choices"][0]["message"]["content"] == said[:said.rindex(said.split()[-1])]
    claude = server.call("/v1/messages", {**ASK, "model": "any"})[1]
    assert claude["content"] == [{"type": "text", "text": said}] and claude["usage"]["output_tokens"] == 12
    ollama = server.call("/api/chat", {**ASK, "stream": False, "options": {"temperature": 0, "num_predict": 12}})[1]
    assert ollama["message"]["content"] == said and ollama["prompt_eval_count"] == chat["usage"]["prompt_tokens"]
    n = server.call("/v1/messages/count_tokens", {"model": "any", "messages": MESSAGES})[1]["input_tokens"]
    assert n == chat["usage"]["prompt_tokens"] == claude["usage"]["input_tokens"] + claude["usage"]["cache_read_input_tokens"]


def test_documents_come_before_the_question(server):
    """Not before the answer that follows it."""
    system, text = {"role": "system", "content": "Be brief."}, "The keeper of the lighthouse is Anna Berg."
    given = asked(server, messages=[system, *MESSAGES], documents=[text], logprobs=True)
    pasted = {"role": "user", "content": f"{text}\n\nQuestion: {MESSAGES[0]['content']}"}
    alike = asked(server, messages=[system, pasted, MESSAGES[1]], logprobs=True)
    assert given["usage"]["prompt_tokens"] == alike["usage"]["prompt_tokens"]
    tokens = [[(t["token"], t["logprob"]) for t in a["choices"][0]["logprobs"]["content"]] for a in (given, alike)]
    assert tokens[0] == [(t, pytest.approx(p, abs=0.05)) for t, p in tokens[1]]


@pytest.mark.parametrize("more", [{}, {"continue_final_message": False, "add_generation_prompt": True}])
def test_an_echo_is_the_text_that_the_answer_continues(server, more):
    """vLLM: also where the answer is another turn."""
    begun = [MESSAGES[0], {"role": "assistant", "content": [{"type": "text", "text": "Thé keeper"}, {"type": "text", "text": "is"}]}]
    fields = {"messages": begun, "logprobs": True, "n": 2, "documents": ["The keeper is called Anna Berg."], "citations": True, **more}
    plain, echoed = asked(server, **fields)["choices"], asked(server, echo=True, **fields)["choices"]
    stream = [json.loads(line[6:]) for line in asked(server, echo=True, stream=True, **fields).split("\n") if line.startswith("data: {")]
    for i in range(2):
        said = "Thé keeper\nis" + plain[i]["message"]["content"]
        assert echoed[i]["message"]["content"] == said and echoed[i]["logprobs"] == plain[i]["logprobs"]
        pieces = [c["delta"].get("content", "") for e in stream for c in e["choices"] if c["index"] == i]
        assert "".join(pieces) == said and pieces[0] == "Thé keeper\nis"
        assert [c["start"] - len("Thé keeper\nis".encode()) for c in echoed[i]["citations"]] == [c["start"] for c in plain[i]["citations"]]
        assert echoed[i]["citations"][-1]["end"] == len(said.encode())


def test_an_echo_of_another_message_is_nothing(server):
    fields = {"messages": MESSAGES[:1], "continue_final_message": False, "add_generation_prompt": True}
    assert asked(server, echo=True, **fields)["choices"] == asked(server, **fields)["choices"]
    status, answer = server.call("/v1/responses", {"input": "Who is the keeper?", "max_output_tokens": 4, "echo": True})
    assert status == 400 and answer["error"]["param"] == "echo"


def test_an_echo_comes_before_a_call(server):
    fields = {"tools": [TIDES], "tool_choice": "required", "max_tokens": 200, "ignore_eos": False}
    message = asked(server, echo=True, **fields)["choices"][0]["message"]
    assert message["content"] == "The keeper is" and message["tool_calls"] == [{**c, "id": message["tool_calls"][0]["id"]} for c in
        asked(server, **fields)["choices"][0]["message"]["tool_calls"]]


def test_documents_are_reused_and_cited(server):
    fields = {"documents": [{"text": "The keeper is called Anna Berg."}, {"text": "Boats leave at nine."}], "citations": True}
    first, second = asked(server, **fields), asked(server, **fields)
    assert all(d["reused"] == d["tokens"] for d in second["spolia"]["documents"])
    assert first["choices"][0]["message"] == second["choices"][0]["message"] and second["choices"][0]["citations"]
    assert [s["kind"] for s in second["spolia"]["segments"]] == ["system", "chunk", "chunk", "question"]


def test_a_tree_is_followed_by_the_answer_that_has_begun(server):
    tree = {"type": "list", "items": ["The keeper is called Anna Berg.", "Boats leave at nine."]}
    kinds, sizes = zip(*([[s[key] for s in asked(server, documents=[tree], messages=messages)["spolia"]["segments"]]
                          for key in ("kind", "tokens")] for messages in (MESSAGES, [MESSAGES[0], {**MESSAGES[1], "content": "The"}])))
    assert kinds[0] == kinds[1] and sizes[0][:-1] == sizes[1][:-1] and sizes[0][-1] > sizes[1][-1]


def test_a_schema_and_a_call_are_of_what_is_generated(server):
    schema = {"type": "object", "properties": {"boats": {"type": "integer"}}, "required": ["boats"]}
    fields = {"max_tokens": 200, "ignore_eos": False}
    format = {"type": "json_schema", "json_schema": {"name": "boats", "schema": schema}}
    assert "boats" in json.loads(asked(server, response_format=format, **fields)["choices"][0]["message"]["content"])
    message = asked(server, tools=[TIDES], tool_choice="required", **fields)["choices"][0]["message"]
    assert message["tool_calls"][0]["function"]["name"] == "tides" and not message["content"]


@pytest.mark.parametrize("fields,param", [
    ({"add_generation_prompt": True}, "continue_final_message"), ({"messages": MESSAGES[:1]}, "continue_final_message"),
    ({"messages": [MESSAGES[0], {**MESSAGES[1], "tool_calls": [CALL]}]}, "continue_final_message"),
    ({"continue_final_message": 1}, "continue_final_message"), ({"continue_final_message": False}, "add_generation_prompt")])
def test_what_cannot_be_continued(server, fields, param):
    status, answer = server.call("/v1/chat/completions", {**CONTINUE, **fields})
    assert status == 400 and answer["error"]["param"] == param, answer


def test_a_template_that_changes_the_text(tmp_path):
    f = read(MODEL)
    f.metadata["tokenizer.chat_template"] = "{% for m in messages %}{{ m.content | upper }}{% endfor %}"
    write(tmp_path / "m.gguf", f.metadata, [Source(t.name, t.type, t.shape, lambda t=t: [t.data]) for t in f.tensors.values()])
    with Server("-m", tmp_path / "m.gguf") as s:
        for fields in ({}, {"documents": ["Anna Berg is the keeper."]}):
            status, answer = s.call("/v1/chat/completions", {**CONTINUE, **fields})
            assert status == 400 and "does not show the end" in answer["error"]["message"], answer


def test_the_error_of_another_path_and_of_a_call(server):
    status, answer = server.call("/v1/completions", {"prompt": "a", "continue_final_message": True})
    assert status == 400 and "needs a chat" in answer["error"]["message"]
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "tides", "input": {}}]}
    status, answer = server.call("/v1/messages", {"max_tokens": 1, "messages": [MESSAGES[0], use]})
    assert status == 400 and "tool_result" in answer["error"]["message"]
    for calls, wanted in (([], 200), ([CALL], 400)):
        messages = [MESSAGES[0], {**MESSAGES[1], "tool_calls": calls}]
        status, answer = server.call("/api/chat", {"stream": False, "messages": messages, "options": {"num_predict": 1}})
        assert status == wanted and (status == 200 or "results must follow" in answer["error"]), answer
