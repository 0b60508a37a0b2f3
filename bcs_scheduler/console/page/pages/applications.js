// The list of applications, with a search for names and statuses.

import { here, keep, to } from "../address.js";
import { age, badge, command, counted, h, renew } from "../dom.js";
import { calm, text, words } from "../parts/forms.js";
import { order, table } from "../tables.js";

const SHOWN = 500;
const PAUSE = 500;
const COLUMNS = [
  { head: "Name", cell: (app) => h("a", { href: to.application(app.ObjectMeta.namespace, app.Name), "data-key": named(app) }, app.Name), by: (app) => app.Name },
  { head: "Namespace", cell: (app) => app.ObjectMeta.namespace, by: (app) => app.ObjectMeta.namespace },
  { head: "Status", cell: (app) => badge(app.Status), by: (app) => app.Status },
  { head: "Running", cell: (app) => `${app.RunningInstances} of ${app.DefineInstances}`, by: (app) => app.RunningInstances, down: true },
  { head: "Age", cell: (app) => age(app.Created), by: (app) => -app.Created },
  { head: "Reason", cell: (app) => h("span", { class: "why" }, app.Reason), by: (app) => app.Reason },
];

const named = (app) => `${app.ObjectMeta.namespace}/${app.Name}`;

export function applications(place, { store }) {
  const set = { search: "", ...here().filters };
  const list = h("div", {});
  const count = h("p", { class: "quiet", role: "status" });
  const field = text("search", "Find", set.search, (value) => {
    set.search = value;
    keep({ search: value });
    draw();
  }, "name, namespace or status");
  place.append(h("h1", {}, "Applications"), h("div", { class: "fields" }, field), count, list, command("bcs get applications -A"));

  function draw() {
    const fits = words(set.search);
    const found = store
      .all("application")
      .filter((app) => fits(`${named(app)} ${app.Status}`))
      .sort((a, b) => order(a.ObjectMeta.namespace, b.ObjectMeta.namespace) || order(a.Name, b.Name));
    count.textContent = found.length > SHOWN ? `${counted(found.length, "application")}, the first ${SHOWN} are shown` : counted(found.length, "application");
    renew(list, table("Applications", COLUMNS, found, "There are no applications here.", { id: "", most: SHOWN }));
  }
  const later = calm(draw, PAUSE);
  let first = true;
  const update = () => {
    if (first) draw();
    else later();
    first = false;
  };
  update.leave = later.stop;
  return update;
}
