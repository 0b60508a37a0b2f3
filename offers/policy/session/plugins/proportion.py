"""The plug-in proportion: queues share the cluster by weight, between their guarantees and their capabilities.

The deserved share of a queue is computed per dimension (`fill`). Requests of jobs that could never run take
nothing from the shares of other queues; the own queue cannot use its share for them. A queue that has its deserved
share in every dimension is overused, and `allocate` passes it over; with ``strict`` no task may exceed the deserved
share in any dimension that it requests. Capabilities, and guarantees of other queues, are hard limits. `reclaim` takes
no task that brings its queue below the guarantee in any dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from offers.policy.amounts import ExactRatios
from offers.policy.obstacles import Obstacle
from offers.policy.session.decisions import QUEUE_GUARANTEES, QUEUE_LIMIT, QUEUE_OVERUSED
from offers.policy.session.model import Template
from offers.policy.session.plugins.interface import Argument, Claim, Counts, Functions, Victim
from offers.policy.session.state.jobs import JobState, QueueState
from offers.policy.session.state.templates import Need

if TYPE_CHECKING:
    from offers.policy.session.session import Session

name = "proportion"
arguments: Mapping[str, Argument] = {
    "strict": Argument("boolean", False),
    "queuePriority": Argument("boolean", False),
}

_UNLIMITED = 2**62


def open(session: Session, arguments: Mapping[str, Any]) -> Functions:
    """See `Plugin.open`."""

    @cache
    def shares() -> Shares:
        return Shares(session)

    def order_by_priority(queue: QueueState) -> tuple[int, int]:
        return (-queue.queue.priority, shares().share(queue))

    return Functions(
        queue_order=order_by_priority if arguments["queuePriority"] else lambda queue: shares().share(queue),
        overused=lambda queue: shares().overused(queue),
        room=(lambda queue, need: shares().strict_room(queue, need))
        if arguments["strict"]
        else lambda queue, need: shares().room(queue, need),
        allocatable=lambda queue, need: shares().strict_room(queue, need) > 0,
        reclaimable=lambda claim, candidates: shares().reclaimable(claim, candidates),
        may_lose=lambda queue, need: shares().may_lose(queue, need),
        reclaims_by_queue=True,
        counts=Counts.SHARES,
        obstacle=Obstacle.GUARANTEE,
        limit=lambda queue, need, tasks: shares().limit(queue, need, tasks, strict=arguments["strict"]),
        deserved=lambda: {
            name: dict(zip(session.snapshot.dimensions, row, strict=True)) for name, row in shares().deserved.items()
        },
    )


class Shares:
    """Deserved shares and limits of the queues in a session."""

    def __init__(self, session: Session) -> None:
        self._needs = session.needs
        snapshot = session.snapshot
        queues = list(session.queues.values())
        totals = snapshot.totals
        guarantees = {queue.name: snapshot.row(queue.guarantee) for queue in snapshot.queues}
        promised = [sum(row[d] for row in guarantees.values()) for d in range(len(totals))]
        self._totals = totals
        self.limits: dict[str, list[int]] = {}
        self._capabilities: dict[str, dict[int, int]] = {}
        for queue in queues:
            own = guarantees[queue.name]
            # Without guarantees of others, the agents are the bound: the total counts those that are overcommitted.
            others = [amount - own[d] for d, amount in enumerate(promised)]
            limit = [total - others[d] if others[d] else _UNLIMITED for d, total in enumerate(totals)]
            most = self._capabilities[queue.name] = {
                snapshot.index[dimension]: amount for dimension, amount in queue.queue.capability
            }
            for d, amount in most.items():
                limit[d] = min(limit[d], amount)
            self.limits[queue.name] = limit
        cuts = [min(Fraction(1), Fraction(total, promised[d] or 1)) for d, total in enumerate(totals)]
        self._least = {name: [ceil(row[d] * cut) for d, cut in enumerate(cuts)] for name, row in guarantees.items()}
        """The guarantees, cut in proportion where their sum exceeds the cluster."""
        self.deserved = self._filled(queues, guarantees, {queue.name: queue.requested for queue in queues})
        usable = self.usable(session)
        if usable is not None:
            for name, row in self._filled(queues, guarantees, usable).items():
                self.deserved[name] = list(map(max, self.deserved[name], row))
        ratios = ExactRatios([share.numerator for row in self.deserved.values() for share in row])
        self._shift, self._whole = ratios.shift, ratios.whole
        self._parts = {
            name: [(d, share.denominator << self._shift, share.numerator) for d, share in enumerate(row)]
            for name, row in self.deserved.items()
        }
        self._floors = {
            name: [share.numerator // share.denominator for share in row] for name, row in self.deserved.items()
        }
        self._ceilings = {
            name: [-(-share.numerator // share.denominator) for share in row] for name, row in self.deserved.items()
        }

    def _filled(
        self, queues: Sequence[QueueState], guarantees: Mapping[str, Sequence[int]], requested: Mapping[str, list[int]]
    ) -> dict[str, list[Fraction]]:
        """The deserved shares with these requests."""
        filled: dict[str, list[Fraction]] = {queue.name: [] for queue in queues}
        for d, total in enumerate(self._totals):
            shares = [
                Share(
                    guarantees[queue.name][d],
                    min(requested[queue.name][d], self.limits[queue.name][d]),
                    queue.queue.weight,
                )
                for queue in queues
            ]
            for queue, deserved in zip(queues, fill(total, shares), strict=True):
                filled[queue.name].append(deserved)
        return filled

    def usable(self, session: Session) -> dict[str, list[int]] | None:
        """The requests of the queues, without those of tasks of which neither the agents nor the limit of the queue
        could hold as many as the minimum of the job if nothing else ran; None if there are no such tasks."""
        usable = {name: queue.requested.copy() for name, queue in session.queues.items()}
        figures, changed = session.snapshot.figures, False
        waiting = [(group.queue, group.template, group.min_available, group.requested) for group in session.aside]
        for job in session.jobs.values():
            if job.job.template is not None:
                waiting.append((job.queue.name, job.job.template, job.min_available, figures[job.name].requested))
            elif job.pending:
                parts = self._requests(job).items()
                waiting += [(job.queue.name, template, job.min_available, amounts) for template, amounts in parts]
        capacities = session.memory.capacities(session.snapshot.agent_changes)
        for queue, template, least, amounts in waiting:
            need, limit = self._needs.of(template), self.limits[queue]
            capacity = capacities.get(need.number)
            if capacity is None:
                if session.portion.is_late():
                    return None  # the next portion continues; nothing is decided before all are known
                capacity = capacities[need.number] = session.candidates(need).capacity(ever=True)
            if capacity < least or any(amount * least > limit[d] for d, amount in need.row):
                changed = True
                for d, amount in enumerate(amounts):
                    usable[queue][d] -= amount
        return usable if changed else None

    def _requests(self, job: JobState) -> dict[Template, list[int]]:
        """The amounts of the pending tasks of a job by template. Those to which room is promised are not among them:
        there is such room."""
        numbers: dict[int, int] = {}
        known: dict[int, Template] = {}
        for position in job.job.pending:
            task = job.job.tasks[position]
            if task.nomination is None:
                known[id(task.template)] = task.template
                numbers[id(task.template)] = numbers.get(id(task.template), 0) + 1
        requests: dict[Template, list[int]] = {}
        for key, template in known.items():
            amounts = requests.setdefault(template, [0] * len(self._totals))
            for d, amount in self._needs.of(template).row:
                amounts[d] += numbers[key] * amount
        return requests

    def share(self, queue: QueueState) -> int:
        """The greatest ratio of allocated to deserved amount in any dimension, exact."""
        greatest = 0
        allocated = queue.allocated
        for d, scale, deserved in self._parts[queue.name]:
            amount = allocated[d]
            if amount:
                part = amount * scale // deserved if deserved else self._whole
                if part > greatest:
                    greatest = part
        return greatest

    def overused(self, queue: QueueState) -> bool:
        """True if the queue has its deserved share in every dimension."""
        return all(a >= c for a, c in zip(queue.allocated, self._ceilings[queue.name], strict=True))

    def room(self, queue: QueueState, need: Need) -> int:
        """Counts the further tasks that the hard limits admit."""
        return self._count(self.limits[queue.name], queue, need)

    def strict_room(self, queue: QueueState, need: Need) -> int:
        """Counts the further tasks that hard limits and deserved share admit."""
        deserved = self._count(self._floors[queue.name], queue, need)
        return min(deserved, self.room(queue, need)) if deserved else 0

    def limit(self, queue: QueueState, need: Need, tasks: int, *, strict: bool) -> str:
        """The limit that keeps so many more tasks back, the capability first; empty if none does, or if the work of the
        queue fills the cluster. `strict`: the deserved share is a limit, too."""
        used = queue.allocated
        most = self._capabilities[queue.name]
        if any(d in most and used[d] + amount * tasks > most[d] for d, amount in need.row):
            return QUEUE_LIMIT
        limits, totals = self.limits[queue.name], self._totals
        if any(limits[d] < used[d] + amount * tasks <= totals[d] for d, amount in need.row):
            return QUEUE_GUARANTEES
        return QUEUE_OVERUSED if strict and self.strict_room(queue, need) < tasks <= self.room(queue, need) else ""

    @staticmethod
    def _count(limits: list[int], queue: QueueState, need: Need) -> int:
        number = _UNLIMITED
        allocated = queue.allocated
        for d, amount in need.row:
            fitting = (limits[d] - allocated[d]) // amount
            if fitting < number:
                number = fitting
        return max(0, number)

    def may_lose(self, queue: QueueState, need: Need) -> bool:
        """True if a queue is above its deserved share in a dimension that is wanted."""
        floors = self._floors[queue.name]
        return any(queue.allocated[d] > floors[d] for d, _ in need.row)

    def reclaimable(self, claim: Claim, candidates: list[Victim]) -> list[Victim]:
        """Tasks of queues that are above their deserved share in a dimension that is wanted, with a tally per queue.
        The rest of a queue is at least its guarantee in every dimension of the task."""
        tallies: dict[str, list[int]] = {}
        victims = []
        for victim in candidates:
            queue = victim.job.queue
            tally = tallies.get(queue.name)
            if tally is None:
                tally = tallies[queue.name] = queue.allocated.copy()
            floors, least = self._floors[queue.name], self._least[queue.name]
            row = self._needs.of(victim.task.template).row
            if any(tally[d] > floors[d] for d, _ in claim.need.row) and all(
                tally[d] - amount >= least[d] for d, amount in row
            ):
                for d, amount in row:
                    tally[d] -= amount
                victims.append(victim)
        return victims


# --- weighted max-min fairness in closed form, exactly ---------------------------------------------------------


class Share(NamedTuple):
    """The amounts that one party must get, may get at most, and its weight (at least 1) between the two."""

    least: int
    most: int
    weight: int


def fill(total: int, parties: Sequence[Share]) -> list[Fraction]:
    """Returns the amount that each party deserves of `total`, in their order: ``clamp(weight * level, least, most)``
    with the one level at which the sum is `total`, or `most` of each if that is not more than there is.

    If the least amounts alone exceed the total, each is cut in the same proportion. A `most` below `least` counts as
    `least`. Source: the water filling of weighted max-min fairness (Bertsekas and Gallager, Data Networks, 6.5); the
    level is found by one pass over the sorted amounts at which a party starts or stops to grow.
    """
    bounds = [(party.least, max(party.least, party.most), party.weight) for party in parties]
    if sum(most for _, most, _ in bounds) <= total:
        return [Fraction(most) for _, most, _ in bounds]
    guaranteed = sum(least for least, _, _ in bounds)
    if guaranteed >= total:
        return [Fraction(least * total, guaranteed or 1) for least, _, _ in bounds]
    turns: list[tuple[Fraction, int]] = []
    for least, most, weight in bounds:
        if most > least:
            turns += ((Fraction(least, weight), weight), (Fraction(most, weight), -weight))
    turns.sort()
    filled, growing, level = Fraction(guaranteed), 0, Fraction(0)
    for turn, weight in turns:
        if growing and filled + growing * (turn - level) >= total:
            break
        filled += growing * (turn - level)
        level = turn
        growing += weight
    level += (total - filled) / growing
    return [min(max(weight * level, Fraction(least)), Fraction(most)) for least, most, weight in bounds]
