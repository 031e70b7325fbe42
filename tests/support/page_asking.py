"""Flows about asking, and about the documents that are asked about."""
import json
import pathlib
import re
import tempfile

from playwright.sync_api import expect

from page_tools import PATIENCE, TEXTS, URL, get, milliseconds, no_findings, say, shows_estimate, stream_of
LAST_ID = """() => { const all = Object.keys(localStorage).filter((k) => k.startsWith("spolia.conversation.")).map((k) => JSON.parse(localStorage[k]));
    return all.sort((a, b) => b.changed - a.changed)[0].messages.at(-1).result.id; }"""


def shows_cold(page):
    """What reading the whole prompt would have taken, beside what it took, as the server explains the request."""
    times = get(f"/v1/requests/{page.evaluate(LAST_ID)}/explain")["timings"]
    figures = dict(zip(*(page.locator(f".figures {e}, .versus {e}").all_inner_texts() for e in ("dt", "dd"))))
    now = times["ttft_ms"] - times["queue_ms"]
    assert figures["time to the first token"] == milliseconds(now)
    if not times["cache_n"]:
        assert "if all of it were read" not in figures # it was
        return
    assert figures["if all of it were read"] == "about " + milliseconds(times["cold_ms"])
    gain = times["cold_ms"] / now
    assert page.locator(".gain").all_inner_texts() == ([f"{gain:.1f}x faster than reading all of it"] if gain >= 1.1 else [])
    widths = [float(r.get_attribute("width")) for r in page.locator(".versus rect").all()]
    assert abs(widths[1] / widths[0] - gain) < 0.01 * gain and abs(max(widths) - 100) < 0.01, (widths, gain)


