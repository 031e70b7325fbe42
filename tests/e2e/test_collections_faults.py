"""Collections on a disk that cannot be read: an error, and never that there is none."""
import os

import pytest

from conftest import PROGRAM, ROOT
from serving import MODEL, chat
from support import faults

pytestmark = pytest.mark.skipif(os.environ.get("SPOLIA_BUILD", "build") not in ("build", str(ROOT / "build")),
                                reason="a sanitizer has its own malloc")
CALLS = [("/v1/collections/docs", None), ("/v1/models", None), ("/v1/collections/docs/documents", None), (f"/v1/models/docs@{MODEL.name}", None),
         ("/v1/collections", {"name": "docs"}), ("/v1/search", {"query": "boats", "collection": "docs"}),
         ("/v1/chat/completions", chat("How many boats?", collection="docs", max_tokens=1)),
         ("/v1/chat/completions", {**chat("How many boats?", max_tokens=1), "model": "docs@any"})]


def test_a_collection_that_cannot_be_read_is_an_error(tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    disk = faults.Faults(tmp_path, faults.build_preload(tmp_path, ROOT))
    s = faults.Server(PROGRAM, MODEL, store, disk)
    try:
        assert s.started and s.call("/v1/collections", {"name": "docs"})[0] == 201
        document = {"id": "harbour", "title": "Harbour", "text": "The harbour of Velm has room for forty boats."}
        assert s.call("/v1/collections/docs/documents", document)[0] == 201
        right = [s.call(*c)[0] for c in CALLS]
        assert right == [200, 200, 200, 200, 409, 200, 200, 200]
        disk.set(read=1, open=1)
        said = [s.call(*c) for c in CALLS]
        assert all(status in (500, 503) for status, _ in said), said
        disk.set()
        assert [s.call(*c)[0] for c in CALLS] == right
        count = s.call("/v1/collections/docs")[1]["retrieved"]
        disk.set(full=1)
        assert [s.call(*CALLS[6])[0] for _ in range(3)] == [200] * 3  # the counts of one are not written before the next
        assert s.call("/v1/collections/docs")[1]["retrieved"] == count + 3
        disk.set()
        assert s.call("/v1/collections")[1]["data"][0]["retrieved"] == count + 3
    finally:
        assert s.stop() == 0


def test_what_is_registered_is_said_to_be_though_it_cannot_be_read(tmp_path):
    """From the n-th read of a registration on the disk cannot be read."""
    store = tmp_path / "store"
    store.mkdir()
    disk = faults.Faults(tmp_path, faults.build_preload(tmp_path, ROOT))
    s = faults.Server(PROGRAM, MODEL, store, disk)
    n, said, failed = 0, {}, True
    try:
        assert s.started and s.call("/v1/collections", {"name": "docs"})[0] == 201
        while failed:
            n += 1
            for path, more in (("/v1/documents", {}), ("/v1/collections/docs/documents", {"tags": ["a", "b"], "ttl_seconds": 900})):
                disk.fail_nth(n, "read", then="fail on")
                status, told = s.call(path, {"id": f"d{n}", "title": "Harbour", "text": f"{n} boats of Velm. " * 300, **more})
                failed = disk.has_failed()
                disk.fail_nth(0)
                there, read = s.call(f"{path}/d{n}")
                assert (status, there) in ((201, 200), (500, 404), (503, 404)), (n, path, told)
                if status == 201:
                    assert {**told, "copies": 0} == {**read, "copies": 0} and told["chunks"] > 1
                said.setdefault((status, failed), n)
    finally:
        assert s.stop() == 0
    assert (201, True) in said and (500, True) in said, said
