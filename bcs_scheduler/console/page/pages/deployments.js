// The list of deployments: the rolling updates in progress first.

import { here, keep, to } from "../address.js";
import { age, badge, command, counted, h, renew } from "../dom.js";
import { reasonOf, updating } from "../parts/deployments.js";
import { calm, text, words } from "../parts/forms.js";
import { order, table } from "../tables.js";

const SHOWN = 500;
const PAUSE = 500;
const COLUMNS = [
  { head: "Name", cell: (one) => h("a", { href: to.deployment(one.namespace, one.name), "data-key": `${one.namespace}/${one.name}` }, one.name), by: (one) => one.name },
  { head: "Namespace", cell: (one) => one.namespace, by: (one) => one.namespace },
  { head: "Status", cell: (one) => badge(one.status), by: (one) => one.status },
  { head: "Ready", cell: (one) => `${one.counts.ready} of ${one.instances}`, by: (one) => one.counts.ready, down: true },
  { head: "Updated", cell: (one) => (updating(one) ? `${one.progress.done} of ${one.progress.total}` : ""), by: (one) => (updating(one) ? one.progress.done : ""), down: true },
  { head: "Revision", cell: (one) => String(one.revision), by: (one) => one.revision, down: true },
  { head: "Age", cell: (one) => age(one.createTime), by: (one) => -Date.parse(one.createTime) },
  { head: "Reason", cell: (one) => h("span", { class: "why" }, reasonOf(one)), by: reasonOf },
];

export function deployments(place, { store }) {
  const set = { search: "", ...here().filters };
  const list = h("div", {});
  const count = h("p", { class: "quiet", role: "status" });
  const field = text("search", "Find", set.search, (value) => {
    set.search = value;
    keep({ search: value });
    draw();
  }, "name, namespace or status");
  place.append(h("h1", {}, "Deployments"), h("div", { class: "fields" }, field), count, list, command("bcs get deployments -A"));

  function draw() {
    const fits = words(set.search);
    const found = store
      .all("deployment")
      .filter((one) => fits(`${one.namespace}/${one.name} ${one.status}`))
      .sort((a, b) => updating(b) - updating(a) || order(a.namespace, b.namespace) || order(a.name, b.name));
    count.textContent = found.length > SHOWN ? `${counted(found.length, "deployment")}, the first ${SHOWN} are shown` : counted(found.length, "deployment");
    renew(list, table("Deployments", COLUMNS, found, "There are no deployments here.", { id: "", most: SHOWN }));
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
