"""Placeholders that run nothing: their room is held (docs/decisions/0063-forms-of-placeholders.md).

Such a placeholder has a taskgroup like any other, so all policies place and count it, and a new leader finds it again.
Only its life differs, and the core reports about it to itself. There are two forms.

* `reserve`: the cluster manager keeps the room. The taskgroup runs when its room is seen in an offer, and ends when the
  room is opened. An opened room is for the launch that was promised room on the agent, and no other framework gets the
  room: the launch gives it up in the same call. The room of a placeholder that was evicted is for any launch. Rooms
  that are not used soon are given up, and so are rooms that no taskgroup has. Nothing is remembered that offers, lists
  of agents and records do not say again.
* `hold`: the core holds the room in the offers (docs/decisions/0064-held-offers.md). The taskgroup runs when the offers
  of its agent cover its room. Offers come and go: a hold that no offer covers for some time has lost its room, and the
  gang asks for another placeholder. When the taskgroup is ended, its room waits for the launch that was promised it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

import msgspec

from bcs_scheduler.core.context import ANSWER_SECONDS, RETRY, TurnContext
from bcs_scheduler.core.controllers.holds.following import follow_taskgroups, site_of
from bcs_scheduler.core.interface.cluster_manager import ListAgents
from bcs_scheduler.core.interface.leased import Decline, GiveUpRooms
from bcs_scheduler.core.work_queue import WorkQueue
from offers.ledger.external import parts_of
from offers.ledger.holds import (
    AWAY_SECONDS,
    HOLD_SECONDS,
    LISTED_PATIENCE,
    LISTED_SECONDS,
    LISTS,
    SEEN_SECONDS,
    USE_SECONDS,
    Cause,
)
from offers.model import Site
from store.reasons import TASKGROUP_TURNED
from store.records import TaskGroup
from store.records.running import Task
from transactions.resource_request import request_of
from transactions.rules import lifecycle
from transactions.rules.task_states import TaskState

AGES_SECONDS = 1.0
"""Seconds between two looks at the ages of the offers with held room."""
AT_ONCE = 16
"""Placeholders that one turn looks at, of those whose holds have changed or whose time is over: all offers may go away
at once, and the end of a placeholder costs some 1.2 ms with the work that follows."""


def report(turn: TurnContext, group: TaskGroup, state: TaskState, message: str) -> None:
    """All tasks of a taskgroup have reached a state."""
    applied = lifecycle.applied_report(lifecycle.Report(state, message, "", None, "", None), group)
    _change(turn, group, lambda task: lifecycle.reduce_task(task, applied, turn.now))


def lose(turn: TurnContext, group: TaskGroup, message: str) -> None:
    """The room of a taskgroup does not exist any more."""
    lost = {"status": "Lost", "ended": True, "message": message, "updated_at": turn.now}
    _change(turn, group, lambda task: msgspec.structs.replace(task, last_status=task.status, **lost))


def _change(turn: TurnContext, group: TaskGroup, change: Callable[[Task], Task]) -> None:
    tasks = tuple(task if task.ended else change(task) for task in group.tasks)
    advanced = turn.uow.put(lifecycle.advance(group, tasks, turn.now))
    if advanced.status != group.status:
        words = f"{group.status} -> {advanced.status} {advanced.message}"
        turn.record_event("taskgroup", group.id, TASKGROUP_TURNED[advanced.status], words)
    turn.checkpoint()


# --- form reserve -------------------------------------------------------------------------------------------------


class KeptPlaceholders:
    """Follows the taskgroups of placeholders with external holds, and the external holds without taskgroup."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._external = turn.pool.hand.external
        self._live: dict[str, float] = {}
        """Taskgroups that have not ended, with the Unix seconds since which this term knows them."""
        self._missed: dict[str, int] = {}
        """Lists in a row that did not have the room of a taskgroup."""
        self._lists = 0
        self._use = min(USE_SECONDS, turn.options.offer_hold / 2)

    def recover(self) -> None:
        """Takes up the taskgroups that exist."""
        self._live.clear()
        self._missed.clear()
        self.notice([("taskgroup", key) for key in self._turn.state.taskgroups])

    def next_timer(self) -> float | None:
        """Unix seconds of the next look; None: at no particular time."""
        return self._turn.now + self._use if self._external.opened else None

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Follows new taskgroups of placeholders, and opens the holds of unwanted ones."""
        follow_taskgroups(
            self._turn,
            changed,
            lambda group: group.id in self._live or self._is_kept(group),
            self._follow,
            self._forget,
        )

    def tick(self) -> None:
        """Follows offers, lists of agents and time."""
        if not (self._external or self._live or self._turn.agents.external_holds):
            return
        news = self._external.take_news()
        self._turn.each("taskgroup", news, lambda name: self._seen(name, news[name].agent_id))
        if self._lists != self._turn.agents.lists:
            self._lists = self._turn.agents.lists
            self._listed()
        self._turn.each("taskgroup", list(self._external.awaited), self._late)
        for site in self._due():
            self._give_up(site)
        self._turn.cut()

    # --- taskgroups -------------------------------------------------------------------------------------------

    def _is_kept(self, group: TaskGroup) -> bool:
        version = self._turn.state.version(group.application_key, group.version)
        return version is not None and version.kept and not (version.held or group.ended)

    def _follow(self, group: TaskGroup) -> None:
        if group.killing_since:
            self._open(group.id, loose=group.end_cause == "Evicted")
            report(self._turn, group, TaskState.KILLED, "the room is open")
            return
        if group.id not in self._live:
            self._live[group.id] = self._turn.now
            if not group.started:
                self._external.awaited[group.id] = None

    def _forget(self, name: str) -> None:
        """The taskgroup has ended. Its room, if there is one, is opened when it is seen."""
        if self._live.pop(name, None) is not None:
            self._missed.pop(name, None)
            if name not in self._external.opened:
                self._external.awaited.pop(name, None)

    def _open(self, name: str, *, loose: bool = False) -> None:
        self._turn.pool.hand.open_hold(name, self._turn.now, loose=loose)
        self._external.awaited[name] = None

    def _seen(self, name: str, agent_id: str) -> None:
        group = self._turn.state.taskgroups.get(name)
        self._missed.pop(name, None)
        if name not in self._external.opened:
            self._external.awaited.pop(name, None)
        if group is None or group.ended:
            self._open(name)
        elif not group.started and not group.killing_since and group.agent_id == agent_id:
            report(self._turn, group, TaskState.RUNNING, "the room is kept")

    def _late(self, name: str) -> None:
        """Ends the wait for a hold that does not appear."""
        turn = self._turn
        opened = self._external.opened.get(name)
        if opened is not None:
            known = any(name in names for names in turn.agents.external_holds.values())
            if turn.now >= opened + (LISTED_PATIENCE if known else SEEN_SECONDS):
                self._external.gone(name)
            return
        group = turn.state.taskgroups.get(name)
        since = self._live.get(name)
        if group is None or since is None:
            self._external.awaited.pop(name, None)
        elif turn.connected and turn.now >= since + SEEN_SECONDS:
            lose(turn, group, "the cluster manager does not keep the room")

    def _listed(self) -> None:
        """Compares the external holds with a new list of agents."""
        turn = self._turn
        for names in turn.agents.external_holds.values():
            turn.each("taskgroup", sorted(names - self._live.keys()), self._open_if_ended)  # the same order everywhere
        turn.each("taskgroup", list(self._live), self._compare)

    def _open_if_ended(self, name: str) -> None:
        group = self._turn.state.taskgroups.get(name)
        if group is None or group.ended:
            self._open(name)

    def _compare(self, name: str) -> None:
        """Compares the room of a taskgroup with a new list of agents."""
        turn, since = self._turn, self._live[name]
        group = turn.state.taskgroups.get(name)
        if group is None or not group.started or turn.now < max(since, group.running_since) + LISTED_SECONDS:
            return
        if name in turn.agents.external_holds.get(group.agent_id, ()):
            self._missed.pop(name, None)
            return
        self._missed[name] = self._missed.get(name, 0) + 1
        if self._missed[name] >= LISTS:
            lose(turn, group, "the room does not exist any more")
        else:
            turn.emit(ListAgents(cause=turn.cause))

    # --- opened holds -----------------------------------------------------------------------------------------

    def _due(self) -> list[Site]:
        """Agents with opened holds that have not been used for too long."""
        turn, sites = self._turn, dict[Site, None]()
        for name, opened in self._external.opened.items():
            for offer in self._external.offers_of(name):
                if turn.now >= max(opened, offer.received_at) + self._use:
                    sites[offer.agent_id, offer.role] = None
        return list(sites)

    def _give_up(self, site: Site) -> None:
        turn, names = self._turn, self._external.names_on(*site)
        if not turn.connected or turn.pool.claims(*site):
            return  # a launch on the agent is planned; the offers return after it
        taken = turn.pool.hand.withdraw(*site)
        turn.emit(
            GiveUpRooms(
                agent_id=site[0],
                offer_ids=tuple(offer.id for offer in taken),
                rooms=parts_of(taken, names),
                cause=turn.cause,
            )
        )
        for name in names:
            self._external.gone(name)


# --- form hold ----------------------------------------------------------------------------------------------------


class HeldPlaceholders:
    """Follows the taskgroups of placeholders whose room the core holds."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._holds = turn.pool.holds
        self._due = WorkQueue()
        """Holds that are lost or dropped at a moment: their room is not covered, or their taskgroup has ended."""
        self._ages_at = 0.0
        """Unix seconds of the next look at the ages of offers."""

    def recover(self) -> None:
        """Takes up the taskgroups that exist."""
        for name in (*self._holds.of(Cause.PLACEHOLDER), *self._holds.of(Cause.SWAP)):
            self._drop(name)
        self.notice([("taskgroup", key) for key in self._turn.state.taskgroups])

    def next_timer(self) -> float | None:
        """Unix seconds of the next look; None: at no particular time."""
        return self._turn.now if self._holds.has_news(Cause.PLACEHOLDER) else self._due.first()

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Follows new taskgroups of placeholders, and ends the holds of unwanted ones."""
        follow_taskgroups(self._turn, changed, self._is_held, self._follow, self._forget)

    def tick(self) -> None:
        """Follows offers and time."""
        if not (self._holds or self._due):
            return
        turn = self._turn
        turn.pool.table.flush()
        failed = turn.each("taskgroup", self._holds.take_news(Cause.PLACEHOLDER, AT_ONCE), self._judge)
        due = islice(self._due.due(turn.now), AT_ONCE)
        for name in (*failed, *turn.each("taskgroup", due, self._end)):
            self._due.put(name, turn.now + RETRY)
        if turn.connected and turn.now >= self._ages_at:
            self._ages_at = turn.now + AGES_SECONDS
            self._give_back()
        turn.cut()

    # --- taskgroups -------------------------------------------------------------------------------------------

    def _holds_for(self, name: str) -> bool:
        """True if room is held for a placeholder that has not ended."""
        return self._holds.cause_of(name) is Cause.PLACEHOLDER

    def _is_held(self, group: TaskGroup) -> bool:
        version = self._turn.state.version(group.application_key, group.version)
        return self._holds_for(group.id) or (version is not None and version.held and not group.ended)

    def _follow(self, group: TaskGroup) -> None:
        turn, name = self._turn, group.id
        version = turn.state.version(group.application_key, group.version)
        if group.killing_since:
            if group.end_cause == "Evicted":
                self._drop(name)
            elif self._holds_for(name):
                self._due.put(name, self._holds.leave(name, Cause.SWAP, turn.now))
            report(turn, group, TaskState.KILLED, "the room is free")
        elif name not in self._holds and version is not None:
            request = request_of(version, turn.options.traits.overhead)
            self._holds.add(name, Cause.PLACEHOLDER, site_of(group), request)

    def _forget(self, name: str) -> None:
        """The taskgroup has ended. A hold that leaves waits for the promised launch."""
        if self._holds_for(name):
            self._drop(name)

    def _drop(self, name: str) -> None:
        self._holds.drop(name)
        self._due.drop(name)

    def _judge(self, name: str) -> None:
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
        rows = [row for site in self._holds.sites if (row := turn.pool.row(*site)) is not None and not row.claims]
        kept = {row: turn.now - min(offer.received_at for offer in row.offers.values()) for row in rows if row.offers}
        if max(kept.values(), default=0.0) < HOLD_SECONDS:
            return
        for row, age in kept.items():
            if age >= HOLD_SECONDS / 2:
                taken = tuple(offer.id for offer in turn.pool.hand.withdraw(row.agent_id, row.role))
                turn.emit(Decline(offer_ids=taken, refuse_seconds=0.0, cause=turn.cause))
        turn.returning_until = turn.now + ANSWER_SECONDS
        turn.offers_until = max(turn.offers_until, turn.returning_until)
