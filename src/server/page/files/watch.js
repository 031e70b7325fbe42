// watch.js -- what the server does: from /metrics and /v1/requests every two seconds, and the tree of copies on demand.
import {key, sources, stack} from "./account.js";
import {chart} from "./charts.js";
import * as copies from "./copies.js";
import {h, milliseconds, whole} from "./dom.js";
import * as server from "./server.js";
import {text} from "./texts.js";

const every_ms = 2000, least = 30, kept = 150; // samples: a chart shows a minute at least, five at most
const samples = []; // the counters, oldest first; null: a gap, while the server did not answer or another view was shown
let view = null, timer = null;

const source = (m, s) => m[`prompt_tokens_by_source_total{source="${s}"}`] || 0;
const tiers = sources.slice(0, 4);
const prompt = (m) => sources.reduce((n, s) => n + source(m, s), 0);

// ratio -- of what two counters gained between two samples; null: nothing to divide by.
function ratio(b, a, above, below) {
  const n = below(b) - below(a);
  return n > 0 ? (above(b) - above(a)) / n : null;
}

const by_tier = (b, a) => {
  const shares = tiers.map((s) => ratio(b, a, (m) => source(m, s), prompt));
  return shares[0] === null ? null : shares;
};

function first_token(b, a) {
  return ratio(b, a, (m) => 1000 * m.time_to_first_token_seconds_sum, (m) => m.time_to_first_token_seconds_count);
}

// holds: without an answer between two samples the value before is shown.
const charts = [
  {title: "tokens_chart", show: (v) => v.toFixed(1), of: (b, a) => Math.max(0, b.generated - a.generated) / ((b.at - a.at) / 1000)},
  {title: "ttft_chart", show: milliseconds, holds: true, of: first_token},
  {title: "hit_rate", top: 1, parts: tiers, show: (v) => (100 * v).toFixed(0) + " %", holds: true, of: by_tier},
  {title: "queue_chart", parts: ["running", "waiting"], show: whole, of: (b) => [b.num_requests_running, b.num_requests_waiting]},
  {title: "kv_chart", top: 1, show: (v) => (100 * v).toFixed(1) + " %", of: (b) => b.kv_cache_usage_perc},
];

function sheet(name, ...inside) {
  return h("section.sheet", {"aria-label": text(name)}, h("h2", {}, text(name)), inside);
}

export function show(main) {
  const parts = (c) => c.parts && c.parts.map((p) => ({class: p, name: text(p)}));
  view = {charts: charts.map((c) => chart({...c, title: text(c.title), parts: parts(c)})),
          state: h("p.bad", {role: "status"}), requests: h("div"), tiers: h("div"), guard: h("div"), copies: h("div"), evictions: h("p.quiet")};
  main.replaceChildren(h("div.watch", {tabindex: 0}, view.state, h("div.charts", {}, view.charts.map((c) => c.element),
    sheet("guard", view.guard)), sheet("requests", view.requests),
    sheet("by_tier", view.tiers, h("p.quiet", {}, text("since_start"))),
    sheet("copies", h("p.quiet", {}, text("copies_note")), h("button.small", {type: "button", onclick: () => copies.show(view.copies)},
      text("refresh")), view.copies, view.evictions)));
  if (samples.length) samples.push(null);
  draw();
  sample();
  copies.show(view.copies);
}

async function sample() {
  clearTimeout(timer);
  if (!view.state.isConnected) return; // another view
  try {
    if (!document.hidden) {
      const [m, requests] = await Promise.all([server.metrics(), server.get("v1/requests")]);
      // the server counts the tokens of an answer when it ends
      const generated = requests.data.reduce((n, r) => n + r.generated, m.generation_tokens_total);
      samples.push({...m, generated, at: performance.now()});
      draw_requests(requests.data);
    }
    view.state.textContent = "";
  } catch (e) {
    samples.push(null); // a gap
    view.state.textContent = e.status ? e.message : text("paused");
  }
  if (samples.length > kept + 1) samples.shift();
  draw();
  timer = setTimeout(sample, every_ms);
}

// points_of -- what a chart shows between each sample and the one before it.
function points_of(c) {
  let last = null;
  return samples.slice(1).map((b, j) => {
    if (!b || !samples[j]) return (last = null);
    return (last = c.of(b, samples[j]) ?? (c.holds ? last : null));
  });
}

const span = (s) => (s < 120 ? text("last_seconds", s.toFixed(0)) : text("last_minutes", (s / 60).toFixed(0)));

function draw() {
  charts.forEach((c, i) => {
    const points = points_of(c);
    const shown = [...Array(Math.max(0, least - points.length)).fill(null), ...points];
    view.charts[i].update(shown, span((shown.length * every_ms) / 1000));
  });
  const m = samples.findLast(Boolean);
  if (!m) return;
  view.evictions.textContent = text("evictions", whole(m.evictions_total));
  draw_tiers(m);
  draw_guard(m);
}

// draw_requests -- those that wait or run, of this key.
function draw_requests(list) {
  const state = (r) => r.state === "prompt" ? [h("progress", {max: Math.max(1, r.to_compute), value: r.computed, "aria-label": text("phase_prompt")}),
    h("span.quiet", {}, text("phase_prompt_of", whole(r.computed), whole(r.to_compute)))] : text("phase_" + r.state);
  const row = (r) => h("tr", {}, h("td", {}, h("span", {title: r.id}, r.path)), h("td", {}, state(r)), h("td.number", {}, whole(r.prompt_tokens)),
    h("td.number", {}, whole(r.generated)), h("td.number", {}, milliseconds(1000 * r.seconds)));
  const columns = [["request_path"], ["request_state"], ["request_prompt", 1], ["request_answer", 1], ["request_time", 1]];
  view.requests.replaceChildren(list.length ? h("table.all", {}, h("thead", {}, h("tr", {}, columns.map(([c, n]) =>
    h("th", {scope: "col", class: n ? "number" : null}, text(c))))), h("tbody", {}, list.map(row))) : h("p.quiet", {}, text("no_requests")));
}

function draw_tiers(m) {
  const all = prompt(m);
  if (!all) return view.tiers.replaceChildren(h("p.quiet", {}, text("no_data")));
  const row = (s) => [h("dt", {}, text(s)), h("dd", {}, `${whole(source(m, s))} (${((100 * source(m, s)) / all).toFixed(1)} %)`)];
  view.tiers.replaceChildren(h("div.bar", {}, stack(Object.fromEntries(sources.map((s) => [s, source(m, s)])), all, all)),
    key((s) => source(m, s)), h("dl.figures", {}, sources.filter((s) => source(m, s)).flatMap(row)));
}

// draw_guard -- what its checks found, by policy.
function draw_guard(m) {
  const policies = Object.keys(m).map((k) => /^guard_checked_total\{policy="([^"]*)"\}$/.exec(k)).filter(Boolean).map((k) => k[1]);
  const of = (name, p) => m[`${name}{policy="${p}"}`] || 0;
  const row = (name, value) => [h("dt", {}, text(name)), h("dd", {}, value)];
  const found = (p) => [h("h3", {}, p), h("dl.figures", {}, row("guard_checked", whole(of("guard_checked_total", p))),
    row("guard_same", text("of", whole(of("guard_agreed_total", p)), whole(of("guard_checked_total", p)))),
    row("guard_kl", of("guard_mean_kl_nats", p).toFixed(4))), of("guard_fallen_back", p) ? h("p.bad", {}, text("guard_fell")) : ""];
  view.guard.replaceChildren(...(policies.length ? policies.flatMap(found) : [h("p.quiet", {}, text("guard_none"))]));
}
