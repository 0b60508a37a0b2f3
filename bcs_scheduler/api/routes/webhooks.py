"""Admission webhooks: who is asked before documents are taken. They are asked in bcs_scheduler.api.admission."""

from __future__ import annotations

from bcs_scheduler.api import errors
from bcs_scheduler.api.documents.extensions import WebhookDocument, read_webhook
from bcs_scheduler.api.errors import not_found
from bcs_scheduler.api.operation import CONTINUE, LABEL_SELECTOR, LIMIT, Answer, Call, Param, Table
from bcs_scheduler.api.query import page, parse_selector, selected
from bcs_scheduler.api.views.extensions import WebhookView, show_webhook
from bcs_scheduler.core.effects import Reason
from bcs_scheduler.core.orders import DeleteWebhook, PutWebhook

table = Table("admission webhooks")
NAMESPACE = Param("namespace", "text", "Only those of this namespace.")
LISTING = (LIMIT, CONTINUE, LABEL_SELECTOR)
OF_NAMESPACE = "/namespaces/{ns}/admissionwebhook"
CREATED = (Reason.EXISTS, Reason.INVALID)
REPLACED = (Reason.NOT_FOUND, Reason.INVALID)


@table.write("POST", OF_NAMESPACE, "Create an admission webhook", body=WebhookDocument, reasons=CREATED, status=200)
@table.write(
    "POST", "/admissionwebhook", "Create an admission webhook", body=WebhookDocument, reasons=CREATED, status=200
)
async def create_webhook(call: Call) -> Answer:
    return await _put(call, create=True)


@table.write("PUT", OF_NAMESPACE, "Replace an admission webhook", body=WebhookDocument, reasons=REPLACED, status=200)
@table.write(
    "PUT", "/admissionwebhook", "Replace an admission webhook", body=WebhookDocument, reasons=REPLACED, status=200
)
async def replace_webhook(call: Call) -> Answer:
    return await _put(call, create=False)


async def _put(call: Call, *, create: bool) -> Answer:
    record = read_webhook(call.body, call.path.get("ns", ""))
    return await call.submit(PutWebhook(webhook=record, create=create, dry_run=call.dry_run, cause=call.cause))


@table.write(
    "DELETE", f"{OF_NAMESPACE}/{{name}}", "Delete an admission webhook", reasons=(Reason.NOT_FOUND,), status=200
)
@table.write(
    "DELETE", "/admissionwebhook/{ns}/{name}", "Delete an admission webhook", reasons=(Reason.NOT_FOUND,), status=200
)
async def delete_webhook(call: Call) -> Answer:
    command = DeleteWebhook(namespace=call.path["ns"], name=call.path["name"], dry_run=call.dry_run, cause=call.cause)
    return await call.submit(command)


@table.read(
    OF_NAMESPACE,
    "List the admission webhooks of a namespace",
    query=LISTING,
    answer=list[WebhookView],
    reasons=(errors.BAD_PARAMETER,),
)
@table.read(
    "/admissionwebhooks",
    "List the admission webhooks of all namespaces",
    query=(*LISTING, NAMESPACE),
    answer=list[WebhookView],
    reasons=(errors.BAD_PARAMETER,),
)
def list_webhooks(call: Call) -> Answer:
    namespace = call.path.get("ns", call.query.get("namespace"))
    requirements = parse_selector(call.query.get("labelSelector", ""))
    found = [
        webhook
        for webhook in list(call.state().webhooks.values())
        if (namespace is None or webhook.namespace == namespace) and selected(webhook.labels, requirements)
    ]
    return page(found, lambda webhook: (webhook.namespace, webhook.name), call.query, show_webhook)


@table.read(f"{OF_NAMESPACE}/{{name}}", "Fetch an admission webhook", answer=WebhookView)
@table.read("/admissionwebhook/{ns}/{name}", "Fetch an admission webhook", answer=WebhookView)
def get_webhook(call: Call) -> Answer:
    key = f"{call.path['ns']}/{call.path['name']}"
    record = call.state().webhooks.get(key)
    if record is None:
        raise not_found("admission webhook", key)
    return Answer(show_webhook(record))
