"""Placeholders that run nothing: the cluster manager keeps their room (docs/decisions/0063-forms-of-placeholders.md).

Such a placeholder has a taskgroup like any other, so all policies place and count it. Only its life differs: the
taskgroup runs when its room is seen in an offer, and ends when the room is opened. An opened room is for the launch
that was promised room on the agent, and no other framework gets the room: the launch gives it up in the same call. The
room of a placeholder that was evicted is for any launch. Rooms that are not used soon are given up, and so are rooms
that no taskgroup has.

Nothing is remembered that offers, lists of agents and records do not say again.
"""

from __future__ import annotations

from collections.abc import Iterable

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.rooms.ending import lose, report
from bcs_scheduler.core.controllers.rooms.following import follow_taskgroups
from bcs_scheduler.core.interface.cluster_manager import ListAgents
from bcs_scheduler.core.interface.leased import GiveUpRooms
from offers.ledger.rooms import Site, parts_of
from store.records import TaskGroup
from transactions.rules.task_states import TaskState

USE_SECONDS = 3.0
"""Seconds for which an opened room waits in an offer for the launch that is to use it; at most half of `offer_hold`,
because an offer without use is declined then."""
SEEN_SECONDS = 20.0
"""Seconds after which a room that no offer shows is not kept: the cluster manager has refused it, or the call is
lost."""
LISTED_PATIENCE = 120.0
"""The same for the room of an agent that has the room by the latest list; the next list names the room again."""
LISTED_SECONDS = 15.0
"""A list of agents may be older than a change by so many seconds."""
LISTS = 2
"""Lists in a row without a room, after which the room does not exist."""


class KeptRooms:
    """Follows the taskgroups of placeholders whose rooms are kept, and the rooms that no taskgroup has."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._rooms = turn.pool.rooms
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
        return self._turn.now + self._use if self._rooms.opened else None

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Follows new taskgroups of placeholders, and opens the rooms of unwanted ones."""
        follow_taskgroups(
            self._turn,
            changed,
            lambda group: group.id in self._live or self._is_kept(group),
            self._follow,
            self._forget,
        )

    def tick(self) -> None:
        """Follows offers, lists of agents and time."""
        if not (self._rooms or self._live or self._turn.agents.rooms):
            return
        news = self._rooms.take_news()
        self._turn.each("taskgroup", news, lambda name: self._seen(name, news[name].agent_id))
        if self._lists != self._turn.agents.lists:
            self._lists = self._turn.agents.lists
            self._listed()
        self._turn.each("taskgroup", list(self._rooms.awaited), self._late)
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
                self._rooms.awaited[group.id] = None

    def _forget(self, name: str) -> None:
        """The taskgroup has ended. Its room, if there is one, is opened when it is seen."""
        if self._live.pop(name, None) is not None:
            self._missed.pop(name, None)
            if name not in self._rooms.opened:
                self._rooms.awaited.pop(name, None)

    def _open(self, name: str, *, loose: bool = False) -> None:
        self._turn.pool.open_room(name, self._turn.now, loose=loose)
        self._rooms.awaited[name] = None

    def _seen(self, name: str, agent_id: str) -> None:
        group = self._turn.state.taskgroups.get(name)
        self._missed.pop(name, None)
        if name not in self._rooms.opened:
            self._rooms.awaited.pop(name, None)
        if group is None or group.ended:
            self._open(name)
        elif not group.started and not group.killing_since and group.agent_id == agent_id:
            report(self._turn, group, TaskState.RUNNING, "the room is kept")

    def _late(self, name: str) -> None:
        """Ends the wait for a room that does not appear."""
        turn = self._turn
        opened = self._rooms.opened.get(name)
        if opened is not None:
            known = any(name in rooms for rooms in turn.agents.rooms.values())
            if turn.now >= opened + (LISTED_PATIENCE if known else SEEN_SECONDS):
                self._rooms.gone(name)
            return
        group = turn.state.taskgroups.get(name)
        since = self._live.get(name)
        if group is None or since is None:
            self._rooms.awaited.pop(name, None)
        elif turn.connected and turn.now >= since + SEEN_SECONDS:
            lose(turn, group, "the cluster manager does not keep the room")

    def _listed(self) -> None:
        """Compares the kept rooms with a new list of agents."""
        turn = self._turn
        for names in turn.agents.rooms.values():
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
        if name in turn.agents.rooms.get(group.agent_id, ()):
            self._missed.pop(name, None)
            return
        self._missed[name] = self._missed.get(name, 0) + 1
        if self._missed[name] >= LISTS:
            lose(turn, group, "the room does not exist any more")
        else:
            turn.emit(ListAgents(cause=turn.cause))

    # --- opened rooms -----------------------------------------------------------------------------------------

    def _due(self) -> list[Site]:
        """Agents with opened rooms that have not been used for too long."""
        turn, sites = self._turn, dict[Site, None]()
        for name, opened in self._rooms.opened.items():
            for offer in self._rooms.offers_of(name):
                if turn.now >= max(opened, offer.received_at) + self._use:
                    sites[offer.agent_id, offer.role] = None
        return list(sites)

    def _give_up(self, site: Site) -> None:
        turn, names = self._turn, self._rooms.names_on(*site)
        if not turn.connected or turn.pool.allocations(*site):
            return  # a launch on the agent is planned; the offers return after it
        taken = turn.pool.take(*site)
        turn.emit(
            GiveUpRooms(
                agent_id=site[0],
                offer_ids=tuple(offer.id for offer in taken),
                rooms=parts_of(taken, names),
                cause=turn.cause,
            )
        )
        for name in names:
            self._rooms.gone(name)
