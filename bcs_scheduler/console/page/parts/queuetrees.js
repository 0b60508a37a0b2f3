// The trees of queues, one table for each partition of roles.

import { badge, h, table } from "../dom.js";
import { amounts, indented, pendingBy } from "./queues.js";

const HEADS = ["Queue", "State", "Applications", "Taskgroups", "Guaranteed, used, maximum", "Waiting"];
const TONES = { Draining: "busy", Stopped: "bad" };

// `partitions`: all partitions with their policies. `queues`: the queues of all trees, each after its parent.
export function treeTables(partitions, queues) {
  const trees = partitions.filter((one) => one.policy === "hierarchical");
  return trees.flatMap(({ name, roles, revision }) => {
    const several = trees.length > 1 ? `Partition ${name}` : "Tree of queues";
    const words = [`roles ${roles.map((role) => (role === "*" ? "* (all others)" : role)).join(", ")}`, revision ? `revision ${revision}` : "from the settings"];
    const rows = queues.filter((queue) => queue.partition === name).map(row);
    return [h("h2", {}, several), h("p", { class: "quiet" }, words.join("; ")), table(several, HEADS, rows, "There are no queues.")];
  });
}

function row({ name, spec, status, total }) {
  const most = status.leaf && spec.maxApplications !== null ? ` of ${spec.maxApplications}` : "";
  return [
    indented(name.slice(name.lastIndexOf(".") + 1), name, name.split(".").length - 1),
    h("span", {}, badge(status.state, TONES[status.state] ?? "good"), status.dynamic ? " created by a rule" : ""),
    `${status.runningApplications}${most}${status.applications > status.runningApplications ? `, ${status.applications - status.runningApplications} wait` : ""}`,
    String(status.taskgroups),
    amounts({ guarantee: spec.guaranteed, most: spec.max, used: status.used, total }),
    pendingBy(status.pending),
  ];
}
