// What needs attention first; then capacity and use over the last hour.

import { agentName, to } from "../address.js";
import { caller, figures, get, part } from "../api.js";
import { badge, counted, h, renew } from "../dom.js";
import { chart } from "../parts/chart.js";
import { halted, reasonOf } from "../parts/deployments.js";

const EVERY = 10000;
const SELDOM = 60000;
const SHOWN = 50;
const LATE = 10000;
const EXPLAINED = 10;

export function overview(place, { store, rights }) {
  const list = h("div", {});
  const sums = h("div", { class: "tiles" });
  const charts = h("div", { class: "charts" });
  place.append(h("h1", {}, "Overview"), sums, h("h2", {}, "Needs attention"), list, h("h2", {}, "Last hour"), charts);
  const asked = new Map();
  let spaces = [];
  let stopped = rights.halts ?? [];
  const halting = setInterval(loadHalts, EVERY);
  const timer = rights.namespaces === null ? setInterval(load, EVERY) : 0;

  async function load() {
    const samples = await figures().catch(() => []);
    if (!samples.length) {
      renew(charts, h("p", { class: "quiet" }, "Figures are kept by the leader and are shown to viewers of all namespaces."));
      return;
    }
    renew(
      charts,
      chart("CPU", samples, (s) => s.cpusAllocated, (s) => s.cpusTotal, "cores"),
      chart("Memory", samples, (s) => s.memAllocated, (s) => s.memTotal, "MB"),
      chart("Taskgroups", samples, (s) => s.running, (s) => s.wanted, "running"),
    );
  }

  function update() {
    const found = [...halts(stopped), ...problems(store), ...spaces.flatMap(excesses)];
    explain(found);
    const more = found.length - SHOWN;
    renew(
      list,
      found.length ? h("ul", { class: "attention" }, found.slice(0, SHOWN).map(item)) : h("p", { class: "quiet" }, "Nothing needs attention."),
      more > 0 ? h("p", { class: "quiet" }, `and ${more} more`) : null,
    );
    const apps = store.all("application");
    const sum = (key) => apps.reduce((total, app) => total + app[key], 0);
    const agents = store.all("agent");
    renew(
      sums,
      tile("Applications", apps.length, "#/applications"),
      tile("Taskgroups running", `${sum("RunningInstances")} of ${sum("DefineInstances")}`),
      tile("Operations in progress", store.all("transaction").filter((t) => t.status === "INIT" || t.status === "QUEUED").length, "#/transactions"),
      rights.namespaces === null ? tile("Agents", `${agents.filter((a) => a.active).length} of ${agents.length}`, "#/agents") : null,
    );
  }

  // Halts of the whole cluster are no objects of the stream.
  async function loadHalts() {
    const answer = await caller().catch(() => null);
    if (!answer?.halts || left) return;
    stopped = answer.halts;
    if (store.complete) update();
  }

  async function loadSpaces() {
    spaces = await get("/namespaces").catch(() => spaces);
    if (store.complete && !left) update();
  }

  // Reads the reasons of the first problems again: the placement of taskgroups changes them without a change of an object.
  async function explain(found) {
    for (const app of found.slice(0, EXPLAINED).map((problem) => problem.app).filter(Boolean)) {
      const [namespace, name] = [app.ObjectMeta.namespace, app.Name];
      const key = `${namespace}/${name}`;
      if (Date.now() - (asked.get(key) ?? 0) < EVERY) continue;
      asked.set(key, Date.now());
      const answer = await get(`/namespaces/${part(namespace)}/applications/${part(name)}`).catch(() => null);
      if (left) return;
      if (!answer || answer.Reason === app.Reason) continue;
      app.Reason = answer.Reason;
      update();
    }
  }

  let left = false;
  const clock = setInterval(() => store.complete && update(), LATE);
  const seldom = setInterval(loadSpaces, SELDOM);
  load();
  loadSpaces();
  loadHalts();
  update.leave = () => {
    left = true;
    [timer, clock, seldom, halting].forEach(clearInterval);
  };
  return update;
}

