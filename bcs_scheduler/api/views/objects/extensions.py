"""Admission webhooks and custom resources as users see them: as in their documents."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec

from bcs_scheduler.api.views.base import KeptMeta, show_meta
from bcs_scheduler.wire.times import rfc3339
from store.records import CustomKind, CustomObject, Hook, Webhook


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


class CustomKindView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A kind in the form in which it was registered."""

    api_version: str
    kind: str
    metadata: dict[str, Any]
    spec: dict[str, Any]
    creation_timestamp: str


class CustomObjectView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str
    kind: str
    metadata: KeptMeta
    spec: Any
    status: Any


def show_webhook(record: Webhook) -> WebhookView:
    return WebhookView(
        metadata=show_meta(record),
        resources_ref=ResourcesRefView(operation=record.operation, kind=record.target),
        validating=not record.mutating,
        admission_webhooks=[_hook(hook) for hook in record.hooks],
    )


def _hook(hook: Hook) -> HookView:
    selector = NamespaceSelectorView(operator="NotIn" if hook.excluded else "In", values=list(hook.namespaces))
    return HookView(
        name=hook.name,
        failure_policy="Fail" if hook.fail else "Ignore",
        client_config=ClientConfigView(url=hook.url, ca_bundle=b64encode(hook.ca.encode()).decode()),
        namespace_selector=selector if hook.namespaces else None,
        timeout_seconds=hook.timeout,
    )


def show_custom_kind(record: CustomKind) -> CustomKindView:
    given = msgspec.json.decode(record.raw)
    return CustomKindView(
        api_version=given.get("apiVersion", "v4"),
        kind=given.get("kind", ""),
        metadata=given.get("metadata", {}),
        spec=given.get("spec", {}),
        creation_timestamp=rfc3339(record.created_at),
    )


def show_custom_object(record: CustomObject) -> CustomObjectView:
    given = msgspec.json.decode(record.raw)
    return CustomObjectView(
        api_version=given.get("apiVersion", "v4"),
        kind=record.type,
        metadata=show_meta(record),
        spec=given.get("spec"),
        status=given.get("status"),
    )
