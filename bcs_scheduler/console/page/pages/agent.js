// One agent: capacity, what runs there, cordon, uncordon and drain with its progress.

import { get, part } from "../api.js";
import { to } from "../address.js";
import { age, badge, command, counted, h, quoted, renew } from "../dom.js";
import { buttonsFor } from "../parts/taskgroups.js";
import { dialog } from "../parts/dialog.js";
import { agentPlan } from "../parts/plans.js";
import { STATES, stateOf } from "../parts/map/draw.js";
import { attribute } from "../parts/map/layout.js";
import { capacity, meter } from "../parts/meter.js";
import { events, taskgroups } from "../parts/rows.js";
import { table } from "../tables.js";

const GATHER = 300;
const EVERY = 5000;
const MOST = 500;
const BLOCKED = [{ head: "Taskgroup", cell: ({ taskgroup }) => taskgroup }, { head: "Reason", cell: ({ reason }) => h("span", { class: "why" }, reason) }];
const TONES = ["good", "neutral", "busy", "bad"];

export function agent(place, { store, mayChange, mayManage, rights }, name) {
  if (rights.namespaces !== null) {
    place.append(h("h1", {}, name), h("p", {}, "Agents are shown to viewers of all namespaces."));
    return () => {};
  }
  const [top, draining, groups, told] = [0, 1, 2, 3].map(() => h("section", {}));
  place.append(top, draining, groups, told);
  let [shown, use, timer, left, most] = [null, null, 0, false, 0];
  const clock = setInterval(() => shown && load(), EVERY);

  function update() {
    const found = named(store, name);
    if (found === shown && found) return;
    shown = found;
    if (!found) {
      renew(top, h("h1", {}, name), h("p", {}, "The cluster has no agent of this name."), h("p", {}, h("a", { href: "#/agents" }, "All agents")));
      for (const section of [draining, groups, told]) renew(section);
      return;
    }
    head();
    timer ||= setTimeout(load, GATHER);
  }

  function head() {
    const found = shown;
    const state = stateOf(found);
    const facts = [
      ["Key", found.key],
      ["Id", found.id],
      ["Address", found.ip],
      ["Registered", found.registered_time ? `${age(found.registered_time / 1e9)} ago` : ""],
      ["Attributes", found.attributes.map((one) => `${one.name}=${attribute(found, one.name)}`).join(", ")],
      ["Taints", Object.entries(found.taints).map(([key, value]) => `${key}=${value}`).join(", ")],
    ].filter(([, value]) => value);
    const used = use?.agent?.used;
    const button = (text, act) => h("button", { type: "button", "data-key": text, onclick: () => act(found) }, text);
    // An agent that is away takes no taskgroups; its settings can be lifted.
    const choices = [
      found.disabled || found.drain ? button("Uncordon", uncordon) : found.active && button("Cordon", cordon),
      found.active && found.drain !== "draining" && button("Drain", drain),
    ];
    renew(
      top,
      h("h1", {}, found.hostname || found.key, " ", badge(STATES[state], TONES[state]), found.drain && found.drain !== "draining" ? [" ", badge(found.drain, found.drain === "failed" ? "bad" : "good")] : null),
      h("dl", { class: "facts" }, facts.map(([key, value]) => h("div", {}, h("dt", {}, key), h("dd", {}, value)))),
      mayManage ? h("div", { class: "buttons acts" }, choices) : null,
      h(
        "div",
        { class: "card meters" },
        capacity("CPU", "cores", found.cpuused, found.cputotal, used?.cpus),
        capacity("Memory", "MB", found.memused, found.memtotal, used?.mem),
        capacity("Disk", "MB", found.diskused, found.disktotal, used?.disk),
        found.gputotal ? capacity("GPU", "GPUs", found.gpuused, found.gputotal, null) : null,
      ),
      command(`bcs describe agent ${quoted(found.key || found.id)}`),
    );
  }

  async function load() {
    timer = 0;
    const { id, key, drain: phase } = shown;
    const ask = (path) => get(path).catch(() => null);
    const measured = store.live && id ? [ask(`/usage/agents?agent=${part(id)}`), ask(`/usage/taskgroups?agent=${part(id)}&limit=${MOST}`)] : [];
    const [found, happened, progress] = await Promise.all([
      id ? ask(`/taskgroups?agent=${part(id)}&limit=${MOST}`) : [],
      ask(`/events?kind=agent&name=${part(key)}&last=30`),
      phase ? ask("/agentsettings/drain") : null,  // not by name: a drain that has just ended is no error
    ]);
    if (left || !shown) return;
    const mine = progress?.find((drain) => drain.innerIP === key);
    renew(draining, mine ? drained(mine) : null);
    if (found) renew(groups, h("h2", {}, "Taskgroups"), taskgroups(found, { owner: true, use: use?.groups, actions: actions(found), empty: "No taskgroup runs here." }));
    if (happened) renew(told, h("h2", {}, "Events"), events(happened), h("p", {}, h("a", { href: to.events({ kind: "agent", name: key }) }, "All events of this agent")));
    if (!measured.length) return;
    const [agents, used] = await Promise.all(measured);
    if (left || !shown) return;
    use = { agent: agents?.[0], groups: new Map((used ?? []).map((group) => [group.id, group])) };
    head();
    if (found) renew(groups, h("h2", {}, "Taskgroups"), taskgroups(found, { owner: true, use: use.groups, actions: actions(found), empty: "No taskgroup runs here." }));
  }

  const actions = (found) => (found.some((group) => mayChange(group.RunAs)) ? buttonsFor(store) : null);

  function drained(found) {
    most = Math.max(most, found.left);
    const done = most ? (most - found.left) / most : 1;
    const words = found.done ? `ended ${age(found.done)} ago` : `${counted(found.left, "taskgroup is left", "taskgroups are left")}, ${found.moving.length} on the way`;
    const limit = found.deadline && !found.done ? ` · fails at ${new Date(found.deadline).toLocaleTimeString()}` : "";
    return [
      h("h2", {}, "Drain ", badge(found.state, { drained: "good", failed: "bad" }[found.state])),
      meter(`since ${age(found.since)} · at most ${found.atOnce} at a time${limit}`, [[done, "allocated"]], words),
      found.message ? h("p", {}, found.message) : null,
      found.daemonsets ? h("p", { class: "quiet" }, `${counted(found.daemonsets, "taskgroup")} of daemonsets ${after(found)}.`) : null,
      found.blocked.length ? table("Taskgroups that must stay for now", BLOCKED, found.blocked, "") : null,
    ];
  }

  update.again = () => {
    shown = null;
    update();
  };
  update.leave = () => {
    left = true;
    clearTimeout(timer);
    clearInterval(clock);
  };
  return update;
}

