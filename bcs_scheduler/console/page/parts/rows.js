// Tables that several pages have: taskgroups and events.

import { agentName, to } from "../address.js";
import { age, badge, h, renew, table } from "../dom.js";
import { amount } from "./meter.js";

const LEVELS = { error: "bad", warning: "busy" };

// A section of taskgroups before the first answer, and after an answer that is an error. Rows that are there stay.
export function reading(section) {
  if (!section.firstChild) renew(section, h("p", { class: "quiet", role: "status" }, "The taskgroups are being read."));
}

export function unread(section) {
  if (section.querySelector("[role=status]")) renew(section, h("p", { class: "problem", role: "alert" }, "The taskgroups cannot be read."));
}

// `owner`: with the application. `use`: measured use by id of the taskgroup. `actions`: gives the buttons of a taskgroup.
export function taskgroups(found, { owner = false, use = null, store = null, actions = null, empty = "There are no taskgroups." } = {}) {
  const heads = [owner ? "Application" : null, "Name", "Status", "Health", owner ? null : "Host", "Restarts", use ? "CPU used" : null, use ? "Memory used" : null, "Age", actions ? "Actions" : null, "Message"];
  const kept = heads.map((head, i) => (head ? i : -1)).filter((i) => i >= 0);
  const measured = (group, name, unit) => {
    const used = use?.get(group.ID)?.used[name] ?? null;
    return used === null ? "" : `${amount(used)} ${unit}`;
  };
  const rows = found.map((group) => {
    const host = store?.one("agent", group.AgentID);
    const cells = [
      owner ? h("a", { href: to.application(group.RunAs, group.AppID), "data-key": `app ${group.ID}` }, `${group.RunAs}/${group.AppID}`) : null,
      h("span", { "data-key": `group ${group.ID}` }, group.Name),
      badge(group.Status),
      group.Status === "Running" ? badge(group.Healthy ? "healthy" : "unhealthy", group.Healthy ? "good" : "bad") : "",
      host ? h("a", { href: to.agent(agentName(host)), "data-key": `host ${group.ID}` }, group.HostName) : group.HostName,
      String(group.ReschededTimes || 0),
      measured(group, "cpus", "cores"),
      measured(group, "mem", "MB"),
      age(group.StartTime),
      actions?.(group) ?? "",
      h("span", { class: "why" }, group.Message),
    ];
    return kept.map((i) => cells[i]);
  });
  return table("Taskgroups", kept.map((i) => heads[i]), rows, empty);
}

export const levelTone = (level) => LEVELS[level] ?? "neutral";

export function events(found, empty = "There are no events.") {
  const rows = [...found].reverse().map((event) => [
    h("time", { datetime: event.time, title: event.time, "data-key": `event ${event.id}` }, age(event.time)),
    badge(event.reason, levelTone(event.level)),
    event.name,
    h("span", { class: "why" }, event.message),
  ]);
  return table("Events", ["Age", "Reason", "Object", "Message"], rows, empty);
}
