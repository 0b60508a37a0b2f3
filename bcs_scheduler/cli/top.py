"""`bcs top`: what is allocated now, by agents, applications, taskgroups or namespaces.

What taskgroups really use is not known: executors do not report it. Allocated is what Mesos accounts for them.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from bcs_scheduler.cli.client import Json
from bcs_scheduler.cli.errors import Unreachable
from bcs_scheduler.cli.options import Session, chosen_format, connection_options, output_option, pass_session
from bcs_scheduler.cli.output import Column, print_data, status_text, table

INTERVAL = 1.0
"""Seconds between two looks of -w."""
AMOUNTS = (("cpus", "cpu"), ("mem", "mem"), ("disk", "disk"), ("gpus", "gpu"))
"""Our names and those of the agents' list. Cores, MB, MB, GPUs."""
HIGH, FULL = 0.7, 0.9
"""Shares from which a number is shown in yellow and in red."""
ENDED = frozenset({"Killed", "Finish", "Failed", "Error", "Lost"})


def _agents(session: Session, namespace: str | None) -> list[Json]:
    return [
        {
            "agent": agent.get("hostname") or agent.get("ip") or agent.get("key"),
            "ip": agent.get("ip"),
            "status": "disabled" if agent.get("disabled") else "enabled",
            "taskgroups": agent.get("taskgroups") or 0,
            "allocated": {name: float(agent.get(f"{key}used") or 0) for name, key in AMOUNTS},
            "total": {name: float(agent.get(f"{key}total") or 0) for name, key in AMOUNTS},
        }
        for agent in session.client.agents()
    ]


def _taskgroups(session: Session, namespace: str | None) -> list[Json]:
    return [
        {"namespace": group["RunAs"], "taskgroup": group["ID"], "status": group["Status"], "host": group["HostName"]}
        | {"taskgroups": 1, "allocated": _allocated(group)}
        for group in session.client.taskgroups(namespace)
        if group["Status"] not in ENDED
    ]


def _applications(session: Session, namespace: str | None) -> list[Json]:
    return _summed(_taskgroups_by(session, namespace, lambda g: (g["RunAs"], g["AppID"])), ("namespace", "application"))


def _namespaces(session: Session, namespace: str | None) -> list[Json]:
    return _summed(_taskgroups_by(session, namespace, lambda g: (g["RunAs"],)), ("namespace",))


def _taskgroups_by(
    session: Session, namespace: str | None, key: Callable[[Json], tuple[str, ...]]
) -> dict[tuple[str, ...], list[Json]]:
    found = defaultdict(list)
    for group in session.client.taskgroups(namespace):
        if group["Status"] not in ENDED:
            found[key(group)].append(_allocated(group))
    return found


def _summed(found: dict[tuple[str, ...], list[Json]], names: tuple[str, ...]) -> list[Json]:
    return [
        {
            **dict(zip(names, key, strict=True)),
            "taskgroups": len(each),
            "allocated": {name: round(sum(amounts[name] for amounts in each), 3) for name, _ in AMOUNTS},
        }
        for key, each in found.items()
    ]


def _allocated(group: Json) -> Json:
    amounts = group.get("LaunchResource") or {}
    return {name: float(amounts.get(name.capitalize()) or 0) for name, _ in AMOUNTS}


def _share(name: str) -> Callable[[Json], Any]:
    def cell(item: Json) -> Text:
        used, total = item["allocated"][name], (item.get("total") or {}).get(name)
        if not total:
            return Text(f"{used:g}" if total is None else "-")
        share = used / total
        style = "red" if share >= FULL else "yellow" if share >= HIGH else ""
        return Text(f"{used:g}/{total:g} {share:4.0%}", style=style)

    return cell


NUMBERS = (
    Column("TASKGROUPS", lambda i: i["taskgroups"], right=True),
    Column("CPU", _share("cpus"), right=True),
    Column("MEMORY MB", _share("mem"), right=True),
    Column("DISK MB", _share("disk"), right=True),
    Column("GPU", _share("gpus"), right=True, wide=True),
)
NAMESPACE = Column("NAMESPACE", lambda i: i["namespace"])
KINDS: dict[str, tuple[Callable[[Session, str | None], list[Json]], Sequence[Column]]] = {
    "agents": (
        _agents,
        (Column("HOST", lambda i: i["agent"]), Column("STATUS", lambda i: status_text(i["status"])), *NUMBERS),
    ),
    "applications": (_applications, (NAMESPACE, Column("APPLICATION", lambda i: i["application"]), *NUMBERS)),
    "namespaces": (_namespaces, (NAMESPACE, *NUMBERS)),
    "taskgroups": (
        _taskgroups,
        (
            Column("TASKGROUP", lambda i: i["taskgroup"]),
            Column("STATUS", lambda i: status_text(i["status"])),
            Column("HOST", lambda i: i["host"]),
            *NUMBERS[1:],
        ),
    ),
}
ORDERS: dict[str, Callable[[Json], Any]] = {
    "cpu": lambda i: -i["allocated"]["cpus"],
    "memory": lambda i: -i["allocated"]["mem"],
    "taskgroups": lambda i: -i["taskgroups"],
    "name": lambda i: 0,
}


@click.command()
@click.argument("kind", type=click.Choice(tuple(KINDS)), default="agents")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Of all namespaces.")
@click.option("--sort", "order", type=click.Choice(tuple(ORDERS)), default="cpu", show_default=True)
@click.option("-w", "--watch", is_flag=True, help="Keep looking; refresh in place.")
@output_option
@connection_options
@pass_session
def top(session: Session, kind: str, everywhere: bool, order: str, watch: bool, output: str | None) -> None:
    """Show what is allocated now: of all agents with their totals, or what each owner or taskgroup has.

    Memory and disk are in MB. Allocated is what was asked for, not what is really used.
    """
    form = chosen_format(output)
    everything = everywhere or kind in ("agents", "namespaces")

    def look() -> list[Json]:
        found = KINDS[kind][0](session, None if everything else session.namespace)
        return sorted(found, key=lambda item: (ORDERS[order](item), *_name(item)))

    if not watch:
        _print(session, kind, look(), form)
    elif form in ("table", "wide") and session.interactive:
        with Live(console=session.out, auto_refresh=False) as live:
            while True:
                live.update(_table(kind, _patiently(look), form), refresh=True)
                time.sleep(INTERVAL)
    last: list[Json] | None = None
    while watch:
        found = _patiently(look)
        if found != last:
            _print(session, kind, found, form)
            last = found
        time.sleep(INTERVAL)


def _print(session: Session, kind: str, found: list[Json], form: str) -> None:
    if form in ("json", "yaml"):
        print_data(session.out, found, form)
    elif found:
        session.show(_table(kind, found, form))
    else:
        session.err.print(f"no {kind}", markup=False)


def _table(kind: str, found: Iterable[Json], form: str) -> RenderableType:
    return table(KINDS[kind][1], found, wide=form == "wide")


def _name(item: Json) -> tuple[str, ...]:
    return tuple(str(item[key]) for key in ("namespace", "application", "taskgroup", "agent") if key in item)


def _patiently(look: Callable[[], list[Json]]) -> list[Json]:
    """A watch outlives a change of leaders."""
    while True:
        try:
            return look()
        except Unreachable:
            time.sleep(INTERVAL)
