"""The figures of queues for metrics and users: used amounts, deserved shares, taskgroups that wait.

Only `Accounts` takes part in decisions: other sources of units have their own. The figures are made from sums that are
kept as records and demands change, so their cost grows with namespaces and with applications that wait, and not with
taskgroups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.hierarchy.figures import REASONS, TreeFigures, queue_figures
from bcs_scheduler.core.placement.snapshots.held import by_resource
from offers.matching.explain import PROMISED
from offers.model import DecidedBy, Demand
from offers.policy.amounts import Vector
from offers.policy.hierarchy.configuration.partition import ROOT
from offers.policy.obstacles import Attempt, Obstacle, label
from offers.policy.session.kept import Standing, is_owed
from offers.policy.waiting import WaitCode
from offers.resources import requested
from store.ids import namespace_of
from store.records import DEFAULT_QUEUE, Queue
from store.state.census import TASKGROUPS
from store.state.reader import StateReader
from transactions.base import Slot
from transactions.engine.demands import Demands
from transactions.rules.queues import present_tree, queue_of

if TYPE_CHECKING:
    from bcs_scheduler.core.placement.engines.engine import Decisions
    from bcs_scheduler.core.placement.hierarchy.trees import Trees

Waiting: TypeAlias = str
"""The reasons for which a taskgroup waits: values of `TreeReason`, labels of obstacles (`offers.policy.obstacles`), and

    queue_limit     the queue has its maximum
    queue_overused  the queue has its deserved share
    gang            the gang needs more places at the same time
    room_promised   promised room is being freed
    reserved        the room is kept for others
    no_room         no agent has room
