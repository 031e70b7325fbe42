"""`spolia apply-template` against Jinja2, which renders the same templates as Hugging Face's
apply_chat_template does; and what the spans of its output promise."""
import functools
import importlib.util
import json
import time
from pathlib import Path

import jinja2
import jinja2.ext
import jinja2.sandbox
import pytest
from conftest import ROOT, refuse, succeed

HOME = ROOT / "tests/unit/model/templates"
NAMES = sorted(path.stem for path in HOME.glob("*.jinja"))

TOOLS = [{"type": "function", "function": {
    "name": "weather", "description": "Weather of a <city> & \"more\"\nlines é",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": ["integer", "null"]}},
                   "required": ["city"]}, "return": {"type": "string"}}}]
CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "abcdefghi", "type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo", "days": 2}}}]}
RESULT = {"role": "tool", "name": "weather", "tool_call_id": "abcdefghi", "content": "{\"rain\": true}"}
USER, SYSTEM = {"role": "user", "content": "  Why? <|im_end|>[INST]\n"}, {"role": "system", "content": "Be kind.\n"}
ANSWER = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nSo: 雨 </s>"}
DOCUMENTS = [{"title": "One", "text": "First text."}, {"title": "Two", "text": "Second <|eot_id|> text.", "n": 3}]

REQUESTS = {
    "one": {"messages": [USER]},
    "system": {"messages": [SYSTEM, USER]},
    "turns": {"messages": [USER, ANSWER, {"role": "user", "content": "And?"}]},
    "closed": {"messages": [SYSTEM, USER, ANSWER], "add_generation_prompt": False},
    "tools": {"messages": [SYSTEM, USER], "tools": TOOLS},
    "called": {"messages": [USER, CALL, RESULT], "tools": TOOLS},
    "documents": {"messages": [USER], "documents": DOCUMENTS},
    "arguments": {"messages": [USER], "chat_template_kwargs": {"enable_thinking": False}},
}
MORE = {  # for the templates of PACKAGES, beside those above
    "thinking": {"messages": [SYSTEM, USER], "tools": TOOLS, "chat_template_kwargs": {
        "enable_thinking": True, "thinking": True, "reasoning_effort": "high"}},
    "reasons": {"messages": [USER, {**ANSWER, "content": "So.", "reasoning_content": "hm", "thinking": "hm"},
                             {"role": "user", "content": "And?"}]},
    "reasoned call": {"messages": [USER, {**CALL, "reasoning_content": "It rains?\n", "content": ""}, RESULT, ANSWER], "tools": TOOLS},
    "two calls": {"messages": [USER, {**CALL, "content": "I ask.", "tool_calls": CALL["tool_calls"] * 2}, RESULT, RESULT, ANSWER,
                               {"role": "user", "content": "So?"}], "tools": TOOLS * 2},
    "text arguments": {"messages": [USER, {**CALL, "tool_calls": [{**CALL["tool_calls"][0], "function": {
        "name": "weather", "arguments": "{\"city\": \"Oslo\"}"}}]}, RESULT], "tools": TOOLS},
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "One. "}, {"type": "text", "text": "Two"}]}]},
    "unknown role": {"messages": [USER, {"role": "critic", "content": "Bad."}]},
    "two users": {"messages": [USER, USER]},
}
# Packages of the Python registry whose folders have templates as their models' authors publish them.
PACKAGES = {"trl": "chat_templates", "axolotl": "utils/chat_templates/templates"}
VISION = ("idefics3", "llava_next", "smolvlm")  # show parts of lists only


class Raised(Exception):
    pass


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def raise_exception(message):
    raise Raised(message)


@functools.lru_cache(None)
def compiled(source):
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda fmt: time.strftime(fmt, time.gmtime())
    return env.from_string(source)


def expected(source, request):
    """What Hugging Face's apply_chat_template gives, or the exception's text."""
    values = {"tools": None, "documents": None, "add_generation_prompt": True, **request}
    values.update(values.pop("chat_template_kwargs", {}))
    return compiled(source).render(**values)


