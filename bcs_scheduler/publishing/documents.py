"""The documents that components of the original read in ZooKeeper (docs/original.md#endpoints, #zookeeper-tree).

Each document has a mark, which these components ignore: nodes without this mark belong to another program.

These components know no readiness, so an endpoint here holds the members that should get traffic: ready members and, as
in the original, unreachable ones, since these may still serve requests.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from store.records import Endpoint, Member, Service

OWNER = "bcs-scheduler"
NO_TIME = "0001-01-01T00:00:00Z"
_encoder = msgspec.json.Encoder(order="deterministic")


class _Marked(msgspec.Struct, rename="camel"):
    published_by: str = ""


NAMESPACE = _encoder.encode(_Marked(OWNER))
"""Data of the node of a namespace, which readers do not look at."""


def is_ours(data: bytes) -> bool:
    """True if a scheduler of this program has written the data."""
    try:
        return msgspec.json.decode(data, type=_Marked).published_by == OWNER
    except msgspec.MsgspecError:
        return False


def service(record: Service) -> bytes:
    ports = [
        {
            "name": port.name,
            "domainName": port.domain_name,
            "path": port.path,
            "protocol": port.protocol,
            "servicePort": port.service_port,
            "targetPort": port.target_port,
            "nodePort": port.node_port,
        }
        for port in record.ports
    ]
    spec = {
        "selector": record.selector,
        "type": record.type,
        "clusterIP": list(record.cluster_ip),
        "ports": ports,
    }
    return _encoder.encode({**_head(record), "spec": spec})


def endpoint(record: Endpoint) -> bytes:
    """`kind` is `service`, as the original has it (docs/original.md#endpoints), because its readers expect that."""
    members = [_member(record.namespace, member) for member in record.members if _published(member)]
    return _encoder.encode({**_head(record), "eps": members or None})


def _head(record: Service | Endpoint) -> dict[str, Any]:
    return {"apiVersion": "v4", "kind": "service", "metadata": _metadata(record), "publishedBy": OWNER}


def _published(member: Member) -> bool:
    return member.ready or member.reason == "unreachable"


def _member(namespace: str, member: Member) -> dict[str, Any]:
    ports = [
        {
            "name": port.name,
            "hostPort": port.host_port,
            "containerPort": port.container_port,
            "hostIP": member.node_ip,
            "protocol": port.protocol,
        }
        for port in member.ports
    ]
    return {
        "networkMode": member.network_mode,
        "nodeIP": member.node_ip,
        "containerIP": member.container_ip,
        "targetRef": {
            "kind": "taskgroup",
            "id": member.taskgroup,
            "name": member.name,
            "namespace": namespace,
            "image": "",
        },
        "ports": ports,
    }


def _metadata(record: Service | Endpoint) -> dict[str, Any]:
    created = datetime.fromtimestamp(int(record.created_at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    head: dict[str, Any] = {
        "name": record.name,
        "namespace": record.namespace,
        "creationTimestamp": created if record.created_at else NO_TIME,
    }
    if record.labels:
        head["labels"] = record.labels
    if record.annotations:
        head["annotations"] = record.annotations
    return head
