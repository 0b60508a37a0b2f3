"""The interface between the placement and the source of its units.

A unit is placed as a whole: a taskgroup, or a pod. The loop and its engines know units by name, and ask the source for
facts about units, their applications, and groups of applications. The source also carries out the decisions: it binds
units to agents, and ends units. `core.placement.records` is the source of records.

A source opens and closes demands (`Demands`), and the names of slots and units are its own. Whether a unit of an
agent counts as used, claimed or held, the ledger knows (`offers.ledger`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from offers.dimensions import Amounts
from offers.model import Demand, Placement, Site
from offers.policy.hierarchy.configuration.partition import Partition
from offers.policy.hierarchy.placement import Submission
from offers.policy.obstacles import Obstacle
from offers.policy.session.model import Queue, Task
from transactions.base import Failure, Slot
from transactions.rules.gangs import Shortage


class Tenant(NamedTuple):
    """A unit that has or had a place. `application`: its key; `agent`: id; `title`: name for users; `leaves`: it is
    being ended, or has ended; `ended_at`: Unix seconds, 0 = it has not ended."""

    unit: str
    application: str
    agent: str
    title: str
    leaves: bool
    ended_at: float


class Member(NamedTuple):
    """An application of a group. `role`: that of its units."""

    name: str
    role: str


class UsedAmounts(NamedTuple):
    """CPU and memory on one agent, in the units of their dimensions. `used`: of all units; `lasting`: of those that
    stay for as long as the agent."""

    used: tuple[int, int]
    lasting: tuple[int, int]


class Facts(NamedTuple):
    """The facts of an application that its job depends on. `least`: the minimum of a gang, 1 = each unit counts alone;
    `preempts`: other work may be ended for it; `created`: Unix seconds."""

    least: int
    priority: int
    preempts: bool
    created: float
    lasting: bool = False
    """Its units stay for as long as their agents do."""


class Halt(Protocol):
    """A queue of a tree that an operator has halted."""

    @property
    def queue(self) -> str:
        """Its full name."""

    @property
    def state(self) -> Literal["Stopped", "Draining"]:
        """The state of the queue. `Draining`: it takes no applications; `Stopped`: nothing is placed."""

    @property
    def since(self) -> float:
        """Unix seconds. Applications that are older are in the queue, younger ones are not taken."""


class StoredTree(NamedTuple):
    """The stored configuration of a tree of queues. `document`: the same as canonical JSON."""

    partition: Partition
    document: str
    halts: tuple[Halt, ...] = ()


class News(NamedTuple):
    """The changes since the news before. `units`: units have changed, or facts that trees of queues count for them;
    `queues`: the queues have, or the order of work in them; `demands`: ids of demands; `groups`: names of groups of
    applications; `trees`: the partitions whose stored tree of queues has changed."""

    units: bool
    queues: bool
    demands: Collection[str]
    groups: Collection[str]
    trees: Collection[str]


class Follower(Protocol):
    """Follows changes of units, applications and queues, and is called while they change."""

    def unit_changed(self, application: str, unit: str, *, present: bool) -> None:
        """A unit has changed; `present`: it exists."""

    def application_changed(self, application: str) -> None:
        """Facts of an application have changed, or it is gone."""

    def namespace_changed(self, namespace: str) -> None:
        """The work of a namespace may belong to another queue."""

    def queues_changed(self) -> None:
        """The settings of queues have changed."""


class Source(Protocol):
    """A source of units. Belongs to the thread that owns the state. An application is given by its key, a unit by its
    name."""

    # --- units and their applications

    def tenant(self, unit: str) -> Tenant | None:
        """A unit by name; None if it does not exist."""

    def has_ended(self, unit: str) -> bool:
        """True if a unit, given by name, has ended or does not exist."""

    def has_started(self, application: str, since: float) -> bool:
        """True if a unit of an application was bound at or after a moment (Unix seconds)."""

    def age_of(self, demand: str) -> int:
        """Unix nanoseconds at which the work of a demand, given by id, began: the oldest comes first."""

    def is_needed(self, demand: str) -> bool:
        """False if the work of an open demand, given by id, has been ended since, or is supposed to be."""

    def priority(self, demand: Demand[Slot]) -> int:
        """The priority of the units of an open demand; 0 if it has none."""

    def used_on(self, agent: str) -> UsedAmounts:
        """The amounts that the units of an agent, given by id, have now."""

    def leaving_on(self, agent: str) -> Mapping[str, int]:
        """Amounts by dimension of the units of an agent, given by id, that are being ended."""

    def ending_within(self, role: str, seconds: float) -> Mapping[str, dict[str, int]]:
        """Amounts by agent and dimension of units of a role that are expected to end within so many seconds, and that
        nothing replaces."""

    def shortage(self, group: str) -> Shortage | None:
        """The units that a group (``namespace/name``) lacks; None: it has its minimum, or does not exist."""

    def members(self, group: str) -> Iterable[Member]:
        """The applications of a group (``namespace/name``)."""

    # --- units as tasks of sessions, applications as their jobs

    def follow(self, follower: Follower) -> None:
        """Has changes followed from now on."""

    def units(self) -> Iterable[tuple[str, str]]:
        """Applications and names of all units."""

    def task(self, unit: str, role: str, plain: bool) -> Task | None:
        """A unit as a task; None if it has no room in a role. `plain`: it counts as ready."""

    def applications(self) -> Collection[str]:
        """The keys of all applications."""

    def facts(self, application: str) -> Facts | None:
        """The facts of an application; None if it does not exist."""

    def queue_of(self, application: str) -> str:
        """The queue of an application."""

    def queues(self) -> list[Queue]:
        """All queues with their settings, amounts by dimension."""

    def capability(self, queue: str) -> Amounts:
        """The maximum of a queue by resource; empty: it has none."""

    # --- applications in trees of queues

    def tree(self, partition: str) -> StoredTree | None:
        """The stored tree of a partition of roles, given by name; None: that of the settings counts."""

    def keep_tree(self, partition: str, document: str) -> bool:
        """Stores a tree, given as canonical JSON, if no tree of the partition is stored. True if it is stored now."""

    def dimension(self, resource: str) -> str:
        """The dimension of a resource that a tree names."""

    def submission(self, application: str) -> Submission:
        """The properties of an application that placement rules and limits look at."""

    def roles(self) -> Iterable[str]:
        """The roles in which units hold room."""

    def beneficiaries(self) -> Iterable[tuple[str, str]]:
        """The units that are being ended for applications, or were ended for them lately, with these, the earliest
        decision first."""

    def idle(self) -> Iterable[tuple[str, str]]:
        """Applications and names of the units that do no useful work and are not being ended."""

    # --- the end of units for other work

    def spends(self, unit: str) -> bool:
        """True if the end of a unit, given by name, spends a part of a budget: it does useful work."""

    def may_end(self, unit: str) -> bool:
        """True if a unit may be ended now."""

    def may_ever_end(self, unit: str) -> bool:
        """True if a unit may be ended with some budget, now or later."""

    def obstacle(self, unit: str) -> Obstacle:
        """The obstacle for a unit that may not be ended."""

    def allowance(self, application: str) -> int:
        """The number of units of an application that do useful work and may be ended now."""

    def admits_some(self, application: str) -> bool:
        """True if such units may end one after the other, now or later."""

    def grows_at(self, application: str) -> float:
        """Unix seconds from which the allowance may be greater although nothing changes; infinity: no moment."""

    def budget_of(self, application: str) -> tuple[str, ...]:
        """The applications that spend the same budget."""

    # --- effects

    def bind(self, site: Site, placements: Sequence[Placement[Slot]]) -> bool:
        """Binds units to one agent, with claims of the pool that stand. A placement that cannot be carried out is
        given back, and its slot is demanded again. True if anything was bound."""

    def evict(self, unit: str, beneficiary: str, queue: str, *, is_paid: bool) -> str | None:
        """Begins to end a unit for an application, given by its key, and its queue; empty: for none. `is_paid`: another
        member of its gang has spent the budget. Returns None, or the reason for which the unit stays."""

    def fail(self, demand: str, failure: Failure) -> None:
        """A demand, given by id, cannot be decided about after an error: it is closed."""