"""


AT_QUEUE: Mapping[str, Waiting] = {**REASONS, WaitCode.GUARANTEES: label(Obstacle.GUARANTEE), "": "queue_overused"}
"""The reasons for which a taskgroup waits at its queue, by `HeldBack.code`."""


class QueueFigures(NamedTuple):
    """Amounts are thousandths by resource, extended ones among them."""

    queue: Queue
    """Its settings; defaults for the default queue without a record."""
    taskgroups: int
    """Taskgroups that have not ended."""
    used: Mapping[str, Mapping[str, int]]
    """Amounts that these hold, by role."""
    deserved: Mapping[str, Mapping[str, int]]
    """Deserved shares by role, as of its latest session; empty without one, or without the plug-in `proportion`."""
    pending: Mapping[Waiting, int]
    """Taskgroups that wait for a place."""


class _Outcome(NamedTuple):
    """The parts of the latest decisions about a role that are kept."""

    deserved: Mapping[str, Mapping[str, int]]
    held_back: Mapping[str, str]
    promised: Container[str]
    attempts: Mapping[str, Attempt]


class Accounts(Protocol):
    """The part of the figures that decisions use, and that follows them."""

    def decided(self, role: str, decisions: Decisions, attempts: Mapping[str, Attempt]) -> None:
        """Takes over the latest decisions about a role. `attempts`: the latest attempts to make room, by
        application."""

    def has_capability(self, demand: Demand[Slot], planned: Iterable[Demand[Slot]]) -> bool:
        """True if the queue of a demand stays within its capability with one more taskgroup of the demand. `planned`:
        the demand of each placement that is not launched."""

    def standing(self, demand: Demand[Slot], planned: Iterable[Demand[Slot]], priority: int) -> Standing:
        """The standing of one more taskgroup of a demand."""

    def holds_back(self, demand: Demand[Slot]) -> bool:
        """True if the latest session of its role has found the queue of a demand at a limit, or at its share."""


class QueueAccounts:
    """Belongs to the thread that owns the state; any thread may call `figures`."""

    def __init__(self, state: StateReader, engine: Demands, options: CoreOptions) -> None:
        self._state = state
        self._options = options
        self._engine = engine
        self.trees: dict[str, Trees] = {}
        """The trees of hierarchical queues by the name of the partition; empty with other policies."""
        self._outcomes: dict[str, _Outcome] = {}
        """Outcomes of the latest sessions, by role."""

    def decided(self, role: str, decisions: Decisions, attempts: Mapping[str, Attempt]) -> None:
        """See `Accounts`."""
        deserved = {queue: by_resource(shares) for queue, shares in decisions.shares.items()}
        held_back = {application: held.code for application, held in decisions.held_back.items()}
        self._outcomes[role] = _Outcome(deserved, held_back, {job for job, _ in decisions.promises}, attempts)

    def figures(self) -> list[QueueFigures]:
        """All queues, by name."""
        state, known = self._state, dict(self._state.queues.items())
        used: dict[str, dict[str, Counter[str]]] = {}
        for (namespace, role), amounts in state.held().items():
            if not self._shares(role):
                continue
            used.setdefault(queue_of(state, namespace), {}).setdefault(role, Counter()).update(by_resource(amounts))
        waiting = self._waiting(self._shares)
        figures = []
        for name in sorted({DEFAULT_QUEUE, *known}):
            by_role = used.get(name, {})
            groups = sum(amounts.pop(TASKGROUPS, 0) for amounts in by_role.values())
            deserved = {
                role: shares for role, outcome in list(self._outcomes.items()) if (shares := outcome.deserved.get(name))
            }
            queue = known.get(name) or Queue(name=name)
            figures.append(QueueFigures(queue, groups, by_role, deserved, waiting.get(name, {})))
        return figures

    def has_capability(self, demand: Demand[Slot], planned: Iterable[Demand[Slot]]) -> bool:
        """See `Accounts`. Costs with the number of namespaces."""
        queue = self._state.queues.get(queue_of(self._state, namespace_of(demand.application)))
        if queue is None or not (limits := queue.limits):
            return True
        used = self._used_with(demand, planned)
        return all(used[resource] <= most for resource, most in limits.items())

    def standing(self, demand: Demand[Slot], planned: Iterable[Demand[Slot]], priority: int) -> Standing:
        """See `Accounts`. A queue to which the latest session gave no deserved share is entitled."""
        name, needed = queue_of(self._state, namespace_of(demand.application)), _requested(demand)
        queue, outcome = self._state.queues.get(name), self._outcomes.get(demand.role)
        least = queue.guaranteed if queue is not None else {}
        deserved = outcome.deserved.get(name, {}) if outcome is not None else {}
        used = self._used_with(demand, planned)
        is_entitled = all(used[line] <= deserved.get(line, used[line]) for line, amount in needed.items() if amount)
        used.subtract(needed)
        return Standing(name, priority, is_owed(needed, least, used), is_entitled)

    def _used_with(self, demand: Demand[Slot], planned: Iterable[Demand[Slot]]) -> Counter[str]:
        """The amounts of the queue of a demand in its role, with one more taskgroup of the demand."""
        state, name = self._state, queue_of(self._state, namespace_of(demand.application))
        used = Counter(_requested(demand))
        for other in planned:
            if other.role == demand.role and queue_of(state, namespace_of(other.application)) == name:
                used.update(_requested(other))
        for (namespace, role), amounts in state.held().items():
            if role == demand.role and queue_of(state, namespace) == name:
                used.update(by_resource(amounts))
        return used

    def holds_back(self, demand: Demand[Slot]) -> bool:
        """See `Accounts`."""
        outcome = self._outcomes.get(demand.role)
        return outcome is not None and demand.application in outcome.held_back

    def partitions(self) -> list[DecidedBy]:
        """The partitions of roles with their policies, in the order of the settings, at least one."""
        return [part.decides for part in self._options.parts()]

    def tree(self, partition: str) -> TreeFigures | None:
        """The tree of queues of a partition with all its queues; None if the partition has no tree."""
        trees = self.trees.get(partition)
        if trees is None:
            return None
        parts = self._options.partitions if len(self._options.partitions) > 1 else ()
        named = tuple(part.decides for part in parts)
        figures = queue_figures(trees.roles, self._waiting(trees.covers))
        return TreeFigures(partition, trees.document, present_tree(self._state, partition), figures, named)

    def _shares(self, role: str) -> bool:
        """True if the taskgroups of a role count for the queues of sessions."""
        options = self._options
        return len(options.parts()) == 1 or options.part_of(role).kind == "session"

    def queue_of(self, role: str, application: str) -> str:
        """The queue of an application: its full name with hierarchical queues, where root stands for no queue."""
        trees = self._trees_of(role)
        if trees is None:
            return queue_of(self._state, namespace_of(application))
        tree_of = trees.roles.get(role)
        known = tree_of.tree.applications.get(application) if tree_of is not None else None
        return known.queue if known is not None else ROOT

    def too_small(self, role: str, needed: Mapping[str, Vector]) -> str | None:
        """The full name of the first queue whose maximum is below the amounts that are needed at the same time; None if
        there is none, and without trees. `needed`: thousandths by application, for its queue and the queues above. An
        application that no queue takes counts nowhere."""
        trees = self._trees_of(role)
        return trees.too_small(role, needed) if trees is not None else None

    def _trees_of(self, role: str) -> Trees | None:
        return next((tree for tree in self.trees.values() if tree.covers(role)), None)

    def _waiting(self, covers: Callable[[str], bool]) -> dict[str, Counter[Waiting]]:
        """Taskgroups of the covered roles that wait, by queue and reason."""
        engine = self._engine
        demands = (engine.demands.get(identity) for identity in list(engine.gangs))
        gangs = {(demand.role, demand.application) for demand in demands if demand is not None}
        waiting: dict[str, Counter[Waiting]] = {}
        for (role, application), number in list(engine.wanted.items()):
            if not covers(role):
                continue
            counts = waiting.setdefault(self.queue_of(role, application), Counter())
            counts[self._reason(role, application, (role, application) in gangs)] += number
        return waiting

    def _reason(self, role: str, application: str, gang: bool) -> Waiting:
        outcome = self._outcomes.get(role)
        held_back = outcome.held_back.get(application) if outcome is not None else None
        if held_back is not None:
            return AT_QUEUE[held_back]
        attempt = outcome.attempts.get(application) if outcome is not None else None
        if outcome is not None and (application in outcome.promised or (attempt is not None and attempt.agent)):
            return "room_promised"
        if attempt is not None and attempt.cause is not None:
            return label(attempt.cause)
        if self._is_reserved(application):
            return label(Obstacle.RESERVED)
        return "gang" if gang else "no_room"

    def _is_reserved(self, application: str) -> bool:
        """True if only room that is kept for others is missing for an operation on an application."""
        diagnoses = (self._engine.diagnoses.get(identity) for identity in list(self._state.active_of(application)))
        return any(
            PROMISED in diagnosis.reasons
            and diagnosis.attempt is not None
            and any(met.code is Obstacle.RESERVED for met in diagnosis.attempt.met)
            for diagnosis in diagnoses
            if diagnosis is not None
        )


def _requested(demand: Demand[Slot]) -> dict[str, int]:
    """The amounts of one taskgroup of a demand by resource, in thousandths; the number of ports is among them."""
    return {**dict(demand.request.extended), **requested(demand.request)}
