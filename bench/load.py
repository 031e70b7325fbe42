"""A load generator for servers with OpenAI's API: streamed chats with documents, at given rates.

Measures the time to the first token, between tokens, throughput and errors. The load is open: a request is due when its
time has come, however late the server is. A limit of concurrency delays its start, and the delay counts, as it does for
a user. Several servers take turns at each rate; bench/plot.py draws the file of --csv.

    bench/load.py --url http://127.0.0.1:8080 --rates 0.5,1,2,4 --requests 200 --trace questions.jsonl --docs docs.jsonl
"""
import argparse
import bisect
import csv
import itertools
import json
import math
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import threading
import time
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

ROOT = pathlib.Path(__file__).resolve().parent.parent
SYSTEM = "Answer the question from the documents."
SYLLABLES = "ka lo mi ter san vel dor un pre sta ri gen".split()
CHUNKS = 4  # documents of a prompt without a trace
http = build_opener(ProxyHandler({}))  # servers on this machine


class Bad(Exception):
    """What is wrong, for the user; code: the exit code."""

    def __init__(self, text: str, code: int = 1):
        super().__init__(text)
        self.code = code


# -- prompts ---------------------------------------------------------------------------------------

def lines(path: str):
    """(where, object) of each line of a JSONL file."""
    try:
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                where = f"{path}: line {number}"
                if not line.strip():
                    continue
                try:
                    value = json.loads(line)
                except ValueError as e:
                    raise Bad(f"{where}: {e}") from None
                if not isinstance(value, dict):
                    raise Bad(f"{where}: is not an object")
                yield where, value
    except OSError as e:
        raise Bad(f"{path}: {e.strerror}") from None


def text_field(where: str, o: dict, field: str) -> str:
    if not isinstance(o.get(field), str):
        raise Bad(f"{where}: {field}: a string is needed")
    return o[field]


class Trace:
    """Questions with the documents that they name, or that an index finds for them."""

    def __init__(self, args):
        self.args, self.items = args, []
        self.by_id = {text_field(w, d, "id"): {"id": d["id"], "title": d.get("title", ""), "text": text_field(w, d, "text")}
                      for w, d in (lines(args.docs) if args.docs else ())}
        for where, o in lines(args.trace):
            documents = self.found(where, o) if args.index else self.named(where, o)
            if documents:
                self.items.append((documents, o.get("question")))
        if not self.items:
            raise Bad(f"{args.trace}: has no request with documents")

    def named(self, where, o):
        field = next((f for f in ("context_doc_ids", "docs", "doc_ids") if f in o), "doc_ids")
        ids = o.get(field)
        if not isinstance(ids, list) or not all(isinstance(i, str) for i in ids):
            raise Bad(f"{where}: {field}: a list of ids is needed")
        for i in ids[:self.args.chunks or None]:
            if i not in self.by_id:
                raise Bad(f"{where}: {i}: no document of --docs has this id")
        return [self.by_id[i] for i in ids[:self.args.chunks or None]]

    def found(self, where, o):
        question = text_field(where, o, "question")
        command = [self.args.spolia, "search", "--index", self.args.index, "--top", str(self.args.chunks or CHUNKS), "--json", question]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, 3):  # 3: none is found
            raise Bad(done.stderr.strip())
        hits = json.loads(done.stdout)
        hits = hits.get("hits", hits) if isinstance(hits, dict) else hits
        return [{"id": f"chunk-{h['id']}", "title": h.get("title", ""), "text": h["text"]} for h in hits]

    def prompt(self, i):
        documents, question = self.items[i % len(self.items)]
        return documents, question or f"Question {i}: which of these documents says most?"


class RandomDocuments:
    """Documents of random words; document i is drawn in proportion to (i + 1)^-zipf."""

    def __init__(self, args):
        self.n, self.seed, draw = args.chunks or CHUNKS, args.seed, random.Random(args.seed)
        if self.n > args.random_documents:
            raise Bad("--chunks: a prompt cannot have more documents than there are", 2)
        self.all = [{"id": f"random-{i}", "title": "", "text": " ".join(
            "".join(draw.choices(SYLLABLES, k=draw.choice((2, 3)))) for _ in range(args.words))}
            for i in range(args.random_documents)]
        self.weights = list(itertools.accumulate((i + 1) ** -args.zipf for i in range(len(self.all))))

    def prompt(self, i):
        draw, taken = random.Random(f"{self.seed} {i}"), []
        while len(taken) < self.n:
            at = min(bisect.bisect_left(self.weights, draw.random() * self.weights[-1]), len(self.all) - 1)
            while at in taken:
                at = (at + 1) % len(self.all)
            taken.append(at)
        return [self.all[k] for k in taken], f"Question {i}: which of these documents says most?"


