// Dialogs that steer a deployment: pause, resume, undo, roll back, scale, replace.

import { get, part } from "../api.js";
import { age, counted, h, moment, quoted } from "../dom.js";
import { dialog } from "./dialog.js";
import { plan } from "./plans.js";
import { returns } from "./returns.js";

const path = ({ namespace, name }) => `/namespaces/${part(namespace)}/deployments/${part(name)}`;
const at = ({ namespace }) => `-n ${quoted(namespace)}`;
const named = ({ namespace, name }) => `${namespace}/${name}`;

function control(title, words, verb, action) {
  return (found) =>
    dialog({
      title: `${title} ${found.name}`,
      fields: h("p", {}, words),
      request: () => ["PUT", `${path(found)}/${action}`],
      command: () => `bcs rollout ${verb} deployment/${quoted(found.name)} ${at(found)}`,
      planned: (answer) => (answer.unchanged ? plan(answer, named(found)) : [h("h3", {}, "Plan"), h("p", {}, `The request is possible. ${words}`), ...steps(answer, found)]),
    });
}

function steps(answer, found) {
  return answer.place || answer.end ? [plan(answer, named(found))].flat() : answer.message ? [h("p", { class: "quiet" }, answer.message)] : [];
}

export const pause = control("Pause the update of", "The update stops after its present step. Old and new taskgroups stay.", "pause", "pauseupdate");
export const resume = control("Resume the update of", "The update continues with its next step.", "resume", "resumeupdate");
export const undo = control("Undo the update of", "The update is cancelled. The taskgroups return in steps to the revision before the update.", "cancel", "cancelupdate");
export const replace = control("Replace the taskgroups of", "All taskgroups are replaced in steps, with the same definition.", "replace", "restart");

export function scale(found) {
  const field = h("input", { id: "instances", type: "number", min: "0", max: "100000", required: true, value: found.instances });
  dialog({
    title: `Scale ${found.name}`,
    changed: named(found),
    fields: [h("label", { for: "instances" }, "Number of taskgroups"), field],
    request: () => ["PUT", `${path(found)}/scale/${part(field.value)}`],
    command: () => `bcs scale deployment/${quoted(found.name)} ${quoted(field.value)} ${at(found)}`,
  });
}

export async function rollBack(found) {
  const revisions = await get(`${path(found)}/revisions`);
  const present = revisions.find((one) => one.current);
  const label = (one) => `${one.revision}: ${moment(one.createTime)} (${age(one.createTime)} ago), ${counted(one.instances, "taskgroup")}${one.why ? `, ${one.why}` : ""}`;
  const choices = revisions.filter((one) => one !== present).reverse().map((one) => [String(one.revision), label(one)]);
  const read = async (id) => {
    const { document, definition } = await get(`${path(found)}/revisions/${part(id)}`);
    return document ?? definition;
  };
  const choice = returns("Revision", choices, String(present?.revision ?? found.revision), read);
  dialog({
    title: `Roll back ${found.name}`,
    changed: named(found),
    fields: choice.fields,
    request: () => ["PUT", `${path(found)}/rollback?revision=${part(choice.chosen())}`],
    command: () => `bcs rollback deployment/${quoted(found.name)} --to ${quoted(choice.chosen())} ${at(found)}`,
    possible: choices.length > 0,
  });
}

export async function update(found) {
  const document = await get(`/definition/deployment/${part(found.namespace)}/${part(found.name)}`);
  const field = h("textarea", { id: "document", rows: "16", spellcheck: "false", required: true });
  field.value = JSON.stringify(document, null, 2);
  dialog({
    title: `Update ${found.name}`,
    changed: named(found),
    fields: [h("label", { for: "document" }, "Document (JSON)"), field],
    request: () => ["PUT", path(found), JSON.parse(field.value)],
    command: () => `bcs edit deployment/${quoted(found.name)} ${at(found)}`,
  });
}
