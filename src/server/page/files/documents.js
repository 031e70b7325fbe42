// documents.js -- register, find, pin, expire, compute ahead and delete documents.
import {bytes, h, milliseconds, notice, whole} from "./dom.js";
import * as server from "./server.js";
import {text} from "./texts.js";

const page_size = 100;
const state = h("div", {role: "status"}); // of an upload; it outlives a change of views
let view = null, query = "";

export function show(main) {
  const pick = (directory) => h("input", {type: "file", multiple: true, webkitdirectory: directory, hidden: true,
    onchange: (e) => {
      add([...e.target.files].map((f) => ({file: f, path: f.webkitRelativePath || f.name})));
      e.target.value = ""; // so that the same ones can be chosen again
    }});
  const files = pick(false), folder = pick(true);
  view = {
    body: h("tbody"), more: h("button", {type: "button", hidden: true}, text("more")),
    search: h("input", {type: "search", placeholder: text("search_documents"), "aria-label": text("search_documents"), value: query}),
    costs: null, after: null,
  };
  let waiting;
  view.search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => (query = view.search.value.trim(), load(true)), 250);
  });
  view.more.addEventListener("click", () => load(false));
  const drop = h("div.drop", {}, h("p", {}, text("drop")), h("div.row.centre", {},
      h("button", {type: "button", onclick: () => files.click()}, text("choose_files")),
      h("button", {type: "button", onclick: () => folder.click()}, text("choose_folder"))), files, folder, state);
  const columns = ["title", "passages", "tokens", "size", "precompute", "expire", "pin", "remove"];
  main.replaceChildren(h("div.documents", {tabindex: 0}, drop, view.search, h("table.all", {}, h("thead", {}, h("tr", {}, columns.map((c) =>
    h("th", {scope: "col", class: ["passages", "tokens", "size"].includes(c) ? "number" : null}, text(c))))), view.body), view.more));
  measure_costs().then(() => load(true));
}

// measure_costs -- bytes of KV and milliseconds a token, for estimates: guessed by the server when it starts, and measured
// since it has read a prompt. Those that are shown follow.
async function measure_costs() {
  try {
    const props = await server.get("props");
    view.costs = {bytes: props.kv_bytes_per_token, ms: props.prefill && props.prefill.ms_per_token};
    for (const e of view.body.querySelectorAll("[data-tokens]")) e.textContent = estimate(Number(e.dataset.tokens));
  } catch (e) {
    notice(e.message);
  }
}

// -- adding ---------------------------------------------------------------------------------------

// entries_of -- what was dropped: to be asked during the event.
export function entries_of(transfer) {
  return [...transfer.items].map((i) => i.webkitGetAsEntry && i.webkitGetAsEntry()).filter(Boolean);
}

// take -- adds files and what is in folders. Pre: this view is shown.
export async function take(entries) {
  const found = [], refused = [];
  for (const entry of entries) await walk(entry, entry.name, found, refused);
  add(found, refused);
}

// walk -- refused: says of what cannot be read why.
async function walk(entry, path, found, refused) {
  try {
    if (entry.isFile) {
      found.push({file: await new Promise((good, bad) => entry.file(good, bad)), path});
      return;
    }
    const reader = entry.createReader();
    for (let some; (some = await new Promise((good, bad) => reader.readEntries(good, bad))).length; )
      for (const e of some) await walk(e, path + "/" + e.name, found, refused);
  } catch (e) {
    refused.push(text("refused", path, e.message));
  }
}

// id_of -- the path, which cannot have slashes in an id. One that is too long: a hash of all of it, and its end.
const most_bytes = 256, size = (s) => new TextEncoder().encode(s).length;
function id_of(path) {
  const id = path.replaceAll("/", " : ");
  if (size(id) <= most_bytes) return id;
  let hash = 2166136261; // FNV-1a
  for (const b of new TextEncoder().encode(id)) hash = Math.imul(hash ^ b, 16777619) >>> 0;
  const begin = hash.toString(16).padStart(8, "0") + " ... ", end = [...id];
  while (size(begin + end.join("")) > most_bytes) end.shift();
  return begin + end.join("");
}

// add -- refused: what is known not to be added.
async function add(list, refused = []) {
  let n_added = 0;
  const bar = h("progress", {max: list.length, value: 0, "aria-label": text("documents")}), words = h("p");
  state.replaceChildren(bar, words);
  for (const [i, {file, path}] of list.entries()) {
    words.textContent = text("uploading", i + 1, list.length, path);
    const form = new FormData();
    form.append("id", id_of(path));
    form.append("replace", "true");
    form.append("file", file, file.name);
    await server.send("POST", "v1/documents", form)
      .then(() => n_added++, (e) => refused.push(text("refused", path, e.message)));
    bar.value = i + 1;
  }
  const ask_now = n_added > 0 && h("a.button", {href: "#ask"}, text("ask_now"));
  state.replaceChildren(h("p", {}, text("uploaded", n_added, refused.length), " ", ask_now || ""),
                        refused.length ? h("ul", {}, refused.slice(0, 20).map((r) => h("li.bad", {}, r))) : "");
  if (state.isConnected) load(true);
}

// -- the list -------------------------------------------------------------------------------------

let newest = 0; // of the loads: an answer to an older one is not shown
async function load(fresh) {
  const mine = ++newest;
  if (fresh) view.after = null;
  try {
    const {data, more} = query ? await search() : await next_page();
    if (mine !== newest) return;
    if (fresh) view.body.replaceChildren();
    view.body.append(...data.map(row));
    view.more.hidden = !more;
    if (!view.body.children.length)
      view.body.append(h("tr", {}, h("td", {colspan: 8}, text(query ? "no_match" : "empty"))));
  } catch (e) {
    notice(e.message);
  }
}