// By id, then by key, host name or address; agents that are registered come first.
function named(store, name) {
  const exact = store.one("agent", name);
  if (exact) return exact;
  const found = store.all("agent").filter((one) => [one.key, one.hostname, one.ip].includes(name));
  return found.find((one) => one.active && one.key === name) ?? found.find((one) => one.active) ?? found[0] ?? null;
}

// What happens to the taskgroups of daemonsets.
function after(found) {
  if (found.endDaemonsets) return found.daemonsets === 1 ? "ends after the others" : "end after the others";
  return found.daemonsets === 1 ? "stays" : "stay";
}

const target = (found) => found.key || found.id;

function cordon(found) {
  dialog({
    title: `Cordon ${found.hostname || target(found)}`,
    fields: h("p", {}, "No new taskgroups are placed on the agent. The running taskgroups stay."),
    request: () => ["POST", `/agentsettings/disable?ips=${part(target(found))}`],
    command: () => `bcs cordon ${quoted(target(found))}`,
    planned: checked(found, () => `The agent takes no new taskgroups. ${counted(found.taskgroups, "taskgroup stays", "taskgroups stay")} there.`),
  });
}

function uncordon(found) {
  dialog({
    title: `Uncordon ${found.hostname || target(found)}`,
    fields: h("p", {}, "Taskgroups are placed on the agent again. A drain ends."),
    request: () => ["POST", `/agentsettings/enable?ips=${part(target(found))}`],
    command: () => `bcs uncordon ${quoted(target(found))}`,
    planned: checked(found, () => `The agent takes taskgroups again.${found.drain === "draining" ? " The drain ends; moved taskgroups do not return." : ""}`),
  });
}

function drain(found) {
  const parallel = h("input", { id: "parallel", type: "number", min: "1", max: "1000", required: true, value: "1" });
  const minutes = h("input", { id: "minutes", type: "number", min: "1", max: "43200", placeholder: "no limit" });
  const daemonsets = h("input", { id: "daemonsets", type: "checkbox" });
  const query = () =>
    [`ips=${part(target(found))}`, `atOnce=${part(parallel.value)}`, minutes.value ? `timeoutSeconds=${60 * minutes.value}` : "", daemonsets.checked ? "daemonsets=true" : ""].filter(Boolean).join("&");
  dialog({
    title: `Drain ${found.hostname || target(found)}`,
    fields: [
      h("p", {}, "The agent is cordoned. Its taskgroups move to other agents, within the disruption budgets of their applications."),
      h("label", { for: "parallel" }, "Taskgroups that move at a time"),
      parallel,
      h("label", { for: "minutes" }, "Time limit in minutes"),
      minutes,
      h("div", { class: "field tick" }, daemonsets, h("label", { for: "daemonsets" }, "End the taskgroups of daemonsets too")),
    ],
    request: () => ["POST", `/agentsettings/drain?${query()}`],
    command: () =>
      ["bcs drain", quoted(target(found)), parallel.value === "1" ? "" : `--parallel ${parallel.value}`, minutes.value ? `--timeout ${minutes.value}m` : "", daemonsets.checked ? "--daemonsets" : ""].filter(Boolean).join(" "),
    planned: checked(found, () => `${counted(found.taskgroups, "taskgroup runs", "taskgroups run")} there, at most ${parallel.value} of them move at a time.`),
  });
}

// The answer of a dry run has a result for each agent, and the plan if the scheduler makes one.
function checked(found, words) {
  return (results) => {
    const known = Array.isArray(results) ? results : [];
    const plans = known.map((result) => result.plan).filter(Boolean);
    return [
      h("h3", {}, "Plan"),
      h("p", {}, words()),
      ...known.filter((result) => result.listed === false).map((result) => h("p", { class: "quiet" }, result.message)),
      ...plans.map(agentPlan).filter(Boolean),
    ];
  };
}
