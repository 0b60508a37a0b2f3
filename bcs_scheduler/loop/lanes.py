"""The order in which reports leave the inbox: namespaces take turns, and news come before repetitions.

Every event belongs to a queue: the queue of its taskgroup, or a queue of its own in the lane of the cluster (offers,
lists of agents). Queues wait in lanes, one for each namespace, oldest queue first. Lanes take turns, one event each. So
a status update of a small application is taken within one turn of all lanes, however many updates of others wait.

Three orders are kept. The events of each taskgroup stay in order. The events of the cluster's lane stay in order: an
offer before its rescission, the loss of an agent before the offers of its return. Events before and after a
subscription or its end are not mixed, because news from before say nothing about the time after the subscription.

A master answers RECONCILE with the latest state of every task. These answers wait apart, and get a quarter of the
places of a batch while there is news. An answer does not overtake news of its taskgroup, nor news the answer: with the
first news of a taskgroup, answers that wait in its queue leave as well.

Each step takes constant time, independent of the numbers of events and namespaces.
"""

from __future__ import annotations

import itertools
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable

from bcs_scheduler.core.interface import cluster_manager, inputs

ANSWERS_PART = 4
"""One of so many events taken is an answer to RECONCILE while news wait, too."""
BARRIERS = (cluster_manager.Connected, cluster_manager.Disconnected, cluster_manager.RegistrationRevoked)
_OF_TASKS = (cluster_manager.StatusUpdate, inputs.HealthReported)
_OF_EXECUTORS = (
    cluster_manager.TasksReported,
    cluster_manager.MessageAnswered,
    cluster_manager.OutputReported,
    cluster_manager.ExecutorTerminated,
)
SPARE = 1_000
"""Queues that have left and may be remembered in the order of arrivals, beyond as many as wait."""


def lane_of(event: inputs.Input) -> tuple[str, str]:
    """Namespace and taskgroup id, by the ids of the event; two empty strings for an event without a taskgroup."""
    if isinstance(event, _OF_TASKS):
        parts = event.task_id.split(".", 5)  # store.ids.TaskId; this is called for every event
        if len(parts) == 6:
            return parts[4], f"{parts[2]}.{parts[3]}.{parts[4]}.{parts[5]}.{parts[0]}"
    elif isinstance(event, _OF_EXECUTORS):
        parts = event.executor_id.split(".", 3)
        if len(parts) == 4:
            return parts[2], event.executor_id
    return "", ""


def is_answer(event: inputs.Input) -> bool:
    """The event is an answer to RECONCILE."""
    return isinstance(event, cluster_manager.StatusUpdate) and event.answer


class _Queue:
    """Events of one taskgroup, or one event of the cluster, oldest first. `since`: monotonic time of the arrival of the
    first news; 0.0 while there are only answers."""

    __slots__ = ("events", "since")

    def __init__(self, event: inputs.Input) -> None:
        self.events = [event]
        self.since = 0.0


class _Ring:
    """Lanes that take turns. No lane is empty."""

    def __init__(self) -> None:
        self.lanes: OrderedDict[str, OrderedDict[Hashable, _Queue]] = OrderedDict()

    def get(self, namespace: str, key: Hashable) -> _Queue | None:
        lane = self.lanes.get(namespace)
        return lane.get(key) if lane is not None else None

    def add(self, namespace: str, key: Hashable, queue: _Queue) -> None:
        lane = self.lanes.get(namespace)
        if lane is None:
            lane = self.lanes[namespace] = OrderedDict()
        lane[key] = queue

    def remove(self, namespace: str, key: Hashable) -> None:
        lane = self.lanes[namespace]
        del lane[key]
        if not lane:
            del self.lanes[namespace]

    def take(self) -> inputs.Input:
        """The next event of the lane whose turn it is; the next turn is that of another lane."""
        namespace, lane = next(iter(self.lanes.items()))
        key, queue = next(iter(lane.items()))
        event = queue.events.pop(0)
        if not queue.events:
            queue.since = 0.0
            del lane[key]
        if lane:
            self.lanes.move_to_end(namespace)
        else:
            del self.lanes[namespace]
        return event


class _Part:
    """The inputs that have arrived between two barriers."""

    def __init__(self) -> None:
        self.news, self.answers = _Ring(), _Ring()
        self.end: inputs.Input | None = None
        """The barrier behind it."""
        self.arrivals: deque[_Queue] = deque()
        """Queues with news by arrival; those that have left are among them."""


class Lanes:
    """The lanes of one inbox, by namespace. Not safe for threads: the inbox protects it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._parts: deque[_Part] = deque([_Part()])
        self._count = 0
        self._numbers = itertools.count()
        """Keys of queues in the lane of the cluster."""

    def __len__(self) -> int:
        return self._count

    @property
    def width(self) -> int:
        """Namespaces with news, the lane of the cluster included: so many events are one turn of all lanes."""
        return len(self._parts[0].news.lanes)

    def age(self) -> float:
        """Seconds for which the oldest news has been waiting; 0.0 if there is none. Answers do not count: no user
        waits for them."""
        arrivals = self._parts[0].arrivals
        while arrivals and not arrivals[0].since:
            arrivals.popleft()
        return self._clock() - arrivals[0].since if arrivals else 0.0

    def put(self, event: inputs.Input) -> None:
        self._count += 1
        part = self._parts[-1]
        if isinstance(event, BARRIERS):
            part.end = event
            self._parts.append(_Part())
            return
        namespace, taskgroup = lane_of(event)
        key: Hashable = taskgroup or next(self._numbers)
        queue = part.news.get(namespace, key)
        if queue is not None:
            queue.events.append(event)
            return
        waiting = part.answers.get(namespace, key)
        if waiting is not None:
            waiting.events.append(event)
        if not taskgroup or not is_answer(event):
            if waiting is not None:
                part.answers.remove(namespace, key)
            self._add_news(part, namespace, key, waiting or _Queue(event))
        elif waiting is None:
            part.answers.add(namespace, key, _Queue(event))

    def _add_news(self, part: _Part, namespace: str, key: Hashable, queue: _Queue) -> None:
        queue.since = self._clock()
        part.news.add(namespace, key, queue)
        if len(part.arrivals) > 2 * self._count + SPARE:
            part.arrivals = deque(waiting for waiting in part.arrivals if waiting.since)
        part.arrivals.append(queue)

    def take(self, most: int) -> list[inputs.Input]:
        """Up to so many events. Events on the two sides of a barrier are never taken together."""
        part = self._parts[0]
        if part.end is not None and not part.news.lanes and not part.answers.lanes:
            if most <= 0:
                return []
            self._parts.popleft()
            self._count -= 1
            return [part.end]
        taken: list[inputs.Input] = []
        kept = -(-most // ANSWERS_PART) if most > 1 else 0
        for ring, room in ((part.news, most - kept), (part.answers, most), (part.news, most)):
            while len(taken) < room and ring.lanes:
                taken.append(ring.take())
        self._count -= len(taken)
        return taken

    def clear(self) -> None:
        self._parts = deque([_Part()])
        self._count = 0
