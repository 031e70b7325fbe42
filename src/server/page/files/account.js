// account.js -- what an answer reused: a bar for each document, as long as its tokens, in the colours of their sources.
import {h, milliseconds, svg, whole} from "./dom.js";
import {text} from "./texts.js";

export const sources = ["memory", "host", "disk", "remote", "recomputed", "computed"];

// parts -- tokens of a document or segment by source.
function parts(d) {
  const from = sources.includes(d.from) ? d.from : "memory";
  return {[from]: d.reused, recomputed: d.recomputed, computed: d.tokens - d.reused - d.recomputed};
}

// stack -- shares: tokens by source; the bar is as wide as `tokens` of `longest`.
export function stack(share, tokens, longest) {
  const width = (100 * tokens) / longest;
  const picture = svg("svg", {viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img",
                              "aria-label": sources.filter((s) => share[s]).map((s) => `${text(s)} ${share[s]}`).join(", ")});
  let x = 0;
  for (const s of sources) {
    const w = ((share[s] || 0) / Math.max(1, tokens)) * width;
    if (w > 0) picture.append(svg("rect", {x, y: 0, width: w, height: 10, class: s}));
    x += w;
  }
  return picture;
}

// versus -- the time to the first token, and what reading everything would have taken, as bars of one scale.
function versus(now, cold) {
  const longest = Math.max(now, cold);
  const bar = (name, ms, words, colour) => [h("dt", {}, text(name)), h("dd", {}, words),
    svg("svg", {viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true"},
      svg("rect", {x: 0, y: 0, width: (100 * ms) / longest, height: 10, class: colour}))];
  const gain = cold / now;
  return [gain >= 1.1 ? h("p.gain", {}, h("strong", {}, text("gain", gain.toFixed(1))), " ", text("faster")) : "",
    h("dl.versus", {}, bar("ttft", now, milliseconds(now), "memory"), bar("ttft_cold", cold, text("about", milliseconds(cold)), "computed"))];
}

// key -- what the colours mean: those that every server has, and those in use.
export function key(used) {
  const shown = sources.filter((s) => ["memory", "recomputed", "computed"].includes(s) || used(s));
  return h("ul.key", {}, shown.map((s) => h("li", {}, h("i." + s), text(s))));
}

const segment_names = {system: "system", text: "text", question: "question_part"};

// joined -- earlier questions and answers, which follow each other, as one.
function joined(segments) {
  const said = (s) => s && ["text", "question"].includes(s.kind), last = segments.at(-1), list = [];
  for (const s of segments) {
    const before = list.at(-1);
    if (s === last || !said(s)) list.push(s);
    else if (said(before)) list[list.length - 1] = {...before, tokens: before.tokens + s.tokens, reused: before.reused + s.reused,
      recomputed: before.recomputed + s.recomputed, from: before.from || s.from};
    else list.push({...s, kind: "text"});
  }
  return list;
}

// named -- documents and the other segments of the prompt, in its order.
function named(account) {
  let i = 0;
  const nodes = account.segments.filter((s) => s.kind === "node"), sum = (of) => nodes.reduce((n, s) => n + s[of], 0);
  const all = account.segments.filter((s) => s.kind !== "node" || s === nodes[0]);
  return joined(all).map((s) => {
    if (s.kind === "node")
      return {...s, name: text("use_graph"), tokens: sum("tokens"), reused: sum("reused"), recomputed: sum("recomputed"), missed: "",
              from: (nodes.find((n) => n.from) || s).from};
    if (s.kind !== "chunk") return {...s, name: text(segment_names[s.kind] || "text")};
    const d = account.documents[i++] || s;
    return {...s, ...d, name: d.title || d.id || "", document: true};
  });
}

// show -- on_read(i) opens the text of document i. quality: that was asked for.
export function show(result, quality, on_read) {
  const a = result.spolia, t = result.timings;
  if (!a || !t) return h("p.quiet", {}, text("account_empty"));
  const cold = a.reused_tokens + a.recomputed_tokens > 0 ? t.cold_ms : null; // the server's estimate; null: it was cold
  const all = named(a), longest = Math.max(1, ...all.map((s) => s.tokens));
  let n = 0;
  const rows = all.map((s) => {
    const at = s.document ? n++ : -1;
    const inside = [h("span.name", {}, h("span", {}, s.name), h("span.quiet", {}, text("reused_of", whole(s.reused), whole(s.tokens)))),
                    stack(parts(s), s.tokens, longest),
                    s.missed && h("span.quiet", {}, text("why", s.missed))];
    return h("div.bar", {}, s.document ? h("button", {type: "button", onclick: () => on_read(at),
      "aria-label": text("read_passage", s.name)}, inside) : h("div", {}, inside));
  });
  const tokens = a.reused_tokens + a.computed_tokens;
  const now = t.ttft_ms - t.queue_ms;
  const figures = [
    !cold && ["ttft", milliseconds(now)],
    t.queue_ms >= 10 && ["queued", milliseconds(t.queue_ms)],
    !a.reused_tokens && ["reused", text("of", 0, whole(tokens))],
    t.predicted_ms > 0 && ["rate", t.predicted_per_second.toFixed(1)],
    ["policy", a.policy],
  ].filter(Boolean);
  return h("div", {}, cold ? versus(now, cold) : "",
    h("dl.figures", {}, figures.flatMap(([name, value]) => [h("dt", {}, text(name)), h("dd", {}, value)])),
    a.reused_tokens > 0 && h("p", {}, text("saved", quality ? text(quality) : a.policy, whole(a.reused_tokens), whole(tokens),
      ((100 * a.reused_tokens) / tokens).toFixed(0)), a.recomputed_tokens > 0 ? " " + text("cost", whole(a.recomputed_tokens)) : ""),
    key((s) => all.some((d) => d.from === s)), h("div.bars", {}, rows));
}
