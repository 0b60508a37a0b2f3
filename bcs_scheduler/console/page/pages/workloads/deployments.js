// The list of deployments: the rolling updates in progress first.

import { here, keep, to } from "../../address.js";
import { age, badge, command, counted, h, renew, table } from "../../dom.js";
import { calm, text } from "../../parts/forms.js";

const SHOWN = 500;
const PAUSE = 500;

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
    const words = set.search.toLowerCase().split(/\s+/).filter(Boolean);
    const order = new Intl.Collator("en", { numeric: true }).compare;
    const found = store
      .all("deployment")
      .filter((one) => words.every((word) => `${one.namespace}/${one.name} ${one.status}`.toLowerCase().includes(word)))
      .sort((a, b) => b.is_in_rolling - a.is_in_rolling || order(a.namespace, b.namespace) || order(a.name, b.name));
    count.textContent = found.length > SHOWN ? `${counted(found.length, "deployment")}, the first ${SHOWN} are shown` : counted(found.length, "deployment");
    const rows = found.slice(0, SHOWN).map((one) => [
      h("a", { href: to.deployment(one.namespace, one.name), "data-key": `${one.namespace}/${one.name}` }, one.name),
      one.namespace,
      badge(one.status),
      `${one.counts.ready} of ${one.instances}`,
      one.is_in_rolling ? `${one.progress.done} of ${one.progress.total}` : "",
      String(one.revision),
      age(one.createTime),
      h("span", { class: "why" }, one.message),
    ]);
    renew(list, table("Deployments", ["Name", "Namespace", "Status", "Ready", "Updated", "Revision", "Age", "Message"], rows, "There are no deployments here."));
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
