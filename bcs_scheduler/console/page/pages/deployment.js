// One deployment: the rolling update as it goes, its budget, revisions, taskgroups and events.

import { get, part } from "../api.js";
import { to } from "../address.js";
import { age, badge, command, h, quoted, renew } from "../dom.js";
import { halted, updating } from "../parts/deployments.js";
import { events, reading, taskgroups, unread } from "../parts/rows.js";
import { buttonsFor } from "../parts/taskgroups.js";
import { table } from "../tables.js";
import * as steer from "../parts/steering.js";

const GATHER = 300;
const MOST = 200;

export function deployment(place, { store, mayChange }, namespace, name) {
  const [top, rollout, groups, history, told] = [0, 1, 2, 3, 4].map(() => h("section", {}));
  const problem = h("p", { class: "problem", role: "alert" });
  place.append(top, problem, rollout, groups, history, told);
  const base = `/namespaces/${part(namespace)}/deployments/${part(name)}`;
  let [shown, timer, left, several] = [null, 0, false, false];

  const act = (action) => () => Promise.resolve(action(shown)).catch((error) => (problem.textContent = error.message));

  function update() {
    const found = store.one("deployment", `${namespace}/${name}`);
    if (!found) {
      shown = null;
      renew(top, h("h1", {}, name), h("p", {}, `The namespace ${namespace} has no deployment of this name.`));
      for (const section of [rollout, groups, history, told]) renew(section);
      return;
    }
    if (found === shown) return;
    shown = found;
    head(found);
    timer ||= setTimeout(load, groups.firstChild ? GATHER : 0);
    reading(groups);
  }

  // The buttons are those that the scheduler accepts in the present status.
  function head(found) {
    const rolls = updating(found);
    const choices = {
      Deploying: [["Update", steer.update], ["Scale", steer.scale]],
      Running: [["Update", steer.update], ["Scale", steer.scale], several && ["Roll back", steer.rollBack], ["Replace", steer.replace]],
    }[found.status] ?? (rolls ? [halted(found) || found.pausing ? ["Resume", steer.resume] : ["Pause", steer.pause], !found.rollingBack && ["Undo", steer.undo]] : []);
    const buttons = choices.filter(Boolean).map(([text, action]) => h("button", { type: "button", "data-key": text, onclick: act(action) }, text));
    renew(
      top,
      h("h1", {}, name, " ", badge(found.status)),
      h("p", { class: "quiet" }, `${namespace} · ${found.counts.ready} of ${found.instances} ready · revision ${found.revision} · ${age(found.createTime)} old`),
      found.message ? h("p", {}, found.message) : null,
      found.pausing ? h("p", {}, "The update pauses after its present step.") : null,
      mayChange(namespace) && buttons.length ? h("div", { class: "buttons acts" }, buttons) : null,
      command(rolls ? `bcs rollout status ${quoted(name)} -n ${quoted(namespace)}` : `bcs describe deployment ${quoted(name)} -n ${quoted(namespace)}`),
    );
    renew(rollout, ...progress(found, rolls));
  }

  async function load() {
    timer = 0;
    const ask = (path) => get(path).catch(() => null);
    const [running, revisions, happened] = await Promise.all([
      ask(`${base}/taskgroups?limit=${MOST}`),
      ask(`${base}/revisions`),
      ask(`/namespaces/${part(namespace)}/events?owner=${part(name)}&last=30`),
    ]);
    if (left || !shown) return;
    if (running) renew(groups, h("h2", {}, "Taskgroups"), taskgroups(running, { store, actions: mayChange(namespace) ? buttonsFor(store) : null }));
    else unread(groups);
    if (revisions && several !== revisions.length > 1) {
      several = revisions.length > 1;
      head(shown);
    }
    if (revisions) renew(history, h("h2", {}, "Revisions"), table("Revisions", REVISIONS, [...revisions].reverse(), "There are no revisions."));
    if (happened) renew(told, h("h2", {}, "Events"), events(happened), h("p", {}, h("a", { href: to.events({ namespace, owner: name }) }, "All events of this deployment")));
  }

  update.again = () => {
    shown = null;
    update();
  };
  update.leave = () => {
    left = true;
    clearTimeout(timer);
  };
  return update;
}

