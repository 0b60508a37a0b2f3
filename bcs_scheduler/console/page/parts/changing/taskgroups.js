// Dialogs that change one taskgroup: a replacement, or a restart in place.

import { part } from "../../api.js";
import { h, quoted } from "../../dom.js";
import { dialog } from "./dialog.js";

const path = (group) => `/namespaces/${part(group.RunAs)}/applications/${part(group.AppID)}/taskgroups/${part(group.ID)}`;
const at = (group) => `${quoted(group.Name)} -n ${quoted(group.RunAs)}`;

function reschedule(group) {
  const seconds = h("input", { id: "retain", type: "number", min: "0", max: "2592000", required: true, value: "0" });
  dialog({
    title: `Reschedule ${group.Name}`,
    changed: `${group.RunAs}/${group.Name}`,
    fields: [
      h("p", {}, "The taskgroup ends, and a new taskgroup of the same number takes its place."),
      h("label", { for: "retain" }, "Seconds in which only the present host is accepted"),
      seconds,
    ],
    request: () => ["PUT", `${path(group)}/rescheduler?hostRetainTime=${part(seconds.value)}`],
    command: () => `bcs reschedule ${at(group)}${Number(seconds.value) ? ` --host-retain ${seconds.value}s` : ""}`,
  });
}

function restart(group) {
  const words = "The tasks restart in place: the taskgroup keeps its agent, its ports and its id.";
  dialog({
    title: `Restart ${group.Name}`,
    fields: h("p", {}, words),
    request: () => ["POST", `${path(group)}/restart`],
    command: () => `bcs restart ${at(group)}`,
    planned: () => [h("h3", {}, "Plan"), h("p", {}, `The taskgroup can be reached. ${words}`)],
  });
}

// The buttons of a taskgroup, for callers who may change it.
export function buttons(group) {
  const button = (text, act) =>
    h("button", { type: "button", class: "small", "data-key": `${text} ${group.ID}`, "aria-label": `${text} ${group.Name}`, onclick: () => act(group) }, text);
  return h("span", { class: "inline acts" }, button("Reschedule", reschedule), group.Status === "Running" ? button("Restart", restart) : null);
}
