// main.js -- the frame: which view is shown, the model's name, and the API key.
import * as ask from "./ask.js";
import * as documents from "./documents.js";
import {h, notice} from "./dom.js";
import * as server from "./server.js";
import {text} from "./texts.js";
import * as watch from "./watch.js";

const views = {ask, documents, watch};
const main = document.getElementById("main");

function show() {
  const name = location.hash.slice(1) in views ? location.hash.slice(1) : "ask";
  document.getElementById("views").replaceChildren(...Object.keys(views).map((v) =>
    h("a", {href: "#" + v, "aria-current": v === name ? "page" : null}, text(v))));
  document.title = "Spolia: " + text(name);
  views[name].show(main);
}

function ask_for_key(wrong) {
  return new Promise((answer) => {
    const input = h("input", {type: "password", id: "key", autocomplete: "off", required: true});
    const dialog = h("dialog", {"aria-label": text("key_label"), onclose: () => (answer(input.value.trim()), dialog.remove())},
      h("p", {}, text(wrong ? "key_wrong" : "key_needed")), h("form", {method: "dialog"}, h("label", {for: "key"}, text("key_label")), input,
        h("p.quiet", {}, text("key_kept")), h("button.main", {}, text("key_use"))));
    document.body.append(dialog);
    dialog.showModal();
  });
}

async function name_model() {
  try {
    const [model] = (await server.get("v1/models")).data;
    document.getElementById("model").textContent = model.id;
  } catch (e) {
    notice(e.message);
  }
}

const has_files = (e) => e.dataTransfer && e.dataTransfer.types.includes("Files");
const drag = (on) => document.body.classList.toggle("dragging", on);

// take_drop -- files that are dropped anywhere become documents.
function take_drop(e) {
  drag(false);
  if (!has_files(e)) return;
  e.preventDefault();
  const entries = documents.entries_of(e.dataTransfer);
  if (location.hash === "#documents") return documents.take(entries);
  addEventListener("hashchange", () => documents.take(entries), {once: true});
  location.hash = "#documents";
}

document.body.dataset.drop = text("drop_here");
addEventListener("dragover", (e) => (e.preventDefault(), drag(has_files(e))));
addEventListener("dragleave", (e) => e.relatedTarget || drag(false));
addEventListener("drop", take_drop);
server.on_key_needed(ask_for_key);
addEventListener("hashchange", show);
show();
name_model();
