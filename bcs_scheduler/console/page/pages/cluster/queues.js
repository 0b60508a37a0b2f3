// Queues: guaranteed, used, share and maximum, and who waits for what. Queues with parents form a tree.

import { get, part } from "../../api.js";
import { to } from "../../address.js";
import { badge, command, counted, h, renew, table } from "../../dom.js";
import { amount } from "../../parts/meter.js";
import { calm } from "../../parts/forms.js";

const EVERY = 5000;
const PAUSE = 500;
const WAITING = 100;
const AMOUNTS = [["cpus", "CPU", "cores"], ["mem", "Memory", "MB"], ["disk", "Disk", "MB"], ["gpus", "GPU", "GPUs"]];

export function queues(place, { store, rights }) {
  if (rights.namespaces !== null) {
    place.append(h("h1", {}, "Queues"), h("p", {}, "Queues are shown to viewers of all namespaces."));
    return () => {};
  }
  const [list, waiting] = [h("div", {}), h("div", {})];
  const count = h("p", { class: "quiet", role: "status" });
  place.append(h("h1", {}, "Queues"), count, list, command(rights.scheduler.leads ? "bcs queue top" : "bcs queue list"), h("h2", {}, "Waiting operations"), waiting);
  let [usage, left] = [new Map(), false];
  const reasons = new Map();
  const later = calm(draw, PAUSE);

  async function load() {
    if (!rights.scheduler.leads) return;
    const found = await get("/usage/queues").catch(() => null);
    if (left || !found) return;
    usage = new Map(found.map((one) => [one.name, one]));
    later();
  }

  function draw() {
    const ordered = tree(store.all("queue"));
    count.textContent = counted(ordered.length, "queue");
    const rows = ordered.map(({ queue, depth, label }) => {
      const name = queue.metadata.name;
      const found = usage.get(name);
      const title = h("span", { class: "indent" }, h("strong", {}, label));
      title.style.setProperty("padding-left", `${1.4 * depth}rem`);
      if (label !== name) title.setAttribute("title", name);
      const pending = Object.entries(found?.pending ?? {});
      return [
        title,
        String(queue.spec.weight ?? 1),
        String(queue.status.taskgroups ?? 0),
        h("div", { class: "amounts" }, AMOUNTS.map((one) => figures(queue, found, one)).filter(Boolean)),
        pending.length ? h("ul", { class: "plainlist" }, pending.map(([reason, number]) => h("li", {}, badge(String(number), "busy"), ` ${reason.replaceAll("_", " ")}`))) : "",
        (queue.status.namespaces ?? []).join(", ") || (name === "default" ? "all others" : ""),
      ];
    });
    renew(list, table("Queues", ["Queue", "Weight", "Taskgroups", "Guaranteed, used, maximum", "Waiting", "Namespaces"], rows, "There are no queues."));
    drawWaiting(ordered);
  }

  function drawWaiting(ordered) {
    const homes = new Map(ordered.flatMap(({ queue }) => (queue.status.namespaces ?? []).map((namespace) => [namespace, queue.metadata.name])));
    const found = store
      .all("transaction")
      .filter((one) => one.status === "INIT" && one.remaining > 0)
      .sort((a, b) => Date.parse(a.createTime) - Date.parse(b.createTime));
    const rows = found.slice(0, WAITING).map((one) => [
      homes.get(one.namespace) ?? "default",
      h("a", { href: to.application(one.namespace, one.objectName), "data-key": one.transactionID }, `${one.namespace}/${one.objectName}`),
      one.type,
      `${one.remaining} of ${one.target}`,
      h("span", { class: "why" }, reasons.get(one.transactionID)?.why ?? ""),
    ]);
    renew(waiting, found.length > WAITING ? h("p", { class: "quiet" }, `The oldest ${WAITING} of ${found.length}.`) : null, table("Operations that wait", ["Queue", "Object", "Type", "Remaining", "Waits for"], rows, "No operation waits."));
    ask(found.slice(0, 20));
  }

  // Only the leader knows why an operation waits.
  async function ask(found) {
    for (const one of found) {
      if (left || !rights.scheduler.leads || Date.now() - (reasons.get(one.transactionID)?.at ?? 0) < EVERY) continue;
      reasons.set(one.transactionID, { at: Date.now(), why: reasons.get(one.transactionID)?.why ?? "" });
      const answer = await get(`/namespaces/${part(one.namespace)}/applications/${part(one.objectName)}/explain`).catch(() => null);
      const placing = answer?.transactions.map((operation) => operation.placing).find(Boolean);
      if (!answer) continue;
      reasons.set(one.transactionID, { at: Date.now(), why: placing?.message || answer.message });
      later();
    }
  }

  const clock = setInterval(load, EVERY);
  load();
  const update = () => later();
  update.leave = () => {
    left = true;
    clearInterval(clock);
    later.stop();
  };
  return update;
}

// Queues below their parents. A parent is named by the queue, or by the part of its name before the last dot.
export function tree(found) {
  const names = new Map(found.map((queue) => [queue.metadata.name, queue]));
  const children = new Map();
  for (const queue of found) {
    const { name } = queue.metadata;
    const given = queue.spec.parent ?? "";
    const before = name.includes(".") ? name.slice(0, name.lastIndexOf(".")) : "";
    const parent = [given, before].find((one) => one && one !== name && names.has(one)) ?? "";
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(queue);
  }
  const order = new Intl.Collator("en", { numeric: true }).compare;
  const ordered = [];
  const seen = new Set();
  const walk = (parent, depth) => {
    for (const queue of (children.get(parent) ?? []).sort((a, b) => order(a.metadata.name, b.metadata.name))) {
      const { name } = queue.metadata;
      if (seen.has(name)) continue;
      seen.add(name);
      const label = parent && name.startsWith(`${parent}.`) ? name.slice(parent.length + 1) : name;
      ordered.push({ queue, depth, label });
      walk(name, depth + 1);
    }
  };
  walk("", 0);
  for (const queue of found) if (!seen.has(queue.metadata.name)) ordered.push({ queue, depth: 0, label: queue.metadata.name });
  return ordered;
}

// A bar from nothing to the maximum (without one: to the whole cluster), with marks for guarantee and deserved share.
function figures(queue, found, [key, title, unit]) {
  const used = found?.used[key] ?? queue.status.used?.[key] ?? 0;
  const guarantee = queue.spec.guarantee?.[key] ?? 0;
  const most = queue.spec.capability?.[key];
  const deserved = found?.deserved?.[key];
  const whole = found?.total[key] ?? 0;
  if (!used && !guarantee && most === undefined && key !== "cpus" && key !== "mem") return null;
  const end = Math.max(most ?? whole, used, guarantee, 1e-9);
  const track = h("span", { class: "stacked thin", "aria-hidden": "true" });
  const add = (kind, name, value) => {
    const part = h("span", { class: kind });
    part.style.setProperty(name, `${Math.min(100, (100 * value) / end)}%`);
    track.append(part);
  };
  add(used > (deserved ?? Infinity) ? "over" : "ready", "width", used);
  if (guarantee) add("least", "left", guarantee);
  if (deserved) add("deserved", "left", deserved);
  const words = [
    `${amount(used)} ${unit} used`,
    guarantee ? `${amount(guarantee)} guaranteed` : "",
    deserved === undefined || deserved === null ? "" : `${amount(deserved)} deserved`,
    most === undefined ? "no maximum" : `at most ${amount(most)}`,
  ].filter(Boolean);
  return h("div", { class: "amount" }, h("span", {}, title), track, h("span", { class: "quiet small" }, words.join(", ")));
}
