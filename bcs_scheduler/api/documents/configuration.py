"""Documents of kind configmap and secret (bcs_api 6.10, 6.11), and the records they become."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from bcs_scheduler.api.documents.application import KeptMetadata
from bcs_scheduler.api.documents.references import check_credentials, check_url
from bcs_scheduler.api.documents.validate import check_identity, check_kind, check_metadata, with_namespace
from bcs_scheduler.api.documents.walk import Document, Problems, decode, member
from bcs_scheduler.api.errors import invalid
from store.records import ConfigItem, ConfigMap, Secret

_KEY = re.compile(r"[A-Za-z0-9._-]{1,253}\Z")
_Keys = Meta(max_length=1000)


class ConfigItemDocument(Document, frozen=True, kw_only=True):
    """`content` is base64, or a URL that is fetched on the agent. `remotePasswd` may be ``secret::<name>||<key>``."""

    refused: ClassVar[dict[str, str]] = dict.fromkeys(("digest", "size"), "is what reads show; give content")

    type: Literal["file", "http", "https", "ftp", "ftps"] = "file"
    content: str
    remote_user: str = ""
    remote_passwd: str = ""


class SecretItemDocument(Document, frozen=True, kw_only=True):
    """`content` is base64."""

    refused: ClassVar[dict[str, str]] = dict.fromkeys(("digest", "size"), "is what reads show; give content")

    content: str


class ConfigMapDocument(Document, frozen=True, kw_only=True):
    api_version: Literal["v4"] = "v4"
    kind: Literal["configmap"]
    metadata: KeptMetadata
    datas: Annotated[dict[str, ConfigItemDocument], _Keys] = field(default_factory=dict)


class SecretDocument(Document, frozen=True, kw_only=True):
    """`type` is Kubernetes's and means nothing here."""

    api_version: Literal["v4"] = "v4"
    kind: Literal["secret"]
    metadata: KeptMetadata
    type: str = ""
    datas: Annotated[dict[str, SecretItemDocument], _Keys] = field(default_factory=dict)


def read_config_map(raw: object, namespace: str, name: str | None = None) -> ConfigMap:
    """A record without times. An empty `namespace` leaves it to the document. Raises ApiError (422)."""
    problems = Problems()
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


def read_secret(raw: object, namespace: str, name: str | None = None) -> Secret:
    """As read_config_map."""
    problems = Problems()
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
    if item.type in ("ftp", "ftps"):
        problems.add(member(path, "type"), f"{item.type} is not supported: content is fetched by http and https only")
        return ConfigItem()
    if item.type == "file":
        for field_name, value in (("remoteUser", item.remote_user), ("remotePasswd", item.remote_passwd)):
            if value:
                problems.add(member(path, field_name), "has no meaning for type file")
        return ConfigItem(type="file", content=read_base64(item.content, content, problems))
    check_url(item.content, content, problems, (item.type,))
    check_credentials(item.remote_user, item.remote_passwd, path, ("remoteUser", "remotePasswd"), problems)
    return ConfigItem(
        type="https" if item.type == "https" else "http",
        content=item.content,
        user=item.remote_user,
        password=item.remote_passwd,
    )
