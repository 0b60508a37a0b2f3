"""The world with the policy `session`: users ask for priorities, gangs and queues, and rules that hold of sessions.

I40  a gang of which nothing runs is planned with its minimum or not at all; a restart waits for no other taskgroup
I41  evictions leave the taskgroups ready that the disruption budget asks for
I42  an evicted taskgroup has a transaction that looks for another place, and was less urgent than its beneficiary if
     both are of the same queue
I43  the snapshot that is kept from session to session equals one that is made from nothing

The rules of queues (I44 to I46) are in tests.simulation.queues.

These worlds have seeds of their own (`simulate(..., sessions=True)`), so that the others stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from bcs_scheduler.core.options import CoreOptions
from offers.policy.session.configuration import policy_of
from store.records import Application, Record, ReschedulePayload, TaskGroup, Transaction, Version
from store.state.unit_of_work import Unit
from tests.simulation.budgets import budget, counts
from tests.simulation.driver import Term
from tests.simulation.queues import Queues, queue_of
from tests.simulation.violation import Violation
from tests.simulation.world import World
from tests.snapshots import outdated

POLICY = policy_of(
    {
        "actions": "reclaim, allocate, backfill, preempt",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
            {"plugins": [{"name": "drf"}, {"name": "predicates"}, {"name": "proportion"}, {"name": "nodeorder"}]},
        ],
        "session": {"nominationSeconds": 10},
    }
)
Records = dict[tuple[str, str], Record]
COMPARED = 10
"""Turns between two comparisons of the snapshot that is kept (I43)."""


def with_sessions(options: CoreOptions) -> CoreOptions:
    return replace(options, policy=POLICY, session_period=0.5)


def asked(world: World) -> dict[str, Any]:
    """What the users of such a world add to a definition."""
    return {
        "priority": world.pick((0, 0, 5, 9)),
        "min_available": world.pick((0, 0, 0, 2, 3)),
        "max_unavailable": world.pick((0, 2, 3, 4)),
    }


class _Before(NamedTuple):
    """The state of a term after a turn."""

    there: set[str]
    """Applications of which something runs or is planned."""
    known: set[str]
    """All taskgroups: one that comes back is not planned anew."""
    instances: dict[str, int]
    """Wanted taskgroups by application: a scale may begin after the launch of a gang."""

    @classmethod
    def of(cls, term: Term, there: Iterable[str]) -> _Before:
        state = term.core.state
        wanted = {key: application.instances for key, application in state.applications.items()}
        return cls(set(there), set(state.taskgroups), wanted)


class Sessions:
    """Looks at nothing in worlds with another policy."""

    def __init__(self, world: World, options: CoreOptions) -> None:
        self.world = world
        self._options = options
        kinds = {part.kind for part in options.parts()}
        self._asked, self._sessions = kinds != {"simple"}, "session" in kinds
        self._queues = Queues(world)
        self._turns = 0
        self._restarted: set[str] = set()
        """Taskgroups that reschedules have launched. Each is an operation by itself (decision 46), so the restart of
        one is no plan of the gang."""
        self._terms: dict[int, _Before] = {}
        """The state after the turn before, by epoch: a leader that does not know its successor works beside it."""

    def leading(self, term: Term) -> None:
        """A term begins."""
        self._terms[term.epoch] = _Before.of(term, (group.application_key for group in _present(term)))

    # --- I41, I42 ---------------------------------------------------------------------------------------------

    def decided(self, before: Records, unit: Unit) -> None:
        if not self._asked:
            return
        after = {(change.kind, change.key): change.record for change in unit.changes}
        self._note_restarts(before, unit)
        evicted: dict[str, list[TaskGroup]] = {}
        for change in unit.changes:
            old, new = before.get((change.kind, change.key)), change.record
            if not isinstance(new, TaskGroup) or new.end_cause != "Evicted" or new.ended:
                continue
            if isinstance(old, TaskGroup) and old.end_cause != "Evicted":
                evicted.setdefault(new.application_key, []).append(old)
        if self._sessions:
            self._queues.decided(unit)
        if not evicted:
            return
        records: Records = {**before, **{name: record for name, record in after.items() if record is not None}}
        for key, groups in evicted.items():
            self.world.counts["taskgroups evicted"] += len(groups)
            self._budget_holds(before, unit, key, groups)
            for group in groups:
                self._is_looked_after(records, key, group)
        if self._sessions:
            victims = [group for groups in evicted.values() for group in groups if self._is_of_sessions(group.role)]
            self._queues.evicted(before, records, victims)

    def _is_of_sessions(self, role: str) -> bool:
        return self._options.part_of(role).kind == "session"

    def _budget_holds(self, before: Records, unit: Unit, key: str, evicted: list[TaskGroup]) -> None:
        application = before[("application", key)]
        assert isinstance(application, Application)
        lost = sum(counts(application, group) for group in evicted)
        if not lost:
            return  # taskgroups that are not ready spend no budget
        moves = {group.id for group in evicted}
        made = [t.created_at for c in unit.changes if isinstance(t := c.record, Transaction) and t.taskgroup in moves]
        if not made:
            return  # I42 says that no transaction looks for other places
        found = budget(before, application, max(made))
        left = found.ready - lost
        if left < found.least:
            words = f"evictions leave {left} of {found.places} of {key} ready, {found.least} must stay"
            raise Violation("I41", words, key, *(group.id for group in evicted))

    def _is_looked_after(self, records: Records, key: str, group: TaskGroup) -> None:
        found = [t for t in records.values() if isinstance(t, Transaction) and t.active and t.taskgroup == group.id]
        if len(found) != 1 or not isinstance(found[0].payload, ReschedulePayload):
            raise Violation("I42", f"{group.id} is evicted, and no transaction looks for another place", group.id)
        if not self._is_of_sessions(group.role):
            return  # the tree has rules of its own (tests.simulation.trees)
        beneficiary = found[0].payload.beneficiary
        if queue_of(records, group.namespace) != queue_of(records, beneficiary.partition("/")[0]):
            return  # priorities do not matter between queues
        if self._priority(records, key) >= self._priority(records, beneficiary):
            words = f"{group.id} is evicted for {beneficiary}, which is not more urgent"
            raise Violation("I42", words, group.id, beneficiary)

    @staticmethod
    def _priority(records: Records, key: str) -> int:
        application = records.get(("application", key))
        assert isinstance(application, Application), key
        version = records[("version", f"{key}/{application.version}")]
        assert isinstance(version, Version)
        return version.priority

    # --- I40 --------------------------------------------------------------------------------------------------

    def turned(self, term: Term) -> None:
        if not self._asked:
            return
        state, before = term.core.state, self._terms[term.epoch]
        there: dict[str, int] = {}
        fresh: set[str] = set()
        for _, placement in term.core._offer_manager.placing._launcher.placements():
            transaction = state.transactions[placement.demand]
            key = transaction.application_key
            there[key] = there.get(key, 0) + 1
            if transaction.type != "RESCHEDULE":
                fresh.add(key)
        for group in _present(term):
            key = group.application_key
            there[key] = there.get(key, 0) + 1
            if group.id not in before.known and group.id not in self._restarted:
                fresh.add(key)
        for key in fresh:
            reserved = key in state.managed_applications  # its taskgroups take over room that is held for all of them
            if key not in before.there and not reserved:
                self._is_whole(term, key, there[key])
        self._terms[term.epoch] = _Before.of(term, there)
        if self._sessions:
            self._queues.turned(term, fresh, self._is_of_sessions)
        self._turns += 1
        if self._turns % COMPARED == 0 and term.core.turn_context.connected:
            self._kept_is_fresh(term)

    # --- I43 --------------------------------------------------------------------------------------------------

    def _kept_is_fresh(self, term: Term) -> None:
        self.world.counts["snapshots compared"] += 1
        different = outdated(term.core)
        if different:
            raise Violation("I43", f"the snapshot is out of date: {'; '.join(different)}")

    def _note_restarts(self, before: Records, unit: Unit) -> None:
        """The unit that writes the new taskgroup also writes the reschedule, which names the old one."""
        replaced = {
            (old.application_key, old.index)
            for change in unit.changes
            if isinstance(change.record, Transaction) and change.record.type == "RESCHEDULE"
            if isinstance(old := before.get(("taskgroup", change.record.taskgroup)), TaskGroup)
        }
        for change in unit.changes:
            new = change.record
            if not isinstance(new, TaskGroup) or ("taskgroup", new.id) in before:
                continue
            if (new.application_key, new.index) in replaced:
                self._restarted.add(new.id)

    @staticmethod
    def _roles(term: Term, key: str) -> set[str]:
        """Roles of the taskgroups of an application that are there or wait."""
        waiting = {one.role for one in term.core.turn_context.engine.demands.values() if one.application == key}
        return waiting | {group.role for group in term.core.state.groups_of(key).values() if not group.ended}

    def _is_whole(self, term: Term, key: str, count: int) -> None:
        application = term.core.state.applications[key]
        version = term.core.state.version(key, application.version)
        wanted = min(application.instances, self._terms[term.epoch].instances.get(key, application.instances))
        # A user may ask for the update of fewer taskgroups than the application wants.
        active = term.core.state.active_of(key).values()
        wanted = min(wanted, *(update.target for update in active if update.type == "UPDATE"), wanted)
        # The slots of taskgroups that have ended, or whose agents are away, wait for restarts of their own.
        wanted -= sum(bool(one.ended or one.unreachable_since) for one in term.core.state.groups_of(key).values())
        least = min(version.min_available, wanted) if version is not None else 0
        if least > 1 and len(self._roles(term, key)) > 1:
            self.world.count("gangs in several roles")  # each role decides by itself
        elif least > 1:
            self.world.count("gangs planned")
            if count < least:
                raise Violation("I40", f"{count} of the gang {key} of at least {least} are planned", key)


def _present(term: Term) -> list[TaskGroup]:
    """The taskgroups that run, or may run, on agents that are reachable."""
    return [g for g in term.core.state.taskgroups.values() if not (g.ended or g.unreachable_since)]
