// The plans that dry runs show: where taskgroups go, which end, and which of other work are evicted, for whom.

import { counted, h } from "../dom.js";

const NAMED = 8;

// The first words of a list, and the number of the rest.
export const some = (words) => words.slice(0, NAMED).join(", ") + (words.length > NAMED ? ` and ${words.length - NAMED} more` : "");

// The name of a taskgroup: its id begins with its number, its application and its namespace.
export function called(id) {
  const [number, application] = id.split(".");
  return application ? `${application}-${number}` : id;
}

// The same with the namespace, for taskgroups of other work.
function located(id) {
  const [, application, namespace] = id.split(".");
  return application && namespace ? `${namespace}/${called(id)}` : called(id);
}

// Words about taskgroups of other work that a policy would end. `beneficiary`: the work that gets the room.
export function evicted(ids, beneficiary) {
  const number = counted(ids.length, "taskgroup of other work is evicted", "taskgroups of other work are evicted");
  return `${number} to make room for ${beneficiary}: ${some(ids.map(located))}`;
}

function perHost(places) {
  const hosts = new Map();
  for (const { hostname } of places) hosts.set(hostname, (hosts.get(hostname) ?? 0) + 1);
  return some([...hosts].map(([hostname, number]) => `${number} on ${hostname}`));
}

// A line with its details, which are left out if there are none.
const line = (words, details) => h("li", {}, details ? `${words}: ${details}` : words);

// The plan of a change of taskgroups. `beneficiary`: the object that is changed.
export function plan(found, beneficiary) {
  if (found.unchanged) return h("p", {}, "The object already has this state.");
  const number = found.instances;
  const [place, end, evict] = [found.place ?? [], found.end ?? [], found.evict ?? []];
  // An evicted taskgroup has to end before its room is free.
  const now = evict.length ? " at once" : "";
  const lines = [
    number ? line("Number of taskgroups", `${number.from} -> ${number.to}`) : null,
    line(counted(place.length, "taskgroup is placed", "taskgroups are placed"), perHost(place)),
    line(counted(end.length, "taskgroup is ended", "taskgroups are ended"), some(end.map(called))),
    evict.length ? h("li", { class: "warned" }, evicted(evict, beneficiary)) : null,
    line(counted(found.unplaced ?? 0, `taskgroup finds no place${now}`, `taskgroups find no place${now}`), ""),
    found.steps ? line(`This is the first of at least ${found.steps} steps; the whole update replaces ${counted(found.replaced, "taskgroup", "taskgroups")}`) : null,
  ];
  return [h("h3", {}, "Plan"), h("ul", {}, lines), found.message ? h("p", { class: "quiet" }, found.message) : null].filter(Boolean);
}

// The plan of a cordon or a drain for one agent.
export function agentPlan({ move, stay, pending, evict, daemonsets, unplanned }) {
  const moves = move.map(({ taskgroup, hostname, waits }) => `${called(taskgroup)} to ${hostname}${waits ? ` (waits at first: ${waits})` : ""}`);
  const lines = [
    move.length ? line(counted(move.length, "taskgroup finds a place elsewhere", "taskgroups find a place elsewhere"), some(moves)) : null,
    evict.length ? h("li", { class: "warned" }, evicted(evict, move.length === 1 ? called(move[0].taskgroup) : "the taskgroups that move")) : null,
    ...stay.slice(0, NAMED).map(({ taskgroup, reason }) => h("li", { class: "warned" }, `${called(taskgroup)} stays: ${reason}`)),
    stay.length > NAMED ? h("li", { class: "warned" }, counted(stay.length - NAMED, "more taskgroup stays", "more taskgroups stay")) : null,
    ...pending.map(({ application, taskgroups, reason }) => h("li", { class: "warned" }, `${counted(taskgroups, "waiting taskgroup")} of ${application} would find no place: ${reason}`)),
    daemonsets ? h("li", {}, `${counted(daemonsets, "taskgroup")} of daemonsets on the agent`) : null,
    unplanned ? h("li", { class: "warned" }, `${counted(unplanned, "more taskgroup is", "more taskgroups are")} beyond the limit of a plan`) : null,
  ].filter(Boolean);
  return lines.length ? h("ul", {}, lines) : null;
}
