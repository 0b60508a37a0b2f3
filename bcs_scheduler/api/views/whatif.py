"""The changes that would give the open taskgroups of an application places, with sentences."""

from __future__ import annotations

from typing import Any

import msgspec

from bcs_scheduler.api.views.explain import PartitionView
from store.keys import taskgroup_name
from transactions.text import counted, duration

UNITS = {"cpus": "cores", "mem": "MB", "disk": "MB"}
"""Words after amounts."""
REASONS = {
    "noRuns": "no taskgroup that holds room is known to end, or too few runs of its application have ended",
    "tooFewEnds": "the taskgroups that are expected to end do not leave enough room",
    "policy": "the policy holds the taskgroups back",
}
"""Words for the reasons without an estimate."""


class NewSize(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a new agent: cores, MB, MB, numbers."""

    cpus: float
    mem: float
    disk: float
    gpus: float


class RaisedLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of a queue: cores, MB, GPUs, or a number of an extended resource."""

    resource: str
    before: float = msgspec.field(name="from")
    to: float


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change. `kind` is `uncordonAgents` (with `agents`), `reduceResource` (`resource`, `from` and `to` per
    taskgroup in cores or MB), `dropConstraint` (`constraint`), `addAgents` (`count`, `size`, `attributes`),
    `drainAgent` (`agents` and the ids of their `taskgroups`; the agent is then uncordoned), `preemptTaskgroups`
    (`taskgroups`), or `raiseQueueLimit` (`queue`, `limits`). `partition`: of that queue, if several partitions of roles
    have a tree of queues; else empty. `taskgroupsHidden`: further taskgroups, of other namespaces. `limits` is empty
    for callers who may not see all namespaces."""

    kind: str
    agents: list[str] | None = None
    resource: str = ""
    before: float | None = msgspec.field(name="from", default=None)
    to: float | None = None
    constraint: str = ""
    count: int = 0
    size: NewSize | None = None
    attributes: dict[str, str | float] | None = None
    taskgroups: list[str] | None = None
    taskgroups_hidden: int = msgspec.field(name="taskgroupsHidden", default=0)
    queue: str = ""
    partition: str = ""
    limits: list[RaisedLimit] | None = None


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """An agent of a plan; `taskgroups` is the number of taskgroups that it would get."""

    hostname: str
    taskgroups: int


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A taskgroup (id) that a drain moves, and the host of its new agent."""

    taskgroup: str
    hostname: str


class Solution(msgspec.Struct, frozen=True, kw_only=True):
    """A set of changes with which all examined taskgroups have places. `moves`: taskgroups that drains move. `evict`:
    ids of taskgroups that the policy would end. `movesHidden`, `evictHidden`: the number of further ones, of other
    namespaces. `text` repeats the changes."""

    changes: list[Change]
    placed: int
    agents: list[Used]
    moves: list[Moved] = []
    evict: list[str] = []
    moves_hidden: int = msgspec.field(name="movesHidden", default=0)
    evict_hidden: int = msgspec.field(name="evictHidden", default=0)
    text: str = ""


class When(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The estimate of the time until all examined taskgroups have room, in seconds: `seconds`, between `least` and
    `most`, from the running times of `runs` taskgroups that have finished. Without an estimate, `reason` is a code:
    `noRuns`, `tooFewEnds`, or `policy`. `text` repeats both."""

    seconds: int | None = None
    least: int | None = None
    most: int | None = None
    runs: int = 0
    reason: str = ""
    text: str = ""


class WhatIf(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`open`: taskgroups without a place; `examined`: of these, the taskgroups of `transaction`, for which the changes
    suffice. `heldBack`: agents have room, and the policy or a gang holds the taskgroups back. `limited`: a limit of the
    queue does, with any number of agents. `refused`: sets of changes whose room the policy gives to other work first,
    or whose drain would be refused. `complete`: false if the search had no time for all sets. `agents`: agents with
    offers. `when` is null if no taskgroup waits. `partition`: the policy that decides; null if all roles have one
    policy."""

    open: int
    examined: int
    transaction: str
    agents: int
    held_back: bool
    complete: bool
    limited: bool = False
    refused: int = 0
    solutions: list[Solution]
    when: When | None = None
    partition: PartitionView | None = None
    text: list[str] = []


def show_what_if(data: dict[str, Any]) -> WhatIf:
    """`data`: the answer of the core."""
    found = msgspec.convert(data, WhatIf)
    solutions = [msgspec.structs.replace(one, text=" and ".join(map(_words, one.changes))) for one in found.solutions]
    when = msgspec.structs.replace(found.when, text=_when(found.when)) if found.when is not None else None
    return msgspec.structs.replace(found, solutions=solutions, when=when, text=_sentences(found, solutions))


def _when(found: When) -> str:
    if found.seconds is None:
        return f"no estimate of the time until room is free: {REASONS.get(found.reason, found.reason)}"
    least, most = duration(found.least or 0), duration(found.most or 0)
    words = f"room is expected in about {duration(found.seconds)}, between {least} and {most}"
    return f"{words}, from {counted(found.runs, 'run')}"


def _sentences(found: WhatIf, solutions: list[Solution]) -> list[str]:
    if not found.open:
        return ["no taskgroup waits for a place"]
    part = found.partition
    if found.limited and not solutions:
        return ["a limit of the queue holds the taskgroups back, and a greater one alone does not suffice; see above"]
    if found.held_back and not solutions and part is not None:
        words = f"the policy {part.policy} of the roles {', '.join(part.roles)}"
        return [f"agents have room for the taskgroups; {words} holds them back, see above"]
    if found.held_back and not solutions:
        return ["agents have room for the taskgroups; see the queue, gang or policy above"]
    lines = [f"{one.text}: {counted(one.placed, 'taskgroup')} placed on {_agents(one.agents)}" for one in solutions]
    if not lines and found.refused:
        lines = ["the policy gives the room that changes would make to other work first, or refuses the drain"]
    elif not lines and found.complete:
        lines = ["no set of at most two changes gives all taskgroups places"]
    if not found.complete:
        lines.append("the search ended for lack of time; other changes may help")
    return lines


def listed(parts: list[str]) -> str:
    """``a, b and c``"""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def _agents(used: list[Used]) -> str:
    names = [one.hostname for one in used[:3]]
    more = len(used) - len(names)
    return ", ".join(names) + (f" and {counted(more, 'other agent')}" if more else "")


def _words(change: Change) -> str:
    match change.kind:
        case "uncordonAgents":
            names = change.agents or []
            return (
                f"uncordon {counted(len(names), 'agent')} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
            )
        case "reduceResource":
            unit = UNITS.get(change.resource, "")
            return f"reduce {change.resource} per taskgroup from {change.before:g} to {change.to:g} {unit}"
        case "dropConstraint":
            return f"drop {change.constraint}"
        case "drainAgent":
            moved = counted(len(change.taskgroups or []) + change.taskgroups_hidden, "taskgroup")
            return f"drain agent {', '.join(change.agents or [])} ({moved}) and uncordon the agent"
        case "preemptTaskgroups":
            ended = list(map(taskgroup_name, change.taskgroups or []))
            total = len(ended) + change.taskgroups_hidden
            names = ended[:3]
            if len(ended) > 3:
                names.append(f"{len(ended) - 3} more")
            if change.taskgroups_hidden:
                names.append(f"{change.taskgroups_hidden} of other namespaces")
            return f"end {counted(total, 'less important taskgroup')} ({listed(names)})"
        case "raiseQueueLimit":
            parts = (
                f"{one.resource} from {one.before:g} to {one.to:g} {UNITS.get(one.resource, '')}".rstrip()
                for one in change.limits or []
            )
            of = f" of partition {change.partition}" if change.partition else ""
            raised = ", ".join(parts)
            return f"raise the limit of queue {change.queue}{of}{f': {raised}' if raised else ''}"
    size = change.size
    if size is None:
        return change.kind
    return f"add {counted(change.count, 'agent')} with {size.cpus:g} cores and {size.mem:g} MB"
