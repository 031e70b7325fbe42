// watch.js -- what the server does, from /metrics alone.
import {key, stack} from "./account.js";
import {chart} from "./charts.js";
import {h, milliseconds, whole} from "./dom.js";
import * as server from "./server.js";
import {text} from "./texts.js";

const every_ms = 2000, kept = 150;
const samples = []; // the counters, oldest first; null: a gap, while the server did not answer or another view was shown
let view = null, timer = null;

const source = (m, s) => m[`prompt_tokens_by_source_total{source="${s}"}`] || 0;
const reused = (m) => source(m, "memory") + source(m, "host") + source(m, "disk") + source(m, "remote");
const prompt = (m) => reused(m) + source(m, "recomputed") + source(m, "computed");

// rate -- of a counter between two samples; null: nothing to divide by.
function ratio(b, a, above, below) {
  const n = below(b) - below(a);
  return n > 0 ? (above(b) - above(a)) / n : null;
}

const charts = [
  {title: "tokens_chart", show: (v) => v.toFixed(1), of: (b, a) => (b.generation_tokens_total - a.generation_tokens_total) / ((b.at - a.at) / 1000)},
  {title: "ttft_chart", show: milliseconds, of: (b, a) => ratio(b, a, (m) => 1000 * m.time_to_first_token_seconds_sum, (m) => m.time_to_first_token_seconds_count)},
  {title: "hit_rate", top: 1, show: (v) => (100 * v).toFixed(0) + " %", of: (b, a) => ratio(b, a, reused, prompt)},
  {title: "requests", show: (v) => whole(v), of: (b) => b.num_requests_running + b.num_requests_waiting},
  {title: "kv_chart", top: 1, show: (v) => (100 * v).toFixed(1) + " %", of: (b) => b.kv_cache_usage_perc},
];

export function show(main) {
  view = {charts: charts.map((c) => chart({...c, title: text(c.title), note: text("last_minutes")})), state: h("p.bad", {role: "status"}),
          now: h("p"), tiers: h("div"), guard: h("div")};
  const sheet = (name, note, e) => h("section.sheet", {"aria-label": text(name)}, h("h2", {}, text(name)), e, note && h("p.quiet", {}, text(note)));
  main.replaceChildren(h("div.watch", {tabindex: 0}, view.state, view.now, sheet("by_tier", "since_start", view.tiers),
    h("div.charts", {}, view.charts.map((c) => c.element), sheet("guard", null, view.guard))));
  if (samples.length) samples.push(null);
  draw();
  sample();
}

async function sample() {
  clearTimeout(timer);
  if (!view.state.isConnected) return; // another view
  try {
    if (!document.hidden) take(await server.metrics());
    view.state.textContent = "";
  } catch (e) {
    samples.push(null); // a gap
    view.state.textContent = e.status ? e.message : text("paused");
  }
  if (samples.length > kept + 1) samples.shift();
  draw();
  timer = setTimeout(sample, every_ms);
}

function take(m) {
  samples.push({...m, at: performance.now()});
}

function draw() {
  charts.forEach((c, i) => {
    const points = samples.slice(1).map((b, j) => (b && samples[j] ? c.of(b, samples[j]) : null));
    view.charts[i].update([...Array(Math.max(0, kept - points.length)).fill(null), ...points]);
  });
  const m = samples.findLast(Boolean);
  if (!m) return;
  view.now.textContent = `${whole(m.num_requests_running)} ${text("running")}, ${whole(m.num_requests_waiting)} ${text("waiting")}, ` +
    `${text("evictions")}: ${whole(m.evictions_total)}`;
  draw_tiers(m);
  draw_guard(m);
}

function draw_tiers(m) {
  const all = prompt(m), names = ["memory", "host", "disk", "remote", "recomputed", "computed"];
  if (!all) return view.tiers.replaceChildren(h("p.quiet", {}, text("no_data")));
  const row = (s) => [h("dt", {}, text(s)), h("dd", {}, `${whole(source(m, s))} (${((100 * source(m, s)) / all).toFixed(1)} %)`)];
  const share = Object.fromEntries(names.map((s) => [s, source(m, s)]));
  view.tiers.replaceChildren(h("div.bar", {}, stack(share, all, all)), key(), h("dl.figures", {}, names.flatMap(row)));
}

function draw_guard(m) {
  const rows = Object.keys(m).filter((k) => k.startsWith("guard_checked_total{")).map((k) =>
    h("li", {}, text("guard_row", /policy="([^"]*)"/.exec(k)[1], whole(m[k]), whole(m[k.replace("checked", "agreed")]))));
  view.guard.replaceChildren(rows.length ? h("ul", {}, rows) : h("p.quiet", {}, text("guard_none")));
}
