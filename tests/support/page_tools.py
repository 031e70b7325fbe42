"""What flows on the page share: a browser's profile, the servers' addresses, and what the server says (tests/support/page.py)."""
import json
import os
import pathlib
import sys
import time
import urllib.request

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

CHROMIUM, URL, KEYED, PREFIXED, MANY = sys.argv[1:6]
PICTURES = pathlib.Path(sys.argv[6]) if len(sys.argv) > 6 and sys.argv[6] else None
TEXTS = {
    "harbour.txt": "The harbour of Velm was built by the town in 1870, after the great flood had taken the old pier. It has room for "
                   "forty boats, and in winter the fishermen draw them up on the western beach. The harbour master lives in the "
                   "customs house, where the charts of the bay are kept. A ferry leaves for Torin every morning at seven.",
    "light/keeper.md": "# The keeper\n\nThe lighthouse of Velm is kept by Anna Berg, who came from the north in 1931. She lights the "
                       "lamp an hour before sunset and writes down every ship that passes. Before her, the light was kept by the "
                       "brothers Holt for thirty years. The lamp burns oil; its lens was made in Paris and has nine rings.",
    "light/hotels.txt": "Torin has two hotels, the Swan and the Anchor, and neither is open in winter. The Swan has twelve rooms and "
                        "a garden above the river. The Anchor stands on the quay, and its guests are woken by the ferry at eight. "
                        "Both were built by the same family, who also own the bakery."}
SLOWDOWN = max(1, os.getloadavg()[0] / os.cpu_count())
PATIENCE = 120_000 # milliseconds: a loaded machine answers slowly
expect.set_options(timeout=PATIENCE)


def say(body: dict) -> dict:
    r = urllib.request.Request(URL + "/v1/documents", json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(r))


def chat(question, **more):
    body = {"model": "any", "messages": [{"role": "user", "content": question}], "max_tokens": 48, **more}
    r = urllib.request.Request(URL + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(r))


class Flow:
    """One flow: a fresh profile, and what it sent and complained about."""

    def __init__(self, browser, width=1200, url=URL):
        self.context = browser.new_context(viewport={"width": width, "height": 800}, accept_downloads=True)
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.errors, self.elsewhere = [], []
        self.watch(self.page, url)
        self.url = url

    def watch(self, page, url):
        page.on("pageerror", lambda e: self.errors.append(str(e)))
        page.on("console", lambda m: m.type == "error" and self.errors.append(m.text))
        page.on("request", lambda r: r.url.startswith((url, "blob:", "data:")) or self.elsewhere.append(r.url))

    def open(self, view="ask"):
        self.page.goto(f"{self.url}/#{view}")
        return self.page

    def ask(self, question):
        self.page.fill("#question", question)
        self.page.press("#question", "Enter")
        self.answered()

    def answered(self):
        self.page.wait_for_selector("article.message[aria-busy=false] .tools button", timeout=PATIENCE)
        expect(self.page.get_by_role("button", name="Ask", exact=True)).to_be_visible(timeout=PATIENCE)
        expect(self.page.get_by_role("button", name="Stop")).to_have_count(0)

    def picture(self, name, full=False):
        """full: what a window of this height does not show, too."""
        if not PICTURES:
            return
        self.page.mouse.move(0, 0)
        size = self.page.viewport_size
        height = self.page.evaluate("document.querySelector('.watch, .documents').scrollHeight + 60") if full else size["height"]
        self.page.set_viewport_size({**size, "height": height})
        self.page.screenshot(path=PICTURES / name)
        self.page.set_viewport_size(size)

    def close(self):
        self.context.close()
        assert not self.errors, self.errors
        assert not self.elsewhere, self.elsewhere


def no_findings(page):
    found = Axe().run(page).response["violations"]
    assert not found, [(v["id"], [n["html"] for n in v["nodes"]][:3]) for v in found]


def get(path, url=URL, key=""):
    return json.load(urllib.request.urlopen(urllib.request.Request(url + path, headers={"Authorization": "Bearer " + key})))


def milliseconds(ms):
    """As src/server/page/files/dom.js writes them."""
    return f"{ms / 1000:.0f} s" if ms >= 10000 else f"{ms / 1000:.2f} s" if ms >= 1000 else f"{ms:.0f} ms"


def shows_estimate(row, url=URL, key=""):
    """Size and time of computing a document ahead, as GET /props has them; whether the server has measured it."""
    end = time.monotonic() + PATIENCE / 1000
    while (props := get("/props", url, key)) and estimate_of(row, props) not in row.inner_text(): # it asks now and then
        assert time.monotonic() < end, (estimate_of(row, props), row.inner_text())
        row.page.wait_for_timeout(100)
    return props["prefill"]["measured"]


def estimate_of(row, props):
    tokens = int(row.locator("[data-tokens]").get_attribute("data-tokens"))
    size = props["kv_bytes_per_token"] * tokens
    assert 1e3 <= size < 1e9
    unit = "KB" if size < 1e6 else "MB"
    shown = size / (1e3 if unit == "KB" else 1e6)
    words = f"about {shown:.1f} {unit}, " if shown < 10 else f"about {shown:.0f} {unit}, "
    return words + milliseconds(props["prefill"]["ms_per_token"] * tokens)


def stream_of(*events):
    return {"status": 200, "headers": {"Content-Type": "text/event-stream"}, "body": "".join(f"data: {json.dumps(e)}\n\n" for e in events)}
