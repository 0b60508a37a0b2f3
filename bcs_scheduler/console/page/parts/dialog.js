// A dialog that changes something: the plan of a dry run is shown before the button acts.

import { call } from "../api.js";
import { command, fill, h } from "../dom.js";
import { plan } from "./plans.js";

// `request`: gives method, address and body. `command`: the same as a command of bcs. `planned`: shows the answer of the
// dry run. `changed`: name of the object for which a policy would end other work. `possible` false: there is nothing to
// change.
export function dialog({ title, fields, request, command: words, changed = "", possible = true, planned = (answer) => plan(answer, changed), act: label = "Apply" }) {
  const shownPlan = h("div", { class: "plan", role: "status", "aria-live": "polite" });
  const shown = h("div", {});
  const act = h("button", { type: "button", class: "primary acts", disabled: true }, label);
  const look = h("button", { type: "button", class: "acts", disabled: !possible }, "Show the plan");
  const close = h("button", { type: "button" }, "Cancel");
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", { id: "dialog-title" }, title),
    fields,
    h("p", { class: "quiet" }, "The same on the command line:"),
    shown,
    shownPlan,
    h("p", { class: "problem without" }, "The scheduler is away. Nothing can be changed until it answers."),
    h("div", { class: "buttons" }, close, look, act),
  );
  let turn = 0;
  const box = h("dialog", { "aria-labelledby": "dialog-title" }, form);
  const send = (dry) => {
    const [method, address, body] = request();
    return call(method, dry ? `${address}${address.includes("?") ? "&" : "?"}dryRun=true` : address, { body });
  };
  const tell = () => fill(shown, command(words()));
  const fail = (error) => fill(shownPlan, h("p", { class: "problem", role: "alert" }, error.message));
  form.addEventListener("input", () => {
    turn += 1;
    act.disabled = true;
    fill(shownPlan);
    tell();
  });
  async function show() {
    if (!form.reportValidity()) return;
    const mine = (turn += 1);
    try {
      const parts = planned(await send(true));
      if (mine !== turn) return;
      fill(shownPlan, parts);
      act.disabled = false;
      if ([look, document.body, box].includes(document.activeElement)) act.focus();
    } catch (error) {
      if (mine === turn) fail(error);
    }
  }
  async function change() {
    act.disabled = true;
    try {
      await send(false);
      box.close();
    } catch (error) {
      fail(error);
    }
  }
  look.addEventListener("click", show);
  act.addEventListener("click", change);
  // Enter shows the plan, and then makes the change that the plan is about. In a long text, Enter begins a line, and Enter
  // with Ctrl does this.
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    if (event.target.matches("textarea") ? !(event.ctrlKey || event.metaKey) : event.target.matches("button, a")) return;
    event.preventDefault();
    if (!event.repeat) (act.disabled ? look : act).click();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  close.addEventListener("click", () => box.close());
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  if (possible) tell();
  box.showModal();
  // A dialog without fields: its button has the focus, and not the one that copies the command.
  if (!form.querySelector("input, select, textarea")) look.focus();
}
