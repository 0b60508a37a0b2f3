"""Documents of admission webhooks (docs/original.md#webhooks) and custom resources
(docs/original.md#custom-resources)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from bcs_scheduler.wire.decoding import Document
from bcs_scheduler.wire.documents.application import API_VERSION, KeptMetadata


class ResourcesRef(Document, frozen=True, kw_only=True):
    """Both in capital or small letters (docs/original.md#webhooks)."""

    operation: str
    kind: str


class ClientConfig(Document, frozen=True, kw_only=True):
    """`url`, or else the parts of ``https://<name>.<namespace>:<port><path>``. `caBundle` is base64 of PEM."""

    url: str = ""
    ca_bundle: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    port: Annotated[int, Meta(ge=0, le=65535)] = 0


class NamespaceSelector(Document, frozen=True, kw_only=True):
    operator: Literal["In", "NotIn"]
    values: Annotated[tuple[str, ...], Meta(min_length=1, max_length=1000)]


class HookDocument(Document, frozen=True, kw_only=True):
    name: str
    failure_policy: Literal["Fail", "Ignore"] = "Ignore"
    client_config: ClientConfig
    namespace_selector: NamespaceSelector | None = None
    timeout_seconds: Annotated[float, Meta(ge=0.1, le=30)] = 10.0


class WebhookDocument(Document, frozen=True, kw_only=True):
    """`validating`: the webhooks may refuse documents but not change them."""

    refused: ClassVar[dict[str, str]] = {"status": "is only part of answers; leave it out"}

    lenient: ClassVar[dict[str, str]] = API_VERSION

    api_version: Literal["v4"] = "v4"
    kind: Literal["admissionwebhook"]
    metadata: KeptMetadata
    resources_ref: ResourcesRef
    validating: bool = False
    admission_webhooks: Annotated[tuple[HookDocument, ...], Meta(min_length=1, max_length=16)]


class CustomNames(Document, frozen=True, kw_only=True):
    ignored: ClassVar[dict[str, str]] = dict.fromkeys(("plural", "singular", "shortNames"), "")

    kind: str


class CustomKindSpec(Document, frozen=True, kw_only=True):
    names: CustomNames


class CustomKindDocument(Document, frozen=True, kw_only=True):
    """Registers a kind. `metadata` means nothing."""

    api_version: str = "v4"
    kind: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    spec: CustomKindSpec


class CustomObjectDocument(Document, frozen=True, kw_only=True):
    """`spec` and `status` are its owners' business."""

    api_version: str = "v4"
    kind: str
    metadata: KeptMetadata
    spec: Any = None
    status: Any = None


class DefinitionNames(Document, frozen=True, kw_only=True):
    kind: str
    plural: Annotated[str, Meta(min_length=1, max_length=253)]
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class DefinitionSpec(Document, frozen=True, kw_only=True):
    """`version`, or `versions` with a `name` each. Objects are not compared with `validation`, and are kept in one
    form for all versions. Other fields are kept, and have no effect."""

    group: Annotated[str, Meta(min_length=1, max_length=253)]
    version: str = ""
    versions: tuple[dict[str, Any], ...] = ()
    names: DefinitionNames
    scope: Literal["Namespaced"] = "Namespaced"
    validation: Any = None
    subresources: Any = None
    additional_printer_columns: Any = None
    conversion: Any = None
    preserve_unknown_fields: Any = None


class DefinitionDocument(Document, frozen=True, kw_only=True):
    """A definition of custom resources in the form of Kubernetes."""

    api_version: str = "v4"
    kind: Literal["CustomResourceDefinition"] = "CustomResourceDefinition"
    metadata: dict[str, Any]
    spec: DefinitionSpec
    status: Any = None
