// Transactions as a timeline: one line each, from its begin to its verdict, within its time box.

import { here, keep, to } from "../address.js";
import { badge, command, counted, h, moment, quoted, renew } from "../dom.js";
import { calm, select, text, words } from "../parts/forms.js";
import { table } from "../tables.js";

const SHOWN = 200;
const PAUSE = 500;
const TICK = 1000;
const SPANS = [["300", "5 min"], ["900", "15 min"], ["3600", "1 h"], ["21600", "6 h"], ["86400", "1 d"], ["604800", "7 d"], ["all", ""]];
const STATUSES = ["INIT", "QUEUED", "FINISH", "FAIL", "TIMEOUT", "CANCEL", "SUPERSEDED"];
const MARKS = 4; // a narrow window has room for the texts of so many
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
const EDGE = 0.22; // the part of the axis that has no room for a label with seconds, or a date
const DAY = 86400;
const LEAST = 10000;

export function transactions(place, { store }) {
  const set = { search: "", status: "", span: "3600", id: "", ...here().filters };
  if (!SPANS.some(([key]) => key === set.span)) set.span = "3600";
  const list = h("div", {});
  const count = h("p", { class: "quiet", role: "status" });
  const detail = h("section", { "aria-live": "polite" });
  const change = (name, value) => {
    set[name] = value;
    keep({ [name]: name === "span" && value === "3600" ? "" : value });
    draw();
  };
  place.append(
    h("h1", {}, "Transactions"),
    h(
      "div",
      { class: "fields" },
      select("span", "Time", SPANS.map(([key, span]) => [key, span ? `last ${span}` : "all"]), set.span, (value) => change("span", value)),
      select("status", "Verdict", [["", "all"], ...STATUSES.map((status) => [status, status])], set.status, (value) => change("status", value)),
      text("search", "Find", set.search, (value) => change("search", value), "object, type, id"),
    ),
    count,
    detail,
    list,
    legend(),
    command("bcs get transactions -A"),
  );

  function draw() {
    const now = Date.now();
    const begin = set.span === "all" ? 0 : now - 1000 * Number(set.span);
    const fits = words(set.search);
    const found = store
      .all("transaction")
      .map((one) => ({ one, from: Date.parse(one.createTime), end: one.finishTime ? Date.parse(one.finishTime) : now, box: one.deadline ? Date.parse(one.deadline) : 0 }))
      .filter(({ one, end }) => (end >= begin || !one.finishTime) && (!set.status || one.status === set.status))
      .filter(({ one }) => fits(`${one.namespace}/${one.objectName} ${one.type} ${one.transactionID}`))
      .sort((a, b) => b.from - a.from);
    const running = found.filter(({ one }) => !one.finishTime).length;
    count.textContent = `${counted(found.length, "transaction")}, ${running} in progress${found.length > SHOWN ? `, the newest ${SHOWN} are shown` : ""}`;
    const shown = found.slice(0, SHOWN);
    const scale = fitted(shown, begin);
    const axis = h("div", { class: "axis", "aria-hidden": "true" });
    for (const at of marks(scale)) {
      const label = h("span", {}, written(at, scale));
      label.style.setProperty("left", `${position(at, scale)}%`);
      axis.append(label);
    }
    const late = ({ one, box }) => box && !one.finishTime && box < now;
    const columns = [
      { head: "Object", cell: named },
      { head: "Type", cell: opener, by: ({ one }) => one.type },
      { head: "Verdict", cell: (each) => badge(late(each) ? "overdue" : each.one.status, late(each) ? "bad" : undefined) },
      { head: "Progress", cell: ({ one }) => (one.target ? `${one.progress} of ${one.target}` : ""), by: ({ one }) => (one.target ? one.progress / one.target : "") },
      { head: "Duration", cell: ({ from, end }) => span(end - from), by: ({ from, end }) => end - from, down: true },
      { head: "Time", cell: (each) => lane(each, scale, late(each)), by: ({ from }) => from, down: true, more: axis },
    ];
    renew(list, table("Timeline of transactions", columns, shown, "There are no transactions in this time.", { id: "", kind: "timeline" }));
    tell();
  }

  const named = ({ one }) => {
    const object = one.objectKind === "deployment" ? to.deployment(one.namespace, one.objectName) : to.application(one.namespace, one.objectName);
    return h("a", { href: object, "data-key": `object ${one.transactionID}` }, `${one.namespace}/${one.objectName}`);
  };
  const opener = ({ one }) =>
    h("button", { type: "button", class: "plain link", "data-key": one.transactionID, "aria-expanded": String(set.id === one.transactionID), onclick: () => change("id", set.id === one.transactionID ? "" : one.transactionID) }, one.type);

  function tell() {
    const one = set.id ? store.one("transaction", set.id) : null;
    if (!one) {
      renew(detail);
      return;
    }
    const history = one.history.map((note) => h("li", {}, h("time", { datetime: note.at }, new Date(note.at).toLocaleTimeString("en-GB")), " ", note.text));
    renew(
      detail,
      h(
        "div",
        { class: "card detail" },
        h("p", { class: "between" }, h("strong", {}, `${one.type} of ${one.namespace}/${one.objectName}`), badge(one.status)),
        one.message ? h("p", {}, one.message) : null,
        h("p", { class: "quiet" }, [`begun ${moment(one.createTime)}`, one.deadline ? `time box until ${moment(one.deadline)}` : "no time box", one.finishTime ? `ended ${moment(one.finishTime)}` : "", one.cause ? `cause ${one.cause}` : ""].filter(Boolean).join(" · ")),
        history.length ? h("ul", { class: "plainlist" }, history) : null,
        h("p", {}, h("a", { href: to.events({ transaction: one.transactionID }), "data-key": "events of it" }, "Events of this transaction")),
        command(`bcs describe transaction ${one.transactionID} -n ${quoted(one.namespace)}`),
      ),
    );
  }

  const later = calm(draw, PAUSE);
  const clock = setInterval(() => store.complete && store.all("transaction").some((one) => !one.finishTime) && later(), TICK);
  let first = true;
  const update = () => {
    if (first) draw();
    else later();
    first = false;
  };
  update.leave = () => {
    later.stop();
    clearInterval(clock);
  };
  return update;
}

