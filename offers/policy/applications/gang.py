"""The life of an application with or without task groups, in its order: submission, reservation, start, swap, end.

Each fact has a method, which changes records; `take_changes` gives the changes for one commit. A fact may be reported
twice. After every fact `Gang._settle` draws all consequences; repeating it changes nothing. After a crash the same
records make the same gang, so nothing of it can be lost.

A gang starts like this: `submit` accepts the application and asks for one placeholder for each member (`_reserve`);
`allocated` gives each of them a node, `bound` says that it exists; when all of them hold their room the reservation is
complete (`_let_start`), and tasks are sent (`_send`). A task that waits takes over the room of a placeholder (`_swap`):
the placeholder is released first, and the task is launched when the placeholder is gone (`_replaced`). A reservation
that is not complete in time ends by the style of the gang (`give_up`).

Source of the rules: gang scheduling of Apache YuniKorn; docs/decisions/0045-application-managers.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from offers.dimensions import Amounts
from offers.policy.applications.metadata import (
    ApplicationMetadata,
    Outcome,
    Style,
    TaskGroup,
    TaskMetadata,
    check_groups,
)
from offers.policy.applications.records import (
    Counter,
    Create,
    Effect,
    Engine,
    Existing,
    GangRecord,
    Index,
    Kill,
    Launch,
    MemberRecord,
    Notice,
    NoticeCode,
    PlaceholderRecord,
    Record,
    Release,
    ReleaseType,
    Traits,
    Way,
    placeholder_name,
)
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

COMPLETING_SECONDS = 30.0
"""The time from the end of the last task to the completion of the application."""
RETENTION_SECONDS = 3 * 86400.0
"""The time from the end of an application until its record expires."""
ALIVE = (PlaceholderState.ASKED, PlaceholderState.ALLOCATED, PlaceholderState.BOUND)
"""States of placeholders that may still serve their group."""
OPEN = tuple(state for state in TaskState if state not in TERMINATED)
"""States of tasks that keep their application from completing."""
GIVES_ROOM = (CoreState.ACCEPTED, CoreState.RUNNING, CoreState.COMPLETING)
"""States in which an application gives room to its tasks."""


class Gang:
    """One application. `now` is Unix seconds everywhere."""

    def __init__(
        self,
        record: GangRecord,
        engine: Engine,
        traits: Traits,
        placeholders: Iterable[PlaceholderRecord] = (),
        members: Iterable[MemberRecord] = (),
    ) -> None:
        """The gang of these records, for a caller that reports which placeholders exist."""
        self.record, self._engine, self._traits = record, engine, traits
        self._holders = Index(sorted(placeholders, key=lambda holder: holder.number))
        self._tasks = Index(sorted(members, key=lambda member: (member.created, member.key)))
        self._changes: dict[tuple[str, str], Record | None] = {}
        self._notices: list[Notice] = []
        self._paused = False
        """True while the application is being recovered: facts are noted, and nothing follows from them."""
        self._waiting: dict[str, dict[str, None]] = {}
        """The tasks that wait for a placeholder and are not linked with one, by group, in the order of their asks."""
        for member in self.members.values():
            self._note_waiting(member)
        self._groups = {group.name: group for group in record.metadata.task_groups}

    @classmethod
    def born(cls, metadata: ApplicationMetadata, engine: Engine, traits: Traits, group: str = "") -> Gang:
        """A new application. `group`: as in `GangRecord`. Raises BadTaskGroups."""
        check_groups(metadata.task_groups)
        counters = tuple(sorted(Counter(group.name) for group in metadata.task_groups))
        key = metadata.id
        record = GangRecord(metadata, CORE_APPLICATION.born(key), APPLICATION.born(key), counters, group=group)
        gang = cls(record, engine, traits)
        gang._put(gang.record)
        return gang

    # --- read by the caller -----------------------------------------------------------------------------------

    @property
    def placeholders(self) -> Mapping[str, PlaceholderRecord]:
        """The placeholders that are not gone."""
        return self._holders.records

    @property
    def members(self) -> Mapping[str, MemberRecord]:
        """The tasks of the application."""
        return self._tasks.records

    def take_changes(self) -> dict[tuple[str, str], Record | None]:
        """The records that changed since the last call, by kind and key; None: the record is removed."""
        changes, self._changes = self._changes, {}
        return changes

    def take_notices(self) -> list[Notice]:
        """The notices since the last call."""
        notices, self._notices = self._notices, []
        return notices

    def due(self) -> Iterator[Effect]:
        """The effects that have not been confirmed. The caller carries them out when the records are durable."""
        app = self.record.key
        for holder in self._holders.of(PlaceholderState.ALLOCATED):
            terms = self._groups[holder.group].terms if holder.group in self._groups else ""
            yield Create(holder.key, app, holder.group, holder.node, holder.request, terms)
        for holder in self._holders.of(PlaceholderState.RELEASING):
            if holder.release is not None:
                yield Release(holder.key, holder.release)
        for member in self._tasks.of(TaskState.ALLOCATED):
            yield Launch(member.key, app, member.node, member.placeholder)
        for member in self._tasks.of(TaskState.KILLING):
            yield Kill(member.key)

    def next_wake(self) -> float | None:
        """The time at which `tick` has something to do, in Unix seconds; None if there is none."""
        record, times = self.record, list[float]()
        if record.timer is not None and self._holders.any(*ALIVE):
            times.append(record.timer + record.metadata.parameters.timeout)
        waits = self._holders.any(PlaceholderState.RELEASING) or self._tasks.any(TaskState.KILLING)
        if record.completing is not None and not waits:
            times.append(record.completing + COMPLETING_SECONDS)
        if record.ended is not None:
            times.append(record.ended + RETENTION_SECONDS)
        return min(times, default=None)

    @property
    def reserving(self) -> bool:
        """True until the tasks may start, with their room or without it, or all have ended."""
        return self.record.manager.state in UNDECIDED and self.record.core.state != CoreState.COMPLETING

    @property
    def reserved(self) -> bool:
        """True while every placeholder holds its room and no task may start yet."""
        return self.record.manager.state == AppState.RESERVING and all(
            self._holders.count(group.name, PlaceholderState.BOUND) >= group.min_member
            for group in self._groups.values()
        )

    # --- submission -------------------------------------------------------------------------------------------

    def submit(self, now: float, recovered: bool = False) -> None:
        """The manager submits the application. A queue that cannot take its gang rejects it. `recovered`: the
        application existed before this scheduler began, and waits for `adopt`."""
        if self.record.manager.state != AppState.NEW or self.record.core.state != CoreState.NEW:
            return
        self._manager("Recover" if recovered else "Submit", now)
        message, metadata = None, self.record.metadata
        if metadata.task_groups:
            message = self._engine.refusal(metadata.id, metadata.queue, metadata.placeholder_ask)
        if message is not None:
            self._notice(NoticeCode.APPLICATION_REJECTED, metadata.id, message)
            self._put(self.record._replace(cause=NoticeCode.APPLICATION_REJECTED))
            self._core("reject", now)
            self._manager("Reject", now)
            self._manager("Fail", now)
            self._fail_unallocated(NoticeCode.APPLICATION_REJECTED, now)
            return
        self._manager("Accept", now)
        self._paused = recovered
        self._settle(now)

    def add_task(self, task: TaskMetadata, now: float) -> None:
        """The manager adds a task. A task that is known stays as it is. A task of an application that has failed is
        rejected."""
        if task.id in self.members:
            return
        self._put(MemberRecord(task.id, task.group, task.request, task.created or now, TASK.born(task.id)))
        if self.record.core.state in (CoreState.REJECTED, CoreState.FAILED, CoreState.FAILING):
            self._fail_unallocated(self.record.cause, now)
        self._settle(now)

    def _settle(self, now: float) -> None:
        """Moves the application as far as its records allow."""
        if self._paused:
            return
        self._end_fallback(now)
        if self.record.manager.state == AppState.ACCEPTED:
            self._reserve(now)
        if self.reserved and not self.record.group:
            self._let_start(now)
        if self.record.manager.state == AppState.RUNNING:
            self._send(now)
        self._swap_all(now)
        if self.record.completing is not None and now >= self.record.completing + COMPLETING_SECONDS:
            self._complete(now)
        if not self.placeholders and self.record.timer is not None:
            self._put(self.record._replace(timer=None))

    # --- reservation ------------------------------------------------------------------------------------------

    def _reserve(self, now: float) -> None:
        """Begins the reservation, or the work if there is nothing to reserve."""
        if not self._groups or any(member.life.state != TaskState.NEW for member in self.members.values()):
            self._manager("Run", now)
            return
        self._manager("TryReserve", now)
        self._core("run", now)
        for group in self._groups.values():
            missing = group.min_member - self._counter(group.name).total
            self._count(group.name, total=missing)
            for _ in range(missing):
                self._ask_placeholder(group)

    def _ask_placeholder(self, group: TaskGroup) -> None:
        """Asks for room for one more placeholder."""
        number = self.record.issued
        self._put(self.record._replace(issued=number + 1))
        key = placeholder_name(self.record.key, group.name, number, self.record.metadata.created)
        self._put(PlaceholderRecord(key, group.name, number, group.min_resource, PLACEHOLDER.born(key)))

    def allocated(self, name: str, node: str, now: float) -> bool:
        """The engine has allocated a node to an ask. False: nothing waits for this allocation, and the caller releases
        it at once."""
        holder, member = self.placeholders.get(name), self.members.get(name)
        if holder is not None and holder.life.state == PlaceholderState.ASKED:
            self._turn(holder._replace(node=node), "Allocate", now)
            accepted = self.record.core.state == CoreState.ACCEPTED
            if self.record.timer is None and accepted:
                self._put(self.record._replace(timer=now))
            if accepted and not self.record.group and not self._holders.any(PlaceholderState.ASKED):
                self._core("run", now)
        elif member is not None and member.life.state == TaskState.SCHEDULING and member.way is Way.ORDINARY:
            self._task(member._replace(node=node), now, "TaskAllocated")
            self._ran(now)
        return holder is not None or (member is not None and member.life.state not in TERMINATED)

    def bound(self, placeholder: str, now: float) -> None:
        """A placeholder exists and holds its room."""
        holder = self.placeholders.get(placeholder)
        if holder is not None and PLACEHOLDER.allows(holder.life, "Bind"):
            self._turn(holder, "Bind", now)
            self._settle(now)

    def gone(self, placeholder: str, now: float) -> None:
        """A placeholder does not exist any more, whether its release was requested or not."""
        holder = self.placeholders.get(placeholder)
        if holder is not None and holder.life.state != PlaceholderState.ASKED:
            self._gone(holder, now)
            self._settle(now)

    def _gone(self, holder: PlaceholderRecord, now: float) -> None:
        """A placeholder with a node does not exist any more. While the gang is being reserved, another one is asked for
        in the place of one that was not released."""
        if holder.release is ReleaseType.REPLACED:
            self._replaced(holder, now)
            return
        self._drop_placeholder(holder.key)
        if holder.release is None and self._is_reserving():
            self._ask_placeholder(self._groups[holder.group])
        elif holder.release is None:
            self._count(holder.group, timed_out=1)

    def _is_reserving(self) -> bool:
        """True while the gang is to come together."""
        ready = self.record.core.state in (CoreState.ACCEPTED, CoreState.RUNNING)
        return ready and self.record.manager.state == AppState.RESERVING

    def creation_failed(self, placeholder: str, now: float) -> None:
        """A placeholder cannot be created: the application continues as an ordinary one."""
        holder = self.placeholders.get(placeholder)
        if holder is None or holder.life.state != PlaceholderState.ALLOCATED:
            return
        self._notice(NoticeCode.CREATION_FAILED, placeholder, "the placeholder could not be created")
        self._give_up_all(now)
        if self.record.manager.state == AppState.RESERVING:
            self._manager("Run", now)
        self._settle(now)

    def give_up(self, cause: NoticeCode, now: float) -> None:
        """The gang, or another one of its group, does not come together: the reservation ends by its style."""
        self._notice(cause, self.record.key, cause)
        hard = self.record.metadata.parameters.style is Style.HARD
        running = self.record.core.state == CoreState.RUNNING
        self._put(self.record._replace(cause=cause))
        if hard or not running:
            self._core("fail" if hard else "resume", now)
        if hard:
            self._manager("Fail", now)
        elif self.record.manager.state == AppState.RESERVING:
            # A gang whose placeholders all have a node runs for its queue already, and does not resume.
            self._manager("Run" if running else "Resuming", now)
        self._give_up_all(now)
        if hard:
            self._fail_unallocated(cause, now)
        self._settle(now)

    def _end_fallback(self, now: float) -> None:
        """An application whose reservation has ended, or that has failed, continues when no placeholder is left."""
        core = self.record.core.state
        if self.placeholders:
            return
        if core == CoreState.RESUMING:
            self._core("run", now)
            if self.record.manager.state == AppState.RESUMING:
                self._manager("Run", now)
        elif core == CoreState.FAILING and not self._tasks.any(TaskState.KILLING):
            self._core("fail", now)
            if self.record.manager.state == AppState.FAILING:
                self._manager("Fail", now)

    # --- start ------------------------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """The gangs of the group are complete: tasks take over their room."""
        self._let_start(now)
        self._settle(now)

    def _let_start(self, now: float) -> None:
        """The reservation is complete: tasks take over the room of placeholders."""
        if self.record.core.state == CoreState.ACCEPTED:
            self._core("run", now)
        self._manager("UpdateReservation", now)
        self._manager("Run", now)

    def _send(self, now: float) -> None:
        """Asks for room for the tasks that are new."""
        for member in list(self._tasks.of(TaskState.NEW)):
            if self.record.core.state in (CoreState.NEW, CoreState.COMPLETING):
                self._core("run", now)
            way = Way.SWAP if self._counter(member.group).open else Way.ORDINARY
            self._task(member._replace(way=way), now, "InitTask", "SubmitTask")

    # --- swap -------------------------------------------------------------------------------------------------

    def _swap_all(self, now: float) -> None:
        """Finds placeholders for the tasks that wait for one, the oldest first. A task of a group that has no open
        placeholder becomes an ordinary one."""
        if self.record.core.state not in GIVES_ROOM:
            return
        for group, keys in list(self._waiting.items()):
            if keys and (not self._counter(group).open or self._holders.count(group, PlaceholderState.BOUND)):
                self._swap_group(group, now)

    def _swap_group(self, group: str, now: float) -> None:
        refused: set[Amounts] = set()
        for key in list(self._waiting[group]):
            member = self.members[key]
            linked = False
            if self._counter(group).open and member.request not in refused:
                linked = self._swap(member, now)
            if not linked:
                refused.add(member.request)
            if not linked and not self._counter(group).open:
                self._put(member._replace(way=Way.ORDINARY))

    def _swap(self, member: MemberRecord, now: float) -> bool:
        """Links a task with a placeholder whose node passes the checks for the task. Returns False if none can make
        room now."""
        for holder in self._holders.of_group(member.group, PlaceholderState.BOUND):
            if larger := _larger(member.request, holder.request):
                words = f"the resource request of the task {member.key} is incompatible with the placeholder"
                self._notice(NoticeCode.PLACEHOLDER_INCOMPATIBLE, holder.key, f"{words}: more {larger}")
                self._give_up(holder, now)
            elif self._engine.suits(self.record.key, member.key, holder.node):
                self._link(member, holder, now)
                return True
        return False

    def _link(self, member: MemberRecord, holder: PlaceholderRecord, now: float) -> None:
        self._put(member._replace(placeholder=holder.key, node=holder.node))
        released = self._turn(holder._replace(release=ReleaseType.REPLACED, member=member.key), "Release", now)
        if self._traits.at_once:
            self._replaced(released, now)

    def _replaced(self, holder: PlaceholderRecord, now: float) -> None:
        """A placeholder that was released for a task is gone: the task gets the room and is launched."""
        self._count(holder.group, replaced=1)
        self._drop_placeholder(holder.key)
        member = self.members.get(holder.member)
        if member is None or member.placeholder != holder.key or member.life.state != TaskState.SCHEDULING:
            return
        consumed = holder.key if self._traits.at_once else ""
        self._task(member._replace(placeholder=consumed), now, "TaskAllocated")
        if self.record.core.state != CoreState.RUNNING:
            self._core("run", now)

    # --- tasks ------------------------------------------------------------------------------------------------

    def launched(self, task: str, now: float) -> None:
        """A task runs on its node."""
        member = self.members.get(task)
        if member is not None and member.life.state == TaskState.ALLOCATED:
            self._task(member._replace(placeholder=""), now, "TaskBound")

    def returned(self, task: str, now: float) -> None:
        """The launch of a task did not happen: its room is released, and the task asks again."""
        member = self.members.get(task)
        if member is not None and TASK.allows(member.life, "TaskReturned"):
            self._task(member._replace(node="", placeholder="", way=Way.ORDINARY), now, "TaskReturned")

    def refused(self, task: str, cause: str, now: float) -> None:
        """A task that asks for room cannot be launched at all: it fails. `cause`: for users."""
        member = self.members.get(task)
        if member is not None and member.life.state == TaskState.SCHEDULING:
            self._reject(member, cause, now)
            self._settle(now)

    def ended(self, task: str, now: float, outcome: Outcome | None = None) -> None:
        """A task has ended. The application completes if none is left that runs or waits. `outcome`: the reported end;
        None: no report came."""
        member = self.members.get(task)
        if member is None or member.life.state in TERMINATED:
            return
        killed = member.life.state == TaskState.KILLING
        cleared = member._replace(node="", placeholder="", outcome=outcome)
        self._task(cleared, now, "TaskKilled" if killed else "CompleteTask")
        if APPLICATION.allows(self.record.manager, "AppTaskCompleted"):
            self._manager("AppTaskCompleted", now)
        if not self._tasks.any(*OPEN) and self.record.core.state in (CoreState.ACCEPTED, CoreState.RUNNING):
            self._core("complete", now)
        self._settle(now)

    def remove_task(self, key: str) -> None:
        """Removes the record of a task that is terminated. Raises ValueError for one that is not."""
        member = self.members.get(key)
        if member is not None and member.life.state not in TERMINATED:
            raise ValueError(f"task {key}: not terminated")
        if member is not None:
            self._tasks.drop(key)
            self._changes["member", key] = None

    # --- time and end -----------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Time has passed: placeholders time out, applications complete and expire."""
        record = self.record
        late = record.timer is not None and now >= record.timer + record.metadata.parameters.timeout
        if late and self._holders.any(*ALIVE):
            if record.core.state == CoreState.ACCEPTED or self.reserving:
                self.give_up(NoticeCode.RESERVATION_TIMEOUT, now)
            else:
                self._give_up_all(now)
        if record.ended is not None and now >= record.ended + RETENTION_SECONDS:
            self._core("expire", now)
        self._settle(now)

    def complete(self, now: float) -> None:
        """The manager has ended the application: its tasks end, its placeholders are released, and the application
        completes when nothing is left."""
        if self.record.core.state == CoreState.NEW and self.record.manager.state == AppState.RUNNING:
            self._core("run", now)
        if self.record.core.state in (CoreState.ACCEPTED, CoreState.RUNNING):
            self._fail_unallocated("ApplicationCompleted", now)
            self._kill_all(now)
            self._core("complete", now)
            self._give_up_all(now)
            self._settle(now)

    def _complete(self, now: float) -> None:
        """Releases the remaining placeholders first; the application completes when they are gone."""
        self._give_up_all(now)
        if self.placeholders or self._tasks.any(TaskState.KILLING):
            return
        self._core("complete", now)
        if not APPLICATION.allows(self.record.manager, "Complete"):
            self._manager("Run", now)
        self._manager("Complete", now)

    def fail(self, now: float, cause: str = "") -> None:
        """The manager reports that the application has failed: its placeholders are released, its tasks end."""
        if self.record.core.state not in (CoreState.NEW, CoreState.ACCEPTED, CoreState.RUNNING):
            return
        self._put(self.record._replace(cause=cause))
        self._core("fail", now)
        if self.record.manager.state in (AppState.SUBMITTED, AppState.ACCEPTED, AppState.RUNNING, AppState.RESERVING):
            self._manager("Fail", now)
        self._fail_unallocated(cause, now)
        self._kill_all(now)
        self._give_up_all(now)
        self._settle(now)

    def _fail_unallocated(self, cause: str, now: float) -> None:
        """Rejects and fails every task without a node."""
        for member in list(self._tasks.of(TaskState.NEW, TaskState.PENDING, TaskState.SCHEDULING)):
            self._reject(member, cause, now)

    def _reject(self, member: MemberRecord, cause: str, now: float) -> None:
        self._task(member._replace(cause=cause, node="", placeholder=""), now, "TaskRejected", "TaskFail")

    def _kill_all(self, now: float) -> None:
        for member in self._tasks.of(TaskState.ALLOCATED, TaskState.BOUND):
            self._task(member, now, "KillTask")

    def _give_up(self, holder: PlaceholderRecord, now: float) -> None:
        """Releases a placeholder that no task will use, and counts it as timed out. One that is being released stays as
        it is."""
        if holder.life.state == PlaceholderState.RELEASING:
            return
        self._count(holder.group, timed_out=1)
        if holder.life.state == PlaceholderState.ASKED:
            self._drop_placeholder(holder.key)
        else:
            self._turn(holder._replace(release=ReleaseType.TIMEOUT), "Release", now)

    def _give_up_all(self, now: float) -> None:
        for holder in list(self.placeholders.values()):
            self._give_up(holder, now)

    # --- recovery from units that exist -----------------------------------------------------------------------

    def recover_task(self, task: TaskMetadata, node: str, terminated: bool, now: float) -> None:
        """Adds a task that existed before this scheduler began: Completed if it is terminated, Bound if it has a node,
        otherwise New, and sent by `adopt`. A task that is known and not New stays as it is."""
        known = self.members.get(task.id)
        if known is not None and known.life.state != TaskState.NEW:
            return
        born = MemberRecord(task.id, task.group, task.request, task.created or now, TASK.born(task.id))
        if terminated:
            self._task(born, now, "CompleteTask")
        elif node:
            placed = born._replace(node=node, way=Way.ORDINARY)
            self._task(placed, now, "InitTask", "SubmitTask", "TaskAllocated", "TaskBound")
            self._ran(now)
        else:
            self._put(born)

    def adopt(self, existing: Iterable[Existing], now: float) -> None:
        """Brings the records in line with the placeholders that exist. An application without records, that its manager
        has submitted again, finds its placeholders by this. A placeholder without a record serves its group, or is
        released; one whose room a launch consumes is left to this launch."""
        self._paused = False
        if self.record.manager.state == AppState.ACCEPTED:
            self._settle(now)
        listed = sorted(existing)
        there = {placeholder.placeholder for placeholder in listed}
        for holder in list(self._holders.of(PlaceholderState.ALLOCATED)):
            if holder.key in there:
                self._turn(holder, "Bind", now)
        for holder in list(self._holders.of(PlaceholderState.BOUND)):
            if holder.key not in there and not self._traits.lasting:
                self._turn(holder, "Lost", now)
            elif holder.key not in there:
                self._gone(holder, now)
        for holder in list(self._holders.of(PlaceholderState.RELEASING)):
            if holder.key not in there:
                self._gone(holder, now)
        consumed = {member.placeholder for member in self._tasks.of(TaskState.ALLOCATED)}
        for placeholder in listed:
            if placeholder.placeholder not in self.placeholders and placeholder.placeholder not in consumed:
                self._adopt(placeholder, now)
        self._settle(now)

    def _adopt(self, existing: Existing, now: float) -> None:
        """Lets a placeholder of an unknown name serve its group in place of one that is asked for, or releases it.
        Names have a part that differs between schedulers, so groups are compared and not names."""
        group = self._groups.get(existing.group)
        asked = list(self._holders.of_group(existing.group, PlaceholderState.ASKED))
        number = self.record.issued
        self._put(self.record._replace(issued=number + 1))
        request = group.min_resource if group is not None else ()
        born = PlaceholderRecord(
            existing.placeholder, existing.group, number, request, PLACEHOLDER.born(existing.placeholder)
        )
        if not asked or not self._is_reserving():
            placed = self._turn(born._replace(node=existing.node), "Allocate", now)
            self._turn(placed._replace(release=ReleaseType.TIMEOUT), "Release", now)
            return
        self._put(born)
        self._drop_placeholder(asked[-1].key)
        self.allocated(born.key, existing.node, now)
        self._turn(self.placeholders[born.key], "Bind", now)

    def _ran(self, now: float) -> None:
        """A task has its room: the application runs."""
        while self.record.core.state in (CoreState.NEW, CoreState.ACCEPTED, CoreState.COMPLETING):
            self._core("run", now)

    # --- records ----------------------------------------------------------------------------------------------

    def _put(self, record: Record) -> None:
        """Replaces a record. Every change goes through here or is a removal, so that `take_changes` is complete."""
        if isinstance(record, GangRecord):
            self.record = record
            self._changes["application", record.key] = record
        elif isinstance(record, PlaceholderRecord):
            self._holders.put(record)
            self._changes["placeholder", record.key] = record
        else:
            self._tasks.put(record)
            self._changes["member", record.key] = record
            self._note_waiting(record)

    def _note_waiting(self, member: MemberRecord) -> None:
        keys = self._waiting.setdefault(member.group, {})
        if member.life.state == TaskState.SCHEDULING and member.way is Way.SWAP and not member.placeholder:
            keys.setdefault(member.key)
        else:
            keys.pop(member.key, None)

    def _drop_placeholder(self, key: str) -> None:
        """Removes the record of a placeholder that is gone."""
        self._holders.drop(key)
        self._changes["placeholder", key] = None

    def _core(self, event: str, now: float) -> None:
        """Sends an event to the application in its queue. Raises IllegalEvent."""
        life = CORE_APPLICATION.after(self.record.core, event, now)
        record = self.record._replace(core=life)
        if life.state != self.record.core.state:
            record = record._replace(
                completing=now if life.state == CoreState.COMPLETING else None,
                ended=now if life.state in (CoreState.COMPLETED, CoreState.FAILED, CoreState.REJECTED) else None,
            )
        self._put(record)

    def _manager(self, event: str, now: float) -> None:
        """Sends an event to the application of the manager. Raises IllegalEvent."""
        self._put(self.record._replace(manager=APPLICATION.after(self.record.manager, event, now)))

    def _turn(self, holder: PlaceholderRecord, event: str, now: float) -> PlaceholderRecord:
        """Sends an event to a placeholder, and returns its record. Raises IllegalEvent."""
        after = holder._replace(life=PLACEHOLDER.after(holder.life, event, now))
        self._put(after)
        return after

    def _task(self, member: MemberRecord, now: float, *events: str) -> None:
        """Sends events to a task. Raises IllegalEvent."""
        life = member.life
        for event in events:
            life = TASK.after(life, event, now)
        self._put(member._replace(life=life))

    def _notice(self, code: NoticeCode, subject: str, message: str) -> None:
        """Records a notice."""
        self._notices.append(Notice(code, self.record.key, subject, message))

    def _counter(self, group: str) -> Counter:
        """The numbers of a task group; zeros for a group without placeholders."""
        return next((counter for counter in self.record.counters if counter.group == group), Counter(group))

    def _count(self, group: str, *, total: int = 0, replaced: int = 0, timed_out: int = 0) -> None:
        """Adds to the numbers of a task group."""
        old = self._counter(group)
        new = Counter(group, old.total + total, old.replaced + replaced, old.timed_out + timed_out)
        others = tuple(counter for counter in self.record.counters if counter.group != group)
        self._put(self.record._replace(counters=tuple(sorted((*others, new)))))


def _larger(asked: Amounts, given: Amounts) -> str:
    """The name of the first amount that is larger than that of the placeholder; empty if there is none."""
    there = dict(given)
    return next((name for name, amount in asked if amount > there.get(name, 0)), "")


def settle_together(gangs: Sequence[Gang], now: float) -> None:
    """Lets the gangs of a group start if all of them are complete: no task of one of them starts before the
    placeholders of all of them hold their room. If one of them has ended its reservation, the others end theirs, each
    by its style. The gangs were made at one moment; the caller commits the changes of all of them together, so their
    records never disagree after a crash. `now` in Unix seconds."""
    waiting = [gang for gang in gangs if gang.reserving]
    if len(waiting) < len(gangs):
        cause = next((gang.record.cause for gang in gangs if not gang.reserving), "")
        code = next((code for code in NoticeCode if code == cause), NoticeCode.MEMBER_MISSING)
        for gang in waiting:
            gang.give_up(code, now)
    elif all(gang.reserved for gang in gangs):
        for gang in gangs:
            gang.start(now)