function progress(found, rolls) {
  const { counts, instances } = found;
  const { maxUnavailable, maxSurge, rollingOrder, minReadySeconds, canary } = found.strategy.rollingupdate;
  const least = Math.max(0, instances - maxUnavailable);
  const most = instances + maxSurge;
  const width = Math.max(most, counts.present, 1);
  const spare = counts.available - least;
  const sides = [found.application, found.application_ext, ...(found.retiring ?? [])].filter(Boolean);
  const tiles = [
    ["Old", rolls ? counts.old : 0],
    ["New", rolls ? counts.new : counts.present],
    ["New and ready", rolls ? counts.newReady : counts.ready],
    ["Ready", `${counts.ready} of ${instances}`],
    ["Available", `${counts.available}, at least ${least}`],
    ["Present", `${counts.present}, at most ${most}`],
  ];
  const parts = rolls
    ? bars([["old", counts.old], ["ready", counts.newReady], ["new", counts.new - counts.newReady]], width)
    : bars([["ready", counts.ready], ["new", counts.present - counts.ready]], width);
  const words = rolls
    ? `step ${found.progress.step}: ${found.progress.done} of ${found.progress.total} updated${found.rollingBack ? ", undone" : ""}`
    : `${counts.ready} of ${instances} ready`;
  const settings = [
    `order ${rollingOrder}`,
    `at most ${maxUnavailable} unavailable`,
    `at most ${maxSurge} more`,
    minReadySeconds ? `ready for ${minReadySeconds} s` : "",
    canary ? `canary of ${canary.instances}` : "",
  ].filter(Boolean);
  return [
    h("h2", {}, rolls ? (found.rollingBack ? "Update, going back" : `Update to revision ${found.revision}`) : "State"),
    h("div", { class: "card rollout" }, h("div", { class: "between" }, h("span", {}, words), h("span", { class: "figure" }, `disruption budget: ${Math.max(0, spare)} left`)), stacked(parts, least / width, `${words}; old ${counts.old}, new ${counts.new}, ready ${counts.ready}`), legend(rolls), h("p", { class: "quiet small" }, settings.join(" · "))),
    h("div", { class: "tiles narrow" }, tiles.map(([title, value]) => h("div", { class: "card tile" }, h("span", { class: "quiet" }, title), h("strong", {}, String(value))))),
    rolls && sides.length > 1
      ? h("p", { class: "quiet" }, "Applications: ", ...sides.flatMap((side, i) => [i ? ", " : "", h("a", { href: to.application(found.namespace, side.name), "data-key": side.name }, side.name), ` (${side.CurrentRollingInstances} to ${side.curr_target_instances})`]))
      : null,
    h("ul", { class: "conditions" }, found.conditions.map((one) => h("li", {}, badge(one.type, { True: "good", False: "bad" }[one.status] ?? "busy"), " ", one.status, one.message ? `: ${one.message}` : ""))),
  ].filter(Boolean);
}

function bars(found, width) {
  let from = 0;
  return found.map(([kind, number]) => {
    const part = { kind, from: from / width, share: Math.max(0, number) / width };
    from += Math.max(0, number);
    return part;
  });
}

// A bar of parts, with a mark where the number of ready taskgroups must not fall below.
function stacked(parts, mark, words) {
  const track = h("div", { class: "stacked", role: "img", "aria-label": words });
  for (const { kind, from, share } of parts) {
    const fill = h("span", { class: kind });
    fill.style.setProperty("left", `${100 * from}%`);
    fill.style.setProperty("width", `${100 * share}%`);
    track.append(fill);
  }
  const line = h("span", { class: "least", title: "least number of available taskgroups" });
  line.style.setProperty("left", `${100 * mark}%`);
  track.append(line);
  return track;
}

function legend(rolls) {
  const item = (kind, words) => h("li", {}, h("span", { class: `swatch side-${kind}`, "aria-hidden": "true" }), words);
  return h("ul", { class: "legend" }, rolls ? item("old", "old") : null, item("ready", rolls ? "new and ready" : "ready"), item("new", rolls ? "new, not ready" : "not ready"), item("least", "least number available"));
}

const REVISIONS = [
  { head: "Revision", cell: (one) => String(one.revision), by: (one) => one.revision, down: true },
  { head: "State", cell: (one) => (one.current ? badge("wanted", "good") : "") },
  { head: "Taskgroups", cell: (one) => String(one.instances), by: (one) => one.instances, down: true },
  { head: "Age", cell: (one) => age(one.createTime), by: (one) => -Date.parse(one.createTime) },
  { head: "Reason", cell: (one) => h("span", { class: "why" }, one.why) },
];
