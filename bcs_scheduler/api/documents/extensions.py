"""Documents that extend the system: admission webhooks (docs/original.md#webhooks) and custom resources
(docs/original.md#custom-resources)."""

from __future__ import annotations

import re
import ssl
from base64 import b64decode
from typing import Literal, cast

import msgspec

from bcs_scheduler.api.documents.configuration import read_base64
from bcs_scheduler.api.documents.parts import names
from bcs_scheduler.api.documents.parts.references import check_url
from bcs_scheduler.api.documents.validate import check_identity, check_kind, check_metadata, with_namespace
from bcs_scheduler.api.http.errors import invalid
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.application import KeptMetadata
from bcs_scheduler.wire.documents.extensions import (
    ClientConfig,
    CustomKindDocument,
    CustomObjectDocument,
    DefinitionDocument,
    HookDocument,
    WebhookDocument,
)
from bcs_scheduler.wire.problems import Problems, Taken, element, member
from store.records import CustomKind, CustomObject, Hook, Webhook

Operation = Literal["Create", "Update"]
OPERATIONS: tuple[Operation, ...] = ("Create", "Update")
TARGETS = ("application", "process", "deployment", "daemonset", "service", "configmap")
"""Kinds of documents that webhooks may be asked about. Secrets are not among them: they leave the scheduler for their
tasks only."""
BUILT_IN = frozenset(
    (
        *TARGETS, "processes", "secret", "namespace", "queue", "priorityclass", "admissionwebhook", "webhook",
        "command", "message",
        "taskgroup", "task", "transaction", "version", "endpoint", "event", "agent", "agentsetting",
        "extendedresource", "offer", "cluster",
        "server", "definition", "kind", "customkind", "crr", "crd", "watch", "all",
        "pod", "po", "node", "no",
        "app", "dep", "deploy", "ds", "tg", "tx", "ag", "cm", "svc", "ep", "ns", "cmd", "ev", "msg",
        "pc", "priorityclasses", "pg", "podgroup", "managed", "managedapplication",
    )
)  # fmt: skip
"""Words with a meaning, so no custom kind may have one of them as name (in any case, or with an s): kinds, parts of
paths, and the names of kinds in `bcs`."""
HTTPS = 443
_CUSTOM_KIND = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}\Z")


# --- admission webhooks ---------------------------------------------------------------------------------------------


def read_webhook(raw: object, namespace: str, problems: Problems | None = None) -> Webhook:
    """A record without times. An empty `namespace` leaves it to the document. Raises ApiError (422)."""
    problems = Problems() if problems is None else problems
    check_kind(raw, ("admissionwebhook",), problems)
    document: WebhookDocument = decode(with_namespace(raw, namespace), WebhookDocument, problems)
    _check_head(document.metadata, namespace, None, problems)
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


# --- custom resources -----------------------------------------------------------------------------------------------


def read_custom_kind(raw: object, problems: Problems | None = None) -> CustomKind:
    """A record without time. Raises ApiError (422)."""
    problems = Problems() if problems is None else problems
    document: CustomKindDocument = decode(raw, CustomKindDocument, problems)
    return _custom_kind(document, problems)


def read_definition(raw: object, name: str | None = None, problems: Problems | None = None) -> CustomKind:
    """A record without time, from a definition in the form of Kubernetes. `name`: of the path, if it has one. Raises
    ApiError (422)."""
    problems = Problems() if problems is None else problems
    document: DefinitionDocument = decode(raw, DefinitionDocument, problems)
    spec = document.spec
    given, expected = document.metadata.get("name"), f"{spec.names.plural}.{spec.group}"
    if not problems and given != expected:
        problems.add("$.metadata.name", f'must be "{expected}": plural and group of the definition')
    elif name is not None and given != name:
        problems.add("$.metadata.name", f'is "{given}", but the path says "{name}"')
    if not spec.version and not any(isinstance(one.get("name"), str) and one["name"] for one in spec.versions):
        problems.add("$.spec.versions", "must name a version")
    return _custom_kind(document, problems)


def _custom_kind(document: CustomKindDocument | DefinitionDocument, problems: Problems) -> CustomKind:
    """Raises ApiError (422)."""
    name = document.spec.names.kind
    if not _CUSTOM_KIND.match(name):
        problems.add("$.spec.names.kind", "must be letters, digits and '-', start with a letter, at most 63 long")
    elif {name.lower(), name.lower().removesuffix("s")} & BUILT_IN:
        problems.add("$.spec.names.kind", f"{name} is reserved")
    if problems:
        raise invalid(problems.listed())
    return CustomKind(name=name, raw=msgspec.json.encode(document).decode())


def read_custom_object(
    raw: object, kind: str, namespace: str, name: str | None = None, problems: Problems | None = None
) -> CustomObject:
    """A record without times; its document must be of the `kind` of the path. Raises ApiError (422)."""
    problems = Problems() if problems is None else problems
    if isinstance(raw, dict):
        raw = with_namespace(raw, namespace)
    document: CustomObjectDocument = decode(raw, CustomObjectDocument, problems)
    if document.kind != kind:
        problems.add("$.kind", f"is {document.kind[:80]!r}, but the path says {kind!r}")
    _check_head(document.metadata, namespace, name, problems)
    if problems:
        raise invalid(problems.listed())
    given = document.metadata
    body = {"apiVersion": document.api_version, "spec": document.spec, "status": document.status}
    return CustomObject(
        type=kind,
        namespace=given.namespace,
        name=given.name,
        labels=given.labels,
        annotations=given.annotations,
        raw=msgspec.json.encode(body).decode(),
    )


def _check_head(metadata: KeptMetadata, namespace: str, name: str | None, problems: Problems) -> None:
    if namespace:
        check_identity(metadata, namespace, name, problems)
    elif not metadata.namespace:
        problems.add("$.metadata.namespace", "is required")
    check_metadata(metadata, problems)
