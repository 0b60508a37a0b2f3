// Transactions as a timeline: one line each, from its begin to its verdict, within its time box.

import { here, keep, to } from "../../address.js";
import { badge, command, counted, h, quoted, renew, table } from "../../dom.js";
import { calm, select, text } from "../../parts/forms.js";

const SHOWN = 200;
const PAUSE = 500;
const TICK = 1000;
const SPANS = [["300", "5 min"], ["900", "15 min"], ["3600", "1 h"], ["21600", "6 h"], ["86400", "1 d"], ["604800", "7 d"]];
const STATUSES = ["INIT", "QUEUED", "FINISH", "FAIL", "TIMEOUT", "CANCEL", "SUPERSEDED"];
const MARKS = 5;

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
      select("span", "Time", SPANS.map(([key, words]) => [key, `last ${words}`]), set.span, (value) => change("span", value)),
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
    const begin = now - 1000 * Number(set.span);
    const words = set.search.toLowerCase().split(/\s+/).filter(Boolean);
    const found = store
      .all("transaction")
      .map((one) => ({ one, from: Date.parse(one.createTime), end: one.finishTime ? Date.parse(one.finishTime) : now, box: one.deadline ? Date.parse(one.deadline) : 0 }))
      .filter(({ one, end }) => (end >= begin || !one.finishTime) && (!set.status || one.status === set.status))
      .filter(({ one }) => words.every((word) => `${one.namespace}/${one.objectName} ${one.type} ${one.transactionID}`.toLowerCase().includes(word)))
      .sort((a, b) => b.from - a.from);
    const running = found.filter(({ one }) => !one.finishTime).length;
    count.textContent = `${counted(found.length, "transaction")}, ${running} in progress${found.length > SHOWN ? `, the newest ${SHOWN} are shown` : ""}`;
    const shown = found.slice(0, SHOWN);
    const scale = { begin, end: Math.max(now + 50 * Number(set.span), now + 1000) };
    const rows = shown.map((each) => line(each, scale, now));
    const axis = h("div", { class: "axis", "aria-hidden": "true" });
    for (let i = 0; i < MARKS; i += 1) {
      const label = h("span", {}, new Date(begin + ((now - begin) * i) / MARKS).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }));
      label.style.setProperty("left", `${position(begin + ((now - begin) * i) / MARKS, scale)}%`);
      axis.append(label);
    }
    renew(list, table("Timeline of transactions", ["Object", "Type", "Verdict", "Progress", "Duration", h("span", {}, h("span", { class: "hidden" }, "Time"), axis)], rows, "There are no transactions in this time."));
    list.firstChild.classList.add("timeline");
    tell();
  }

  function line({ one, from, end, box }, scale, now) {
    const late = box && !one.finishTime && box < now;
    const bar = h("span", { class: `bar-of ${late ? "late" : one.status.toLowerCase()}` });
    put(bar, from, end, scale);
    const track = h("div", { class: "lane", "aria-hidden": "true" });
    if (box) {
      const outline = h("span", { class: "box", title: `time box until ${one.deadline}` });
      put(outline, from, Math.max(from, box), scale);
      track.append(outline);
    }
    track.append(bar);
    const object = one.objectKind === "deployment" ? to.deployment(one.namespace, one.objectName) : to.application(one.namespace, one.objectName);
    return [
      h("a", { href: object, "data-key": `object ${one.transactionID}` }, `${one.namespace}/${one.objectName}`),
      h("button", { type: "button", class: "plain link", "data-key": one.transactionID, "aria-expanded": String(set.id === one.transactionID), onclick: () => change("id", set.id === one.transactionID ? "" : one.transactionID) }, one.type),
      badge(late ? "overdue" : one.status, late ? "bad" : undefined),
      one.target ? `${one.progress} of ${one.target}` : "",
      span(end - from),
      track,
    ];
  }

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

const position = (at, { begin, end }) => Math.min(100, Math.max(0, (100 * (at - begin)) / (end - begin)));

function put(element, from, end, scale) {
  const left = position(from, scale);
  element.style.setProperty("left", `${left}%`);
  element.style.setProperty("width", `${Math.max(0, position(end, scale) - left)}%`);
}

const moment = (time) => new Date(time).toLocaleString("en-CA", { hour12: false });

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
