// Fields with labels.

import { h } from "../dom.js";

export function select(id, label, choices, value, change) {
  const field = h("select", { id, "data-key": id }, choices.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
  field.addEventListener("change", () => change(field.value));
  return h("div", { class: "field" }, h("label", { for: id }, label), field);
}

export function text(id, label, value, change, placeholder = "") {
  const field = h("input", { id, type: "search", autocomplete: "off", spellcheck: "false", placeholder, value });
  field.addEventListener("input", () => change(field.value.trim()));
  return h("div", { class: "field grow" }, h("label", { for: id }, label), field);
}

// A test of texts: a text passes if it has all the words of a search.
export function words(search) {
  const wanted = search.toLowerCase().split(/\s+/).filter(Boolean);
  return (text) => wanted.every((word) => text.toLowerCase().includes(word));
}

export function tick(id, label, on, change) {
  const field = h("input", { id, type: "checkbox", checked: on });
  field.addEventListener("change", () => change(field.checked));
  return h("div", { class: "field tick" }, field, h("label", { for: id }, label));
}

// Fields of filters. A narrow window shows them behind a line with the number of filters in effect, because they would fill the
// first page. `active` gives that number; call the result after each change of a filter.
export function filters(fields, active) {
  const line = h("summary", {}, "");
  const box = h("details", { class: "filters" }, line, h("div", { class: "fields" }, fields));
  const wide = window.matchMedia("(min-width: 641px)");
  const count = () => (line.textContent = active() ? `Filters (${active()})` : "Filters");
  const fit = () => (box.open = wide.matches || active() > 0);
  wide.addEventListener("change", fit);
  count();
  fit();
  return { box, count, leave: () => wide.removeEventListener("change", fit) };
}

// Calls a function at most once in a time, the last time for sure. `stop` of the result forgets a call that waits.
export function calm(act, pause) {
  let timer = 0;
  const later = () => {
    if (timer) return;
    timer = setTimeout(() => {
      timer = 0;
      act();
    }, pause);
  };
  later.stop = () => {
    clearTimeout(timer);
    timer = 0;
  };
  return later;
}
