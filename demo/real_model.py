"""The demo's part with a published model: SmolLM2-135M-Instruct answers 20 questions over texts of the World Factbook.

A client of `spolia serve`, as a front end is: it registers the documents, which computes each once, alone. It finds three
for a question with `spolia search`, puts the best one last, and asks the same prompt twice: with nothing reused, and with
the documents' keys and values reused wherever they are in it.
"""
import json
import os
import pathlib
import statistics
import subprocess
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = ROOT / "demo/countries"
SYSTEM = "You answer questions from the documents that you are given."
ASK = "{} Answer with one short sentence from the documents."
FROM_TEXT = {"reuse": {"mode": "off"}}


class Server:
    """A `spolia serve` of its own for the time of the demo."""

    def __init__(self, spolia: pathlib.Path, model: pathlib.Path):
        self.process = subprocess.Popen([spolia, "serve", "-m", model, "--port", "0", "--guard", "0", "--chunk-size", "400"],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            raise SystemExit(f"demo: the server does not start with {model}")
        self.url = line.split()[-1]

    def post(self, path: str, body: dict) -> dict:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    def get(self, path: str) -> dict:
        with urllib.request.urlopen(self.url + path, timeout=600) as answer:
            return json.load(answer)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def register(server: Server) -> None:
    """Every document once, computed for the system text of the questions."""
    for path in sorted((HOME / "docs").glob("*.md")):
        server.post("/v1/documents", {"id": path.stem, "title": path.stem.replace("-", " ").title(),
                                      "text": path.read_text(encoding="utf-8")})
        server.post(f"/v1/documents/{path.stem}/precompute", {"system": SYSTEM})
    for path in (HOME / "docs").glob("*.md"):
        with urllib.request.urlopen(f"{server.url}/v1/documents/{path.stem}/precompute?stream=true") as events:
            events.read()  # until it is computed


def retrieve(spolia: pathlib.Path, index: pathlib.Path, question: str, n: int) -> list:
    done = subprocess.run([spolia, "search", "-i", index, "-k", str(n), "--json", question], stdout=subprocess.PIPE, check=True)
    return [pathlib.Path(hit["file"]).stem for hit in json.loads(done.stdout)]


def ask(server: Server, question: str, documents: list, how: dict) -> dict:
    return server.post("/v1/chat/completions", {
        "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ASK.format(question)}],
        "documents": [{"id": d} for d in documents], "max_tokens": 32, "temperature": 0, **how})


def text_of(answer: dict) -> str:
    return " ".join(answer["choices"][0]["message"]["content"].split())


def is_right(answer: dict, question: dict) -> bool:
    return any(a.lower() in text_of(answer).lower() for a in question["answers"])


def ttft(answer: dict) -> float:
    return answer["timings"]["ttft_ms"]


def reused(answer: dict) -> int:
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


# -- what is shown ------------------------------------------------------------------------------------------------


def shown(path: pathlib.Path) -> str:
    """The path as a command takes it: relative below this folder, else whole."""
    path = pathlib.Path(os.path.abspath(path))
    return str(path.relative_to(pathlib.Path.cwd())) if path.is_relative_to(pathlib.Path.cwd()) else str(path)


def show_row(question: dict, cold: dict, known: dict) -> None:
    marks = ["right" if is_right(a, question) else "wrong" for a in (cold, known)]
    print(f"{ttft(cold):7.0f} ms {ttft(known):7.0f} ms {reused(known):6}/{known['usage']['prompt_tokens']:<5} "
          f"{marks[0]} {marks[1]}  {question['question']} -> {text_of(known)[:60]}", flush=True)


def show_picture(pairs: list, columns: int = 60) -> None:
    """A bar for each question: the known TTFT within the cold one."""
    scale = columns / max(ttft(cold) for cold, _ in pairs)
    print(f"\nTime to first token of each question: {'█'} known, {'░'} computed from text "
          f"(full width {columns / scale:.0f} ms)")
    for i, (cold, known) in enumerate(pairs, 1):
        short, long = max(1, round(ttft(known) * scale)), round(ttft(cold) * scale)
        print(f"{i:4} {'█' * short}{'░' * (long - short)} {ttft(cold) / ttft(known):.1f}x")


def write_svg(pairs: list, path: pathlib.Path) -> None:
    width, bar, left, top = 640, 14, 40, 44
    scale = (width - left - 70) / max(ttft(cold) for cold, _ in pairs)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top + len(pairs) * bar + 12}" '
           'font-family="Helvetica, Arial, sans-serif" font-size="11">', '<rect width="100%" height="100%" fill="#ffffff"/>',
           f'<text x="{left}" y="18" font-size="14" font-weight="bold">Time to first token, SmolLM2-135M-Instruct</text>',
           f'<text x="{left}" y="34" fill="#555555">light: computed from text; dark: documents known</text>']
    for i, (cold, known) in enumerate(pairs):
        y = top + i * bar
        out += [f'<text x="{left - 6}" y="{y + 10}" text-anchor="end">{i + 1}</text>',
                f'<rect x="{left}" y="{y}" width="{ttft(cold) * scale:.1f}" height="{bar - 3}" fill="#c9d6e8"/>',
                f'<rect x="{left}" y="{y}" width="{ttft(known) * scale:.1f}" height="{bar - 3}" fill="#1f4e8c"/>',
                f'<text x="{left + ttft(cold) * scale + 5:.1f}" y="{y + 10}">{ttft(cold):.0f} ms, {ttft(known):.0f} ms</text>']
    path.write_text("\n".join(out) + "\n</svg>\n", encoding="utf-8")


