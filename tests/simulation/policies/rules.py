"""What must hold of evictions, and of what waits, under every policy.

I80  nothing is ended for work that its own limits forbid; for old work whose victims end one after the other, those
     that may still end on its agents count as gone
I81  every victim was needed: kept, one taskgroup less of the beneficiary would have its room or its limit; and no agent
     with idle room would have done
I82  no two applications end each other twice without a change from outside, no two queues either, and the cluster comes
     to rest
I83  an entitled queue gets a taskgroup within 300 seconds if one legal victim would help, whose application does not
     pause for it
I84  nothing waits for 300 seconds beside room that fits it and that its limits admit
I85  a drain moves each taskgroup whose budget admits its end and whose successor has a place elsewhere, and then ends
I86  an application for which taskgroups of another one were ended, and that did not start in its time, has no more of
     them ended for a while
I88  room that was made for an application is not given back: no place of another one is ended twice for it before it
     starts something; what starts in the turn of a decision counts, because units of a turn have no order

Where others are ended for work (I80, I81, I83), its limits hold what is promised to others, too (`Queues.admits`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from offers.ledger.holds import GATHERED
from store.records import CRITICAL_CLASSES, ReschedulePayload, TaskGroup, Transaction
from store.state.unit_of_work import Unit
from tests.simulation.budgets import budget
from tests.simulation.policies.presence import SPARED, presence
from tests.simulation.policies.queues import NAMES, Amount, Ask, Promised, Queues, asks, of, version_of
from tests.simulation.policies.world import SHORT, QuietWorld
from tests.simulation.readiness import ready
from tests.simulation.violation import Violation
from transactions.rules.draining import drained_agent

PATIENCE = 300.0
"""Seconds for which work may wait although nothing is in the way."""
FRESH = 3.0
"""Seconds after which the scheduler has the offers of room that has become free."""
NOMINATED = 65.0
"""Seconds from an eviction in which its beneficiary starts, or the pair pauses."""
PAUSED, LONGEST = 300.0, 3600.0
"""Seconds of the first pause of a pair, and of the longest: each takes twice as long as the one before."""
UNREST = 3600.0
"""Seconds without a change from outside after which the cluster must be at rest."""
LOOK = 20.0
CALM, LATE = 30.0, 5.0
"""Seconds of rest without a change after which turns that nothing asks for come so late: each costs as much as one in
which much happens."""


class Rules:
    """The rules of one world."""

    def __init__(self, world: QuietWorld, queues: Queues) -> None:
        self.world, self.queues = world, queues
        world.decided, world.turned, world.changed = self.decided, self.turned, self.changed
        self._ended: defaultdict[tuple[str, str], set[float]] = defaultdict(set)
        """The moments at which an application, or a queue, was ended for another one since the latest change from
        outside. One decision may end work for several applications of a queue."""
        self._waits: dict[tuple[str, str], float] = {}
        """Beneficiary and victim: the first eviction since the beneficiary started something."""
        self._vain: dict[tuple[str, str], tuple[float, int]] = {}
        """The same: the latest one, and how many there were. Changes from outside end no pause."""
        self._made: set[tuple[str, str, int]] = set()
        """Beneficiary, application and index of the taskgroups that were ended for it since it started something."""
        self._judged: Sequence[Unit] = ()
        """The units of the turn that is judged."""
        self._touched: dict[str, float] = {}
        """When room on an agent changed the last time."""
        self._promised: list[Promised] = []
        """The room that was kept before the present turn."""
        self._kept: dict[str, set[str]] = {}
        """The applications whose old work kept an agent before the present turn, by agent."""
        self._moved = world.now
        """When a taskgroup changed the last time."""
        self._left = world.now
        """When an operation ended the last time: its queue may leave a share to others since then."""
        self._resting = False

    def changed(self) -> None:
        """Something changes from outside."""
        self._ended.clear()
        self._waits.clear()
        self._made.clear()
        self._moved = self.world.now

    # --- decisions --------------------------------------------------------------------------------------------

    def decided(self, unit: Unit, before: Mapping[str, TaskGroup]) -> None:
        """Judges the evictions of a unit. `before`: the taskgroups without the changes of the unit."""
        if self._judged is not self.world.units:
            self._judged = self.world.units
            self._started(before)
        victims: dict[str, list[TaskGroup]] = {}
        touched: set[str] = set()
        for change in unit.changes:
            if isinstance(change.record, Transaction) and not change.record.active:
                self._left = self.world.now
            if change.kind != TaskGroup.kind:
                continue
            old, new = before.get(change.key), change.record
            touched.update(group.agent_id for group in (old, new) if isinstance(group, TaskGroup))
            if not isinstance(old, TaskGroup) or not isinstance(new, TaskGroup) or new.ended:
                continue
            if new.end_cause == "Evicted" and old.end_cause != "Evicted":
                victims.setdefault(self._beneficiary(unit, new), []).append(old)
        self.world.counts["taskgroups evicted"] += sum(map(len, victims.values()))
        if victims:
            self.world.counts[SPARED] += self._spared()
            self._touched.update(dict.fromkeys(self._started_and_ended(before), self.world.now))
        for beneficiary, groups in victims.items():
            if beneficiary:
                self._may_be_ended_for(beneficiary, groups)
                self._end_no_pair(beneficiary, groups)
                self._pair_pauses(beneficiary, groups)
                self._room_is_used(beneficiary, groups)
        for agent in touched:
            self._touched[agent] = self._moved = self.world.now

    def _started(self, before: Mapping[str, TaskGroup]) -> None:
        """The applications that start a taskgroup in this turn have used room that was made for them."""
        records = (change.record for unit in self.world.units for change in unit.changes if change.key not in before)
        started = {record.application_key for record in records if isinstance(record, TaskGroup)}
        self._waits = {pair: at for pair, at in self._waits.items() if pair[0] not in started}
        self._vain = {pair: vain for pair, vain in self._vain.items() if pair[0] not in started}
        self._made = {place for place in self._made if place[0] not in started}

    def _started_and_ended(self, before: Mapping[str, TaskGroup]) -> set[str]:
        """The agents on which this turn starts a taskgroup that an update ends at once: its room was not free when
        victims were chosen. The state that is judged is that after the turn."""
        changes = (change for unit in self.world.units for change in unit.changes if change.key not in before)
        groups = (change.record for change in changes if isinstance(change.record, TaskGroup))
        return {group.agent_id for group in groups if group.killing_since}

    def turned(self) -> None:
        """After each turn."""
        self._promised, self._kept = self.queues.promised(), self._kept_now()
        self.world.pause = LATE if self._resting and self.world.now - self._moved > CALM else SHORT

    @staticmethod
    def _beneficiary(unit: Unit, group: TaskGroup) -> str:
        found = (
            change.record.payload.beneficiary
            for change in unit.changes
            if isinstance(change.record, Transaction) and change.record.taskgroup == group.id
            if isinstance(change.record.payload, ReschedulePayload)
        )
        return next(found, "")

    # --- I80, I81 ---------------------------------------------------------------------------------------------

    def _may_be_ended_for(self, beneficiary: str, victims: list[TaskGroup]) -> None:
        waiting = [ask for ask in asks(self.world) if ask.application == beneficiary]
        if not waiting:
            return  # it was withdrawn in the same turn
        self.world.counts["evictions judged"] += 1
        ids = {group.id for group in victims}
        smallest = min(waiting, key=lambda ask: (ask.cpus, ask.mem))
        if not self.queues.may_hold(beneficiary, smallest.amount):
            words = f"{_names(victims)} are ended for {beneficiary}, whose queue may never hold {dict(smallest.amount)}"
            raise Violation("I80", words, beneficiary, *ids)
        gone = self._still_to_end(beneficiary, victims)
        if not self.queues.admits(beneficiary, smallest.amount, gone=gone):
            words = f"{_names(victims)} are ended for {beneficiary}, whose queue has no limit left for it"
            raise Violation("I80", words, beneficiary, *ids)
        self._no_room_is_idle(beneficiary, waiting, victims)
        agents = sorted({group.agent_id for group in victims})
        rooms, amount = self._rooms(leaving=True), waiting[0].amount
        for group in map(self.world.groups.__getitem__, gone):
            if group.agent_id in rooms:
                rooms[group.agent_id].update(of(group))
        closed = self._kept_from(beneficiary, ids).difference(agents, self._kept_for(beneficiary))
        number = sum(_count(amount, free, len(waiting)) for agent, free in rooms.items() if agent not in closed)
        for agent in agents:
            there = [group for group in victims if group.agent_id == agent]
            self._all_are_needed(beneficiary, waiting, there, number)

    def _still_to_end(self, beneficiary: str, victims: list[TaskGroup]) -> set[str]:
        """Ids of the taskgroups that may end after these victims, if the beneficiary keeps agents as old work: their
        budgets do not admit that all end at the same time. Those on the agents that it keeps, and on the agents of the
        victims, which end for the limit of its queue."""
        agents = self._kept_for(beneficiary)
        if not agents:
            return set()
        agents |= {group.agent_id for group in victims}
        there = (group for group in self.world.groups.values() if group.agent_id in agents and not group.ended)
        outranks, own = self.queues.outranks, beneficiary
        others = (group for group in there if group.application_key != own and outranks(own, group.application_key))
        ended = {group.id for group in victims}
        return {group.id for group in others if self.may_end(group, budgets=False)} - ended

    def _no_room_is_idle(self, beneficiary: str, waiting: list[Ask], victims: list[TaskGroup]) -> None:
        """Of a gang all members have to find room, which is not judged here; nor is room that may be kept, as for
        another ask of the beneficiary."""
        ids, ask = {group.id for group in victims}, min(waiting, key=lambda one: (one.cpus, one.mem))
        alike = len({(one.cpus, one.mem) for one in waiting}) == 1
        if self._lacking(beneficiary) > 1 or not self.queues.admits(beneficiary, ask.amount, ids):
            return
        closed = self._kept_from(beneficiary, ids)
        for agent, free in self._rooms().items():
            if self._owners(agent) or self._has_changed(agent) or agent in closed:
                continue
            if not alike and beneficiary in self._keepers(agent):
                continue
            if _fits(ask.amount, free):
                words = f"{_names(victims)} are ended for {beneficiary}, which fits the idle room of {agent}"
                raise Violation("I81", words, beneficiary, *(group.id for group in victims))

    def _kept_from(self, beneficiary: str, victims: Collection[str]) -> set[str]:
        """The agents with room for old work of others, which the beneficiary does not outrank. `victims`: ids of the
        taskgroups that are ended for it."""
        kept, outranks = {*self._kept, *self._kept_now()}, self.queues.outranks
        served = {winner for winner, _ in self._vain}
        return {
            agent
            for agent in kept
            if not all(
                outranks(beneficiary, each, victims, has_victims=each in served)
                for each in self._keepers(agent) - {beneficiary}
            )
        }

    def _all_are_needed(self, beneficiary: str, waiting: list[Ask], victims: list[TaskGroup], number: int) -> None:
        """`number`: of the asks that fit the agents, some of them idle room: the limit has to hold these as well."""
        agent = victims[0].agent_id
        if self._has_changed(agent) or agent in self._kept_from(beneficiary, {group.id for group in victims}):
            return
        if self._owners(agent) - {beneficiary} or len({(ask.cpus, ask.mem) for ask in waiting}) > 1:
            return  # how much of the room is for whom is not known here
        free = self._rooms(leaving=True).get(agent)
        if free is None:
            return
        wanted = _count(waiting[0].amount, free, len(waiting))
        if not wanted and beneficiary in self._keepers(agent):
            return  # others end there after these
        without = free.copy()
        for group in victims:
            without.subtract(of(group))
        alike = len({(group.resources.cpus, group.resources.mem) for group in victims}) == 1
        if not alike and wanted - _count(waiting[0].amount, without, len(waiting)) > 1:
            return  # the victims of one ask may turn out to be needless by those of the next one
        self.world.counts["victims judged"] += len(victims)
        for group in victims:
            less = free.copy()
            less.subtract(of(group))
            if _count(waiting[0].amount, less, len(waiting)) < wanted:
                continue
            admitted = self._admitted(beneficiary, waiting)
            most = min(number, admitted) or admitted  # without room there, the victims are for the limit
            needed = Amount({name: most * waiting[0].amount[name] for name in NAMES})
            # The limit admits none if others end later for old work.
            if most and self.queues.admits(beneficiary, needed, {group.id}):
                words = f"{group.id} is ended for {beneficiary} and is not needed: {wanted} fit {agent} without it"
                raise Violation("I81", words, beneficiary, group.id)

    def _admitted(self, beneficiary: str, waiting: list[Ask]) -> int:
        """How many of the asks, which are alike, the limit of the queue admits."""
        most, amount = 0, waiting[0].amount
        while most < len(waiting) and self.queues.admits(
            beneficiary, Amount({name: (most + 1) * amount[name] for name in NAMES})
        ):
            most += 1
        return most

    # --- I82 --------------------------------------------------------------------------------------------------

    def _end_no_pair(self, beneficiary: str, victims: list[TaskGroup]) -> None:
        queue = self.queues.name(beneficiary)
        pairs = {(group.application_key, beneficiary) for group in victims}
        pairs |= {(f"queue {self.queues.name(group.application_key)}", f"queue {queue}") for group in victims}
        for victim, winner in sorted(pairs):
            if victim == winner:
                continue
            self._ended[victim, winner].add(self.world.now)
            if len(self._ended[victim, winner]) > 1 and len(self._ended[winner, victim]) > 1:
                raise Violation("I82", f"{victim} and {winner} end each other again and again", victim, winner)

    # --- I86 --------------------------------------------------------------------------------------------------

    def _pair_pauses(self, beneficiary: str, victims: list[TaskGroup]) -> None:
        for pair in {(beneficiary, group.application_key) for group in victims}:
            self._vain[pair] = self.world.now, self._vain.get(pair, (0.0, 0))[1] + 1
        # Room that old work gathers in parts is no attempt of its own.
        counted = [group for group in victims if beneficiary not in self._keepers(group.agent_id)]
        for victim in sorted({group.application_key for group in counted}):
            since = self._waits.setdefault((beneficiary, victim), self.world.now)
            if NOMINATED < self.world.now - since < NOMINATED + PAUSED:
                words = f"{victim} is ended again for {beneficiary}, which has started nothing since"
                raise Violation("I86", words, beneficiary, victim)

    def _is_paused(self, beneficiary: str, victim: str) -> bool:
        """Whether nothing of an application may be ended for another one, because that has not helped."""
        if (vain := self._vain.get((beneficiary, victim))) is None:
            return False
        at, number = vain
        return self.world.now - at < NOMINATED + min(PAUSED * 2.0 ** min(number - 1, 4), LONGEST) + LOOK

    # --- I88 --------------------------------------------------------------------------------------------------

    def _room_is_used(self, beneficiary: str, victims: list[TaskGroup]) -> None:
        for group in victims:
            place = (beneficiary, group.application_key, group.index)
            if place in self._made:
                words = f"{group.id} has got the room that was made for {beneficiary}, and is ended for it again"
                raise Violation("I88", words, beneficiary, group.application_key)
            self._made.add(place)

    # --- at rest ----------------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Lets time pass without changes from outside until nothing has moved for longer than anything may wait, and
        judges what waits then."""
        self.changed()
        self._resting = True
        begun = self.world.now
        self._settle(begun, PATIENCE + LOOK)
        waiting = self._waiting()
        if self._kept_now() and (any(self._staying()) or any(self._room_beside(ask, waiting) for ask in waiting)):
            # Room that is gathered for a gang may be kept without progress for so long.
            self._settle(begun, GATHERED + PATIENCE + LOOK)
            waiting = self._waiting()
        self.world.counts["times at rest"] += 1
        self.world.counts["asks at rest"] += len(waiting)
        first: dict[tuple[str, int, int], Ask] = {}
        for ask in waiting:
            first.setdefault((ask.application, ask.cpus, ask.mem), ask)
        for ask in first.values():
            self._has_no_room(ask, waiting)
        victims = {ask: self._victim(ask) for ask in first.values()}
        self._drains_end()
        self.world.counts.update(presence(self.world, self.queues, self._spared()))
        self._victims_end({ask: victim for ask, victim in victims.items() if victim is not None})
        self._resting = False

    def _settle(self, begun: float, seconds: float) -> None:
        """Lets time pass until nothing has moved for so many seconds. `begun`: the moment of the latest change."""
        while self.world.now - self._moved < seconds:
            self.world.pass_time(LOOK)
            if self.world.now - begun > UNREST:
                raise Violation("I82", f"the cluster is not at rest after {UNREST:.0f} seconds")

    def _waiting(self) -> list[Ask]:
        return [ask for ask in asks(self.world) if self.world.now - ask.since > PATIENCE]

    def _spared(self) -> int:
        """Ready taskgroups that only the budget keeps from ending: at rest, and beside victims."""
        groups = (group for group in self.world.groups.values() if not group.ended and ready(group))
        return sum(self.may_end(group, budgets=False) and not self.may_end(group) for group in groups)

    def _has_no_room(self, ask: Ask, waiting: list[Ask]) -> None:
        """I84."""
        if number := self._room_beside(ask, waiting):
            words = f"{number} of {ask.application} wait for more than {PATIENCE:.0f} seconds beside room that fits"
            raise Violation("I84", words, ask.application)

    def _room_beside(self, ask: Ask, waiting: list[Ask]) -> int:
        """The number of taskgroups of the application that wait together beside room that fits them, and that their
        limits admit; 0: there is no such room, or an older ask may keep it."""
        first = self._together(ask.application, waiting)
        if not first or self.queues.waits_for_its_share(ask.application):
            return 0
        if not self.queues.admits(ask.application, _sum(first), promises=False):
            return 0
        self.world.counts["asks within their limits"] += 1
        rooms = self._rooms()
        is_behind = any(one.since < ask.since and _larger(one, ask) and self._may_run(one) for one in waiting)
        if is_behind and not all(_pack(first, _without(rooms, agent)) for agent in rooms):
            return 0  # an old ask may keep one agent for itself
        return len(first) if _pack(first, rooms) else 0

    def _together(self, application: str, waiting: list[Ask]) -> list[Ask]:
        """The asks for which an application needs places at the same time; empty if fewer wait."""
        number = max(1, self._lacking(application))
        found = [one for one in waiting if one.application == application][:number]
        return found if len(found) == number else []

    def _may_run(self, ask: Ask) -> bool:
        """Whether the limits of its queue could admit an ask, and an empty agent hold it: others keep no agent."""
        totals = (agent.machine.total for agent in self.world.cluster._agents.values())
        return self.queues.may_hold(ask.application, ask.amount) and any(_fits(ask.amount, one) for one in totals)

    def _victim(self, ask: Ask) -> TaskGroup | None:
        """A taskgroup that may be ended for an entitled ask, and whose room suffices; None if there is none."""
        version = version_of(self.world, ask.application)
        if version is None or version.preemption_policy == "Never" or self._lacking(ask.application) > 1:
            return None
        if not self.queues.is_entitled(ask.application, ask.amount):
            return None
        if not self.queues.admits(ask.application, ask.amount):
            return None
        self.world.counts["entitled asks at rest"] += 1
        rooms = self._rooms()
        for group in sorted(self.world.groups.values(), key=lambda one: one.id):
            if group.ended or group.application_key == ask.application or group.agent_id not in rooms:
                continue
            free = rooms[group.agent_id] + of(group)
            is_legal = self.may_end(group) and self.queues.may_lose(group, ask)
            if _fits(ask.amount, free) and is_legal and not self._is_paused(ask.application, group.application_key):
                return group
        return None

    def _victims_end(self, victims: dict[Ask, TaskGroup]) -> None:
        """I83. An operation that ended lately left its share to others only then: these have as long as all."""
        until = self._left + PATIENCE
        while victims and self.world.now < until:
            self.world.pass_time(LOOK)
            waiting = self._waiting()
            still = {ask: self._victim(ask) for ask in victims if ask in waiting}
            victims = {ask: victim for ask, victim in still.items() if victim is not None}
        for ask, victim in victims.items():
            words = f"{ask.application} is entitled to a taskgroup, {victim.id} may be ended for it, and is not"
            raise Violation("I83", words, ask.application, victim.id)

    def may_end(self, group: TaskGroup, *, budgets: bool = True) -> bool:
        """Whether a taskgroup may be ended for others (4a of the specification), at rest: no operation places or ends
        anything then. `budgets`: they count."""
        version = version_of(self.world, group.application_key)
        if version is None or self._is_bound(group) or version.priority_class in CRITICAL_CLASSES:
            return False
        members = [one for one in self.world.state.groups_of(group.application_key).values() if not one.ended]
        if version.min_available > 1 and len(members) <= version.min_available:
            return False
        return not budgets or self._admits_end(group)

    def _is_bound(self, group: TaskGroup) -> bool:
        """Whether a taskgroup belongs to its agent."""
        application = self.world.state.applications.get(group.application_key)
        return application is None or application.type == "daemonset"

    def _admits_end(self, group: TaskGroup) -> bool:
        """Whether the budget admits the end of a taskgroup."""
        application = self.world.state.applications[group.application_key]
        if not ready(group):
            return True
        records = {(record.kind, record.key): record for record in self.world.state.records()}
        found = budget(records, application, self.world.now)
        return found.ready > found.least

    # --- I85 --------------------------------------------------------------------------------------------------

    def _drains_end(self) -> None:
        drained = self._drained()
        self.world.counts["drained taskgroups judged"] += sum(len(groups) for *_, groups in drained)
        for agent, since, groups in drained:
            if not groups and not self._is_awaited(agent, since):
                raise Violation("I85", f"the drain of {agent} does not end; nothing is left", agent)
        for group in self._staying():
            raise Violation("I85", f"{group.id} has a place elsewhere, and stays on a drained agent", group.id)

    def _drained(self) -> list[tuple[str, float, list[TaskGroup]]]:
        """The agents whose drains have not ended, the moments at which these began, and the taskgroups there."""
        drains = [(one.agent, one.drain) for one in self.world.state.agent_settings.values() if one.drain]
        groups = [group for group in self.world.groups.values() if not group.ended and not self._is_bound(group)]
        return [
            (agent, drain.since, [group for group in groups if self._name(group.agent_id) == agent])
            for agent, drain in drains
            if not drain.done_at
        ]

    def _staying(self) -> Iterator[TaskGroup]:
        """The taskgroups that drains could move."""
        waiting = asks(self.world)
        for group in (group for *_, groups in self._drained() for group in groups):
            if self._admits_end(group) and self._place_is_left(group, waiting):
                yield group

    def _place_is_left(self, group: TaskGroup, waiting: list[Ask]) -> bool:
        """Whether there is a place for the successor of a taskgroup, with what its gang lacks then, beside the places
        of those that have moved before."""
        own = group.application_key
        plan, mine = Plan(self.queues, self._rooms(), {group.id}), [ask for ask in waiting if ask.application == own]
        lacking = max(0, self._lacking(own))
        for ask in (*(ask for ask in waiting if ask.application != own), *mine[lacking:]):
            if ask.moves:
                plan.take([ask])
        return plan.take([Ask(own, group.resources.cpus, group.resources.mem, 0.0), *mine[:lacking]])

    def _is_awaited(self, agent: str, since: float) -> bool:
        """Whether an application that a drain has moved from an agent since this moment waits for a place (I84), or has
        a taskgroup that is not ready. The drain waits for it, without end: an operator wants to know before the agent
        goes."""
        late = {ask.application for ask in asks(self.world)}
        late |= {one.application_key for one in self.world.groups.values() if not (one.ended or ready(one))}
        moves = (one for one in self.world.state.transactions.values() if drained_agent(one) == agent)
        return any(one.created_at >= since and one.application_key in late for one in moves)

    # --- rooms ------------------------------------------------------------------------------------------------

    def _lacking(self, application: str) -> int:
        """Taskgroups that a gang lacks to its minimum; 0 or 1: each taskgroup counts by itself."""
        version, record = version_of(self.world, application), self.world.state.applications.get(application)
        if version is None or record is None or version.min_available < 2:
            return 0
        there = sum(not group.ended for group in self.world.state.groups_of(application).values())
        return min(version.min_available, record.instances) - there

    def _rooms(self, *, leaving: bool = False) -> dict[str, Amount]:
        """Free amounts of the agents that take work. `leaving`: what is being ended counts as free."""
        found = {}
        for identity, agent in self.world.cluster._agents.items():
            setting = self.world.state.agent_settings.get(self._name(identity))
            if setting is None or not (setting.disabled or setting.drain):
                found[identity] = Amount({name: agent.machine.total[name] for name in NAMES})
        for group in self.world.state.taskgroups.values():
            if group.agent_id in found and not group.ended and not (leaving and group.killing_since):
                found[group.agent_id].subtract(of(group))
        for demand, placement in self.world.core._offer_manager.placing._launcher.placements():
            if placement.agent_id in found:
                found[placement.agent_id].subtract({"cpus": demand.request.cpus, "mem": demand.request.mem})
        return found

    def _has_changed(self, agent: str) -> bool:
        """Whether room on an agent has changed a moment ago, so that the scheduler may not have its offers yet."""
        return self.world.now - self._touched.get(agent, 0.0) < FRESH

    def _owners(self, agent: str) -> set[str]:
        """The applications for which room on an agent is or was kept."""
        return {one.application for one in (*self._promised, *self.queues.promised()) if one.agent == agent}

    def _kept_now(self) -> dict[str, set[str]]:
        """The applications whose old work keeps an agent, by agent."""
        found: dict[str, set[str]] = {}
        for room in self.world.core._offer_manager.placing.agent_holds():
            found.setdefault(room.agent, set()).add(room.application)
        return found

    def _kept_for(self, application: str) -> set[str]:
        """The agents that old work of an application keeps or kept."""
        return {agent for agent in (*self._kept, *self._kept_now()) if application in self._keepers(agent)}

    def _keepers(self, agent: str) -> set[str]:
        """The applications whose old work keeps or kept an agent."""
        return self._kept.get(agent, set()) | self._kept_now().get(agent, set())

    def _name(self, agent: str) -> str:
        known = self.world.cluster._agents.get(agent)
        return str(known.machine.attributes["InnerIP"]) if known is not None else ""


