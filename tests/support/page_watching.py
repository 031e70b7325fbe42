"""Flows about watching the server, and about the page as a whole: by keyboard, on a phone, behind a proxy, with a key."""
import contextlib
import json
import sys
import threading
import time

from playwright.sync_api import expect

from page_tools import KEYED, PATIENCE, PICTURES, PREFIXED, SLOWDOWN, TEXTS, URL, chat, no_findings, say, shows_estimate


def the_guard_reports(f):
    """What its checks found is in /metrics."""
    page = f.open("watch")
    expect(page.get_by_text("No answer has been compared")).to_be_visible()
    f.open("ask")
    page.route("**/metrics", lambda r: r.fulfill(body=r.fetch().text() + "".join(f'spolia:guard_{n}{{policy="full"}} {v}\n' for n, v in (
        ("checked_total", 12), ("agreed_total", 9), ("mean_kl_nats", 0.625), ("fallen_back", 1)))))
    f.open("watch")
    guard = page.locator("section[aria-label='Quality guard']")
    expect(guard.locator("h3")).to_have_text("full")
    assert guard.locator("dd").all_inner_texts() == ["12", "9 of 12", "0.6250"]
    expect(page.get_by_text("exact prefixes are used instead")).to_be_visible()


@contextlib.contextmanager
def asking(ask):
    """Three clients that ask one question after another, until the end of the block, however it ends."""
    enough = threading.Event()

    def keep_asking(i):
        while not enough.is_set():
            ask(i)
            i += 1

    asks = [threading.Thread(target=keep_asking, args=(i,)) for i in range(3)]
    for t in asks:
        t.start()
    try:
        yield
    finally:
        enough.set()
        for t in asks:
            t.join()


def it_watches_the_server(f):
    """While others ask: charts, the requests that run, the sums by source."""
    page = f.open("watch")
    given = [{"title": name, "text": text} for name, text in TEXTS.items()]
    questions = ("Who keeps the light?", "Which hotels has Torin?", "When was the harbour built?")
    for chart in page.locator(".chart").all(): # of each chart, the colours differ
        colours = chart.locator(".key i").evaluate_all("all => all.map((e) => getComputedStyle(e).backgroundColor)")
        assert len(colours) == len(set(colours)), colours
    with asking(lambda i: chat(questions[i % 3], documents=given[i % 3:] + given[:i % 2], max_tokens=[400, 60][i % 2], ignore_eos=True)):
        expect(page.locator("section[aria-label='Under way'] tbody tr").first).to_contain_text("/v1/chat/completions", timeout=PATIENCE)
        expect(page.locator("section[aria-label='Under way'] tbody")).to_contain_text("answering", timeout=PATIENCE)
        expect(page.locator(".figures").filter(has_text="computed").first).to_be_visible()
        while page.locator(".chart .line").first.get_attribute("d").count("L") < (28 if PICTURES else 3):
            page.wait_for_timeout(500)
        page.locator("ul.copies").first.evaluate("(list) => list.id = 'before'")
        page.get_by_role("button", name="Refresh").click()
        expect(page.locator("#before")).to_have_count(0)
        page.locator("button.copy").first.click()
        expect(page.locator(".copies .copies li").first).to_be_visible()
        f.picture("page-watch.png", full=True)
        shown = lambda title: page.locator(f"section[aria-label='{title}'] path:not(.axis)")
        assert all("L" in shown(t).first.get_attribute("d") for t in ("Tokens a second", "Prompt tokens reused", "Requests", "KV memory in use"))
    expect(page.get_by_text("No request waits or runs.")).to_be_visible(timeout=PATIENCE)


def the_copies_are_walked(f):
    """From the head of a prompt to a chunk, with where it is; by keyboard."""
    chat("Who keeps the light?", documents=[{"title": "Light", "text": TEXTS["light/keeper.md"]}], max_tokens=1)
    page = f.open("watch")
    heads = page.locator("ul.copies:not(ul.copies ul.copies) > li > button.copy")
    expect(heads.first).to_contain_text("below")
    for i in range(heads.count()): # all prompts: one of them has the chunk
        heads.nth(i).focus()
        page.keyboard.press("Enter")
        expect(heads.nth(i)).to_have_attribute("aria-expanded", "true")
    chunk = page.locator(".copies .copies .copy", has_text="kept by Anna Berg").first
    expect(chunk).to_be_visible()
    for words in ("tokens", "exact", "used", "memory"):
        expect(chunk).to_contain_text(words)
    no_findings(page)
    heads.first.click()
    expect(heads.first).to_have_attribute("aria-expanded", "false")


