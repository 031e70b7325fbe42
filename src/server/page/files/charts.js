// charts.js -- values over time as SVG: a line, or areas on top of each other. Points may have gaps (null).
import {h, svg} from "./dom.js";
import {text} from "./texts.js";

const width = 300, height = 100;

// path -- of the runs between gaps; y grows upwards from 0 to `top`. With `floor`, the area between it and the points.
function path(points, floor, top) {
  const x = (i) => ((i * width) / Math.max(1, points.length - 1)).toFixed(1);
  const y = (v) => (height - (v / top) * (height - 4)).toFixed(1);
  let d = "", run = [];
  const end = () => {
    if (run.length) d += "M" + run.map((i) => `${x(i)} ${y(points[i])}`).join(" L");
    if (run.length && floor) d += " L" + run.reverse().map((i) => `${x(i)} ${y(floor[i])}`).join(" L") + " Z";
    run = [];
  };
  points.forEach((v, i) => (v === null ? end() : run.push(i)));
  end();
  return d;
}

// chart -- {title, show(value), top, parts}: parts are [{class, name}] of areas, the first at the bottom; none: a line.
// update(points, note) redraws: a point is a value, or a list of one for each part. What is shown is their sum.
export function chart({title, show, top, parts}) {
  const shapes = (parts || [{class: "area"}, {class: "line"}]).map((p) => svg("path", {class: p.class}));
  const now = h("span.now"), most = h("span.quiet"), span = h("span.quiet.spread");
  const keys = h("ul.key", {}, (parts || []).map((p) => h("li", {}, h("i." + p.class), p.name)));
  const picture = svg("svg", {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true"},
    svg("path", {class: "axis", d: `M0 ${height} H${width} M0 4 H${width}`}), ...shapes);
  const element = h("section.sheet.chart", {"aria-label": title}, h("h2", {}, title), h("div.row", {}, now, most, span),
    picture, parts ? keys : "");
  const sum = (p, n) => (p === null ? null : Array.isArray(p) ? p.slice(0, n).reduce((a, b) => a + b, 0) : p);
  const update = (points, note) => {
    const all = points.map((p) => sum(p)), known = all.filter((p) => p !== null), last = known.at(-1);
    const highest = top || Math.max(...known, 1e-9);
    now.textContent = last === undefined ? "–" : show(last);
    most.textContent = !top && highest > 1e-9 ? text("peak", show(highest)) : "";
    span.textContent = note;
    shapes.forEach((s, i) => s.setAttribute("d", parts
      ? path(points.map((p) => sum(p, i + 1)), points.map((p) => sum(p, i)), highest)
      : path(all, i === 0 ? all.map(() => 0) : null, highest)));
  };
  return {element, update};
}
