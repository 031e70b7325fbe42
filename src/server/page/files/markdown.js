// markdown.js -- answers of a model as elements. Only what models write: headings, lists, tables, code, quotes,
// emphasis, links. It makes elements, never markup, and links lead to http, https or mailto alone; there are no images.
import {h} from "./dom.js";

// render -- a fragment for the whole text.
export function render(source) {
  const out = document.createDocumentFragment();
  blocks(source.replace(/\r\n?/g, "\n").split("\n"), out, 0);
  return out;
}

// -- blocks ---------------------------------------------------------------------------------------

const fence = /^ {0,3}(```+|~~~+)\s*([\w+-]*)\s*$/, heading = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/, quote = /^ {0,3}> ?/;
const item = /^( {0,3})([-*+]|\d{1,9}[.)])\s+(.*)$/, rule = /^ {0,3}([-*_])( *\1){2,}\s*$/;
const deepest = 8;

function blocks(lines, out, depth) {
  for (let i = 0; i < lines.length; ) {
    const line = lines[i];
    if (!line.trim()) i++;
    else if (depth >= deepest) out.append(h("p", {}, ...inline(lines.slice(i).join("\n")))), (i = lines.length);
    else if (fence.test(line)) i = code(lines, i, out);
    else if (heading.test(line)) i = title(lines, i, out);
    else if (rule.test(line)) out.append(h("hr")), i++;
    else if (quote.test(line)) i = quoted(lines, i, out, depth);
    else if (item.test(line)) i = list(lines, i, out, depth);
    else if (is_table(lines, i)) i = table(lines, i, out);
    else i = paragraph(lines, i, out);
  }
}

function code(lines, i, out) {
  const mark = fence.exec(lines[i])[1];
  let end = i + 1;
  while (end < lines.length && !lines[end].trim().startsWith(mark)) end++;
  out.append(h("pre", {tabindex: 0}, h("code", {}, lines.slice(i + 1, end).join("\n"))));
  return end + 1;
}

function title(lines, i, out) {
  const [, marks, words] = heading.exec(lines[i]);
  out.append(h("h" + Math.min(6, marks.length + 2), {}, ...inline(words)));
  return i + 1;
}

function quoted(lines, i, out, depth) {
  let end = i;
  while (end < lines.length && quote.test(lines[end])) end++;
  const inner = h("blockquote");
  blocks(lines.slice(i, end).map((l) => l.replace(quote, "")), inner, depth + 1);
  out.append(inner);
  return end;
}

function list(lines, i, out, depth) {
  const ordered = /\d/.test(item.exec(lines[i])[2]);
  const all = h(ordered ? "ol" : "ul", ordered ? {start: parseInt(item.exec(lines[i])[2], 10)} : {});
  while (i < lines.length && item.test(lines[i]) && /\d/.test(item.exec(lines[i])[2]) === ordered) {
    const [whole, , , first] = item.exec(lines[i]);
    const indent = whole.length - first.length, inner = [first];
    for (i++; i < lines.length; i++) {
      const inside = lines[i].startsWith(" ".repeat(Math.min(indent, 2))) && lines[i].trim();
      const blank = !lines[i].trim() && lines[i + 1] && lines[i + 1].startsWith("  ");
      if (!inside && !blank) break;
      inner.push(lines[i].slice(Math.min(indent, lines[i].length - lines[i].trimStart().length)));
    }
    const e = h("li");
    if (inner.length === 1) e.append(...inline(first));
    else blocks(inner, e, depth + 1);
    all.append(e);
    while (i < lines.length && !lines[i].trim() && lines[i + 1] && item.test(lines[i + 1])) i++;
  }
  out.append(all);
  return i;
}

const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((c) => c.trim());

function is_table(lines, i) {
  return lines[i].includes("|") && i + 1 < lines.length && /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)+\|?\s*$/.test(lines[i + 1]);
}

function table(lines, i, out) {
  const head = h("tr", {}, cells(lines[i]).map((c) => h("th", {}, ...inline(c)))), body = h("tbody");
  for (i += 2; i < lines.length && lines[i].includes("|"); i++)
    body.append(h("tr", {}, cells(lines[i]).map((c) => h("td", {}, ...inline(c)))));
  out.append(h("table", {}, h("thead", {}, head), body));
  return i;
}

function paragraph(lines, i, out) {
  let end = i + 1;
  while (end < lines.length && lines[end].trim() && ![fence, heading, quote, item, rule].some((r) => r.test(lines[end]))) end++;
  out.append(h("p", {}, ...inline(lines.slice(i, end).join("\n"))));
  return end;
}

// -- within a line --------------------------------------------------------------------------------

// Tried in this order at the first place where one matches; a text without marks is never looked at twice.
const marks = [
  [/`+/, null],
  [/\*\*(?=\S)([^*]{1,2000}?)\*\*/, (m) => h("strong", {}, ...inline(m[1]))],
  [/(?<![\w*])\*(?=\S)([^*\n]{1,2000}?)\*(?!\w)/, (m) => h("em", {}, ...inline(m[1]))],
  [/(?<!\w)_(?=\S)([^_\n]{1,2000}?)_(?!\w)/, (m) => h("em", {}, ...inline(m[1]))],
  [/~~([^~]{1,2000}?)~~/, (m) => h("del", {}, ...inline(m[1]))],
  [/!?\[([^\]\n]{0,500})\]\(([^()\s]{1,2000})(?:\s+"[^"]*")?\)/, (m) => link(m[2], m[1] || m[2])],
  [/https?:\/\/[^\s<>"')\]]{1,2000}/, (m) => link(m[0], m[0])],
];

function link(target, words) {
  if (!/^(https?:\/\/|mailto:)/i.test(target)) return document.createTextNode(words);
  return h("a", {href: target, target: "_blank", rel: "noopener noreferrer nofollow", title: target}, words);
}

// code_span -- from a run of backticks to the next run of the same length; null: there is none.
function code_span(source, at, ticks) {
  const end = source.indexOf(ticks, at + ticks.length);
  if (end < 0 || source[end + ticks.length] === "`") return null;
  return {node: h("code", {}, source.slice(at + ticks.length, end).trim()), end: end + ticks.length};
}

function first_mark(source) {
  let best = null;
  for (const [pattern, make] of marks) {
    const m = pattern.exec(source);
    if (m && (!best || m.index < best.m.index)) best = {m, make};
  }
  return best;
}

function inline(source) {
  const out = [];
  for (let left = 400; source; left--) {
    const found = left > 0 ? first_mark(source) : null;
    if (!found) return out.concat(source);
    const {m, make} = found;
    const span = make ? {node: make(m), end: m.index + m[0].length} : code_span(source, m.index, m[0]);
    if (m.index) out.push(source.slice(0, m.index));
    out.push(span ? span.node : m[0]);
    source = source.slice(span ? span.end : m.index + m[0].length);
  }
  return out;
}
