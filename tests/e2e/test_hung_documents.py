"""`spolia serve` while the disk with the registered documents hangs: other requests are answered, and SIGTERM ends it."""
import os
import threading

import pytest

from conftest import PROGRAM, ROOT
from serving import MODEL, chat
from support import faults

pytestmark = pytest.mark.skipif(os.environ.get("SPOLIA_BUILD", "build") not in ("build", str(ROOT / "build")),
                                reason="a sanitizer has its own malloc")


def test_a_process_ends_while_the_file_of_documents_hangs(tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    disk = faults.Faults(tmp_path, faults.build_preload(tmp_path, ROOT))
    s = faults.Server(PROGRAM, MODEL, store, disk, more=["--drain", "1"])
    try:
        assert s.started and s.call("/v1/documents", {"id": "pier", "text": "The pier of Velm burnt down."})[0] == 201
        disk.set(0, 10**9, hang=1)
        deletion = threading.Thread(target=lambda: s.call("/v1/documents/pier", method="DELETE"))
        deletion.start()
        assert s.call("/v1/chat/completions", chat("Who?", max_tokens=1))[0] == 200
        assert s.stop(seconds=30) == 1
        deletion.join()
    finally:
        disk.set()
    again = faults.Server(PROGRAM, MODEL, store, disk)
    try:
        assert again.started and again.call("/v1/documents/pier", method="DELETE")[0] == 200
    finally:
        assert again.stop() == 0
