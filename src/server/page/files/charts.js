// charts.js -- a line over time as SVG, from points that may have gaps (null).
import {h, svg} from "./dom.js";

const width = 300, height = 100;

// path -- of the runs between gaps; y grows upwards from 0 to `top`.
function path(points, top, closed) {
  let d = "", open = false, last = 0;
  const x = (i) => ((i * width) / Math.max(1, points.length - 1)).toFixed(1), y = (v) => (height - (v / top) * (height - 4)).toFixed(1);
  const close = () => (closed && open ? ` L${x(last)} ${height} Z` : "");
  points.forEach((v, i) => {
    if (v === null) d += close(), (open = false);
    else d += open ? ` L${x(i)} ${y(v)}` : (closed ? `M${x(i)} ${height} L` : "M") + `${x(i)} ${y(v)}`, (open = true), (last = i);
  });
  return d + close();
}

// chart -- {title, note, show(value)}; update(points) redraws.
export function chart({title, note, show, top}) {
  const area = svg("path", {class: "area"}), line = svg("path", {class: "line"}), now = h("span.now"), most = h("span.quiet");
  const picture = svg("svg", {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true"}, area, line);
  const element = h("section.sheet.chart", {"aria-label": title}, h("h2", {}, title), h("div.row", {}, now, most), picture, h("p.quiet", {}, note));
  const update = (points) => {
    const known = points.filter((p) => p !== null), last = known.at(-1), highest = top || Math.max(...known, 1e-9);
    now.textContent = last === undefined ? "–" : show(last);
    most.textContent = known.length && !top ? "≤ " + show(highest) : "";
    area.setAttribute("d", path(points, highest, true));
    line.setAttribute("d", path(points, highest, false));
  };
  return {element, update};
}
