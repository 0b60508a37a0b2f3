// The versions of an application, and what differs between two of them.

import { get, part } from "../api.js";
import { age, fill, h, moment } from "../dom.js";
import { diff } from "./diff.js";
import { select } from "./forms.js";

// When a version was stored: names of versions are Unix nanoseconds.
export const stored = (id) => (/^\d{19}$/.test(id) ? moment(Number(id.slice(0, 13))) : id);

export const label = (id) => (stored(id) === id ? id : `${stored(id)} (${age(Number(id.slice(0, 10)))} ago)`);

// The document of a version of an application; its definition if there was no document. `base`: path of the application.
export async function documentOf(base, id) {
  const version = await get(`${base}/versions/${part(id)}`);
  return version.raw_json ? JSON.parse(version.raw_json) : version;
}

export function versions(base) {
  const element = h("section", {});
  const shown = h("div", { "aria-live": "polite" });
  const documents = new Map();
  let [known, from, to, left] = ["", "", "", false];

  async function document(id) {
    if (!documents.has(id)) documents.set(id, await documentOf(base, id));
    return documents.get(id);
  }

  async function compare() {
    const [a, b] = [from, to];
    try {
      const [before, after] = await Promise.all([document(a), document(b)]);
      if (!left && a === from && b === to) fill(shown, diff(before, after));
    } catch (error) {
      if (!left) fill(shown, h("p", { class: "problem", role: "alert" }, error.message));
    }
  }

  async function load() {
    const found = await get(`${base}/versions`).catch(() => null);
    if (left || !found || found.join() === known) return;
    known = found.join();
    [from, to] = [found.at(-2) ?? "", found.at(-1) ?? ""];
    if (found.length < 2) {
      fill(element, h("h2", {}, "Versions"), h("p", { class: "quiet" }, found.length ? `One version: ${label(to)}.` : "There are no versions."));
      return;
    }
    const choices = [...found].reverse().map((id) => [id, label(id)]);
    const change = (set) => (id) => {
      set(id);
      compare();
    };
    fill(
      element,
      h("h2", {}, `Versions (${found.length})`),
      h("div", { class: "fields" }, select("from", "Changes from", choices, from, change((id) => (from = id))), select("to", "to", choices, to, change((id) => (to = id)))),
      shown,
    );
    compare();
  }

  return { element, load, several: () => known.includes(","), stop: () => (left = true) };
}
