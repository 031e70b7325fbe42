"""A server under tests/support/faults.c: its faults, and requests whose answers are known."""
import base64
import contextlib
import ctypes
import http.client
import io
import json
import mmap
import os
import pathlib
import signal
import subprocess
import time
import urllib.error
import urllib.request
import zipfile

OPTIONS = "allocator_may_return_null=1:verify_asan_link_order=0"  # of sanitizers
# A request that is under way while all processes of the machine are stopped is not one that is late.
NO_LIMITS = ["--read-timeout", "86400", "--stall-timeout", "86400"]
KINDS = ["allocation", "read", "write", "full", "short", "sync", "hang", "open", "change", "stat",
         "network"]
# Calls after the n-th go on, or they fail, too, or the process is killed instead of the n-th.
AFTER_NTH = ["go on", "fail on", "die"]
STORY = "The keeper of the northern lighthouse is called {} and came to the island by boat in 1931."
SYSTEM = {"role": "system", "content": "A harbour town in the north, with boats of many colours."}
SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "b": {"type": "boolean"}},
          "required": ["a", "b"], "additionalProperties": False}
BOATS = {"title": "Boats", "text": "Red boats are at the quay; blue boats are out at sea."}
HARBOUR = {"title": "Harbour", "text": "The harbour was built in 1870, and has room for forty boats in winter."}
SHIPS, MILLS, CARTS = ({"title": f"{what}s", "text": " ".join(f"{what} {i} is near {where} {k * i % 19} on day {i}."
                                                              for i in range(1, 23))}
                       for what, where, k in (("Ship", "port", 7), ("Mill", "hill", 5), ("Cart", "gate", 11)))
TREE = {"type": "tree", "id": "t", "paths": [["Elm", "near", "Oak"], ["Elm", "by", "Fir"]]}
LIST = {"type": "list", "items": ["Boats leave at nine.", "The quay has two hotels.", "Elm is near Oak."]}
TABLE = {"type": "table", "header": "boat | leaves", "rows": ["Tern | nine", "Gull | noon"]}
ANSWER = {"max_tokens": 4, "temperature": 0}
TOLD = {"logprobs": True, "top_logprobs": 5}
PAGE = "<html><body><h1>Boats</h1>" + "".join(
    f"<p>Boat number {i} is <b>red</b> &amp; has {i + 2} sails.</p><ul><li>oars</li><li>a keel</li></ul>"
    for i in range(30)) + "</body></html>"


def office():
    """A file of a word processor: XML in a ZIP archive."""
    paragraphs = "".join(f"<w:p><w:r><w:t>Pier {i} was built in {1800 + i}.</w:t></w:r></w:p>" for i in range(60))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("word/document.xml", '<?xml version="1.0"?><w:document xmlns:w="http://schemas.openxmlformats.org/'
                   f'wordprocessingml/2006/main"><w:body>{paragraphs}</w:body></w:document>')
    return file.getvalue()


FILES = {"page": ("a.html", PAGE.encode()), "text": ("a.docx", office())}


def say(text):
    return [SYSTEM, {"role": "user", "content": text}]


