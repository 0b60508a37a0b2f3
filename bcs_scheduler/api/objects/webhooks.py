"""Admission webhooks (docs/original.md#webhooks): their registration. bcs_scheduler.api.admission asks them before
documents are accepted.
"""

from __future__ import annotations

import ssl
from base64 import b64decode, b64encode
from typing import Literal, cast

import msgspec

from bcs_scheduler.api.documents import names
from bcs_scheduler.api.documents.references import check_url, read_base64
from bcs_scheduler.api.documents.validate import check_head, check_kind, with_namespace
from bcs_scheduler.api.http.errors import invalid
from bcs_scheduler.api.http.operation import Answer, Answered, Call, Table
from bcs_scheduler.api.objects.changes import changes
from bcs_scheduler.api.reading.lists import find, listed, lists
from bcs_scheduler.api.views.base import KeptMeta, show_meta
from bcs_scheduler.core.interface.requests import DeleteWebhook, PutWebhook
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.extensions import (
    ClientConfig,
    HookDocument,
    WebhookDocument,
)
from bcs_scheduler.wire.problems import Problems, Taken, element, member
from store.records import Hook, Webhook

Operation = Literal["Create", "Update"]
OPERATIONS: tuple[Operation, ...] = ("Create", "Update")
TARGETS = ("application", "process", "deployment", "daemonset", "service", "configmap")
"""Kinds of documents that webhooks may be asked about. Secrets are not among them: they leave the scheduler for their
tasks only."""
HTTPS = 443


def read_webhook(raw: object, namespace: str, problems: Problems | None = None) -> Webhook:
    """A record without times. An empty `namespace` leaves it to the document. Raises ApiError (422)."""
    problems = Problems() if problems is None else problems
    check_kind(raw, ("admissionwebhook",), problems)
    document: WebhookDocument = decode(with_namespace(raw, namespace), WebhookDocument, problems)
    check_head(document.metadata, namespace, None, problems)
    ref = document.resources_ref
    operation = _folded(ref.operation, OPERATIONS, "$.resourcesRef.operation", problems)
    target = _folded(ref.kind, TARGETS, "$.resourcesRef.kind", problems)
    taken = Taken("name")
    hooks = []
    for i, hook in enumerate(document.admission_webhooks):
        at = element("$.admissionWebhooks", i)
        taken.take(hook.name, member(at, "name"), problems)
        hooks.append(_hook(hook, at, problems))
    if problems:
        raise invalid(problems.listed())
    given = document.metadata
    return Webhook(
        namespace=given.namespace,
        name=given.name,
        labels=given.labels,
        annotations=given.annotations,
        operation=cast(Operation, operation),
        target=target,
        mutating=not document.validating,
        hooks=tuple(hooks),
    )


def _folded(word: str, known: tuple[str, ...], path: str, problems: Problems) -> str:
    """The known word that is equal but for case."""
    for name in known:
        if name.lower() == word.lower():
            return name
    problems.add(path, f"must be one of {', '.join(known)}, not {word[:40]!r}", word, known)
    return known[0]


def _hook(hook: HookDocument, path: str, problems: Problems) -> Hook:
    names.check_name(hook.name, member(path, "name"), problems)
    selector = hook.namespace_selector
    for j, value in enumerate(selector.values if selector is not None else ()):
        at = element(member(member(path, "namespaceSelector"), "values"), j)
        names.check_namespace(value, at, problems)
    return Hook(
        name=hook.name,
        url=_url(hook.client_config, member(path, "clientConfig"), problems),
        ca=_ca(hook.client_config.ca_bundle, member(member(path, "clientConfig"), "caBundle"), problems),
        timeout=hook.timeout_seconds,
        fail=hook.failure_policy == "Fail",
        namespaces=selector.values if selector is not None else (),
        excluded=selector is not None and selector.operator == "NotIn",
    )


def _url(config: ClientConfig, path: str, problems: Problems) -> str:
    if config.url:
        check_url(config.url, member(path, "url"), problems, ("http", "https"))
        return config.url
    if not config.name or not config.namespace:
        problems.add(path, "needs a url, or the name and namespace of a service")
        return ""
    names.check_host_name(config.name, member(path, "name"), problems)
    names.check_host_name(config.namespace, member(path, "namespace"), problems)
    where = config.path if config.path.startswith("/") else f"/{config.path}"
    url = f"https://{config.name}.{config.namespace}:{config.port or HTTPS}{where}"
    check_url(url, member(path, "path"), problems, ("https",))
    return url


def _ca(bundle: str, path: str, problems: Problems) -> str:
    if not bundle:
        return ""
    content = read_base64(bundle, path, problems)
    try:
        pem = b64decode(content, validate=True).decode("ascii")
        ssl.create_default_context(cadata=pem)
    except (ValueError, ssl.SSLError):
        problems.add(path, "must be base64 of certificates in PEM")
        return ""
    return pem


class ResourcesRefView(msgspec.Struct, frozen=True, kw_only=True):
    operation: str
    kind: str


class ClientConfigView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`url` also where the document named a service."""

    url: str
    ca_bundle: str


class NamespaceSelectorView(msgspec.Struct, frozen=True, kw_only=True):
    operator: str
    values: list[str]


class HookView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    failure_policy: str
    client_config: ClientConfigView
    namespace_selector: NamespaceSelectorView | None
    timeout_seconds: float


class WebhookView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = "v4"
    kind: str = "admissionwebhook"
    metadata: KeptMeta
    resources_ref: ResourcesRefView
    validating: bool
    admission_webhooks: list[HookView]


def show_webhook(record: Webhook) -> WebhookView:
    return WebhookView(
        metadata=show_meta(record),
        resources_ref=ResourcesRefView(operation=record.operation, kind=record.target),
        validating=not record.mutating,
        admission_webhooks=[_show_hook(hook) for hook in record.hooks],
    )


def _show_hook(hook: Hook) -> HookView:
    selector = NamespaceSelectorView(operator="NotIn" if hook.excluded else "In", values=list(hook.namespaces))
    return HookView(
        name=hook.name,
        failure_policy="Fail" if hook.fail else "Ignore",
        client_config=ClientConfigView(url=hook.url, ca_bundle=b64encode(hook.ca.encode()).decode()),
        namespace_selector=selector if hook.namespaces else None,
        timeout_seconds=hook.timeout,
    )


table = Table("admission webhooks")
OF_NAMESPACE = "/namespaces/{ns}/admissionwebhook"


changes(
    table,
    "webhook",
    WebhookDocument,
    put=lambda call, create: PutWebhook(webhook=read_webhook(call.body, call.path.get("ns", ""), call.problems)),
    remove=lambda call: DeleteWebhook(namespace=call.path["ns"], name=call.path["name"]),
    create=dict.fromkeys(("/admissionwebhook", OF_NAMESPACE), "Create an admission webhook"),
    replace=dict.fromkeys(("/admissionwebhook", OF_NAMESPACE), "Replace an admission webhook"),
    delete=dict.fromkeys(("/admissionwebhook/{ns}/{name}", f"{OF_NAMESPACE}/{{name}}"), "Delete an admission webhook"),
)


@lists(table, OF_NAMESPACE, "/admissionwebhooks", "admission webhooks", answer=list[WebhookView])
def list_webhooks(call: Call) -> Answered:
    return listed(call, Webhook, show_webhook)


@table.read(f"{OF_NAMESPACE}/{{name}}", "Fetch an admission webhook", answer=WebhookView)
@table.read("/admissionwebhook/{ns}/{name}", "Fetch an admission webhook", answer=WebhookView)
def get_webhook(call: Call) -> Answer:
    return Answer(show_webhook(find(call.state().webhooks, "admission webhook", call.path["ns"], call.path["name"])))
