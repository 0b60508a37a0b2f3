"""The columns of services, endpoints and their members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from bcs_scheduler.cli.client import Json
from bcs_scheduler.cli.output import Column, age

SHOWN = 3
"""Addresses that a line of a table shows."""


def _pairs(found: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in (found or {}).items())


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])


def _age(item: Json) -> str:
    return age(item["metadata"].get("creationTimestamp"))


def ports_of(item: Json) -> str:
    ports = item["spec"]["ports"] if "spec" in item else item["ports"]
    return ",".join(f"{p['name']}:{p.get('servicePort') or '-'}/{p['protocol']}" for p in ports)


def selected_by(service: Json) -> str:
    return _pairs(service["spec"]["selector"]) or "everything"


def _ready(endpoint: Json) -> Text:
    total = len(endpoint["eps"]) + endpoint["omitted"]
    return Text(f"{endpoint['ready']}/{total}", style="" if endpoint["ready"] == total else "yellow")


def _addresses(endpoint: Json) -> str:
    found = [port["address"] for member in endpoint["eps"] if member["ready"] for port in member["ports"]]
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more


def _changed(endpoint: Json) -> str:
    return age(endpoint["metadata"].get("updateTimestamp"))


SERVICES: Sequence[Column] = (
    Column("NAME", _name),
    Column("SELECTS", selected_by),
    Column("PORTS", ports_of),
    Column("AGE", _age, right=True),
    Column("LABELS", lambda s: _pairs(s["metadata"].get("labels")), wide=True),
)
ENDPOINTS: Sequence[Column] = (
    Column("NAME", _name),
    Column("READY", _ready, right=True),
    Column("ADDRESSES", _addresses),
    Column("CHANGED", _changed, right=True),
    Column("PORTS", ports_of, wide=True),
    Column("VERSION", lambda e: e["resourceVersion"], wide=True),
)
MEMBERS: Sequence[Column] = (
    Column("TASKGROUP", lambda m: m["targetRef"]["name"]),
    Column("READY", lambda m: Text("yes", style="green") if m["ready"] else Text(m["reason"], style="yellow")),
    Column("WEIGHT", lambda m: m["weight"], right=True),
    Column("NETWORK", lambda m: m["networkMode"]),
    Column("ADDRESSES", lambda m: ", ".join(f"{p['name']}={p['address'] or '-'}" for p in m["ports"])),
)
