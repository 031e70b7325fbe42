// conversations.js -- conversations in the browser's storage, one entry each, so that two tabs do not overwrite each
// other's. {id, title, changed, messages: [{role, content, finish, result, sources}]}
import {notice} from "./dom.js";

const prefix = "spolia.conversation.";

export function list() {
  const all = [];
  for (let i = 0; i < localStorage.length; i++) {
    const key = localStorage.key(i);
    if (key.startsWith(prefix)) all.push(load(key.slice(prefix.length)));
  }
  return all.filter(Boolean).sort((a, b) => b.changed - a.changed);
}

export function load(id) {
  try {
    const c = JSON.parse(localStorage.getItem(prefix + id));
    return c && Array.isArray(c.messages) ? c : null;
  } catch {
    return null; // another program's, or damaged
  }
}

export function create() {
  return {id: crypto.randomUUID ? crypto.randomUUID() : String(Date.now()) + Math.random(), title: "", changed: Date.now(), messages: []};
}

// save -- the passages' texts are the largest part: without room, those of older answers go first.
export function save(c) {
  c.changed = Date.now();
  for (let keep = c.messages.length; ; keep = Math.floor(keep / 2)) {
    const messages = c.messages.map((m, i) => (i < c.messages.length - keep ? {...m, sources: undefined, result: undefined} : m));
    try {
      localStorage.setItem(prefix + c.id, JSON.stringify({...c, messages}));
      return;
    } catch (e) {
      if (keep === 0) return notice(e.message);
    }
  }
}

// merge -- saves the end of an answer, unless its conversation has been deleted or another tab has changed the question. What
// another tab has added meanwhile stays.
export function merge(c, message) {
  const now = load(c.id), i = c.messages.indexOf(message);
  if (!now || (now.changed !== c.changed && now.messages[i - 1]?.content !== c.messages[i - 1].content)) return;
  if (now.changed !== c.changed) c.messages = [...now.messages.slice(0, i), message, ...now.messages.slice(i + 1)];
  save(c);
}

export function remove(id) {
  localStorage.removeItem(prefix + id);
}

export function on_change(f) {
  addEventListener("storage", (e) => {
    if (e.key === null || e.key.startsWith(prefix)) f(e.key && e.key.slice(prefix.length));
  });
}

export function as_markdown(c) {
  return c.messages.map((m) => (m.role === "user" ? "## " + m.content.replace(/\n/g, "\n## ") : m.content) + "\n").join("\n");
}
