"""The input of a session: agents, queues, jobs and tasks. Everything here is an immutable value.

Amounts are `offers.dimensions.Amounts`; moments are seconds of one clock, which the caller chooses. A task is a unit
that is placed as a whole on one agent; a job is a set of tasks with a minimum that must run together.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import StrEnum
from typing import NamedTuple

from offers.dimensions import NOTHING, Amounts
from offers.rules.taints import Taint, Toleration
from offers.rules.terms import Terms


class Status(StrEnum):
    """The state of a task. ALLOCATED and PIPELINED exist within a session only."""

    PENDING = "pending"
    ALLOCATED = "allocated"
    """An agent was chosen in this session."""
    PIPELINED = "pipelined"
    """An agent was chosen on which room is being released."""
    BINDING = "binding"
    """The launch was sent."""
    BOUND = "bound"
    """The launch was acknowledged."""
    RUNNING = "running"
    RELEASING = "releasing"
    """The kill was sent."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"


HOLDING = frozenset({Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING})
"""Tasks that hold their room and count as allocated."""
ON_AGENT = HOLDING | {Status.RELEASING, Status.UNKNOWN}
"""Tasks that take room on their agent."""


class Preference(NamedTuple):
    """A preferred term: agents whose attributes fulfil it get `weight` points before normalisation."""

    terms: Terms
    weight: int


class WorkAffinity(NamedTuple):
    """A rule about other work: to be (or with `anti` not to be) where work with these labels runs."""

    labels: tuple[tuple[str, str], ...]
    """All of these the other work must carry."""
    topology: str = ""
    """The attribute whose values distinguish places; empty: each agent is a place."""
    anti: bool = False
    weight: int = 0
    """0: the rule is required; otherwise a preference with this weight."""


class Template(NamedTuple):
    """The properties that identical tasks have in common. Tasks should share one object: equal templates are
    recognized, but the comparison takes time."""

    request: Amounts = NOTHING
    best_effort: bool = False
    """Placed by `backfill` without a check of the room."""
    selector: Terms = ()
    """The terms that the attributes of the agent must fulfil."""
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[int, ...] = ()
    """Ports of the host that must be free."""
    preferred: tuple[Preference, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    affinity: tuple[WorkAffinity, ...] = ()
    tests: Hashable = None
    """Stands for further tests of agents that a plug-in of the caller makes; None if there are none."""


class Nomination(NamedTuple):
    """Room that was promised to a pending task: other work stays away from it until the moment `until`."""

    agent: str
    until: float


class Task(NamedTuple):
    """One task of a job; its name is unique within the job. `agent` is empty unless the task takes room there."""

    name: str
    template: Template
    status: Status = Status.PENDING
    agent: str = ""
    priority: int = 0
    created: float = 0.0
    nomination: Nomination | None = None
    critical: bool = False
    """Never evicted by the plug-in `conformance`."""
    ready: bool = True
    """False: the task does not work (yet), so it is evicted before all ready ones and spends no disruption budget."""
    moves: bool = False
    """A task that is leaving for another agent, whose queue keeps its amounts for the successor; or, if it is pending,
    that successor."""


class Queue(NamedTuple):
    """A queue. `guarantee` and `capability` are the least and the most that it may have; in `capability` a name that is
    missing is not limited, so the pairs may hold zeros."""

    name: str
    weight: int = 1
    guarantee: Amounts = NOTHING
    capability: tuple[tuple[str, int], ...] = ()
    reclaimable: bool = True
    """True if other queues may take back amounts that this queue has above its deserved share."""
    priority: int = 0
    created: float = 0.0


class Agent(NamedTuple):
    """An agent. `foreign`: the amounts of `total` that other users have; no session can change these. `coming`: those
    of these that are on their way back from the cluster manager: they count as room that is being released."""

    name: str
    total: Amounts
    foreign: Amounts = NOTHING
    attributes: Mapping[str, object] = {}
    ready: bool = True
    """False: lost, in maintenance, or being drained."""
    schedulable: bool = True
    """False: set aside by an operator."""
    max_tasks: int | None = None
    """The most tasks at a time; None: not limited."""
    taints: tuple[Taint, ...] = ()
    pressure: frozenset[str] = frozenset()
    """The resources among memory, disk and pid that run short."""
    ports: tuple[int, ...] = ()
    """Ports of the host that others use."""
    coming: Amounts = NOTHING
    facts: Hashable = None
    """All else that the tests of a plug-in of the caller depend on (`Template.tests`)."""


class Job:
    """A job with its tasks. Immutable; figures are computed once, so unchanged jobs should be the same object in the
    next snapshot."""

    __slots__ = (
        "_positions", "admitted", "created", "lasting", "min_available", "moving", "name", "pending", "preempts",
        "priority", "queue", "tasks", "template",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        queue: str,
        tasks: tuple[Task, ...] = (),
        *,
        min_available: int = 1,
        priority: int = 0,
        created: float = 0.0,
        admitted: bool = False,
        preempts: bool = True,
        lasting: bool = False,
    ) -> None:
        """`admitted`: an earlier session let the job in; only the action `enqueue` asks. `preempts` False: no task is
        evicted for the job. `lasting`: its tasks stay for as long as their agents do. Raises ValueError for a negative
        minimum or for two tasks of one name."""
        if min_available < 0:
            raise ValueError(f"job {name}: min_available is {min_available}")
        if len({task.name for task in tasks}) < len(tasks):
            raise ValueError(f"job {name}: two tasks have the same name")
        self.name, self.queue, self.tasks = name, queue, tasks
        self.min_available, self.priority, self.created, self.admitted = min_available, priority, created, admitted
        self.preempts, self.lasting = preempts, lasting
        self.pending = tuple(i for i, task in enumerate(tasks) if task.status is Status.PENDING)
        """Positions of the pending tasks."""
        self.moving = tuple(i for i in self.pending if tasks[i].moves)
        """Positions of those that have left another agent."""
        first = tasks[self.pending[0]].template if self.pending else None
        alike = all(
            (tasks[i].template is first or tasks[i].template == first) and tasks[i].nomination is None
            for i in self.pending
        )
        self.template = first if alike else None
        """The template of all pending tasks; None if there are several, or if room is promised to one of the tasks."""
        self._positions: dict[str, int] | None = None

    def position(self, task: str) -> int:
        """The position of the task of a name."""
        if self._positions is None:
            self._positions = {known.name: position for position, known in enumerate(self.tasks)}
        return self._positions[task]