# -- a server --------------------------------------------------------------------------------------

class Target:
    """A server: its name in tables, its first model, and where it takes documents."""

    def __init__(self, spec: str, args):
        head, equal, url = spec.partition("=")
        named = equal and "://" not in head
        url = url if named else spec
        if not url.startswith(("http://", "https://")):
            raise Bad(f'--url: "{url}" must begin with http:// or https://')
        self.base = url.rstrip("/").removesuffix("/v1").rstrip("/")
        self.name, self.args = head if named else self.base, args
        self.headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {args.key}"} if args.key else {})
        try:
            with http.open(Request(self.base + "/v1/models", headers=self.headers), timeout=60) as reply:
                first = (json.load(reply).get("data") or [{}])[0]
        except (OSError, ValueError, AttributeError) as e:
            raise Bad(f"{self.base}/v1/models: {e}") from None
        self.model = args.model or first.get("id")
        if not self.model:
            raise Bad(f"{self.base}/v1/models: lists no model; --model names one")
        self.in_text = args.documents == "text" or (args.documents == "auto" and first.get("owned_by") != "spolia")

    def body(self, prompt) -> bytes:
        documents, question = prompt
        if self.in_text:
            texts = (f"{d['title']}\n{d['text']}" if d["title"] else d["text"] for d in documents)
            question = "".join(t + "\n\n" for t in texts) + question
        body = {"model": self.model, "max_tokens": self.args.predict, "stream": True, "temperature": 0,
                "stream_options": {"include_usage": True},
                "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]}
        if not self.in_text:
            body["documents"] = documents
        return json.dumps(body | self.args.extra).encode()


class Answer:
    """One request: when tokens arrived, and how it ended."""

    def __init__(self, due: float, leave_after: int):
        self.due, self.leave_after, self.times = due, leave_after, []
        self.end, self.state, self.error, self.usage = None, "failed", "", {}

    def ask(self, target: Target, body: bytes, timeout: float) -> None:
        try:
            with http.open(Request(target.base + "/v1/chat/completions", body, target.headers), timeout=timeout) as reply:
                if not reply.headers.get("Content-Type", "").startswith("text/event-stream"):
                    raise ValueError("status 200: no stream of events")
                self.read(reply)
        except HTTPError as e:
            said = " ".join(e.read(4096).decode("utf-8", "replace").split())[:120]
            self.state, self.error = ("refused" if e.code == 429 else "failed"), f"status {e.code}: refused: {said}"
        except (OSError, HTTPException, ValueError) as e:
            text = str(getattr(e, "reason", e) or type(e).__name__)
            self.error = text if text.startswith("status") else f"status 200: {text}" if not isinstance(e, URLError) else text
        self.end = time.monotonic()

    def read(self, reply) -> None:
        done = False
        for line in reply:
            data = line.strip().removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
            if data == b"[DONE]":
                done = True
            elif data:
                self.take(json.loads(data))
            if self.leave_after and len(self.times) >= self.leave_after:
                self.state = "left"
                return
        if not self.times or not done:
            raise ValueError("the stream ended " + ("without [DONE]" if self.times else "before the first token"))
        self.state = "answered"

    def take(self, event: dict) -> None:
        error = event.get("error")
        if error:
            raise ValueError("an error event: " + str(error.get("message") if isinstance(error, dict) else error))
        self.usage |= event.get("usage") or {}
        choice = (event.get("choices") or [{}])[0]
        delta = choice.get("delta") or {}
        text = choice.get("text") or delta.get("content") or delta.get("reasoning_content") or delta.get("tool_calls")
        if text or (not self.times and choice.get("finish_reason")):
            self.times.append(time.monotonic())


# -- a run -----------------------------------------------------------------------------------------

def run(target: Target, source, args, rate: float, first: int, n: int, seed: int) -> list:
    """n requests from prompt `first` on, as answers in the order of arrival; the most at one time."""
    draw, at, begin = random.Random(seed), 0.0, time.monotonic()
    answers, threads, open_now = [], [], [0, 0]
    places, lock = threading.Semaphore(args.concurrency or n), threading.Lock()
    end = begin + args.limit if args.limit else math.inf
    for i in range(n):
        at += draw.expovariate(rate) if rate and i else 0
        leave = 1 + int(draw.random() * args.predict / 2) if draw.random() < args.hang_up else 0
        answers.append(Answer(begin + at, leave))

    def work(answer, body):
        with lock:
            open_now[0] += 1
            open_now[1] = max(open_now)
        answer.ask(target, body, min(args.timeout, max(0.05, end - time.monotonic())))
        with lock:
            open_now[0] -= 1
        places.release()

    for i, answer in enumerate(answers):
        body = target.body(source.prompt(first + i))
        time.sleep(max(0.0, min(answer.due, end) - time.monotonic()))
        if not places.acquire(timeout=None if end == math.inf else max(0.0, end - time.monotonic())) or time.monotonic() > end:
            break
        threads.append(threading.Thread(target=work, args=(answer, body), daemon=True))
        threads[-1].start()
    for t in threads:
        t.join()
    for a in answers:
        if a.state == "failed" and args.limit and (a.end or math.inf) >= end:
            a.error = f"no answer within --limit, {args.limit} s"
    return answers, open_now[1], time.monotonic() - begin


def quantile(v: list, q: float) -> float:
    at = q * (len(v) - 1)
    i = int(at)
    return v[i] + (at - i) * (v[min(i + 1, len(v) - 1)] - v[i])


def quantiles(v: list) -> dict:
    """In ms; None without values."""
    v = sorted(1e3 * x for x in v)
    if not v:
        return dict.fromkeys(("mean", "p50", "p95", "p99"))
    return {"mean": statistics.fmean(v)} | {f"p{q}": quantile(v, q / 100) for q in (50, 95, 99)}


def figures(target: Target, rate: float, done: tuple) -> dict:
    answers, most_open, seconds = done
    good = [a for a in answers if a.state == "answered"]
    count = {s: sum(a.state == s for a in answers) for s in ("answered", "refused", "failed", "left")}
    prompt = sum(a.usage.get("prompt_tokens", 0) for a in good)
    cached = sum((a.usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0 for a in good)
    return {"server": target.name, "rate": rate, "requests": len(answers), **count, "most_open": most_open, "seconds": seconds,
            "drain_s": max(a.end or a.due for a in answers) - answers[-1].due,
            "ttft_ms": quantiles([a.times[0] - a.due for a in good]),
            "gap_ms": quantiles([y - x for a in good for x, y in zip(a.times, a.times[1:])]),
            "total_ms": quantiles([a.end - a.due for a in good]),
            "tokens_s": sum(a.usage.get("completion_tokens", len(a.times)) for a in good) / seconds,
            "requests_s": len(good) / seconds, "cached": cached / prompt if prompt else None,
            "error": next((a.error[:250] for a in answers if a.state == "failed"), None)}


# -- figures ---------------------------------------------------------------------------------------

def goodput(rows: list, args) -> tuple:
    """(rate, whether a higher one was too much): the highest rate at which a server answers all requests and keeps up. The
    typical time to the first token is within --factor of that at the lowest rate, and so is the time from the last arrival to
    the last answer, of the time of a request there: otherwise a short run hides a queue that grows."""
    typical = "p50" if args.by == "median" else "mean"
    kept, lowest = None, None
    for r in sorted((r for r in rows if r["rate"] > 0), key=lambda r: r["rate"]):
        lowest = lowest or r
        if (r["answered"] + r["left"] < r["requests"] or not r["ttft_ms"][typical]
                or r["ttft_ms"][typical] > args.factor * lowest["ttft_ms"][typical]
                or (r is not lowest and 1e3 * r["drain_s"] > args.factor * lowest["total_ms"][typical])):
            return kept, True
        kept = r["rate"]
    return kept, False


def flat(row: dict) -> dict:
    """A line of the CSV file: ttft_ms is the mean, ttft_p95_ms a quantile."""
    out = {}
    for k, v in row.items():
        if isinstance(v, dict):
            out[k] = v["mean"]
            out |= {k.replace("_ms", f"_{q}_ms"): v[q] for q in ("p50", "p95", "p99")}
        elif k != "error":
            out[k] = v
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in out.items()}


def show(x, form: str = "10.1f") -> str:
    return format(x if x is not None else math.nan, form)


def report(row: dict, args, table) -> None:
    if table:
        if not table.tell():
            csv.DictWriter(table, flat(row)).writeheader()
        csv.DictWriter(table, flat(row)).writerow(flat(row))
        table.flush()
    if args.json:
        print(json.dumps(row), flush=True)
    else:
        t, g = row["ttft_ms"], row["gap_ms"]
        print(f"{row['server']:12} {row['rate'] or 'all':>7} {row['answered']:8} {row['refused'] + row['failed']:7} {show(t['mean'])} "
              f"{show(t['p95'])} {show(t['p99'])} {show(g['mean'], '9.2f')} {show(g['p95'], '9.2f')} {show(row['tokens_s'], '9.1f')} "
              f"{show(100 * (row['cached'] or 0), '6.1f')} %", flush=True)
    if row["error"]:
        print(f"load: {row['server']}, rate {row['rate']:g}: {row['failed']} requests failed; the first: {row['error']}", file=sys.stderr)


def measure(args, targets: list, source, table) -> bool:
    """Every rate for every server in turn; each rate continues in the trace. Whether anything was answered."""
    rows = {t.name: [] for t in targets}
    for t in targets if args.warm else ():
        quiet = argparse.Namespace(**vars(args) | {"concurrency": args.concurrency or 4, "hang_up": 0})
        run(t, source, quiet, 0, 0, args.warm, args.seed)
    if not args.json:
        print(f"{'server':12} {'rate':>7} {'answered':>8} {'not':>7} {'TTFT ms':>10} {'95 % ms':>10} {'99 % ms':>10} {'gap ms':>9} "
              f"{'95 % ms':>9} {'tokens/s':>9} {'cached':>8}")
    for i, rate in enumerate(args.rates):
        for t in targets:
            if args.stop_beyond and goodput(rows[t.name], args)[1]:
                continue
            first = args.warm + (0 if args.same else i * args.requests)
            rows[t.name].append(figures(t, rate, run(t, source, args, rate, first, args.requests, args.seed + i)))
            report(rows[t.name][-1], args, table)
    if len(args.rates) > 1:
        best = goodput(rows[targets[0].name], args)[0]
        for t in targets:
            rate, beyond = goodput(rows[t.name], args)
            ratio = rate / best if rate and best else None
            if args.json:
                print(json.dumps({"server": t.name, "factor": args.factor, "by": args.by, "reached_its_limit": beyond,
                                  "goodput": rate, "ratio": ratio}), flush=True)
            elif rate:
                print(f"{t.name:12} goodput {rate:g} requests/s ({args.by} times within {args.factor:g}x of the lowest rate's"
                      f"{'' if beyond else '; the limit was not reached'}), {show(ratio, '.2f')}x of {targets[0].name}")
    return any(r["answered"] for v in rows.values() for r in v)


# -- the command -----------------------------------------------------------------------------------

def options() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n", 1)[1],
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--url", action="append", default=[], metavar="[NAME=]URL", help="a server; several are measured in turn")
    p.add_argument("-r", "--rates", default="1", help="requests a second, a Poisson process; 0: all at once (1)")
    p.add_argument("--requests", type=int, default=100, help="requests at each rate (100)")
    p.add_argument("--concurrency", type=int, default=0, help="most requests at one time; the others wait, which counts (no limit)")
    p.add_argument("-n", "--predict", type=int, default=16, help="most tokens of an answer (16)")
    p.add_argument("--trace", help="requests: JSON lines with doc_ids and perhaps a question (random documents)")
    p.add_argument("--docs", help="their documents: JSON lines with id, title, text")
    p.add_argument("--index", help="or an index, which is searched for each question")
    p.add_argument("--spolia", default=str(ROOT / "build/spolia"), help="the program that searches it (build/spolia)")
    p.add_argument("--chunks", type=int, default=0, help="most documents of a prompt (all; 4 without --docs)")
    p.add_argument("--random-documents", type=int, default=1000, help="different random documents (1000)")
    p.add_argument("--words", type=int, default=80, help="words of each (80)")
    p.add_argument("--zipf", type=float, default=1, help="random document i is drawn in proportion to i^-ZIPF (1)")
    p.add_argument("--documents", default="auto", help="field, text (in the message), or auto: field for spolia serve (auto)")
    p.add_argument("-m", "--model", help="model (the first in the server's list)")
    p.add_argument("--key", help="API key (none)")
    p.add_argument("--extra", default="{}", help="further fields of each request, as a JSON object (none)")
    p.add_argument("--ignore-end", action="store_true", help="answers of exactly --predict tokens: ignore_eos")
    p.add_argument("--warm", type=int, default=0, help="requests before the measurement (0)")
    p.add_argument("--same", action="store_true", help="every rate has the same prompts, instead of the next ones")
    p.add_argument("--hang-up", type=float, default=0, help="share of clients that close the connection during the answer (0)")
    p.add_argument("--timeout", type=float, default=600, help="seconds that a request may take (600)")
    p.add_argument("--limit", type=int, default=0, help="seconds for each rate; what is not answered then has failed (no limit)")
    p.add_argument("--factor", type=float, default=5, help="goodput: times within FACTOR times those of the lowest rate (5)")
    p.add_argument("--by", default="mean", help="goodput: of mean or median times (mean)")
    p.add_argument("--stop-beyond", action="store_true", help="no higher rate for a server that did not keep up; rates rise")
    p.add_argument("-s", "--seed", type=int, default=1, help="random seed (1)")
    p.add_argument("--csv", help="a line for each run")
    p.add_argument("--json", action="store_true", help="a JSON line for each run")
    return p


def check(a) -> None:
    """Raises Bad, and turns --rates and --extra into values."""
    try:
        rates = [float(r) for r in a.rates.split(",")]
    except ValueError:
        rates = [-1.0]
    wrong = {'--url is missing': not a.url,
             "--trace needs --docs, or --index, and not both": a.trace and bool(a.docs) == bool(a.index),
             "--docs and --index need --trace": not a.trace and (a.docs or a.index),
             f'--documents: "{a.documents}" is none of auto, field, text': a.documents not in ("auto", "field", "text"),
             f'--by: "{a.by}" is neither mean nor median': a.by not in ("mean", "median"),
             f'--rates: "{a.rates}" is not a list of numbers from 0 on': not all(0 <= r < math.inf for r in rates),
             "a number is out of range": min(a.limit, a.warm, a.concurrency, a.chunks, a.zipf, a.hang_up) < 0 or a.hang_up > 1
             or min(a.requests, a.predict, a.timeout, a.factor, a.random_documents, a.words) < 1}
    for text, is_wrong in wrong.items():
        if is_wrong:
            raise Bad(text, 2)
    for r in rates:
        if a.limit and r and a.requests / r >= a.limit:
            raise Bad(f"--limit: {a.requests} requests at {r:g} a second take longer than {a.limit} s", 2)
    a.rates = rates
    try:
        a.extra = json.loads(a.extra)
    except ValueError:
        a.extra = None
    if not isinstance(a.extra, dict):
        raise Bad("--extra: is not a JSON object", 2)
    a.extra |= {"ignore_eos": True} if a.ignore_end else {}


def main() -> int:
    args, table = options().parse_args(), None
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))  # a connection is an open file
    try:
        check(args)
        source = Trace(args) if args.trace else RandomDocuments(args)
        table = open(args.csv, "w", newline="", encoding="utf-8") if args.csv else None
        if not measure(args, [Target(u, args) for u in args.url], source, table):
            raise Bad("no request was answered")
    except Bad as e:
        print(f"load: {e}", file=sys.stderr)
        return e.code
    except OSError as e:
        print(f"load: {e.filename or args.csv}: {e.strerror}", file=sys.stderr)
        return 1
    finally:
        if table:
            table.close()
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads that still wait for an answer do not hold the end up
