"""Placeholders that run nothing: the core holds their room in the offers (docs/decisions/0064-held-offers.md).

Such a placeholder has a taskgroup like any other, so all policies place and count it, and a new leader finds it again.
The taskgroup runs when the offers of its agent cover its room. Offers come and go: a hold that no offer covers for some
time has lost its room to another scheduler, and the gang asks for another placeholder. When the taskgroup is ended, its
room waits for the launch that was promised the room.
"""

from __future__ import annotations

from collections.abc import Iterable

from bcs_scheduler.core.context import ANSWER_SECONDS, RETRY, TurnContext
from bcs_scheduler.core.controllers.rooms.ending import lose, report
from bcs_scheduler.core.controllers.rooms.following import follow_taskgroups, site_of
from bcs_scheduler.core.interface.leased import Decline
from bcs_scheduler.core.work_queue import WorkQueue
from offers.ledger.holds import HOLD_SECONDS, LEAVE_SECONDS
from store.records import TaskGroup
from transactions.resource_request import request_of
from transactions.rules.task_states import TaskState

AWAY_SECONDS = 20.0
"""Seconds after which room that no offer covers is lost."""
LOOK_SECONDS = 1.0
"""Seconds between two looks at the ages of the offers with held room."""


class HeldRooms:
    """Follows the taskgroups of placeholders whose room the core holds."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._holds = turn.pool.holds
        self._placeholders: set[str] = set()
        """Taskgroups whose room is held here; others have holds, too."""
        self._due = WorkQueue()
        """Holds that are lost or dropped at a moment: their room is not covered, or their taskgroup has ended."""
        self._look = 0.0
        """Unix seconds of the next look at the ages of offers."""

    def recover(self) -> None:
        """Takes up the taskgroups that exist."""
        for name in list(self._placeholders):
            self._drop(name)
        self.notice([("taskgroup", key) for key in self._turn.state.taskgroups])

    def next_timer(self) -> float | None:
        """Unix seconds of the next look; None: at no particular time."""
        return self._turn.now if self._holds.has_news(self._placeholders) else self._due.first()

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Follows new taskgroups of placeholders, and ends the holds of unwanted ones."""
        follow_taskgroups(
            self._turn,
            changed,
            lambda group: group.id in self._placeholders or self._is_held(group),
            self._follow,
            self._forget,
        )

    def tick(self) -> None:
        """Follows offers and time."""
        if not (self._holds or self._due):
            return
        turn = self._turn
        turn.pool.table.flush()
        failed = turn.each("taskgroup", self._holds.take_news(self._placeholders), self._look_at)
        for name in (*failed, *turn.each("taskgroup", self._due.due(turn.now), self._end)):
            self._due.put(name, turn.now + RETRY)
        if turn.connected and turn.now >= self._look:
            self._look = turn.now + LOOK_SECONDS
            self._give_back()
        turn.cut()

    # --- taskgroups -------------------------------------------------------------------------------------------

    def _is_held(self, group: TaskGroup) -> bool:
        version = self._turn.state.version(group.application_key, group.version)
        return version is not None and version.held and not group.ended

    def _follow(self, group: TaskGroup) -> None:
        turn, name = self._turn, group.id
        self._placeholders.add(name)
        version = turn.state.version(group.application_key, group.version)
        if group.killing_since:
            if group.end_cause == "Evicted":
                self._drop(name)
            elif name in self._holds and name not in self._holds.leaving:
                self._holds.leaving[name] = turn.now
                self._due.put(name, turn.now + LEAVE_SECONDS)
            report(turn, group, TaskState.KILLED, "the room is free")
        elif name not in self._holds and version is not None:
            self._holds.add(name, site_of(group), request_of(version, turn.options.traits.overhead))

    def _forget(self, name: str) -> None:
        """The taskgroup has ended. A hold that leaves waits for the promised launch."""
        if name in self._placeholders and name not in self._holds.leaving:
            self._drop(name)

    def _drop(self, name: str) -> None:
        self._placeholders.discard(name)
        self._holds.drop(name)
        self._due.drop(name)

    def _look_at(self, name: str) -> None:
        """The hold is new, or has become covered or short."""
        group = self._turn.state.taskgroups.get(name)
        if group is None or group.ended:
            self._forget(name)
        elif name in self._holds.short:
            self._due.put(name, self._turn.now + AWAY_SECONDS)
        else:
            self._due.drop(name)
            if not group.started and not group.killing_since:
                report(self._turn, group, TaskState.RUNNING, "the room is held")

    def _end(self, name: str) -> None:
        """The time of a hold is over."""
        turn = self._turn
        group = turn.state.taskgroups.get(name)
        if group is None or group.ended:
            self._drop(name)
        elif not turn.connected:
            self._due.put(name, turn.now + AWAY_SECONDS)
        else:
            self._drop(name)
            lose(turn, group, "no offer has the room any more")

    # --- offers -----------------------------------------------------------------------------------------------

    def _give_back(self) -> None:
        """Gives back the offers whose room was held for long, together with those that will soon be due. They return at
        once if no other scheduler is due. Until then nothing is ended for others: an agent without its offers seems to
        have no room."""
        turn = self._turn
        rows = [row for site in self._holds.sites if (row := turn.pool.row(*site)) is not None and not row.allocations]
        kept = {row: turn.now - min(one.received_at for one in row.offers.values()) for row in rows if row.offers}
        if max(kept.values(), default=0.0) < HOLD_SECONDS:
            return
        for row, age in kept.items():
            if age >= HOLD_SECONDS / 2:
                taken = tuple(offer.id for offer in turn.pool.take(row.agent_id, row.role))
                turn.emit(Decline(offer_ids=taken, refuse_seconds=0.0, cause=turn.cause))
        turn.returning_until = turn.now + ANSWER_SECONDS
        turn.offers_until = max(turn.offers_until, turn.returning_until)
