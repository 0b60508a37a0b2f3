// Queues: guaranteed, used, share and maximum, and the work that waits. The queues of sessions, and the trees of queues of
// partitions with the policy hierarchical.

import { get, part } from "../api.js";
import { to } from "../address.js";
import { command, counted, h, renew } from "../dom.js";
import { calm } from "../parts/forms.js";
import { amounts, indented, pendingBy, waitingOf } from "../parts/queues.js";
import { treeTables } from "../parts/queuetrees.js";
import { order, table } from "../tables.js";

const EVERY = 5000;
const PAUSE = 500;
const WAITING = 100;

export function queues(place, { store, rights }) {
  if (rights.namespaces !== null) {
    place.append(h("h1", {}, "Queues"), h("p", {}, "Queues are shown to viewers of all namespaces."));
    return () => {};
  }
  // Partitions with a tree: the queue of an application follows from placement rules. Only explanations name the queue.
  const byRules = () => parts.some((one) => one.policy === "hierarchical");
  const [trees, list, waiting] = [h("div", {}), h("div", {}), h("div", {})];
  const count = h("p", { class: "quiet", role: "status" });
  place.append(h("h1", {}, "Queues"), count, trees, list, command(rights.scheduler.leads ? "bcs queue top" : "bcs queue list"), h("h2", {}, "Waiting operations"), waiting);
  let [usage, parts, leaves, left] = [new Map(), [], [], false];
  const reasons = new Map();
  const later = calm(draw, PAUSE);

  async function load() {
    if (!rights.scheduler.leads) return;
    const read = (path) => get(path).catch(() => null);
    const [found, present] = await Promise.all([read("/usage/queues"), read("/queuetree/partitions")]);
    const ofTrees = present?.some((one) => one.policy === "hierarchical") ? await read("/queuetree/queues") : [];
    if (left) return;
    if (found) usage = new Map(found.map((one) => [one.name, one]));
    if (present && ofTrees) [parts, leaves] = [present, ofTrees];
    later();
  }

  function draw() {
    const ordered = tree(store.all("queue"));
    const hidden = parts.length > 0 && parts.every((one) => one.policy === "hierarchical");
    count.textContent = counted((hidden ? 0 : ordered.length) + leaves.length, "queue");
    const name = ({ queue }) => queue.metadata.name;
    const figures = (one) => usage.get(name(one));
    const used = (one) => figures(one)?.used ?? one.queue.status.used;
    const namespaces = (one) => (one.queue.status.namespaces ?? []).join(", ") || (name(one) === "default" ? "all others" : "");
    const columns = [
      { head: "Queue", cell: (one, flat) => (flat ? indented(name(one), name(one), 0) : indented(one.label, name(one), one.depth)), by: name },
      { head: "Weight", cell: ({ queue }) => String(queue.spec.weight ?? 1), by: ({ queue }) => queue.spec.weight ?? 1, down: true },
      { head: "Taskgroups", cell: ({ queue }) => String(queue.status.taskgroups ?? 0), by: ({ queue }) => queue.status.taskgroups ?? 0, down: true },
      {
        head: "Guaranteed, used, maximum",
        cell: (one) => amounts({ guarantee: one.queue.spec.guarantee, most: one.queue.spec.capability, used: used(one), deserved: figures(one)?.deserved, total: figures(one)?.total }),
        by: (one) => used(one)?.cpus ?? 0,
        down: true,
      },
      { head: "Waiting", cell: (one) => pendingBy(figures(one)?.pending), by: (one) => waitingOf(figures(one)?.pending), down: true },
      { head: "Namespaces", cell: (one) => h("span", { class: "long" }, namespaces(one)), by: namespaces },
    ];
    renew(trees, treeTables(parts, leaves));
    renew(list, hidden ? null : [leaves.length ? h("h2", {}, "Queues of the other partitions") : null, table("Queues", columns, ordered, "There are no queues.")]);
    drawWaiting(ordered);
  }

  function drawWaiting(ordered) {
    const homes = new Map(ordered.flatMap(({ queue }) => (queue.status.namespaces ?? []).map((namespace) => [namespace, queue.metadata.name])));
    const found = store
      .all("transaction")
      .filter((one) => one.status === "INIT" && one.remaining > 0)
      .sort((a, b) => Date.parse(a.createTime) - Date.parse(b.createTime));
    const queue = (one) => reasons.get(one.transactionID)?.queue || (byRules() ? "" : homes.get(one.namespace) ?? "default");
    const columns = [
      { head: "Queue", cell: queue },
      { head: "Object", cell: (one) => h("a", { href: to.application(one.namespace, one.objectName), "data-key": one.transactionID }, `${one.namespace}/${one.objectName}`) },
      { head: "Type", cell: (one) => one.type },
      { head: "Remaining", cell: (one) => `${one.remaining} of ${one.target}`, by: (one) => one.remaining, down: true },
      { head: "Waits for", cell: (one) => h("span", { class: "why" }, reasons.get(one.transactionID)?.why ?? "") },
    ];
    renew(waiting, found.length > WAITING ? h("p", { class: "quiet" }, `The oldest ${WAITING} of ${found.length}.`) : null, table("Operations that wait", columns, found.slice(0, WAITING), "No operation waits."));
    ask(found.slice(0, 20));
  }

  // Only the leader knows why an operation waits.
  async function ask(found) {
    for (const one of found) {
      if (left || !rights.scheduler.leads || Date.now() - (reasons.get(one.transactionID)?.at ?? 0) < EVERY) continue;
      reasons.set(one.transactionID, { why: "", ...reasons.get(one.transactionID), at: Date.now() });
      const answer = await get(`/namespaces/${part(one.namespace)}/applications/${part(one.objectName)}/explain`).catch(() => null);
      const placing = answer?.transactions.map((operation) => operation.placing).find(Boolean);
      if (!answer) continue;
      reasons.set(one.transactionID, { at: Date.now(), why: placing?.message || answer.message, queue: placing?.queue?.name });
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
