"""One queue: its figures, the room below its maximum, and the order of its members."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from offers.dimensions import Amounts
from offers.policy.amounts import ExactRatios, Vector, descending_shares, positive
from offers.policy.hierarchy.configuration.partition import Fencing, GangPreemption, QueueConfig, SortPolicy
from offers.policy.hierarchy.state.application import Alternative, Application, Kind, RequestClass
from offers.policy.hierarchy.state.model import Allocation
from offers.policy.hierarchy.state.ordered import Greatest, Ordered
from offers.policy.hierarchy.state.waiting import Waiting
from offers.policy.obstacles import Attempt

if TYPE_CHECKING:
    from offers.policy.hierarchy.preemption.preemption import Fruitless

RATIOS = ExactRatios([(1 << 63) - 1])
LAST = "\U0010ffff"
"""Greater than every name of a resource."""


class QueueState(StrEnum):
    """Active takes applications; Draining only schedules its present applications; Stopped schedules nothing."""

    ACTIVE = "Active"
    STOPPED = "Stopped"
    DRAINING = "Draining"


class Queue:
    """A queue. Amounts are integers by resource. Root has no maximum: nodes bound their own use. `fair_max` is the
    total of the cluster, overridden resource by resource by each maximum on the path."""

    def __init__(self, config: QueueConfig, parent: Queue | None, total: Vector) -> None:
        """`total`: the resources of the cluster. `parent`: None for root."""
        self.config, self.parent = config, parent
        self.name: str = config.name if parent is None else f"{parent.name}.{config.name}"
        self.guaranteed = config.guaranteed
        self.max: Vector = config.max
        self.fair_max: Vector = config.max
        self.resize(total)
        self.path: tuple[Queue, ...] = (self, *(parent.path if parent else ()))
        """The queue itself, its parent, and so on up to root."""
        self.state = QueueState.ACTIVE
        self.is_temporary = False
        """True if the queue was created by a placement rule, or is no longer configured: it is removed when empty."""
        self.children: dict[str, Queue] = {}
        self.applications: dict[str, Application] = {}
        self.ready_children: Ordered[Queue] = Ordered()
        self.classes: dict[Alternative, RequestClass] = {}
        self.ready_started: Ordered[RequestClass] = Ordered()
        """The classes of this leaf that may be tried, of applications that have allocations."""
        self.ready_new: Ordered[RequestClass] = Ordered()
        """The classes of this leaf that may be tried, of applications that have none."""
        self.ready_first: Ordered[RequestClass] = Ordered()
        """The classes of all leaves that are tried before others, and may be tried: a node holds room for them, or they
        have left another node. Only root has some."""
        self.allocated: dict[str, int] = {}
        self.pending: dict[str, int] = {}
        self.running = 0
        """The number of applications below that have started."""
        self.priorities = Greatest()
        self.shown: int | None = None
        """The priority that the parent sees; None while nothing is pending."""
        self.key: tuple[Any, ...] | None = None
        """The key among the children of the parent; None if there is nothing to try."""
        self.leaving: dict[str, int] = {}
        """The amounts of allocations below that are being preempted."""
        self.promised: dict[str, int] = {}
        """The amounts of asks below that wait for victims to leave the node that was promised to them."""
        self.above_since: float | None = None
        """The moment at which quota preemption found the usage above the maximum, seconds; None if it is not above."""
        self.places: dict[str, int] = {}
        """The number of allocations of this leaf by the name of the node."""
        self.requests: dict[Amounts, int] = {}
        """The number of allocations of this leaf by request."""
        self.tried: dict[Kind, Attempt] = {}
        """The latest tries to preempt of asks of this leaf, by kind."""
        self.passed: set[RequestClass] = set()
        """The classes of this leaf that have used up the tries of the latest round; others come first in the next."""
        self.fruitless: dict[Kind, Fruitless] = {}
        """The tries in vain of asks of this leaf that are remembered, by kind."""
        self.changes = 0
        """Changes with every change of usage, of promises and of leaving allocations below, and of applications."""
        self.lowest = Greatest()
        """The priorities of the allocations of this leaf, negated."""
        self.waiting: Waiting[RequestClass] = Waiting(missing_is_unlimited=True)
        """The requests that wait for room below the maximum of this queue."""
        self.waiting_new: Waiting[RequestClass] = Waiting(missing_is_unlimited=True)
        """The promised requests of applications that may not start in this queue."""

    @property
    def is_leaf(self) -> bool:
        """True if the queue has applications and not children."""
        return not self.config.is_parent

    @property
    def gang_preemption(self) -> GangPreemption:
        """The setting of the nearest queue, this one first, that has one."""
        settings = (queue.config.properties.gang_preemption for queue in self.path)
        return next((setting for setting in settings if setting is not None), GangPreemption.KEEP)

    def resize(self, total: Vector) -> None:
        """Renews the maxima that depend on the resources of the cluster; the parent is renewed before."""
        if self.parent is None:
            self.fair_max = total
        else:
            self.fair_max = {**self.parent.fair_max, **self.max}

    def exceeded(self, request: Amounts) -> bool:
        """True if the usage with a request would exceed the maximum of this queue."""
        most, used = self.max, self.allocated
        for name, amount in request:  # noqa: SIM110  # half the time of any()
            if amount > 0 and name in most and used.get(name, 0) + amount > most[name]:
                return True
        return False

    def exceeded_beside_promises(self, request: Amounts, own: Mapping[str, int] = MappingProxyType({})) -> bool:
        """The same, also once victims have left and the asks that wait for this have their room: others end for these,
        also where the maximum was the bottleneck. `own`: the amounts of promises to the asks of the request."""
        most = self.max
        return self.exceeded(request) or any(
            amount > 0 and name in most and self.expected(name) - own.get(name, 0) + amount > most[name]
            for name, amount in (request if self.promised else ())
        )

    def expected(self, name: str) -> int:
        """The usage of a resource once all victims have left and all promises are kept."""
        return self.allocated.get(name, 0) - self.leaving.get(name, 0) + self.promised.get(name, 0)

    def stays_within_guarantee(self, request: Amounts) -> bool:
        """True if the expected usage with a request exceeds the guarantee of this queue in no resource."""
        least = self.guaranteed
        return all(
            self.expected(name) + amount <= least[name] for name, amount in request if amount > 0 and name in least
        )

    def excess(self, request: Amounts) -> dict[str, int]:
        """The amounts by which the expected usage with a request exceeds the maximum of this queue, all above 0."""
        most = self.max
        over = {name: self.expected(name) + amount - most[name] for name, amount in request if amount and name in most}
        return {name: amount for name, amount in over.items() if amount > 0}

    def note(self, allocation: Allocation, change: int) -> None:
        """Counts an allocation of this leaf (`change` 1), or one that has ended (-1), where victims are searched."""
        negated = -allocation.ask.priority
        if change > 0:
            self.lowest.add(negated)
        else:
            self.lowest.remove(negated)
        node, request = allocation.node, allocation.ask.request
        self.places[node] = self.places.get(node, 0) + change
        if not self.places[node]:
            del self.places[node]
        self.requests[request] = self.requests.get(request, 0) + change
        if not self.requests[request]:
            del self.requests[request]

    @property
    def size(self) -> int:
        """The number of allocations of this leaf."""
        return sum(self.requests.values())

    def least_priority(self) -> int:
        """The lowest priority of the allocations of this leaf. Raises ValueError if there are none."""
        negated = self.lowest.greatest()
        if negated is None:
            raise ValueError(f"{self.name}: no allocations")
        return -negated

    def headroom(self) -> dict[str, int]:
        """The amounts that the maximum of this queue leaves, of the resources that it names."""
        return {name: most - self.allocated.get(name, 0) for name, most in self.max.items()}

    @property
    def is_stopped(self) -> bool:
        """True if this queue or one above is stopped: nothing is placed."""
        return any(queue.state is QueueState.STOPPED for queue in self.path)

    def leaves(self) -> Iterator[Queue]:
        """The leaves below this queue, or the queue itself if it is a leaf."""
        if self.is_leaf:
            yield self
        for child in self.children.values():
            yield from child.leaves()

    def fair_share(self) -> int:
        """The greatest share of the resources in use, as a key of `RATIOS`: usage against the guarantee, or against
        `fair_max` without one."""
        greatest = 0
        for name, used in self.allocated.items():
            whole = self.guaranteed[name] if name in self.guaranteed else self.fair_max.get(name, 0)
            greatest = max(greatest, RATIOS.key(used, whole))
        return greatest

    # --- keys -------------------------------------------------------------------------------------------------

    @property
    def takes_new(self) -> bool:
        """False if a limit on the path keeps applications of this queue from starting."""
        return all(
            queue.config.max_applications is None or queue.running < queue.config.max_applications
            for queue in self.path
        )

    def first_class(self) -> RequestClass | None:
        """The class of this leaf that is tried next; None if there is none."""
        started = self.ready_started.first()
        new = self.ready_new.first()
        if new is not None and not self.takes_new:
            new = None
        if started is None or new is None:
            return started or new
        return started if started.key < new.key else new  # type: ignore[operator]  # neither is None in an order

    def key_of(self, application: Application) -> tuple[Any, ...]:
        """The key of an application among those of this leaf."""
        properties = self.config.properties
        priority = -(application.priorities.greatest() or 0)
        order: Any = application.since
        if properties.sort_policy is SortPolicy.FAIR:
            used = positive(application.allocated)
            order = tuple(descending_shares(used, {**self.fair_max, **self.guaranteed}))
        first = (priority, order) if properties.sort_priority else (order, priority)
        return (*first, application.since, application.name)

    def class_of(self, alternative: Alternative) -> RequestClass:
        """The class with the given properties; it is made if it does not exist."""
        request_class = self.classes.get(alternative)
        if request_class is None:
            request_class = self.classes[alternative] = RequestClass(self, alternative)
        return request_class

    def place_class(self, request_class: RequestClass) -> None:
        """Renews the key of a class among those that may be tried, and forgets an empty class."""
        first = request_class.members.first()
        key = first.key if first is not None and request_class.waits is None else None
        alternative = request_class.alternative
        if alternative.promised or alternative.moves:
            may_be_tried = key is not None and (alternative.promised or not self.is_stopped)
            key = (not alternative.promised, self.name, *key) if key is not None and may_be_tried else None
            self.path[-1].ready_first.place(request_class.key, key, request_class)
        else:
            (self.ready_started if alternative.started else self.ready_new).place(request_class.key, key, request_class)
        request_class.key = key
        if first is None:
            if request_class.waits is not None:
                request_class.waits.remove(request_class)
                request_class.waits = None
            self.classes.pop(alternative, None)

    def place_path(self) -> None:
        """Renews the priorities and keys of this queue and its ancestors."""
        for queue in self.path:
            shown = queue._priority()
            parent = queue.parent
            if parent is None:
                queue.shown = shown
                return
            if shown != queue.shown:
                if queue.shown is not None:
                    parent.priorities.remove(queue.shown)
                if shown is not None:
                    parent.priorities.add(shown)
                queue.shown = shown
            key = queue._key()
            parent.ready_children.place(queue.key, key, queue)
            queue.key = key

    def place_keys(self) -> None:
        """Like `place_path`, after a change of usage that leaves all priorities as they are."""
        for queue in self.path:
            if queue.parent is None:
                return
            key = queue._key()
            queue.parent.ready_children.place(queue.key, key, queue)
            queue.key = key

    def _priority(self) -> int | None:
        highest = self.priorities.greatest()
        if highest is None:
            return None
        properties = self.config.properties
        fenced = properties.priority_policy is Fencing.FENCE
        return properties.priority_offset + (0 if fenced else highest)

    def _key(self) -> tuple[Any, ...] | None:
        if self.state is QueueState.STOPPED or self.shown is None or self.parent is None:
            return None
        if not (len(self.ready_children) or len(self.ready_started) or (len(self.ready_new) and self.takes_new)):
            return None
        pending = [(name, -amount) for name, amount in sorted(self.pending.items()) if amount]
        by_priority = self.parent.config.properties.sort_priority
        return (-self.shown if by_priority else 0, self.fair_share(), (*pending, (LAST, 0)), self.name)


def goal_of(leaf: Queue, dimensions: Collection[str]) -> Queue | None:
    """The nearest queue, the leaf first, with a guarantee for one of the resources wanted; None if there is none."""
    return next((queue for queue in leaf.path if not queue.guaranteed.keys().isdisjoint(dimensions)), None)


def is_owed(leaf: Queue, request: Amounts) -> bool:
    """True if the nearest queue with a guarantee for one of the resources of a request stays within the guarantee with
    the request; False without such a queue."""
    goal = goal_of(leaf, [name for name, amount in request if amount > 0])
    return goal is not None and goal.stays_within_guarantee(request)