def render(tmp_path, source, request):
    (tmp_path / "t.jinja").write_text(source)
    (tmp_path / "r.json").write_text(json.dumps(request))
    return "apply-template", "--template", tmp_path / "t.jinja", tmp_path / "r.json"


def with_tokens(request):
    kwargs = {"bos_token": "<s>", "eos_token": "</s>", **request.get("chat_template_kwargs", {})}
    return {**request, "chat_template_kwargs": kwargs}


def strings_of(value):
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings_of(part)


def look_up(request, path):
    for step in path.replace("]", "").replace("[", ".").split("."):
        request = request[int(step)] if step.isdigit() else request[step]
    return request


def published():
    """Paths of the packages' templates that are not their own: those for training are changed for it."""
    for package, folder in PACKAGES.items():
        found = importlib.util.find_spec(package)
        for root in found.submodule_search_locations if found else []:
            yield from (path for path in sorted((Path(root) / folder).glob("*.jinja"))
                        if not path.stem.endswith("_training") and path.stem not in VISION)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", REQUESTS)
def test_equals_jinja2(name, kind, tmp_path):
    check_equal((HOME / f"{name}.jinja").read_text(), with_tokens(REQUESTS[kind]), tmp_path)


def continued(source, request):
    """The text up to the end of the last message, as Hugging Face's apply_chat_template finds it: by a mark after it."""
    *before, last = request["messages"]
    closed = {**request, "add_generation_prompt": False}
    text = expected(source, {**closed, "messages": [*before, {**last, "content": last["content"] + "END_OF_IT"}]})
    text = text[:text.rindex("END_OF_IT")]
    return text if last["content"] in expected(source, closed) else text.rstrip()


@pytest.mark.parametrize("name", sorted({*NAMES} - {"macros"}))
def test_the_text_ends_with_an_answer_that_has_begun(name, tmp_path):
    source = (HOME / f"{name}.jinja").read_text()
    for content in ("Why", " So: 雨 </s>\n\n1.\n", "<think>\nhm\n</think>\n\nSo"):
        for before in ([USER], [USER, ANSWER, {"role": "user", "content": "Why?"}]):
            request = with_tokens({"messages": [*before, {"role": "assistant", "content": content}], "continue_final_message": True})
            made = json.loads(succeed(*render(tmp_path, source, request), "--json"))
            assert made["text"] == continued(source, request)
            assert made["spans"][-1]["to"] == len(made["text"].encode())


def test_a_part_or_no_text_is_continued(tmp_path):
    source = "{% for m in messages %}[{{ m.role }}:{% for p in m.content %}{{ p.text | trim }};{% endfor %}]{% endfor %}"
    parts = [{"type": "text", "text": "One"}, {"type": "text", "text": "Two "}, {"type": "image"}]
    request = {"messages": [{"role": "assistant", "content": parts}], "continue_final_message": True}
    assert succeed(*render(tmp_path, source, request)).strip() == "[assistant:One;Two"
    opened = "{% for m in messages %}<{{ m.role }}>\n{{ m.content | trim }}<end>\n{% endfor %}"
    for content in (None, "", " \n"):
        request = {"messages": [USER, {"role": "assistant", "content": content}], "continue_final_message": True}
        assert succeed(*render(tmp_path, opened, request)).endswith("<end>\n<assistant>\n")


@pytest.mark.parametrize("source,change,said", [
    ("{{ messages[-1].content | upper }}", {}, "does not show the end"), ("{{ messages[0].content }}", {}, "does not show the end"),
    ("{{ messages[-1].content[:2] }}", {}, "does not show the end"), ("{{ messages[-1].content }}", {"add_generation_prompt": True}, "exclude"),
    ("{{ messages[-1].content }}", {"messages": [USER]}, "not the assistant's"), ("{{ messages[-1].content }}", {"messages": [USER, CALL]}, "tool_calls"),
    ("{{ messages[-1].content }}", {"continue_final_message": 1}, "continue_final_message"),
    ("x", {"messages": [{"role": "assistant", "content": [{"type": "image"}]}]}, "no text")])
