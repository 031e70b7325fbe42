"""`GET /v1/requests`: what waits and runs."""
import threading
import time

from jsonschema import Draft202012Validator

from test_json import SCHEMAS
from serving import LONG, busy


def listed(server, key=None):
    status, o = server.call("/v1/requests", key=key)
    assert status == 200, o
    Draft202012Validator(SCHEMAS["requests"]).validate(o)
    return o["data"]


def until(check, seconds=300):
    end = time.time() + seconds
    while not (found := check()):
        assert time.time() < end
        time.sleep(0.02)
    return found


def test_running_and_waiting_ones_are_listed(start, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("a-key\nb-key\n")
    s = start("--parallel", "1", "--api-keys", keys)
    assert listed(s, "a-key") == []
    s.key = "a-key"
    with busy(s, key="a-key"):
        first, = until(lambda: [r for r in listed(s, "a-key") if r["generated"] > 3])
        assert (first["state"], first["path"], first["prompt_tokens"] > 0) == ("answer", "/v1/completions", True)
        with busy(s, key="a-key", n=2):
            both = until(lambda: (lambda l: len(l) == 2 and l)(listed(s, "a-key")))
            assert both[0]["id"] == first["id"] and both[0]["generated"] >= first["generated"]
            assert (both[1]["state"], both[1]["generated"]) == ("waiting", 0)
            assert listed(s, "b-key") == [] # another tenant's
            assert s.call("/v1/requests")[0] == 401
    assert until(lambda: not listed(s, "a-key"))


def test_the_tokens_of_all_choices_are_counted(start):
    s = start("--parallel", "1")
    with busy(s):
        until(lambda: [r for r in listed(s) if r["generated"] > LONG["max_tokens"]])


def test_a_long_prompt_says_how_far_it_is(start):
    s = start("--reuse", "off")
    body = {"prompt": "The harbour of Velm was built by the town. " * 260, "max_tokens": 1}
    seen = []
    while not seen: # it may be over before anybody looks
        thread = threading.Thread(target=s.call, args=("/v1/completions", body))
        thread.start()
        while thread.is_alive() and not seen:
            seen = [r for r in listed(s) if r["state"] == "prompt" and r["computed"] > 0]
        thread.join()
    assert seen[0]["computed"] < seen[0]["to_compute"] <= seen[0]["prompt_tokens"]
