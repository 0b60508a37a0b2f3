// The choice of an earlier definition to return to, with the changes that this would make.

import { fill, h } from "../dom.js";
import { diff } from "./diff.js";

// `choices`: pairs of id and label, the newest first. `present`: id of the present definition. `read`: gives the document of
// an id. Returns the fields of a dialog, and a function that gives the id that is chosen.
export function returns(word, choices, present, read) {
  if (!choices.length) return { fields: [h("p", {}, `There is no earlier ${word.toLowerCase()}.`)], chosen: () => "" };
  const field = h("select", { id: "earlier" }, choices.map(([id, text]) => h("option", { value: id }, text)));
  const shown = h("div", { "aria-live": "polite" });
  const documents = new Map();
  const document = (id) => documents.get(id) ?? documents.set(id, read(id)).get(id);
  async function compare() {
    const id = field.value;
    let found;
    try {
      found = diff(...(await Promise.all([document(present), document(id)])), "Changes of the present definition");
    } catch (error) {
      documents.clear();
      found = h("p", { class: "problem", role: "alert" }, error.message);
    }
    if (id === field.value) fill(shown, found);
  }
  field.addEventListener("change", compare);
  compare();
  return { fields: [h("label", { for: "earlier" }, word), field, h("p", { class: "quiet" }, "Changes of the present definition:"), shown], chosen: () => field.value };
}
