// ask.js -- a chat over documents; beside each answer, where the tokens of its prompt came from.
import * as account from "./account.js";
import * as cite from "./cite.js";
import * as conversations from "./conversations.js";
import {download, h, milliseconds, notice, whole} from "./dom.js";
import * as graph from "./graph.js";
import {render} from "./markdown.js";
import * as server from "./server.js";
import {text} from "./texts.js";

const qualities = ["exact", "balanced", "fast"];
const kept = {quality: "spolia.quality", documents: "spolia.documents"};
let conversation = null; // the one that is shown; it outlives a change of views
let running = null;      // {controller, message, of}: one answer at a time, and the id of its conversation
let edited = -1;         // which question of it the next one replaces, and all after it; -1: none
let view = null;         // the elements

export function show(main) {
  conversation ||= conversations.list()[0] || conversations.create();
  view = {
    past: h("ul.list"), messages: h("div.messages", {role: "log", "aria-label": text("conversations"), tabindex: 0}),
    account: h("div"), input: h("textarea", {id: "question", rows: 2, placeholder: text("placeholder"),
      "aria-label": text("question"), onkeydown: on_key}),
    send: h("button.main", {type: "submit"}, text("send")),
    stop: h("button", {type: "button", hidden: true, onclick: () => running && running.controller.abort()}, text("stop")),
    documents: h("select", {id: "use", onchange: () => localStorage.setItem(kept.documents, view.documents.value)}),
  };
  main.replaceChildren(h("div.ask", {},
    h("section.past", {"aria-label": text("conversations")},
      h("button", {type: "button", onclick: () => open(conversations.create())}, text("new_conversation")), view.past),
    h("section.middle", {"aria-label": text("ask")}, view.messages, h("div.asking", {}, form())),
    h("section", {"aria-label": text("came_from")}, h("h2", {}, text("came_from")), view.account)));
  list_documents();
  redraw();
  view.input.focus();
}

function form() {
  const quality = localStorage.getItem(kept.quality) || "balanced";
  const knob = h("fieldset.knob", {}, h("legend", {}, text("quality")), qualities.map((q) =>
    h("label", {}, h("input", {type: "radio", name: "quality", value: q, checked: q === quality,
      onchange: () => localStorage.setItem(kept.quality, q)}), text(q))));
  return h("form", {onsubmit: (e) => (e.preventDefault(), ask_typed())},
    h("div.type", {}, view.input, h("div.do", {}, view.send, view.stop)),
    h("div.row.apart", {}, h("span.row", {}, h("label.quiet", {for: "use"}, text("use_documents")), view.documents), knob));
}

function on_key(e) {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing) e.preventDefault(), ask_typed();
  if (e.key === "Escape" && running) running.controller.abort();
  else if (e.key === "Escape" && edited >= 0) stop_editing();
}

// -- documents of a question ----------------------------------------------------------------------

// list_documents -- what can be asked about. Chosen is what the user took last, while it is there; else the best passages
// of the registered documents, or, without any, a collection that has some, or the graph.
async function list_documents() {
  const option = (value, words) => h("option", {value}, words), use = view.documents;
  const choose = (choice) => [...use.options].some((o) => o.value === choice) && (use.value = choice);
  use.replaceChildren(...[3, 5, 10].map((n) => option("best:" + n, text("best", n))), option("none", text("none")));
  choose(localStorage.getItem(kept.documents)) || choose("best:5");
  try {
    const asked = ["v1/documents?limit=50", "v1/collections", "props"].map((path) => server.get(path));
    const [all, collections, props] = await Promise.all(asked);
    const served = collections.data.map((c) => option("collection:" + c.name, text("use_collection", c.name)));
    const graph = props.graph ? [option("graph:", text("use_graph"))] : [];
    use.append(...graph, ...served, ...all.data.map((d) => option("all:" + d.id, text("all_of", d.title || d.id))));
    const filled = served.filter((_, i) => collections.data[i].chunks);
    choose(localStorage.getItem(kept.documents)) || all.data.length || choose([...filled, ...graph][0]?.value);
  } catch (e) {
    notice(e.message);
  }
}

// sources_for -- the fields of a chat that say what it is answered from: passages [{id, title, text}] in `documents`, a
// collection, or the graph.
async function sources_for(question, signal) {
  const [kind, value] = [view.documents.value.split(":")[0], view.documents.value.replace(/^\w+:/, "")];
  if (kind === "none") return {};
  if (kind === "graph") return {graph: true};
  if (kind === "collection") return {collection: {name: value, top_k: 5}, citations: true};
  if (kind === "all") return {documents: [{id: value}], citations: true};
  const found = await server.post("v1/search", {query: question, top_k: Number(value)}, signal);
  if (!found.data.length) return notice(text("nothing_found")), {};
  return {documents: found.data.map((f) => ({id: f.document, title: f.title, text: f.text})), citations: true};
}