class Plan:
    """Places that work would get one after the other, within the limits, as if some taskgroups were gone."""

    def __init__(self, queues: Queues, rooms: dict[str, Amount], gone: Collection[str]) -> None:
        self._queues, self._rooms, self._gone = queues, rooms, gone
        self._taken: dict[str, Amount] = {}

    def take(self, wanted: list[Ask]) -> bool:
        """Whether there are places for all of these, which are of one application; they are taken."""
        application, amount = wanted[0].application, _sum(wanted)
        left = _pack(wanted, self._rooms)
        admits = partial(self._queues.admits, gone=self._gone, planned=self._taken, promises=False)
        if left is None or not admits(application, amount):
            return False
        self._rooms = left
        self._taken.setdefault(application, Amount()).update(amount)
        return True


def _names(groups: list[TaskGroup]) -> str:
    return ", ".join(sorted(group.id for group in groups))


def _larger(one: Ask, other: Ask) -> bool:
    return one.cpus > other.cpus or one.mem > other.mem


def _fits(wanted: Amount, free: Mapping[str, int]) -> bool:
    return all(wanted[name] <= free[name] for name in NAMES if wanted[name])


def _sum(wanted: list[Ask]) -> Amount:
    return Amount({name: sum(getattr(ask, name) for ask in wanted) for name in NAMES})


def _count(wanted: Amount, free: Amount, most: int) -> int:
    """How many of a kind fit."""
    return min([most, *(free[name] // wanted[name] for name in NAMES if wanted[name])])


def _without(rooms: dict[str, Amount], agent: str) -> dict[str, Amount]:
    return {name: free for name, free in rooms.items() if name != agent}


def _pack(wanted: list[Ask], rooms: dict[str, Amount]) -> dict[str, Amount] | None:
    """The rooms that are left when all have one, the largest first, each where the least is left; None: they have
    not."""
    left = {agent: free.copy() for agent, free in rooms.items()}
    for ask in sorted(wanted, key=lambda one: (-one.cpus, -one.mem)):
        fitting = [agent for agent, free in left.items() if _fits(ask.amount, free)]
        if not fitting:
            return None
        left[min(fitting, key=lambda agent: (left[agent]["cpus"], agent))].subtract(ask.amount)
    return left