def test_what_cannot_be_continued(source, change, said, tmp_path):
    request = {"messages": [USER, {"role": "assistant", "content": "Anna"}], "continue_final_message": True, **change}
    refuse(*render(tmp_path, source, request), naming=[said])


@pytest.mark.parametrize("arguments,refused", [("*[1, 2]", None), ("*parts, c=3", None), ("0, *[]", None), ("*messages", None),
                                               ("*7", "is no list"), ("*[1, 2, 3, 4]", "no such argument"),
                                               ("**{}", "the argument list")])
def test_a_macro_takes_the_items_of_a_list(arguments, refused, tmp_path):
    source = ("{% macro f(a, b=5, c=6) %}[{{ a }}|{{ b }}|{{ c }}]{% endmacro %}{% set parts = ['x', 'y'] %}{% set all = [f] %}"
              f"{{{{ f({arguments}) }}}}{{{{ all[0]({arguments}) }}}}{{% for m in messages %}}{{{{ m.content }}}}{{% endfor %}}")
    request = with_tokens({"messages": [USER]})
    if refused:
        refuse(*render(tmp_path, source, request), naming=["chat template: line 1", refused])
    else:
        assert json.loads(succeed(*render(tmp_path, source, request), "--json"))["text"] == expected(source, request)


@pytest.mark.parametrize("path", list(published()) or [None], ids=lambda path: path and f"{path.parents[1].name}-{path.stem}")
def test_a_published_template_equals_jinja2(path, tmp_path):
    if not path:
        pytest.skip(f"the packages {', '.join(PACKAGES)} are not installed")
    source = path.read_text()
    for request in (REQUESTS | MORE).values():
        check_equal(source, with_tokens(request), tmp_path)
    request = with_tokens({"messages": [{"role": "user", "content": " \u16a0a \u16a0<|im_end|>"}]})
    assert_all_in_spans(json.loads(succeed(*render(tmp_path, source, request), "--json")), "\u16a0")


def check_equal(source, request, tmp_path):
    command = render(tmp_path, source, request)
    try:
        wanted = expected(source, request)
    except Raised as error:
        refuse(*command, naming=[str(error)[:60]])
        return
    except (TypeError, ValueError, LookupError, jinja2.exceptions.TemplateError):
        refuse(*command, naming=["chat template: line "])
        return
    made = json.loads(succeed(*command, "--json"))
    assert made["text"] == wanted
    text, at = made["text"].encode(), 0
    for span in made["spans"]:
        assert at <= span["from"] < span["to"] <= len(text)
        at = span["to"]
        if span["at"] >= 0:
            whole = look_up({**request, **request["chat_template_kwargs"]}, span["path"]).encode()
            assert text[span["from"]:span["to"]] == whole[span["at"]:span["at"] + span["to"] - span["from"]]


@pytest.mark.parametrize("name", NAMES)
def test_input_is_never_template_text(name, tmp_path):
    """Every byte of the input is in a span: a letter that no template has occurs nowhere else."""
    mark = "\u16a0"
    source = (HOME / f"{name}.jinja").read_text()
    request = with_tokens({"messages": [{"role": "user", "content": f" {mark}a {mark}<|im_end|>"}],
                           "documents": [{f"k{mark}": mark, "list": [mark, {mark: mark}]}]})
    assert_all_in_spans(json.loads(succeed(*render(tmp_path, source, request), "--json")), mark)


def assert_all_in_spans(made, mark):
    text, at, outside = made["text"].encode(), 0, b""
    for span in made["spans"]:
        outside += text[at:span["from"]]
        at = span["to"]
    assert mark in made["text"]
    assert mark.encode() not in outside + text[at:]


