"""Documents of kind service (docs/original.md#labels)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from bcs_scheduler.wire.decoding import Document
from bcs_scheduler.wire.documents.application import API_VERSION, KeptMetadata
from bcs_scheduler.wire.problems import Problems, member

_IGNORED = {
    "containerPort": "the port of the taskgroups with the same name applies",
    "id": "",
    "weight": "weights are labels: BCS-WEIGHT-<name>",
    "autoUpgrade": "",
}
MAX_PORTS = 100
_Port = Annotated[int, Meta(ge=0, le=65_535)]


class ServicePortDocument(Document, frozen=True, kw_only=True):
    """`name` is that of a port of the selected taskgroups. The rest is for load balancers."""

    ignored: ClassVar[dict[str, str]] = _IGNORED

    name: str
    protocol: str = "tcp"
    service_port: _Port = 0
    domain_name: Annotated[str, Meta(max_length=253)] = ""
    path: Annotated[str, Meta(max_length=4096)] = ""
    target_port: _Port = 0
    node_port: _Port = 0


class ServiceSpec(Document, frozen=True, kw_only=True):
    """An empty selector selects every taskgroup of the namespace. `type` and `clusterIP` are kept, and mean nothing
    here."""

    ignored: ClassVar[dict[str, str]] = _IGNORED

    selector: dict[str, str] = field(default_factory=dict)
    ports: Annotated[tuple[ServicePortDocument, ...], Meta(max_length=MAX_PORTS)] = ()
    type: Annotated[str, Meta(max_length=63)] = ""
    cluster_ip: Annotated[tuple[str, ...], Meta(max_length=MAX_PORTS)] = field(name="clusterIP", default=())

    @classmethod
    def modern(cls, raw: dict[str, Any], path: str, problems: Problems) -> dict[str, Any]:
        key = next((key for key in raw if key.lower() == "clusterip"), None)
        if key is None or not isinstance(raw[key], str):
            return raw
        if raw[key]:
            problems.warn(member(path, key), "is a text", "give a list of addresses")
        return {**raw, key: [raw[key]] if raw[key] else []}


class ServiceDocument(Document, frozen=True, kw_only=True):
    ignored: ClassVar[dict[str, str]] = _IGNORED
    lenient: ClassVar[dict[str, str]] = API_VERSION

    api_version: Literal["v4"] = "v4"
    kind: Literal["service"]
    metadata: KeptMetadata
    spec: ServiceSpec
