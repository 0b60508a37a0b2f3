"""Configmaps and secrets (docs/original.md#configmaps, #secrets). Contents of secrets go in and do not come out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from bcs_scheduler.api.documents.references import check_credentials, check_url, read_base64
from bcs_scheduler.api.documents.validate import check_head, check_kind, named_in, with_namespace
from bcs_scheduler.api.http.errors import invalid
from bcs_scheduler.api.http.operation import Answer, Answered, Call, Table, always
from bcs_scheduler.api.objects.changes import changes
from bcs_scheduler.api.reading.lists import find, listed, lists
from bcs_scheduler.api.reading.redaction import fingerprint
from bcs_scheduler.api.views.base import KeptMeta, show_meta
from bcs_scheduler.core.interface.requests import DeleteConfigMap, DeleteSecret, PutConfigMap, PutSecret
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.configuration import ConfigItemDocument, ConfigMapDocument, SecretDocument
from bcs_scheduler.wire.problems import Problems, member
from bcs_scheduler.wire.redaction import HIDDEN, hide
from store.records import ConfigItem, ConfigMap, Secret
from transactions.injection import UNFETCHED

Item = TypeVar("Item")
_KEY = re.compile(r"[A-Za-z0-9._-]{1,253}\Z")


def read_config_map(
    raw: object, namespace: str, name: str | None = None, problems: Problems | None = None
) -> ConfigMap:
    """A record without times. An empty `namespace` leaves it to the document. Raises ApiError (422)."""
    problems = Problems() if problems is None else problems
    check_kind(raw, ("configmap",), problems)
    document: ConfigMapDocument = decode(with_namespace(raw, namespace), ConfigMapDocument, problems)
    check_head(document.metadata, namespace, name, problems)
    items = {}
    for key, item in document.datas.items():
        at = member("$.datas", key)
        _check_key(key, at, problems)
        items[key] = _config_item(item, at, problems)
    if problems:
        raise invalid(problems.listed())
    given = document.metadata
    return ConfigMap(
        namespace=given.namespace, name=given.name, labels=given.labels, annotations=given.annotations, items=items
    )


def read_secret(raw: object, namespace: str, name: str | None = None, problems: Problems | None = None) -> Secret:
    """Reads a secret; arguments and errors are those of read_config_map."""
    problems = Problems() if problems is None else problems
    check_kind(raw, ("secret",), problems)
    document: SecretDocument = decode(with_namespace(raw, namespace), SecretDocument, problems)
    check_head(document.metadata, namespace, name, problems)
    items = {}
    for key, item in document.datas.items():
        at = member("$.datas", key)
        _check_key(key, at, problems)
        items[key] = read_base64(item.content, member(at, "content"), problems)
    if problems:
        raise invalid(problems.listed())
    given = document.metadata
    return Secret(
        namespace=given.namespace, name=given.name, labels=given.labels, annotations=given.annotations, items=items
    )


def with_kept_items(
    raw: Any, stored: Mapping[str, Item], keep: Callable[[dict[str, Any], Item], dict[str, Any]]
) -> Any:
    """A document of any shape, in which `keep` has replaced the marks of hidden values by those of the stored items."""
    datas = raw.get("datas") if isinstance(raw, dict) else None
    if not isinstance(datas, dict):
        return raw
    kept = {
        key: keep(item, stored[key]) if isinstance(item, dict) and key in stored else item
        for key, item in datas.items()
    }
    return {**raw, "datas": kept}


def kept_content(item: dict[str, Any], stored: str) -> dict[str, Any]:
    """The item of a secret. `stored`: the present content of this key."""
    return {**item, "content": stored} if item.get("content") == HIDDEN else item


def kept_password(item: dict[str, Any], stored: ConfigItem) -> dict[str, Any]:
    """The item of a configmap. A password is kept for the same address and user only."""
    same = (item.get("content"), item.get("remoteUser") or "") == (stored.content, stored.user)
    return {**item, "remotePasswd": stored.password} if item.get("remotePasswd") == HIDDEN and same else item


def _check_key(key: str, path: str, problems: Problems) -> None:
    if not _KEY.match(key):
        problems.add(path, "a key must be letters, digits, '.', '_' and '-', at most 253")


def _config_item(item: ConfigItemDocument, path: str, problems: Problems) -> ConfigItem:
    content = member(path, "content")
    if problems.refuses(member(path, "type")):
        return ConfigItem()
    if item.type in UNFETCHED:
        words = f"{item.type} is not fetched by agents: a task that refers to this item is refused"
        problems.warn(member(path, "type"), words, "use http or https")
    if item.type == "file":
        for field_name, value in (("remoteUser", item.remote_user), ("remotePasswd", item.remote_passwd)):
            if value:
                problems.add(member(path, field_name), "has no meaning for type file")
        return ConfigItem(type="file", content=read_base64(item.content, content, problems))
    check_url(item.content, content, problems, (item.type,))
    check_credentials(item.remote_user, item.remote_passwd, path, ("remoteUser", "remotePasswd"), problems)
    return ConfigItem(
        type=item.type,
        content=item.content,
        user=item.remote_user,
        password=item.remote_passwd,
    )


class ConfigItemView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`remotePasswd` is a mark unless it is a reference."""

    type: str
    content: str
    remote_user: str = ""
    remote_passwd: str = ""


