// The difference of two documents, line by line.

import { h } from "../dom.js";

const CONTEXT = 3;
const LARGEST = 4_000_000;

// Parts of [kind, line]: "same", "gone" and "new", by the longest common sequence of lines.
export function lines(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let [head, tail] = [0, 0];
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const [x, y] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  const same = (list) => list.map((line) => ["same", line]);
  return [...same(a.slice(0, head)), ...middle(x, y), ...same(tail ? a.slice(-tail) : [])];
}

function middle(x, y) {
  const width = y.length + 1;
  if (width * (x.length + 1) > LARGEST) return [...x.map((line) => ["gone", line]), ...y.map((line) => ["new", line])];
  const common = new Uint32Array(width * (x.length + 1));
  for (let i = x.length - 1; i >= 0; i -= 1) {
    for (let j = y.length - 1; j >= 0; j -= 1) {
      common[i * width + j] = x[i] === y[j] ? common[(i + 1) * width + j + 1] + 1 : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const found = [];
  let [i, j] = [0, 0];
  while (i < x.length || j < y.length) {
    if (i < x.length && j < y.length && x[i] === y[j]) {
      found.push(["same", x[i]]);
      i += 1;
      j += 1;
    } else if (j >= y.length || (i < x.length && common[(i + 1) * width + j] >= common[i * width + j + 1])) found.push(["gone", x[i++]]);
    else found.push(["new", y[j++]]);
  }
  return found;
}

// Changed lines with some lines around them. `words`: name of the region.
export function diff(before, after, words = "Changes of the document") {
  const found = lines(text(before), text(after));
  const near = found.map(() => false);
  found.forEach(([kind], i) => {
    if (kind !== "same") for (let k = Math.max(0, i - CONTEXT); k <= Math.min(found.length - 1, i + CONTEXT); k += 1) near[k] = true;
  });
  if (!near.includes(true)) return h("p", { class: "quiet" }, "The documents are equal.");
  const rows = [];
  found.forEach(([kind, line], i) => {
    if (near[i]) rows.push(h("span", { class: `line ${kind}` }, `${{ same: " ", gone: "-", new: "+" }[kind]} ${line}\n`));
    else if (near[i - 1]) rows.push(h("span", { class: "line quiet" }, "  …\n"));
  });
  return h("pre", { class: "diff", tabindex: "0", role: "region", "aria-label": words }, rows);
}

const text = (document) => JSON.stringify(document, null, 2);