def a_folder_answers_a_question(f):
    """Dropped on the page, asked about, and the second answer shows what it reused."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in TEXTS.items():
            path = pathlib.Path(folder, "velm", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        page = f.open("documents")
        page.set_input_files("input[webkitdirectory]", pathlib.Path(folder, "velm"))
        expect(page.get_by_text("3 added, 0 refused")).to_be_visible(timeout=PATIENCE)
        expect(page.locator("tbody tr")).to_have_count(3)
    shows_estimate(page.locator("tbody tr").first)
    f.picture("page-documents.png")
    f.open("ask")
    for i, question in enumerate(("When was the harbour of Velm built, and how many boats has it room for?",
                                  "Who kept the light of Velm before Anna Berg?")):
        page.get_by_role("button", name="New conversation").click()
        f.ask(question)
        expect(page.locator(".bar button")).not_to_have_count(0)
        shows_cold(page)
        if i == 0:
            assert page.locator(".bar rect.memory").count() <= 1 # the system prompt at most
    expect(page.locator(".bar button rect.memory").first).to_be_attached()
    f.picture("page-ask.png")
    page.emulate_media(color_scheme="dark")
    f.picture("page-dark.png")
    page.get_by_role("button", name="Read The keeper").click()
    expect(page.get_by_role("dialog")).to_contain_text("lighthouse")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def an_answer_streams(f):
    """Its words are shown as they come, not at the end."""
    page = f.open("ask")
    page.select_option("#use", "none")
    page.evaluate("""() => { window.lengths = new Set(); new MutationObserver(() => {
        const said = document.querySelector("article[aria-busy=true] .said");
        if (said) window.lengths.add(said.textContent.length); }).observe(document.body, {childList: true, subtree: true, characterData: true}); }""")
    pieces = [f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': f'word{i} '}, 'finish_reason': None}]})}\n\n" for i in range(8)]
    end = "data: " + json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}) + "\n\ndata: [DONE]\n\n"
    page.evaluate("""([pieces, end]) => { const real = window.fetch;
        const shown = () => (document.querySelector("article[aria-busy=true] .said") || {textContent: ""}).textContent.split("word").length - 1;
        let waits = 600; // for all of them together, 100 ms each: a page that shows all at the end has to come to an end, too
        window.fetch = (url, o) => !String(url).includes("chat/completions") ? real(url, o) : Promise.resolve(new Response(new ReadableStream({
          async start(c) { let n = 0;
            for (const p of pieces) { c.enqueue(new TextEncoder().encode(p)); n++;
              do await new Promise((r) => setTimeout(r, 100)); while (shown() < n && waits-- > 0); }
            c.enqueue(new TextEncoder().encode(end)); c.close(); }
        }))); }""", [pieces, end])
    f.ask("Stream?")
    assert page.evaluate("window.lengths.size") >= 4
    expect(page.locator(".said").last).to_have_text(" ".join(f"word{i}" for i in range(8)))


def thoughts_are_apart(f):
    """Open until the answer begins; the model does not get them back, and neither does the export."""
    page = f.open("ask")
    page.select_option("#use", "none")
    delta = lambda **d: {"choices": [{"index": 0, "delta": d, "finish_reason": None}]}
    events = [delta(reasoning_content="Two, <b>"), delta(reasoning_content="or three?"), delta(content="Two.")]
    page.evaluate("""(pieces) => { const real = window.fetch; window.sent = [];
        const pause = () => new Promise((r) => (window.go_on = r));
        window.fetch = (url, o) => { if (!String(url).includes("chat/completions")) return real(url, o);
          window.sent.push(o.body);
          return Promise.resolve(new Response(new ReadableStream({ async start(c) {
            for (const p of pieces) { c.enqueue(new TextEncoder().encode(p)); await pause(); } c.close(); } }))); }; }""",
                  [f"data: {json.dumps(e)}\n\n" for e in events] +
                  ["data: " + json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}) + "\n\n"])
    page.fill("#question", "How many?")
    page.press("#question", "Enter")
    thoughts = page.locator(".thoughts")
    expect(thoughts).to_contain_text("Two, <b>")
    page.evaluate("window.go_on()")
    expect(thoughts.locator("p")).to_have_text("Two, <b>or three?")
    expect(thoughts.locator("p")).to_be_visible()
    page.evaluate("window.go_on()")
    expect(page.locator("article[aria-busy=true] .said")).to_have_text("Two.")
    expect(thoughts.locator("p")).to_be_hidden()
    page.evaluate("window.go_on()")
    page.wait_for_timeout(100)
    page.evaluate("window.go_on()")
    f.answered()
    thoughts.locator("summary").click()
    expect(thoughts.locator("p")).to_be_visible()
    no_findings(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    assert "three" not in pathlib.Path(download.value.path()).read_text()
    page.fill("#question", "Sure?")
    page.press("#question", "Enter")
    page.wait_for_function("window.sent.length > 1")
    again = json.loads(page.evaluate("window.sent[1]"))["messages"]
    assert again == [{"role": "user", "content": "How many?"}, {"role": "assistant", "content": "Two."}, {"role": "user", "content": "Sure?"}]


def bars_say_where_tokens_came_from(f):
    """A colour for each tier, in the share of its tokens; a bar as long as its document."""
    segment = lambda kind, tokens, reused=0, source="", recomputed=0, missed="": {
        "kind": kind, "tokens": tokens, "reused": reused, "recomputed": recomputed, "from": source, "missed": missed}
    parts = [segment("chunk", 200, 150, "host", 50), segment("chunk", 100, 100, "disk"), segment("chunk", 50, 50, "remote"),
             segment("chunk", 100, missed="never seen")]
    account = {"policy": "fusion", "recompute": 0.15, "reused_tokens": 310, "recomputed_tokens": 50, "computed_tokens": 160, "plan_ms": 1,
               "documents": [{**s, "title": f"Paper {i}"} for i, s in enumerate(parts)],
               "segments": [segment("system", 10, 10, "memory"), *parts, segment("question", 10)]}
    timings = {"ttft_ms": 250.0, "queue_ms": 50.0, "cold_ms": 1000.0, "predicted_ms": 100, "predicted_per_second": 40}
    page = f.open("ask")
    page.route("**/v1/chat/completions", lambda r: r.fulfill(**stream_of(
        {"choices": [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "timings": timings, "spolia": account})))
    page.select_option("#use", "none")
    f.ask("Where from?")
    shown = [{r.get_attribute("class"): float(r.get_attribute("width")) for r in bar.locator("rect").all()} for bar in page.locator(".bar").all()]
    assert shown == [{"memory": 5}, {"host": 75, "recomputed": 25}, {"disk": 50}, {"remote": 25}, {"computed": 50}, {"computed": 5}]
    expect(page.get_by_text("saved reading 310 of 470 tokens (66 %). 50 known ones were recomputed.")).to_be_visible()
    expect(page.locator(".gain")).to_have_text("5.0x faster than reading all of it")
    expect(page.get_by_text("not reused: never seen")).to_be_visible()
    colours = page.evaluate("""() => [...document.querySelectorAll(".key i")].map((e) => getComputedStyle(e).backgroundColor)""")
    assert len(colours) == len(set(colours)) == 6
    no_findings(page)
    account["segments"][1:1] = [segment("question", 20, 20, "memory"), segment("text", 60, 10, "disk")]
    page.get_by_role("button", name="Again").click()
    expect(page.locator(".bar", has_text="conversation")).to_contain_text("30 of 80 reused") # of what was said before, one bar


def a_folder_is_dropped(f):
    """As the browser delivers it: a folder with a folder in it."""
    for view in ("documents", "ask"): # anywhere on the page
        with tempfile.TemporaryDirectory() as folder:
            deep = "/".join(("日本語" * 9, "old" * 25, "deeper" * 12)) # longer than an id may be
            for name in (f"{view}/north.txt", f"{view}/old/south.txt") if view == "ask" else (f"{view}/{deep}/north.txt", f"{view}/{deep}/south.txt"):
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"The {path.stem} pier has a crane.")
            page = f.open(view)
            place = page.locator(".drop" if view == "documents" else ".messages")
            expect(place).to_be_visible()
            held = []
            page.route("**/v1/documents", lambda r: held.append(r) if r.request.method == "POST" else r.continue_())
            box = place.bounding_box()
            cdp = f.context.new_cdp_session(page)
            for kind in ("dragEnter", "dragOver", "drop"):
                assert page.locator("body.dragging").count() == (kind == "drop") # it says where
                cdp.send("Input.dispatchDragEvent", {"type": kind, "x": box["x"] + 20, "y": box["y"] + 20, "data": {
                    "items": [], "files": [str(pathlib.Path(folder, view))], "dragOperationsMask": 1}})
            for words in ("1 of 2: ", "2 of 2: "): # one after the other
                expect(page.get_by_text(words)).to_be_visible()
                expect(page.locator(".drop progress")).to_be_visible()
                while not held:
                    page.wait_for_timeout(20)
                held.pop().continue_()
            expect(page.get_by_text("2 added, 0 refused")).to_be_visible(timeout=PATIENCE)
            page.unroute("**/v1/documents")
            named, n = (f"{view} : old : south.txt", 1) if view == "ask" else ("deeper : ", 2)
            expect(page.locator("tbody tr", has_text=named)).to_have_count(n)
    page.get_by_role("link", name="Ask about them").click()
    expect(page.get_by_role("heading", name="Ask about your documents")).to_be_visible()


def what_cannot_be_read_is_said(f):
    """Of what is dropped; the rest is added."""
    page = f.open("documents")
    expect(page.locator(".drop")).to_be_visible()
    page.evaluate("""async () => {
        const file = (name, ask) => ({isFile: true, name, file: ask});
        const entries = [file("lost.txt", (good, bad) => bad(new DOMException("it has gone"))),
                         file("pier.txt", (good) => good(new File(["The pier has a crane."], "pier.txt"))),
                         {name: "shut", createReader: () => ({readEntries: (good, bad) => bad(new DOMException("no right"))})}];
        const script = [...document.scripts].map((s) => s.src).find((s) => s.endsWith("main.js"));
        await (await import(new URL("documents.js", script))).take(entries);
    }""")
    expect(page.get_by_text("1 added, 2 refused")).to_be_visible(timeout=PATIENCE)
    expect(page.locator("li.bad")).to_have_text([re.compile("lost.txt.*gone"), re.compile("shut.*no right")])


def what_is_served_is_asked_about(f):
    """Without a choice, the registered documents; if there are none, a collection that has some, or the graph. What was
    chosen is kept while it is there."""
    collections = [{"name": "new", "chunks": 0}, {"name": "velm", "chunks": 3}]
    use, there = f.page.locator("#use"), {"documents": [], "collections": collections, "graph": True}
    f.page.route("**/v1/documents?*", lambda r: r.fulfill(json={"object": "list", "data": there["documents"], "has_more": False}))
    f.page.route("**/v1/collections", lambda r: r.fulfill(json={"object": "list", "data": there["collections"]}))
    f.page.route("**/props", lambda r: r.fulfill(json={**r.fetch().json(), "graph": there["graph"]}))

    def chosen(value, **now):
        there.update(now)
        with f.page.expect_response("**/props"):
            f.page.reload()
        expect(use.locator("option")).to_have_count(4 + there["graph"] + len(there["collections"]) + len(there["documents"]))
        expect(use).to_have_value(value)

    f.open("ask")
    chosen("collection:velm")
    with f.page.expect_request("**/v1/chat/completions") as asked:
        f.ask("Who keeps the lighthouse of Velm?")
    assert asked.value.post_data_json["collection"] == {"name": "velm", "top_k": 5}
    chosen("graph:", collections=collections[:1])
    chosen("best:5", graph=False)
    chosen("best:5", documents=[{"id": "quays", "title": "Quays"}], collections=collections, graph=True)
    f.page.select_option("#use", "best:3")
    chosen("best:3", documents=[])
    f.page.select_option("#use", "graph:")
    chosen("graph:")
    chosen("collection:velm", graph=False) # what was chosen is no longer there


def a_collection_without_an_answer_says_so(f):
    """Else what the model makes up looks as if it came from the collection."""
    page = f.open("ask")
    expect(page.locator("#use option", has_text="collection velm")).to_have_count(1)
    page.select_option("#use", "collection:velm")
    f.ask("Zyxwv?")
    expect(page.locator("article").last).to_contain_text("No passage matches")
    f.ask("Who keeps the lighthouse of Velm?")
    expect(page.locator("article.message:not(.user)")).to_have_count(2)
    expect(page.get_by_text("No passage matches")).to_have_count(1)
    page.reload()
    expect(page.get_by_text("No passage matches")).to_have_count(1)


def sentences_are_cited(f):
    """Over a collection: the list below the answer, and the sentence itself, open the passages."""
    page = f.open("ask")
    expect(page.locator("#use option", has_text="collection velm")).to_have_count(1)
    page.select_option("#use", "collection:velm") # from GET /v1/collections
    f.ask("Who keeps the lighthouse of Velm, and which hotels has Torin?")
    expect(page.locator(".bar button")).not_to_have_count(0)
    page.locator(".sources summary").click()
    page.locator(".sources li button").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("h3").first).to_contain_text("%")
    assert any(words in dialog.inner_text() for words in ("lighthouse", "hotels", "harbour"))
    no_findings(page)
    page.keyboard.press("Escape")
    page.locator(".said.cited").click()
    expect(dialog.locator(".passage").first).not_to_be_empty()
    page.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)


def a_graph_is_walked(f):
    page = f.open("ask")
    expect(page.locator("#use option", has_text="the graph")).to_have_count(1)
    page.select_option("#use", "graph:")
    f.ask("Who is the founder of Ratgol?")
    expect(page.locator(".tree .node", has_text="Ratgol").first).to_be_visible()
    no_findings(page)
    founder = page.locator(".tree .node", has_text="Sokbor").first
    founder.click()
    expect(page.get_by_role("heading", name="Sokbor")).to_be_visible()
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_role("heading", name="Paths of the graph")).to_be_visible()
    page.get_by_role("button", name="Again").click()
    f.answered()
    expect(page.locator(".tree .node.known").first).to_be_attached()


def qualities_are_compared(f):
    say({"id": "quays", "text": TEXTS["harbour.txt"], "replace": True})
    page = f.open("ask")
    page.get_by_label("fast").check(force=True)
    f.ask("How many boats has the harbour room for?")
    page.get_by_role("button", name="Compare qualities").click()
    expect(page.locator(".beside .sheet")).to_have_count(3, timeout=PATIENCE)
    expect(page.locator(".beside .quiet").nth(2)).to_contain_text("x)", timeout=PATIENCE)
    expect(page.locator(".beside .quiet").nth(2)).to_contain_text("words")
    figures = [[int(n.replace(",", "")) for n in re.search(r"([\d,]+) tokens read, ([\d,]+) reused", e.inner_text()).groups()]
               for e in page.locator(".beside .quiet").all()]
    exact, fast = figures[0], figures[2]
    assert exact[1] == 0 and fast[1] > 0 and fast[0] < exact[0] # exact reads everything there
    assert [h.inner_text() for h in page.locator(".beside h3").all()] == ["exact", "balanced", "fast"]


def a_conversation_is_kept(f):
    """Edit, again, export, another tab, after a reload; and deleted."""
    page = f.open("ask")
    page.select_option("#use", "none")
    f.ask("First question?")
    page.get_by_role("button", name="Edit").click()
    assert page.input_value("#question") == "First question?"
    f.ask("Second question?")
    expect(page.locator("article.user")).to_have_count(1)
    page.get_by_role("button", name="Again").click()
    f.answered()
    f.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.locator("#notice")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()").split() == page.locator(".said").last.inner_text().split()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    assert "Second question?" in pathlib.Path(download.value.path()).read_text()
    other = f.context.new_page()
    f.watch(other, f.url)
    other.goto(URL + "/")
    expect(other.locator("article.user")).to_contain_text("Second question?")
    page.reload()
    expect(page.locator("article.user")).to_contain_text("Second question?")
    page.get_by_role("button", name="Delete Second question?").or_(page.get_by_role("button", name="Delete First question?")).click()
    expect(other.locator(".list li")).to_have_count(0)


def an_answer_is_stopped(f):
    page = f.open("ask")
    page.select_option("#use", "none")
    page.route("**/v1/chat/completions", lambda r: None) # a server that does not answer yet
    page.fill("#question", "Tell me a long story.")
    page.press("#question", "Enter")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("stopped")).to_be_visible()
    expect(page.get_by_role("button", name="Ask", exact=True)).to_be_enabled()


def documents_live_and_die(f):
    """Found by what they say, pinned, given a time, computed ahead, deleted with the proof."""
    for name in ("swan", "goose"):
        say({"id": name, "text": f"The {name.title()} is a hotel with a zeppelin on its roof. It has " + "many rooms, " * 40, "replace": True})
    page = f.open("documents")
    page.fill("input[type=search]", "goose")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.fill("input[type=search]", "")
    other = page.locator("tbody tr", has_text="goose")
    expect(other).to_be_visible()
    swan = page.locator("tbody tr", has_text="swan")
    swan.get_by_role("button", name="Compute ahead").click()
    expect(swan).to_contain_text("computed", timeout=PATIENCE)
    page.wait_for_timeout(1000)
    assert shows_estimate(other) # corrected by what computing took
    page.fill("input[type=search]", "zeppelin")
    row = page.locator("tbody tr", has_text="swan")
    expect(page.locator("tbody tr")).to_have_count(2)
    row.get_by_role("button", name="Pin").click()
    expect(row.get_by_role("button", name="Unpin")).to_be_visible()
    row.get_by_role("combobox").select_option("86400")
    expect(row.get_by_role("combobox")).to_have_value("-1")
    row.get_by_role("button", name="Delete swan").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("#notice")).to_contain_text("swan is gone", timeout=PATIENCE)
    f.errors = [e for e in f.errors if "404" not in e] # the proof: the server knows no such document


HOSTILE = """<script>window.broken=1</script><img src=x onerror="window.broken=1"> [a](javascript:window.broken=1)
![b](http://example.com/x.png) [c](data:text/html,x) <a href="javascript:1">d</a>

| <b>x</b> | y |
|---|---|
| `<i>` | **z** |

""" + "> " * 3000 + "\n" + "[" * 5000 + "*" * 5000 + "`" * 3000


def deletions_are_not_believed(f):
    """What is still read, and what is still there afterwards, is said; a hostile name is text."""
    name = "<img src=x onerror=window.broken=1>"
    say({"id": name, "title": name, "text": "Nothing.", "replace": True})
    page = f.open("documents")
    row = page.locator("tbody tr", has_text="<img src=x")
    expect(row).to_be_visible()
    assert page.locator("tbody img").count() == 0 and page.evaluate("window.broken") is None
    erased = {"pending": 2}
    page.route("**/v1/documents/*", lambda r: r.fulfill(json={"erased": {"device": 1, "store": 0, **erased}})
               if r.request.method == "DELETE" else r.continue_())
    for words in ("2 copies are still read", "could not be deleted: 200"):
        row.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.locator("#notice")).to_contain_text(words)
        erased["pending"] = 0
        page.reload()
    page.unroute("**/v1/documents/*")
    row.get_by_role("button", name="Delete").click()
    page.keyboard.press("Escape") # nothing happens
    expect(row).to_be_visible()
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("#notice")).to_contain_text("is gone")
    f.errors = [e for e in f.errors if "404" not in e]


def a_hostile_answer_is_text(f):
    page = f.open("ask")
    piece = json.dumps({"choices": [{"index": 0, "delta": {"content": HOSTILE}, "finish_reason": None}]})
    end = json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    page.route("**/v1/chat/completions", lambda r: r.fulfill(
        status=200, headers={"Content-Type": "text/event-stream"}, body=f"data: {piece}\n\ndata: {end}\n\ndata: [DONE]\n\n"))
    page.select_option("#use", "none")
    f.ask("<img src=x onerror='window.broken=1'>")
    said = page.locator("article").last
    expect(said).to_contain_text("<script>window.broken=1</script>")
    assert page.evaluate("window.broken") is None
    assert page.locator("article script, article img, article b, article i").count() == 0
    assert all(a.get_attribute("href").startswith("http") for a in page.locator("article a").all())
    expect(said.locator("td strong")).to_have_text("z")


def a_broken_connection_is_said(f):
    page = f.open("ask")
    page.select_option("#use", "none")
    page.route("**/v1/chat/completions", lambda r: r.abort())
    f.ask("Are you there?")
    expect(page.locator("article .bad")).to_contain_text("does not answer")
    page.unroute("**/v1/chat/completions")
    page.route("**/v1/chat/completions", lambda r: r.fulfill(**stream_of( # it ends in the midst of an answer
        {"choices": [{"index": 0, "delta": {"content": "The boats are"}, "finish_reason": None}]})))
    page.get_by_role("button", name="Again").click()
    expect(page.locator("article .bad")).to_contain_text("broke off")
    expect(page.locator(".said").last).to_have_text("The boats are")
    page.unroute("**/v1/chat/completions")
    page.route("**/v1/chat/completions", lambda r: r.fulfill(**stream_of({"error": {"message": "out of memory", "code": "out_of_memory"}})))
    page.get_by_role("button", name="Again").click()
    expect(page.locator("article .bad")).to_contain_text("out of memory")
    page.unroute("**/v1/chat/completions")
    page.get_by_role("button", name="Again").click()
    f.answered()
    expect(page.locator("article .bad")).to_have_count(0)
    f.errors = [e for e in f.errors if "ERR_FAILED" not in e]


def a_thousand_messages(f):
    page = f.open("ask")
    page.evaluate("""() => { const messages = [];
        for (let i = 0; i < 500; i++) messages.push({role: "user", content: "Question " + i}, {role: "assistant", content: "**Answer** " + i});
        localStorage.setItem("spolia.conversation.long", JSON.stringify({id: "long", title: "Long", changed: 9e15, messages})); }""")
    page.reload()
    expect(page.locator("article")).to_have_count(1000)


def thousands_of_documents(f):
    """Of a server that has them: in pages, without waiting for all of them, each shown once; and any is found by its words."""
    page = f.open("documents")
    rows = page.locator("tbody tr")
    more = page.get_by_role("button", name="Show more")
    for i in range(1, 4):
        expect(rows).to_have_count(100 * i)
        more.click()
    expect(rows).to_have_count(400)
    assert len(set(page.locator("tbody tr td:first-child").all_text_contents())) == 400
    page.get_by_placeholder("Search").fill("crane 2998")
    expect(rows.filter(has_text="Crane 2998")).to_have_count(1)
    f.errors = [e for e in f.errors if "404" not in e]  # no document has these words for its id
