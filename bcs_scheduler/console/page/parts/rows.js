// Tables that several pages have: taskgroups and events.

import { agentName, to } from "../address.js";
import { age, badge, h, renew } from "../dom.js";
import { table } from "../tables.js";
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
  const measured = (group, name) => use?.get(group.ID)?.used[name] ?? null;
  const used = (head, name, unit) => ({
    head,
    cell: (group) => (measured(group, name) === null ? "" : `${amount(measured(group, name))} ${unit}`),
    by: (group) => measured(group, name),
    down: true,
  });
  const host = (group) => {
    const agent = store?.one("agent", group.AgentID);
    return agent ? h("a", { href: to.agent(agentName(agent)), "data-key": `host ${group.ID}` }, group.HostName) : group.HostName;
  };
  const health = (group) => (group.Status === "Running" ? (group.Healthy ? "healthy" : "unhealthy") : "");
  const columns = [
    owner && { head: "Application", cell: (group) => h("a", { href: to.application(group.RunAs, group.AppID), "data-key": `app ${group.ID}` }, `${group.RunAs}/${group.AppID}`) },
    { head: "Name", cell: (group) => h("span", { "data-key": `group ${group.ID}` }, group.Name) },
    { head: "Status", cell: (group) => badge(group.Status) },
    { head: "Health", cell: (group) => (health(group) ? badge(health(group), group.Healthy ? "good" : "bad") : "") },
    !owner && { head: "Host", cell: host },
    { head: "Restarts", cell: (group) => String(group.ReschededTimes || 0), by: (group) => group.ReschededTimes || 0, down: true },
    use && used("CPU used", "cpus", "cores"),
    use && used("Memory used", "mem", "MB"),
    { head: "Age", cell: (group) => age(group.StartTime), by: (group) => -group.StartTime },
    actions && { head: "Actions", cell: (group) => actions(group) ?? "", by: null },
    { head: "Message", cell: (group) => h("span", { class: "why" }, group.Message) },
  ];
  return table("Taskgroups", columns, found, empty);
}

export const levelTone = (level) => LEVELS[level] ?? "neutral";

export function events(found, empty = "There are no events.") {
  const columns = [
    { head: "Age", cell: (one) => h("time", { datetime: one.time, title: one.time, "data-key": `event ${one.id}` }, age(one.time)), by: (one) => -one.id },
    { head: "Reason", cell: (one) => badge(one.reason, levelTone(one.level)) },
    { head: "Object", cell: (one) => one.name },
    { head: "Message", cell: (one) => h("span", { class: "why" }, one.message) },
  ];
  return table("Events", columns, [...found].reverse(), empty);
}
