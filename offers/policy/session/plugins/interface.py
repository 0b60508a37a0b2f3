"""The interface of plug-ins: a name, typed arguments, and functions that it gives to a session.

A plug-in of a third party is a `Plugin`. Its `open` is called once per session, and returns the functions that
the plug-in takes part in; a function that is None is not taken part in.

Orders are keys: the smaller key comes first, and a key depends on the given object and on figures of its own only. The
session joins the keys of all plug-ins in the order of the tiers; objects with equal keys are ordered by creation, then
by name (tasks: by position).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from offers.policy.obstacles import Obstacle
from offers.policy.session.columns import Array
from offers.policy.session.model import Job, Task, Template
from offers.policy.session.state.agents import AgentView
from offers.policy.session.state.jobs import JobState, QueueState
from offers.policy.session.state.templates import Need

if TYPE_CHECKING:
    from offers.policy.session.session import Session


class Victim(NamedTuple):
    """A running task that may be evicted."""

    job: JobState
    position: int
    rank: int

    @property
    def task(self) -> Task:
        """The task itself."""
        return self.job.job.tasks[self.position]


class Claim(NamedTuple):
    """The pending task for which room is looked for."""

    job: JobState
    position: int
    need: Need

    @property
    def task(self) -> Task:
        """The task itself."""
        return self.job.job.tasks[self.position]


class Feasibility(NamedTuple):
    """A predicate for one template over all agents. Both parts must hold."""

    static: Array
    """Booleans by rank: the part that cannot change during the session."""
    why: Callable[[int], str | None]
    """The code of the first reason that refuses the agent of a rank now; None if nothing does."""
    dynamic: Callable[[int], bool] | None = None
    """True if the agent of a rank is acceptable as things stand; None: nothing of it can change."""
    dynamic_all: Callable[[], Array] | None = None
    """The same for all ranks, as booleans."""
    volatile: bool = False
    """A change on one agent may change the answer for other agents."""


class Scorer(NamedTuple):
    """The scores of agents for one template, as integers; the higher, the better."""

    of_agent: Callable[[int], int]
    """The score of the agent of a rank. Called after `all`."""
    all: Callable[[Array], Array]
    """Scores by rank. The argument says by rank which agents are candidates."""
    relative: bool = False
    """Scores depend on which agents are candidates."""
    volatile: bool = False
    """A change on one agent may change the scores of other agents."""


Victims = Callable[[Claim, list[Victim]], list[Victim]]
"""Names the candidates, in their order, that may be evicted for a task. The candidates are those that the functions
before have named."""


class Counts(IntEnum):
    """The counts that functions about victims keep. Those that count less come first: a candidate that another function
    refuses must not use up a part of a count, or nothing is evicted although one legal victim would help."""

    NOTHING = 0
    """Each candidate is judged by itself."""
    JOBS = 1
    """The candidates of each job, such as the tasks above its minimum."""
    SHARES = 2
    """The amounts that jobs or queues would still have."""


class Verdict(NamedTuple):
    """The reason why a job is not valid."""

    reason: str
    message: str


@dataclass(slots=True)
class Functions:
    """The functions of a plug-in in one session. The name of each switch of the configuration stands beside."""

    job_order: Callable[[JobState], Any] | None = None  # enableJobOrder
    queue_order: Callable[[QueueState], Any] | None = None  # enableQueueOrder
    task_order: Callable[[Job, Task], Any] | None = None  # enableTaskOrder
    predicate: Callable[[Template, AgentView], str | None] | None = None  # enablePredicate
    """The code of the reason that refuses an agent; None accepts. It may depend on template and agent only."""
    feasibility: Callable[[Need], Feasibility] | None = None  # enablePredicate
    """The same for all agents at a time."""
    node_order: Callable[[Template, AgentView], int] | None = None  # enableNodeOrder
    """The score of an agent. It may depend on template and agent only."""
    scorer: Callable[[Need], Scorer] | None = None  # enableNodeOrder
    """The same for all agents at a time."""
    preemptable: Victims | None = None  # enablePreemptable
    reclaimable: Victims | None = None  # enableReclaimable
    may_lose: Callable[[QueueState, Need], bool] | None = None  # enableReclaimable
    """False: `reclaimable` names no task of a queue for a task that needs this, now and while more tasks of the queue
    leave. None: not known."""
    evictable: Victims | None = None
    """Names those of the candidates, in their order, that may leave now. Unlike the two before, it holds in every
    tier."""
    obstacle: Obstacle = Obstacle.PLUGIN
    """The code of a candidate that `preemptable` or `reclaimable` refuses, for users."""
    keeps: Callable[[Victim], Obstacle] | None = None
    """The code of a candidate that `evictable` refuses, for users."""
    counts: Counts = Counts.NOTHING
    """The counts that `preemptable` and `reclaimable` keep over the candidates before."""
    reclaims_by_queue: bool = False
    """`reclaimable` depends on the queue and the need of the claim only, not on its job."""
    overused: Callable[[QueueState], bool] | None = None
    room: Callable[[QueueState, Need], int] | None = None
    """The number of further tasks that `allocate` may place for a queue; no negative number."""
    limit: Callable[[QueueState, Need, int], str] | None = None
    """The limit of a queue that keeps back so many more tasks at the same time: `decisions.QUEUE_LIMIT`,
    `QUEUE_GUARANTEES` or `QUEUE_OVERUSED`; empty if none does. Only for users."""
    allocatable: Callable[[QueueState, Need], bool] | None = None
    """True if a queue may take room back for one more task."""
    job_valid: Callable[[JobState], Verdict | None] | None = None
    job_ready: Callable[[JobState], bool] | None = None  # enableJobReady
    job_pipelined: Callable[[JobState], bool] | None = None  # enableJobPipelined
    missing: Callable[[JobState], int] | None = None
    """The number of further tasks that make `job_ready` true. With it, several tasks are placed in one go."""
    on_allocate: Callable[[JobState, int, int], None] | None = None
    """Called with job, position and rank after a task was placed, or an eviction was undone."""
    on_deallocate: Callable[[JobState, int, int], None] | None = None
    deserved: Callable[[], Mapping[str, Mapping[str, Fraction]]] | None = None
    """Shares by queue and dimension, for those that read the result."""


SWITCHES: Mapping[str, tuple[str, ...]] = {
    "enableJobOrder": ("job_order",),
    "enableQueueOrder": ("queue_order",),
    "enableTaskOrder": ("task_order",),
    "enablePredicate": ("predicate", "feasibility"),
    "enableNodeOrder": ("node_order", "scorer"),
    "enablePreemptable": ("preemptable",),
    "enableReclaimable": ("reclaimable", "may_lose"),
    "enableJobReady": ("job_ready", "missing"),
    "enableJobPipelined": ("job_pipelined",),
}
"""Switches of a plug-in in the configuration, with the functions that they turn off; all are on by default."""


class Argument(NamedTuple):
    """A typed argument of a plug-in or an action. In the configuration it may be written as a text."""

    kind: Literal["integer", "boolean", "decimal", "text"]
    default: Any
    least: int | None = None
    """The least number that is accepted."""


class Plugin(Protocol):
    """A plug-in. Modules and objects with these attributes will do."""

    name: str
    arguments: Mapping[str, Argument]

    def open(self, session: Session, arguments: Mapping[str, Any]) -> Functions:
        """The functions for one session. `arguments` has every argument, with its default if it was not given. The jobs
        of the session are known when the first of the functions other than `job_valid` is called."""
