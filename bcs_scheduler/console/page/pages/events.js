// Events as they happen. All filters are in the address.

import { follow, get, part } from "../api.js";
import { here, keep, to } from "../address.js";
import { badge, command, counted, h, quoted, renew } from "../dom.js";
import { calm, filters, select, text, words } from "../parts/forms.js";
import { levelTone } from "../parts/rows.js";
import { table } from "../tables.js";

const KEPT = 500;
const PAUSE = 300;
const TYPED = 400;
const AGAIN = 2000;
const POLL = 5000;
const KINDS = ["application", "deployment", "daemonset", "taskgroup", "task", "transaction", "agent", "service"];
const FILTERS = ["level", "kind", "namespace", "owner", "name", "reason", "text"];
const ASKED = ["kind", "owner", "name", "reason", "level", "transaction"];

export function events(place, { rights }) {
  const set = { namespace: "", kind: "", owner: "", name: "", reason: "", level: "", transaction: "", text: "", ...here().filters };
  const list = h("div", {});
  const count = h("p", { class: "quiet", role: "status" });
  const same = h("div", {});
  const problem = h("p", { class: "problem", role: "alert" });
  let [found, known, stopping] = [[], "", null];
  const draw = calm(show, PAUSE);
  const restart = calm(begin, TYPED);

  const change = (name) => (value) => {
    set[name] = value;
    keep({ [name]: value });
    fields.count();
    if (name === "text") show();
    else restart();
  };
  const field = (name, label, hint) => text(name, label, set[name], change(name), hint);
  const choice = (name, label, all, found) => select(name, label, [["", all], ...[...new Set([...found, set[name]].filter(Boolean))].map((one) => [one, one])], set[name], change(name));
  const fields = filters(
    [
      choice("level", "Level", "all", ["warning", "error"]),
      choice("kind", "Kind", "all", KINDS),
      rights.namespaces === null ? field("namespace", "Namespace", "all") : choice("namespace", "Namespace", "all", rights.namespaces),
      field("owner", "Belongs to", "application, deployment"),
      field("name", "Object", "exact name or key"),
      field("reason", "Reason", "TaskGroupFailed, TaskGroupLost"),
      field("text", "Text", "words in the message"),
    ],
    () => FILTERS.filter((name) => set[name]).length,
  );
  place.append(
    h("h1", {}, "Events"),
    fields.box,
    set.transaction ? h("p", {}, "Only events of the transaction ", h("code", {}, set.transaction), " ", h("button", { type: "button", class: "small", onclick: (event) => {
      event.target.parentElement.remove();
      change("transaction")("");
    } }, "Show all")) : "",
    problem,
    count,
    list,
    same,
  );

  function path(stream) {
    const query = ASKED.filter((name) => set[name]).map((name) => `${name}=${part(set[name])}`);
    const base = set.namespace ? `/namespaces/${part(set.namespace)}/events` : "/events";
    return `${base}${stream ? "/watch" : ""}?${[...query, `last=${KEPT}`].join("&")}`;
  }

  async function begin() {
    stopping?.abort();
    const mine = new AbortController();
    stopping = mine;
    [found, known] = [[], ""];
    draw();
    tell();
    while (!mine.signal.aborted) {
      problem.textContent = "";
      try {
        if (rights.scheduler.leads) {
          await follow(path(true), known, (event, data, id) => {
            if (mine.signal.aborted) return;
            if (event === "event") take(data);
            if (id) known = id;
          }, mine.signal);
        } else {
          found = await get(path(false));
          draw();
        }
      } catch (error) {
        if (mine.signal.aborted) return;
        if (error.status >= 400 && error.status < 500) problem.textContent = error.message || "The scheduler refuses these filters.";
      }
      await new Promise((resolve) => setTimeout(resolve, rights.scheduler.leads ? AGAIN : POLL));
    }
  }

  function take(event) {
    if (found.length && event.id <= found.at(-1).id) return;
    found.push(event);
    if (found.length > 2 * KEPT) found = found.slice(-KEPT);
    draw();
  }

  function tell() {
    const scope = set.namespace ? `-n ${quoted(set.namespace)}` : "-A";
    const options = [set.level ? `--level ${set.level}` : "", set.reason ? `--reason ${quoted(set.reason)}` : ""].filter(Boolean).join(" ");
    const of = set.kind && set.name ? `--for ${set.kind}/${quoted(set.name)}` : "";
    renew(same, command(["bcs get events", scope, of, options, "-w"].filter(Boolean).join(" ")));
  }

  function show() {
    const fits = words(set.text);
    const shown = found.filter((one) => fits(`${one.message} ${one.name} ${one.reason}`)).slice(-KEPT).reverse();
    count.textContent = `${counted(shown.length, "event")}${shown.length === KEPT ? ", the newest" : ""}`;
    renew(list, table("Events", COLUMNS, shown, "There are no events of this kind.", { id: "" }));
  }

  begin();
  const update = () => {};
  update.leave = () => {
    stopping?.abort();
    fields.leave();
    draw.stop();
    restart.stop();
  };
  return update;
}

const PLACES = {
  application: (one) => to.application(one.namespace, one.name),
  deployment: (one) => to.deployment(one.namespace, one.name),
  agent: (one) => to.agent(one.name),
  transaction: (one) => to.transactions({ id: one.name, span: "all" }),
};
// The id of a taskgroup: its number, application, namespace, cluster and time; tasks have one part more before these.
const TASKGROUP = /^(?:\d+\.)?(\d+)\.([^.]+)\.[^.]+\.[^.]+\.\d+$/;

function named(one) {
  const link = (address, text) => h("a", { href: address, "data-key": `object ${one.id}`, title: one.name }, text);
  const parts = ["taskgroup", "task"].includes(one.kind) && TASKGROUP.exec(one.name);
  if (parts) return link(to.application(one.namespace, parts[2]), `${one.namespace}/${parts[2]}-${parts[1]}`);
  if (!(one.kind in PLACES)) return h("span", { class: "long" }, one.namespace ? `${one.namespace}/${one.name}` : one.name);
  const name = one.kind === "transaction" ? `…${one.name.slice(-9)}` : one.name;
  return link(PLACES[one.kind](one), one.namespace ? `${one.namespace}/${name}` : name);
}

const COLUMNS = [
  { head: "Time", cell: (one) => h("time", { datetime: one.time, title: one.time, "data-key": `event ${one.id}` }, clock(one.time)), by: (one) => one.id, down: true },
  { head: "Reason", cell: (one) => badge(one.reason, levelTone(one.level)), by: (one) => one.reason },
  { head: "Kind", cell: (one) => one.kind, by: (one) => one.kind },
  { head: "Object", cell: named },
  { head: "Transaction", cell: (one) => (one.transaction ? h("a", { href: to.transactions({ id: one.transaction, span: "all" }), "data-key": `tx ${one.id}`, "aria-label": `transaction of event ${one.id}` }, "open") : ""), by: (one) => one.transaction },
  { head: "Message", cell: (one) => h("span", { class: "why" }, one.message), by: (one) => one.message },
];

function clock(time) {
  const at = new Date(time);
  const today = at.toDateString() === new Date().toDateString();
  return `${today ? "" : `${at.toLocaleDateString("en-CA")} `}${at.toLocaleTimeString("en-GB")}`;
}
