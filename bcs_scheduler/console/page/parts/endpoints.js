// The endpoints of services that have taskgroups of an application.

import { badge, h } from "../dom.js";
import { table } from "../tables.js";

const addresses = ({ member }) => member.ports.map((port) => `${port.name ? `${port.name} ` : ""}${port.address || `${port.hostIP}:${port.hostPort}`}`).join(", ");
const COLUMNS = [
  { head: "Service", cell: ({ service }) => service },
  { head: "Taskgroup", cell: ({ member }) => member.targetRef.name },
  { head: "Addresses", cell: (one) => h("span", { class: "long" }, addresses(one)) },
  { head: "State", cell: ({ member }) => badge(member.ready ? "ready" : "not ready", member.ready ? "good" : "busy") },
  { head: "Weight", cell: ({ member }) => String(member.weight), by: ({ member }) => member.weight, down: true },
  { head: "Reason", cell: ({ member }) => h("span", { class: "why" }, member.reason) },
];

export function endpoints(found, application) {
  const members = found.flatMap(({ metadata, eps }) => eps.filter((member) => member.application === application).map((member) => ({ service: metadata.name, member })));
  return table("Endpoints", COLUMNS, members, "No service selects taskgroups of this application.");
}
