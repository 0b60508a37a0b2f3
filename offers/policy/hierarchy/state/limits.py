"""Limits of users and groups: the usage of one of them below a queue, and its bounds.

A limit of a queue holds for each user that it names, and for each of the others if it names `*`, unless another limit
of the queue names them. It holds for all users of a group together; a user counts for the first group, in the order of
the limits, that one of them names, and for `*` if none does. Limits of all queues on the path hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from offers.dimensions import Amounts
from offers.policy.hierarchy.configuration.partition import EVERYBODY, Limit
from offers.policy.hierarchy.state.application import Application, RequestClass
from offers.policy.hierarchy.state.queue import Queue
from offers.policy.hierarchy.state.waiting import Waiting


class Tracker:
    """The usage of a user, or of a group, below a queue. Amounts by resource."""

    __slots__ = ("allocated", "limit", "name", "queue", "running", "waiting", "waiting_new")

    def __init__(self, queue: str, name: str, limit: Limit) -> None:
        """`name`: "user" or "group", a blank and the name, as explanations show it."""
        self.queue, self.name, self.limit = queue, name, limit
        self.allocated: dict[str, int] = {}
        self.running = 0
        """The number of applications that have started."""
        self.waiting: Waiting[RequestClass] = Waiting(missing_is_unlimited=True)
        self.waiting_new: Waiting[RequestClass] = Waiting(missing_is_unlimited=True)
        """Requests of applications that may not start."""

    def refuses(self, request: Amounts, started: bool) -> Waiting[RequestClass] | None:
        """The requests among which a request must wait; None if the limit admits it."""
        if not started and self.limit.max_applications is not None and self.running >= self.limit.max_applications:
            return self.waiting_new
        most, used = self.limit.max_resources, self.allocated
        if any(amount > 0 and name in most and used.get(name, 0) + amount > most[name] for name, amount in request):
            return self.waiting
        return None

    def headroom(self) -> dict[str, int]:
        """The amounts that the limit leaves, of the resources that it names."""
        return {name: most - self.allocated.get(name, 0) for name, most in self.limit.max_resources.items()}

    def use(self, request: Amounts, sign: int) -> None:
        """Counts an allocation (`sign` 1) or one that has ended (-1)."""
        for name, amount in request:
            self.allocated[name] = self.allocated.get(name, 0) + sign * amount

    def woken(self) -> Iterator[RequestClass]:
        """The requests that may be tried after room was given back or an application has ended."""
        if len(self.waiting):
            yield from self.waiting.fitting(self.headroom())
        most = self.limit.max_applications
        if most is not None and self.running < most:
            yield from list(self.waiting_new)


class Trackers:
    """All trackers of a tree, by queue and name."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], Tracker] = {}

    def of(self, leaf: Queue, application: Application) -> tuple[Tracker, ...]:
        """The trackers of the limits that hold for an application in a leaf."""
        trackers = []
        for queue in leaf.path:
            limits = queue.config.limits
            user = _first(limits, lambda limit: limit.users, [application.user])
            if user is not None:
                trackers.append(self._tracker(queue.name, f"user {application.user}", user[1]))
            group = _first(limits, lambda limit: limit.groups, application.user_groups)
            if group is not None:
                trackers.append(self._tracker(queue.name, f"group {group[0]}", group[1]))
        return tuple(trackers)

    def _tracker(self, queue: str, name: str, limit: Limit) -> Tracker:
        tracker = self.known.get((queue, name))
        if tracker is None:
            tracker = self.known[queue, name] = Tracker(queue, name, limit)
        return tracker


def _first(
    limits: Iterable[Limit], names: Callable[[Limit], tuple[str, ...]], own: Iterable[str]
) -> tuple[str, Limit] | None:
    """The first limit that names one of `own`, with that name, else the one that names everybody; None without one."""
    own = list(own)
    for limit in limits:
        for name in own:
            if name in names(limit):
                return name, limit
    return next(((EVERYBODY, limit) for limit in limits if EVERYBODY in names(limit)), None)