async function next_page() {
  const after = view.after ? "&after=" + encodeURIComponent(view.after) : "";
  const l = await server.get(`v1/documents?limit=${page_size}${after}`);
  if (l.data.length) view.after = l.data.at(-1).id;
  return {data: l.data, more: l.has_more};
}

// search -- by what the documents say, and by their ids.
async function search() {
  const found = await server.post("v1/search", {query, top_k: 50});
  const ids = new Set(found.data.map((f) => f.document));
  ids.add(query);
  const all = await Promise.all([...ids].map((id) => server.get(server.document_path(id)).catch(() => null)));
  return {data: all.filter(Boolean), more: false};
}

const number = (name, value) => h("td.number", {"data-label": text(name)}, value);

function row(d) {
  const e = h("tr");
  const redraw = async () => e.replaceWith(row(await server.get(server.document_path(d.id))));
  const failed = (x) => (notice(x.message), x.status === 404 && e.remove()); // deleted elsewhere
  const change = (body) => server.send("PATCH", server.document_path(d.id), body).then(redraw).catch(failed);
  e.append(h("td", {}, h("strong", {}, d.title || d.id), d.title && d.title !== d.id ? h("div.quiet", {}, d.id) : ""),
    number("passages", whole(d.chunks)), number("tokens", whole(d.tokens)), number("size", bytes(d.bytes)),
    h("td", {}, ahead(d, redraw, failed)), h("td", {}, expiry(d, change)),
    h("td", {}, h("button.small", {type: "button", "aria-pressed": String(d.pinned), onclick: () => change({pinned: !d.pinned})},
      text(d.pinned ? "unpin" : "pin"))),
    h("td", {}, h("button.small", {type: "button", "aria-label": text("remove") + " " + d.id, onclick: () => remove(d, e)}, text("remove"))));
  return e;
}

function expiry(d, change) {
  const choices = [[0, text("never")], [3600, text("in_hour")], [86400, text("in_day")], [604800, text("in_week")]];
  return h("select", {"aria-label": `${text("expire")}: ${d.id}`, onchange: (e) => change({ttl_seconds: Number(e.target.value)})},
    d.expires && h("option", {value: -1, selected: true, disabled: true}, new Date(1000 * d.expires).toLocaleString()),
    choices.map(([s, words]) => h("option", {value: s, selected: !d.expires && s === 0}, words)));
}

// -- computing ahead ------------------------------------------------------------------------------

function estimate(tokens) {
  const c = view.costs;
  if (!c) return "";
  return text("estimate", bytes(c.bytes * tokens), c.ms ? milliseconds(c.ms * tokens) : text("unknown_time"));
}

function ahead(d, redraw, failed) {
  const place = h("div"), p = d.precompute;
  if (p && ["queued", "running"].includes(p.status)) follow(d, place, redraw);
  else if (p && p.status === "done") place.append(text("computed_ahead"));
  else
    place.append(h("button.small", {type: "button", onclick: () => start(d, place, redraw).catch(failed)}, text("precompute")),
                 p && p.error ? h("div.bad", {}, p.error) : h("div.quiet", {"data-tokens": d.tokens}, estimate(d.tokens)));
  return place;
}

async function start(d, place, redraw) {
  await server.post(server.document_path(d.id) + "/precompute", {});
  follow(d, place, redraw);
}

async function follow(d, place, redraw) {
  const bar = h("progress", {max: 1, value: 0, "aria-label": text("precompute")}), words = h("span.quiet");
  place.replaceChildren(bar, words);
  for (;;) {
    const p = await server.get(server.document_path(d.id) + "/precompute").catch(() => null);
    if (!p || !place.isConnected || !["queued", "running"].includes(p.status)) break;
    bar.max = Math.max(1, p.total);
    bar.value = p.done;
    words.textContent = text("computing", p.done, p.total);
    await new Promise((r) => setTimeout(r, 400));
  }
  if (!place.isConnected) return;
  redraw().catch(() => {});
  measure_costs();
}

// -- deleting -------------------------------------------------------------------------------------

function confirmed(question) {
  return new Promise((answer) => {
    const dialog = h("dialog", {"aria-label": text("remove"), onclose: () => (answer(dialog.returnValue === "yes"), dialog.remove())},
      h("p", {}, question), h("form.row", {method: "dialog"}, h("button.main", {value: "yes"}, text("remove")),
        h("button", {value: "no", autofocus: true}, text("cancel"))));
    document.body.append(dialog);
    dialog.showModal();
  });
}

// remove -- and asks the server for the document afterwards: what it says is the proof.
async function remove(d, e) {
  if (!(await confirmed(text("really", d.title || d.id)))) return;
  try {
    const r = await server.send("DELETE", server.document_path(d.id)).then((x) => x.json());
    const after = await server.get(server.document_path(d.id)).then(() => 200, (x) => x.status);
    if (r.erased.pending) notice(text("pending", d.id, r.erased.pending));
    else if (after === 404) notice(text("gone", d.id, r.erased.device, r.erased.store));
    else notice(text("still_there", d.id, after));
    e.remove();
  } catch (x) {
    notice(text("still_there", d.id, x.message));
    if (x.status === 404) e.remove(); // deleted elsewhere
  }
}
