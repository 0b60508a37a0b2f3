"""The life of an application with or without task groups: reservation, swap, time-out, completion, recovery.

Each fact has a method, which changes records; `take_changes` gives the changes for one commit. A fact may be reported
twice. After a crash `Gang.restored` makes the same gang from its records and from the placeholders that exist.

Source of the rules: gang scheduling of Apache YuniKorn; docs/decisions/0045-application-managers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from offers.policy.applications.gangs.effects import (
    Create,
    Effect,
    Engine,
    Kill,
    Launch,
    Notice,
    NoticeCode,
    Release,
    Traits,
)
from offers.policy.applications.gangs.records import (
    Counter,
    GangRecord,
    MemberRecord,
    PlaceholderRecord,
    Record,
    Way,
)
from offers.policy.applications.gangs.recovery import Existing, compare
from offers.policy.applications.gangs.settling import (
    COMPLETING_SECONDS,
    end_reservation,
    is_complete,
    let_start,
    placeholder_gone,
    settle,
)
from offers.policy.applications.gangs.state import GangState
from offers.policy.applications.metadata import ApplicationMetadata, Outcome, TaskMetadata, check_groups
from offers.policy.applications.tables import (
    APPLICATION,
    CORE_APPLICATION,
    PLACEHOLDER,
    TASK,
    TERMINATED,
    UNDECIDED,
    AppState,
    CoreState,
    PlaceholderState,
    TaskState,
)

RETENTION_SECONDS = 3 * 86400.0
"""The time from the end of an application until its record expires."""
ALIVE = (PlaceholderState.ASKED, PlaceholderState.ALLOCATED, PlaceholderState.BOUND)
"""States of placeholders that may still serve their group."""
OPEN = tuple(state for state in TaskState if state not in TERMINATED)
"""States of tasks that keep their application from completing."""


class Gang:
    """One application. `now` is Unix seconds everywhere."""

    def __init__(self, state: GangState) -> None:
        self._state = state

    @classmethod
    def born(cls, metadata: ApplicationMetadata, engine: Engine, traits: Traits, group: str = "") -> Gang:
        """A new application. `group`: as in `GangRecord`. Raises BadTaskGroups."""
        check_groups(metadata.task_groups)
        counters = tuple(sorted(Counter(group.name) for group in metadata.task_groups))
        key = metadata.id
        header = GangRecord(metadata, CORE_APPLICATION.born(key), APPLICATION.born(key), counters, group=group)
        gang = cls(GangState(header, engine, traits))
        gang._state.put(header)
        return gang

    @classmethod
    def restored(
        cls, records: Iterable[Record], existing: Iterable[Existing], engine: Engine, traits: Traits, now: float
    ) -> Gang:
        """The gang of these records. `existing`: the placeholders of the application that the backend lists. Raises
        ValueError without the record of the application."""
        gang = cls.continued(records, engine, traits)
        gang.adopt(existing, now)
        return gang

    @classmethod
    def continued(cls, records: Iterable[Record], engine: Engine, traits: Traits) -> Gang:
        """The gang of these records, for a caller that reports itself which placeholders exist. Raises ValueError
        without the record of the application."""
        found = list(records)
        headers = [one for one in found if isinstance(one, GangRecord)]
        holders = [one for one in found if isinstance(one, PlaceholderRecord)]
        members = [one for one in found if isinstance(one, MemberRecord)]
        if len(headers) != 1:
            raise ValueError(f"{len(headers)} records of an application in place of one")
        return cls(GangState(headers[0], engine, traits, holders, members))

    def adopt(self, existing: Iterable[Existing], now: float) -> None:
        """Brings the records in line with the placeholders that exist. An application without records, that its manager
        has submitted again, finds its placeholders by this."""
        self._state.paused = False
        if self.record.manager.state == AppState.ACCEPTED:
            settle(self._state, now)
        compare(self._state, existing, now)
        settle(self._state, now)

    # --- read by the caller -----------------------------------------------------------------------------------

    @property
    def record(self) -> GangRecord:
        """The record of the application."""
        return self._state.header

    @property
    def placeholders(self) -> Mapping[str, PlaceholderRecord]:
        """The placeholders that are not gone."""
        return self._state.placeholders.records

    @property
    def members(self) -> Mapping[str, MemberRecord]:
        """The tasks of the application."""
        return self._state.members.records

    def records(self) -> Iterator[Record]:
        """Every record, for a store that is written as a whole."""
        yield self._state.header
        yield from self.placeholders.values()
        yield from self.members.values()

    def follow(self, changed: Callable[[], None]) -> None:
        """Calls `changed` after every change of a record and every notice."""
        self._state.changed = changed

    def take_changes(self) -> dict[tuple[str, str], Record | None]:
        """The records that changed since the last call, by kind and key; None: the record is removed."""
        changes, self._state.changes = self._state.changes, {}
        return changes

    def take_notices(self) -> list[Notice]:
        """The notices since the last call."""
        notices, self._state.notices = self._state.notices, []
        return notices

    def due(self) -> Iterator[Effect]:
        """The effects that have not been confirmed. The caller carries them out when the records are durable."""
        state, app = self._state, self.record.key
        for holder in state.placeholders.of(PlaceholderState.ALLOCATED):
            terms = state.groups[holder.group].terms if holder.group in state.groups else ""
            yield Create(holder.key, app, holder.group, holder.node, holder.request, terms)
        for holder in state.placeholders.of(PlaceholderState.RELEASING):
            if holder.release is not None:
                yield Release(holder.key, holder.release)
        for member in state.members.of(TaskState.ALLOCATED):
            yield Launch(member.key, app, member.node, member.placeholder)
        for member in state.members.of(TaskState.KILLING):
            yield Kill(member.key)

    def next_wake(self) -> float | None:
        """The time at which `tick` has something to do, in Unix seconds; None if there is none."""
        record = self.record
        times = []
        if record.timer is not None and self._state.placeholders.any(*ALIVE):
            times.append(record.timer + record.metadata.parameters.timeout)
        if record.completing is not None:
            state = self._state
            waits = state.placeholders.any(PlaceholderState.RELEASING) or state.members.any(TaskState.KILLING)
            times += [] if waits else [record.completing + COMPLETING_SECONDS]
        if record.ended is not None:
            times.append(record.ended + RETENTION_SECONDS)
        return min(times, default=None)

    # --- facts from the manager -------------------------------------------------------------------------------

    def submit(self, now: float, recovered: bool = False) -> None:
        """The manager submits the application. A queue that cannot take its gang rejects it. `recovered`: the
        application existed before this scheduler began, and waits for `adopt`."""
        state, record = self._state, self.record
        if record.manager.state != AppState.NEW or record.core.state != CoreState.NEW:
            return
        state.manager("Recover" if recovered else "Submit", now)
        message = None
        if record.metadata.task_groups:
            metadata = record.metadata
            message = state.engine.refusal(metadata.id, metadata.queue, metadata.placeholder_ask)
        if message is not None:
            state.notice(NoticeCode.APPLICATION_REJECTED, record.key, message)
            state.put(state.header._replace(cause=NoticeCode.APPLICATION_REJECTED))
            state.core("reject", now)
            state.manager("Reject", now)
            state.manager("Fail", now)
            state.fail_unallocated(NoticeCode.APPLICATION_REJECTED, now)
            return
        state.manager("Accept", now)
        state.paused = recovered
        settle(state, now)

    def add_task(self, task: TaskMetadata, now: float) -> None:
        """The manager adds a task. A task that is known stays as it is. A task of an application that has failed is
        rejected."""
        state = self._state
        if task.id in self.members:
            return
        state.put(MemberRecord(task.id, task.group, task.request, task.created or now, TASK.born(task.id)))
        if self.record.core.state in (CoreState.REJECTED, CoreState.FAILED, CoreState.FAILING):
            state.fail_unallocated(self.record.cause, now)
        settle(state, now)

    def recover_task(self, task: TaskMetadata, node: str, terminated: bool, now: float) -> None:
        """Adds a task that existed before this scheduler began: Completed if it is terminated, Bound if it has a node,
        otherwise New, and sent by `adopt`. A task that is known and not New stays as it is."""
        state, known = self._state, self.members.get(task.id)
        if known is not None and known.life.state != TaskState.NEW:
            return
        born = MemberRecord(task.id, task.group, task.request, task.created or now, TASK.born(task.id))
        if terminated:
            state.task(born, now, "CompleteTask")
        elif node:
            state.engine.occupy(self.record.key, task.id, task.request, node)
            placed = born._replace(node=node, way=Way.ORDINARY)
            state.task(placed, now, "InitTask", "SubmitTask", "TaskAllocated", "TaskBound")
            self._ran(now)
        else:
            state.put(born)

    def complete(self, now: float) -> None:
        """The manager has ended the application: its tasks end, its placeholders are released, and the application
        completes when nothing is left."""
        state = self._state
        if self.record.core.state == CoreState.NEW and self.record.manager.state == AppState.RUNNING:
            state.core("run", now)
        if self.record.core.state not in (CoreState.ACCEPTED, CoreState.RUNNING):
            return
        state.fail_unallocated("ApplicationCompleted", now)
        for member in state.members.of(TaskState.ALLOCATED, TaskState.BOUND):
            state.task(member, now, "KillTask")
        state.core("complete", now)
        state.give_up_all(now)
        settle(state, now)

    def _ran(self, now: float) -> None:
        """A task has its room: the application runs."""
        while self.record.core.state in (CoreState.NEW, CoreState.ACCEPTED, CoreState.COMPLETING):
            self._state.core("run", now)

    def remove_task(self, key: str) -> None:
        """Removes the record of a task that is terminated. Raises ValueError for one that is not."""
        member = self.members.get(key)
        if member is not None and member.life.state not in TERMINATED:
            raise ValueError(f"task {key}: not terminated")
        if member is not None:
            self._state.drop_member(key)

    def fail(self, now: float, cause: str = "") -> None:
        """The manager reports that the application has failed: its placeholders are released, its tasks end."""
        state = self._state
        if self.record.core.state not in (CoreState.NEW, CoreState.ACCEPTED, CoreState.RUNNING):
            return
        state.put(state.header._replace(cause=cause))
        state.core("fail", now)
        if self.record.manager.state in (AppState.SUBMITTED, AppState.ACCEPTED, AppState.RUNNING, AppState.RESERVING):
            state.manager("Fail", now)
        state.fail_unallocated(cause, now)
        for member in state.members.of(TaskState.ALLOCATED, TaskState.BOUND):
            state.task(member, now, "KillTask")
        state.give_up_all(now)
        settle(state, now)

    # --- facts from the engine --------------------------------------------------------------------------------

    def allocated(self, name: str, node: str, now: float) -> None:
        """The engine has allocated a node to an ask. An allocation that nothing waits for is released at once."""
        state = self._state
        holder, member = self.placeholders.get(name), self.members.get(name)
        if holder is not None and holder.life.state == PlaceholderState.ASKED:
            state.turn(holder._replace(node=node), "Allocate", now)
            if self.record.timer is None and self.record.core.state == CoreState.ACCEPTED:
                state.put(state.header._replace(timer=now))
            accepted = self.record.core.state == CoreState.ACCEPTED and not self.record.group
            if accepted and not state.placeholders.any(PlaceholderState.ASKED):
                state.core("run", now)
        elif member is not None and member.life.state == TaskState.SCHEDULING and member.way is Way.ORDINARY:
            state.task(member._replace(node=node), now, "TaskAllocated")
            self._ran(now)
        elif not self._has_room(name):
            state.engine.release(self.record.key, name)

    def _has_room(self, name: str) -> bool:
        holder, member = self.placeholders.get(name), self.members.get(name)
        return holder is not None or (member is not None and member.life.state not in TERMINATED)

    # --- facts from the backend of placeholders ---------------------------------------------------------------

    def bound(self, placeholder: str, now: float) -> None:
        """A placeholder exists and holds its room."""
        holder = self.placeholders.get(placeholder)
        if holder is not None and PLACEHOLDER.allows(holder.life, "Bind"):
            self._state.turn(holder, "Bind", now)
            settle(self._state, now)

    def gone(self, placeholder: str, now: float) -> None:
        """A placeholder does not exist any more, whether its release was requested or not."""
        state, holder = self._state, self.placeholders.get(placeholder)
        if holder is None or holder.life.state == PlaceholderState.ASKED:
            return
        placeholder_gone(state, holder, now)
        settle(state, now)

    def creation_failed(self, placeholder: str, now: float) -> None:
        """A placeholder cannot be created: the application continues as an ordinary one."""
        state, holder = self._state, self.placeholders.get(placeholder)
        if holder is None or holder.life.state != PlaceholderState.ALLOCATED:
            return
        state.notice(NoticeCode.CREATION_FAILED, placeholder, "the placeholder could not be created")
        state.give_up_all(now)
        if self.record.manager.state == AppState.RESERVING:
            state.manager("Run", now)
        settle(state, now)

    # --- facts from the launcher ------------------------------------------------------------------------------

    def launched(self, task: str, now: float) -> None:
        """A task runs on its node."""
        member = self.members.get(task)
        if member is not None and member.life.state == TaskState.ALLOCATED:
            self._state.task(member._replace(placeholder=""), now, "TaskBound")

    def returned(self, task: str, now: float) -> None:
        """The launch of a task did not happen: its room is released, and the task asks again."""
        state, member = self._state, self.members.get(task)
        if member is not None and TASK.allows(member.life, "TaskReturned"):
            state.engine.release(self.record.key, task)
            state.task(member._replace(node="", placeholder="", way=Way.ORDINARY), now, "TaskReturned")
            state.engine.ask(self.record.key, task, member.request, member.created)

    def refused(self, task: str, cause: str, now: float) -> None:
        """A task that asks for room cannot be launched at all: it fails. `cause`: for users."""
        state, member = self._state, self.members.get(task)
        if member is not None and member.life.state == TaskState.SCHEDULING:
            state.unplace(member)
            cleared = member._replace(cause=cause, node="", placeholder="")
            state.task(cleared, now, "TaskRejected", "TaskFail")
            settle(state, now)

    def ended(self, task: str, now: float, outcome: Outcome | None = None) -> None:
        """A task has ended. The application completes if none is left that runs or waits. `outcome`: the reported end;
        None: no report came."""
        state, member = self._state, self.members.get(task)
        if member is None or member.life.state in TERMINATED:
            return
        state.unplace(member)
        killed = member.life.state == TaskState.KILLING
        cleared = member._replace(node="", placeholder="", outcome=outcome)
        state.task(cleared, now, "TaskKilled" if killed else "CompleteTask")
        if APPLICATION.allows(self.record.manager, "AppTaskCompleted"):
            state.manager("AppTaskCompleted", now)
        if not state.members.any(*OPEN) and self.record.core.state in (CoreState.ACCEPTED, CoreState.RUNNING):
            state.core("complete", now)
        settle(state, now)

    # --- time -------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Time has passed: placeholders time out, applications complete and expire."""
        state, record = self._state, self.record
        late = record.timer is not None and now >= record.timer + record.metadata.parameters.timeout
        if late and state.placeholders.any(*ALIVE):
            if record.core.state == CoreState.ACCEPTED or self.reserving:
                self.give_up(NoticeCode.RESERVATION_TIMEOUT, now)
            else:
                state.give_up_all(now)
        if record.ended is not None and now >= record.ended + RETENTION_SECONDS:
            state.core("expire", now)
        settle(state, now)

    # --- gangs that start together (groups) -------------------------------------------------------------------

    @property
    def reserving(self) -> bool:
        """True until the tasks may start, with their room or without it, or all have ended."""
        return self.record.manager.state in UNDECIDED and self.record.core.state != CoreState.COMPLETING

    @property
    def reserved(self) -> bool:
        """True while every placeholder holds its room and no task may start yet."""
        return is_complete(self._state)

    def start(self, now: float) -> None:
        """The gangs of the group are complete: tasks take over their room."""
        let_start(self._state, now)
        settle(self._state, now)

    def give_up(self, cause: NoticeCode, now: float) -> None:
        """The gang, or another one of its group, does not come together: the reservation ends by its style."""
        self._state.notice(cause, self.record.key, cause)
        end_reservation(self._state, cause, now)
        settle(self._state, now)
