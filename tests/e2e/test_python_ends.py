"""How uses of the Python package end: programs that are interrupted, forked, closed or at their end. Each is a process
of its own."""
import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import ROOT

from reference import encoder

BUILD = ROOT / os.environ.get("SPOLIA_BUILD", "build")
sys.path.insert(0, str(BUILD / "python"))
spolia = pytest.importorskip("spolia", reason="make python has not run")

MODEL = ROOT / "demo/model.gguf"


INDEXES = """
import os, signal, sys, spolia
told = []
def progress(file, done, total):
    told.append(done)
    if len(told) == 3:
        if sys.argv[3] == "Ctrl-C": os.kill(os.getpid(), signal.SIGINT)
        if sys.argv[3] == "an exception": raise LookupError("of the program")
        if sys.argv[3] == "False": return False
try:
    spolia.Index.build(sys.argv[1], sys.argv[2], progress=progress)
except BaseException as e:
    print(type(e).__name__, len(told) < 10)
"""


@pytest.mark.parametrize("how, raised", [("Ctrl-C", "KeyboardInterrupt"), ("an exception", "LookupError"),
                                         ("False", "Canceled")])
def test_an_index_that_is_being_built_can_be_canceled(how, raised, tmp_path):
    done = subprocess.run([sys.executable, "-c", INDEXES, ROOT / "demo/docs", tmp_path / "x.db", how],
                          capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    assert (done.stdout.split(), done.stderr) == ([raised, "True"], "")


def test_ctrl_c_ends_the_building_of_an_index_without_progress(tmp_path):
    for i in range(3000):
        (tmp_path / f"{i}.txt").write_text(f"Berth {i} is let. " * 40, encoding="utf-8")
    program = "import sys, spolia; print('begins', flush=True); spolia.Index.build(sys.argv[1], sys.argv[1] + '/x.db')"
    child = subprocess.Popen([sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    assert child.stdout.readline() == "begins\n"
    time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    error = child.communicate(timeout=60)[1]
    assert child.returncode in (130, -2, 1) and error.rstrip().endswith("KeyboardInterrupt") and "cffi callback" not in error
    with pytest.raises(spolia.Error):
        spolia.Index(tmp_path / "x.db")


IN_A_CHILD = """
import os, sys, signal, spolia
engine = spolia.open(sys.argv[1])
index = spolia.Index.build(sys.argv[2], sys.argv[3])
running = engine.stream("Count.", max_tokens=400, ignore_end=True)
def child():
    signal.alarm(60)
    wrong = 0
    for use in (lambda: engine.ask("x"), lambda: index.search("x"), lambda: next(iter(running)), lambda: running.answer,
                running.cancel, lambda: engine.tokenize("x"), lambda: engine.info):
        try:
            use()
            wrong += 1
        except spolia.AfterFork as e:
            wrong += "parent process" not in str(e)
    engine.close()
    with spolia.open(sys.argv[1]) as own:
        wrong += own.ask("x", max_tokens=2).account.n_generated != 2
    return wrong
pid = os.fork()
if pid == 0:
    code = 99
    try:
        code = child()
    finally:
        os._exit(code)
status = os.waitpid(pid, 0)[1]
print(status, engine.ask("x", max_tokens=2).account.n_generated, len(running.answer.text) > 0)
"""


def test_a_forked_child_gets_an_exception_and_may_open_an_engine_of_its_own(tmp_path):
    done = subprocess.run([sys.executable, "-c", IN_A_CHILD, MODEL, ROOT / "demo/docs", tmp_path / "x.db"],
                          capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "2", "True"], done.stdout + done.stderr


EXITS = """
import os, signal, sys, threading, spolia
engine = spolia.open(sys.argv[1])
def generate():
    return engine.stream("Count.", max_tokens=3000, ignore_end=True)
def generate_forever():
    while True:
        for _ in generate():
            begun.set()
begun = threading.Event()
how = sys.argv[2]
if how == "a daemon thread":
    threading.Thread(target=generate_forever, daemon=True).start()
    begun.wait()
else:
    running = generate()
    pieces = iter(running)
    next(pieces)
print("leaves", flush=True)
if how == "Ctrl-C":
    os.kill(os.getpid(), signal.SIGINT)
    for _ in pieces:
        pass
if how == "an exception":
    raise ValueError("of the program")
"""


@pytest.mark.parametrize("how, codes", [("the end", {0}), ("a daemon thread", {0}), ("an exception", {1}),
                                        ("Ctrl-C", {130, -2, 1})])
def test_a_program_may_end_while_an_answer_is_generated(how, codes):
    done = subprocess.run([sys.executable, "-c", EXITS, MODEL, how], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    assert done.stdout == "leaves\n" and done.returncode in codes, done.stderr


INTERRUPTED = """
import os, signal, sys, threading, spolia
engine, how = spolia.open(sys.argv[1]), sys.argv[2]
free = engine.info.kv_blocks_free
often = {"max_tokens": 3000, "ignore_end": True}
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    if how == "ask":
        engine.ask("Count.", **often)
    for _ in engine.stream("Count.", **often):
        pass
except KeyboardInterrupt as e:
    held = e  # as an interactive session does, with the frames of its traceback
engine.complete("x", max_tokens=1, max_wait_ms=20000)
engine.forget()
print(engine.info.kv_blocks_free == free)
"""


@pytest.mark.parametrize("how", ["ask", "stream"])
def test_ctrl_c_ends_a_request(how):
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, MODEL, how], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    assert done.stdout == "True\n", done.stderr


SCORES = """
import os, signal, sys, numpy, spolia
engine, take, n_rows = spolia.open(sys.argv[1]), numpy.frombuffer, 0
def counted(*row, **kind):
    global n_rows
    n_rows += 1
    if n_rows == 1:
        os.kill(os.getpid(), signal.SIGINT)
    return take(*row, **kind)
numpy.frombuffer = counted
try:
    engine.logits([5] * 4000)
except KeyboardInterrupt:
    print(n_rows < 4000)
print(engine.logits([5] * 3).shape[0], engine.complete("x", max_tokens=1, ignore_end=True).account.n_generated)
"""


def test_ctrl_c_ends_logits():
    pytest.importorskip("numpy", reason="numpy is not installed")
    done = subprocess.run([sys.executable, "-c", SCORES, MODEL], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    assert done.stdout == "True\n3 1\n", done.stdout + done.stderr


ENCODES = """
import os, signal, sys, threading, time, spolia
encoder = spolia.Embedder(sys.argv[1], threads=1)
def run(texts):
    return encoder.score("which river?", texts) if encoder.scores_pairs else encoder.embed(texts)
def seconds(n):
    began = time.monotonic()
    try:
        run(["the river of the walls and stones"] * n)
    except KeyboardInterrupt:
        print("ended")
    return time.monotonic() - began
few = seconds(2000)
threading.Timer(2 * few, os.kill, (os.getpid(), signal.SIGINT)).start()
print(seconds(100_000) < 25 * few, len(run(["the river"])))
"""


@pytest.mark.parametrize("write", [encoder.write_folder, encoder.write_cross_encoder], ids=["embed", "score"])
def test_ctrl_c_ends_an_encoder(write, tmp_path):
    """A list of 50 times the texts takes 50 times as long, except that it is interrupted."""
    done = subprocess.run([sys.executable, "-c", ENCODES, write(tmp_path / "m")], capture_output=True, text=True,
                          timeout=300, env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    assert done.stdout == "ended\nTrue 1\n", done.stdout + done.stderr


CLOSES = """
import sys, threading, time, spolia
index, calls, kinds = sys.argv[2], 0, set()
def until_closed(call):
    global calls
    try:
        while True:
            call()
            calls += 1
    except (ValueError, spolia.Canceled) as e:
        kinds.add(type(e))
for _ in range(4):
    engine, found = spolia.open(sys.argv[1], threads=1), spolia.Index(index)
    uses = [lambda: found.search("Who keeps the boats of the harbour?", 50), lambda: engine.tokenize("Who? " * 4000),
            lambda: engine.prompt().system("a b c " * 300), lambda: engine.stream("Who?", max_tokens=20).close(),
            lambda: engine.ask("Who?", max_tokens=2)]
    threads = [threading.Thread(target=until_closed, args=(call,)) for call in uses for _ in range(2)]
    for t in threads:
        t.start()
    time.sleep(0.2)
    for handle in (engine, found, engine):
        handle.close()
        assert handle.closed
    for t in threads:
        t.join()
print(calls > 0, ValueError in kinds)
"""


def test_closing_waits_for_calls_of_other_threads(tmp_path):
    spolia.Index.build(ROOT / "demo/docs", tmp_path / "demo.db").close()
    done = subprocess.run([sys.executable, "-c", CLOSES, MODEL, tmp_path / "demo.db"], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr
