"""Room that is kept for one job, as a session sees it: it is not idle, but jobs that outrank this one may use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from offers.policy.session.snapshot import Snapshot
from offers.policy.session.state.agents import AgentTable
from offers.policy.session.state.jobs import JobState
from offers.policy.session.state.templates import Need

if TYPE_CHECKING:
    from offers.policy.session.composition import Composition

Rows = Mapping[int, list[int]]
"""Amounts by dimension, by rank of the agent."""
NO_ROWS: Rows = {}


class Standing(NamedTuple):
    """The standing of work that wants more room; it decides about the use of room that is kept for other work."""

    queue: str
    priority: int
    is_owed: bool
    """The queue stays within its guarantee (`is_owed`)."""
    is_entitled: bool
    """The queue stays within its deserved share, so it may take the room from others."""
    has_victims: bool = False
    """Other work was ended for it."""

    def outranks(self, other: Standing) -> bool:
        """True if this work may use room that is kept for the other one. Within a queue the priority decides. Between
        queues a guarantee comes first. A priority counts only before work was ended for the other one, and does not
        make up for a share that the queue has already. Otherwise work of any priority, which was ended because its
        queue was above its share, would take its room back."""
        if self.queue == other.queue:
            return self.priority > other.priority
        if self.is_owed or other.has_victims:
            return self.is_owed
        return self.priority > other.priority and (self.is_entitled or not other.is_entitled)


class Kept(NamedTuple):
    """Room that is kept for work which has waited for long. The agents of the snapshot have it in use by others."""

    amounts: Mapping[str, Mapping[str, int]]
    """Amounts that are kept, by agent and dimension."""
    lacks: Mapping[str, Mapping[str, int]]
    """Amounts that are still missing there, and are set apart of the room that is leaving and not promised."""
    standing: Standing
    """The standing of the work."""
    jobs: frozenset[str] = frozenset()
    """The work."""
    is_own: bool = False
    """True if only the work itself may use the room; else only others that outrank it may."""
    outranking: frozenset[str] = frozenset()
    """Further jobs that may use the room: room was made for them there."""
    served: frozenset[tuple[str, str]] = frozenset()
    """The names of job and task for which other work is ended to fill this room: the session ends nothing for them."""

    def rows(self, snapshot: Snapshot) -> dict[int, list[int]]:
        """The kept amounts as the columns of a snapshot have them."""
        return {
            snapshot.rank[agent]: [amounts.get(name, 0) for name in snapshot.dimensions]
            for agent, amounts in self.amounts.items()
            if agent in snapshot.rank
        }

    def withhold(self, snapshot: Snapshot, agents: AgentTable, rows: Rows) -> frozenset[int]:
        """Moves the amounts that are missing and leaving from the future ones to `rows`, which those have who may use
        the room. The promises are kept before. Returns the ranks of the agents on which more is missing."""
        short = set[int]()
        for agent, amounts in self.lacks.items():
            rank = snapshot.rank.get(agent)
            if rank is not None:
                needed = [amounts.get(name, 0) for name in snapshot.dimensions]
                taken = agents.withhold(rank, needed)
                for d, amount in enumerate(taken):
                    rows[rank][d] += amount
                if taken != needed:
                    short.add(rank)
        return frozenset(short)

    def limits(self, job: JobState) -> bool:
        """True if the limits of the queue of a job have to hold this work, too: others were ended for it."""
        standing = self.standing
        is_behind = job.queue.name == standing.queue and job.priority <= standing.priority
        return standing.has_victims and is_behind and not (self.is_own or job.name in self.jobs)

    def sums(self, dimensions: Sequence[str]) -> list[int]:
        """The amounts of the work by dimension."""
        parts = [*self.amounts.values(), *self.lacks.values()]
        return [sum(part.get(name, 0) for part in parts) for name in dimensions]

    def is_for(self, job: JobState, need: Need, rules: Composition, dimensions: Sequence[str]) -> bool:
        """True if a job may use the room for a task with such a need. `dimensions`: the names of those of its queue."""
        if self.is_own or job.name in self.jobs:
            return self.is_own and job.name in self.jobs
        if job.name in self.outranking:
            return True
        queue, used = job.queue, dict(zip(dimensions, job.queue.allocated, strict=True))
        owed = is_owed(dict(need.template.request), dict(queue.queue.guarantee), used)
        standing = Standing(queue.name, job.priority, owed, rules.allocatable(queue, need))
        return standing.outranks(self.standing)


def is_owed(needed: Mapping[str, int], guarantee: Mapping[str, int], used: Mapping[str, int]) -> bool:
    """True if the queue of a task has a guarantee for an amount that the task wants, and stays within all of these with
    the task: then it may use room that is kept for others. `used`: amounts of the queue."""
    least = {name: amount for name, amount in guarantee.items() if amount and needed.get(name)}
    return bool(least) and all(used.get(name, 0) + needed[name] <= amount for name, amount in least.items())


NOTHING_KEPT = Kept({}, {}, Standing("", 0, is_owed=False, is_entitled=False))
