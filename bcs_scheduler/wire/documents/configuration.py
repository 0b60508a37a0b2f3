"""Documents of kind configmap and secret (docs/original.md#configmaps, #secrets)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from bcs_scheduler.wire.decoding import Document
from bcs_scheduler.wire.documents.application import API_VERSION, KeptMetadata

_Keys = Meta(max_length=1000)


class ConfigItemDocument(Document, frozen=True, kw_only=True):
    """`content` is base64, or a URL that is fetched on the agent. `remotePasswd` may be ``secret::<name>||<key>``."""

    refused: ClassVar[dict[str, str]] = dict.fromkeys(("digest", "size"), "is only part of answers; give content")
    ignored: ClassVar[dict[str, str]] = {"operator": ""}

    type: Literal["file", "http", "https", "ftp", "ftps"] = "file"
    content: str
    remote_user: str = ""
    remote_passwd: str = ""


class SecretItemDocument(Document, frozen=True, kw_only=True):
    """`content` is base64."""

    ignored: ClassVar[dict[str, str]] = {"path": "give the path of the file in keyOrPath of the item"}
    refused: ClassVar[dict[str, str]] = dict.fromkeys(("digest", "size"), "is only part of answers; give content")

    content: str


class ConfigMapDocument(Document, frozen=True, kw_only=True):
    ignored: ClassVar[dict[str, str]] = {"operator": ""}
    lenient: ClassVar[dict[str, str]] = API_VERSION

    api_version: Literal["v4"] = "v4"
    kind: Literal["configmap"]
    metadata: KeptMetadata
    datas: Annotated[dict[str, ConfigItemDocument], _Keys] = field(default_factory=dict)


class SecretDocument(Document, frozen=True, kw_only=True):
    """`type` is Kubernetes's and means nothing here."""

    ignored: ClassVar[dict[str, str]] = {"operator": ""}
    lenient: ClassVar[dict[str, str]] = API_VERSION

    api_version: Literal["v4"] = "v4"
    kind: Literal["secret"]
    metadata: KeptMetadata
    type: str = ""
    datas: Annotated[dict[str, SecretItemDocument], _Keys] = field(default_factory=dict)