@pytest.mark.parametrize("source", [
    "{{ messages[0].content | replace('b', 'XX') }}", "{{ messages[0].content[::-1] }}",
    "{{ messages[0].content | upper }}", "{{ messages }}", "{{ messages | tojson }}",
    "{{ [messages[0].content, 'x'] | join(messages[0].content) }}", "{{ messages[0].content.split('b') }}",
    "{% set c %}{{ messages[0].content }}{% endset %}{{ c ~ c }}", "{{ messages[0].content | list | last }}",
    "{% macro f(x) %}[{{ x }}]{% endmacro %}{{ f(f(messages[0].content)) }}", "{{ '%s' ~ messages[0] }}",
    "{{ messages[0].content | indent }}", "{{ messages[0].items() | list }}", "{{ messages[0].content * 2 }}",
])
def test_operations_keep_the_origin(source, tmp_path):
    request = {"messages": [{"role": "user", "content": "\u16a0b\n\u16a0bc\u16a0"}]}
    made = json.loads(succeed(*render(tmp_path, source, request), "--json"))
    assert made["text"] == expected(source, request)
    text, at, outside = made["text"].encode(), 0, b""
    for span in made["spans"]:
        outside += text[at:span["from"]]
        at = span["to"]
    assert "\u16a0" in made["text"] and "\u16a0".encode() not in outside + text[at:]


@pytest.mark.parametrize("source", [
    "{{ ['b', 'B', 'a', 'C', 'A'] | sort }}{{ ['b', 'B', 'a'] | sort(true, true) }}{{ [3, 1.5, true, -2] | sort(reverse=true) }}",
    "{{ messages | sort(attribute='role') }}{{ messages | sort(reverse=true, attribute='content') | map(attribute='role') | list }}",
    "{{ [3, 1, 2] | min }}{{ [3, 1, 3.0] | max }}{{ ['b', 'A'] | min }}{{ ['b', 'A', 'B'] | max }}{{ ['b', 'B'] | max(true) }}",
    "{{ [] | min is defined }}{{ (messages | max(attribute='content')).role }}{{ 'hello' | sort | join }}",
    "{{ ['a', 'A', 'b'] | unique | list }}{{ ['a', 'A'] | unique(true) | list }}{{ messages | unique(attribute='role') | list }}",
    "{{ ['a', 1] | sort }}", "{{ [1, none] | min }}",
])
def test_order(source, tmp_path):
    messages = [{"role": "user", "content": "b"}, {"role": "Tool", "content": "c"}, {"role": "user", "content": "a"}]
    check_equal(source, with_tokens({"messages": messages}), tmp_path)


@pytest.mark.parametrize("source", [
    "{{ x | tojson(ensure_ascii=true) }}{{ x | tojson(true) }}{{ x | tojson(ensure_ascii=false) }}",
    "{{ x | tojson(indent=2) }}{{ x | tojson(false, 3) }}{{ x | tojson(indent='\t') }}{{ x | tojson(indent=0) }}{{ x | tojson(indent=-1) }}",
    "{{ x | tojson(separators=(',', ':')) }}{{ x | tojson(separators=[' ; ', ' = '], indent=1) }}{{ x | tojson(separators=none) }}",
    "{{ x | tojson(sort_keys=true) }}{{ x | tojson(sort_keys=true, indent=true, separators=('', '')) }}{{ x | tojson(sort_keys=false) }}",
    "{{ x | tojson(separators=(messages[0].content, ':'), indent=messages[0].role) }}",
    "{{ {2: 1, 10: 2, -3: 3} | tojson(sort_keys=true) }}{{ {} | tojson(true, 2, (',', ':'), true) }}{{ [] | tojson(indent=2) }}",
    "{{ x | tojson(sorted=true) }}", "{{ x | tojson(indent=1.5) }}", "{{ x | tojson(separators=',') }}", "{{ x | tojson(separators=(',', 1)) }}",
    "{{ {2: 1, '10': 2} | tojson(sort_keys=true) }}",
])
def test_json_is_laid_out_as_it_says(source, tmp_path):
    x = {"b": [1, {"z": None, "a": True}], "é": "\u16a0 \U0001f600\x7f\n\u0001", "a": {}, "Z": []}
    check_equal(source, with_tokens({"messages": [USER], "chat_template_kwargs": {"x": x}}), tmp_path)