def summarise(questions: list, pairs: list, quality: str) -> None:
    cold, known = zip(*pairs)
    right = [sum(is_right(a, q) for a, q in zip(side, questions)) for side in (cold, known)]
    same = sum(is_right(a, q) == is_right(b, q) for q, a, b in zip(questions, cold, known))
    medians = [statistics.median(map(ttft, side)) for side in (cold, known)]
    share = sum(map(reused, known)) / sum(a["usage"]["prompt_tokens"] for a in known)
    print(f"\n{'':34}{'from text':>12}{'known':>12}")
    print(f"{'time to first token, median':34}{medians[0]:9.0f} ms{medians[1]:9.0f} ms   {medians[0] / medians[1]:.1f}x sooner")
    print(f"{'tokens reused':34}{0:11.0f} %{100 * share:11.0f} %   quality {quality}")
    print(f"{'right answers':34}{right[0]:6} of {len(pairs)}{right[1]:6} of {len(pairs)}   {same} judged alike in both")


def run(spolia: pathlib.Path, model: pathlib.Path, build: pathlib.Path, quality: str, n_documents: int = 3) -> None:
    index, picture = build / "demo-countries.db", build / "demo-ttft.svg"
    questions = [json.loads(line) for line in (HOME / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    subprocess.run([spolia, "index", "-q", "--replace", HOME / "docs", "--chunk-words", "400", "-o", index], check=True)
    server = Server(spolia, model)
    try:
        print(f"{model.name} reads 24 countries of the World Factbook, each once, alone ...", flush=True)
        register(server)
        print(f"and answers {len(questions)} questions twice, each over {n_documents} documents, the best one last: from "
              f"text, and with what it has read\n\n{'from text':>10} {'known':>10} {'tokens reused':>13} "
              "from text, known; answer when known", flush=True)
        pairs = []
        for q in questions:
            found = retrieve(spolia, index, q["question"], n_documents)[::-1]
            pairs.append(tuple(ask(server, q["question"], found, how) for how in (FROM_TEXT, {"quality": quality})))
            show_row(q, *pairs[-1])
    finally:
        server.stop()
    summarise(questions, pairs, quality)
    show_picture(pairs)
    write_svg(pairs, picture)
    print(f"\nThe picture: {shown(picture)}. A model of 135 M parameters reads badly: the order of the "
          f"documents alone changes its answers (demo/countries/README.md).\nAsk your own: {shown(spolia)} index FOLDER -o mine.db "
          f"&& {shown(spolia)} ask -m {shown(model)} --index mine.db \"...\"")
