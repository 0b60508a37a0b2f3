// Dialogs that change an application. The plan of a dry run is shown before the button acts.

import { call, get, part } from "../api.js";
import { command, fill, h, quoted } from "../dom.js";

const path = (namespace, name) => `/namespaces/${part(namespace)}/applications/${part(name)}`;

export function scale(app) {
  const { namespace, name } = target(app);
  const field = h("input", { id: "instances", type: "number", min: "0", max: "100000", required: true, value: app.DefineInstances });
  dialog({
    title: `Scale ${name}`,
    fields: [h("label", { for: "instances" }, "Number of taskgroups"), field],
    request: () => ["PUT", `${path(namespace, name)}/scale/${part(field.value)}`],
    command: () => `bcs scale app/${quoted(name)} ${quoted(field.value)} -n ${quoted(namespace)}`,
  });
}

export async function rollBack(app) {
  const { namespace, name } = target(app);
  const versions = await get(`${path(namespace, name)}/versions`);
  const earlier = versions.filter((version) => version !== app.Version).reverse();
  const field = h("select", { id: "version" }, earlier.map((version) => h("option", { value: version }, version)));
  dialog({
    title: `Roll back ${name}`,
    fields: earlier.length ? [h("label", { for: "version" }, "Version"), field] : [h("p", {}, "There is no earlier version.")],
    request: () => ["PUT", `${path(namespace, name)}/rollback?version=${part(field.value)}`],
    command: () => `bcs rollback app/${quoted(name)} --to ${quoted(field.value)} -n ${quoted(namespace)}`,
    possible: earlier.length > 0,
  });
}

export async function update(app) {
  const { namespace, name } = target(app);
  const document = await get(`/definition/application/${part(namespace)}/${part(name)}`);
  const field = h("textarea", { id: "document", rows: "16", spellcheck: "false", required: true });
  field.value = JSON.stringify(document, null, 2);
  dialog({
    title: `Update ${name}`,
    fields: [h("label", { for: "document" }, "Document (JSON)"), field],
    request: () => ["PUT", path(namespace, name), JSON.parse(field.value)],
    command: () => `bcs edit app/${quoted(name)} -n ${quoted(namespace)}`,
  });
}

function target(app) {
  return { namespace: app.ObjectMeta.namespace, name: app.Name };
}

function dialog({ title, fields, request, command: words, possible = true }) {
  const plan = h("div", { class: "plan", role: "status", "aria-live": "polite" });
  const shown = h("div", {});
  const act = h("button", { type: "submit", class: "primary", disabled: true }, "Apply");
  const look = h("button", { type: "button", disabled: !possible }, "Show the plan");
  const close = h("button", { type: "button" }, "Cancel");
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", { id: "dialog-title" }, title),
    fields,
    h("p", { class: "quiet" }, "The same on the command line:"),
    shown,
    plan,
    h("div", { class: "buttons" }, close, look, act),
  );
  const box = h("dialog", { "aria-labelledby": "dialog-title" }, form);
  const send = (dry) => {
    const [method, address, body] = request();
    return call(method, dry ? `${address}${address.includes("?") ? "&" : "?"}dryRun=true` : address, { body });
  };
  const tell = () => fill(shown, command(words()));
  const fail = (error) => fill(plan, h("p", { class: "problem", role: "alert" }, error.message));
  form.addEventListener("input", () => {
    act.disabled = true;
    fill(plan);
    tell();
  });
  look.addEventListener("click", async () => {
    if (!form.reportValidity()) return;
    look.disabled = true;
    try {
      fill(plan, planned(await send(true)));
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

function planned(plan) {
  if (plan.unchanged) return h("p", {}, "The application already has this state.");
  const counts = [
    [plan.place?.length ?? 0, "taskgroups are placed"],
    [plan.end?.length ?? 0, "taskgroups are ended"],
    [plan.unplaced ?? 0, "taskgroups find no place"],
  ];
  const lines = counts.map(([count, words]) => h("li", {}, `${Array.isArray(count) ? count.length : count} ${words}`));
  return [h("h3", {}, "Plan"), h("ul", {}, lines), plan.message ? h("p", { class: "quiet" }, plan.message) : null].filter(Boolean);
}
