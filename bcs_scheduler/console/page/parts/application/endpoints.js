// The endpoints of services that have taskgroups of an application.

import { badge, h, table } from "../../dom.js";

export function endpoints(found, application) {
  const rows = found.flatMap((endpoint) =>
    endpoint.eps
      .filter((member) => member.application === application)
      .map((member) => [
        endpoint.metadata.name,
        member.targetRef.name,
        member.ports.map((port) => `${port.name ? `${port.name} ` : ""}${port.address || `${port.hostIP}:${port.hostPort}`}`).join(", "),
        badge(member.ready ? "ready" : "not ready", member.ready ? "good" : "busy"),
        String(member.weight),
        h("span", { class: "why" }, member.reason),
      ]),
  );
  return table("Endpoints", ["Service", "Taskgroup", "Addresses", "State", "Weight", "Reason"], rows, "No service selects taskgroups of this application.");
}
