// One application: taskgroups, health, events, the causes of what is missing, and the operations on it.

import { to } from "../address.js";
import { get, part } from "../api.js";
import { age, badge, command, counted, h, quoted, renew } from "../dom.js";
import { rollBack, scale, update as change } from "../parts/actions.js";
import { buttonsFor } from "../parts/taskgroups.js";
import { endpoints } from "../parts/endpoints.js";
import { logs } from "../parts/logs.js";
import { events as history, reading, taskgroups, unread } from "../parts/rows.js";
import { stored as storedAt, versions } from "../parts/versions.js";
import { whatIf } from "../parts/whatif.js";

const GATHER = 400;
const TASKGROUPS = 200;
const ENDPOINTS = 500;

export function application(place, { store, rights, mayChange }, namespace, name) {
  const [top, why, groups, places, events] = [0, 1, 2, 3, 4].map(() => h("section", {}));
  const problem = h("p", { class: "problem", role: "alert" });
  const key = `${namespace}/${name}`;
  const base = `/namespaces/${part(namespace)}/applications/${part(name)}`;
  const stored = versions(base);
  const output = logs(namespace);
  const changes = whatIf(namespace, name);
  const parts = h("div", { hidden: true }, changes.element, groups, places, output.element, stored.element, events);
  place.append(top, problem, why, parts);
  let shown = null;
  let timer = 0;
  let left = false;

  const act = (action) => () => Promise.resolve(action(shown)).catch((error) => (problem.textContent = error.message));

  function update() {
    const app = store.one("application", key);
    if (!app) {
      shown = null;
      renew(top, h("h1", {}, name), h("p", {}, `The namespace ${namespace} has no application of this name.`));
      renew(why);
      parts.hidden = true;
      return;
    }
    if (app === shown) return;
    shown = app;
    parts.hidden = false;
    head(app);
    if (!timer) timer = setTimeout(load, groups.firstChild ? GATHER : 0);
    reading(groups);
  }

  // The buttons are those that the scheduler accepts now.
  function head(app) {
    const deleting = store.all("transaction").some((one) => one.type === "DELETE" && !one.finishTime && one.namespace === namespace && one.objectName === name);
    const choices = app.kind === "daemonset" || app.Deployment || deleting ? [] : [["Scale", scale], ["Update", change], stored.several() && ["Roll back", rollBack]];
    const buttons = choices.filter(Boolean).map(([text, action]) => h("button", { type: "button", "data-key": text, onclick: act(action) }, text));
    renew(
      top,
      h("h1", {}, name, " ", badge(app.Status)),
      h("p", { class: "quiet" }, `${namespace} · ${app.RunningInstances} of ${app.DefineInstances} running · definition of ${storedAt(app.Version)} · ${age(app.Created)} old`),
      app.Message ? h("p", {}, app.Message) : null,
      mayChange(namespace) && buttons.length ? h("div", { class: "buttons acts" }, buttons) : null,
      app.Deployment ? h("p", { class: "quiet" }, "The deployment ", h("a", { href: to.deployment(namespace, app.Deployment), "data-key": "deployment" }, app.Deployment), " changes this application.") : null,
      command(`bcs describe app ${quoted(name)} -n ${quoted(namespace)}`),
    );
  }

  async function load() {
    timer = 0;
    const ask = (path) => get(path).catch(() => null);
    const [explained, found, served, told] = await Promise.all([
      ask(`${base}/explain`),
      ask(`${base}/taskgroups?limit=${TASKGROUPS}`),
      ask(`/namespaces/${part(namespace)}/endpoints?limit=${ENDPOINTS}`),
      ask(`/namespaces/${part(namespace)}/events?owner=${part(name)}&last=30`),
      stored.load(),
    ]);
    if (left || !shown) return;
    head(shown);
    if (explained) renew(why, ...explanation(explained));
    if (explained) changes.show(shown, rights.scheduler.leads && shown.kind !== "daemonset" && explained.transactions.length > 0);
    if (found) renew(groups, h("h2", {}, "Taskgroups"), taskgroups(found, { store, actions: mayChange(namespace) ? buttonsFor(store) : null }));
    else unread(groups);
    if (found) output.show(found);
    if (served) renew(places, h("h2", {}, "Endpoints"), endpoints(served, name));
    if (told) renew(events, h("h2", {}, "Events"), history(told), h("p", {}, h("a", { href: to.events({ namespace, owner: name }), "data-key": "all events" }, "All events of this application")));
  }

  update.again = () => {
    shown = null;
    update();
  };
  update.leave = () => {
    left = true;
    stored.stop();
    changes.stop();
    output.stop();
    clearTimeout(timer);
  };
  return update;
}

function explanation(found) {
  const parts = found.text.length ? [h("h2", {}, "Explanation"), h("ul", {}, found.text.map((line) => h("li", {}, line)))] : [];
  for (const operation of found.transactions) {
    const placing = operation.placing;
    if (!placing?.reasons.length) continue;
    parts.push(h("h3", {}, `Agents by the first test that they fail (${counted(placing.agents, "agent")}, ${counted(placing.wanted, "taskgroup waits", "taskgroups wait")})`));
    parts.push(
      h(
        "ul",
        { class: "bars" },
        placing.reasons.map(({ reason, agents }) => {
          const bar = h("span", { class: "fill" });
          bar.style.setProperty("width", `${(100 * agents) / Math.max(1, placing.agents)}%`);
          return h("li", {}, h("span", {}, reason), h("span", { class: "track", "aria-hidden": "true" }, bar), h("strong", {}, String(agents)));
        }),
      ),
    );
  }
  return parts;
}
