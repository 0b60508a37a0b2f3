"""Drains: moves the taskgroups of agents elsewhere, few at a time, within the bounds of their owners.

What is left, on its way and in the way is derived from the taskgroups and the RESCHEDULEs that carry the agent's name,
so another leader goes on where this one stops. Nothing is ended that has no place elsewhere at the moment: the drain
waits, and says so. Drains of several agents share the bounds of the applications.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial

import msgspec

from bcs_scheduler.core.controllers.supply import Supply
from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.effects import ListAgents
from offers.matcher import Rehearsal, match
from offers.model import Demand, Diagnosis
from offers.planned import PlannedCensus
from store.records import AgentSetting, Drain, TaskGroup, Transaction, Version
from transactions import daemons, explain, needs, reschedule
from transactions.base import Refused, Slot, Step
from transactions.draining import Outlook, WithoutGroup, hindrance, outlook
from transactions.explain import several
from transactions.lifecycle import is_ready

PERIOD = 0.5
"""Seconds between two looks at the drains that run."""
AT_ONCE = 4
"""Agents looked at in one turn; each may ask for a place for all of its taskgroups, some milliseconds each."""
MOST_WAITING = 1000
"""Slots that wait for a place and are taken into account. While more do, nothing is ended to be moved: a drain is not
urgent enough to match all of them in each turn."""
REASONS_TOLD = 3
BEGINS = "begins"
"""How a drain stands that has not been looked at."""


class Drains:
    """A Follower (core.scheduler). What it holds is derived."""

    def __init__(self, desk: Desk, supply: Supply) -> None:
        self._desk = desk
        self._supply = supply
        self._open: dict[str, None] = {}
        """Keys of the settings whose drains run."""
        self._moves: dict[str, dict[str, None]] = {}
        """Ids of RESCHEDULEs by the key of the agent they lead away from."""
        self._next = 0.0
        self._round: deque[str] = deque()
        """Keys of the settings that the present round has not come to."""
        self._waiting: _Waiting | None = None
        """What waits for a place, matched with the offers for as long as this turn looks at drains."""

    def recover(self) -> None:
        state = self._desk.state
        self.notice([("agentsetting", key) for key in state.agent_settings])
        self.notice([("transaction", key) for key in state.transactions])

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        state = self._desk.state
        for kind, key in changed:
            if kind == "agentsetting":
                setting = state.agent_settings.get(key)
                if setting is not None and setting.drain is not None and not setting.drain.done_at:
                    if key not in self._open:
                        self._next = 0.0
                    self._open[key] = None
                else:
                    self._open.pop(key, None)
                    self._moves.pop(key, None)
            elif kind == "transaction":
                move = state.transactions.get(key)
                if move is not None and move.drained in self._open:
                    self._moves.setdefault(move.drained, {})[key] = None

    def tick(self) -> None:
        desk = self._desk
        if not self._open or (desk.now < self._next and not self._round):
            return
        if not self._round:
            self._next = desk.now + PERIOD
        if not desk.connected:
            self._round.clear()
            return
        if not desk.agents.listed:
            desk.emit(ListAgents(cause=desk.cause))
            return
        if not self._round:
            self._round.extend(self._open)
        try:
            for number in range(min(AT_ONCE, len(self._round))):
                if number and desk.context.enough():
                    break
                key = self._round.popleft()
                desk.attempt("agent", key, partial(self._go_on, key))
                desk.cut()
        finally:
            self._forget_waiting()

    def _forget_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.rehearsal.undo()
            self._waiting = None

    def next_timer(self) -> float | None:
        if not self._open:
            return None
        return self._desk.now if self._round else self._next

    # --- one agent --------------------------------------------------------------------------------------------

    def _go_on(self, key: str) -> None:
        desk = self._desk
        setting = desk.state.agent_settings.get(key)
        drain = setting.drain if setting is not None else None
        if setting is None or drain is None or drain.done_at:
            return  # this turn has ended it
        agent_ids = desk.agents_named(key)
        found = outlook(desk.state, agent_ids, self._moves_of(key, drain))
        if drain.daemonsets and not found.left:
            for group in found.daemonsets:
                daemons.misplace(desk.context, group)
        staying = 0 if drain.daemonsets else len(found.daemonsets)
        if not agent_ids and drain.message == BEGINS:
            # It was asked for before the agents were listed.
            self._end(setting, drain, "no agent of this name is listed", failed=True)
        elif not found.left and not found.arriving and (not drain.daemonsets or not found.daemonsets):
            words = f"no taskgroups are left{f' but {staying} of daemonsets' if staying else ''}"
            self._end(setting, drain, words, failed=False)
        elif drain.deadline and desk.now >= drain.deadline:
            why = self._hindrances(found)
            words = f"its time is over: {several(len(found.left), 'taskgroup')} left{f'; {why}' if why else ''}"
            self._end(setting, drain, words, failed=True)
        else:
            self._tell(setting, drain, self._move(setting, drain, found))

    def _moves_of(self, key: str, drain: Drain) -> list[Transaction]:
        transactions = self._desk.state.transactions
        known = [transactions.get(identity) for identity in self._moves.get(key, ())]
        return [move for move in known if move is not None and move.created_at >= drain.since]

    def _move(self, setting: AgentSetting, drain: Drain, found: Outlook) -> str:
        """Ends as many as may be on their way. Returns how things stand."""
        room = drain.at_once - len(found.arriving)
        started = 0
        reasons: dict[str, str] = {}
        full: dict[tuple[str, str], str] = {}
        """What found no place is not tried again with another taskgroup of the same kind."""
        # What is not ready anyway goes first: moving it costs nothing.
        for group in sorted(found.left, key=is_ready):
            if started >= room:
                break
            if group.killing_since:
                continue
            kind = (f"{group.namespace}/{group.application}", group.version)
            words = full.get(kind) or hindrance(self._desk.state, group)
            if not words and (words := self._no_place(group)):
                full[kind] = words
            if not words:
                words = self._start(setting.agent, group)
                started += not words
            if not words and self._waiting is not None:
                self._waiting.add(self._demands_of(group))
            if words:
                reasons[group.id] = words
        under_way = len(found.arriving) + started
        words = f"{several(len(found.left), 'taskgroup')} left, {under_way} on the way"
        if reasons and not started:
            words += f"; {_listed(reasons.values())}"
        elif found.arriving and not started:
            words += f"; {_listed(f'{name} is not ready yet' for name in found.arriving)}"
        return words

    def _start(self, agent: str, group: TaskGroup) -> str:
        """Moves a taskgroup; or why it cannot be."""
        try:
            move = reschedule.create(self._desk.context, group, 0.0, drained=agent)
        except Refused as refused:
            return refused.message
        self._moves.setdefault(agent, {})[move.id] = None
        return ""

    def _hindrances(self, found: Outlook) -> str:
        state = self._desk.state
        staying = [group for group in found.left if not group.killing_since]
        reasons = [hindrance(state, group) or self._no_place(group) for group in staying[:REASONS_TOLD]]
        return _listed([*filter(None, reasons), *(f"{name} is not ready" for name in found.arriving)])

    def _no_place(self, group: TaskGroup) -> str:
        """Why the taskgroup would find no place now, after all that waits already; empty if it would. Agents that are
        being drained take nothing, because they are disabled. Without offers nobody knows: they are asked for."""
        desk = self._desk
        version = desk.state.version(f"{group.namespace}/{group.application}", group.version)
        if version is None:
            return ""
        self._supply.want()
        if self._waiting is None:
            self._waiting = _Waiting(desk)
            self._waiting.add([*self._untried(), *self._ending()])
        if self._waiting.too_many:
            return f"more than {MOST_WAITING} taskgroups wait for a place already"
        found = self._waiting.diagnose(self._demand("drain", group, version), group)
        return f"no other agent has room for {group.id} ({explain.reasons(found)})" if found is not None else ""

    def _untried(self) -> list[Demand]:
        """Open demands that may get a place now. Of those that the offers did not fit in the last pass one slot tells
        whether they do now; very many of them are left to the next pass."""
        engine = self._desk.engine
        if len(engine.demands) > MOST_WAITING // 2:
            return [engine.demands[key] for key in engine.changed_demands if key in engine.demands]
        return [
            demand._replace(slots=demand.slots[:1])
            if demand.id in engine.diagnoses and demand.id not in engine.changed_demands
            else demand
            for demand in engine.demands.values()
        ]

    def _demands_of(self, group: TaskGroup) -> list[Demand]:
        version = self._desk.state.version(f"{group.namespace}/{group.application}", group.version)
        return [self._demand(group.id, group, version)] if version is not None else []

    def _ending(self) -> list[Demand]:
        """What will want a place as soon as it has ended here."""
        state, found = self._desk.state, []
        for identity in (identity for moves in self._moves.values() for identity in moves):
            move = state.transactions.get(identity)
            group = state.taskgroups.get(move.taskgroup) if move is not None and move.active else None
            if group is not None and identity not in self._desk.engine.demands:
                version = state.version(f"{group.namespace}/{group.application}", group.version)
                if version is not None:
                    found.append(self._demand(identity, group, version))
        return found

    def _demand(self, identity: str, group: TaskGroup, version: Version) -> Demand:
        step = Step(slots=(Slot(group.index),))
        return needs.demand(identity, version, step, self._desk.options.transactions.role)

    # --- how it stands ----------------------------------------------------------------------------------------

    def _end(self, setting: AgentSetting, drain: Drain, words: str, *, failed: bool) -> None:
        ended = msgspec.structs.replace(drain, done_at=self._desk.now, message=words, failed=failed)
        self._desk.uow.put(msgspec.structs.replace(setting, drain=ended))
        level = "warning" if failed else "info"
        self._desk.tell("agent", setting.agent, "drain failed" if failed else "drained", words, level)

    def _tell(self, setting: AgentSetting, drain: Drain, words: str) -> None:
        if words != drain.message:
            self._desk.uow.put(msgspec.structs.replace(setting, drain=msgspec.structs.replace(drain, message=words)))


class _Waiting:
    """What waits for a place, and where it would get it now: what is asked for next finds room beside that."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.rehearsal = Rehearsal(desk.pool, desk.options.scoring)
        self.too_many = False
        """Not all that waits could be matched."""
        self._census = PlannedCensus(desk.census)
        self._count = 0

    def add(self, demands: list[Demand]) -> None:
        """Gives these demands their places."""
        self._count += sum(len(demand.slots) for demand in demands)
        self.too_many = self._count > MOST_WAITING
        if not self.too_many and demands:
            by_id = {demand.id: demand for demand in demands}
            for placement in self.rehearsal.match(demands, self._census).placements:
                self._census.add(by_id[placement.demand], placement)

    def diagnose(self, demand: Demand, group: TaskGroup) -> Diagnosis | None:
        """Why the demand finds no place when the taskgroup has ended; None if it does."""
        census = WithoutGroup(self._census, group)
        result = match([demand], self._desk.pool, census, self._desk.options.scoring, dry_run=True)
        return next(iter(result.diagnoses), None)


def _listed(reasons: Iterable[str]) -> str:
    every = list(dict.fromkeys(reasons))
    more = f"; and {len(every) - REASONS_TOLD} more" if len(every) > REASONS_TOLD else ""
    return "; ".join(every[:REASONS_TOLD]) + more
