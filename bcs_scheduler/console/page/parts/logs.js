// The output of a taskgroup, followed on request: each look asks the agent.

import { get, part } from "../api.js";
import { here, keep } from "../address.js";
import { command, fill, h, quoted } from "../dom.js";
import { select, tick } from "./forms.js";

const TAIL = 200;
const KEPT = 2000;
const EVERY = 1000;
const LONG = 5000;
const NEAR = 30;

export function logs(namespace) {
  const element = h("section", {});
  const output = h("pre", { class: "logs", tabindex: "0", role: "log", "aria-label": "Output", "aria-live": "off" });
  const state = h("p", { class: "quiet", role: "status" });
  const set = here().filters;
  let [groups, chosen, task, on, left, turn, known] = [[], "", "", set.output === "follow", false, 0, ""];

  function show(found) {
    const running = found.filter((group) => group.AgentID);
    const key = running.map((group) => `${group.ID} ${group.Taskgroup.length}`).join();
    if (key === known) return;
    known = key;
    groups = running;
    if (!groups.some((group) => group.ID === chosen)) chosen = groups[0]?.ID ?? "";
    head();
    begin();
  }

  function head() {
    const group = groups.find((one) => one.ID === chosen);
    if (!group) {
      fill(element, h("h2", {}, "Output"), h("p", { class: "quiet" }, "No taskgroup has begun."));
      return;
    }
    const tasks = group.Taskgroup.map((one, i) => [String(i), one.Name || String(i)]);
    if (!tasks.some(([id]) => id === task)) task = "0";
    const pick = (set) => (value) => {
      set(value);
      head();
      begin();
    };
    fill(
      element,
      h("h2", {}, "Output"),
      h(
        "div",
        { class: "fields" },
        select("log-of", "Taskgroup", groups.map((one) => [one.ID, `${one.Name} on ${one.HostName}`]), chosen, pick((id) => (chosen = id))),
        tasks.length > 1 ? select("log-task", "Task", tasks, task, pick((id) => (task = id))) : null,
        tick("follow", "Show and follow", on, (value) => {
          on = value;
          keep({ output: on ? "follow" : "" });
          output.hidden = false;
          if (on) begin();
          else turn += 1;
        }),
      ),
      state,
      output,
      command(`bcs logs ${quoted(group.Name)} -n ${quoted(namespace)}${tasks.length > 1 ? ` -t ${task}` : ""} -f`),
    );
  }

  async function begin() {
    const mine = (turn += 1);
    const current = () => !left && mine === turn;
    output.replaceChildren();
    output.hidden = !on;
    if (!chosen || !on) return;
    let [next, ordered, offset] = ["", true, -1];
    while (current()) {
      let pause = EVERY;
      try {
        if (ordered) {
          const found = await get(`/taskgroup/${part(chosen)}/output?task=${task}&${next ? `after=${part(next)}` : `tail=${TAIL}`}`);
          if (!current()) return;
          ordered = found.ordered;
          next = found.next;
          for (const entry of found.entries) add(entry.data, entry.stream);
          state.textContent = found.lost ? "Some output was rotated away." : "";
          if (ordered && !found.end) continue;
        }
        if (!ordered) {
          const found = await get(`/taskgroup/${part(chosen)}/logs?task=${task}&${offset < 0 ? `tail=${TAIL}` : `offset=${offset}`}`);
          if (!current()) return;
          if (found.data) add(found.data, "stdout");
          offset = found.size < found.next ? 0 : found.next;
          state.textContent = "This executor does not record the order of the streams: standard output only.";
        }
      } catch (error) {
        if (!current()) return;
        state.textContent = error.message;
        pause = LONG;
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  function add(text, stream) {
    const end = output.scrollHeight - output.scrollTop - output.clientHeight < NEAR;
    output.append(h("span", { class: stream }, text));
    while (output.childElementCount > KEPT) output.firstChild.remove();
    if (end) output.scrollTop = output.scrollHeight;
  }

  return { element, show, stop: () => (left = true) };
}
