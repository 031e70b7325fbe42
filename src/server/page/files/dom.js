// dom.js -- elements without markup: text is always text, so nothing that the model or a file says can be code.

// element -- h("p.quiet", {id: "x", onclick: f}, "text", child): "on..." are listeners, others are attributes.
export function h(name, attributes, ...children) {
  const [tag, ...classes] = name.split(".");
  const e = document.createElement(tag);
  if (classes.length) e.className = classes.join(" ");
  set(e, attributes);
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}

export function svg(tag, attributes, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(e, attributes);
  e.append(...children);
  return e;
}

function set(e, attributes) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (value === true) e.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) e.setAttribute(key, value);
  }
}

let clearing;
export function notice(message) {
  const place = document.getElementById("notice");
  place.textContent = message;
  clearTimeout(clearing);
  clearing = setTimeout(() => (place.textContent = ""), 6000);
}

export function bytes(n) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) n /= 1000, i++;
  return (i && n < 10 ? n.toFixed(1) : Math.round(n)) + " " + units[i];
}

export const whole = (n) => Math.round(n).toLocaleString("en");

export function milliseconds(ms) {
  return ms >= 10000 ? (ms / 1000).toFixed(0) + " s" : ms >= 1000 ? (ms / 1000).toFixed(2) + " s" : ms.toFixed(0) + " ms";
}

export function download(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], {type}));
  h("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
