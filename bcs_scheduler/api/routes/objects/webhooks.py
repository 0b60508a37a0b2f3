"""Admission webhooks: their registration. bcs_scheduler.api.admission asks them before documents are accepted."""

from __future__ import annotations

from bcs_scheduler.api.documents.extensions import read_webhook
from bcs_scheduler.api.documents.validate import known_version
from bcs_scheduler.api.http.errors import Reasons
from bcs_scheduler.api.http.operation import Answer, Answered, Call, Table
from bcs_scheduler.api.reading.lists import find, listed, lists
from bcs_scheduler.api.views.objects.extensions import WebhookView, show_webhook
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import DeleteWebhook, PutWebhook
from bcs_scheduler.wire.documents.extensions import WebhookDocument

table = Table("admission webhooks")
OF_NAMESPACE = "/namespaces/{ns}/admissionwebhook"
CREATED: Reasons = (Reason.EXISTS, Reason.INVALID)
REPLACED: Reasons = (Reason.NOT_FOUND, Reason.CONFLICT, Reason.INVALID)


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
    record = read_webhook(call.body, call.path.get("ns", ""), call.problems)
    command = PutWebhook(
        webhook=record, create=create, expected=known_version(call.body), dry_run=call.dry_run, cause=call.cause
    )
    return await call.submit(command)


@table.write(
    "DELETE", f"{OF_NAMESPACE}/{{name}}", "Delete an admission webhook", reasons=(Reason.NOT_FOUND,), status=200
)
@table.write(
    "DELETE", "/admissionwebhook/{ns}/{name}", "Delete an admission webhook", reasons=(Reason.NOT_FOUND,), status=200
)
async def delete_webhook(call: Call) -> Answer:
    command = DeleteWebhook(namespace=call.path["ns"], name=call.path["name"], dry_run=call.dry_run, cause=call.cause)
    return await call.submit(command)


@lists(table, OF_NAMESPACE, "/admissionwebhooks", "admission webhooks", answer=list[WebhookView])
def list_webhooks(call: Call) -> Answered:
    return listed(call, "webhook", show_webhook)


@table.read(f"{OF_NAMESPACE}/{{name}}", "Fetch an admission webhook", answer=WebhookView)
@table.read("/admissionwebhook/{ns}/{name}", "Fetch an admission webhook", answer=WebhookView)
def get_webhook(call: Call) -> Answer:
    return Answer(show_webhook(find(call.state().webhooks, "admission webhook", call.path["ns"], call.path["name"])))
