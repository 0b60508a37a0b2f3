"""Follows managed applications: facts from records become facts of their gangs, and the wishes of gangs become
records.

A gang is changed in one unit together with its records. Everything else follows from the records: which placeholders
and tasks run as applications, which of these are deleted, and which slots may be placed. After a crash or a failure a
gang is loaded again and all of it is looked at, so no step of it can be lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.holds.placeholders import HeldPlaceholders, KeptPlaceholders
from bcs_scheduler.core.controllers.managed.gangs import Gangs, Unit, reserved_in, task_of
from bcs_scheduler.core.controllers.managed.gate import SlotGate
from bcs_scheduler.core.controllers.managed.reservations import Reservations, is_same, is_undecided, why
from bcs_scheduler.core.controllers.managed.sums import SumsCheck
from bcs_scheduler.core.controllers.managed.units import Carrying, Observing
from bcs_scheduler.core.work_queue import WorkQueue
from offers.policy.applications.gang import Gang, settle_together
from offers.policy.applications.records import NoticeCode
from offers.policy.applications.tables import TERMINATED, AppState, CoreState
from store import ids
from store.ids import part_key
from store.reasons import EventReason
from store.records import ManagedApplication, ManagedTask, Placeholder, PodGroup
from transactions.rules.gangs import is_reserved_by_group
from transactions.text import counted, duration

AFTER_FAILURE = 5.0
"""Seconds until a managed application is looked at again after an unexpected error."""
QUIET = 120.0
"""Seconds between two looks for new work of managed applications: a cluster without any says so at this pace."""
NOTICES: dict[NoticeCode, EventReason] = {
    NoticeCode.PLACEHOLDER_INCOMPATIBLE: "PlaceholderIncompatible",
    NoticeCode.RESERVATION_TIMEOUT: "ReservationTimedOut",
    NoticeCode.APPLICATION_REJECTED: "ReservationRejected",
    NoticeCode.CREATION_FAILED: "PlaceholderIncompatible",
    NoticeCode.MEMBER_MISSING: "ReservationEnded",
}
ENDS = (NoticeCode.RESERVATION_TIMEOUT, NoticeCode.MEMBER_MISSING)
"""Notices about the end of a reservation without all its room."""
MANAGED = frozenset({ManagedApplication.kind, ManagedTask.kind, Placeholder.kind})


class ManagedApplications:
    """The controller. Without records of managed applications and without the setting for reservations it does
    nothing."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._gangs = Gangs(turn)
        self._reservations = Reservations(turn, self._gangs)
        self._observing = Observing(turn, self._gangs)
        self._carrying = Carrying(turn, self._gangs)
        self._sums = SumsCheck(turn)
        self._placeholders = (KeptPlaceholders(turn), HeldPlaceholders(turn))
        self._work = WorkQueue()
        self._groups = WorkQueue()
        """Groups of applications whose reservations are compared with their members."""
        self._unseen: list[str] = []
        """Keys of applications whose reservations the leader before may not have begun."""
        self._settling: dict[str, tuple[ManagedApplication, bool]] = {}
        """The managed applications that are being settled, and whether they were just loaded."""
        self._touched: dict[str, dict[tuple[Unit, int], None]] = {}
        """Units whose taskgroups have changed, with the index of the taskgroup, by managed application."""
        self._tasks: dict[str, dict[str, None]] = {}
        """Keys of tasks that have changed, by managed application."""
        self._quiet_at, self._had_work = turn.now + QUIET, False
        """Unix seconds of the next report that there is no work, and whether there was any since the last one."""
        self.gate = SlotGate(turn, self._gangs)

    @property
    def _idle(self) -> bool:
        turn = self._turn
        return not (turn.options.placeholders != "off" or turn.state.managed_applications or self._carrying.busy)

    def recover(self) -> None:
        """Takes up all managed applications, and the placeholders that belong to none."""
        for known in (self._gangs, self._reservations, self._work, self._groups, self._touched, self._tasks):
            known.clear()
        self._settling = {}
        self._quiet_at, self._had_work = self._turn.now + QUIET, False
        self._sums.begin()
        managed = self._turn.state.managed_applications
        self._turn.each("application", managed, lambda key: self._gangs.follow(managed[key]))
        self._work.mark(*managed)
        self._groups.mark(*self._reservations.groups())
        self._unseen = self._reservations.unseen()
        self._carrying.recover()
        for holders in self._placeholders:
            holders.recover()

    def next_timer(self) -> float | None:
        """Unix seconds of the next look; None if no managed application waits for a moment."""
        times = [holders.next_timer() for holders in self._placeholders]
        if self._idle:
            return min((at for at in times if at is not None), default=None)
        is_behind = self._carrying.busy or self._work.is_marked or self._groups.is_marked
        times += [self._work.first(), self._groups.first(), self._turn.now if is_behind else None]
        if self._turn.state.managed_applications:
            times += [self._quiet_at, self._sums.next_wake]
        return min((at for at in times if at is not None), default=None)

    def tick(self) -> None:
        """Looks at managed applications whose time has come."""
        for holders in self._placeholders:
            holders.tick()
        if self._idle:
            return
        self._work.mark(*self._carrying.go_on())
        self._work.mark_due(self._turn.now)
        self._groups.mark_due(self._turn.now)
        unseen, self._unseen = self._unseen, []
        self._turn.each("application", unseen, self._reservations.consider)
        self._settle_groups()
        self._settle_marked()
        self._note_quiet()
        self._sums.go_on()

    def notice(self, changed: Sequence[tuple[str, str]]) -> None:
        """Looks at the managed applications that the changes concern."""
        for holders in self._placeholders:
            holders.notice(changed)
        if self._idle:
            return
        self._turn.each_change(changed, self._follow)
        if self._turn.context.time_is_up():
            return
        self._settle_groups()
        self._settle_marked()
        if self._carrying.busy and not self._turn.context.time_is_up():
            self._work.mark(*self._carrying.go_on())

    def _follow(self, kind: str, key: str) -> None:
        units_, state = self._gangs.units, self._turn.state
        if kind == "taskgroup":
            unit = units_.get(ids.application_of(key))
            if unit is not None:
                self._touch(unit, ids.index_of(key))
        elif kind == "application":
            self._consider(key)
            self._carrying.discard_if_surplus(key)
            unit = units_.get(key)
            if unit is not None:
                self._touch(unit, 0)
                if unit.kind == "task" and key not in state.applications:
                    self._changed(ManagedTask.kind, part_key(unit.gang, unit.name))
        elif kind == "transaction":
            transaction = state.transactions.get(key)
            unit = units_.get(transaction.application_key) if transaction is not None else None
            if unit is not None:
                self._touch(unit, 0)
        elif kind == PodGroup.kind:
            self._groups.mark(key)
        elif kind in MANAGED:
            self._changed(kind, key)

    def _consider(self, application: str) -> None:
        """The application is new or has changed."""
        self._reservations.consider(application)
        group = self._reservations.group_of(application)
        if group:
            self._groups.mark(group)

    def _touch(self, unit: Unit, index: int) -> None:
        self._touched.setdefault(unit.gang, {})[unit, index] = None
        self._work.mark(unit.gang)

    def _changed(self, kind: str, key: str) -> None:
        state = self._turn.state
        if kind == ManagedTask.kind:
            task = state.managed_tasks.get(key)
            if task is not None:
                self._gangs.add_task(task)
                self._tasks.setdefault(task.application_key, {})[key] = None
                self._work.mark(task.application_key)
        elif kind == ManagedApplication.kind:
            record = state.managed_applications.get(key)
            if record is not None and not record.manager and key not in self._gangs.units:
                self._gangs.follow(record)
            self._work.mark(key)

    # --- one managed application ------------------------------------------------------------------------------

    def _settle_marked(self) -> None:
        """Settles marked ones, one at least, until the time of the turn for this is over; the others follow later:
        very many reservations may end at one moment."""
        for key in self._work.ready(self._turn.now):
            self._settling = {}
            failure = self._turn.attempt("application", key, partial(self._settle_gang, key))
            if failure is not None:
                self._failed(key)
            else:
                self._turn.cut()
            if self._turn.context.time_is_up():
                break

    def _failed(self, *keys: str) -> None:
        """The changes are undone: the gangs are made from their records later."""
        for key in dict.fromkeys((*keys, *self._settling)):
            self._gangs.unload(key)
            self._work.put(key, self._turn.now + AFTER_FAILURE)

    def _settle_gang(self, key: str) -> None:
        record = self._turn.state.managed_applications.get(key)
        if record is None or not self._reservations.is_needed(record):
            self._end(key, record)
            return
        gang = self._facts(record)
        if record.pod_group:
            self._settle_group(record, gang)
        self._write_settled()

    def _facts(self, record: ManagedApplication) -> Gang:
        """The gang of the record with all facts about it. `_write_settled` writes its changes."""
        key = record.key
        gang = self._gangs.loaded.get(key)
        fresh = gang is None
        self._settling[key] = (record, fresh)
        if gang is None:
            gang = self._gangs.load(record)
        self._pass_tasks(record, gang)
        self._obey(record, gang)
        touched = self._touched.pop(key, {})
        self._observing.all_of(gang) if fresh else self._observing.some_of(gang, touched)
        gang.tick(self._turn.now)
        return gang

    def _write_settled(self) -> None:
        for key, (record, fresh) in self._settling.items():
            self._write(record, self._gangs.loaded[key], fresh)

    def _write(self, record: ManagedApplication, gang: Gang, fresh: bool) -> None:
        key, before = record.key, record.state
        changes = self._gangs.save(record, gang)
        self._report(record, before, gang)
        if fresh:
            self._carrying.all_of(record, gang)
        self._carrying.some_of(record, gang, changes)  # placeholders that have just left the gang are in no other list
        self._fail(record, gang)
        if gang.record.core.state == CoreState.EXPIRED or record.wanted == "remove":
            self._remove(record, gang)
        at = self._observing.next_wake(gang)
        if at is not None:
            self._work.put(key, at)
        else:
            self._work.drop(key)

    def _pass_tasks(self, record: ManagedApplication, gang: Gang) -> None:
        """A new application is submitted; tasks that the manager has added or ended since are passed on."""
        state, now = self._turn.state, self._turn.now
        if not record.state:
            gang.submit(now)
        for key in self._tasks.pop(record.key, {}):
            task = state.managed_tasks.get(key)
            if task is None:
                continue
            if task.name not in gang.members:
                gang.add_task(task_of(task), now)
                self._had_work = True
            if task.done:
                gang.ended(task.name, now)
            if task.removed and self._carrying.delete_unit(task) and task.name in gang.members:
                gang.remove_task(task.name)

    def _obey(self, record: ManagedApplication, gang: Gang) -> None:
        if record.wanted in ("complete", "remove") and gang.record.manager.state != AppState.COMPLETED:
            gang.complete(self._turn.now)
        elif record.wanted == "fail":
            gang.fail(self._turn.now, record.wanted_cause)

    def _report(self, record: ManagedApplication, before: str, gang: Gang) -> None:
        turn, after = self._turn, str(gang.record.manager.state)
        for notice in gang.take_notices():
            reserves = not record.manager and notice.code in ENDS
            words = why(record, notice.code) if reserves else notice.message
            turn.record_event("application", record.key, NOTICES[notice.code], words)
        if before == after:
            return
        if after == AppState.RESERVING:
            self._had_work = True
            number = len(gang.placeholders)
            turn.record_event("application", record.key, "ReservationStarted", f"{number} placeholders are launched")
        elif before == AppState.RESERVING and after == AppState.RUNNING:
            turn.record_event("application", record.key, "ReservationComplete", "every placeholder holds its room")
        if record.manager:
            words = f"{before or AppState.NEW} to {after}"
            turn.record_event("application", record.key, "ManagedApplicationChanged", words)

    def _fail(self, record: ManagedApplication, gang: Gang) -> None:
        """A reservation that has failed ends the launch that waits for it."""
        if not record.manager and gang.record.core.state in (CoreState.FAILED, CoreState.REJECTED):
            self._reservations.fail(record, gang.record.cause)

    def _remove(self, record: ManagedApplication, gang: Gang) -> None:
        """Removes an application of a manager when its work has ended: first the units, then the records."""
        left = [member for member in gang.members.values() if member.life.state not in TERMINATED]
        if left or gang.placeholders:
            return
        if self._carrying.delete_units(record):
            self._end(record.key, record)

    def _end(self, key: str, record: ManagedApplication | None) -> None:
        """Removes the records of a managed application. Its placeholders are deleted."""
        state, turn = self._turn.state, self._turn
        if record is not None:
            for name in list(state.indexes.managed_by("placeholder", key)):
                self._carrying.discard(name)
                turn.uow.delete(state.placeholders[name])
            for name in self._gangs.task_keys(key):
                turn.uow.delete(state.managed_tasks[name])
            turn.uow.delete(record)
            if not record.manager:
                turn.engine.queue_steps(state.active_of(key))
            if record.pod_group and is_undecided(record):
                self._groups.mark(record.pod_group_key)
        self._gangs.forget(key)
        self._work.forget(key)
        self._touched.pop(key, None)
        self._tasks.pop(key, None)

    # --- the reservations of a group --------------------------------------------------------------------------

    def _settle_group(self, record: ManagedApplication, gang: Gang) -> None:
        """The reservations of a group leave their first state together: all of them are complete, or one has ended. The
        others are looked at only then."""
        if not (is_undecided(record) and (gang.reserved or not gang.reserving)):
            return
        others = [other for other in reserved_in(self._turn.state, record.pod_group_key) if other.key != record.key]
        if gang.reserved and not all(map(self._is_reserved, others)):
            return
        gangs = [gang, *(self._facts(other) for other in others)]
        settle_together(gangs, self._turn.now)
        if gang.reserving:
            return
        if gang.record.cause:
            self._report_group(record.pod_group_key, "GroupReservationEnded", why(record, gang.record.cause))
        else:
            words = f"room is held by {counted(sum(len(gang.placeholders) for gang in gangs), 'placeholder')}"
            self._report_group(record.pod_group_key, "GroupReservationComplete", words)

    def _is_reserved(self, record: ManagedApplication) -> bool:
        """True if every placeholder holds its room. One that was not looked at yet is looked at later."""
        gang = self._gangs.loaded.get(record.key)
        return gang is not None and gang.reserved and self._reservations.is_needed(record)

    def _settle_groups(self) -> None:
        for group in self._groups.ready(self._turn.now):
            self._settling = {}
            failure = self._turn.attempt("podgroup", group, partial(self._align, group))
            if failure is not None:
                self._failed()
                self._groups.put(group, self._turn.now + AFTER_FAILURE)
            else:
                self._turn.cut()
            if self._turn.context.time_is_up():
                break

    def _align(self, group: str) -> None:
        """Begins the reservations of a group, or ends them if the group or its members are others now."""
        turn = self._turn
        present = reserved_in(turn.state, group)
        waits = any(map(is_undecided, present))
        if not waits and (present or turn.options.placeholders == "off"):
            self._reservations.follow_group(group, waits=False)
            return
        records = self._reservations.of_group(group)
        if not present and records:
            self._reservations.begin_group(records)
            number = sum(record.task_groups[0].min_member for record in records.values())
            words = f"{counted(number, 'placeholder')} for {counted(len(records), 'application')}"
            self._report_group(group, "GroupReservationStarted", words)
        elif present and not is_same(present, records):
            self._end_group(group, present, records)
            return
        self._reservations.follow_group(group, waits=bool(records))

    def _end_group(self, group: str, present: list[ManagedApplication], records: dict[str, ManagedApplication]) -> None:
        """The reservations cannot continue. A group that still asks for them begins anew when it can. With style Hard
        the launches fail if it cannot now."""
        if present[0].style == "Hard" and not records and is_reserved_by_group(self._turn.state, group):
            for record in filter(is_undecided, present):
                if self._reservations.is_needed(record):
                    self._facts(record).give_up(NoticeCode.MEMBER_MISSING, self._turn.now)
                else:
                    self._end(record.key, record)
            self._write_settled()
            words = why(present[0], NoticeCode.MEMBER_MISSING)
        else:
            for record in present:
                self._end(record.key, record)
            words = "the group or its members have changed"
        self._report_group(group, "GroupReservationEnded", words)
        self._groups.mark(group)

    def _report_group(self, group: str, reason: EventReason, words: str) -> None:
        if group in self._turn.state.pod_groups:
            self._turn.record_event("podgroup", group, reason, words)

    # --- all of them ------------------------------------------------------------------------------------------

    def _note_quiet(self) -> None:
        turn, quiet = self._turn, not self._had_work
        if turn.now < self._quiet_at:
            return
        self._quiet_at, self._had_work = turn.now + QUIET, False
        if quiet and turn.state.managed_applications:
            words = f"no outstanding applications for {duration(QUIET)}"
            turn.record_event("framework", turn.state.framework.id, "NoOutstandingApplications", words)
