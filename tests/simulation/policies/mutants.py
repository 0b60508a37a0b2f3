"""Faults put into the policies on purpose; worlds of this folder must show each of them.

Those that end something are put in where both engines have their evictions carried out (`Evictor.evict`), so that
they stay what they are when an engine changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple, cast

import pytest

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.placement.engines.hierarchical import Hierarchical
from bcs_scheduler.core.placement.evictor import Evictor
from bcs_scheduler.core.placement.queue_accounts import QueueAccounts
from offers.dimensions import Amounts
from offers.model import Demand
from offers.policy.hierarchy.state.queue import Queue
from offers.policy.session.decisions import Eviction
from offers.policy.session.plugins.proportion import Shares
from offers.policy.session.state.jobs import QueueState
from offers.policy.session.state.templates import Need
from store.records import TaskGroup
from store.state import State
from tests.simulation.policies.rules import NOMINATED, Rules
from tests.simulation.policies.users import Engine
from transactions.base import Slot
from transactions.rules import disruptions

PAUSE = 10.0
"""Seconds between two evictions that a fault adds."""
Chooses = Callable[[Evictor, Demand[Slot], TaskGroup], bool]


class PolicyMutant(NamedTuple):
    """`caught_by`: the rule that notices. `seeds`: tried one after the other until one shows the fault, for each
    engine."""

    name: str
    breaks: Callable[[pytest.MonkeyPatch], None]
    caught_by: str
    seeds: Mapping[Engine, range]


def end_one_more(patch: pytest.MonkeyPatch) -> None:
    """Beside the victims, another taskgroup of their agent is ended."""
    honest = Evictor.evict

    def hasty(self: Evictor, decided: Sequence[Eviction]) -> None:
        chosen = list(decided)
        tasks = {one.task for one in chosen}
        for one in list(chosen):
            more = [group for group in _running(self) if group.agent_id == one.agent and group.id not in tasks]
            if one.beneficiary and more:
                tasks.add(more[0].id)
                chosen.append(one._replace(job=more[0].application_key, task=more[0].id))
        honest(self, chosen)

    patch.setattr(Evictor, "evict", hasty)


def end_for_what_no_limit_admits(patch: pytest.MonkeyPatch) -> None:
    """Work is ended for work that is larger than the limit of its queue."""

    def chooses(self: Evictor, demand: Demand[Slot], group: TaskGroup) -> bool:
        most = _most(self, demand.application)
        return most is not None and demand.request.cpus > most

    _ends(patch, chooses)


def let_nobody_be_evicted(patch: pytest.MonkeyPatch) -> None:
    """Every budget is used up for evictions."""
    _refuses(patch, "evict")
    patch.setattr(disruptions, "allowance", lambda ctx, key: 0)


def let_nobody_be_drained(patch: pytest.MonkeyPatch) -> None:
    """Every budget is used up for drains."""
    _refuses(patch, "drain")


def _refuses(patch: pytest.MonkeyPatch, refused: str) -> None:
    honest = disruptions.Disruptions.judge

    def judge(self: disruptions.Disruptions, group: TaskGroup, purpose: disruptions.Purpose) -> disruptions.Answer:
        return disruptions.Answer("Budget", 1) if purpose == refused else honest(self, group, purpose)

    patch.setattr(disruptions.Disruptions, "judge", judge)


def swap_equals(patch: pytest.MonkeyPatch) -> None:
    """Work is ended for work of its queue that has the same size. The rules of pauses and of places are left out: they
    notice the first of these evictions that does not help, and so hide those that swap."""

    def chooses(self: Evictor, demand: Demand[Slot], group: TaskGroup) -> bool:
        same = self._queue_of(demand.application) == self._queue_of(group.application_key)
        return same and demand.request.cpus == group.resources.cpus

    _ends(patch, chooses)
    for rule in ("_pair_pauses", "_room_is_used"):
        patch.setattr(Rules, rule, lambda *of_pair: None)


def end_in_vain(patch: pytest.MonkeyPatch) -> None:
    """Work is ended for work that fits then, and that comes after it in the order of its queue: each place once, and
    the next one of an application when the first pause should last."""
    seen: dict[tuple[int, str, str], tuple[float, set[int]]] = {}

    def chooses(self: Evictor, demand: Demand[Slot], group: TaskGroup) -> bool:
        at, places = seen.get(pair := (id(self), demand.application, group.application_key), (-inf, set()))
        if group.index in places or self._turn.now < at + NOMINATED + PAUSE or not _is_behind(self, demand, group):
            return False
        seen[pair] = self._turn.now, {*places, group.index}
        return True

    _ends(patch, chooses)


def end_the_same_again(patch: pytest.MonkeyPatch) -> None:
    """The same, and a place is ended again when its work has got the room."""
    _ends(patch, _is_behind)


def _is_behind(self: Evictor, demand: Demand[Slot], group: TaskGroup) -> bool:
    """Whether a demand fits the room of a taskgroup, and comes after it in the order of their queue."""
    same = self._queue_of(demand.application) == self._queue_of(group.application_key)
    state = _state(self)
    application = state.applications[group.application_key]
    version = state.version(application.key, application.version)
    before = version is not None and version.priority > self._turn.source.priority(demand)
    return same and before and demand.request.cpus == group.resources.cpus


def count_one_more(patch: pytest.MonkeyPatch) -> None:
    """Limits of queues count a taskgroup more than there is, for work that waits and for work that has waited long."""
    honest_room, honest_limit, honest_exceeded = Shares.room, Shares.limit, Queue.exceeded
    honest_capability = QueueAccounts.has_capability

    def room(self: Shares, queue: QueueState, need: Need) -> int:
        return max(0, honest_room(self, queue, need) - 1)

    def exceeded(self: Queue, request: Amounts) -> bool:
        return honest_exceeded(self, tuple((name, 2 * amount) for name, amount in request))

    def limit(self: Shares, queue: QueueState, need: Need, tasks: int, *, strict: bool) -> str:
        return honest_limit(self, queue, need, tasks + 1, strict=strict)

    def has_capability(self: QueueAccounts, demand: Demand[Slot], planned: Iterable[Demand[Slot]]) -> bool:
        return honest_capability(self, demand, (*planned, demand))

    patch.setattr(Shares, "room", room)
    patch.setattr(Shares, "limit", limit)
    patch.setattr(QueueAccounts, "has_capability", has_capability)
    patch.setattr(Queue, "exceeded", exceeded)


def _ends(patch: pytest.MonkeyPatch, chooses: Chooses) -> None:
    """Adds an eviction to a decision that has none: the first pair of waiting and running work that is chosen."""
    honest = Evictor.evict
    latest: dict[int, float] = {}

    def hasty(self: Evictor, decided: Sequence[Eviction]) -> None:
        found, now = list(decided), self._turn.now
        if not found and now - latest.get(id(self), 0.0) >= PAUSE:
            found = next(_pairs(self, chooses), [])
            if found:
                latest[id(self)] = now
        honest(self, found)

    patch.setattr(Evictor, "evict", hasty)


def _pairs(self: Evictor, chooses: Chooses) -> Iterator[list[Eviction]]:
    for demand in list(self._turn.engine.demands.values()):
        for group in _running(self):
            if not demand.per_agent and group.application_key != demand.application and chooses(self, demand, group):
                yield [Eviction(group.application_key, group.id, group.agent_id, demand.application)]


def _state(self: Evictor) -> State:
    return cast(TurnContext, self._turn).state


def _running(self: Evictor) -> list[TaskGroup]:
    groups = _state(self).taskgroups.values()
    return sorted((g for g in groups if g.status == "Running" and not g.killing_since), key=lambda group: group.id)


def _most(self: Evictor, application: str) -> int | None:
    """The least limit of cores on the way to an application; None without one."""
    if isinstance(self._engine, Hierarchical):
        limits = [
            queue.config.max["cpus"]
            for role in self._engine.trees.roles.values()
            if (found := role.tree.applications.get(application)) is not None
            for queue in role.tree.queues[found.queue].path
            if "cpus" in queue.config.max
        ]
        return min(limits, default=None)
    queue = _state(self).queues.get(self._queue_of(application))
    return queue.capability.cpus if queue is not None else None


PLANTED: tuple[PolicyMutant, ...] = (
    PolicyMutant("end one more", end_one_more, "I81", {"hierarchical": range(8, 28), "session": range(3, 23)}),
    PolicyMutant(
        "end for what no limit admits",
        end_for_what_no_limit_admits,
        "I80",
        {"hierarchical": range(1, 21), "session": range(3, 23)},
    ),
    PolicyMutant("swap equals", swap_equals, "I82", {"hierarchical": range(6, 26), "session": range(27, 47)}),
    PolicyMutant(
        "let nobody be evicted", let_nobody_be_evicted, "I83", {"hierarchical": range(2, 22), "session": range(1, 21)}
    ),
    PolicyMutant("count one more", count_one_more, "I84", {"hierarchical": range(1, 21), "session": range(24, 44)}),
    PolicyMutant("end in vain", end_in_vain, "I86", {"hierarchical": range(3, 23), "session": range(4, 24)}),
    PolicyMutant(
        "end the same again", end_the_same_again, "I88", {"hierarchical": range(3, 23), "session": range(4, 24)}
    ),
    PolicyMutant(
        "let nobody be drained", let_nobody_be_drained, "I85", {"hierarchical": range(21, 41), "session": range(41, 61)}
    ),
)