@pytest.mark.parametrize("source", [
    "{{ '{} {} {}'.format(1, 'x', x) }}", "{{ '{1}{0}{1}'.format(messages[0].content, [1, 'a']) }}", "{{ '{a}{{}}{b}'.format(b=none, a=1.0) }}",
    "{{ messages[0].content.format(1, n='é') }}", "{{ '{!r}{!s}{a!r}'.format('a', 'b', a={'k': true}) }}{{ ''.format(1) }}{{ '}}'.format() }}",
    "{{ 'no field'.format() ~ '{}'.format(messages[0].role) }}", "{{ '{}'.format() }}", "{{ '{1}'.format(0) }}", "{{ '{a}'.format(b=1) }}",
    "{{ '{'.format(1) }}", "{{ '}'.format(1) }}", "{{ '{a'.format(a=1) }}", "{{ '{{}'.format(a=1) }}", "{{ '{}{0}'.format(1) }}", "{{ '{0}{}'.format(1) }}",
    "{{ '{!x}'.format(1) }}", "{{ '{ }'.format(1) }}", "{{ '{99999999999999999999}'.format(1) }}", "{{ 3.format(1) }}", "{{ nothing.format(1) }}",
])
def test_texts_are_formatted(source, tmp_path):
    request = with_tokens({"messages": [{"role": "user", "content": "<{}|{n}>\u16a0"}], "chat_template_kwargs": {"x": {"a": [1, None]}}})
    check_equal(source, request, tmp_path)


@pytest.mark.parametrize("source", [
    "{% if IT %}{{ 1 | frobnicate }}{% endif %}ok", "{% if not IT %}a{% elif 1 is frobnicated %}b{% else %}{% set x = 1 | frobnicate(2) %}{% endif %}ok",
    "{{ 1 | frobnicate if IT else 3 }}", "{{ [1, (2 | frobnicate)] if IT else 3 }}", "{{ 3 if not IT else 1 | frobnicate }}", "{{ 1 if IT and 2 is frobnicated else 3 }}",
    "{% if IT %}{% for a in 1 | frobnicate %}{% endfor %}{% endif %}ok", "{% if IT %}{% for a in [1] %}{{ a | frobnicate }}{% endfor %}{% endif %}ok",
    "{% if IT %}{% for a in [1] if a is frobnicated %}{% endfor %}{% endif %}ok", "{% for a in [1] %}{% if IT %}{{ a | frobnicate }}{% endif %}{% endfor %}ok",
    "{% if IT %}{% for a in [] %}{% else %}{{ 1 | frobnicate }}{% endfor %}{% endif %}ok", "{% if IT %}{% set a %}{{ 1 | frobnicate }}{% endset %}{% endif %}ok",
    "{% if IT %}{% macro f() %}{{ 1 | frobnicate }}{% endmacro %}{% endif %}ok", "{% if IT %}{% macro f(a=1 | frobnicate) %}{% endmacro %}{% endif %}ok",
    "{% macro f() %}{% if IT %}{{ 1 | frobnicate }}{% endif %}{% endmacro %}{{ f() }}ok", "{% if 1 | frobnicate %}{% endif %}ok", "{{ 1 | frobnicate }}ok",
    "{% if IT %}{% endif %}{{ 1 | frobnicate }}ok", "{% if IT %}{% for a in [1] %}{% endfor %}{{ 1 | frobnicate }}{% endif %}ok", "{{ (1 if IT else 2) | frobnicate }}ok",
    "{% if IT %}{{ [1].frobnicate() }}{% endif %}ok", "{% if IT %}{% set _ = [1].append(2) %}{% endif %}ok", "{% if IT %}{{ {}.pop('a') }}{% endif %}ok",
    "{% for a in [] %}{{ a.frobnicate(1, b=2) }}{% endfor %}ok", "{% if IT %}{{ nothing.frobnicate() }}{% endif %}ok", "{{ 'a'.get('b') if IT }}ok",
])
@pytest.mark.parametrize("it", [False, True])
def test_what_is_unknown_fails_where_it_does_in_jinja2(source, it, tmp_path):
    check_equal(source, with_tokens({"messages": [], "chat_template_kwargs": {"IT": it}}), tmp_path)


