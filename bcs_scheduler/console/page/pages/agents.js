// The cluster: a map with every agent as a tile, and the same agents as a table.

import { agentName, here, keep, to } from "../address.js";
import { badge, command, counted, fill, h, renew } from "../dom.js";
import { calm, select, text, tick, words } from "../parts/forms.js";
import { allocation, STATES, stateOf, used } from "../parts/map/draw.js";
import { attribute, groupings, layout } from "../parts/map/layout.js";
import { MapView } from "../parts/map/view.js";
import { amount, capacity } from "../parts/meter.js";
import { Usage } from "../parts/usage.js";
import { order, table } from "../tables.js";

const ROWS = 100;
const FEW = 300;
const PAUSE = 1000;
const SHOW = [["most", "Fullest resource"], ["cpu", "CPU"], ["mem", "Memory"], ["disk", "Disk"]];
const TONES = ["good", "neutral", "busy", "bad"];

export function agents(place, { store, rights }) {
  if (rights.namespaces !== null) {
    place.append(h("h1", {}, "Cluster"), h("p", {}, "Agents are shown to viewers of all namespaces."));
    return () => {};
  }
  const set = { by: null, show: "most", search: "", use: "", ...here().filters };
  if (!SHOW.some(([key]) => key === set.show)) set.show = "most";
  const map = new MapView({ choose: told, open: (tile) => (location.hash = to.agent(agentName(tile.agent))) });
  const bar = h("div", { class: "fields" });
  const count = h("p", { class: "quiet", role: "status" });
  const card = h("div", { class: "card chosen", "aria-live": "polite" });
  const list = h("div", {});
  const usage = new Usage(() => measured());
  const button = (label, words, act) => h("button", { type: "button", class: "small", "aria-label": label, title: label, "data-key": label, onclick: act }, words);
  const zoom = h("div", { class: "zoom" }, button("Zoom in", "+", () => map.zoom(1.4)), button("Zoom out", "−", () => map.zoom(1 / 1.4)), button("Show all", "All", () => map.fit()));
  place.append(h("h1", {}, "Cluster"), bar, count, h("div", { class: "split" }, h("div", { class: "stage" }, map.element, zoom, card, legend(), map.help), list), command("bcs get agents"));
  place.classList.add("wide");
  map.element.addEventListener("resized", () => arrange());
  let [byChoices, shown, known] = [null, [], new Map()];
  const rows = calm(drawTable, PAUSE);

  const change = (name) => (value) => {
    set[name] = value;
    keep({ [name]: name === "show" && value === "most" ? "" : value });
    if (name === "by") arrange();
    else refresh();
    drawTable();
  };

  function controls(all) {
    const found = groupings(all);
    const key = found.join();
    if (key === byChoices) return;
    byChoices = key;
    if (set.by === null) set.by = found.includes("zone") ? "zone" : "";
    if (set.by && !found.includes(set.by)) set.by = "";
    if (!set.use) set.use = all.length <= FEW ? "yes" : "no";
    fill(
      bar,
      select("by", "Group by", [["", "nothing"], ...found.map((name) => [name, name])], set.by, change("by")),
      select("show", "Fill shows", SHOW, set.show, change("show")),
      text("search", "Find", set.search, change("search"), "name, address, attribute or state"),
      tick("use", "Measured use", set.use === "yes", (on) => {
        change("use")(on ? "yes" : "no");
        measure();
      }),
    );
    measure();
  }

  function measure() {
    if (set.use === "yes" && store.live) usage.start();
    else usage.stop();
    measured();
  }

  function measured() {
    for (const tile of map.plan.tiles) tile.used = used(usage.found.get(tile.agent.id), set.show);
    map.changed();
    told(map.chosen);
  }

  function update() {
    const all = store.tables.agent;
    let same = all.size === known.size && list.firstChild;
    for (const [key, agent] of all) {
      if (known.get(key) === agent) continue;
      const tile = known.has(key) && map.plan.tiles[places.get(key)];
      if (!tile || (set.by && attribute(agent, set.by) !== tile.box.name)) same = false;
      else paint(tile, agent);
      known.set(key, agent);
      if (tile && tile === map.chosen) told(tile);
    }
    if (!same) arrange();
    else map.changed();
    rows();
  }

  let places = new Map();
  function arrange() {
    const all = store.all("agent");
    if (!store.complete) return;
    known = new Map(store.tables.agent);
    controls(all);
    const plan = layout(all, set.by, map.aspect);
    places = new Map();
    plan.tiles.forEach((tile, i) => {
      places.set(tile.agent.id || tile.agent.key, i);
      paint(tile, tile.agent);
    });
    map.show(plan);
    refresh();
    told(map.chosen);
    if (!list.firstChild) drawTable();
  }

  function paint(tile, agent) {
    tile.agent = agent;
    tile.state = stateOf(agent);
    tile.allocated = allocation(agent, set.show);
    tile.used = used(usage.found.get(agent.id), set.show);
  }

  function refresh() {
    for (const tile of map.plan.tiles) paint(tile, tile.agent);
    const test = search(set.search);
    map.matches = test ? new Set(map.plan.tiles.filter((tile) => test(tile.agent))) : null;
    map.changed();
  }

  function told(tile) {
    const agent = tile?.agent;
    card.hidden = !agent;
    if (!agent) return;
    const use = usage.found.get(agent.id)?.used;
    renew(
      card,
      h("p", { class: "between" }, h("strong", {}, agent.hostname || agent.key), h("span", { class: `badge ${TONES[stateOf(agent)]}` }, STATES[stateOf(agent)])),
      set.by ? h("p", { class: "quiet" }, `${set.by}: ${attribute(agent, set.by)}`) : null,
      capacity("CPU", "cores", agent.cpuused, agent.cputotal, use?.cpus),
      capacity("Memory", "MB", agent.memused, agent.memtotal, use?.mem),
      capacity("Disk", "MB", agent.diskused, agent.disktotal, use?.disk),
      h("p", { class: "between" }, h("span", {}, counted(agent.taskgroups, "taskgroup")), h("a", { href: to.agent(agentName(agent)), "data-key": "open" }, "Open the agent")),
    );
  }

  function drawTable() {
    const test = search(set.search);
    const all = store.all("agent");
    shown = test ? all.filter(test) : all;
    const name = (agent) => agent.hostname || agent.key;
    shown.sort((a, b) => order(name(a), name(b)));
    const number = test ? `${shown.length} of ${counted(all.length, "agent")}` : counted(all.length, "agent");
    const kept = shown.length > ROWS ? `, the table has the first ${ROWS}` : "";
    const states = STATES.map((state, i) => [state, all.filter((agent) => stateOf(agent) === i).length]).filter(([state, number]) => number && state !== "in use");
    count.textContent = `${number}${kept}${states.map(([state, number]) => ` · ${number} ${state}`).join("")}`;
    const columns = [
      { head: "Name", cell: (agent) => h("a", { href: to.agent(agentName(agent)), "data-key": agent.id || agent.key }, name(agent)), by: name },
      { head: "State", cell: (agent) => badge(STATES[stateOf(agent)], TONES[stateOf(agent)]), by: stateOf, down: true },
      { head: "Allocated", cell: (agent) => `${Math.round(100 * allocation(agent, set.show))} %`, by: (agent) => allocation(agent, set.show), down: true },
      { head: "Taskgroups", cell: (agent) => String(agent.taskgroups), by: (agent) => agent.taskgroups, down: true },
      { head: "Resources", cell: (agent) => `${amount(agent.cpuused)} of ${amount(agent.cputotal)} cores, ${amount(agent.memused)} of ${amount(agent.memtotal)} MB`, by: (agent) => agent.cputotal, down: true },
    ];
    renew(list, table("Agents", columns, shown, "There are no agents here.", { id: "", most: ROWS }));
  }

  const live = () => measure();
  store.addEventListener("state", live);
  update.leave = () => {
    store.removeEventListener("state", live);
    rows.stop();
    usage.stop();
    map.stop();
  };
  card.hidden = true;
  return update;
}

function search(given) {
  if (!given.trim()) return null;
  const fits = words(given);
  return (agent) => {
    const attributes = agent.attributes.map(({ name }) => `${name}=${attribute(agent, name)}`).join(" ");
    const taints = Object.entries(agent.taints).map(([name, value]) => `${name}=${value}`).join(" ");
    return fits(`${agent.hostname} ${agent.ip} ${agent.key} ${agent.id} ${STATES[stateOf(agent)]} ${attributes} ${taints}`);
  };
}

function legend() {
  const item = (kind, words) => h("li", {}, h("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), words);
  return h("ul", { class: "legend", "aria-label": "Legend" }, item("allocated", "allocated"), item("used", "measured use"), item("cordoned", "cordoned"), item("draining", "draining"), item("away", "away"));
}
