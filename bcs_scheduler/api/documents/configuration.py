"""Documents of kind configmap and secret (docs/original.md#configmaps, #secrets), and the records they become."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from bcs_scheduler.api.documents.parts.references import check_credentials, check_url
from bcs_scheduler.api.documents.validate import check_identity, check_kind, check_metadata, with_namespace
from bcs_scheduler.api.http.errors import invalid
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.application import KeptMetadata
from bcs_scheduler.wire.documents.configuration import ConfigItemDocument, ConfigMapDocument, SecretDocument
from bcs_scheduler.wire.problems import Problems, member
from bcs_scheduler.wire.redaction import HIDDEN
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
    _check_head(document.metadata, namespace, name, problems)
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
    _check_head(document.metadata, namespace, name, problems)
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


def read_base64(written: str, path: str, problems: Problems) -> str:
    """Without the blanks and line ends that it may contain; the problem never shows the content."""
    content = "".join(written.split())
    try:
        b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        problems.add(path, "must be base64")
    return content


def _check_head(metadata: KeptMetadata, namespace: str, name: str | None, problems: Problems) -> None:
    if namespace:
        check_identity(metadata, namespace, name, problems)
    elif not metadata.namespace:
        problems.add("$.metadata.namespace", "is required")
    check_metadata(metadata, problems)


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
