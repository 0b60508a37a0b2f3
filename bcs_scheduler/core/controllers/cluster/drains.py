"""Drains: moves the taskgroups of agents to other agents, few at a time, within the disruption budgets of their owners.

The remaining taskgroups, the moves in progress and the blockers are derived from the taskgroups and from the
RESCHEDULEs that carry the name of the agent. A new leader therefore continues the drain. A taskgroup is ended only if
another agent has room for it now and the policy of its role would give it a place; otherwise the drain waits and its
message says so. Drains of several agents share the disruption budgets of the applications.

A drain that waits is looked at again when something changes that can help it (`drain_waits`), and asks only for places
whose answer may have changed. A look ends after the question with which the time of the turn is used up, and the next
turn continues it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from math import inf
from typing import NamedTuple

import msgspec
import numpy as np

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.cluster.drain_waits import ASKED_ANEW, PERIOD, DrainWaits, Kind, NoPlace
from bcs_scheduler.core.controllers.cluster.offer_manager import OfferManager
from bcs_scheduler.core.controllers.cluster.stand_ins import StandIns
from bcs_scheduler.core.interface.cluster_manager import ListAgents
from bcs_scheduler.core.placement.rebalancing import take_out
from bcs_scheduler.core.placement.whatif.levers import Agents, agents_present
from offers.model import Demand, Diagnosis, Occupant
from offers.resources import SCALARS, amounts_of
from offers.rules.eligibility import DISABLED
from store.advice import advise
from store.ids import object_key
from store.records import AgentSetting, Drain, DrainPhase, TaskGroup
from store.state.reader import StateReader
from transactions import explain, occupancy, resource_request
from transactions.base import Refused, Slot, Step
from transactions.engine.demands import size_of
from transactions.kinds import daemonset, reschedule
from transactions.rules import disruptions
from transactions.rules.draining import RemainingWork, drained_agent, moves_of, remaining_work
from transactions.text import counted

AT_ONCE = 4
"""Agents looked at in one turn."""
MOST_WAITING = 1000
"""Number of waiting slots that are taken into account. While there are more, no taskgroup is ended to be moved: a drain
is not urgent enough to match all waiting slots in each turn."""
MOST_CORDONED = 64
"""Cordoned agents of which it is tried whether they have room."""
MANY_WAIT = 5.0
"""Seconds after which it is tried again whether fewer slots wait."""
BLOCKED = 10.0
"""Seconds without a taskgroup on its way after which a drain counts as blocked."""
REASONS_SHOWN = 3


class Drains:
    """The controller of drains (core.parts). All its state is derived from the records."""

    def __init__(self, turn: TurnContext, offer_manager: OfferManager) -> None:
        self._turn = turn
        self._offer_manager = offer_manager
        self._open: dict[str, None] = {}
        """Keys of the settings whose drains run."""
        self._stand_ins = StandIns(turn)
        self._waits: dict[str, float] = {}
        """Unix seconds since which no taskgroup of an agent has been on its way, by key of the settings."""
        self._next = 0.0
        """Unix seconds of the next request for the list of agents."""
        self._connected = False
        self._wakes = DrainWaits(turn)
        offer_manager.follow(self._wakes.room_came)
        self._asked = False
        """The present look has asked for a place."""
        self._waiting: _Waiting | None = None
        """Demands that wait for a place, matched with the offers while this turn examines drains."""

    def recover(self) -> None:
        """Takes up the drains that the records hold."""
        state = self._turn.state
        self._open.clear()
        self._wakes.clear()
        self._forget_waiting()
        self.notice([("agentsetting", key) for key in state.agent_settings])
        self._stand_ins.recover()

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Follows agent settings with drains, and the transactions that move taskgroups."""
        self._turn.each_change(changed, self._follow)

    def _follow(self, kind: str, key: str) -> None:
        state = self._turn.state
        if kind == "agentsetting":
            setting = state.agent_settings.get(key)
            if setting is not None and setting.drain is not None and not setting.drain.done_at:
                if key not in self._open:
                    self._wakes.begin(key)
                self._open[key] = None
                self._wakes.mark(key)
            else:
                self._open.pop(key, None)
                self._waits.pop(key, None)
                self._wakes.forget(key)
                self._stand_ins.ended(key)
            return
        if kind == "transaction":
            move = state.transactions.get(key)
            if move is not None:
                self._wakes.mark(drained_agent(move))
        self._wakes.notice(kind, key)
        self._stand_ins.notice(kind, key)

    def tick(self) -> None:
        """Looks at the drains for which something has changed, as far as the time of the turn allows."""
        turn = self._turn
        if not self._active:
            return
        if not turn.connected:
            self._connected = False
            return
        if not turn.agents.listed:
            if turn.now >= self._next:
                self._next = turn.now + PERIOD
                turn.emit(ListAgents(cause=turn.cause))
            return
        if not self._connected:
            self._connected = True
            self._wakes.all_changed()
        self._wakes.agents_listed(self._open)
        if self._wakes.placeless:
            self._offer_manager.want()
        try:
            for number, key in enumerate(self._wakes.due(turn.now, AT_ONCE)):
                if number and turn.context.time_is_up():
                    self._wakes.mark(key)
                else:
                    turn.attempt("agent", key, partial(self._go_on, key))
                    turn.cut()
        finally:
            self._forget_waiting()
        self._stand_ins.end_unneeded(self._open)

    @property
    def _active(self) -> bool:
        return bool(self._open) or self._stand_ins.stirred

    def _forget_waiting(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.end()

    def next_timer(self) -> float | None:
        """Unix seconds at which a drain may have to be looked at; None: at no particular time."""
        turn = self._turn
        if not self._active or not turn.connected:
            return None
        if not turn.agents.listed:
            return self._next
        if not self._connected or self._stand_ins.stirred:
            return turn.now
        return self._wakes.next_timer(turn.now)

    # --- one agent --------------------------------------------------------------------------------------------

    def _go_on(self, key: str) -> None:
        turn = self._turn
        setting = turn.state.agent_settings.get(key)
        drain = setting.drain if setting is not None else None
        if setting is None or drain is None or drain.done_at:
            return  # the drain has ended in this turn
        agent_ids = turn.agents_named(key)
        found = remaining_work(turn.state, agent_ids, moves_of(turn.state, key, drain.since), turn.now)
        self._stand_ins.needed(key, found.left, found.arriving)
        self._wakes.looked_at(key, agent_ids, found, (drain.deadline or inf, found.held_until))
        if drain.daemonsets and not found.left:
            for group in found.daemonsets:
                daemonset.end_as_misplaced(turn.context, group)
        staying = 0 if drain.daemonsets else len(found.daemonsets)
        if not agent_ids and drain.phase == "Pending":
            # The drain was requested before the agents were listed.
            self._end(setting, drain, "no agent of this name is listed", failed=True)
        elif not found.left and not found.arriving and (not drain.daemonsets or not found.daemonsets):
            words = f"no taskgroups are left{f' but {staying} of daemonsets' if staying else ''}"
            self._end(setting, drain, words, failed=False)
        elif drain.deadline and turn.now >= drain.deadline:
            why = self._blockers(key, found)
            words = f"its time is over: {counted(len(found.left), 'taskgroup')} left{f'; {why}' if why else ''}"
            self._end(setting, drain, words, failed=True)
        elif (found_so_far := self._move(setting, drain, found)) is not None:
            self._record_phase(setting, drain, *found_so_far)

    def _move(self, setting: AgentSetting, drain: Drain, found: RemainingWork) -> tuple[str, bool] | None:
        """Ends as many as may be on their way, and beside them those that are not ready. Returns how things stand, and
        True if nothing is on its way; None if the time is used up before anything has begun."""
        turn, rules, key = self._turn, disruptions.at(self._turn.context).keep(), setting.agent
        room = (drain.at_once, drain.at_once - found.places)
        started = [0, 0]
        """Numbers of taskgroups that have been ended, as `room` by their price."""
        reasons: dict[str, str] = {}
        kinds = Counter((group.application_key, group.version) for group in found.left)
        present = [group for group in found.left if not group.killing_since]
        unchanged = turn.uow.savepoint()
        self._asked = is_cut = False
        for group in sorted(present, key=lambda group: rules.judge(group, "drain").price):
            if (any(started) or self._asked) and turn.context.time_is_up():
                is_cut = True
                break
            answer, kind = rules.judge(group, "drain"), (group.application_key, group.version)
            wanted = _successor_of(group)
            if started[answer.price] >= room[answer.price]:
                continue
            # Ready taskgroups of a gang below its minimum cost nothing, but wait for stand-ins and places as others do.
            application = turn.state.applications.get(group.application_key)
            serving = application is not None and disruptions.is_serving(application, group)
            stuck_at = inf if serving else disruptions.stuck_at(group)
            stuck = turn.now >= stuck_at
            words = (not stuck and self._wakes.no_place(key, wanted.kind)) or (
                serving
                and (answer.price or not answer.refusal)
                and self._stand_ins.before_end(
                    group, min(drain.at_once, kinds[kind]), partial(self._no_place_beside, key, group)
                )
            )
            words = words or rules.words(group, answer)
            if not (words or stuck):
                words = self._no_place_by_policy(key, wanted)
            if not words:
                words = self._start(setting.agent, group, unready=not serving)
                started[answer.price] += not words
            if not words and self._waiting is not None and (demand := self._demand(group.id, wanted)) is not None:
                self._waiting.add([demand])
            if words:
                reasons[group.id] = words
                self._wakes.look_by(key, self._stand_ins.stuck_at(group.application_key) if serving else stuck_at)
                if answer.refusal in ("Budget", "NoBudget") and application is not None:
                    self._wakes.look_by(key, rules.grows_at(application))
            if turn.uow.savepoint() != unchanged:
                unchanged = turn.uow.savepoint()
                rules.forget()
        self._wakes.ended(key, is_cut=is_cut, has_moved=any(started))
        if is_cut and not any(started):
            return None
        ending = {f"{group.application_key}-{group.index}" for group in found.left if group.killing_since}
        under_way = len(ending.union(found.arriving)) + sum(started)
        words = f"{counted(len(found.left), 'taskgroup')} left, {under_way} on the way"
        if reasons and not any(started):
            words += f"; {_listed(reasons.values())}"
        elif found.arriving and not any(started):
            words += f"; {_listed(f'{name} is not ready yet' for name in found.arriving)}"
        return words, not under_way

    def _start(self, agent: str, group: TaskGroup, *, unready: bool) -> str:
        """Moves a taskgroup. Returns the reason if that is not possible; empty if the move has begun."""
        try:
            reschedule.create(self._turn.context, group, 0.0, drained=agent, unready=unready)
        except Refused as refused:
            return refused.message
        return ""

    def _blockers(self, key: str, found: RemainingWork) -> str:
        rules = disruptions.at(self._turn.context)
        staying = [group for group in found.left if not group.killing_since]
        reasons = [
            rules.reason(group, "drain") or self._no_place_by_policy(key, _successor_of(group))
            for group in staying[:REASONS_SHOWN]
        ]
        return _listed([*filter(None, reasons), *(f"{name} is not ready" for name in found.arriving)])

    def _no_place_by_policy(self, key: str, wanted: _Wanted) -> str:
        """Explains why there is no such place now; empty if there is one. `key`: of the drained agent. Answers that
        nothing has changed are not asked for again."""
        if words := self._wakes.no_place(key, wanted.kind):
            return words
        self._asked = True
        demand = self._demand(f"drain.{int(self._turn.now * 1e9)}", wanted)
        if demand is None:
            return ""
        words, by_policy = self._no_place(demand, wanted), False
        if not words:
            words, by_policy = self._refusal(demand, wanted), True
        if words:
            until = self._turn.now + ASKED_ANEW
            if self._waiting is not None and self._waiting.too_many:
                until = self._turn.now + MANY_WAIT
            elif self._offer_manager.awaited and not by_policy:
                until = self._offer_manager.awaited_until
            self._wakes.refused(key, wanted.kind, NoPlace(words, size_of(demand), by_policy, until))
        return words

    def _no_place_beside(self, key: str, group: TaskGroup, index: int) -> str:
        """The same for a stand-in of this index, which needs room and a part of the limits beside the taskgroup."""
        return self._no_place_by_policy(key, _Wanted(group, Slot(index)))

    def _no_place(self, demand: Demand[Slot], wanted: _Wanted) -> str:
        """Explains why the demand would find no place now, behind all open demands; empty if it would find one.
        Agents that are being drained are cordoned, so they are not used. Without offers the answer is not known, and
        offers are requested."""
        turn = self._turn
        self._offer_manager.want()
        if self._waiting is None:
            self._waiting = _Waiting(turn)
            ending = [demand for demand, _ in self._ending()]
            self._waiting.add([*self._before(), *ending])
            self._wakes.behind([*turn.engine.demands, *(demand.id for demand in ending)])
        if self._waiting.too_many:
            return f"more than {MOST_WAITING} taskgroups wait for a place already"
        found = self._waiting.diagnose(demand, wanted)
        if found is None:
            return ""
        if self._offer_manager.awaited:
            return explain.UNTRIED_WORDS
        agent = self._cordoned_with_room(demand, wanted, found)
        helps = advise("uncordon_for_room", name=agent) if agent else "room on another agent helps"
        return f"no other agent has room for {wanted.name} ({explain.reasons(found)}); {helps}"

    def _cordoned_with_room(self, demand: Demand[Slot], wanted: _Wanted, found: Diagnosis) -> str:
        """The key of a cordoned agent on which the demand would find a place without the cordon, behind no other
        demand; empty if there is none. Agents that are being drained are no choice. Ends the present trial."""
        turn, pool = self._turn, self._turn.pool
        if not found.reasons.get(DISABLED):
            return ""
        self._forget_waiting()
        pool.table.flush()
        disabled = pool.table.active & ~pool.eligibility(demand.rules, demand.role).enabled
        large = (pool.table.free.T[:, : len(SCALARS)] >= amounts_of(demand.request)).all(axis=1)
        rows = (pool.table.rows[number] for number in np.flatnonzero(disabled & large).tolist())
        ids = [row.agent_id for row in rows if row is not None and row.key not in self._open]
        cordoned = Agents(tuple(ids[:MOST_CORDONED]), ())
        if not cordoned.ids:
            return ""
        with agents_present(pool, cordoned, len(cordoned.ids), demand.role):
            places = turn.placer.suppose([demand], wanted.gone(turn.state)).placements
            if not places or self._refusal(demand, wanted):
                return ""
        return next((row.key for row in pool.rows_of(places[0].agent_id)), "")

    def _refusal(self, demand: Demand[Slot], wanted: _Wanted) -> str:
        """Explains why the policy of its role would give the demand no place now, as if the taskgroups that leave for
        it, and those whose moves are in progress, were gone from their agents; empty if it would give one. Room for
        which the policy would end others first is no place."""
        turn = self._turn
        if turn.placer.policy_of(demand.role) is None:
            return ""
        beside = [(one, other) for one, other in self._ending() if one.role == demand.role]
        point = turn.uow.savepoint()
        try:
            for one in (*wanted.leaving, *(other for _, other in beside if not other.ended)):
                take_out(turn, one)
            found = turn.placer.foresee([*(one for one, _ in beside), demand]).result
        finally:
            turn.uow.undo(point)
        if any(placement.demand == demand.id for placement in found.placements):
            return ""
        why = next(
            (explain.reasons(one) for one in found.diagnoses if one.demand == demand.id), "it is kept for others"
        )
        return f"the policy has no place for {wanted.name} ({why})"

    def _before(self) -> list[Demand[Slot]]:
        """Open demands that take their places before a drained taskgroup. Those that a policy decides about are not
        among them: it may hold them back, and `_refusal` asks it about all of them. Of those that the offers did not
        fit one slot tells whether they do now; very many are left to the next pass."""
        engine, placer = self._turn.engine, self._turn.placer
        if len(engine.demands) > MOST_WAITING // 2:
            found = [engine.demands[key] for key in engine.changed_demands if key in engine.demands]
        else:
            found = list(engine.demands.values())
        return [
            demand._replace(slots=demand.slots[:1])
            if demand.id in engine.diagnoses and demand.id not in engine.changed_demands
            else demand
            for demand in found
            if demand.per_agent or demand.promised or placer.policy_of(demand.role) is None
        ]

    def _ending(self) -> list[tuple[Demand[Slot], TaskGroup]]:
        """Returns the demands of taskgroups that will need a place as soon as they have ended here, with the
        taskgroups."""
        state = self._turn.state
        found: list[tuple[Demand[Slot], TaskGroup]] = []
        for move in (move for key in self._open for move in moves_of(state, key)):
            group = state.taskgroups.get(move.taskgroup) if move.active else None
            if group is not None and move.id not in self._turn.engine.demands:
                demand = self._demand(move.id, _successor_of(group))
                if demand is not None:
                    found.append((demand, group))
        return found

    def _demand(self, identity: str, wanted: _Wanted) -> Demand[Slot] | None:
        """The demand of this id for a place; None if the version does not exist any more."""
        ctx, group = self._turn.context, wanted.group
        version = ctx.state.version(group.application_key, group.version)
        if version is None:
            return None
        return resource_request.demand(identity, version, Step((wanted.slot,)), ctx.options.role, ctx.overhead)

    # --- how it stands ----------------------------------------------------------------------------------------

    def _end(self, setting: AgentSetting, drain: Drain, words: str, *, failed: bool) -> None:
        phase: DrainPhase = "Failed" if failed else "Done"
        ended = msgspec.structs.replace(drain, phase=phase, done_at=self._turn.now, message=words, blocked=False)
        self._turn.uow.put(msgspec.structs.replace(setting, drain=ended))
        self._turn.record_event("agent", setting.agent, "DrainFailed" if failed else "DrainFinished", words)

    def _record_phase(self, setting: AgentSetting, drain: Drain, words: str, waits: bool) -> None:
        if not waits:
            self._waits.pop(setting.agent, None)
        now = self._turn.now
        blocked = waits and (drain.blocked or now >= self._waits.setdefault(setting.agent, now) + BLOCKED)
        if waits and not blocked:
            self._wakes.look_by(setting.agent, self._waits[setting.agent] + BLOCKED)
        if blocked and not drain.blocked:
            self._turn.record_event("agent", setting.agent, "DrainBlocked", words)
        going_on = msgspec.structs.replace(drain, phase="Moving", message=words, blocked=blocked)
        if going_on != drain:
            self._turn.uow.put(msgspec.structs.replace(setting, drain=going_on))


class _Wanted(NamedTuple):
    """A place that a drain asks for before it ends a taskgroup: for the successor, or for a stand-in, for which the
    taskgroup does not leave."""

    group: TaskGroup
    slot: Slot

    @property
    def kind(self) -> Kind:
        return self.group.application_key, self.group.version, not self.slot.replaces

    @property
    def name(self) -> str:
        group = self.group
        key = group.application_key
        return object_key(group.namespace, group.name) if self.slot.replaces else f"a stand-in of {key}"

    @property
    def leaving(self) -> tuple[TaskGroup, ...]:
        """The taskgroups that have ended before the place is used."""
        return (self.group,) if self.slot.replaces else ()

    def gone(self, state: StateReader) -> list[Occupant]:
        return [occupancy.counted_only(state, group) for group in self.leaving]


def _successor_of(group: TaskGroup) -> _Wanted:
    return _Wanted(group, Slot(group.index, group.id, moves=True))


class _Waiting:
    """Demands that wait for a place, with the places that they would get now: later questions find only the room beside
    these."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._trial = turn.placer.trial()
        self.too_many = False
        """True if not all waiting demands could be matched."""
        self._count = 0

    def end(self) -> None:
        """Gives the places back."""
        self._trial.undo()

    def add(self, demands: list[Demand[Slot]]) -> None:
        """Gives these demands their places."""
        self._count += sum(len(demand.slots) for demand in demands)
        self.too_many = self._count > MOST_WAITING
        if not self.too_many and demands:
            self._trial.plan(demands)

    def diagnose(self, demand: Demand[Slot], wanted: _Wanted) -> Diagnosis | None:
        """Explains why the demand would find no place after the taskgroup has ended; None if it would find one. The
        room that the taskgroup leaves is not used: its agent accepts nothing while it is drained."""
        found = self._turn.placer.suppose([demand], wanted.gone(self._turn.state), self._trial)
        return next(iter(found.diagnoses), None)


def _listed(reasons: Iterable[str]) -> str:
    every = list(dict.fromkeys(reasons))
    more = f"; and {len(every) - REASONS_SHOWN} more" if len(every) > REASONS_SHOWN else ""
    return "; ".join(every[:REASONS_SHOWN]) + more
