"""The state of a gang in memory: its records, their changes since the last commit, and the same facts in the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from offers.policy.applications.gangs.effects import Engine, Notice, NoticeCode, Traits
from offers.policy.applications.gangs.records import (
    Counter,
    GangRecord,
    Index,
    MemberRecord,
    PlaceholderRecord,
    Record,
    ReleaseType,
    Way,
    placeholder_name,
)
from offers.policy.applications.metadata import TaskGroup
from offers.policy.applications.tables import (
    APPLICATION,
    CORE_APPLICATION,
    PLACEHOLDER,
    TASK,
    CoreState,
    PlaceholderState,
    TaskState,
)

HAS_ROOM = (PlaceholderState.ALLOCATED, PlaceholderState.BOUND, PlaceholderState.RELEASING)
"""States of placeholders with a node."""
MEMBER_HAS_ROOM = (TaskState.ALLOCATED, TaskState.BOUND, TaskState.KILLING)
"""States of tasks with a node."""


class GangState:
    """The records of one gang. Every change goes through `put`, so that `changes` is complete."""

    def __init__(
        self,
        header: GangRecord,
        engine: Engine,
        traits: Traits,
        placeholders: Iterable[PlaceholderRecord] = (),
        members: Iterable[MemberRecord] = (),
    ) -> None:
        """Rebuilds the state from records, and reports allocations and asks to the engine."""
        self.header, self.engine, self.traits = header, engine, traits
        self.placeholders = Index(sorted(placeholders, key=lambda one: one.number))
        self.members = Index(sorted(members, key=lambda one: (one.created, one.key)))
        self.changes: dict[tuple[str, str], Record | None] = {}
        self.notices: list[Notice] = []
        self.changed: Callable[[], None] = lambda: None
        """Called after every change and every notice."""
        self.paused = False
        """True while the application is being recovered: facts are noted, and nothing follows from them."""
        self.waiting: dict[str, dict[str, None]] = {}
        """The tasks that wait for a placeholder and are not linked with one, by group, in the order of their asks."""
        for member in self.members.records.values():
            self._note_waiting(member)
        self.groups: Mapping[str, TaskGroup] = {group.name: group for group in header.metadata.task_groups}
        self._load()

    def _load(self) -> None:
        engine, app = self.engine, self.header.key
        for holder in self.placeholders.of(*HAS_ROOM):
            engine.occupy(app, holder.key, holder.request, holder.node)
        for member in self.members.of(*MEMBER_HAS_ROOM):
            if member.node:
                engine.occupy(app, member.key, member.request, member.node)
        for member in self.members.of(TaskState.SCHEDULING):
            if member.placeholder and self._elsewhere(member):
                engine.hold(app, member.key, member.request, member.node)
            elif member.way is Way.ORDINARY:
                engine.ask(app, member.key, member.request, member.created)
        for holder in self.placeholders.of(PlaceholderState.ASKED):
            engine.ask(app, holder.key, holder.request, self.header.metadata.created)

    def _elsewhere(self, member: MemberRecord) -> bool:
        return self.placeholders.records[member.placeholder].node != member.node

    # --- changes ----------------------------------------------------------------------------------------------

    def put(self, record: Record) -> None:
        """Replaces a record."""
        if isinstance(record, GangRecord):
            self.header = record
            self.changes["application", record.key] = record
        elif isinstance(record, PlaceholderRecord):
            self.placeholders.put(record)
            self.changes["placeholder", record.key] = record
        else:
            self.members.put(record)
            self.changes["member", record.key] = record
            self._note_waiting(record)
        self.changed()

    def _note_waiting(self, member: MemberRecord) -> None:
        keys = self.waiting.setdefault(member.group, {})
        if member.life.state == TaskState.SCHEDULING and member.way is Way.SWAP and not member.placeholder:
            keys.setdefault(member.key)
        else:
            keys.pop(member.key, None)

    def drop_placeholder(self, key: str) -> None:
        """Removes the record of a placeholder that is gone."""
        self.placeholders.drop(key)
        self.changes["placeholder", key] = None
        self.changed()

    def drop_member(self, key: str) -> None:
        """Removes the record of a task."""
        self.members.drop(key)
        self.changes["member", key] = None
        self.changed()

    def core(self, event: str, now: float) -> None:
        """Sends an event to the application in its queue; `now` in Unix seconds. Raises IllegalEvent."""
        life = CORE_APPLICATION.after(self.header.core, event, now)
        header = self.header._replace(core=life)
        if life.state != self.header.core.state:
            header = header._replace(
                completing=now if life.state == CoreState.COMPLETING else None,
                ended=now if life.state in (CoreState.COMPLETED, CoreState.FAILED, CoreState.REJECTED) else None,
            )
        self.put(header)

    def manager(self, event: str, now: float) -> None:
        """Sends an event to the application of the manager; `now` in Unix seconds. Raises IllegalEvent."""
        self.put(self.header._replace(manager=APPLICATION.after(self.header.manager, event, now)))

    def turn(self, holder: PlaceholderRecord, event: str, now: float) -> PlaceholderRecord:
        """Sends an event to a placeholder, and returns its record; `now` in Unix seconds. Raises IllegalEvent."""
        after = holder._replace(life=PLACEHOLDER.after(holder.life, event, now))
        self.put(after)
        return after

    def task(self, member: MemberRecord, now: float, *events: str) -> MemberRecord:
        """Sends events to a task, and returns its record; `now` in Unix seconds. Raises IllegalEvent."""
        life = member.life
        for event in events:
            life = TASK.after(life, event, now)
        after = member._replace(life=life)
        self.put(after)
        return after

    def notice(self, code: NoticeCode, subject: str, message: str) -> None:
        """Records a notice."""
        self.notices.append(Notice(code, self.header.key, subject, message))
        self.changed()

    # --- counters ---------------------------------------------------------------------------------------------

    def counter(self, group: str) -> Counter:
        """The numbers of a task group; zeros for a group without placeholders."""
        return next((one for one in self.header.counters if one.group == group), Counter(group))

    def count(self, group: str, *, total: int = 0, replaced: int = 0, timed_out: int = 0) -> None:
        """Adds to the numbers of a task group."""
        old = self.counter(group)
        new = Counter(group, old.total + total, old.replaced + replaced, old.timed_out + timed_out)
        others = tuple(one for one in self.header.counters if one.group != group)
        self.put(self.header._replace(counters=tuple(sorted((*others, new)))))

    # --- tasks ------------------------------------------------------------------------------------------------

    def fail_unallocated(self, cause: str, now: float) -> None:
        """Rejects and fails every task without a node; `now` in Unix seconds."""
        for member in list(self.members.of(TaskState.NEW, TaskState.PENDING, TaskState.SCHEDULING)):
            self.unplace(member)
            self.task(member._replace(cause=cause, node="", placeholder=""), now, "TaskRejected", "TaskFail")

    def unplace(self, member: MemberRecord) -> None:
        """Gives the room or the ask of a task back to the engine."""
        if member.life.state in MEMBER_HAS_ROOM or (member.placeholder and self._elsewhere(member)):
            self.engine.release(self.header.key, member.key)
        elif member.way is Way.ORDINARY:
            self.engine.withdraw(self.header.key, member.key)

    # --- placeholders -----------------------------------------------------------------------------------------

    def ask_placeholder(self, group: TaskGroup, now: float) -> None:
        """Asks for room for one more placeholder; `now` in Unix seconds."""
        number = self.header.issued
        self.put(self.header._replace(issued=number + 1))
        key = placeholder_name(self.header.key, group.name, number, self.header.metadata.created)
        self.put(PlaceholderRecord(key, group.name, number, group.min_resource, PLACEHOLDER.born(key)))
        self.engine.ask(self.header.key, key, group.min_resource, now)

    def give_up(self, holder: PlaceholderRecord, now: float) -> None:
        """Releases a placeholder that no task will use, and counts it as timed out; `now` in Unix seconds. One that is
        being released stays as it is."""
        if holder.life.state == PlaceholderState.RELEASING:
            return
        self.count(holder.group, timed_out=1)
        if holder.life.state == PlaceholderState.ASKED:
            self.engine.withdraw(self.header.key, holder.key)
            self.drop_placeholder(holder.key)
        else:
            self.turn(holder._replace(release=ReleaseType.TIMEOUT), "Release", now)

    def give_up_all(self, now: float) -> None:
        """Releases all placeholders; `now` in Unix seconds."""
        for holder in list(self.placeholders.records.values()):
            self.give_up(holder, now)
