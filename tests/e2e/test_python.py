"""The Python package, as `make python` puts it into the build folder."""
import copy
import datetime
import fractions
import gc
import json
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import threading
import time

import pytest
from conftest import ROOT, succeed
from serving import Server
from test_server_fields import FIM, model_that_fills_in_the_middle

from reference import encoder

BUILD = ROOT / os.environ.get("SPOLIA_BUILD", "build")
sys.path.insert(0, str(BUILD / "python"))
spolia = pytest.importorskip("spolia", reason="make python has not run")

MODEL = ROOT / "demo/model.gguf"
QUESTIONS = [json.loads(line)["question"] for line in open(ROOT / "demo/questions.jsonl", encoding="utf-8")][:4]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    built = spolia.Index.build(ROOT / "demo/docs", tmp_path_factory.mktemp("python") / "demo.db")
    assert len(built) > 20
    return built


@pytest.fixture
def engine():
    with spolia.open(MODEL, reuse="full") as e:
        yield e


def test_what_is_public_explains_itself():
    known = [(name, getattr(spolia, name)) for name in spolia.__all__ if name != "__version__"]
    known += [(f"{name}.{member}", value) for name, kind in known if isinstance(kind, type) and kind.__module__ != "builtins"
              for member, value in vars(kind).items() if not member.startswith("_") and callable(value)]
    assert [name for name, value in known if not (value.__doc__ or "").strip()] == []


def test_ask_gives_the_programs_answers(index, tmp_path):
    database = tmp_path / "demo.db"
    spolia.Index.build(ROOT / "demo/docs", database)
    with spolia.open(MODEL) as e:
        ours = [e.ask(q, index=index).text for q in QUESTIONS]
        ids = [h.id for h in e.ask(QUESTIONS[0], index=index, max_tokens=1).sources]
    assert ids == sorted(ids) != [h.id for h in index.search(QUESTIONS[0], distinct=True)]  # equal sets share a prefix
    said = succeed("ask", "-m", MODEL, "--index", database, "--json", "--guard", "0", input="\n".join(QUESTIONS) + "\n")
    assert ours == [json.loads(line)["text"] for line in said.splitlines()]


def test_chunks_that_do_not_fit_are_left_out_as_the_program_does(index, tmp_path):
    database = tmp_path / "demo.db"
    spolia.Index.build(ROOT / "demo/docs", database)
    questions = [QUESTIONS[0] + " why" * n for n in (0, 60, 125)]
    with spolia.open(MODEL, n_ctx=512) as e:
        asked = {q: e.ask(q, index=index, max_tokens=200) for q in questions}
        with pytest.raises(spolia.ContextTooLong):
            e.ask(QUESTIONS[0] + " why" * 700, index=index)
        with pytest.raises(spolia.ContextTooLong):  # documents that are given are never left out
            e.ask(QUESTIONS[0], index=index, documents=["why " * 900])
    said = succeed("ask", "-m", MODEL, "-i", database, "-c", "512", "-n", "200", "--json", "--guard", "0",
                   input="\n".join(questions) + "\n")
    for q, account in zip(questions, map(json.loads, said.splitlines())):
        assert [h.id for h in asked[q].sources] == [c["id"] for c in account["chunks"]]
        assert asked[q].account.n_prompt == account["usage"]["prompt_tokens"] and asked[q].text == account["text"]
    assert len({len(a.sources) for a in asked.values()}) == 3


