// Parts of tables of queues.

import { badge, h } from "../dom.js";
import { amount } from "./meter.js";

const AMOUNTS = [["cpus", "CPU", "cores"], ["mem", "Memory", "MB"], ["disk", "Disk", "MB"], ["gpus", "GPU", "GPUs"]];

// The name of a queue below its parents. `label`: the part of the name that is shown.
export function indented(label, name, depth) {
  const title = h("span", { class: "indent" }, h("strong", {}, label));
  title.style.setProperty("padding-left", `${1.4 * depth}rem`);
  if (label !== name) title.setAttribute("title", name);
  return title;
}

// Taskgroups that wait, by the code of the reason.
export function pendingBy(pending = {}) {
  const found = Object.entries(pending);
  if (!found.length) return "";
  return h("ul", { class: "plainlist" }, found.map(([reason, number]) => h("li", {}, badge(String(number), "busy"), ` ${reason.replaceAll("_", " ")}`)));
}

// The number of taskgroups that wait.
export const waitingOf = (pending = {}) => Object.values(pending).reduce((sum, number) => sum + number, 0);

// The resources of a queue. `guarantee`, `most`, `used`, `deserved`, `total`: amounts by resource, or nothing if they are
// unknown. `total`: of the whole cluster.
export function amounts(queue) {
  const known = new Set(AMOUNTS.map(([key]) => key));
  const named = [queue.guarantee, queue.most, queue.used, queue.deserved].flatMap((each) => Object.keys(each ?? {}));
  const extended = [...new Set(named)].filter((name) => !known.has(name)).sort();
  return h("div", { class: "amounts" }, [...AMOUNTS, ...extended.map((name) => [name, name, ""])].map((one) => figures(queue, one)).filter(Boolean));
}

// A bar from nothing to the maximum (without one: to the whole cluster), with marks for guarantee and deserved share.
function figures(queue, [key, title, unit]) {
  const used = queue.used?.[key] ?? 0;
  const guarantee = queue.guarantee?.[key] ?? 0;
  const most = queue.most?.[key];
  const deserved = queue.deserved?.[key];
  const whole = queue.total?.[key] ?? 0;
  if (!used && !guarantee && most === undefined && key !== "cpus" && key !== "mem") return null;
  const end = Math.max(most ?? whole, used, guarantee, 1e-9);
  const track = h("span", { class: "stacked thin", "aria-hidden": "true" });
  const add = (kind, name, value) => {
    const part = h("span", { class: kind });
    part.style.setProperty(name, `${Math.min(100, (100 * value) / end)}%`);
    track.append(part);
  };
  add(used > (deserved ?? Infinity) ? "over" : "ready", "width", used);
  if (guarantee) add("least", "left", guarantee);
  if (deserved) add("deserved", "left", deserved);
  const words = [
    `${amount(used)} ${unit ? `${unit} ` : ""}used`,
    guarantee ? `${amount(guarantee)} guaranteed` : "",
    deserved === undefined || deserved === null ? "" : `${amount(deserved)} deserved`,
    most === undefined ? "no maximum" : `at most ${amount(most)}`,
  ].filter(Boolean);
  return h("div", { class: "amount" }, h("span", {}, title), track, h("span", { class: "quiet small" }, words.join(", ")));
}
