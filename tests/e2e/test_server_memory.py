"""Each allocation of some calls of `spolia serve` fails once: the answer is right, or it is an error of the server."""
import os
import subprocess

import pytest

from conftest import PROGRAM, ROOT
from serving import MODEL, chat
from support import faults

pytestmark = pytest.mark.skipif(os.environ.get("SPOLIA_BUILD", "build") not in ("build", str(ROOT / "build")),
                                reason="a sanitizer has its own malloc")
BOATS = [{"id": "boats", "text": "Forty boats are in the harbour of Velm."}]
CALLS = {
    "graph": ("/v1/graph", {"query": "Who keeps Velm?"}),
    "echo": ("/v1/completions", {"prompt": "The harbour", "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1}),
    "collection": ("/v1/chat/completions", chat("Boats?", collection="docs", max_tokens=1)),
    "citations": ("/v1/chat/completions", chat("Boats?", documents=BOATS, citations=True, max_tokens=1)),
    "rank": ("/v1/rerank", {"query": "boats", "documents": ["Forty boats.", "A pier."]}),
    "list": ("/v1/collections/docs/documents", None),
    "explain": ("/v1/requests/ASKED/explain", None),
    "count": ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "Boats?"}]})}

FIRST = {"collection": 1100}  # those before are of the shelf and of the body


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("failing")
    store, graph, triples = folder / "store", folder / "graph.db", folder / "t.csv"
    store.mkdir()
    triples.write_text("Anna,keeps,Velm\n")
    subprocess.run([PROGRAM, "graph", "import", triples, "-o", graph], check=True, capture_output=True)
    control = faults.Faults(folder, faults.build_preload(folder, ROOT))
    s = faults.Server(PROGRAM, MODEL, store, control, more=["--graph", graph])
    assert s.started and s.call("/v1/collections", {"name": "docs"})[0] == 201
    assert s.call("/v1/collections/docs/documents", BOATS[0])[0] == 201
    yield s, control
    assert s.stop() == 0


def failures(s, control, name, call, right):
    """Calls, each with one allocation that fails, until none is left: answers that are neither right nor an error."""
    n, wrong, failed = FIRST.get(name, 0), [], True
    while failed:
        n += 1
        control.fail_nth(n)
        status, answer = s.call(*call)
        failed = control.has_failed()
        control.fail_nth(0)
        if status not in (0, 500, 503) and (status != 200 or faults.essence(answer) != right):
            wrong.append((n, status, answer))
    assert n > FIRST.get(name, 0) + 10
    return wrong


@pytest.mark.parametrize("name", CALLS)
def test_an_answer_without_memory_is_right_or_an_error(failing, name):
    s, control = failing
    path, body = CALLS[name]
    call = (path.replace("ASKED", s.call(*CALLS["citations"])[1]["id"]), body)
    right = [faults.essence(s.call(*call)[1]) for _ in range(2)][1]
    for _ in range(1 if name in FIRST else 2):  # other threads allocate, too, so a round may miss some
        assert not failures(s, control, name, call, right)