def test_the_server_says_the_same():
    """Chats, texts and questions over documents, with options that are drawn at random."""
    words = "The harbour keeper Anna Berg 1931 é 日本語 🙂 Velm, \" \\ {x} <|im_end|> Who is ?".split(" ")
    texts = ["The keeper of the lighthouse is called Anna Berg.", "灯台の番人はアンナです。", {"title": "boats", "text": "Velm has forty. 🙂"}]
    with Server("--reuse", "prefix", model=MODEL) as s, spolia.open(MODEL, reuse="prefix") as e:
        for seed in range(24):
            r = random.Random(seed)
            said = [" ".join(r.choice(words) for _ in range(r.randint(1, 6))) for _ in range(4)]
            how = {"max_tokens": r.randint(1, 20), **r.choice([{"temperature": 0}, {"temperature": 1.5, "seed": seed + 1, "top_k": 9, "min_p": .01}]),
                   **r.choice([{}, {}, {"stop": ["e", " "]}, {"repeat_penalty": 1.3, "presence_penalty": -1}])}
            theirs, ours = r.choice([({}, {}), ({"ignore_eos": True}, {"ignore_end": True}),
                                     ({"guided_choice": said[:2]}, {"texts": said[:2]}), ({"guided_regex": "[A-Z]é{2}"}, {"regex": "[A-Z]é{2}"})])
            theirs, ours, path = {**how, **theirs}, {**how, **ours}, "/v1/chat/completions"
            talk = [{"role": role, "content": text} for role, text in zip(("system", "user", "assistant", "user"), said)]
            if seed % 3 == 0:
                path, theirs, ours = "/v1/completions", {**theirs, "prompt": said[0]}, e.complete(said[0], **ours)
            elif seed % 3 == 1:
                theirs, ours = {**theirs, "messages": talk}, e.chat(talk, **ours)
            else:
                documents = r.sample(texts, 2)
                theirs, ours = {**theirs, "messages": talk[:2], "documents": documents}, e.ask(said[1], system=said[0], documents=documents, **ours)
            _, o = s.call(path, theirs)
            (c,) = o["choices"]
            want = c["text"] if "text" in c else c["message"]["content"] or "", c["finish_reason"], o["usage"]["prompt_tokens"]
            assert (ours.text, ours.finish, ours.account.n_prompt) == want, theirs


def test_the_second_prompt_reuses_chunks_in_another_order(engine):
    documents = [{"title": f"note {i}", "text": f"Note {i} says that box {i} is kept in room {i + 7}. " * 4}
                 for i in range(5)]
    first = engine.ask("Where is box 1?", documents=documents)
    assert first.account.n_reused == 0 and first.account.n_chunks == 5
    assert {s.missed for s in first.account.segments if s.kind == "chunk"} == {"never seen"}
    second = engine.ask("Where is box 2?", documents=documents[::-1])
    assert second.account.chunks_reused == 5
    assert second.account.n_reused + second.account.n_computed == second.account.n_prompt
    assert {s.source for s in second.account.segments if s.kind == "chunk"} == {"memory"}
    exact = engine.ask("Where is box 2?", documents=documents[::-1], reuse="off")
    assert exact.account.n_reused == 0 and exact.account.n_prompt == second.account.n_prompt


def test_a_stream_is_the_answer_in_pieces(engine, index):
    stream = engine.stream(QUESTIONS[0], index=index, max_tokens=20, ignore_end=True)
    pieces = list(stream)
    assert len(pieces) > 1 and "".join(pieces) == stream.answer.text
    assert list(stream) == [] and stream.closed
    assert stream.answer.sources and stream.answer.account.n_generated == len(stream.answer.tokens)


