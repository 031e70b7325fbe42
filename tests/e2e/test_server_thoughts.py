"""`spolia serve`: thoughts apart from the text, in every API: <think>, and the channels of gpt-oss."""
import json

import pytest

from reference.gguf import read
from reference.gguf_writer import Source, write
from serving import MODEL, Server, chat

TOOL = {"type": "function", "function": {"name": "tides", "parameters": {"type": "object", "properties": {
    "day": {"enum": ["monday", "friday"]}}, "required": ["day"]}}}
TURNS = "{% for m in messages %}{{ m.content ~ '\\n' }}{% endfor %}"
TEMPLATES = {
    "tags": "{% if tools %}<tool_call>{% endif %}" + TURNS + "{# </think> #}",
    "channels": "{{ tools }}{# <|channel|>analysis<|message|> #}" + TURNS,
    "opened": "{# </think> #}" + TURNS + "{% if add_generation_prompt %}{{ '<think>\\n' }}{% endif %}",
    "none": TURNS,
    "told": "{% for m in messages %}{{ m.content }}"
            "{% if m.thinking is defined %}[{{ m.thinking }}]{% endif %}{% endfor %}",
}
SAYS = {"tags": "<think>\nI add <1>.\n</think>\n\nIt is nine.",
        "channels": "<|channel|>analysis<|message|>I add <1>.<|end|><|start|>assistant<|channel|>final<|message|>"
                    "It is nine."}


def start(template, folder):
    f = read(MODEL)
    f.metadata["tokenizer.chat_template"] = TEMPLATES[template]
    path = folder / f"{template}.gguf"
    write(path, f.metadata, [Source(t.name, t.type, t.shape, lambda t=t: [t.data]) for t in f.tensors.values()])
    return Server("-m", path, "--reuse", "full")


@pytest.fixture(scope="module", params=["tags", "channels"])
def server(request, tmp_path_factory):
    """The demo's model, which a grammar makes say what a thinking model says."""
    s = start(request.param, tmp_path_factory.mktemp("model"))
    s.form = request.param
    yield s
    assert s.stop() == 0, s.said
    assert "Sanitizer" not in s.said, s.said


def saying(text, **more):
    return {**chat(max_tokens=400), "grammar": f"root ::= {json.dumps(text)}", **more}


def events(server, path, body):
    text = server.call(path, {**body, "stream": True})[1]
    return [json.loads(x[5:]) for x in text.splitlines() if x.startswith("data:") and "[DONE]" not in x]


def test_a_chat_has_reasoning_content(server):
    status, answer = server.call("/v1/chat/completions", saying(SAYS[server.form]))
    message = answer["choices"][0]["message"]
    assert (status, message["reasoning_content"], message["content"]) == (200, "I add <1>.", "It is nine.")
    thought = text = ""
    for event in server.client().chat.completions.create(**chat(max_tokens=400), stream=True,
                                                         extra_body={"grammar": saying(SAYS[server.form])["grammar"]}):
        delta = event.choices[0].delta
        more = getattr(delta, "reasoning_content", None) or ""
        assert not (more and text), "thoughts come first"
        thought += more
        text += delta.content or ""
    assert (thought, text) == ("I add <1>.", "It is nine.")


def test_a_required_call(server):
    body = {**chat(max_tokens=400), "tools": [TOOL], "tool_choice": "required"}
    choice = server.call("/v1/chat/completions", body)[1]["choices"][0]
    call = choice["message"]["tool_calls"][0]["function"]
    assert call["name"] == "tides" and json.loads(call["arguments"])["day"] in ("monday", "friday")
    assert "reasoning_content" not in choice["message"]


def test_thoughts_stay_in_the_text_if_asked(server):
    answer = server.call("/v1/chat/completions", saying(SAYS[server.form], reasoning_format="none"))[1]
    message = answer["choices"][0]["message"]
    assert message["content"] == SAYS[server.form] and "reasoning_content" not in message
    status, answer = server.call("/v1/chat/completions", saying("x", reasoning_format="other"))
    assert status == 400 and answer["error"]["param"] == "reasoning_format"


def test_a_response_has_a_reasoning_item(server):
    body = {k: v for k, v in saying(SAYS[server.form]).items() if k not in ("messages", "max_tokens")}
    body |= {"input": "Well?", "max_output_tokens": 400}
    answer = server.call("/v1/responses", body)[1]
    thought, message = answer["output"]
    assert thought["type"] == "reasoning" and thought["content"] == [{"type": "reasoning_text", "text": "I add <1>."}]
    assert message["content"][0]["text"] == "It is nine."
    assert answer["usage"]["output_tokens_details"]["reasoning_tokens"] > 0
    seen = events(server, "/v1/responses", body)
    parts = {k: "".join(e["delta"] for e in seen if e["type"] == f"response.{k}.delta")
             for k in ("reasoning_text", "output_text")}
    assert parts == {"reasoning_text": "I add <1>.", "output_text": "It is nine."}
    done = [e["item"]["type"] for e in seen if e["type"] == "response.output_item.done"]
    assert done == ["reasoning", "message"]
    assert [x["type"] for x in seen[-1]["response"]["output"]] == done


