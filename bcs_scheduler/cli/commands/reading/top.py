"""`bcs top`: used and allocated resources of agents, applications, taskgroups or namespaces.

Used resources are measured by the agents; allocated resources are those that Mesos accounts to taskgroups. An unknown
number is shown as `-`. A sum with unknown parts is shown with `≥`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import click

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.arguments import kinds_and_names
from bcs_scheduler.cli.commands.refreshing import refresh
from bcs_scheduler.cli.errors import NotFound, UsageError
from bcs_scheduler.cli.kinds.selection import queries_of
from bcs_scheduler.cli.listing import Shape, chosen_shape, grid_of, print_list, sorted_by
from bcs_scheduler.cli.options import connection_options, examples, list_options, pass_session
from bcs_scheduler.cli.output.sorting import natural
from bcs_scheduler.cli.output.tables import Column
from bcs_scheduler.cli.output.terminal import Styled
from bcs_scheduler.cli.output.text import status_text
from bcs_scheduler.cli.session import Session
from store.keys import taskgroup_name

MEASURED, ALLOCATED = ("cpus", "mem", "disk"), ("cpus", "mem", "disk", "gpus")
"""Cores, MiB, MiB, GPUs."""
HIGH, FULL = 0.7, 0.9
"""Shares from which a number is yellow and red."""
MOST_PROBLEMS = 5
"""Maximum number of lines about unknown numbers."""


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
            "application": group["application"],
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
    """Sums of taskgroups with equal values of `names`."""
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
    """Sum of the known numbers; None if no number is known."""
    known = [number for number in numbers if number is not None]
    return round(sum(known), 3) if known else None


def _used(name: str) -> Callable[[Json], Any]:
    """Cells with used resources, and their share of the total of an agent, or else of the allocated resources."""

    def cell(item: Json) -> Styled | None:
        used, whole = item["used"][name], (item.get("total") or item["allocated"])[name]
        if used is None:
            return None
        text = ("≥" if item.get("uncounted") else "") + (f"{used:.2f}" if name == "cpus" else f"{used:.0f}")
        return _of(text, used, whole)

    return cell


def _allocated(name: str) -> Callable[[Json], Any]:
    def cell(item: Json) -> Styled:
        allocated, total = item["allocated"][name], (item.get("total") or {}).get(name)
        if not total:
            return Styled(f"{allocated:g}" if total is None else "-")
        return _of(f"{allocated:g}/{total:g}", allocated, total)

    return cell


def _of(text: str, amount: float, whole: float) -> Styled:
    if not whole:
        return Styled(text)
    share = amount / whole
    return Styled(f"{text} {share:4.0%}", style="red" if share >= FULL else "yellow" if share >= HIGH else "")


def _agent_status(agent: Json) -> Styled:
    """The data keeps the words of the API; the table has those of `bcs cordon`."""
    return status_text("cordoned" if agent["status"] == "disabled" else "ready")


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
        (Column("NAME", lambda i: i["agent"]), Column("STATUS", _agent_status), *NUMBERS),
    ),
    "applications": (_applications, (NAMESPACE, Column("APPLICATION", lambda i: i["application"], key=True), *NUMBERS)),
    "namespaces": (_namespaces, (NAMESPACE, *NUMBERS)),
    "taskgroups": (
        _taskgroups,
        (
            Column("NAME", lambda i: taskgroup_name(i["taskgroup"])),
            Column("STATUS", lambda i: status_text(i["status"])),
            Column("HOST", lambda i: i["host"]),
            *NUMBERS[1:],
            Column("ID", lambda i: i["taskgroup"], wide=True),
        ),
    ),
}


LABELLED: dict[str, Callable[[Session, str | None, str], set[tuple[str, str]]]] = {
    "applications": lambda session, namespace, labels: {
        (item["RunAs"], item["Name"]) for item in session.client.applications(namespace, selector=labels)
    },
    "taskgroups": lambda session, namespace, labels: {
        (item["RunAs"], item["ID"]) for item in session.client.taskgroups(namespace, selector=labels)
    },
}
"""(namespace, name or id) of the objects with the labels of a selector."""


def _most(name: str) -> Callable[[Json], Any]:
    """Descending order by used resources. Unknown numbers come last, by allocated resources."""
    return lambda i: (i["used"][name] is None, -(i["used"][name] or 0), -i["allocated"][name])


ORDERS: dict[str, Callable[[Json], Any]] = {
    "cpu": _most("cpus"),
    "memory": _most("mem"),
    "taskgroups": lambda i: -i["taskgroups"],
    "name": lambda i: 0,
}


@click.command(
    epilog=examples("bcs top", "bcs top taskgroups --sort memory", "bcs top pod web-0", "bcs top applications -A -w")
)
@click.argument("words", nargs=-1, metavar="[KIND [NAME]... | KIND/NAME...]", shell_complete=kinds_and_names)
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Show all namespaces.")
@click.option(
    "--sort", "order", type=click.Choice(tuple(ORDERS)), default="cpu", show_default=True, help="Order of the lines."
)
@click.option(
    "-l",
    "--selector",
    "labels",
    default="",
    metavar="SELECTOR",
    help="Show taskgroups or applications with these labels.",
)
@click.option("-w", "--watch", is_flag=True, help="Poll, and refresh the table.")
@list_options
@connection_options
@pass_session
def top(
    session: Session, /, words: tuple[str, ...], everywhere: bool, order: str, labels: str, watch: bool, **listed: Any
) -> None:
    """Show used and allocated resources of agents, applications, taskgroups or namespaces, of all or by name.

    KIND is agents (nodes), the default, applications, taskgroups (pods) or namespaces. For taskgroups, NAME may be an
    application.

    CPU is in cores, as an average over a second or more; memory and disk are in MiB. `-` is an unknown number, `≥` a
    sum with unknown parts. Usage of agents includes other frameworks.
    """
    shape = chosen_shape(**listed)
    kind, names = _wanted(session, words)
    if labels and kind not in LABELLED:
        raise UsageError(f"-l is supported for {' and '.join(LABELLED)}")
    everything = everywhere or kind in ("agents", "namespaces")
    namespace = None if everything else session.namespace

    def look() -> list[Json]:
        found = _named(kind, names, KINDS[kind][0](session, namespace))
        if labels:
            chosen = LABELLED[kind](session, namespace, labels)
            found = [item for item in found if (item["namespace"], item[NAMED_BY[kind][0]]) in chosen]
        ordered = sorted(found, key=lambda item: (ORDERS[order](item), [natural(part) for part in _name(item)]))
        return sorted_by(shape, ordered, KINDS[kind][1])

    if watch:
        drawn = partial(grid_of, shape, columns=KINDS[kind][1])
        refresh(session, shape, look, drawn, lambda found: _print(session, found, shape, kind=kind))
    found = look()
    _print(session, found, shape, kind=kind)
    if shape.form.is_table:
        _print_problems(session, found)


def _wanted(session: Session, words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """(kind, names) of the words. Raises UsageError."""
    queries = queries_of(session, words or ("agents",))
    kind, names = queries[0]
    if len(queries) > 1 or kind not in KINDS:
        raise UsageError(f"top shows one of {', '.join(KINDS)}, not {' and '.join(query.kind for query in queries)}")
    return kind, names


def _named(kind: str, names: Sequence[str], found: list[Json]) -> list[Json]:
    """The items with these names; no names = all. Raises NotFound."""
    known = [{str(item[key]) for key in NAMED_BY[kind] if key in item} | _short(item) for item in found]
    for name in names:
        if not any(name in each for each in known):
            raise NotFound(f"there is no {kind.removesuffix('s')} {name}, or it does not run")
    return [item for item, own in zip(found, known, strict=True) if not names or own.intersection(names)]


NAMED_BY = {
    "agents": ("agent", "ip"),
    "applications": ("application",),
    "namespaces": ("namespace",),
    "taskgroups": ("taskgroup", "application"),
}
"""Keys of items with their names."""


def _short(item: Json) -> set[str]:
    return {taskgroup_name(item["taskgroup"])} if "taskgroup" in item else set()


def _print(session: Session, found: list[Json], shape: Shape, *, kind: str) -> None:
    if found or not shape.form.is_table:
        print_list(session, shape, found, KINDS[kind][1], lambda item: f"{kind.removesuffix('s')}/{_name(item)[-1]}")
    else:
        session.err.print(f"no {kind}")


def _print_problems(session: Session, found: Iterable[Json]) -> None:
    """Prints the reasons of unknown numbers."""
    problems = Counter(item["problem"] for item in found if item["problem"])
    for problem, count in problems.most_common(MOST_PROBLEMS):
        session.err.print(f"unknown{f' for {count}' if count > 1 else ''}: {problem}")
    if len(problems) > MOST_PROBLEMS:
        session.err.print(f"and {len(problems) - MOST_PROBLEMS} more reasons; -o json shows all")


def _name(item: Json) -> tuple[str, ...]:
    return tuple(str(item[key]) for key in ("namespace", "application", "taskgroup", "agent") if key in item)
