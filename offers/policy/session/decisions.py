"""The decisions of a session. Everything here is an immutable value; names are those of the snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

from offers.policy.obstacles import Attempt
from offers.policy.session.model import Nomination

SCHEDULED, UNSCHEDULABLE = "Scheduled", "Unschedulable"
"""Types of conditions."""
NOT_ENOUGH_RESOURCES, QUEUE_NOT_FOUND = "NotEnoughResources", "QueueNotFound"
"""Reasons of `UNSCHEDULABLE`, beside those that plug-ins give."""
QUEUE_LIMIT = "QueueLimit"
"""The reason in refusals of a queue that has no room below its capability; counts once."""
QUEUE_KEPT = "QueueKept"
"""The reason in refusals of a queue that keeps the rest of its limit for other work, for which taskgroups end."""
QUEUE_GUARANTEES = "QueueGuarantees"
"""The reason in refusals of a queue beside which the rest of the cluster is guaranteed to others; counts once."""
QUEUE_OVERUSED = "QueueOverused"
"""The reason in refusals of a queue that has its deserved share; counts once."""


class Bind(NamedTuple):
    """A launch."""

    job: str
    task: str
    agent: str


class Eviction(NamedTuple):
    """A kill, with the job for which the room is made."""

    job: str
    task: str
    agent: str
    beneficiary: str
    with_gang: bool = False
    """True if the gang of the task ends as a whole."""


class Overused(NamedTuple):
    """The action `allocate` passed a queue over that had its deserved share."""

    queue: str


class Condition(NamedTuple):
    """The state of a job at the end of the session."""

    type: str
    reason: str = ""
    message: str = ""
    refusals: Mapping[str, int] = {}
    """Numbers of agents by the first reason that refuses each, for the first task that found no place."""
    waiting: int = 0
    """Tasks that wait for room that is being released."""


class PluginFault(NamedTuple):
    """A plug-in or action that raised or took too long. `function` is the name of the called function."""

    plugin: str
    function: str
    cause: str


class Passing(StrEnum):
    """The inputs of a session that change by the time alone.

    * BUDGET: the disruption budget of an application that may lose nothing now
    * PAUSE: the pause of a pair of jobs
    * PROMISE, ROOM: a promised room; the room of ended work that is expected to be offered
    * LAUNCHES: those of the session itself, which take room, may be victims next, and end pauses
    * OFFERS: the offers that were requested for new work
    * PLUGIN: a plug-in that is not used for a while
    * EXPLAINED: the demands that are explained, others each time
    """

    BUDGET, PAUSE, PROMISE, LAUNCHES = "Budget", "Pause", "Promise", "Launches"
    ROOM, OFFERS, PLUGIN, EXPLAINED = "Room", "Offers", "Plugin", "Explained"


class Later(NamedTuple):
    """The moment from which a session may decide otherwise, in the seconds of the snapshot."""

    code: Passing
    at: float


def earliest(moments: Iterable[Later | None]) -> Later | None:
    """The first of some moments; None if there is none."""
    return min((moment for moment in moments if moment is not None), key=lambda moment: moment.at, default=None)


class SessionResult(NamedTuple):
    """Result of a session. Tasks are named by pairs of job and task."""

    binds: tuple[Bind, ...]
    """Launches in the order in which they are to be sent."""
    evictions: tuple[Eviction, ...]
    pipelined: Mapping[tuple[str, str], str]
    """Tasks for which room is held on an agent, and which are not launched."""
    nominations: Mapping[tuple[str, str], Nomination]
    """The same room as promises for the next session."""
    conditions: Mapping[str, Condition]
    admitted: tuple[str, ...]
    """Jobs that the action `enqueue` let in."""
    sequence: tuple[Bind | Overused, ...]
    """Launches and queues passed over, in the order of the decisions."""
    deserved: Mapping[str, Mapping[str, Fraction]]
    """Deserved shares by queue and dimension."""
    faults: tuple[PluginFault, ...] = ()
    allocated: Mapping[str, Mapping[str, int]] = {}
    """Amounts by queue and dimension that the queues have after the session; queues without jobs are missing."""
    held_back: Mapping[str, str] = {}
    """`QUEUE_LIMIT`, `QUEUE_KEPT`, `QUEUE_GUARANTEES` or `QUEUE_OVERUSED`, by the name of a job of which tasks wait
    for that reason."""
    attempts: Mapping[str, Attempt | None] = {}
    """The attempt to make room by evictions, by the name of the job; None if none was due. Jobs that this session did
    not look at are missing (`attempts`)."""

    later: Later | None = None
    """The earliest moment from which another session may decide otherwise by the time alone; None: there is none."""
    unfinished: bool = False
    """The time was used up before all jobs had their turns."""
