// Dialogs that change one taskgroup: a replacement, or a restart in place.

import { part } from "../api.js";
import { h, quoted } from "../dom.js";
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

// A function that gives the buttons of a taskgroup: those that the scheduler accepts in its present state.
export function buttonsFor(store) {
  const replaced = new Set(store.all("transaction").filter((one) => one.taskgroup && !one.inner && !one.finishTime).map((one) => one.taskgroup));
  const button = (group, text, act) =>
    h("button", { type: "button", class: "small", "data-key": `${text} ${group.ID}`, "aria-label": `${text} ${group.Name}`, onclick: () => act(group) }, text);
  return (group) => {
    // One operation at a time works on an application, and ends and begins taskgroups of its own choice.
    const status = store.one("application", `${group.RunAs}/${group.AppID}`)?.Status;
    const operating = status === "Operating";
    // Messages go to the executor of the scheduler only.
    const listens = group.Status === "Running" && group.Executor === "bcs" && !operating && status !== "RollingUpdate";
    const ends = Boolean(group.KillingSince) || group.EndCause === "RollingUpdate";
    const found = [
      operating || ends || replaced.has(group.ID) ? null : button(group, "Reschedule", reschedule),
      listens && !ends ? button(group, "Restart", restart) : null,
    ].filter(Boolean);
    return found.length ? h("span", { class: "inline acts" }, found) : "";
  };
}
