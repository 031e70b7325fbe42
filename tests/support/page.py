"""What people do with the page at /, in headless Chromium: run by tests/e2e/test_page.py.

    .venv-clients/bin/python tests/support/page.py CHROMIUM URL KEYED PREFIXED MANY [PICTURES [FLOW ...]]

URL, as http://127.0.0.1:8080, has a collection "velm" and the graph of demo/graph. KEYED has API keys, one of which is
"the-key". PREFIXED reaches URL through a proxy, below a prefix; - skips its flow. MANY has 10,000 copies below one
system prompt, and 3,000 registered documents. Prints a line of JSON for each flow: {"flow", "error"}. With a folder
PICTURES, writes the screenshots of docs/page.md there.

A flow is a function of page_asking.py, page_tabs.py or page_watching.py whose only parameter is f, a Flow of page_tools.py.
"""
import inspect
import json
import sys
import traceback

from playwright.sync_api import sync_playwright

import page_asking
import page_tabs
import page_watching
from page_tools import CHROMIUM, KEYED, MANY, PREFIXED, URL, Flow
FLOWS = [x for room in (page_asking, page_tabs, page_watching) for x in vars(room).values()
         if inspect.isfunction(x) and [*inspect.signature(x).parameters] == ["f"]]
SERVERS = {page_watching.a_key_is_asked_for_once: KEYED, page_watching.it_works_below_a_prefix: PREFIXED,
           page_watching.ten_thousand_copies: MANY, page_asking.thousands_of_documents: MANY} # all others: URL


def main():
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for flow in [x for x in FLOWS if not sys.argv[7:] or x.__name__ in sys.argv[7:]]:
            url = SERVERS.get(flow, URL)
            f = Flow(browser, width=360 if flow is page_watching.it_fits_a_phone else 1200, url=url)
            error = ""
            try:
                flow(f)
                f.close()
            except Exception:
                error = traceback.format_exc()[-3000:] + str(f.errors)
                f.context.close()
            print(json.dumps({"flow": flow.__name__, "error": error}), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
