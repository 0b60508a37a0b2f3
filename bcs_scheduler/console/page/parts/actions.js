// Dialogs that change an application. The plan of a dry run is shown before the button acts.

import { get, part } from "../api.js";
import { h, quoted } from "../dom.js";
import { documentOf, label } from "./versions.js";
import { dialog } from "./dialog.js";
import { returns } from "./returns.js";

const path = (namespace, name) => `/namespaces/${part(namespace)}/applications/${part(name)}`;

export function scale(app) {
  const { namespace, name } = target(app);
  const field = h("input", { id: "instances", type: "number", min: "0", max: "100000", required: true, value: app.DefineInstances });
  dialog({
    title: `Scale ${name}`,
    changed: `${namespace}/${name}`,
    fields: [h("label", { for: "instances" }, "Number of taskgroups"), field],
    request: () => ["PUT", `${path(namespace, name)}/scale/${part(field.value)}`],
    command: () => `bcs scale app/${quoted(name)} ${quoted(field.value)} -n ${quoted(namespace)}`,
  });
}

export async function rollBack(app) {
  const { namespace, name } = target(app);
  const base = path(namespace, name);
  const versions = await get(`${base}/versions`);
  const earlier = versions.filter((version) => version !== app.Version).reverse();
  const choice = returns("Version", earlier.map((id) => [id, label(id)]), app.Version, (id) => documentOf(base, id));
  dialog({
    title: `Roll back ${name}`,
    changed: `${namespace}/${name}`,
    fields: choice.fields,
    request: () => ["PUT", `${base}/rollback?version=${part(choice.chosen())}`],
    command: () => `bcs rollback app/${quoted(name)} --to ${quoted(choice.chosen())} -n ${quoted(namespace)}`,
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
    changed: `${namespace}/${name}`,
    fields: [h("label", { for: "document" }, "Document (JSON)"), field],
    request: () => ["PUT", path(namespace, name), JSON.parse(field.value)],
    command: () => `bcs edit app/${quoted(name)} -n ${quoted(namespace)}`,
  });
}

function target(app) {
  return { namespace: app.ObjectMeta.namespace, name: app.Name };
}
