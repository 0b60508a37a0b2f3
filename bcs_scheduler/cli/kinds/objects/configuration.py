"""Configmaps and secrets: columns, operations, descriptions. Tables and descriptions show no contents."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from typing import Any

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.kinds.base import Describe, Functions
from bcs_scheduler.cli.kinds.objects.extensions import operations_of, reading
from bcs_scheduler.cli.output.data import print_data
from bcs_scheduler.cli.output.tables import Column, age_column, field_list, time_column
from bcs_scheduler.cli.output.text import pairs, when
from bcs_scheduler.cli.session import Session
from store.keys import object_key


def _created(item: Json) -> Any:
    return (item.get("metadata") or {}).get("creationTimestamp")


CONFIGMAPS: Sequence[Column] = (
    Column("NAME", lambda c: c["metadata"]["name"]),
    Column("KEYS", lambda c: ",".join(c.get("datas") or ()), long=True),
    age_column("AGE", _created),
    time_column("CREATED", _created),
)
SECRETS: Sequence[Column] = (
    Column("NAME", lambda s: s["metadata"]["name"]),
    Column("KEYS", lambda s: ",".join(s.get("datas") or ()), long=True),
    Column("BYTES", lambda s: sum(item.get("size", 0) for item in s["datas"].values()), right=True),
    age_column("AGE", _created),
    time_column("CREATED", _created),
)


def describing_configuration(kind: str) -> Describe:
    def show(session: Session, name: str, events: bool, form: str) -> None:
        found = session.client.object(kind, session.namespace, name)
        if form:
            print_data(session.out, found, form)
            return
        head = found["metadata"]
        session.show(
            field_list(
                [
                    ("Name", object_key(head["namespace"], head["name"])),
                    ("Labels", pairs(head.get("labels"))),
                    ("Created", when(head.get("creationTimestamp"))),
                    ("Updated", when(head.get("updateTimestamp"))),
                ]
            )
        )
        session.out.print("\nKeys", "bold")
        session.show(field_list([(f"  {key}", _item(item)) for key, item in found["datas"].items()]))

    return show


def _item(item: Json) -> str:
    """Size and digest of an item; its content is not shown."""
    if "digest" in item:
        return f"{item['size']} bytes, digest {item['digest']}"
    if item.get("type", "file") != "file":
        return f"{item['content']}{' as ' + item['remoteUser'] if item.get('remoteUser') else ''}"
    return f"{len(b64decode(item['content']))} bytes"


FUNCTIONS = {
    f"{kind}s": Functions(columns, reading(kind), describing_configuration(kind), operations_of(kind))
    for kind, columns in (("configmap", CONFIGMAPS), ("secret", SECRETS))
}
