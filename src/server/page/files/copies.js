// copies.js -- the tree of cached copies, walked a level at a time: each is below what it was computed after.
import {h, notice, whole} from "./dom.js";
import * as server from "./server.js";
import {text} from "./texts.js";

const page_size = 50;

// words -- how a copy begins, on one line.
function words(c) {
  const line = c.text.replace(/<\|?[\w ]*\|?>(system|user|model|assistant)?/g, " ").replace(/\s+/g, " ").trim();
  return line || (c.tokens === null ? text("text_below") : text("text_none"));
}

function facts(c) {
  return [text("kind_" + c.kind), text(c.exact ? "copy_exact" : "copy_near"),
          c.tokens !== null && text("copy_tokens", whole(c.tokens)), c.recomputed > 0 && text("copy_patch", whole(c.recomputed)),
          text("copy_uses", whole(c.uses))].filter(Boolean).join(" · ");
}

const tiers = (c) => h("span.tiers", {}, c.tiers.length ? c.tiers.map((t) => h("span", {}, h("i." + t), text(t))) : text("in_no_tier"));

// row -- a copy; one with others below it is a button that shows them.
function row(c) {
  const inside = [h("span.words", {}, words(c)), h("span.quiet", {}, facts(c)), tiers(c),
                  h("span.quiet.count", {}, c.below ? text("copies_below", whole(c.below)) : "")];
  if (!c.below) return h("li", {}, h("div.copy", {}, inside));
  const below = h("div", {hidden: true});
  const button = h("button.copy", {type: "button", "aria-expanded": "false", onclick: toggle}, inside);
  async function toggle() {
    const open = button.getAttribute("aria-expanded") === "false";
    button.setAttribute("aria-expanded", String(open));
    below.hidden = !open;
    if (open) await show(below, c.name);
  }
  return h("li", {}, button, below);
}

// show -- into `place`: the copies below one of this name, or those that begin a prompt.
export async function show(place, parent) {
  const list = h("ul.copies"), more = h("button.small", {type: "button", hidden: true}, text("more"));
  const seen = new Set(); // a copy that is used between two pages moves forward
  let next = null;
  async function load() {
    const query = new URLSearchParams({limit: page_size, ...(parent ? {parent} : {}), ...(next ? {after: next} : {})});
    try {
      const page = await server.get("v1/copies?" + query);
      list.append(...page.data.filter((c) => !seen.has(c.name)).map((c) => (seen.add(c.name), row(c))));
      next = page.next;
      more.hidden = !page.has_more;
      if (!list.children.length) list.append(h("li.quiet", {}, text("no_copies")));
    } catch (e) {
      notice(e.message);
    }
  }
  more.addEventListener("click", load);
  await load();
  place.replaceChildren(list, more);
}