// -- asking ---------------------------------------------------------------------------------------

function ask_typed() {
  const question = view.input.value.trim();
  if (!question || running) return;
  view.input.value = "";
  view.input.focus();
  if (edited >= 0) conversation.messages.length = edited;
  edited = -1;
  conversation.messages.push({role: "user", content: question});
  conversation.title ||= question.slice(0, 60);
  answer();
}

const for_model = (messages) => messages.filter((m) => m.content).map(({role, content}) => ({role, content}));

// answer -- the last message, which is the user's; into a new message of the conversation that asked.
async function answer() {
  const own = conversation, question = own.messages.at(-1).content;
  const message = {role: "assistant", content: ""};
  const controller = new AbortController();
  const quality = document.querySelector("input[name=quality]:checked").value;
  message.quality = quality;
  running = {controller, message, of: own.id};
  const messages = for_model(own.messages);
  own.messages.push(message);
  conversations.save(own);
  redraw();
  try {
    message.sources = await sources_for(question, controller.signal);
    const body = {model: "any", messages, quality, ...message.sources};
    const add = (part) => (piece) => (message[part] = (message[part] || "") + piece, draw_soon(message));
    message.result = await server.chat(body, {on_text: add("content"), on_thought: add("thoughts"), signal: controller.signal});
    message.finish = message.result.finish;
  } catch (e) {
    message.finish = e.name === "AbortError" ? "stopped" : "error";
    message.error = e.message;
  }
  running = null;
  conversations.merge(own, message);
  if (view && own === conversation) redraw();
  else if (view) draw_state();
}

function again(i) {
  if (running) return;
  edited = -1;
  conversation.messages.length = i;
  answer();
}

// edit -- what it replaces stays until the new question is asked.
function edit(i) {
  if (running) return;
  edited = i;
  view.input.value = conversation.messages[i].content;
  redraw();
  view.input.focus();
}

function stop_editing() {
  edited = -1;
  view.input.value = "";
  redraw();
}

// compare -- the same question at each quality, one after another; "exact" reuses nothing, which is what reading costs.
async function compare(i, place, button) {
  const m = conversation.messages[i], before = for_model(conversation.messages.slice(0, i));
  button.disabled = true;
  place.replaceChildren(h("p.quiet", {role: "status"}, text("comparing")));
  const columns = h("div.beside");
  try {
    let exact = 0, exact_words = "";
    for (const quality of qualities) {
      const said = h("div.said"), figures = h("ul.quiet.plainlist");
      columns.append(h("div.sheet", {}, h("h3", {}, text(quality)), figures, said));
      let words = "";
      const body = {model: "any", messages: before, quality, ...m.sources, cache_prompt: quality !== "exact"};
      const r = await server.chat(body, {on_text: (piece) => (words += piece)});
      said.append(render(words));
      const first = quality === "exact", a = r.spolia;
      if (first) exact = r.timings.ttft_ms, exact_words = words;
      const lines = [milliseconds(r.timings.ttft_ms) + (first ? "" : ` (${(exact / r.timings.ttft_ms).toFixed(1)}x)`),
        a && text("read_tokens", whole(a.computed_tokens), whole(a.reused_tokens)),
        !first && text(words === exact_words ? "same_words" : "other_words")];
      figures.append(...lines.filter(Boolean).map((l) => h("li", {}, l)));
      place.replaceChildren(columns);
    }
  } catch (e) {
    place.replaceChildren(h("p.bad", {}, e.message));
  }
  button.disabled = false;
}

// -- drawing --------------------------------------------------------------------------------------

function open(c) {
  conversation = c;
  edited = -1;
  redraw();
  view.input.focus();
}

// draw_state -- which conversations there are, and whether one is being answered.
function draw_state() {
  draw_past();
  view.stop.hidden = !running;
  view.send.hidden = Boolean(running);
}

function redraw() {
  draw_state();
  view.messages.replaceChildren(...(conversation.messages.length ? conversation.messages.map(draw_message) : [welcome()]));
  view.messages.scrollTop = view.messages.scrollHeight;
  const last = conversation.messages.findLast((m) => m.result);
  draw_account(last);
}

function welcome() {
  return h("div.welcome", {}, h("h2", {}, text("welcome")), h("p", {}, text("welcome_note")),
           h("a.button", {href: "#documents"}, text("add_documents")));
}

