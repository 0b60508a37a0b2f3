// The list of applications, with a search for names and statuses.

import { part } from "../../api.js";
import { age, badge, counted, h, renew, table } from "../../dom.js";

const SHOWN = 500;

export function applications(place, { store }) {
  const search = h("input", { id: "search", type: "search", placeholder: "name, namespace or status", autocomplete: "off" });
  const list = h("div", {});
  const count = h("p", { class: "quiet", role: "status" });
  place.append(h("h1", {}, "Applications"), h("div", { class: "search" }, h("label", { for: "search" }, "Search"), search), count, list);
  search.addEventListener("input", () => update());

  function update() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = store
      .all("application")
      .filter((app) => words.every((word) => `${app.ObjectMeta.namespace}/${app.Name} ${app.Status}`.toLowerCase().includes(word)))
      .sort((a, b) => compare(a.ObjectMeta.namespace, b.ObjectMeta.namespace) || compare(a.Name, b.Name));
    count.textContent = found.length > SHOWN ? `${counted(found.length, "application")}, the first ${SHOWN} are shown` : counted(found.length, "application");
    const rows = found.slice(0, SHOWN).map((app) => [
      h("a", { href: `#/applications/${part(app.ObjectMeta.namespace)}/${part(app.Name)}`, "data-key": `${app.ObjectMeta.namespace}/${app.Name}` }, app.Name),
      app.ObjectMeta.namespace,
      badge(app.Status),
      `${app.RunningInstances} of ${app.DefineInstances}`,
      age(app.Created),
      h("span", { class: "why" }, app.Message),
    ]);
    renew(list, table("Applications", ["Name", "Namespace", "Status", "Running", "Age", "Message"], rows, "There are no applications here."));
  }
  return update;
}

function compare(a, b) {
  return a.localeCompare(b, "en", { numeric: true });
}