def test_reasoning_tokens_are_those_of_the_thought(server):
    """A special token's text in it is text."""
    says = SAYS[server.form].replace("I add <1>.", "I read <|im_end|>.")
    body = {"grammar": saying(says)["grammar"], "input": "Well?", "max_output_tokens": 400}
    answer = server.call("/v1/responses", body)[1]
    assert answer["output"][0]["content"][0]["text"] == "I read <|im_end|>."
    tokens = server.call("/tokenize", {"content": "I read <|im_end|>."})[1]["tokens"]
    assert answer["usage"]["output_tokens_details"]["reasoning_tokens"] == len(tokens)


def test_a_message_has_a_thinking_block(server):
    body = saying(SAYS[server.form], thinking={"type": "enabled", "budget_tokens": 1024})
    content = server.call("/v1/messages", body)[1]["content"]
    assert [(b["type"], b.get("thinking", b.get("text"))) for b in content] == [
        ("thinking", "I add <1>."), ("text", "It is nine.")]
    seen = events(server, "/v1/messages", body)
    blocks = [e["content_block"]["type"] for e in seen if e["type"] == "content_block_start"]
    deltas = [e["delta"] for e in seen if e["type"] == "content_block_delta"]
    assert blocks == ["thinking", "text"]
    assert "".join(d.get("thinking", "") for d in deltas) == "I add <1>."
    assert "".join(d.get("text", "") for d in deltas) == "It is nine."
    assert [e["index"] for e in seen if e["type"] == "content_block_stop"] == [0, 1]


def test_ollama_has_thinking(server):
    body = {"messages": [{"role": "user", "content": "Well?"}], "options": {"num_predict": 400}, "think": True,
            "grammar": saying(SAYS[server.form])["grammar"], "stream": False}
    message = server.call("/api/chat", body)[1]["message"]
    assert (message["thinking"], message["content"]) == ("I add <1>.", "It is nine.")
    lines = [json.loads(x)["message"] for x in server.call("/api/chat", {**body, "stream": True})[1].splitlines()]
    assert "".join(m.get("thinking", "") for m in lines) == "I add <1>."
    assert "".join(m["content"] for m in lines) == "It is nine."


def test_a_template_may_open_thoughts(tmp_path):
    with start("opened", tmp_path) as s:
        message = s.call("/v1/chat/completions", chat(max_tokens=12, min_tokens=6))[1]["choices"][0]["message"]
        assert message["reasoning_content"] and message["content"] == ""
        message = s.call("/v1/chat/completions", saying("It is nine."))[1]["choices"][0]["message"]
        assert message["content"] == "It is nine." and "reasoning_content" not in message


def test_thoughts_that_have_begun_are_continued_with_their_blank(tmp_path):
    with start("tags", tmp_path) as s:
        begun = {"messages": [{"role": "user", "content": "Who is the keeper?"}, {"role": "assistant", "content": "<think>The keeper is"}],
                 "continue_final_message": True, "temperature": 0, "max_tokens": 12, "ignore_eos": True}
        text = s.call("/v1/chat/completions", {**begun, "reasoning_format": "none"})[1]["choices"][0]["message"]["content"]
        message = s.call("/v1/chat/completions", begun)[1]["choices"][0]["message"]
        assert text.startswith(" ") and (message["reasoning_content"], message["content"]) == (text.rstrip(), "")
        assert "".join(e["choices"][0]["delta"].get("reasoning_content", "") for e in events(s, "/v1/chat/completions", begun)
                       if e["choices"]) == text.rstrip()


def test_a_model_without_thoughts_is_not_asked_for_them(tmp_path):
    with start("none", tmp_path) as s:
        status, answer = s.call("/v1/messages", {**chat(max_tokens=4), "thinking": {"type": "enabled"}})
        assert status == 400 and "no thoughts" in answer["error"]["message"]
        message = s.call("/v1/chat/completions", saying("<think>a</think>b"))[1]["choices"][0]["message"]
        assert message["content"] == "<think>a</think>b"


def test_earlier_thoughts_reach_the_template(tmp_path):
    """A model that calls functions continues from what it thought before the call."""
    s = start("told", tmp_path)
    call = {"type": "function_call", "call_id": "c1", "name": "tides", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "Low."}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [],
               "content": [{"type": "reasoning_text", "text": "I look."}]}
    use = {"type": "tool_use", "id": "t1", "name": "tides", "input": {}}

    def tokens(path, body):
        usage = s.call(path, body)[1]["usage"]
        return usage.get("prompt_tokens") or usage["input_tokens"] + usage.get("cache_read_input_tokens", 0)

    def response(*items):
        return tokens("/v1/responses", {"input": [{"role": "user", "content": "Well?"}, *items, result],
                                        "max_output_tokens": 1})

    def message(*blocks):
        return tokens("/v1/messages", {"max_tokens": 1, "messages": [
            {"role": "user", "content": "Well?"}, {"role": "assistant", "content": [*blocks, use]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "Low."}]}]})
    try:
        texts = [s.call("/apply-template", {"messages": [
            {"role": "user", "content": "Well?"}, {"role": "assistant", "content": "Yes.", **more}]})[1]["prompt"]
                 for more in ({}, {"reasoning_content": "hm"})]
        assert texts == ["Well?Yes.", "Well?Yes.[hm]"]
        more = response(thought, call) - response(call)
        assert more > 3
        assert message({"type": "thinking", "thinking": "I look.", "signature": ""}) - message() == more
    finally:
        assert s.stop() == 0, s.said
