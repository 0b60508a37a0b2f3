// A dialog that changes something: the plan of a dry run is shown before the button acts.

import { call } from "../../api.js";
import { command, fill, h } from "../../dom.js";
import { plan } from "./plans.js";

// `request`: gives method, address and body. `command`: the same as a command of bcs. `planned`: shows the answer of the
// dry run. `changed`: name of the object for which a policy would end other work. `possible` false: there is nothing to
// change.
export function dialog({ title, fields, request, command: words, changed = "", possible = true, planned = (answer) => plan(answer, changed), act: label = "Apply" }) {
  const shownPlan = h("div", { class: "plan", role: "status", "aria-live": "polite" });
  const shown = h("div", {});
  const act = h("button", { type: "submit", class: "primary", disabled: true }, label);
  const look = h("button", { type: "button", disabled: !possible }, "Show the plan");
  const close = h("button", { type: "button" }, "Cancel");
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", { id: "dialog-title" }, title),
    fields,
    h("p", { class: "quiet" }, "The same on the command line:"),
    shown,
    shownPlan,
    h("div", { class: "buttons" }, close, look, act),
  );
  const box = h("dialog", { "aria-labelledby": "dialog-title" }, form);
  const send = (dry) => {
    const [method, address, body] = request();
    return call(method, dry ? `${address}${address.includes("?") ? "&" : "?"}dryRun=true` : address, { body });
  };
  const tell = () => fill(shown, command(words()));
  const fail = (error) => fill(shownPlan, h("p", { class: "problem", role: "alert" }, error.message));
  form.addEventListener("input", () => {
    act.disabled = true;
    fill(shownPlan);
    tell();
  });
  look.addEventListener("click", async () => {
    if (!form.reportValidity()) return;
    look.disabled = true;
    try {
      fill(shownPlan, planned(await send(true)));
      act.disabled = false;
    } catch (error) {
      fail(error);
    }
    look.disabled = false;
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (act.disabled) {
      look.click();
      return;
    }
    act.disabled = true;
    try {
      await send(false);
      box.close();
    } catch (error) {
      fail(error);
    }
  });
  close.addEventListener("click", () => box.close());
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  if (possible) tell();
  box.showModal();
}
