// What would give the waiting taskgroups of an application places. The scheduler searches on request: a search takes up
// to a second of the leader.

import { get, part } from "../api.js";
import { here, keep } from "../address.js";
import { command, counted, fill, h, quoted } from "../dom.js";
import { called, evicted, some } from "./plans.js";

const UNITS = { mem: "Mi", disk: "Mi" };
const WORDS = (names) => names.map(quoted).join(" ");

// Commands that make a change. `owner`: the object whose document decides, as words for `bcs edit`.
const COMMANDS = {
  uncordonAgents: ({ agents }) => `bcs uncordon ${WORDS(agents)}`,
  drainAgent: ({ agents }) => `bcs drain ${WORDS(agents)} && bcs uncordon ${WORDS(agents)}`,
  reduceResource: (_, owner) => `bcs edit ${owner}`,
  dropConstraint: (_, owner) => `bcs edit ${owner}`,
  preemptTaskgroups: ({ taskgroups }) => taskgroups.map((id) => `bcs reschedule ${quoted(id)}`).join(" && "),
  raiseQueueLimit: ({ queue, limits, partition }) => `bcs queue set ${quoted(queue)} ${partition ? `--partition ${quoted(partition)} ` : ""}${limits.map(({ resource, to }) => `--capability ${resource}=${to}${UNITS[resource] ?? ""}`).join(" ")}`,
};

export function whatIf(namespace, name) {
  const base = `/namespaces/${part(namespace)}/applications/${part(name)}`;
  const answer = h("div", { "aria-live": "polite" });
  const again = h("div", { class: "buttons acts" });
  const box = h("details", { class: "card" }, h("summary", {}, "Changes that would help, and the expected time"), answer, again);
  const element = h("section", { hidden: true }, h("h2", {}, "What if"), box);
  let [owner, turn, left] = ["", 0, false];

  // `app`: the application. `waits`: false if no operation of the application is in progress.
  function show(app, waits) {
    const [kind, of] = app.Deployment ? ["deployment", app.Deployment] : ["app", name];
    owner = `${kind}/${quoted(of)} -n ${quoted(namespace)}`;
    const first = element.hidden && waits;
    element.hidden = !waits;
    if (!first) return;
    if (box.open) ask();
    else if (here().filters.whatif === "open") box.open = true;
  }

  async function ask() {
    const mine = (turn += 1);
    fill(answer, h("p", { class: "quiet" }, "The scheduler searches."));
    if (!again.firstChild) again.append(h("button", { type: "button", onclick: ask }, "Search again"));
    let parts;
    try {
      parts = found(await get(`${base}/whatif`), owner);
    } catch (error) {
      parts = [h("p", { class: "problem" }, error.message)];
    }
    if (!left && mine === turn) fill(answer, parts);
  }

  box.addEventListener("toggle", () => {
    if (left) return;
    keep({ whatif: box.open ? "open" : "" });
    if (box.open) ask();
  });
  return { element, show, stop: () => (left = true) };
}

function found({ open, examined, when, solutions, text }, owner) {
  // The texts of the solutions come first, each with its agents; the list below has both.
  const notes = text.slice(solutions.length);
  return [
    open > examined ? h("p", {}, `The changes are those for ${examined} of ${counted(open, "taskgroup")} without a place, those of the largest operation.`) : null,
    when ? h("p", {}, h("strong", {}, "Without a change: "), `${when.text}.`) : null,
    solutions.length ? h("ol", { class: "solutions" }, solutions.map((one) => solution(one, owner))) : null,
    ...notes.map((note) => h("p", {}, `${note}.`)),
  ].filter(Boolean);
}

// One set of changes, with its plan and its commands.
export function solution({ changes, placed, agents, moves, evict, text }, owner) {
  const commands = new Set(changes.filter(({ kind }) => kind in COMMANDS).map((change) => COMMANDS[change.kind](change, owner)));
  const attributes = changes.flatMap((change) => Object.entries(change.attributes ?? {})).filter(([key]) => key !== "InnerIP");
  const lines = [
    `${counted(placed, "taskgroup is placed", "taskgroups are placed")}: ${some(agents.map((one) => `${one.taskgroups} on ${one.hostname}`))}`,
    moves.length ? `${counted(moves.length, "taskgroup moves", "taskgroups move")}: ${some(moves.map((one) => `${called(one.taskgroup)} to ${one.hostname}`))}` : "",
    evict.length ? evicted(evict, "these taskgroups") : "",
    attributes.length ? `attributes of a new agent: ${attributes.map(([key, value]) => `${key}=${value}`).join(", ")}` : "",
  ].filter(Boolean);
  return h(
    "li",
    {},
    h("strong", {}, text),
    h("ul", {}, lines.map((line) => h("li", {}, line))),
    [...commands].map(command),
    changes.some(({ kind }) => kind === "addAgents") ? h("p", { class: "quiet" }, "bcs has no command that adds agents.") : null,
  );
}
