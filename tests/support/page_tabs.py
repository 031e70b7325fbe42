"""Flows about what happens at the same time: other conversations, other tabs; and names that are long."""
import tempfile
import urllib.request

from playwright.sync_api import expect

from page_tools import URL, say, stream_of


def held(page):
    """The chats that a page has sent, which are not answered."""
    asked = []
    page.route("**/v1/chat/completions", lambda r: asked.append(r))
    page.select_option("#use", "none")
    return asked


def ask(page, asked, question):
    n = len(asked)
    page.fill("#question", question)
    page.press("#question", "Enter")
    while len(asked) == n:
        page.wait_for_timeout(20)


def tell(asked, words):
    asked.pop(0).fulfill(**stream_of({"choices": [{"index": 0, "delta": {"content": words}, "finish_reason": "stop"}]}))


def can_ask(page):
    expect(page.get_by_role("button", name="Ask", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()


def another_tab(f):
    page = f.context.new_page()
    f.watch(page, f.url)
    page.goto(URL + "/")
    expect(page.locator("#use option", has_text="collection velm")).to_have_count(1)
    return page


def kept(page):
    """What the conversations in the browser's storage say."""
    return page.evaluate("""() => Object.keys(localStorage).filter((k) => k.startsWith("spolia.conversation."))
        .map((k) => JSON.parse(localStorage[k]).messages.map((m) => m.content))""")


def an_answer_ends_while_another_conversation_is_open(f):
    page = f.open("ask")
    asked = held(page)
    ask(page, asked, "First?")
    page.get_by_role("button", name="New conversation").click()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    tell(asked, "The first answer.")
    can_ask(page)
    page.get_by_role("button", name="First?", exact=True).click()
    expect(page.locator("article .said").last).to_have_text("The first answer.")


def a_deleted_conversation_stays_deleted(f):
    """Also one that was being answered: here, where the answer ends, and in another tab."""
    page = f.open("ask")
    asked = held(page)
    ask(page, asked, "First?")
    page.get_by_role("button", name="Delete First?").click()
    can_ask(page)
    assert kept(page) == []
    ask(page, asked, "Second?")
    other = another_tab(f)
    other.get_by_role("button", name="Delete Second?").click()
    tell(asked[1:], "The second answer.")
    can_ask(page)
    assert kept(page) == []
    page.reload()
    expect(page.locator(".list li")).to_have_count(0)


def two_tabs_ask_in_one_conversation(f):
    """Whichever ends first: nothing of the other is lost; what was edited away meanwhile stays away."""
    page = f.open("ask")
    for first in (0, 1):
        page.get_by_role("button", name="New conversation").click()
        asked = [held(page)]
        ask(page, asked[0], "One?")
        other = another_tab(f)
        asked.append(held(other))
        ask(other, asked[1], "Two?")
        for i in (first, 1 - first):
            tell(asked[i], ("The first.", "The second.")[i])
            can_ask((page, other)[i])
        for tab in (page, other):
            expect(tab.locator("article .said")).to_have_text(["One?", "The first.", "Two?", "The second."])
        assert ["One?", "The first.", "Two?", "The second."] in kept(page)
        other.close()
    ask(page, asked[0], "Three?")
    other = another_tab(f)
    asked[1] = held(other)
    other.get_by_role("button", name="Edit").first.click()
    ask(other, asked[1], "Four?")
    for i in (0, 1):
        tell(asked[i], ("The third.", "The fourth.")[i])
        can_ask((page, other)[i])
    assert ["Four?", "The fourth."] in kept(page)


def an_edit_is_undone(f):
    """What a new question would replace is there until it is asked."""
    page = f.open("ask")
    asked = held(page)
    for question in ("One?", "Two?"):
        ask(page, asked, question)
        tell(asked, "An answer.")
        can_ask(page)
    for undo in (lambda: page.get_by_role("button", name="Cancel").click(), lambda: page.press("#question", "Escape")):
        page.get_by_role("button", name="Edit").first.click()
        expect(page.locator("#question")).to_have_value("One?")
        expect(page.locator("article.replaced")).to_have_count(4)
        assert kept(page) == [["One?", "An answer.", "Two?", "An answer."]]
        undo()
        expect(page.locator("#question")).to_have_value("")
        expect(page.locator("article.replaced")).to_have_count(0)
    page.get_by_role("button", name="Edit").nth(1).click()
    ask(page, asked, "Three?")
    tell(asked, "Another one.")
    can_ask(page)
    assert kept(page) == [["One?", "An answer.", "Three?", "Another one."]]


def what_another_tab_has_deleted_leaves_the_list(f):
    page = f.open("documents")
    for name, click in (("Pin", "Pin"), ("Compute ahead", "Compute ahead"), ("Delete gull", "Delete")):
        say({"id": "gull", "text": "A gull sits on the pier.", "replace": True})
        page.reload()
        row = page.locator("tbody tr", has_text="gull")
        expect(row).to_have_count(1)
        urllib.request.urlopen(urllib.request.Request(URL + "/v1/documents/gull", method="DELETE"))
        row.get_by_role("button", name=name).click()
        if click == "Delete":
            page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.locator("#notice")).to_contain_text("there is no document")
        expect(row).to_have_count(0)
    f.errors = [e for e in f.errors if "404" not in e]


def a_file_is_chosen_again(f):
    """A browser tells of a choice only if it differs from what the field has."""
    page = f.open("documents")
    field = page.locator("input[type=file]").first
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        for words in ("A crane.", "Two cranes and a longer text."):
            file.seek(0)
            file.write(words.encode())
            file.flush()
            field.set_input_files(file.name)
            expect(page.get_by_text("1 added, 0 refused")).to_be_visible()
            expect(page.locator("tbody tr", has_text=f"{len(words)} B")).to_have_count(1)
            assert field.input_value() == ""


OVER = "e => e.scrollWidth - e.clientWidth"


def long_names_are_broken(f):
    """In what is asked and said of them, in the list of what was refused, and beside an answer."""
    name = "n" * 200
    say({"id": name, "title": name, "text": "A quay of a name that is long.", "replace": True})
    page = f.open("documents")
    field = page.locator("input[type=file]").first
    field.set_input_files({"name": name + ".bin", "mimeType": "", "buffer": bytes(99)})
    expect(page.locator(".drop .bad")).to_contain_text("no reader")
    assert page.locator(".drop").evaluate(OVER) == 0
    page.goto(URL + "/#ask")
    page.select_option("#use", label="all of " + name)
    f.ask("What has a long name?")
    expect(page.locator(".bar button")).to_have_count(1)
    assert page.locator(".bars").evaluate(OVER) == 0
    rights = page.locator(".bars .name .quiet").evaluate_all("all => all.map((e) => e.getBoundingClientRect().right)")
    assert rights and max(rights) <= page.viewport_size["width"], rights
    page.goto(URL + "/#documents")
    page.locator("tbody tr", has_text=name).get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    assert dialog.evaluate(OVER) == 0
    dialog.get_by_role("button", name="Delete").click()
    expect(page.locator("#notice")).to_contain_text("is gone")
    assert page.locator("#notice").evaluate(OVER) == 0
    f.errors = [e for e in f.errors if "404" not in e and "400" not in e]
