// The trees of queues, one table for each partition of roles.

import { badge, h } from "../dom.js";
import { table } from "../tables.js";
import { amounts, indented, pendingBy, waitingOf } from "./queues.js";

const TONES = { Draining: "busy", Stopped: "bad" };
const COLUMNS = [
  { head: "Queue", cell: ({ name }, flat) => (flat ? indented(name, name, 0) : indented(name.slice(name.lastIndexOf(".") + 1), name, name.split(".").length - 1)), by: ({ name }) => name },
  { head: "State", cell: ({ status }) => h("span", {}, badge(status.state, TONES[status.state] ?? "good"), status.dynamic ? " created by a rule" : "") },
  { head: "Applications", cell: applications, by: ({ status }) => status.applications, down: true },
  { head: "Taskgroups", cell: ({ status }) => String(status.taskgroups), by: ({ status }) => status.taskgroups, down: true },
  {
    head: "Guaranteed, used, maximum",
    cell: ({ spec, status, total }) => amounts({ guarantee: spec.guaranteed, most: spec.max, used: status.used, total }),
    by: ({ status }) => status.used?.cpus ?? 0,
    down: true,
  },
  { head: "Waiting", cell: ({ status }) => pendingBy(status.pending), by: ({ status }) => waitingOf(status.pending), down: true },
];

// `partitions`: all partitions with their policies. `queues`: the queues of all trees, each after its parent.
export function treeTables(partitions, queues) {
  const trees = partitions.filter((one) => one.policy === "hierarchical");
  return trees.flatMap(({ name, roles, revision }) => {
    const several = trees.length > 1 ? `Partition ${name}` : "Tree of queues";
    const words = [`roles ${roles.map((role) => (role === "*" ? "* (all others)" : role)).join(", ")}`, revision ? `revision ${revision}` : "from the settings"];
    const found = queues.filter((queue) => queue.partition === name);
    return [h("h2", {}, several), h("p", { class: "quiet" }, words.join("; ")), table(several, COLUMNS, found, "There are no queues.")];
  });
}

function applications({ spec, status }) {
  const most = status.leaf && spec.maxApplications !== null ? ` of ${spec.maxApplications}` : "";
  return `${status.runningApplications}${most}${status.applications > status.runningApplications ? `, ${status.applications - status.runningApplications} wait` : ""}`;
}