def requests_of(embedding):
    """Calls whose answers depend on nothing but their bodies: (path, body)."""
    chat = {**ANSWER, **TOLD, "messages": say("What is in the harbour?")}
    calls = [
        ("/v1/chat/completions", {**chat, "documents": [BOATS]}),
        ("/v1/chat/completions", {**chat, "documents": [BOATS, HARBOUR], "n": 2}),
        ("/v1/chat/completions", {**chat, "documents": [HARBOUR, BOATS, TREE]}),
        ("/v1/chat/completions", {**chat, "documents": [TREE]}),
        ("/v1/chat/completions", {**chat, "documents": [LIST, BOATS, TABLE]}),
        ("/v1/chat/completions", {**chat, "documents": [TREE, HARBOUR, LIST], "tree": "shifted"}),
        ("/v1/chat/completions", {**chat, "max_tokens": 30, "response_format": {
            "type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}}),
        ("/v1/chat/completions", {**chat, "max_tokens": 12, "documents": [HARBOUR], "stream": True}),
        ("/v1/completions", {**ANSWER, "prompt": "The harbour", "logprobs": 2}),
        ("/v1/completions", {**ANSWER, "prompt": ["The harbour", "A boat"], "echo": True}),
        ("/v1/responses", {"input": "Who came by boat?", "max_output_tokens": 4, "temperature": 0}),
        ("/v1/messages", {"messages": say("Who?")[1:], "max_tokens": 4, "temperature": 0, "model": "m"}),
        ("/api/generate", {"prompt": "The harbour", "stream": False, "options": {"num_predict": 4, "temperature": 0}}),
        ("/completion", {"prompt": "The harbour", "n_predict": 4, "temperature": 0}),
        ("/tokenize", {"content": "The harbour is full of boats.", "with_pieces": True}),
        ("/tokenize", {"content": "".join("ä" + "-" * i for i in range(40))}),  # each a \\u00e4 in the body
        ("/detokenize", {"tokens": [5, 6, 7, 8]}),
        ("/apply-template", {"messages": chat["messages"]}),
        ("/v1/search", {"query": "Who came by boat?", "documents": ["kept"]}),
        ("/v1/chat/completions", {**chat, "documents": [{"id": "kept"}]}),
    ]
    if embedding:
        calls += [("/v1/embeddings", {"input": ["the river", "a wall of stones"]}),
                  ("/api/embed", {"input": ["a river"], "model": "m"})]
    return calls


def tree(rng):
    """Some branches of one tree, or some of its leaves as a list or a table."""
    leaves = rng.sample([f"{what} {i} is near {where}." for i, (what, where) in enumerate(
        [("Elm", "Oak"), ("Fir", "Yew"), ("Ash", "Elm"), ("Oak", "Fir")])], rng.randint(1, 4))
    return rng.choice([{"type": "tree", "nodes": [{"text": "Trees:"}, *({"text": x, "parent": rng.randrange(i + 1)}
                                                                        for i, x in enumerate(leaves))]},
                       {"type": "list", "items": leaves}, {"type": "table", "header": "Trees", "rows": leaves}])


def long_requests():
    """Of prompts of which sparse decoding reads a small part, with probabilities that tell which."""
    more = {**ANSWER, **TOLD, "max_tokens": 8, "ignore_eos": True}
    return [("/v1/chat/completions", {**more, "messages": say(f"What is near {where}?"), "documents": documents})
            for where, documents in (("port 14", [SHIPS]), ("hill 15", [MILLS]), ("gate 9", [CARTS]),
                                     ("port 5", [BOATS, SHIPS]), ("hill 4", [HARBOUR, MILLS]))]


VARIES = {"id", "created", "created_at", "timings", "spolia", "prompt_tokens_details", "input_tokens_details",
          "usage_details",
          "total_duration", "load_duration", "prompt_eval_duration", "eval_duration", "generation_settings", "cache_n",
          "tokens_cached", "tokens_evaluated", "cache_read_input_tokens", "cache_creation_input_tokens",
          "input_tokens",
          "created_ms", "completed_at", "score", "prompt_eval_count", "seed"}


def essence(answer):
    """Without what differs between two runs: names, times, and what was reused."""
    if isinstance(answer, dict):
        return {k: essence(v) for k, v in answer.items() if k not in VARIES}
    return [essence(x) for x in answer] if isinstance(answer, list) else answer


def lacked_summaries(answer):
    """Whether it was decoded with full attention, since there was no memory for what sparse decoding needs."""
    return isinstance(answer, dict) and answer.get("spolia", {}).get("decode", {}).get("full") == "no memory"


def fully(body):
    """The same request, decoded with full attention."""
    return {**body, "decode": "exact"}


# Of the control: its bytes, the place of the clock in bytes, of the others in words.
BYTES, FAILED, SEED, CLOCK, READ_MB_S, NTH, NTH_KIND, THEN, KILLED = 256, 16, 32, 136, 36, 37, 38, 39, 40


class Faults:
    """The control of faults.c."""

    def __init__(self, folder, preload, more_env=None):
        self.path, self.preload, self.more_env = folder / "faults", preload, more_env or {}
        self.path.write_bytes(bytes(BYTES))
        self.file = open(self.path, "r+b")
        self.map = mmap.mmap(self.file.fileno(), BYTES)
        self.words = (ctypes.c_uint32 * (BYTES // 4)).from_buffer(self.map)
        self.tell = lambda what: None
        self.nth_kind, self.n_before = "allocation", 0

    def env(self, below):
        return {**os.environ, **self.more_env, "LD_PRELOAD": str(self.preload), "SPOLIA_FAULTS": str(self.path),
                "SPOLIA_FAULTS_DIR": str(below), "ASAN_OPTIONS": OPTIONS, "TSAN_OPTIONS": OPTIONS}

    def set(self, seed=0, hang_ms=0, **one_in):
        for i, kind in enumerate(KINDS):
            self.words[i] = one_in.get(kind, 0)
        self.words[SEED], self.words[SEED + 1] = seed, hang_ms
        self.tell({kind: f"1 in {n}" for kind, n in one_in.items()})

    def fail_nth(self, n, kind="allocation", then="go on"):
        """The n-th call of a kind from now fails, and then what AFTER_NTH says; 0: none."""
        self.words[NTH] = 0
        self.words[NTH_KIND], self.words[THEN] = KINDS.index(kind), AFTER_NTH.index(then)
        if n:
            self.nth_kind, self.n_before = kind, self.n_failed()[kind]
        self.words[NTH] = n

    def has_failed(self):
        """Whether the call that fail_nth last named has failed."""
        return self.n_failed()[self.nth_kind] > self.n_before

    def killed(self):
        """The number of the process that was killed last."""
        return self.words[KILLED]

    def progress(self):
        """Changes with each call of the kind that fail_nth named."""
        return self.words[NTH], self.n_failed()[self.nth_kind]

    def jump(self, seconds):
        ctypes.c_int64.from_buffer(self.map, CLOCK).value = seconds

    def n_failed(self):
        return {kind: self.words[FAILED + i] for i, kind in enumerate(KINDS)}


def build_preload(folder, root):
    made = folder / "faults.so"
    source = root / "tests/support/faults.c"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-O1", "-fno-omit-frame-pointer", "-shared", "-fPIC", "-o", made, source, "-ldl"], check=True)
    return made


class Server:
    """`spolia serve` with a store and documents below a folder."""

    def __init__(self, program, model, folder, faults, embedding=None, more=()):
        self.folder, self.log = folder, open(folder.parent / "log", "a+")
        command = [program, "serve", "-m", model, "--port", "0", "--reuse", "prefix", "--store", folder,
                   *NO_LIMITS, *more]
        command += ["--embedding", embedding] if embedding else []
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env=faults.env(folder))
        line = self.process.stdout.readline()
        self.started = line.startswith("listening on ")
        self.url = line.split()[-1] if self.started else ""
        self.key = None  # of the calls that do not name one

    def call(self, path, body=None, method=None, timeout=300, key=None):
        """(status, object); status 0: no answer came, the object says why."""
        data, key = None if body is None else json.dumps(body).encode(), key or self.key
        headers = {"Content-Type": "application/json", **({"X-Api-Key": key} if key else {})}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as r:
                status, text = r.status, r.read()
                if r.headers.get_content_type() == "text/event-stream":
                    return events(status, text.decode())
        except urllib.error.HTTPError as e:
            status, text = e.code, e.read()
        except (OSError, http.client.HTTPException) as e:
            return 0, repr(e)
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text.decode(errors="replace")

    def is_alive(self):
        return self.process.poll() is None

    def stop(self, number=signal.SIGTERM, seconds=300):
        self.process.send_signal(number)
        self.process.wait(seconds)
        return self.process.returncode

    def tasks(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def files(self):
        """Open ones, but for segments: a store whose writes fail begins another one each time."""
        n = 0
        for f in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
                n += not os.readlink(f).endswith(".kv")  # deleted ones end otherwise
        return n

    def held_blocks(self):
        """Those that are neither free nor cached: with --context-memory, the ones that it works in."""
        return self.metric("kv_blocks") - self.metric("kv_blocks_free") - self.metric("cached_blocks")

    def metric(self, name):
        for line in self.call("/metrics")[1].splitlines():
            if line.startswith(f"spolia:{name} "):
                return float(line.split()[1])
        return None


def events(status, text):
    """(status, [text, reasons to end]) of a stream of a chat; 503 when it says an error or has no end."""
    said = [line[len("data: "):] for line in text.splitlines() if line.startswith("data: ")]
    if not said or said[-1] != "[DONE]":
        return 503, text
    said = [json.loads(x) for x in said[:-1]]
    choices = [c for x in said for c in x.get("choices", [])]
    if any("error" in x for x in said):
        return 503, text
    return status, ["".join(c["delta"].get("content") or "" for c in choices),
                    [c["finish_reason"] for c in choices if c["finish_reason"]]]


def upload(server, name):
    """(status, what the file's text is made of) of a file that is registered again."""
    file, data = FILES[name]
    body = {"id": name, "replace": True, "file": {"name": file, "data": base64.b64encode(data).decode()}}
    status, answer = server.call("/v1/documents", body)
    return status, [answer[k] for k in ("bytes", "chunks", "tokens")] if status == 201 else answer


def miscounted(answer):
    """What of the counts of tokens of a chat does not add up; "" if all does. Others have several prompts or names."""
    if not isinstance(answer, dict) or answer.get("object") != "chat.completion":
        return ""
    usage, account = answer["usage"], answer["spolia"]
    parts = account["segments"]
    sums = {"tokens": [usage["prompt_tokens"], account["reused_tokens"] + account["computed_tokens"],
                       sum(p["tokens"] for p in parts)],
            "reused": [account["reused_tokens"], sum(p["reused"] for p in parts)],
            "recomputed": [account["recomputed_tokens"], sum(p["recomputed"] for p in parts)],
            "total": [usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"]]}
    return " ".join(f"{name} {values}" for name, values in sums.items() if len(set(values)) > 1)


def right_answers(server, calls, exact):
    """What each call answers without faults, asked twice: cold and reused. exact: that is the same."""
    right = []
    for path, body in calls:
        first, second = server.call(path, body), server.call(path, body)
        assert first[0] == second[0] == 200, (path, body, first, second)
        assert not exact or essence(first[1]) == essence(second[1]), (path, body, first, second)
        right.append(essence(second[1]))
    return right