function tile(title, value, address) {
  const inside = [h("span", { class: "quiet" }, title), h("strong", {}, String(value))];
  return address ? h("a", { class: "card tile", href: address, "data-key": title }, inside) : h("div", { class: "card tile" }, inside);
}

function item(problem) {
  const name = problem.address ? h("a", { href: problem.address, "data-key": problem.address + problem.label }, problem.name) : h("span", {}, problem.name);
  return h("li", {}, badge(problem.label, problem.tone), name, h("span", { class: "why" }, problem.why));
}

// What an operator must decide before the scheduler goes on.
const HALTS = { unknown_tasks: "Launches halted", large_loss: "Replacements halted" };

export const halts = (stopped) =>
  stopped.map(({ code, words }) => ({ order: -1, label: HALTS[code] ?? "Halted", tone: "bad", name: "cluster", why: words }));

// Work with more priority than its namespace allows: it is kept, and an admin decides.
export function excesses(space) {
  const name = space.metadata.name;
  return space.status.excess.map((one) => ({
    order: 4, label: "Priority", tone: "busy", name: `${one.kind} ${name}/${one.name}`,
    address: one.kind === "deployment" ? to.deployment(name, one.name) : `#/applications/${part(name)}/${part(one.name)}`,
    why: `priority ${one.priority}; the greatest of namespace ${name} is ${space.status.maxPriority}`,
  }));
}

// The most urgent first: failing, pending, stuck, agents.
export function problems(store) {
  const found = [];
  const now = Date.now();
  for (const app of store.all("application")) {
    const address = `#/applications/${part(app.ObjectMeta.namespace)}/${part(app.Name)}`;
    const name = `${app.ObjectMeta.namespace}/${app.Name}`;
    if (app.Status === "Error" || app.Status === "Abnormal") {
      found.push({ order: 0, label: app.Status === "Error" ? "Error" : "Failing", tone: "bad", name, address, app, why: app.Reason || app.Message });
    } else if (app.Status === "Pending") {
      found.push({ order: 1, label: "Pending", tone: "busy", name, address, app, why: app.Reason || app.Message });
    }
  }
  for (const deployment of store.all("deployment")) {
    if (!halted(deployment)) continue;
    const name = `${deployment.metadata.namespace}/${deployment.metadata.name}`;
    const address = to.deployment(deployment.metadata.namespace, deployment.metadata.name);
    found.push({ order: 2, label: deployment.status, tone: "busy", name: `deployment ${name}`, address, why: reasonOf(deployment) });
  }
  for (const transaction of store.all("transaction")) {
    if (transaction.status !== "INIT" || transaction.remaining === 0) continue;
    const name = `${transaction.namespace}/${transaction.objectName}`;
    const paths = [transaction.namespace, transaction.objectName].map(part);
    const address = `#/applications/${paths.join("/")}`;
    const overdue = transaction.deadline && Date.parse(transaction.deadline) < now;
    if (!overdue && now - Date.parse(transaction.createTime) < LATE) continue;
    if (found.some((problem) => problem.address === address)) continue;
    const app = store.one("application", name);
    const why = app?.Reason || `${transaction.type}: ${transaction.remaining} of ${counted(transaction.target, "taskgroup")} ${transaction.remaining === 1 ? "remains" : "remain"}`;
    found.push({ order: overdue ? 0 : 1, label: overdue ? "Stuck" : "Waiting", tone: overdue ? "bad" : "busy", name, address, app, why });
  }
  for (const agent of store.all("agent")) {
    const [name, address] = [agent.hostname || agent.key, to.agent(agentName(agent))];
    if (!agent.active) found.push({ order: 3, label: "Agent away", tone: "bad", name, address, why: `not registered with the Mesos master; ${counted(agent.taskgroups, "taskgroup")}` });
    else if (agent.drain === "failed") found.push({ order: 3, label: "Drain failed", tone: "bad", name, address, why: agent.drain_message || counted(agent.taskgroups, "taskgroup is left", "taskgroups are left") });
    else if (agent.drain_message) found.push({ order: 2, label: "Drain blocked", tone: "busy", name, address, why: agent.drain_message });
  }
  return found.sort((a, b) => a.order - b.order || a.name.localeCompare(b.name));
}
