"""Applications with their pending asks, and classes of requests that succeed and fail together.

Asks of one application that are alike form a group. Groups of one leaf that are refused for the same reasons form a
class: if the first group of a class cannot be placed, no other group of the class can. A leaf therefore orders classes,
each by its first group, and a class is set aside, and returns, in one step.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

from offers.dimensions import Amounts
from offers.policy.hierarchy.state.model import Allocation, Ask
from offers.policy.hierarchy.state.ordered import Greatest, Ordered
from offers.policy.hierarchy.state.waiting import Waiting

if TYPE_CHECKING:
    from offers.policy.hierarchy.state.limits import Tracker
    from offers.policy.hierarchy.state.queue import Queue


class Alike(NamedTuple):
    """The properties that asks of a group have in common. `promised`: the node that holds room for the one ask of the
    group; empty if none does."""

    priority: int
    request: Amounts
    required_node: str
    constraint: Hashable
    may_preempt: bool
    promised: str = ""
    replaces: bool = False
    moves: bool = False


class Alternative(NamedTuple):
    """The properties that groups of a class have in common. `owner`: the user and the groups of the user; empty if no
    limit of users or groups concerns the class."""

    request: Amounts
    required_node: str
    constraint: Hashable
    promised: str
    moves: bool
    started: bool
    owner: tuple[str, ...]


Kind = tuple[Alternative, int, str]
"""Asks of one leaf whose tries to preempt have the same result: their properties, without a promise; their priority;
the application if it is a gang that needs several places at the same time, or empty."""


class Group:
    """Pending asks of one application that are alike, oldest first."""

    __slots__ = ("alike", "application", "asks", "key", "request_class")

    def __init__(self, application: Application, alike: Alike) -> None:
        self.application, self.alike = application, alike
        self.asks: list[tuple[float, str, Ask]] = []
        self.request_class: RequestClass | None = None
        """The class; None while the group is empty."""
        self.key: tuple[Any, ...] | None = None
        """The key among the groups of the class; None while the group is empty."""

    def place(self, request_class: RequestClass | None) -> None:
        """Moves the group to a class and renews its key; None takes it out. The caller places both classes in their
        leaf again."""
        key = None
        if request_class is not None:
            created, name, _ = self.asks[0]
            key = (self.application.key, -self.alike.priority, not self.alike.replaces, created, name)
        if request_class is not self.request_class:
            if self.request_class is not None:
                self.request_class.members.place(self.key, None, self)
            self.key, self.request_class = None, request_class
        if request_class is not None:
            request_class.members.place(self.key, key, self)
        self.key = key


class RequestClass:
    """Groups of one leaf that are refused together."""

    __slots__ = ("alternative", "key", "leaf", "members", "request", "waits")

    def __init__(self, leaf: Queue, alternative: Alternative) -> None:
        self.leaf, self.alternative, self.request = leaf, alternative, alternative.request
        self.members: Ordered[Group] = Ordered()
        self.waits: Waiting[RequestClass] | None = None
        """The requests among which the class waits; None if the class may be tried."""
        self.key: tuple[Any, ...] | None = None
        """The key among the classes of the leaf that may be tried; None if it is not there."""


class Application:
    """An application in a leaf. `submitted` is seconds of one clock."""

    def __init__(self, name: str, queue: str, submitted: float, user: str = "", groups: tuple[str, ...] = ()) -> None:
        """`groups`: the groups of the user."""
        self.name, self.queue, self.submitted, self.user, self.user_groups = name, queue, submitted, user, groups
        self.groups: dict[Alike, Group] = {}
        self.priorities = Greatest()
        self.oldest: float | None = None
        """The creation of the oldest ask ever; None before the first one."""
        self.allocated: dict[str, int] = {}
        self.allocations: dict[str, Allocation] = {}
        self.leaving = 0
        """The number of allocations that are being preempted."""
        self.least = 0
        """The number of allocations without which the gang does not work; below 2: the application is no gang."""
        self.asks: dict[str, Group] = {}
        """The group of each pending ask."""
        self.key: tuple[Any, ...] = ()
        """The key among the applications of the leaf."""
        self.counts_as_started = False
        """True if the groups are in classes of applications that have allocations."""
        self.reserved_at: dict[str, float] = {}
        """The moment from which the promise of a node to a pending ask is counted, seconds; only of asks with one."""
        self.reserves: set[str] = set()
        """The pending asks that hold a node without having preempted; they may still preempt."""
        self.paused_until: dict[Amounts, float] = {}
        """Requests whose asks reserve no node for a time, because a promise was not kept; seconds."""
        self.trackers: tuple[Tracker, ...] = ()
        """The limits of users and groups that hold for the application."""
        self.preempted_at: dict[str, float] = {}
        """The moment of the last try to preempt for each pending ask, or of the end of the pause after a promise that
        was not kept; seconds."""

    @property
    def since(self) -> float:
        """The moment of submission: the earlier of the own creation and the creation of the oldest ask; seconds."""
        return self.submitted if self.oldest is None else min(self.submitted, self.oldest)

    @property
    def spare(self) -> int | None:
        """The number of allocations that a gang has beyond its minimum, below 0 if it has less; None for others."""
        return len(self.allocations) - self.leaving - self.least if self.least > 1 else None

    def pause(self, request: Amounts, now: float, seconds: float) -> None:
        """Asks with this request reserve no node for a time. `now` is seconds of the clock of the asks."""
        self.paused_until = {key: until for key, until in self.paused_until.items() if until > now}
        self.paused_until[request] = now + seconds

    def pauses(self, request: Amounts, now: float) -> bool:
        """True if asks with this request may reserve no node at `now` (seconds of the clock of the asks)."""
        return now < self.paused_until.get(request, now)

    def add(self, ask: Ask, promised: str = "") -> Group:
        """Adds a pending ask, and returns its group. `promised`: the node that holds room for it. The caller places the
        group in its class. Raises ValueError for a negative amount, a name with a slash or a name that is known."""
        if "/" in ask.name:
            raise ValueError(f"ask {ask.id}: the name has a slash")
        if ask.application != self.name:
            raise ValueError(f"ask {ask.id}: of another application than {self.name}")
        if any(amount < 0 for _, amount in ask.request):
            raise ValueError(f"ask {ask.id}: a negative amount")
        if ask.name in self.asks or ask.name in self.allocations:
            raise ValueError(f"ask {ask.id}: exists already")
        conditions = (ask.required_node, ask.constraint, ask.may_preempt)
        alike = Alike(ask.priority, ask.request, *conditions, promised, ask.replaces, ask.moves)
        group = self.groups.get(alike)
        if group is None:
            group = self.groups[alike] = Group(self, alike)
        insort(group.asks, (ask.created, ask.name, ask))
        self.asks[ask.name] = group
        self.priorities.add(ask.priority)
        self.oldest = ask.created if self.oldest is None else min(self.oldest, ask.created)
        return group

    def remove(self, group: Group, position: int = 0) -> Ask:
        """Removes an ask from a group, the oldest by default, and returns the ask. The caller places the group in its
        class again, or takes the group out if it is empty."""
        ask = group.asks.pop(position)[2]
        self.priorities.remove(ask.priority)
        del self.asks[ask.name]
        if not group.asks:
            del self.groups[group.alike]
        self.preempted_at.pop(ask.name, None)
        self.reserved_at.pop(ask.name, None)
        self.reserves.discard(ask.name)
        return ask


def alternative_of(group: Group) -> Alternative:
    """The properties of the class that a group belongs to."""
    alike, application = group.alike, group.application
    return Alternative(
        alike.request,
        alike.required_node,
        alike.constraint,
        alike.promised,
        alike.moves,
        bool(application.allocations),
        (application.user, *application.user_groups) if application.trackers else (),
    )
