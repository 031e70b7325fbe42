// graph.js -- the paths of a graph that a question used, as a tree with what was reused of each node; a click on a node
// shows the paths that begin there.
import {h, notice} from "./dom.js";
import * as server from "./server.js";
import {text} from "./texts.js";

// branch -- node i and what is below it.
function branch(nodes, i, walk) {
  const n = nodes[i], below = nodes.map((c, k) => (c.parent === i ? k : -1)).filter((k) => k >= 0);
  const words = n.text.replace(/^[\s\-<>→←]+|[\s\-<>→←.;]+$/g, "");
  const state = n.tokens === undefined ? "" : n.reused ? text("memory") : text("computed");
  return h("li", {}, h("button.node." + (n.reused ? "known" : "fresh"), {type: "button", onclick: () => walk(words)}, n.text.trim()),
    state && h("span.quiet", {}, " " + state), below.length ? h("ul", {}, below.map((k) => branch(nodes, k, walk))) : "");
}

const tree = (nodes, walk) => h("ul.tree", {}, nodes.map((n, i) => (n.parent < 0 ? branch(nodes, i, walk) : null)));

// show -- into `place`: the nodes of the question, with the account's segments of trees in the same order.
export async function show(place, question, account) {
  const known = account.segments.filter((s) => s.kind === "node");
  const trail = [];
  const draw = (nodes, title) => place.replaceChildren(h("h3", {}, title),
    trail.length ? h("button.small", {type: "button", onclick: back}, text("back")) : "",
    nodes.length ? tree(nodes, walk) : h("p.quiet", {}, text("no_paths")));
  const nodes_of = async (query) => (await server.post("v1/graph", {query})).nodes;
  async function walk(name) {
    try {
      const nodes = await nodes_of(name);
      trail.push([...place.children]);
      draw(nodes, name);
    } catch (e) {
      notice(e.message);
    }
  }
  function back() {
    place.replaceChildren(...trail.pop());
  }
  try {
    let i = 0;
    draw((await nodes_of(question)).map((n) => (n.text.trim() && known.length ? {...n, ...known[i++], text: n.text} : n)), text("paths"));
  } catch (e) {
    notice(e.message);
  }
}
