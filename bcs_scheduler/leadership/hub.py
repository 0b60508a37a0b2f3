"""The hub gives durable changes to all watchers (long polls, server-sent events).

There is one hub per term. `publish` is called by the pipeline's thread and only puts references into a list; the
watchers live in event loops, where one callback per batch hands the items out. A watcher has a bounded queue of its
own. Of a record only the last state waits there, so a watcher of records that is slow sees fewer states, not old ones;
events are all kept. A watcher whose queue is full is ended with a message; the client resumes at its last position,
because events have numbers and records can be read again. Items are shared, and their encoding for the wire is made
once (`Item.encoded`). Watchers with the same filter are one group: an item is checked once per group, independent of
the number of watchers.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

from bcs_scheduler.leadership.items import TOUCHED, HubClosed, HubFull, Item, Match, WatchEnded, Why
from bcs_scheduler.leadership.touches import Touch, Touches
from offers.agents import ListedAgent
from store.base import Change
from store.state import State

log = structlog.get_logger(__name__)

WATCHERS = 1_000
"""Watchers there may be at a time, if nothing else is set."""
QUEUE = 4_000
"""Items that may wait for one watcher: a burst such as a thousand launches fits."""
BEHIND = 100_000
"""Items that may wait for an event loop before all its watchers are ended."""
LINGER = 60.0
"""Seconds after the end of the last watcher of touches for which changes are still examined: a page that connects again
within this time resumes."""
SLICE = 20_000
"""Handings-out (items x watchers) in one go; then the loop gets its turn."""


class Watch:
    """The items for one watcher. Made by `Hub.watch`; belongs to the event loop in which it was made. The watcher must
    close it."""

    def __init__(
        self,
        room: _Room,
        kind: str,
        key: str | None,
        match: Match | None,
        after: int,
        most: int,
        holders: Sequence[str],
    ) -> None:
        self.holders = holders
        self.kind, self.key, self.match = kind, key, match
        self.after = after
        """Events up to this number are not given: the watcher has read them from the event log."""
        self._room, self._most = room, most
        self._queue: dict[object, Item] = {}
        self._waiter: asyncio.Future[None] | None = None
        self._ended: WatchEnded | None = None

    @property
    def beside(self) -> int:
        """Watchers in the same event loop, this one among them."""
        return self._room.size

    @property
    def position(self) -> int:
        """Number up to which every event it wants has been given to it or waits in its queue."""
        return max(self.after, self._room.handed)

    async def take(self, timeout: float) -> list[Item]:
        """Returns the items since the last call, in order of the last change. Waits up to `timeout` seconds for the
        first one, then returns an empty list. Raises WatchEnded when the watch has ended."""
        if not self._queue and self._ended is None and timeout > 0:
            loop = self._room.loop
            self._waiter = waiter = loop.create_future()
            timer = loop.call_later(timeout, self._wake)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiter = None
        if not self._queue and self._ended is not None:
            raise self._ended
        items = list(self._queue.values())
        self._queue.clear()
        return items

    async def rest(self, rhythm: float) -> None:
        """Waits until the next common time of all resting watchers of this event loop. The loop wakes once for all of
        them; while all watchers rest, new items do not wake it. `rhythm`: seconds between two such times."""
        if self._ended is None:
            await self._room.beat(self, rhythm)

    def end(self, why: Why, message: str) -> None:
        """Ends the watch, in its event loop: waiting items are still given, then `take` raises. A watcher that is too
        slow gets no more items."""
        if self._ended is None:
            self._ended = WatchEnded(why, message)
            if why == "slow":
                self._queue.clear()
            self._room.remove(self)
            self._wake()

    def close(self) -> None:
        """The watcher has gone. May be called more than once."""
        self.end("timeout", "closed")

    def offer(self, item: Item) -> None:
        """Called by the hub in the event loop, with the items that match."""
        if item.number:
            if item.number <= self.after:
                return
            name: object = item.number
        else:
            name = (item.kind, item.key)
        if self._ended is not None:
            return
        self._queue.pop(name, None)
        self._queue[name] = item
        if len(self._queue) > self._most:
            self._room.hub.dropped += 1
            self.end("slow", f"more than {self._most} changes were waiting for this watcher; connect again and resume")
        else:
            self._wake()

    def _wake(self) -> None:
        _finish(self._waiter)


class Hub:
    """Hands out durable changes. `latest` is the number of the newest durable event: the state, which is ahead
    of the store, may hold events that no reader must see yet, since a failover would give their numbers to others."""

    def __init__(
        self,
        latest: int = 0,
        most: int = WATCHERS,
        state: State | None = None,
        touches: Touches | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`most`: watchers there may be at a time. `state`: of the term, for matches that look at records; None = a hub
        without records. `touches`: of the term; None = new ones of the state. `clock`: seconds, never going back."""
        self.latest = latest
        self.most = most
        self.state = state if state is not None else State()
        self.touches = touches if touches is not None else Touches(self.state)
        self.dropped = 0
        """Watchers that were ended because they were too slow."""
        self._rooms: dict[asyncio.AbstractEventLoop, _Room] = {}
        self._lock = threading.Lock()
        """Guards the rooms, their `incoming` and `scheduled`, and `_closed`; held for a few list operations at most."""
        self._touching = threading.Lock()
        """Held from the examination of changes until their touches are published."""
        self._closed = ""
        self._clock = clock
        self._held: Counter[str] = Counter()
        """Watches by holder."""
        self._readers = 0
        """Watchers of touches."""
        self._read_until = -LINGER
        """Time of the clock at which the last watcher of touches ended."""

    @property
    def watchers(self) -> int:
        return sum(room.size for room in list(self._rooms.values()))

    def watch(
        self,
        kind: str,
        key: str | None = None,
        match: Match | None = None,
        after: int | None = None,
        queue: int = QUEUE,
        holders: Sequence[str] = (),
        each: int | None = None,
    ) -> Watch:
        """Follows a kind, or one record of it; must be called in an event loop. Changes that become durable from now on
        are given: read the state after this call, and no change is missed (something may come twice).

        `match` says which items are wanted; it runs for each item, once for all watchers with an equal one, and must be
        quick. `after`: number of the last event the watcher knows; None = the newest. `holders`: the address and the
        caller of the watch; `each`: watches that one holder may have, None = any number. Raises HubClosed, HubFull.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._closed:
                raise HubClosed(self._closed)
            if self.watchers >= self.most:
                raise HubFull(f"there are {self.most} watchers already")
            for holder in holders:
                if each is not None and self._held[holder] >= each:
                    raise HubFull(
                        f"{holder} has {each} watches and streams, which is the maximum for one address and one caller"
                    )
            room = self._rooms.get(loop)
            if room is None:
                room = self._rooms[loop] = _Room(self, loop)
            watch = Watch(room, kind, key, match, self.latest if after is None else after, queue, holders)
            room.add(watch)
            self._held.update(holders)
            self._readers += kind == TOUCHED
        return watch

    def left(self, watch: Watch) -> None:
        """Called by the room of a watcher that has ended."""
        with self._lock:
            for holder in watch.holders:
                self._held[holder] -= 1
                if not self._held[holder]:
                    del self._held[holder]
            if watch.kind == TOUCHED:
                self._readers -= 1
                self._read_until = self._clock()

    def publish(self, items: Sequence[Item]) -> None:
        """Any thread; never waits. Events must come in the order of their numbers."""
        for item in items:
            if item.number:
                self.latest = item.number
        with self._lock:
            if not self._closed:
                self._each_room(lambda room: room.take_in(items))

    def touch(self, changes: Iterable[Change]) -> None:
        """Tells the watchers of views which objects durable changes concern. Any thread; never waits. Without such
        watchers the changes are not examined: most clusters have no open console most of the time."""
        if self._readers or self._clock() - self._read_until < LINGER:
            self._touch(lambda: self.touches.note(changes))
        else:
            with self._touching:
                self.touches.skip(changes)

    def touch_agents(self, listed: Sequence[ListedAgent]) -> None:
        """The same for a new list of the agents."""
        self._touch(lambda: self.touches.note_agents(listed))

    def _touch(self, note: Callable[[], Sequence[Touch]]) -> None:
        """Touches are published in the order of their positions. After an error all watchers read again."""
        with self._touching:
            try:
                touches = note()
            except Exception as error:
                log.exception("ending watchers: changes could not be examined")
                self.touches.forget()
                words = f"changes could not be examined ({type(error).__name__}); read again"
                with self._lock:
                    self._each_room(lambda room: room.loop.call_soon_threadsafe(room.end_all, "failed", words))
                return
            if touches and self._rooms:
                self.publish([Item(TOUCHED, f"{touch.kind} {touch.name}", touch) for touch in touches])

    def close(self, reason: str) -> None:
        """Ends all watchers after the items that were published before. Any thread, more than once."""
        with self._lock:
            if self._closed:
                return
            self._closed = reason
            self._each_room(lambda room: room.loop.call_soon_threadsafe(room.end_all, "stepped_down", reason))

    def _each_room(self, act: Callable[[_Room], object]) -> None:
        for loop, room in list(self._rooms.items()):
            try:
                act(room)
            except RuntimeError:  # the event loop is closed, and its watchers are gone with it
                del self._rooms[loop]

    def take_from(self, room: _Room, most: int) -> list[Item]:
        """Items for a room to hand out, at most so many."""
        with self._lock:
            items = [room.incoming.popleft() for _ in range(min(most, len(room.incoming)))]
            room.scheduled = bool(room.incoming)
        return items


def _finish(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


_NOBODY: Mapping[Match | None, dict[Watch, None]] = {}


class _Room:
    """The watchers of one event loop. Everything but `take_in` runs in that loop."""

    def __init__(self, hub: Hub, loop: asyncio.AbstractEventLoop) -> None:
        self.hub, self.loop = hub, loop
        self.incoming: deque[Item] = deque()
        self.scheduled = False
        self.size = 0
        self.handed = 0
        """Number of the last event that was handed out."""
        self._resting: dict[Watch, asyncio.Future[None]] = {}
        self._awaited = False
        """A beat is due."""
        self._groups: dict[tuple[str, str | None], dict[Match | None, dict[Watch, None]]] = {}
        """Watchers by kind and key (None = all keys), and by their filter."""

    def add(self, watch: Watch) -> None:
        groups = self._groups.setdefault((watch.kind, watch.key), {})
        groups.setdefault(watch.match, {})[watch] = None
        self.size += 1

    def remove(self, watch: Watch) -> None:
        name = watch.kind, watch.key
        groups = self._groups.get(name, {})
        group = groups.get(watch.match, {})
        if watch in group:
            del group[watch]
            self.size -= 1
            self.hub.left(watch)
            _finish(self._resting.pop(watch, None))
            if not group:
                del groups[watch.match]
            if not groups:
                del self._groups[name]

    def beat(self, watch: Watch, rhythm: float) -> asyncio.Future[None]:
        """Returns the next beat, `rhythm` seconds after the last one; the first watcher that waits sets `rhythm`."""
        if not self._awaited:
            self._awaited = True
            self.loop.call_later(rhythm - self.loop.time() % rhythm, self._beat)
        waiter = self._resting[watch] = self.loop.create_future()
        return waiter

    def _beat(self) -> None:
        self._awaited = False
        # The watchers end their rest before the items are taken, so that items that arrive in between are announced.
        resting, self._resting = self._resting, {}
        try:
            self._hand_out()
        finally:
            for waiter in resting.values():
                _finish(waiter)

    def take_in(self, items: Iterable[Item]) -> None:
        """Called by the publisher, under the hub's lock."""
        if not self.size:
            return
        self.incoming.extend(items)
        if len(self.incoming) > BEHIND:
            self.incoming.clear()
            self.loop.call_soon_threadsafe(self.end_all, "slow", "the scheduler could not keep up; resume")
        elif self.incoming and not self.scheduled and len(self._resting) < self.size:
            self.scheduled = True
            self.loop.call_soon_threadsafe(self._hand_out)

    def _hand_out(self) -> None:
        try:
            self._give(self.hub.take_from(self, 1 + SLICE // (self.size + 1)))
        except Exception as error:
            # Watchers that did not get the taken items have lost them: they read again from their last position.
            log.exception("ending watchers: delivering changes failed")
            self._end_watchers("failed", f"changes could not be delivered ({type(error).__name__}); resume")
        finally:
            if self.scheduled:
                self.loop.call_soon(self._hand_out)

    def _give(self, items: list[Item]) -> None:
        for item in items:
            for name in ((item.kind, None), (item.kind, item.key)):
                for match, group in list(self._groups.get(name, _NOBODY).items()):
                    if self._matches(match, item, group):
                        for watch in list(group):
                            watch.offer(item)
            self.handed = item.number or self.handed

    def _matches(self, match: Match | None, item: Item, group: Iterable[Watch]) -> bool:
        """A match that fails ends its own watchers, before the item counts as given to them: they resume in front of
        it. All others continue."""
        if match is None:
            return True
        try:
            return match(item)
        except Exception as error:
            log.exception("ending watchers: their filter failed", kind=item.kind, key=item.key)
            for watch in list(group):
                watch.end("failed", f"a change could not be examined ({type(error).__name__}); resume")
            return False

    def end_all(self, why: Why, message: str) -> None:
        try:
            if why != "slow":
                self._give(self.hub.take_from(self, BEHIND))
        finally:
            self._end_watchers(why, message)

    def _end_watchers(self, why: Why, message: str) -> None:
        for watch in [watch for groups in self._groups.values() for group in groups.values() for watch in group]:
            watch.end(why, message)