// The time from the first begin to the last end of what is shown, with some room on both sides. `begin`: the earliest time
// of interest.
function fitted(shown, begin) {
  const first = Math.max(begin, shown.reduce((least, { from }) => Math.min(least, from), Infinity));
  const last = shown.reduce((most, { end }) => Math.max(most, end), first);
  const room = Math.max(last - first, LEAST) * 0.03;
  return { begin: first - room, end: Math.max(last, first + LEAST) + room };
}

// Round times of the clock of the reader between begin and end.
function marks({ begin, end }) {
  const last = end - (end - begin) * EDGE;
  const most = (last - begin) / 1000 / MARKS;
  const step = 1000 * (STEPS.find((seconds) => seconds >= most) ?? STEPS.at(-1) * Math.ceil(most / STEPS.at(-1)));
  const shift = 60000 * new Date(begin).getTimezoneOffset();
  const found = [];
  for (let at = Math.ceil((begin - shift) / step) * step + shift; at < last; at += step) found.push(at);
  return found;
}

// A mark in words, as exact as the scale: with seconds, or with the day.
function written(at, { begin, end }) {
  const time = new Date(at);
  const seconds = (end - begin) / 1000;
  if (seconds > 2 * DAY) return time.toLocaleDateString("en-CA");
  const clock = time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...(seconds < 60 * (MARKS + 1) ? { second: "2-digit" } : {}) });
  return seconds > DAY / 2 && clock === "00:00" ? time.toLocaleDateString("en-CA") : clock;
}

function lane({ one, from, end, box }, scale, late) {
  const bar = h("span", { class: `bar-of ${late ? "late" : one.status.toLowerCase()}` });
  put(bar, from, end, scale);
  const track = h("div", { class: "lane", "aria-hidden": "true" });
  if (box) {
    const outline = h("span", { class: "box", title: `time box until ${one.deadline}` });
    put(outline, from, Math.max(from, box), scale);
    track.append(outline);
  }
  track.append(bar);
  return track;
}

const position = (at, { begin, end }) => Math.min(100, Math.max(0, (100 * (at - begin)) / (end - begin)));

function put(element, from, end, scale) {
  const left = position(from, scale);
  element.style.setProperty("left", `${left}%`);
  element.style.setProperty("width", `${Math.max(0, position(end, scale) - left)}%`);
}

function span(milliseconds) {
  const seconds = milliseconds / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 600) return `${Math.round(seconds)} s`;
  return seconds < 36000 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

function legend() {
  const item = (kind, words) => h("li", {}, h("span", { class: `swatch bar-of ${kind}`, "aria-hidden": "true" }), words);
  return h("ul", { class: "legend", "aria-label": "Legend" }, item("init", "in progress"), item("finish", "finished"), item("fail", "failed, timed out or overdue"), item("cancel", "cancelled or superseded"), h("li", {}, h("span", { class: "swatch boxed", "aria-hidden": "true" }), "time box"));
}
