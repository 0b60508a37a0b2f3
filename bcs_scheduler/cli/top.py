"""`bcs top`: what agents, applications, taskgroups or namespaces use now, beside what is allocated to them.

Used is what the agents count, allocated what Mesos accounts for taskgroups. Where an agent cannot say what is used it
is unknown and shown as `-`; a sum of which only a part is known is shown with `≥`.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
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
MEASURED, ALLOCATED = ("cpus", "mem", "disk"), ("cpus", "mem", "disk", "gpus")
"""Cores, MiB, MiB, GPUs."""
HIGH, FULL = 0.7, 0.9
"""Shares from which a number is shown in yellow and in red."""
MOST_PROBLEMS = 5
"""Lines about what is not known."""


def _agents(session: Session, namespace: str | None) -> list[Json]:
    return [
        {
            "agent": agent["hostname"] or agent["ip"] or agent["id"],
            "ip": agent["ip"],
            "status": "disabled" if agent["disabled"] else "enabled",
            **{name: agent[name] for name in ("taskgroups", "used", "allocated", "total", "interval", "uncounted")},
            "problem": agent["problem"],
        }
        for agent in session.client.agent_usage()
    ]


def _taskgroups(session: Session, namespace: str | None) -> list[Json]:
    return [
        {
            "namespace": group["namespace"],
            "taskgroup": group["id"],
            "status": group["status"],
            "host": group["hostname"],
            "taskgroups": 1,
            **{name: group[name] for name in ("used", "allocated", "interval", "problem")},
        }
        for group in session.client.taskgroup_usage(namespace)
    ]


def _applications(session: Session, namespace: str | None) -> list[Json]:
    return _summed(session.client.taskgroup_usage(namespace), ("namespace", "application"))


def _namespaces(session: Session, namespace: str | None) -> list[Json]:
    return _summed(session.client.taskgroup_usage(namespace), ("namespace",))


def _summed(groups: Iterable[Json], names: tuple[str, ...]) -> list[Json]:
    """By what these keys say."""
    found: defaultdict[tuple[str, ...], list[Json]] = defaultdict(list)
    for group in groups:
        found[tuple(group[name] for name in names)].append(group)
    return [
        {
            **dict(zip(names, key, strict=True)),
            "taskgroups": len(each),
            "used": {name: _total(group["used"][name] for group in each) for name in MEASURED},
            "allocated": {name: _total(group["allocated"][name] for group in each) for name in ALLOCATED},
            "interval": max(group["interval"] for group in each),
            "uncounted": sum(group["used"]["cpus"] is None or group["used"]["mem"] is None for group in each),
            "problem": next((group["problem"] for group in each if group["problem"]), ""),
        }
        for key, each in found.items()
    ]


def _total(numbers: Iterable[float | None]) -> float | None:
    """Of those that are known; None if none is."""
    known = [number for number in numbers if number is not None]
    return round(sum(known), 3) if known else None


def _used(name: str) -> Callable[[Json], Any]:
    """With its share of what an agent has, or else of what is allocated."""

    def cell(item: Json) -> Text | None:
        used, whole = item["used"][name], (item.get("total") or item["allocated"])[name]
        if used is None:
            return None
        text = ("≥" if item.get("uncounted") else "") + (f"{used:.2f}" if name == "cpus" else f"{used:.0f}")
        return _of(text, used, whole)

    return cell


def _allocated(name: str) -> Callable[[Json], Any]:
    def cell(item: Json) -> Text:
        allocated, total = item["allocated"][name], (item.get("total") or {}).get(name)
        if not total:
            return Text(f"{allocated:g}" if total is None else "-")
        return _of(f"{allocated:g}/{total:g}", allocated, total)

    return cell


def _of(text: str, amount: float, whole: float) -> Text:
    if not whole:
        return Text(text)
    share = amount / whole
    return Text(f"{text} {share:4.0%}", style="red" if share >= FULL else "yellow" if share >= HIGH else "")


NUMBERS = (
    Column("TASKGROUPS", lambda i: i["taskgroups"], right=True),
    Column("CPU USED", _used("cpus"), right=True),
    Column("CPU ALLOCATED", _allocated("cpus"), right=True),
    Column("MIB USED", _used("mem"), right=True),
    Column("MIB ALLOCATED", _allocated("mem"), right=True),
    Column("DISK USED", _used("disk"), right=True, wide=True),
    Column("DISK ALLOCATED", _allocated("disk"), right=True, wide=True),
    Column("GPU ALLOCATED", _allocated("gpus"), right=True, wide=True),
    Column("SECONDS", lambda i: f"{i['interval']:.1f}" if i["interval"] else None, right=True, wide=True),
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


def _most(name: str) -> Callable[[Json], Any]:
    """What is not known comes last, by what is allocated."""
    return lambda i: (i["used"][name] is None, -(i["used"][name] or 0), -i["allocated"][name])


ORDERS: dict[str, Callable[[Json], Any]] = {
    "cpu": _most("cpus"),
    "memory": _most("mem"),
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
    """Show what is used now and what is allocated: of all agents with their totals, or of each owner or taskgroup.

    CPU in cores, on average over a second or more; memory and disk in MiB. Used is what the agents count: `-` is not
    known, and of what has a `≥` only a part is. What agents use includes other frameworks.
    """
    form = chosen_format(output)
    everything = everywhere or kind in ("agents", "namespaces")

    def look() -> list[Json]:
        found = KINDS[kind][0](session, None if everything else session.namespace)
        return sorted(found, key=lambda item: (ORDERS[order](item), _name(item)))

    if not watch:
        found = look()
        _print(session, kind, found, form)
        if form in ("table", "wide"):
            _complain(session, found)
    elif form in ("table", "wide") and session.interactive:
        with Live(console=session.out, auto_refresh=False) as live:
            while True:
                live.update(_table(kind, _patiently(look), form), refresh=True)
                time.sleep(INTERVAL)
    last: list[Json] | None = None
    while watch:
        seen = _patiently(look)
        if seen != last:
            _print(session, kind, seen, form)
            last = seen
        time.sleep(INTERVAL)


def _print(session: Session, kind: str, found: list[Json], form: str) -> None:
    if form in ("json", "yaml"):
        print_data(session.out, found, form)
    elif found:
        session.show(_table(kind, found, form))
    else:
        session.err.print(f"no {kind}", markup=False)


def _complain(session: Session, found: Iterable[Json]) -> None:
    """Why numbers are missing."""
    problems = Counter(item["problem"] for item in found if item["problem"])
    for problem, count in problems.most_common(MOST_PROBLEMS):
        session.err.print(f"not known{f' of {count}' if count > 1 else ''}: {problem}", markup=False)
    if len(problems) > MOST_PROBLEMS:
        session.err.print(f"and {len(problems) - MOST_PROBLEMS} reasons more; -o json has them", markup=False)


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