function draw_past() {
  const all = conversations.list();
  view.past.replaceChildren(...all.map((c) => h("li", {},
    h("button.pick", {type: "button", "aria-current": c.id === conversation.id, disabled: Boolean(running),
      onclick: () => open(conversations.load(c.id) || conversations.create())}, c.title || text("untitled")),
    h("button.small", {type: "button", "aria-label": text("delete_conversation", c.title || text("untitled")),
      onclick: () => remove(c.id)}, "×"))));
}

function remove(id) {
  if (running && running.of === id) running.controller.abort();
  conversations.remove(id);
  if (id === conversation.id) open(conversations.create());
  else draw_past();
}

function draw_account(m) {
  const paths = h("div.paths");
  view.account.replaceChildren(m ? account.show(m.result, m.quality, (i) => read(m, i)) : h("p.quiet", {}, text("account_empty")), paths);
  if (m && m.sources && m.sources.graph && m.result.spolia)
    graph.show(paths, conversation.messages[conversation.messages.indexOf(m) - 1].content, m.result.spolia);
}

function draw_message(m, i) {
  const old = edited >= 0 && i >= edited ? ".replaced" : "";
  if (m.role === "user")
    return h("article.message.user" + old, {"aria-label": text("you")}, h("div.said", {}, m.content), h("div.tools.row", {},
      h("button.small", {type: "button", onclick: () => (i === edited ? stop_editing() : edit(i))}, text(i === edited ? "cancel" : "edit"))));
  const said = h("div.said", {}, render(m.content)), below = h("div"), busy = running && running.message === m;
  const thoughts = h("details.thoughts", {hidden: !m.thoughts}, h("summary", {}, text("thoughts")), h("p", {}, m.thoughts || ""));
  const e = h("article.message" + old, {"aria-label": text("model"), "aria-busy": busy ? "true" : "false"}, thoughts, said);
  if (busy) running.said = said, running.thoughts = thoughts;
  else e.append(...note(m).filter(Boolean), cite.show(said, m, (k) => text_of(m, k)), tools(m, i, below), below);
  return e;
}

function note(m) {
  const words = {stopped: text("stopped"), length: text("cut"), error: text("broken_off", m.error || "")}[m.finish];
  const found_none = m.sources && m.sources.collection && m.result && m.result.spolia && !m.result.spolia.documents.length;
  return [found_none && h("p.quiet", {}, text("nothing_found")), words && h("p", {class: m.finish === "error" ? "bad" : "quiet"}, words)];
}

function tools(m, i, below) {
  const button = (name, f) => h("button.small", {type: "button", onclick: f}, text(name));
  const compared = button("compare", () => compare(i, below, compared));
  return h("div.tools.row", {}, button("regenerate", () => again(i)),
    button("copy", () => navigator.clipboard.writeText(m.content).then(() => notice(text("copied")), (e) => notice(e.message))),
    button("export", () => download("conversation.md", "text/markdown", conversations.as_markdown(conversation))),
    m.result && compared, m.result && button("came_from", () => draw_account(m)));
}

// draw_soon -- the growing answer, at most once a frame.
let due = false;
function draw_soon(message) {
  if (due || !view) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    if (!running || running.message !== message || !running.said) return;
    const place = view.messages, follow = place.scrollHeight - place.scrollTop - place.clientHeight < 80;
    running.said.replaceChildren(render(message.content));
    draw_thoughts(running.thoughts, message);
    if (follow) place.scrollTop = place.scrollHeight;
  });
}

// draw_thoughts -- open until the answer begins.
function draw_thoughts(place, m) {
  if (!m.thoughts) return;
  place.hidden = false;
  place.open = !m.content;
  place.lastChild.textContent = m.thoughts;
}

// text_of -- of document i of an answer: the server tells it with the citations.
const text_of = (m, i) => (m.result.spolia.documents[i] || {}).text || ((m.sources && m.sources.documents) || [])[i]?.text;

// read -- the text of document i of an answer.
function read(m, i) {
  const d = m.result.spolia.documents[i] || {};
  const dialog = h("dialog", {"aria-label": text("passages"), onclose: () => dialog.remove()},
    h("h2", {}, d.title || d.id || ""), h("div.passage", {tabindex: 0}, text_of(m, i) || ""),
    h("form", {method: "dialog"}, h("button", {}, text("close"))));
  document.body.append(dialog);
  dialog.showModal();
}

conversations.on_change((id) => {
  if (!view || !view.past.isConnected) return;
  const fresh = id === conversation.id && !running ? conversations.load(id) : null;
  if (fresh) conversation = fresh, edited = -1, redraw();
  else draw_past();
});