def ten_thousand_copies(f):
    """Of a server that has them: walked page by page to the last one, each shown once, while the server serves others."""
    page = f.open("watch")
    head = page.locator("button.copy", has_text="Answer briefly.").first
    n = int(head.locator(".count").inner_text().split()[0].replace(",", ""))
    assert n >= 10_000
    began = time.monotonic()
    head.click()
    below = page.locator(".copies .copies > li")
    expect(below).to_have_count(50)
    more = page.locator(".copies .copies + button")
    for i in range(3):
        more.click()
        expect(below).to_have_count(50 * (i + 2))
    longest = page.evaluate("""async (n) => { const times = [];
        for (const more = document.querySelector(".copies .copies + button"); !more.hidden; ) {
          const list = document.querySelector(".copies .copies"), count = list.children.length, began = performance.now();
          more.click();
          while (list.children.length === count && !more.hidden) await new Promise((r) => setTimeout(r, 2));
          times.push(performance.now() - began);
        }
        return times.sort((a, b) => b - a)[3]; }""", n) # the machine itself may stand still now and then
    expect(below).to_have_count(n)
    words = page.locator(".copies .copies .words").all_text_contents()
    assert len({w for w in words if "Boat" in w}) >= 10_000
    print(json.dumps({"measured": "10,000 copies", "seconds": round(time.monotonic() - began, 1), "fourth longest page, ms": round(longest)}),
          file=sys.stderr)
    assert longest < 10_000 * SLOWDOWN and time.monotonic() - began < 300 * SLOWDOWN # a busy machine, too
    page.get_by_role("button", name="Refresh").click()
    expect(below).to_have_count(0)


def a_copy_that_moves_is_shown_once(f):
    """One that is used between two pages moves forward in the server's order."""
    row = lambda i: {"name": f"{i + 1:016x}", "object": "copy", "id": "0" * 64, "kind": "plain", "text": f"Copy {i}.", "tiers": ["disk"],
                     "tokens": None, "recomputed": 0, "exact": False, "uses": 1, "cost_ms": None, "below": 0}

    def listed(route):
        after = route.request.url.partition("after=1-")[2]
        first = int(after, 16) - 1 if after else 0 # the last one of the page before once more
        route.fulfill(json={"object": "list", "data": [row(i) for i in range(first, min(first + 50, 10000))], "has_more": first + 50 < 10000,
                            "next": f"1-{first + 50:016x}"})

    page = f.open("ask")
    page.route("**/v1/copies?*", listed)
    f.open("watch")
    copies = page.locator(".copies > li")
    expect(copies).to_have_count(50)
    page.get_by_role("button", name="Show more").click()
    expect(copies).to_have_count(99)
    expect(copies.last).to_contain_text("approximate")


def watching_asks_for_little(f):
    """Of a server that nobody asks anything: two small replies every two seconds, and none while another view is shown."""
    page = f.open("watch")
    expect(page.locator(".sheet .quiet").filter(has_text="last 60 s").first).to_be_visible()
    for _ in range(2): # what opening the view has asked for has come
        page.wait_for_event("response", lambda r: r.url.endswith("/v1/requests"))
    asked = []
    page.on("response", lambda r: asked.append((r.url.removeprefix(URL), len(r.body()))))
    page.wait_for_timeout(10_000)
    assert {path for path, _ in asked} == {"/metrics", "/v1/requests"}, asked
    assert len(asked) <= 12, asked
    assert sum(size for _, size in asked) < 80_000, asked
    while len(asked) < 4: # it goes on
        page.wait_for_timeout(100)
    f.open("documents")
    expect(page.locator("tbody tr").or_(page.locator(".drop")).first).to_be_visible()
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(2500)
    del asked[:]
    page.wait_for_timeout(4000)
    assert not asked, asked


def it_works_below_a_prefix(f):
    if PREFIXED == "-":
        return
    page = f.open("ask")
    expect(page.locator("#model")).not_to_be_empty()
    page.select_option("#use", "none")
    f.ask("Are you there?")
    f.open("watch")
    expect(page.locator(".figures", has_text="computed")).to_be_visible()


