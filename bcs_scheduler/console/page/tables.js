// Tables. A click on the head of a column sorts by it, and the address keeps that.

import { here, keep } from "./address.js";
import { become, h } from "./dom.js";

// The order of names: numbers in them count as numbers.
export const order = new Intl.Collator("en", { numeric: true }).compare;

const named = (text) => text.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
const missing = (value) => value === "" || value === null || value === undefined || Number.isNaN(value);

function compare(a, b) {
  return typeof a === "number" && typeof b === "number" ? a - b : order(String(a), String(b));
}

// The text of a cell, to sort by.
function text(cell) {
  if (cell instanceof Node) return cell.textContent;
  return Array.isArray(cell) ? cell.map(text).join("") : (cell ?? "");
}

// The items by the values of a column, those without a value last. Items with equal values stay in their order.
function sorted(items, value, down) {
  const keyed = items.map((item) => [value(item), item]);
  keyed.sort(([a], [b]) => missing(a) - missing(b) || (missing(a) ? 0 : compare(a, b) * (down ? -1 : 1)));
  return keyed.map(([, item]) => item);
}

// A table of items. A column has a `head` and a `cell`, which gets an item, and whether the table is sorted by a column.
// `by` of a column gives the value to sort by; without it this is the text of the cell, and with null the column cannot
// be sorted. `down`: the largest value comes first at first. `id` of the table distinguishes tables of one page in the
// address. `most`: rows that are shown. `kind`: class of the table.
export function table(caption, given, items, empty, options = {}) {
  if (!items.length) return h("p", { class: "quiet" }, empty);
  const { id = named(caption), most = Infinity, kind = "" } = options;
  const columns = given.filter(Boolean);
  const filter = id ? `sort-${id}` : "sort";
  const set = here().filters[filter] ?? "";
  const key = set.replace(/^-/, "");
  const chosen = columns.find(({ head, by }) => by !== null && named(head) === key);
  const down = set.startsWith("-");
  const rows = chosen ? sorted(items, chosen.by ?? ((item) => text(chosen.cell(item, true))), down) : items;

  function head({ head: label, by, down: first, more }) {
    const name = named(label);
    const turns = first ? [`-${name}`, name, ""] : [name, `-${name}`, ""];
    const sort = ({ currentTarget }) => {
      keep({ [filter]: turns[(turns.indexOf(name === key ? set : "") + 1) % turns.length] });
      become(currentTarget.closest(".scroll"), table(caption, given, items, empty, options));
    };
    const words = by === null ? label : h("button", { type: "button", class: "plain sort", "data-key": `${filter} ${name}`, onclick: sort }, label);
    const direction = chosen && name === key ? (down ? "descending" : "ascending") : null;
    return h("th", { scope: "col", role: "columnheader", "aria-sort": direction, class: more ? "with" : null }, words, more);
  }

  // An empty text is no contents: narrow windows leave out cells without contents.
  const shown = (made) => (made instanceof Element && !made.childElementCount && !made.textContent ? "" : made);
  // The style of narrow windows takes the roles of rows and cells from the elements; they have them by name.
  const row = (item) => h("tr", { role: "row" }, columns.map(({ head: label, cell }) => h("td", { role: "cell", "data-label": label }, shown(cell(item, Boolean(chosen))))));
  return h(
    "div",
    { class: `scroll ${kind}`, tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      { role: "table" },
      h("caption", { class: "hidden" }, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map(head))),
      h("tbody", { role: "rowgroup" }, rows.slice(0, most).map(row)),
    ),
  );
}
