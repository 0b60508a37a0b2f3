"""Wakes drains of agents that wait, when something changes that can help them.

A drain is looked at when a record of one of its applications changes, when its own settings do, and at the moments at
which the time alone changes an answer: a deadline, the growth of a budget, the end of a place that a move has taken.

A taskgroup or a stand-in without a place is remembered, with the reason, by application and version. The question is
asked again

- if facts about agents or the limits of queues change: at the next look;
- if offers come that are large enough, or work that waited before the taskgroup has left the queue: after a pause,
  which grows while the answer stays the same (`LONGEST_PAUSE`);
- after `ASKED_ANEW` seconds in any case, as every drain is looked at after this time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from operator import le
from typing import NamedTuple

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.cluster.offer_manager import LIMITS
from bcs_scheduler.core.work_queue import WorkQueue
from offers.model import Site
from store.ids import application_of, object_key
from transactions.engine.demands import Size
from transactions.rules.draining import RemainingWork

PERIOD = 0.5
"""Seconds between two looks at a drain, at least."""
LONGEST_PAUSE = 8.0
"""Seconds between two questions for a place, if offers come all the time that are large enough and of no use."""
ASKED_ANEW = 30.0
"""Seconds after which it is asked again whether a taskgroup has a place, even if nothing has changed."""

Kind = tuple[str, str, bool]
"""Key of an application, name of its version, and whether a stand-in is wanted: slots of one kind find the same
places."""


class NoPlace(NamedTuple):
    """A kind of taskgroups without a place. `by_policy`: the policy refuses it, even if an agent has room.
    `until`: Unix seconds at which it is asked again."""

    words: str
    size: Size
    by_policy: bool
    until: float


class DrainWaits:
    """The drains that are to be looked at, each under the key of the settings of its agent. Belongs to the thread that
    owns the state; everything in it may be lost."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._queue = WorkQueue()
        self._no_place: dict[str, dict[Kind, NoPlace]] = {}
        """The kinds without a place of each drain that has any."""
        self._stale: dict[str, set[Kind]] = {}
        """Kinds that are to be asked for again, by drain."""
        self._cut: set[str] = set()
        """Drains whose look has not come to all taskgroups. It continues with the known answers, so that it ends."""
        self._pause_until: dict[str, float] = {}
        """Unix seconds before which no offer causes a question, by drain."""
        self._drains_of: dict[tuple[str, str], dict[str, None]] = {}
        """The drains that wait for an object, by its kind and key. Decisions are repeated from a log, so the order of
        the marks must be the same."""
        self._objects_of: dict[str, set[tuple[str, str]]] = {}
        self._agents_of: dict[str, set[str]] = {}
        """Ids of the agents, as of the latest look."""
        self._behind: set[str] = set()
        """Ids of demands that took room before the taskgroups that were asked for."""
        self._lists = 0

    # --- changes ------------------------------------------------------------------------------------------------

    def begin(self, key: str) -> None:
        """A drain begins: it is looked at at once."""
        self._queue.forget(key)
        self._agents_of[key] = set()
        self._queue.mark(key)

    def forget(self, key: str) -> None:
        """A drain has ended."""
        self._queue.forget(key)
        for known in (self._no_place, self._stale, self._pause_until, self._agents_of):
            known.pop(key, None)
        self._cut.discard(key)
        self._watch(key, set())

    def clear(self) -> None:
        """Forgets all drains."""
        for key in list(self._agents_of):
            self.forget(key)
        self._behind.clear()

    def mark(self, key: str) -> None:
        """Something about the drain has changed."""
        if key in self._agents_of:
            self._queue.mark(key)

    def all_changed(self) -> None:
        """Something has changed that may concern all drains and all their answers."""
        for key in self._agents_of:
            self._queue.mark(key)
            self._queue.reset_pause(key)
            self._pause_until.pop(key, None)
            if key in self._no_place:
                self._stale.setdefault(key, set()).update(self._no_place[key])

    def notice(self, kind: str, key: str) -> None:
        """Follows a changed record, named by kind and key. Costs the same for all records that no drain waits for."""
        if not self._agents_of:
            return
        if kind == "taskgroup":
            group = self._turn.state.taskgroups.get(key)
            self._concern(("application", application_of(key)))
            self._concern(("taskgroup", key) if group is None else ("agent", group.agent_id))
        elif kind in ("application", "deployment"):
            self._concern((kind, key))
        elif kind == "transaction":
            self._transaction_changed(key)
        elif kind in LIMITS:
            self.all_changed()

    def _transaction_changed(self, key: str) -> None:
        transaction = self._turn.state.transactions.get(key)
        if transaction is not None:
            self._concern(("application", transaction.application_key))
        if key in self._behind and key not in self._turn.engine.demands:
            self._behind.discard(key)
            for drain, kinds in self._no_place.items():
                self._ask_later(drain, kinds)

    def _concern(self, wanted: tuple[str, str]) -> None:
        for drain in self._drains_of.get(wanted, ()):
            self._queue.mark(drain)
            counting = [
                kind
                for kind, found in self._no_place.get(drain, {}).items()
                if found.size.counting and kind[0] == wanted[1]
            ]
            if counting:
                self._ask_later(drain, counting)

    def agents_listed(self, drains: Iterable[str]) -> None:
        """Marks the drains whose agents differ from those of their latest look, if the agents were listed since."""
        if self._lists == self._turn.agents.lists:
            return
        self._lists = self._turn.agents.lists
        for key in drains:
            if self._turn.agents_named(key) != self._agents_of.get(key):
                self.mark(key)

    def room_came(self, sites: Collection[Site] | None) -> None:
        """Room may have come on these sites; None: facts about agents have changed."""
        if sites is None:
            self.all_changed()
        elif self._no_place:
            rooms: dict[str, list[list[int]]] = {}
            for agent, role in sites:
                rooms.setdefault(role, []).append(self._turn.pool.hand.amounts(agent, role))
            for key, kinds in self._no_place.items():
                if fitting := [kind for kind, found in kinds.items() if _may_fit(found, rooms)]:
                    self._ask_later(key, fitting)

    def _ask_later(self, key: str, kinds: Iterable[Kind]) -> None:
        self._stale.setdefault(key, set()).update(kinds)
        self._put(key, max(self._turn.now, self._pause_until.get(key, 0.0)))

    # --- looks --------------------------------------------------------------------------------------------------

    def due(self, now: float, most: int) -> Iterator[str]:
        """Yields drains that are to be looked at now (Unix seconds), at most so many, the first that were marked at
        first."""
        self._queue.mark_due(now)
        yield from islice(self._queue.ready(now), most)

    def next_timer(self, now: float) -> float | None:
        """Unix seconds at which `due` yields a drain; None: at no particular time. `now`: Unix seconds."""
        times = (self._queue.next_ready(now), self._queue.first())
        return min((at for at in times if at is not None), default=None)

    def looked_at(self, key: str, agents: Collection[str], found: RemainingWork, times: Iterable[float]) -> None:
        """A look at a drain begins, which has found this work. `times`: Unix seconds of later looks."""
        now, state = self._turn.now, self._turn.state
        self._queue.drop(key)
        self._agents_of[key] = set(agents)
        if key not in self._cut:
            self._forget_stale(key, now)
        for at in times:
            self.look_by(key, at)
        applications = {group.application_key for group in found.left}
        applications.update(name.rpartition("-")[0] for name in found.arriving)
        objects = {("application", name) for name in applications}
        objects.update(("agent", identity) for identity in agents)
        objects.update(("taskgroup", group.id) for group in found.daemonsets)
        for name in applications:
            application = state.applications.get(name)
            deployment = state.deployments.get(application.deployment_key) if application is not None else None
            if deployment is not None:
                objects.add(("deployment", deployment.key))
                objects.update(("application", object_key(deployment.namespace, side)) for side in deployment.sides)
        self._watch(key, objects)

    def _forget_stale(self, key: str, now: float) -> None:
        stale, known = self._stale.pop(key, set()), self._no_place.get(key, {})
        stale.intersection_update(known)
        if stale:
            self._pause_until[key] = now + self._queue.pause(key, PERIOD, LONGEST_PAUSE)
        for kind in stale:
            del known[kind]
        for kind in [kind for kind, found in known.items() if now >= found.until]:
            del known[kind]
        if not known:
            self._no_place.pop(key, None)

    def ended(self, key: str, *, is_cut: bool, has_moved: bool) -> None:
        """The look at a drain has ended. `is_cut`: it has not come to all taskgroups. `has_moved`: it has begun a
        move."""
        now = self._turn.now
        if has_moved:
            self._queue.reset_pause(key)
            self._pause_until.pop(key, None)
        if is_cut:
            self._cut.add(key)
            self._queue.mark(key)
            return
        self._cut.discard(key)
        self._queue.rest(key, now, now + PERIOD)
        if (at := self._queue.time_of(key)) is not None:
            self._queue.put(key, max(at, now + PERIOD))
        if key in self._stale:
            self._ask_later(key, ())
        known = self._no_place.get(key, {})
        self.look_by(key, min((found.until for found in known.values()), default=now + ASKED_ANEW))

    def look_by(self, key: str, at: float) -> None:
        """The drain is looked at no later than at `at` (Unix seconds; infinity = never), unless that is over."""
        if self._turn.now < at < float("inf"):
            self._put(key, at)

    def _put(self, key: str, at: float) -> None:
        """A time within the rest of a drain would cause a turn that looks at nothing."""
        self._queue.put_earlier(key, max(at, self._queue.rests_until(key, self._turn.now)))

    # --- answers ------------------------------------------------------------------------------------------------

    @property
    def placeless(self) -> bool:
        """True if a drain waits for a place."""
        return bool(self._no_place)

    def no_place(self, key: str, kind: Kind) -> str:
        """The reason why taskgroups of a kind have no place; empty if they have to be asked for."""
        found = self._no_place.get(key, {}).get(kind)
        return found.words if found is not None else ""

    def refused(self, key: str, kind: Kind, found: NoPlace) -> None:
        """A kind of taskgroups has found no place."""
        self._no_place.setdefault(key, {})[kind] = found

    def behind(self, demands: Iterable[str]) -> None:
        """The demands of these ids take their places before the taskgroups that are asked for in this turn."""
        self._behind = set(demands)

    def _watch(self, key: str, objects: set[tuple[str, str]]) -> None:
        before = self._objects_of.get(key, set())
        for one in before - objects:
            members = self._drains_of[one]
            del members[key]
            if not members:
                del self._drains_of[one]
        for one in objects - before:
            self._drains_of.setdefault(one, {})[key] = None
        if objects:
            self._objects_of[key] = objects
        else:
            self._objects_of.pop(key, None)


def _may_fit(found: NoPlace, rooms: dict[str, list[list[int]]]) -> bool:
    """True if the room of a site may help the kind. `rooms`: scalars of sites, by role."""
    of_role = rooms.get(found.size.role, ())
    if found.by_policy or found.size.counting:
        return bool(of_role)
    return any(all(map(le, found.size.amounts, room)) for room in of_role)
