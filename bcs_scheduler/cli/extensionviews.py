"""The columns of `bcs get` for namespaces, admission webhooks and custom resources."""

from __future__ import annotations

from bcs_scheduler.cli.client import Json
from bcs_scheduler.cli.output import Column, age


def quota_text(namespace: Json, resource: str) -> str:
    """``2/10``: used and quota; without a quota what is used."""
    used, bound = namespace["status"]["used"][resource], namespace["spec"]["quota"].get(resource)
    return f"{used:g}" if bound is None else f"{used:g}/{bound:g}"


def _created(item: Json) -> str:
    return age((item.get("metadata") or {}).get("creationTimestamp"))


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])


NAMESPACES = (
    Column("NAME", _name),
    Column("CPU", lambda n: quota_text(n, "cpus"), right=True),
    Column("MEMORY MB", lambda n: quota_text(n, "mem"), right=True),
    Column("DISK MB", lambda n: quota_text(n, "disk"), wide=True, right=True),
    Column("TASKGROUPS", lambda n: quota_text(n, "taskgroups"), right=True),
    Column("AGE", _created, right=True),
    Column("CONTENTS", lambda n: ", ".join(f"{count} {kind}" for kind, count in n["status"]["contents"].items())),
)
WEBHOOKS = (
    Column("NAME", _name),
    Column("OPERATION", lambda w: w["resourcesRef"]["operation"]),
    Column("KIND", lambda w: w["resourcesRef"]["kind"]),
    Column("MAY", lambda w: "refuse" if w["validating"] else "change"),
    Column("ASKS", lambda w: ",".join(hook["name"] for hook in w["admissionWebhooks"])),
    Column("AGE", _created, right=True),
)
KINDS = (
    Column("KIND", lambda k: k["spec"]["names"]["kind"]),
    Column("AGE", lambda k: age(k.get("creationTimestamp")), right=True),
)
CUSTOM = (
    Column("NAME", _name),
    Column("VERSION", lambda c: c.get("apiVersion")),
    Column("AGE", _created, right=True),
)
"""Of every registered kind."""