class ConfigMapView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = "v4"
    kind: str = "configmap"
    metadata: KeptMeta
    datas: dict[str, ConfigItemView]


class SecretItemView(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a secret without its content: the digest of the content (see bcs_scheduler.api.reading.redaction) and
    its size in bytes."""

    digest: str
    size: int


class SecretView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = "v4"
    kind: str = "secret"
    metadata: KeptMeta
    datas: dict[str, SecretItemView]


def show_config_map(record: ConfigMap) -> ConfigMapView:
    datas = {
        key: ConfigItemView(
            type=item.type, content=item.content, remote_user=item.user, remote_passwd=hide(item.password)
        )
        for key, item in record.items.items()
    }
    return ConfigMapView(metadata=show_meta(record), datas=datas)


def show_secret(record: Secret) -> SecretView:
    datas = {}
    for key, content in record.items.items():
        digest, size = fingerprint(content)
        datas[key] = SecretItemView(digest=digest, size=size)
    return SecretView(metadata=show_meta(record), datas=datas)


table = Table("configuration")


# --- configmaps -----------------------------------------------------------------------------------------------


def _put_config_map(call: Call, create: bool) -> PutConfigMap:
    stored = None if create else call.state().config_maps.get(named_in(call.body, call.path.get("ns", "")))
    body = with_kept_items(call.body, stored.items, kept_password) if stored is not None else call.body
    return PutConfigMap(config_map=read_config_map(body, call.path.get("ns", ""), problems=call.problems))


changes(
    table,
    "config_map",
    ConfigMapDocument,
    put=_put_config_map,
    remove=lambda call: DeleteConfigMap(namespace=call.path["ns"], name=call.path["name"]),
    create={"/configmap": "Create a configmap", "/namespaces/{ns}/configmaps": "Create a configmap"},
    replace={
        "/configmap": "Replace a configmap",
        "/namespaces/{ns}/configmaps": "Replace a configmap; running taskgroups keep the contents of their launch",
    },
    delete={
        "/configmap/{ns}/{name}": "Delete a configmap",
        "/namespaces/{ns}/configmaps/{name}": "Delete a configmap",
    },
)


@lists(table, "/namespaces/{ns}/configmaps", "/configmaps", "configmaps", answer=list[ConfigMapView])
def list_config_maps(call: Call) -> Answered:
    return listed(call, ConfigMap, show_config_map)


@table.read("/namespaces/{ns}/configmaps/{name}", "Fetch a configmap", answer=ConfigMapView)
@table.read("/configmap/{ns}/{name}", "Fetch a configmap", answer=ConfigMapView)
def get_config_map(call: Call) -> Answer:
    return Answer(show_config_map(find(call.state().config_maps, "configmap", call.path["ns"], call.path["name"])))


# --- secrets --------------------------------------------------------------------------------------------------


def _put_secret(call: Call, create: bool) -> PutSecret:
    stored = None if create else call.state().secrets.get(named_in(call.body, call.path.get("ns", "")))
    body = with_kept_items(call.body, stored.items, kept_content) if stored is not None else call.body
    return PutSecret(secret=read_secret(body, call.path.get("ns", ""), problems=call.problems))


changes(
    table,
    "secret",
    SecretDocument,
    put=_put_secret,
    remove=lambda call: DeleteSecret(namespace=call.path["ns"], name=call.path["name"]),
    create={"/secret": "Create a secret", "/namespaces/{ns}/secrets": "Create a secret"},
    replace={
        "/secret": "Replace a secret",
        "/namespaces/{ns}/secrets": "Replace a secret; running taskgroups keep the contents of their launch",
    },
    delete={"/secret/{ns}/{name}": "Delete a secret", "/namespaces/{ns}/secrets/{name}": "Delete a secret"},
)


@lists(
    table, "/namespaces/{ns}/secrets", "/secrets", "secrets, with digests instead of contents,", answer=list[SecretView]
)
def list_secrets(call: Call) -> Answered:
    return listed(call, Secret, show_secret)


@table.read(
    "/namespaces/{ns}/secrets/{name}",
    "Fetch a secret, with digests instead of contents",
    answer=SecretView,
    audited=always,
)
@table.read(
    "/secret/{ns}/{name}", "Fetch a secret, with digests instead of contents", answer=SecretView, audited=always
)
def get_secret(call: Call) -> Answer:
    return Answer(show_secret(find(call.state().secrets, "secret", call.path["ns"], call.path["name"])))
