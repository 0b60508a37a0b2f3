"""Agents, offers, and the cluster: columns, lists, descriptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bcs_scheduler.cli.client.lookup import agent_keys, find_agent, unique_names
from bcs_scheduler.cli.client.types import Accepted, Json
from bcs_scheduler.cli.documents import Document, Operations, report
from bcs_scheduler.cli.errors import Conflict, UsageError
from bcs_scheduler.cli.kinds.base import Found, Functions
from bcs_scheduler.cli.output.data import print_data
from bcs_scheduler.cli.output.tables import Column, field_list, reason_column
from bcs_scheduler.cli.output.text import pairs, status_text, when
from bcs_scheduler.cli.session import Session
from store.advice import advise

NAME = "uniqueName"
"""Key that `with_names` adds for tables."""


def with_names(agents: Sequence[Json]) -> list[Json]:
    """Agents with the shortest name that no other agent has."""
    return [{**agent, NAME: name} for agent, name in zip(agents, unique_names(agents), strict=True)]


def agent_status(agent: Json) -> str:
    drain = agent.get("drain")
    if drain == "failed":
        return "drain failed"
    return drain or ("cordoned" if agent.get("disabled") else "ready")


def resources_of(offer: Json) -> dict[str, float]:
    """Resources of an offer by name, summed over roles and reservations. For ports: their number."""
    sums: dict[str, float] = {}
    for resource in offer.get("resources") or ():
        name = str(resource["name"])
        if "scalar" in resource:
            sums[name] = sums.get(name, 0.0) + float(resource["scalar"]["value"])
        for item in (resource.get("ranges") or {}).get("range") or ():
            sums[name] = sums.get(name, 0.0) + item["end"] - item["begin"] + 1
    return sums


def attributes_text(attributes: Sequence[Json]) -> str:
    """Attributes in the form of the agent option --attributes: ``zone:a;rack:7``."""
    return ";".join(f"{item['name']}:{_attribute(item)}" for item in attributes)


def _attribute(item: Json) -> str:
    for form in ("text", "scalar", "set", "ranges"):
        value = item.get(form)
        if value in (None, {}, ""):
            continue
        inner = value.get("value", value.get("item", value.get("range"))) if isinstance(value, dict) else value
        if isinstance(inner, float):
            return f"{inner:g}"
        return ",".join(map(str, inner)) if isinstance(inner, list) else str(inner)
    return ""


def _share(used: Any, total: Any) -> str:
    return f"{float(used or 0):g}/{float(total or 0):g}"


def _reason(agent: Json) -> str:
    """Why an agent takes no taskgroups, or not all that tolerate no taints; empty if there is no restriction."""
    if not agent.get("active", True):
        return "not registered with the Mesos master"
    parts = [_drained(agent)] if agent.get("drain") else []
    if agent.get("disabled") and not parts:
        parts.append(f"cordoned: no new taskgroups are placed on it; {advise('uncordon', name=_name(agent))}")
    if agent.get("taints"):
        parts.append(f"only taskgroups that tolerate {pairs(agent['taints'])}")
    return "; ".join(parts)


def _name(agent: Json) -> str:
    """A name by which commands find the agent."""
    return str(agent.get("key") or agent.get("hostname"))


def _drained(agent: Json) -> str:
    """Words for the state of a drain."""
    name = _name(agent)
    match agent["drain"]:
        case "drained":
            return f"all its taskgroups were moved away; {advise('uncordon_drained', name=name)}"
        case "failed":
            return f"not all its taskgroups could be moved away in time; {advise('drain_again', name=name)}"
    causes = agent.get("drain_message")
    return f"its taskgroups are being moved away{f', which is blocked: {causes}' if causes else ''}"


def _delete(session: Session, namespace: str, name: str, force: bool, dry_run: bool) -> Accepted:
    """Deletes the settings of an agent that is not registered; after that the agent is not shown any more."""
    agents = session.client.agents()
    (key,) = agent_keys(agents, [name])
    if any(agent["key"] == key and agent.get("active") and agent.get("id") for agent in agents):
        raise Conflict(
            f"agent {name} is registered with the Mesos master and disappears when it leaves; "
            f"{advise('reset_agent', name=name)}"
        )
    session.client.forget_settings([key], dry_run=dry_run)
    accepted = Accepted("", None)
    report(session, "agent", name, "deleted", accepted, dry_run)
    return accepted


def _no_document(session: Session, document: Document, options: object) -> Accepted:
    raise UsageError(f"{document.source}: an agent has no document")


def _host(item: Json) -> str:
    return str(item.get("hostname") or item.get("ip"))


AGENT_OPERATIONS = Operations(_no_document, _no_document, _no_document, _delete)
AGENT_COLUMNS: Sequence[Column] = (
    Column("NAME", lambda a: a.get(NAME) or a.get("hostname")),
    Column("IP", lambda a: a.get("ip"), whole=True),
    Column("STATUS", lambda a: status_text(agent_status(a))),
    Column("CPU", lambda a: _share(a.get("cpuused"), a.get("cputotal")), right=True),
    Column("MEMORY MB", lambda a: _share(a.get("memused"), a.get("memtotal")), right=True),
    Column("TASKGROUPS", lambda a: a.get("taskgroups"), right=True),
    Column("DISK MB", lambda a: _share(a.get("diskused"), a.get("disktotal")), wide=True, right=True),
    Column("ID", lambda a: a.get("id"), wide=True),
    Column("ATTRIBUTES", lambda a: attributes_text(a.get("attributes") or ()), wide=True),
    reason_column(_reason),
)
OFFERS: Sequence[Column] = (
    Column("HOST", lambda o: o.get("hostname")),
    Column("CPU", lambda o: f"{resources_of(o).get('cpus', 0):g}", right=True),
    Column("MEMORY MB", lambda o: f"{resources_of(o).get('mem', 0):g}", right=True),
    Column("DISK MB", lambda o: f"{resources_of(o).get('disk', 0):g}", right=True),
    Column("PORTS", lambda o: f"{resources_of(o).get('ports', 0):g}", right=True),
    Column("ID", lambda o: (o.get("id") or {}).get("value"), wide=True),
    Column("ATTRIBUTES", lambda o: attributes_text(o.get("attributes") or ()), wide=True),
)
CLUSTER: Sequence[Column] = (
    Column("AGENTS", lambda c: len(c["agents"]), right=True),
    Column("CPU", lambda c: _share(c["cpuused"], c["cputotal"]), right=True),
    Column("MEMORY MB", lambda c: _share(c["memused"], c["memtotal"]), right=True),
    Column("DISK MB", lambda c: _share(c["diskused"], c["disktotal"]), right=True),
)
SERVERS: Sequence[Column] = (
    Column("SERVER", lambda s: s["server"]),
    Column("ADDRESS", lambda s: f"{s['hostname'] or s['ip']}:{s['port']}", whole=True),
    Column("VERSION", lambda s: s["version"]),
    Column("CLUSTER", lambda s: s["cluster"]),
)


def read_agents(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    return find_agent(session.client, name) if name else session.client.agents()


def read_cluster(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    return session.client.cluster()


def read_servers(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    found = session.client.schedulers()
    kinds = {"scheduler": "mesosscheduler", "mesos master": "mesosmaster"}
    return [{"server": kind, **server} for kind, key in kinds.items() for server in found[key]]


def read_offers(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    offers = session.client.offers()
    if not name:
        return offers
    host = find_agent(session.client, name).get("hostname")
    return [offer for offer in offers if offer.get("hostname") == host]


def describe_agent(session: Session, name: str, events: bool, form: str) -> None:
    agent = find_agent(session.client, name)
    if form:
        print_data(session.out, agent, form)
        return
    state = "cordoned" if agent.get("disabled") else "ready"
    session.show(
        field_list(
            [
                ("Host", agent.get("hostname")),
                ("IP", agent.get("ip")),
                ("ID", agent.get("id") if session.wide else ""),
                ("Settings key", agent.get("key") if session.wide else ""),
                ("Reason", _reason(agent)),
                ("Status", status_text(state)),
                ("Drain", agent.get("drain")),
                ("Registered", when((agent.get("registered_time") or 0) / 1e9)),
                ("Taskgroups", agent.get("taskgroups")),
                *((title, f"{agent[f'{key}used']:g} of {agent[f'{key}total']:g}") for title, key in AMOUNTS),
                ("Attributes", attributes_text(agent.get("attributes") or ())),
                ("Taints", pairs(agent.get("taints"))),
                ("Extended resources", pairs(agent.get("extended"))),
            ]
        )
    )


AMOUNTS = (("CPU cores", "cpu"), ("Memory MB", "mem"), ("Disk MB", "disk"), ("GPUs", "gpu"))


def warn_missing_agents(session: Session, results: Iterable[Json]) -> None:
    """Prints a warning for each agent whose settings were stored although the agent is not registered."""
    for result in results:
        if not result.get("listed", True):
            session.warn(f"agent {result['innerIP']}: {result['message']}")


FUNCTIONS = {
    "agents": Functions(AGENT_COLUMNS, read_agents, describe_agent, AGENT_OPERATIONS, name=_host),
    "offers": Functions(OFFERS, read_offers, name=_host),
    "cluster": Functions(CLUSTER, read_cluster),
    "servers": Functions(SERVERS, read_servers),
}
