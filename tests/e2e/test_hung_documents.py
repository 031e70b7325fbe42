"""`spolia serve` while the disk with the registered documents hangs: other requests are answered, and SIGTERM ends it."""
import json
import os
import socket
import threading
import time

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


def test_a_registration_that_waits_does_not_undo_a_later_deletion(tmp_path):
    """One key has a limit of documents, so its registrations wait for each other: a deletion passes the second one."""
    store, keys = tmp_path / "store", tmp_path / "keys"
    store.mkdir()
    keys.write_text("# limits: documents=9\na-key\n")
    disk = faults.Faults(tmp_path, faults.build_preload(tmp_path, ROOT))
    s = faults.Server(PROGRAM, MODEL, store, disk, more=["--api-keys", keys])
    s.key = "a-key"
    answers = {}

    def begin(name, method, body=None):
        thread = threading.Thread(target=lambda: answers.update({(name, method): s.call(f"/v1/documents/{name}", body, method)}))
        thread.start()
        time.sleep(0.3)  # it arrives
        return thread

    def hang_up(name, text):
        body = json.dumps({"text": text}).encode()
        c = socket.create_connection(s.url.split("//")[1].split(":"))
        c.sendall(f"PUT /v1/documents/{name} HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: a-key\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        time.sleep(0.3)
        c.close()

    try:
        assert s.started
        disk.set(0, 10**9, hang=1)
        calls = [begin("first", "PUT", {"text": "The pier of Velm burnt down."})]
        calls += [begin("second", "PUT", {"text": "The quay of Velm burnt down."})]
        hang_up("third", "The mole of Velm burnt down.")
        calls += [begin(name, "DELETE") for name in ("second", "third")]
        disk.set()
        for call in calls:
            call.join()
        assert {k: status for k, (status, _) in answers.items()} == {
            ("first", "PUT"): 201, ("second", "PUT"): 409, ("second", "DELETE"): 404, ("third", "DELETE"): 404}
        assert answers["second", "PUT"][1]["error"]["code"] == "document_deleted"
        assert s.call("/v1/documents/last", {"text": "The lock of Velm burnt down."}, "PUT")[0] == 201
        assert [d["id"] for d in s.call("/v1/documents")[1]["data"]] == ["first", "last"]
    finally:
        disk.set()
        assert s.stop() == 0