def test_keys_may_be_integers(tmp_path):
    source = ("{% set d = {0: 'zero', 512: 'b', -7: 'c', '0': 'text', 512: 'again'} %}{{ d }}|{{ d | tojson }}|{{ d[512] }}|{{ d['0'] }}"
              "|{{ d[-7] }}|{{ d[1] is defined }}|{{ 0 in d }}{{ 1 in d }}|{{ d.get(0) }}|{{ d.get(9, 'none') }}|{{ d | list }}"
              "|{{ d == {512: 'again', '0': 'text', 0: 'zero', -7: 'c'} }}|{% for k, v in {16384: 1, 9: 2, -1: 3} | dictsort %}{{ k + 1 }}={{ v }} {% endfor %}")
    request = {"messages": []}
    assert json.loads(succeed(*render(tmp_path, source, request), "--json"))["text"] == expected(source, request)


@pytest.mark.parametrize("source, words", [
    ("a\n{{ x | frobnicate }}", ["line 2", "filter 'frobnicate' is not supported"]),
    ("{{ x is frobnicated }}", ["line 1", "test 'frobnicated'"]),
    ("{% if true %}\n{{ x | frobnicate }}{% endif %}", ["line 2", "filter 'frobnicate' is not supported"]),
    ("{{ 1 if\n2 is frobnicated }}", ["line 2", "test 'frobnicated' is not supported"]),
    ("\n{{ 'a'.frobnicate(1) }}", ["line 2", "a string has no method 'frobnicate', or it is not supported"]),
    ("{{ '{:>5}'.format(1) }}", ["line 1", "format: the field ':>5}' is not supported"]),
    ("{{ '{a.b}'.format(a=1) }}", ["format: the field 'a.b}' is not supported"]),
    ("{{ {} | tojson(indent=17) }}", ["tojson: an indent over 16"]),
    ("{{ cycler(1) }}", ["function 'cycler'"]),
    ("{% include 'x' %}", ["tag 'include'"]),
    ("{% for x in y recursive %}{% endfor %}", ["recursive"]),
    ("{% if x %}", ["ends before 'elif'"]),
    ("{{ 1 + }}", ["line 1"]),
    ("{{ 'abc }}", ["a string does not end"]),
    ("{{ 1 / 0 }}", ["division by zero"]),
    ("{{ nothing.x }}", ["'x' of an undefined value"]),
    ("{{ 'a' + 1 }}", ["'+' cannot take a string and an integer"]),
    ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", ["over a limit"]),
    ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", ["nested levels"]),
    ("{{ " + "(" * 200 + "1" + ")" * 200 + " }}", ["nested levels"]),
    ("{% set n = namespace(x='0123456789') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
     ["too much memory"]),
    ("{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
     ["nested levels"]),
    ("{{ raise_exception('no, thanks') }}", ["no, thanks"]),
])
def test_refusals_name_line_and_reason(source, words, tmp_path):
    refuse(*render(tmp_path, source, {"messages": []}), naming=words)


def test_requests_are_checked(tmp_path):
    for request, words in [({}, ["messages"]), ({"messages": 3}, ["messages"]), ({"messages": [], "tools": {}}, ["tools"])]:
        refuse(*render(tmp_path, "x", request), naming=words)