def the_keyboard_is_enough(f):
    page = f.open("ask")
    page.select_option("#use", "none")
    page.locator("body").press("Tab")
    for _ in range(30): # to the question, from wherever the focus is
        if page.evaluate("document.activeElement.id") == "question":
            break
        page.keyboard.press("Tab")
    page.keyboard.type("Keyboard?")
    page.keyboard.press("Enter")
    f.answered()
    expect(page.locator("article.user")).to_contain_text("Keyboard?")
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    say({"id": "keys", "text": "A document for the keyboard.", "replace": True})

    def tab_to(words):
        for _ in range(200):
            page.keyboard.press("Tab")
            e = page.evaluate("[document.activeElement.textContent, document.activeElement.getAttribute('aria-label') || '', "
                              "(document.activeElement.closest('tr') || document.activeElement).textContent]")
            if words[0] in (e[0], e[1]) and (len(words) < 2 or words[1] in e[2]):
                return
        raise AssertionError(f"{words} cannot be reached")

    tab_to(("Documents",))
    page.keyboard.press("Enter")
    row = page.locator("tbody tr", has_text="keys")
    expect(row).to_be_visible()
    tab_to(("Pin", "keys"))
    page.keyboard.press("Enter")
    expect(row.get_by_role("button", name="Unpin")).to_be_visible()
    tab_to(("Delete keys",))
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    tab_to(("Delete keys",)) if page.evaluate("document.activeElement.getAttribute('aria-label')") != "Delete keys" else None
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(row).to_have_count(0)
    f.errors = [e for e in f.errors if "404" not in e]


CUT_OFF = """() => [...document.querySelectorAll("button, a:not(.skip), select, textarea, label")].filter((e) => {
    const r = e.getBoundingClientRect();
    return r.width && (r.right > innerWidth || r.left < 0);
  }).map((e) => e.outerHTML.slice(0, 80))"""


def it_fits_a_phone(f):
    def fits(view):
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, view
        cut_off = page.evaluate(CUT_OFF)
        assert not cut_off, (view, cut_off)

    for view in ("documents", "watch", "ask"):
        page = f.open(view)
        page.wait_for_timeout(300)
        fits(view)
    page = f.open("documents")
    say({"id": "narrow", "text": "A path along the quay.", "replace": True})
    page.reload()
    row = page.locator("tbody tr", has_text="narrow")
    assert row.locator("td.number").first.evaluate("e => getComputedStyle(e, '::before').content").startswith('"Passages')
    row.get_by_role("button", name="Delete narrow").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("#notice")).to_contain_text("narrow is gone", timeout=PATIENCE)
    assert page.locator("#notice").bounding_box()["width"] > 250 # as wide as the phone
    f.errors = [e for e in f.errors if "404" not in e]
    f.open("ask")
    page.reload() # without the notice
    f.ask("Which hotels has Torin?")
    expect(page.locator(".bar").first).to_be_visible()
    fits("an answer")
    f.picture("page-phone.png")


def it_is_painted_early(f):
    """The frame stands before the scripts have asked the server for anything."""
    times = []
    while len(times) < 5 or (min(times) >= 200 * SLOWDOWN and len(times) < 50):
        page = f.open("ask")
        page.reload()
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
        times.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
    print(json.dumps({"measured": "first paint, ms", "runs": [round(t) for t in times]}), file=sys.stderr)
    assert min(times) < 200 * SLOWDOWN, times # a machine that is busy with other work takes longer


def axe_finds_nothing(f):
    for scheme in ("light", "dark"):
        f.page.emulate_media(color_scheme=scheme)
        for view in ("ask", "documents", "watch"):
            page = f.open(view)
            page.wait_for_timeout(300)
            no_findings(page)


def every_control_has_a_name(f):
    """Roles and names as a screen reader gets them; one heading of the first level, the language, a main part."""
    for view in ("ask", "documents", "watch"):
        page = f.open(view)
        page.wait_for_timeout(300)
        nameless = page.evaluate("""() => [...document.querySelectorAll("button, a, input:not([hidden]), select, textarea")].filter((e) =>
            e.type !== "file" && !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels && e.labels.length)).map((e) => e.outerHTML)""")
        assert not nameless, nameless
        assert page.locator("h1").count() == 1 and page.locator("main").count() == 1
        assert page.get_attribute("html", "lang") == "en"


def a_key_is_asked_for_once(f):
    page = f.open("documents")
    page.get_by_label("API key").last.fill("wrong")
    page.get_by_role("button", name="Use this key").click()
    expect(page.get_by_text("does not know this key")).to_be_visible()
    page.get_by_label("API key").last.fill("the-key")
    page.get_by_role("button", name="Use this key").click()
    expect(page.locator("#model")).not_to_be_empty()
    page.reload()
    expect(page.locator("#model")).not_to_be_empty()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.set_input_files("input[type=file]:not([webkitdirectory])", {"name": "pier.txt", "mimeType": "text/plain",
                                                                      "buffer": TEXTS["harbour.txt"].encode()})
    assert not shows_estimate(page.locator("tbody tr"), KEYED, "the-key") # a server that has read nothing yet
    assert page.evaluate("Object.values(localStorage).join()").find("the-key") < 0
    f.errors = [e for e in f.errors if "401" not in e]
