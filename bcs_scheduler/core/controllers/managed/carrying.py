"""Creates and deletes the applications that carry out the placeholders and tasks of gangs, in slices.

An application is wanted or not by the state of its record, so nothing is remembered that a crash could lose.
Placeholders that are left over are found by their annotation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from bcs_scheduler.core import new_versions
from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.managed import units
from bcs_scheduler.core.controllers.managed.gangs import Gangs
from offers.policy.applications.gangs.gang import Gang
from offers.policy.applications.gangs.records import Record
from offers.policy.applications.tables import PlaceholderState, TaskState
from store.ids import object_key, part_key
from store.records import ManagedApplication, ManagedTask, Placeholder, Version
from transactions.base import Refused
from transactions.kinds import delete, launch
from transactions.kinds.registry import kind_of

SLICE = 20
"""Applications that are created or deleted at a time."""
KEPT = ("reserve", "hold")
"""Forms of placeholders that run nothing."""
HAS_UNIT = (TaskState.SCHEDULING, TaskState.ALLOCATED, TaskState.BOUND)
ENDS_UNIT = (TaskState.KILLING, TaskState.KILLED, TaskState.REJECTED, TaskState.FAILED)


class Carrying:
    """Names that are to be looked at wait here; each look brings the application of one name in line."""

    def __init__(self, turn: TurnContext, gangs: Gangs) -> None:
        self._turn, self._gangs = turn, gangs
        self._waiting: dict[tuple[str, str, str], None] = {}
        """Managed application, kind and name of placeholders and tasks."""
        self._surplus: dict[str, None] = {}
        """Keys of applications of placeholders that have no record any more."""

    @property
    def busy(self) -> bool:
        """Something is left to be carried out."""
        return bool(self._waiting or self._surplus)

    def recover(self) -> None:
        """Finds placeholders without a record."""
        state = self._turn.state
        self._waiting.clear()
        self._surplus.clear()
        self._turn.each("application", state.applications, self.discard_if_surplus)

    def all_of(self, record: ManagedApplication, gang: Gang) -> None:
        """Looks at all placeholders and tasks of a gang that was just loaded."""
        for name in gang.placeholders:
            self._waiting[record.key, "placeholder", name] = None
        for name in gang.members:
            self._waiting[record.key, "member", name] = None

    def some_of(self, record: ManagedApplication, gang: Gang, changes: Mapping[tuple[str, str], Record | None]) -> None:
        """Looks at the placeholders and tasks that have changed."""
        for kind, name in changes:
            if kind == "placeholder" and name not in gang.placeholders:
                self.discard(object_key(record.namespace, name))
            elif kind != "application":
                self._waiting[record.key, kind, name] = None

    def discard(self, application: str) -> None:
        """The application (``namespace/name``) is that of a placeholder that is not wanted any more."""
        self._surplus[application] = None

    def discard_if_surplus(self, key: str) -> None:
        """Deletes the application (``namespace/name``) of a placeholder that has no record: a user may have cancelled
        its deletion."""
        state = self._turn.state
        application = state.applications.get(key)
        if application is not None and units.is_placeholder(application) and key not in state.placeholders:
            self._surplus[key] = None

    def go_on(self) -> Iterable[str]:
        """Carries out a slice. Returns the managed applications whose tasks turned out to be impossible."""
        impossible: dict[str, None] = {}
        for key in list(self._surplus)[:SLICE]:
            del self._surplus[key]
            self._attempt(key, partial(self._delete, key))
        for item in list(self._waiting)[:SLICE]:
            del self._waiting[item]
            self._attempt(item[0], partial(self._align, *item, impossible))
        return impossible

    def _attempt(self, key: str, work: partial[None]) -> None:
        self._turn.attempt("application", key, work)
        self._turn.cut()

    def delete_units(self, record: ManagedApplication) -> bool:
        """Deletes the applications of all tasks. True if none is left."""
        tasks = [self._turn.state.managed_tasks[name] for name in self._gangs.task_keys(record.key)]
        left = [task for task in tasks if not self.delete_unit(task)]
        return not left

    def delete_unit(self, task: ManagedTask) -> bool:
        """Deletes the application of a task. True if there is none."""
        key = object_key(task.namespace, task.unit)
        if not task.unit or not units.is_ours(self._turn.state.applications.get(key)):
            return True
        self._delete(key)
        return False

    # --- one name ---------------------------------------------------------------------------------------------

    def _align(self, key: str, kind: str, name: str, impossible: dict[str, None]) -> None:
        record = self._turn.state.managed_applications.get(key)
        gang = self._gangs.loaded.get(key)
        if record is None or gang is None:
            return
        if kind == "placeholder":
            self._align_placeholder(record, gang, name)
        elif not record.manager:
            self._turn.engine.queue_steps(self._turn.state.active_of(key))
        elif not self._align_task(record, gang, name):
            impossible[key] = None

    def _align_placeholder(self, record: ManagedApplication, gang: Gang, name: str) -> None:
        state, place = self._turn.state, object_key(record.namespace, name)
        holder = state.placeholders.get(place)
        if holder is None or name not in gang.placeholders or holder.state == PlaceholderState.RELEASING:
            self._delete(place)
        elif holder.state == PlaceholderState.ASKED and place not in state.applications:
            form = self._turn.options.placeholders
            kept = form if form in KEPT else ""
            self._create(units.sleeper(record, holder, self._model(record, holder), kept), "application")

    def _model(self, record: ManagedApplication, holder: Placeholder) -> Version | None:
        """The definition of a task of the group."""
        state = self._turn.state
        if not record.manager:
            application = state.applications.get(record.key)
            return state.version(record.key, application.version) if application is not None else None
        tasks = (state.managed_tasks[name] for name in self._gangs.task_keys(record.key))
        return next((task.version for task in tasks if task.group == holder.group and task.version is not None), None)

    def _align_task(self, record: ManagedApplication, gang: Gang, name: str) -> bool:
        """False if the task cannot be launched at all."""
        state = self._turn.state
        task, member = state.managed_tasks.get(part_key(record.key, name)), gang.members.get(name)
        if task is None or member is None or not task.unit:
            return True
        place = object_key(task.namespace, task.unit)
        status = member.life.state
        if status in ENDS_UNIT or (status == TaskState.COMPLETED and task.done):
            self._delete(place)
        elif status in HAS_UNIT and member.way:
            if units.is_ours(state.applications.get(place)):
                self._turn.engine.queue_steps(state.active_of(place))
            elif status != TaskState.BOUND and not (status == TaskState.SCHEDULING and member.way == "swap"):
                version = units.unit(record, task)
                if version is not None:
                    return self._create_task(gang, name, version)
        return True

    def _create_task(self, gang: Gang, name: str, version: Version) -> bool:
        try:
            self._create(version, launch.type_of(version))
        except Refused as refused:
            gang.refused(name, refused.message, self._turn.now)
            return False
        return True

    def _create(self, version: Version, kind: str) -> None:
        turn = self._turn
        launch.create(turn.context, new_versions.resolved(turn, version), kind)

    def _delete(self, key: str) -> None:
        """Deletes an application. One whose agent is unreachable is not waited for."""
        turn = self._turn
        application = turn.state.applications.get(key)
        if application is None or not units.is_ours(application):
            return
        away = any(group.unreachable_since for group in turn.state.groups_of(key).values())
        deleting = any(kind_of(turn.state, one).deletes for one in turn.state.active_of(key).values())
        if not deleting or away:
            delete.create(turn.context, application, enforce=away, inner=True)
