// cite.js -- which passages each sentence of an answer looks at: a click on a sentence, or its entry in the list below,
// opens them.
import {h} from "./dom.js";
import {text} from "./texts.js";

// sentences -- [{words, sources}] of a choice's `citations`, whose places are bytes of the answer.
function sentences(answer, citations) {
  const bytes = new TextEncoder().encode(answer), decoder = new TextDecoder();
  return citations.map((c) => ({words: decoder.decode(bytes.subarray(c.start, c.end)).trim(), sources: c.sources}))
    .filter((s) => s.words && s.sources.length);
}

// letters -- what of a text is the same before and after it is drawn as Markdown.
const letters = (s) => s.replace(/[^\p{L}\p{N}]/gu, "");

// at_point -- the sentence under a click within `said`, or null.
function at_point(said, list, e) {
  const caret = document.caretPositionFromPoint ? document.caretPositionFromPoint(e.clientX, e.clientY)
    : document.caretRangeFromPoint && document.caretRangeFromPoint(e.clientX, e.clientY);
  if (!caret) return null;
  const node = caret.offsetNode || caret.startContainer;
  if (!said.contains(node)) return null;
  const before = document.createRange();
  before.setStart(said, 0);
  before.setEnd(node, caret.offset ?? caret.startOffset);
  let left = letters(before.toString()).length;
  for (const s of list) {
    left -= letters(s.words).length;
    if (left < 0) return s;
  }
  return list.at(-1) || null;
}

// name_of -- of a source of an answer.
export function name_of(source, documents) {
  const d = documents[source.document] || {};
  return d.title || d.id || text("passage", source.document + 1);
}

function open(sentence, documents, text_of) {
  const parts = sentence.sources.map((s) => h("section", {"aria-label": name_of(s, documents)},
    h("h3", {}, `${name_of(s, documents)}: ${(100 * s.mass).toFixed(0)} %`), h("div.passage", {tabindex: 0}, text_of(s.document) || "")));
  const dialog = h("dialog", {"aria-label": text("cited"), onclose: () => dialog.remove()},
    h("blockquote", {}, sentence.words), h("p.quiet", {}, text("cited_note")), parts,
    h("form", {method: "dialog"}, h("button", {}, text("close"))));
  document.body.append(dialog);
  dialog.showModal();
}

// show -- makes the sentences of `said` answer to clicks; returns the list for below the answer. text_of(i): document i's.
export function show(said, m, text_of) {
  const citations = m.result && m.result.citations, documents = (m.result && m.result.spolia && m.result.spolia.documents) || [];
  const list = citations ? sentences(m.content, citations) : [];
  if (!list.length) return "";
  said.classList.add("cited");
  said.addEventListener("click", (e) => {
    const s = e.target.closest("a, button") || String(getSelection()) ? null : at_point(said, list, e);
    if (s) open(s, documents, text_of);
  });
  const short = (s) => (s.length > 90 ? s.slice(0, 88) + " …" : s);
  return h("details.sources", {}, h("summary", {}, text("sources")), h("ol", {}, list.map((s) => h("li", {},
    h("button.pick", {type: "button", onclick: () => open(s, documents, text_of)}, short(s.words),
      h("span.quiet", {}, s.sources.map((x) => ` ${name_of(x, documents)} ${(100 * x.mass).toFixed(0)} %`).join(",")))))));
}