def test_stop_length_and_sampling_reach_the_engine(engine, index):
    whole = engine.ask(QUESTIONS[0], index=index, max_tokens=20, ignore_end=True)
    assert whole.finish == "length" and whole.account.n_generated == 20
    middle = whole.text[len(whole.text) // 2:][:3]
    cut = engine.ask(QUESTIONS[0], index=index, max_tokens=20, ignore_end=True, stop=middle)
    assert cut.finish == "stop" and middle not in cut.text
    hot = {engine.ask(QUESTIONS[0], index=index, max_tokens=20, ignore_end=True, temperature=3.0, seed=s).text
           for s in range(1, 5)}
    assert len(hot) > 1


def test_an_answer_that_has_begun_is_continued(engine):
    begun, new = (engine.prompt().message("user", "Who?").answer(*text) for text in (("Anna is",), ()))
    assert len(begun) > len(new)
    with pytest.raises(spolia.InvalidArgument, match="comes last"):
        begun.text("more")


def test_answers_have_the_form_that_is_asked_for(engine):
    def ask(**form):
        return engine.ask("When was the mill built?", max_tokens=200, **form)
    assert re.fullmatch(r"(18|19)\d\d-[a-f]{3}", ask(regex=r"(18|19)\d\d-[a-f]{3}").text)
    assert re.fullmatch(r"(yes|no)( (yes|no))*", ask(gbnf='root ::= word (" " word){0,3}\nword ::= "yes" | "no"').text)
    assert ask(texts=["red", "green"]).text in ("red", "green")
    schema = {"type": "object", "properties": {"day": {"type": "string", "format": "date"}}, "required": ["day"]}
    for given in (schema, json.dumps(schema)):
        datetime.date.fromisoformat(json.loads(ask(schema=given).text)["day"])
    with pytest.raises(spolia.InvalidArgument, match="line 1, column 1: this group is not closed"):
        ask(regex="(a")
    with pytest.raises(spolia.Unsupported, match="idn-email"):
        ask(schema={"type": "string", "format": "idn-email"})
    with pytest.raises(spolia.InvalidArgument, match="more than one"):
        ask(regex="a", gbnf='root ::= "a"')
    with pytest.raises(TypeError, match="texts is a list, not str"):
        ask(texts="red")
    with pytest.raises(ValueError, match="texts is empty"):
        ask(texts=[])


def test_token_ids_end_answers(engine):
    whole = engine.complete("The old mill", max_tokens=12, ignore_end=True)
    assert len(whole.tokens) == 12
    end = whole.tokens[6]
    cut = engine.complete("The old mill", max_tokens=12, ignore_end=True, stop_token_ids=[end, whole.tokens[9]])
    assert cut.finish == "stop" and cut.tokens == whole.tokens[:whole.tokens.index(end)]


def test_a_suffix_needs_a_model_that_fills_in_the_middle(engine, tmp_path, monkeypatch):
    with pytest.raises(spolia.Unsupported, match="middle"):
        engine.complete("The old", suffix=" wall.")
    with spolia.open(model_that_fills_in_the_middle(tmp_path, monkeypatch)) as filler:
        ask = {"max_tokens": 3, "min_tokens": 3, "temperature": 0}
        filled = filler.complete("The old", suffix=" wall.", **ask)
        same = filler.complete(f"{FIM[0]}The old{FIM[1]} wall.{FIM[2]}", **ask)
        assert filled.text == same.text and filled.account.n_prompt == same.account.n_prompt


def test_a_conversation_reuses_its_earlier_turns(engine):
    turns = [{"role": "system", "content": "Answer the question from the documents."},
             {"role": "user", "content": "Who is Ada? " * 10}]
    first = engine.chat(turns, max_tokens=16)
    turns += [{"role": "assistant", "content": first.text}, {"role": "user", "content": "And Bob?"}]
    assert engine.chat(turns, max_tokens=4).account.n_reused >= first.account.n_prompt - 16
    with pytest.raises(ValueError, match="unknown role 'robot'"):
        engine.chat([{"role": "robot", "content": "x"}])
    with pytest.raises(ValueError, match="documents need a message"):
        engine.chat(turns[:1], documents=["a"])


def test_arguments_may_be_of_other_types(engine, index, tmp_path):
    numpy = pytest.importorskip("numpy")
    turns = [{"role": "user", "content": "Who is Ada?"}, {"role": "assistant", "content": "A friend."}, {"role": "user", "content": "And Bob?"}]
    assert engine.chat(iter(turns), max_tokens=4).account.n_prompt == engine.chat(turns, max_tokens=4).account.n_prompt
    with pytest.raises(ValueError, match="messages is empty"):
        engine.chat(iter([]))
    whole = engine.complete("The old mill", max_tokens=8, ignore_end=True)
    for ids in (numpy.array(whole.tokens[3:5]), iter(whole.tokens[3:5])):
        assert engine.complete("The old mill", max_tokens=8, ignore_end=True, stop_token_ids=ids).finish == "stop"
    for wrong in ("boats.md", b"boats.md"):
        with pytest.raises(TypeError, match="files is a list, not"):
            index.search("boats", files=wrong)
    with pytest.raises(TypeError, match="stop is a list, not bytes"):
        engine.ask("x", stop=b"a")
    for call in (lambda: engine.ask(b"x"), lambda: engine.tokenize(b"x"), lambda: engine.ask("x", quality=b"x"),
                 lambda: engine.prompt().chunk(b"x")):
        with pytest.raises(TypeError, match="b'x' is not a text"):
            call()
    with pytest.raises(TypeError, match="top_k: Fraction.* is not a whole number"):
        engine.ask("x", top_k=fractions.Fraction(3, 2))
    model = os.fsdecode(os.fsencode(tmp_path) + b"/m\xe9.gguf")  # a name that is not UTF-8
    os.symlink(MODEL, model)
    with spolia.open(model, threads=1) as e:
        assert e.info.n_threads == 1


def test_salts_do_not_share_copies(engine):
    documents = ["A fact that one tenant has told. " * 8]
    assert engine.ask("What?", documents=documents, salt="a").account.chunks_reused == 0
    assert engine.ask("What?", documents=documents, salt="b").account.chunks_reused == 0
    assert engine.ask("What now?", documents=documents, salt="a").account.chunks_reused == 1


def test_another_thread_cancels_and_python_goes_on_meanwhile(engine):
    stream = engine.stream("Count.", documents=["Numbers. " * 20], max_tokens=3500, ignore_end=True)
    ticks = []
    threading.Timer(0.2, stream.cancel).start()
    started = time.time()
    for _ in stream:
        ticks.append(time.time())
    assert stream.answer.finish == "canceled" and time.time() - started < 30
    assert len(ticks) == stream.answer.account.n_generated or len(ticks) > 1


def test_quality_is_one_knob(engine, tmp_path):
    documents = [f"Box {i} is in room {i + 3}, next to the box with the key." for i in range(4)]
    question = "Where is box 2?"
    off = engine.ask(question, documents=documents, reuse="off")
    assert engine.ask(question, documents=documents, quality="exact").text == off.text
    others = [f"Jar {i} is on shelf {i + 3}, next to the jar with the honey." for i in range(4)]
    engine.ask(question, documents=others, quality="fast")
    turned = others[::-1]
    fast, balanced = (engine.ask(question, documents=turned, quality=q) for q in ("fast", "balanced"))
    assert fast.account.chunks_reused == 4 and fast.account.n_recomputed == 0 < balanced.account.n_recomputed
    with pytest.raises(ValueError, match="exact, balanced or fast"):
        engine.ask(question, documents=documents, quality="best")
    with pytest.raises(ValueError, match="excludes"):
        engine.ask(question, documents=documents, quality="fast", reuse="full")
    model = tmp_path / "model.gguf"
    model.symlink_to(MODEL)
    (tmp_path / "model.gguf.reuse.json").write_text(
        '{"version": 1, "policies": {}, "qualities": {"balanced": {"policy": "random", "recompute": 1, "alpha": 0}}}')
    with spolia.open(model, quality="balanced", threads=1) as calibrated:
        calibrated.ask(question, documents=documents)
        account = calibrated.ask(question, documents=documents[::-1]).account
        chunks = [s for s in account.segments if s.kind == "chunk"]
        assert account.n_recomputed == sum(s.n_tokens for s in chunks[1:]) > 0 # the first follows the head: it is exact


def test_many_threads_share_an_engine(engine, index):
    expected = {q: engine.ask(q, index=index, reuse="off").text for q in QUESTIONS}
    got = {}
    threads = [threading.Thread(target=lambda q=q: got.__setitem__(q, engine.ask(q, index=index, reuse="prefix").text))
               for q in QUESTIONS]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == expected


def test_answers_and_hits_have_the_numbers_of_the_library():
    """Of each field its own, in its unit."""
    ffi, keep = spolia._library.ffi, []

    def text(words):
        keep.append(ffi.new("char[]", words.encode()))
        return keep[-1]
    segments = ffi.new("sp_segment_report[1]", [
        {"kind": text("chunk"), "n_tokens": 9, "n_reused": 8, "n_recomputed": 2, "from": text("disk"), "missed": text("edited")}])
    result = ffi.new("sp_result *", {
        "finish": 2, "text": text("so"), "tokens": ffi.NULL, "n_prompt": 40, "n_reused": 30, "n_computed": 10, "n_recomputed": 4,
        "n_dropped": 3, "queue_us": 1500, "ttft_us": 2500, "decode_us": 3500, "segments": segments, "n_segments": 1})
    account = spolia.Account(n_prompt=40, n_reused=30, n_computed=10, n_recomputed=4, n_dropped=3, n_generated=0, queue_ms=1.5, ttft_ms=2.5,
                             decode_ms=3.5, segments=(spolia.Segment("chunk", 9, 8, 2, "disk", "edited"),))
    answer = sys.modules["spolia.account"].read_answer(result, ())
    assert (answer.text, answer.finish, answer.tokens, answer.account) == ("so", "length", (), account)
    hit = ffi.new("sp_hit *", {"id": 5, "score": 0.5, "file": text("f"), "title": text("t"), "text": text("x"), "first_line": 7,
                               "last_line": 8, "page": 6, "root": text("r")})
    assert sys.modules["spolia.account"].read_hit(hit) == spolia.Hit(5, 0.5, "f", "t", "x", 7, 8, 6, "r")


def test_roles_and_documents_have_their_other_names(engine):
    def tokens(role, *documents):
        with engine.prompt() as p:
            return len(p.message(role, "Be kind.", documents).answer())
    for role in ("system", "developer"):
        with engine.prompt() as p:
            p.message(role, "Be kind.").message("user", "Who?").answer()
            assert engine.generate(p, max_tokens=1).account.segments[0].kind == "system"
    found = {tokens("user", d) for d in ("Boats.", {"text": "Boats."}, {"content": "Boats."}, {"page_content": "Boats."})}
    assert len(found) == 1 and found != {tokens("user", {"text": "Boats.", "title": "A list of boats"})}
    with pytest.raises(ValueError, match="unknown role 'critic'"):
        tokens("critic")
    with pytest.raises(ValueError, match="quality excludes"):
        engine.ask("x", quality="exact", recompute=0.1)


def test_errors_are_exceptions_with_the_librarys_words(engine, tmp_path):
    with pytest.raises(spolia.InputOutputError, match="nothing.gguf"):
        spolia.open(tmp_path / "nothing.gguf")
    (tmp_path / "bad.gguf").write_bytes(b"not a model")
    with pytest.raises(spolia.FormatError, match="bad.gguf"):
        spolia.open(tmp_path / "bad.gguf")
    with pytest.raises(spolia.InvalidArgument, match="nonesuch"):
        engine.ask("x", reuse="nonesuch")
    with pytest.raises(spolia.InvalidArgument, match=r'"alfa=1" is unknown.*alpha \(0 to 1000000\)'):
        engine.ask("x", reuse="craft:alfa=1")
    with pytest.raises(TypeError, match="no option 'n_contexts'.*n_ctx"):
        spolia.open(MODEL, n_contexts=3)
    with pytest.raises(TypeError, match="no option 'store_folder'.*evict.*kv_bytes.*store, .*threads"):
        spolia.open(MODEL, store_folder="x")
    with pytest.raises(TypeError, match="no option 'temprature'.*quality.*regex.*seed.*temperature") as said:
        engine.ask("x", temprature=0)
    assert not re.search("on_text|n_stop|scored|grammar", str(said.value)), "fields that Python fills are not offered"
    for name, value, kind in (("temperature", "hot", "a number"), ("top_k", 1.5, "a whole number"), ("evict", 3, "a text")):
        with pytest.raises(TypeError, match=f"{name}: {value!r} is not {kind}"):
            spolia.open(MODEL, evict=value) if name == "evict" else engine.ask("x", **{name: value})
    with pytest.raises(OverflowError, match="top_k: 1099511627776 is too large"):
        engine.ask("x", top_k=1 << 40)
    with pytest.raises(ValueError, match="the question is empty"):
        engine.ask("", documents=["Anna Berg is the keeper."])
    with pytest.raises(ValueError, match="messages is empty"):
        engine.chat([])
    with pytest.raises(ValueError, match=r"messages\[0\] is not a mapping"):
        engine.chat(["Who is the keeper?"])
    for call in (lambda: engine.chat("Who is the keeper?"), lambda: engine.chat({"role": "user", "content": "x"}),
                 lambda: engine.ask("x", documents="Anna Berg is the keeper."), lambda: engine.ask("x", documents={"text": "A"}),
                 lambda: engine.chat([{"role": "user", "content": "x"}], documents="Anna Berg is the keeper.")):
        with pytest.raises(TypeError, match="is a list, not (str|dict)"):
            call()
    with pytest.raises(spolia.ContextTooLong):
        engine.ask("x", documents=["word " * 6000])
    with pytest.raises(ValueError, match="NUL"):
        engine.ask("a\0b")
    with pytest.raises(ValueError, match="NUL"):
        engine.ask("x", quality="exact\0ly")
    assert issubclass(spolia.InputOutputError, OSError) and spolia.FormatError("m", -3).code == -3
    assert engine.ask("Still there?", max_tokens=2).account.n_generated == 2


def test_nothing_outlives_the_engine(index):
    engine = spolia.open(MODEL)
    running = engine.stream("Count.", documents=["Numbers. " * 20], max_tokens=3000, ignore_end=True)
    prompt = engine.prompt().system("s")
    engine.close()
    with pytest.raises(spolia.Canceled):
        running.answer
    assert prompt.closed and running.closed and engine.closed
    with pytest.raises(ValueError, match="this engine is closed"):
        engine.ask("x")


def test_what_is_forgotten_is_released(engine):
    free = engine.info.kv_blocks_free
    for _ in range(3):
        engine.stream("Count.", documents=["Numbers. " * 20], max_tokens=2000, ignore_end=True)  # nobody reads it
    gc.collect()
    engine.forget()
    assert engine.info.kv_blocks_free == free


def test_wrong_types_are_named(engine, index, tmp_path):
    for call, said in ((lambda: engine.ask(None), "None is not a text|the question is empty"),
                       (lambda: engine.ask(3), "3 is not a text$"),
                       (lambda: engine.ask("x", documents=None), "documents is a list, not NoneType"),
                       (lambda: engine.ask("x", reuse=3), "reuse: 3 is not a text"),
                       (lambda: engine.generate("x"), "a prompt is a Prompt, .* not str"),
                       (lambda: index.search(None), "None is not a text$"),
                       (lambda: spolia.Index.build(b"x", tmp_path / "x.db"), "roots is a list, not bytes"),
                       (lambda: spolia.open(MODEL, threads="two"), "^threads: 'two' is not a whole number"),
                       (lambda: spolia.set_log("stderr"), "sink: 'stderr' is not a function"),
                       (lambda: pickle.dumps(engine), "Engine: .* cannot be pickled")):
        with pytest.raises((TypeError, ValueError), match=said):
            call()
    with pytest.raises(spolia.InputOutputError, match="caf\ufffd: No such file"):
        spolia.Index.build(os.fsdecode(b"caf\xe9"), tmp_path / "x.db")
    for empty in (lambda: spolia.open(""), lambda: spolia.Embedder("")):
        with pytest.raises(spolia.InvalidArgument, match="^model: give"):
            empty()


def test_lengths_of_arrays_are_not_options(engine):
    for name in ("n_stop", "n_stop_tokens", "n_bias", "n_scored", "top_logprobs", "citations"):
        with pytest.raises(TypeError, match=f"a request has no option '{name}'"):
            engine.ask("x", max_tokens=2, **{name: 5_000_000})
    with pytest.raises(TypeError, match="an engine has no option 'n_threads'.*threads"):
        spolia.open(MODEL, n_threads=1)


def test_none_is_the_normal_number_of_tokens(engine):
    whole = engine.complete("The old mill", ignore_end=True)
    assert whole.account.n_generated == 128
    assert engine.complete("The old mill", ignore_end=True, max_tokens=None).text == whole.text


def test_log_lines_arrive():
    done = subprocess.run(
        [sys.executable, "-c", "import spolia, sys; spolia.set_log(lambda level, line: print(level, line), 4);"
         "spolia.open(sys.argv[1]).close()", MODEL],
        capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_types_are_sound():
    pytest.importorskip("mypy", reason="mypy is not installed")
    done = subprocess.run([sys.executable, "-m", "mypy", "python/spolia"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_langchain_in_process(tmp_path):
    pytest.importorskip("langchain_core", reason="langchain-core is not installed")
    done = subprocess.run([sys.executable, ROOT / "examples/langchain_in_process.py", MODEL, ROOT / "demo/docs",
                           *(f"How much {thing} is in the stock of Zolrar?" for thing in ("sugar", "paper", "sugar"))], capture_output=True, text=True, cwd=tmp_path, timeout=300,
                          env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    assert done.returncode == 0, done.stderr
    answers, accounts = done.stdout.splitlines(), done.stderr.splitlines()
    assert answers == ["49 boxes", "29 boxes", "49 boxes"]
    told = [[int(n) for n in re.findall(r"\d+", account)[:2]] for account in accounts]
    assert told[0][0] == 0 and told[1][0] > told[1][1] / 2 and told[2][0] > told[2][1] / 2


def test_langchain_gets_titles_and_usage():
    pytest.importorskip("langchain_core", reason="langchain-core is not installed")
    from langchain_core.documents import Document
    from spolia import langchain
    account = spolia.Account(n_prompt=40, n_reused=30, n_computed=10, n_recomputed=4, n_dropped=3, n_generated=5, queue_ms=1.5, ttft_ms=2.5,
                             decode_ms=3.5, segments=())
    usage = langchain._usage(spolia.Answer("so", "stop", (), account))
    assert usage == {"input_tokens": 40, "output_tokens": 5, "total_tokens": 45, "input_token_details": {"cache_read": 30}}
    document = Document(page_content="Boats.", metadata={"title": "A list", "source": "a.md"})
    assert langchain._document(document) == {"text": "Boats.", "title": "A list"}
    assert langchain._document("Boats.") == "Boats."


def test_a_wheel_runs_in_an_environment_of_its_own(tmp_path):
    if shutil.which("cc") is None or "SPOLIA_EMULATED" in os.environ or BUILD != ROOT / "build":
        pytest.skip("the wheel is made of the plain build")
    pytest.importorskip("wheel", reason="the package wheel is not installed")
    done = subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--wheel-dir",
                           tmp_path, ROOT], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    wheel, = tmp_path.glob("spolia-*.whl")
    assert "-cp39-abi3-linux" in wheel.name, "of any Python"
    target = tmp_path / "site"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", target, wheel], check=True)
    done = subprocess.run([sys.executable, "-c", "import spolia, sys; print(spolia.__file__, "
                           "len(spolia.open(sys.argv[1]).tokenize('four words of text')))", MODEL],
                          capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(target)}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert str(target) in done.stdout


def test_a_source_distribution_holds_what_pip_compiles(tmp_path):
    if shutil.which("cc") is None or "SPOLIA_EMULATED" in os.environ or BUILD != ROOT / "build":
        pytest.skip("setup.py makes the plain build")
    done = subprocess.run([sys.executable, "setup.py", "-q", "egg_info", "--egg-base", tmp_path, "sdist", "-d", tmp_path],
                          cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    packed, = tmp_path.glob("spolia-*.tar.gz")
    shutil.unpack_archive(packed, tmp_path)
    root = tmp_path / packed.name.removesuffix(".tar.gz")
    for folder in "src", "include", "python":
        files = {f.relative_to(ROOT) for f in (ROOT / folder).rglob("*") if f.is_file() and f.suffix != ".pyc"}
        assert files and {f for f in files if not (root / f).is_file()} == set()
    subprocess.run(["make", "-n", "python"], cwd=root, check=True, capture_output=True)


def test_a_copy_of_an_engine_is_the_engine(engine, index):
    for twin in (copy.copy(engine), copy.deepcopy({"engine": engine})["engine"], copy.copy(index)):
        assert twin in (engine, index)
    del twin
    gc.collect()
    assert engine.ask(QUESTIONS[0], index=index, max_tokens=2).account.n_generated > 0


def test_a_stream_may_be_read_again(engine, monkeypatch):
    """By several threads, and after an error, which stays."""
    stream, got = engine.stream("Count.", max_tokens=30, ignore_end=True), []
    threads = [threading.Thread(target=lambda: got.append("".join(stream)), daemon=True) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert len(got) == 4 and sum(map(len, got)) == len(stream.answer.text)
    closed = engine.stream("Count.", max_tokens=1000, ignore_end=True)
    closed.close()
    for _ in range(4):
        with pytest.raises(spolia.Canceled):
            list(closed)
    def fails(result, sources):
        raise spolia.OutOfKV("no block is left", -7)
    failing = engine.stream("Count.", max_tokens=2)
    monkeypatch.setattr(sys.modules["spolia.engine"], "read_answer", fails)
    for read in (list, lambda s: s.answer, list, lambda s: s.answer):
        with pytest.raises(spolia.OutOfKV, match="no block is left"):
            read(failing)


def test_the_package_has_the_version_of_its_library():
    header = (ROOT / "include/spolia.h").read_text(encoding="utf-8")
    assert f'#define SPOLIA_VERSION "{spolia.__version__}"' in header


def test_a_tilde_is_the_home_and_an_index_may_be_its_file(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/lease.txt").write_text("The lease of the boathouse was signed by Anna Berg.", encoding="utf-8")
    shutil.copy(MODEL, tmp_path / "m.gguf")
    assert len(spolia.Index.build("~/notes", "~/notes.db")) == 1
    assert (tmp_path / "notes.db").exists() and len(spolia.Index("~/notes.db")) == 1
    with spolia.open("~/m.gguf", store="~/copies") as e:
        answer = e.ask("Who signed the lease?", index="~/notes.db", max_tokens=4)
        assert [h.file for h in answer.sources] == ["lease.txt"]
        assert e.ask("Who signed the lease?", index=tmp_path / "notes.db", max_tokens=4).text == answer.text
    assert (tmp_path / "copies").is_dir()


def test_logits_are_an_array(engine):
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    ids = engine.tokenize("The keeper of the lighthouse", special=True)
    rows = engine.logits("The keeper of the lighthouse")
    assert rows.shape == (len(ids), rows.shape[1]) and rows.dtype == np.float32
    assert np.array_equal(engine.logits(ids, last=True), rows[-1])
    assert np.array_equal(engine.logits(ids[:3])[2], rows[2])  # nothing ahead is seen
    said = engine.complete("The keeper of the lighthouse", max_tokens=1, temperature=0)
    assert engine.tokenize(said.text)[-1:] == [int(rows[-1].argmax())] or said.text == ""
    with pytest.raises(spolia.ContextTooLong):
        engine.logits([5] * (engine.info.n_ctx + 1))
    with pytest.raises(spolia.InvalidArgument):
        engine.logits([])


def embed_beside(spoken, embedder, texts, **callbacks):
    """sp_embedder_embed with callbacks of Python; the vectors."""
    ffi, lib = spoken.ffi, spoken.lib
    keep, n = spoken.Keep(), len(texts)
    inputs = keep.add(ffi.new("sp_embed_input[]", n))
    for to, t in zip(inputs, texts):
        to.text, to.n = keep.add(ffi.new("char[]", t.encode())), len(t)
    kinds = {"stop": "bool(void *)", "rests": "bool(void *)", "step_us": "int64_t(void *)"}
    o = ffi.new("sp_embed_opts *", {name: keep.add(ffi.callback(kinds[name], f)) for name, f in callbacks.items()})
    vectors = ffi.new("float[]", n * embedder.dimensions)
    with embedder.use() as c:
        spoken.check(lib.sp_embedder_embed(c, inputs, n, o, vectors, ffi.NULL))
    return list(vectors)


def test_steps_beside_answers_are_short(tmp_path):
    """A step has what its time allows, one text at least, and pauses after each layer; the vectors are the same."""
    from spolia import _library as spoken
    texts = [f"the river {i} of the walls and stones" for i in range(12)]
    with spolia.Embedder(encoder.write_folder(tmp_path / "m"), threads=1) as e:
        plain = embed_beside(spoken, e, texts)
        steps, pauses = [], []
        count_steps = lambda us: lambda _: steps.append(us) or us  # noqa: E731
        assert embed_beside(spoken, e, texts, step_us=count_steps(0)) == plain and len(steps) == 1
        assert embed_beside(spoken, e, texts, step_us=count_steps(1)) == plain and len(steps) == 1 + len(texts)
        embed_beside(spoken, e, texts[:1], rests=lambda _: pauses.append(len(pauses)) or len(pauses) % 3 != 0)
        n_pauses = len(pauses) / 3  # each was asked three times
        assert n_pauses == encoder.TINY["num_hidden_layers"] - 1 > 0
        assert len(embed_beside(spoken, e, texts, stop=lambda _: False)) == len(plain)


def test_a_question_does_not_wait_for_a_rest(tmp_path):
    """A call that rests holds its place in the middle of a text; one without rests gets the embedder all the same."""
    from spolia import _library as spoken
    resting, asked = threading.Event(), threading.Event()
    with spolia.Embedder(encoder.write_folder(tmp_path / "m"), threads=1) as e:
        def rests(_):
            resting.set()
            return not asked.is_set()
        job = threading.Thread(target=embed_beside, args=(spoken, e, ["the river"] * 3), kwargs={"rests": rests, "step_us": lambda _: 1})
        job.start()
        try:
            assert resting.wait(300)
            question = threading.Thread(target=e.embed, args=("which river?",), daemon=True)
            question.start()
            question.join(300)
            assert not question.is_alive() and not asked.is_set()
        finally:
            asked.set()
            question.join(300)
        job.join(300)
        assert not job.is_alive()
