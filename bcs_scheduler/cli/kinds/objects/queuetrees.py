"""Queues of the trees of the policy `hierarchical`: columns, descriptions, changes of the document, trials."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bcs_scheduler.cli.client.types import Accepted, Json
from bcs_scheduler.cli.errors import NotFound, UsageError
from bcs_scheduler.cli.output.data import print_data
from bcs_scheduler.cli.output.tables import Column, field_list, time_column
from bcs_scheduler.cli.output.text import counted
from bcs_scheduler.cli.session import Session

ROOT = "root"
SHOWN = 20
"""Applications and taskgroups of a trial that are printed, the first ones."""


def amounts(given: Mapping[str, float]) -> str:
    return ",".join(f"{name}={amount:.10g}" for name, amount in given.items())


def waiting(queue: Json) -> str:
    """Numbers of the taskgroups that wait, by reason."""
    pending = queue["status"]["pending"].items()
    return ", ".join(f"{number} {reason.replace('_', ' ')}" for reason, number in pending)


def _state(queue: Json) -> str:
    state: str = queue["status"]["state"]
    return f"{state},dynamic" if queue["status"]["dynamic"] else state


TREE_COLUMNS = (
    Column("NAME", lambda q: q["name"], key=True),
    Column("STATE", _state),
    Column("GUARANTEED", lambda q: amounts(q["spec"]["guaranteed"]), whole=True),
    Column("USED", lambda q: amounts(q["status"]["used"]), whole=True),
    Column("MAX", lambda q: amounts(q["spec"]["max"]), whole=True),
    Column("APPLICATIONS", lambda q: q["status"]["applications"], right=True),
    Column("TASKGROUPS", lambda q: q["status"]["taskgroups"], right=True),
    Column("RUNNING", lambda q: q["status"]["runningApplications"], right=True, wide=True),
    Column("MAX APPLICATIONS", lambda q: q["spec"]["maxApplications"], right=True, wide=True),
    Column("WAITING", waiting, long=True),
)
PARTITION_COLUMN = Column("PARTITION", lambda q: q["partition"])
"""Stands before the other columns if several partitions have a tree."""
PARTITION_COLUMNS = (
    Column("NAME", lambda p: p["name"]),
    Column("POLICY", lambda p: p["policy"]),
    Column("ROLES", lambda p: ",".join(p["roles"])),
    Column("REVISION", lambda p: "" if p["revision"] is None else p["revision"], right=True),
)
REVISION_COLUMNS = (
    Column("REVISION", lambda r: f"{r['metadata']['revision']}{'*' if r['present'] else ''}", right=True),
    time_column("CREATED", lambda r: r["metadata"]["creationTimestamp"]),
    Column("AUTHOR", lambda r: r["metadata"]["author"]),
    Column("WHY", lambda r: r["metadata"]["why"], long=True),
)


class Parts(NamedTuple):
    """The partitions of roles: names of those with a tree of queues, their roles, and the roles whose queues have
    shares (empty if there are none)."""

    trees: tuple[str, ...]
    roles: str
    shares: str

    def has(self, name: str, partition: str = "") -> bool:
        """True if a queue belongs to a tree. If other roles have queues with shares, full names belong to a tree.
        `partition`: the partition that the user names; empty = none."""
        if partition or not self.trees or not self.shares:
            return bool(partition or self.trees)
        return full_name(name) == name.lower()

    def columns(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """The columns, with that of the partition if several have a tree."""
        return (PARTITION_COLUMN, *columns) if len(self.trees) > 1 else tuple(columns)


def parts_of(session: Session) -> Parts:
    """The partitions of roles; none with servers that know no trees."""
    try:
        found = session.client.partitions()
    except NotFound:
        found = []
    trees = [part for part in found if part["policy"] == "hierarchical"]
    sharing = [part for part in found if part["policy"] == "session"]
    return Parts(tuple(part["name"] for part in trees), _roles(trees), _roles(sharing))


def _roles(parts: Iterable[Json]) -> str:
    return ", ".join(role for part in parts for role in part["roles"])


def full_name(name: str) -> str:
    """The full name of a queue that may be given without root."""
    lower = name.lower()
    return lower if lower == ROOT or lower.startswith(f"{ROOT}.") else f"{ROOT}.{lower}"


def describe_tree_queue(session: Session, name: str, form: str, partition: str, *, several: bool) -> None:
    """`several`: several partitions have a tree."""
    found = session.client.tree_queue(full_name(name), partition)
    if form:
        print_data(session.out, found, form)
        return
    spec, status = found["spec"], found["status"]
    fields = [
        *([("Partition", found["partition"])] if several else ()),
        ("Name", found["name"]),
        ("State", _state(found)),
        ("Kind", "leaf" if status["leaf"] else "parent"),
        ("Guaranteed", amounts(spec["guaranteed"]) or "nothing"),
        ("Max", amounts(spec["max"]) or "not limited"),
        ("Used", amounts(status["used"]) or "nothing"),
        ("Taskgroups", str(status["taskgroups"])),
        ("Applications", _applications(status["applications"], status["runningApplications"], spec["maxApplications"])),
        ("Waiting", waiting(found) or "nothing"),
        ("Properties", ", ".join(f"{key}={value}" for key, value in spec["properties"].items())),
    ]
    fields += [(f"Limit of {one['whose']}", _limit(one)) for one in status["limits"]]
    session.show(field_list(fields))


def _applications(number: int, running: int, most: int | None) -> str:
    return f"{number}, {running} running" + (f" of at most {most}" if most is not None else "")


def _limit(one: Json) -> str:
    parts = [f"role {one['role']}", f"used {amounts(one['used']) or 'nothing'}"]
    if one["max"]:
        parts.append(f"of at most {amounts(one['max'])}")
    if one["maxApplications"] is not None:
        parts.append(f"{one['running']} of at most {counted(one['maxApplications'], 'application')}")
    return ", ".join(parts)


# --- bars ---------------------------------------------------------------------------------------------------------


def bars_of(queues: Sequence[Json]) -> list[Json]:
    """The queues as bars draw them, with their names as a tree. Queues of several partitions are several trees, each
    with the name of its partition at its first queue."""
    names: dict[str, list[str]] = {}
    for queue in queues:
        names.setdefault(queue["partition"], []).append(queue["name"])
    several = len(names) > 1
    return [
        {
            "name": _titled(queue, names[queue["partition"]], several=several),
            "used": queue["status"]["used"],
            "deserved": queue["spec"]["guaranteed"] or None,
            "guarantee": queue["spec"]["guaranteed"],
            "capability": queue["spec"]["max"],
            "pending": queue["status"]["pending"],
            "total": queue["total"],
        }
        for queue in queues
    ]


def _titled(queue: Json, names: Sequence[str], *, several: bool) -> str:
    drawn = _drawn(queue["name"], names)
    return f"{drawn} ({queue['partition']})" if several and queue["name"] == names[0] else drawn


def _drawn(name: str, names: Sequence[str]) -> str:
    """The last part of a name behind the branches of the tree."""
    above, dot, last = name.rpartition(".")
    if not dot or above not in names:
        return name
    drawn = f"{'└─' if _is_last(name, names) else '├─'} {last}"
    while (next_above := above.rpartition(".")[0]) in names:
        drawn = f"{'  ' if _is_last(above, names) else '│ '} {drawn}"
        above = next_above
    return drawn


def _is_last(name: str, names: Sequence[str]) -> bool:
    parent = name.rpartition(".")[0]
    siblings = [one for one in names if one.rpartition(".")[0] == parent]
    return siblings[-1] == name


# --- changes of the document --------------------------------------------------------------------------------------


def change_tree(
    session: Session, name: str, done: str, change: Callable[[Json], None], dry_run: bool, partition: str = ""
) -> None:
    """Changes the document of the tree that counts, and makes the result the next revision. `done`: the word for the
    change. `partition`: empty = the only one with a tree, or `default`. Raises CliError, also if another revision
    counts by then."""
    tree = session.client.queue_tree(partition)
    document = copy.deepcopy(tree["spec"])
    change(document)
    number = tree["metadata"]["revision"]
    answer = session.client.put_queue_tree(
        document, expected=number, dry_run=dry_run, partition=tree.get("partition", partition)
    )
    report_tree(session, name, done, answer, dry_run)


def created_queue(document: Json, name: str, settings: Json) -> None:
    """Adds a queue. Raises UsageError."""
    parent, _, last = full_name(name).rpartition(".")
    if not parent:
        raise UsageError(f"queue {ROOT} exists already")
    if _entry(document, full_name(name)) is not None:
        raise UsageError(f"queue {full_name(name)} exists already")
    above = _container(document) if parent == ROOT else _entry(document, parent)
    if above is None:
        raise UsageError(f"queue {parent} is not configured")
    above.setdefault("queues", []).append({"name": last, **settings})


def changed_queue(document: Json, name: str, change: Callable[[Json], None]) -> None:
    """Changes the entry of a queue. Raises UsageError."""
    found = _container(document) if full_name(name) == ROOT else _entry(document, full_name(name))
    if found is None or found is document:
        raise UsageError(f"queue {full_name(name)} is not configured")
    change(found)
    if found.get("resources") == {}:
        del found["resources"]


def removed_queue(document: Json, name: str) -> None:
    """Removes the entry of a queue with the queues below. Raises UsageError."""
    parent, _, last = full_name(name).rpartition(".")
    above = None if not parent else _container(document) if parent == ROOT else _entry(document, parent)
    if above is None or _entry(document, full_name(name)) is None:
        raise UsageError(f"queue {full_name(name)} is not configured")
    above["queues"] = [queue for queue in above["queues"] if str(queue["name"]).lower() != last]


def _container(document: Json) -> Json:
    """The entry of root; the document itself if it does not name root."""
    queues = document.get("queues") or []
    if len(queues) == 1 and str(queues[0].get("name", "")).lower() == ROOT:
        found: Json = queues[0]
        return found
    return document


def _entry(document: Json, name: str) -> Json | None:
    found: Json | None = _container(document)
    for part in name.split(".")[1:]:
        below = (found or {}).get("queues") or []
        found = next((queue for queue in below if str(queue["name"]).lower() == part), None)
    return found


# --- results ------------------------------------------------------------------------------------------------------


def report_tree(session: Session, name: str, done: str, answer: Accepted, dry_run: bool) -> None:
    """Reports a change of the tree; with `dry_run`, its effect."""
    data = answer.data
    of = f"partition {data['partition']}" if data.get("partition") else ""
    if data.get("unchanged"):
        session.report("queue", name, "unchanged", _note(of, "dry run" if dry_run else ""))
        return
    revision = f"revision {data['revision']}" if "revision" in data else ""
    trial = {"dryRun": True, "trial": data["trial"]} if dry_run else {}
    session.report("queue", name, done, _note(of, "dry run" if dry_run else revision), **trial)
    if dry_run and session.change_format == "text":
        for line in trial_lines(data["trial"]):
            session.say(line)


def _note(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def trial_lines(trial: Json) -> list[str]:
    """The effect of a change in words."""
    part = trial.get("partition")
    lines = [f"  of the roles {', '.join(part['roles'])}:"] if part else []
    lines.append(f"  {counted(trial['waiting'], 'more taskgroup')} would wait")
    lines += [f"    {one['application']}: {_more(one)}: {one['message']}" for one in trial["waits"][:SHOWN]]
    lines += _rest(trial["waits"])
    lines.append(f"  {counted(trial['preempting'], 'taskgroup')} would be preempted")
    lines += [f"    {one['taskgroup']} of {one['application']}{_gain(one)}" for one in trial["preempted"][:SHOWN]]
    lines += _rest(trial["preempted"])
    if trial["movedOn"]:
        lines.append(f"  fewer taskgroups would wait: {', '.join(trial['movedOn'][:SHOWN])}")
    if trial["draining"]:
        lines.append(f"  would drain: {', '.join(trial['draining'])}")
    return lines


def _more(one: Json) -> str:
    return f"{counted(one['taskgroups'], 'taskgroup')}, {one['before']} now"


def _gain(one: Json) -> str:
    return f", for {one['beneficiary']}" if one["beneficiary"] else ", because a maximum is lower"


def _rest(found: Sequence[Any]) -> Iterable[str]:
    return [f"    and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
