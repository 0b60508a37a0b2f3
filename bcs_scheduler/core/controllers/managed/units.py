"""The applications that carry out the tasks and placeholders of managed applications: one taskgroup each.

The wishes of a gang become applications, which are created and deleted in slices; the states of their taskgroups become
facts of the gang. An application is wanted or not by the state of its record, so nothing is remembered that a crash
could lose. Placeholders that are left over are found by their annotation.

A placeholder sleeps. Its taskgroup has the amounts, ports, constraints and priority of the task that it holds room for,
and none of its labels: neither services nor users may take it for the work itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import msgspec

from bcs_scheduler.core import new_versions
from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.managed.gangs import Gangs, Unit
from offers.ledger.holds import SWAP_SECONDS
from offers.policy.applications.gang import Gang
from offers.policy.applications.metadata import Outcome
from offers.policy.applications.records import Launch, Record, Way
from offers.policy.applications.tables import PlaceholderState, TaskState
from store.ids import object_key, part_key
from store.records import (
    ANNOTATION_OF_PLACEHOLDER,
    ANNOTATION_OF_TASK,
    FORM_OF_PLACEHOLDER,
    Application,
    ManagedApplication,
    ManagedTask,
    Placeholder,
    TaskGroup,
    Version,
)
from store.records.definition import Amounts, Container, KillPolicy, RestartPolicy, UnreachablePolicy
from transactions.base import Refused
from transactions.kinds import delete, launch
from transactions.kinds.registry import kind_of
from transactions.rules import lifecycle

SLEEP = ("/bin/sleep", ("infinity",))
"""Command and arguments of a placeholder. One that is left over holds its room until it is released."""
SLICE = 20
"""Applications that are created or deleted at a time."""
KEPT = ("reserve", "hold")
"""Forms of placeholders that run nothing."""
HAS_UNIT = (TaskState.SCHEDULING, TaskState.ALLOCATED, TaskState.BOUND)
ENDS_UNIT = (TaskState.KILLING, TaskState.KILLED, TaskState.REJECTED, TaskState.FAILED)


def sleeper(owner: ManagedApplication, holder: Placeholder, model: Version | None, form: str = "") -> Version:
    """The definition of a placeholder. `model`: the definition of a task of its group; None: only its amounts are
    known. The terms of the group, if it has any, take the place of those of the model. `form`: how its room is kept if
    the placeholder runs nothing; empty: it sleeps."""
    containers = tuple(map(_sleeping, model.containers)) if model is not None else (_plain(holder.request),)
    terms = next((group.terms for group in owner.task_groups if group.name == holder.group), None)
    base = terms or model or Version(namespace=owner.namespace, application=holder.name)
    return Version(
        namespace=owner.namespace,
        application=holder.name,
        instances=1,
        annotations={ANNOTATION_OF_PLACEHOLDER: owner.name, **({FORM_OF_PLACEHOLDER: form} if form else {})},
        executor=base.executor,
        network_mode=base.network_mode,
        network_type=base.network_type,
        containers=containers,
        restart_policy=RestartPolicy(policy="Never"),
        kill_policy=KillPolicy(grace_period=0.0),
        unreachable_policy=UnreachablePolicy(replace_after=-1.0),
        constraints=base.constraints,
        tolerations=base.tolerations,
        priority=base.priority,
        priority_class=base.priority_class,
        priority_from=base.priority_from,
        preemption_policy=base.preemption_policy,
        role=base.role,
    )


def unit(owner: ManagedApplication, task: ManagedTask) -> Version | None:
    """The definition of the application that runs a task of a manager; None for a task of a reservation. The manager
    decides about another try, so the taskgroup is not restarted."""
    if task.version is None:
        return None
    return msgspec.structs.replace(
        task.version,
        namespace=owner.namespace,
        application=task.unit,
        instances=1,
        annotations={**task.version.annotations, ANNOTATION_OF_TASK: owner.name},
        restart_policy=RestartPolicy(policy="Never"),
        min_available=0,
    )


def is_placeholder(application: Application) -> bool:
    """True if the application is a placeholder."""
    return ANNOTATION_OF_PLACEHOLDER in application.annotations


def is_ours(application: Application | None) -> bool:
    """True if the application carries out a placeholder or a task, and was not created by a user. None: no application
    exists."""
    return application is not None and (is_placeholder(application) or ANNOTATION_OF_TASK in application.annotations)


def request_of(version: Version) -> dict[str, int]:
    """The amounts of one taskgroup without the overhead, which its placeholder has as well."""
    total = {"cpus": 0, "mem": 0, "disk": 0, "gpus": 0}
    for container in version.containers:
        for name in total:
            total[name] += getattr(container.requests, name)
    return {name: amount for name, amount in total.items() if amount}


def _sleeping(container: Container) -> Container:
    command, arguments = SLEEP
    return Container(
        name=container.name,
        command=command,
        args=arguments,
        ports=container.ports,
        requests=container.requests,
        limits=container.limits,
        extended=container.extended,
    )


def _plain(request: dict[str, int]) -> Container:
    command, arguments = SLEEP
    known = {name: amount for name, amount in request.items() if name in ("cpus", "mem", "disk", "gpus")}
    return Container(name="placeholder", command=command, args=arguments, requests=Amounts(**known))


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
        if application is not None and is_placeholder(application) and key not in state.placeholders:
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
        if not task.unit or not is_ours(self._turn.state.applications.get(key)):
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
            self._create(sleeper(record, holder, self._model(record, holder), kept), "application")

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
            if is_ours(state.applications.get(place)):
                self._turn.engine.queue_steps(state.active_of(place))
            elif status != TaskState.BOUND and not (status == TaskState.SCHEDULING and member.way == "swap"):
                version = unit(record, task)
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
        if application is None or not is_ours(application):
            return
        away = any(group.unreachable_since for group in turn.state.groups_of(key).values())
        deleting = any(kind_of(turn.state, transaction).deletes for transaction in turn.state.active_of(key).values())
        if not deleting or away:
            delete.create(turn.context, application, enforce=away, inner=True)


class Observing:
    """Reads records, and calls the methods of gangs that take facts."""

    def __init__(self, turn: TurnContext, gangs: Gangs) -> None:
        self._turn, self._gangs = turn, gangs

    def all_of(self, gang: Gang) -> None:
        """Looks at all placeholders and tasks."""
        for name in list(gang.placeholders):
            self._placeholder(gang, name)
        for name in list(gang.members):
            self._member(gang, name)
        self._promises(gang)

    def some_of(self, gang: Gang, touched: Iterable[tuple[Unit, int]]) -> None:
        """Looks at the units that have changed. The number is the index of the changed taskgroup."""
        for unit, index in touched:
            if unit.kind == "placeholder":
                self._placeholder(gang, unit.name)
            else:
                self._member(gang, unit.name if unit.kind == "task" else str(index))
        self._promises(gang)

    def next_wake(self, gang: Gang) -> float | None:
        """Unix seconds at which the gang is looked at again; None: at no particular time."""
        times = [self._promised_until(gang, effect.task) for effect in gang.due() if isinstance(effect, Launch)]
        wake = gang.next_wake()
        return min([*times, *([wake] if wake is not None else [])], default=None)

    # --- placeholders -----------------------------------------------------------------------------------------

    def _placeholder(self, gang: Gang, name: str) -> None:
        holder = gang.placeholders.get(name)
        if holder is None:
            return
        record = self._turn.state.managed_applications[gang.record.key]
        group, now = self._newest(object_key(record.namespace, name)), self._turn.now
        there = group is not None and not group.unreachable_since and (not group.ended or self._returns(group))
        if group is not None and holder.node and group.agent_id != holder.node:
            there = False  # a drain or a user has moved it: the room on its node is not held any more
        state = holder.life.state
        if state == PlaceholderState.ASKED and there and group is not None:
            gang.allocated(name, group.agent_id, now)
            state = gang.placeholders[name].life.state
        if state == PlaceholderState.ALLOCATED and there and group is not None and group.status == "Running":
            gang.bound(name, now)
        elif state != PlaceholderState.ASKED and not there:
            gang.gone(name, now)

    def _returns(self, group: TaskGroup) -> bool:
        """True if room waits for the taskgroup that is launched in place of one whose launch did not leave."""
        return not group.killing_since and group.id in self._turn.pool.holds.leaving

    def _newest(self, application: str) -> TaskGroup | None:
        groups = self._turn.state.groups_of(application).values()
        return max(groups, key=lambda group: group.created_at, default=None)

    # --- tasks ------------------------------------------------------------------------------------------------

    def _member(self, gang: Gang, name: str) -> None:
        member = gang.members.get(name)
        if member is None:
            return
        group, now = self._group(gang, name), self._turn.now
        if member.life.state == TaskState.SCHEDULING and member.way is Way.ORDINARY and group is not None:
            gang.allocated(name, group.agent_id, now)
        if gang.members[name].life.state == TaskState.ALLOCATED and group is not None:
            gang.launched(name, now)
        state = gang.members[name].life.state
        ended = state == TaskState.KILLING and (group is None or group.ended)
        if ended or (state == TaskState.BOUND and self._is_over(gang, name, group)):
            gang.ended(name, now, _outcome(group) if group is not None and group.ended else None)

    def _group(self, gang: Gang, name: str) -> TaskGroup | None:
        state = self._turn.state
        task = state.managed_tasks.get(part_key(gang.record.key, name))
        if task is None:
            return None
        if task.unit:
            key = object_key(task.namespace, task.unit)
            return self._newest(key) if is_ours(state.applications.get(key)) else None
        if not state.indexes_of(gang.record.key).get(task.index):
            return None
        groups = state.groups_of(gang.record.key)
        return next((group for group in groups.values() if group.index == task.index), None)

    def _is_over(self, gang: Gang, name: str, group: TaskGroup | None) -> bool:
        """True if the task of a manager has ended for good. Taskgroups of a reservation belong to their application,
        which restarts them."""
        state = self._turn.state
        task = state.managed_tasks.get(part_key(gang.record.key, name))
        if task is None or not task.unit:
            return False
        key = object_key(task.namespace, task.unit)
        application = state.applications.get(key)
        if group is None or application is None:
            return not state.active_of(key) or application is None
        version = state.version(key, group.version)
        if not group.ended or version is None:
            return False
        reset = self._turn.options.transactions.periods.restart_reset
        decision = lifecycle.restart_decision(
            group, version.restart_policy, version.unreachable_policy, reset, self._turn.now
        )
        return decision is None

    # --- promises ---------------------------------------------------------------------------------------------

    def _promises(self, gang: Gang) -> None:
        late = [
            effect.task
            for effect in gang.due()
            if isinstance(effect, Launch) and self._promised_until(gang, effect.task) <= self._turn.now
        ]
        for name in late:
            gang.returned(name, self._turn.now)

    def _promised_until(self, gang: Gang, name: str) -> float:
        history = gang.members[name].life.history
        return (history[-1].at if history else self._turn.now) + SWAP_SECONDS


def _outcome(group: TaskGroup) -> Outcome:
    """The end of a taskgroup, with the cause of its first task that did not end well, or else of its first task."""
    first = next((task for task in group.tasks if task.status != "Finish"), next(iter(group.tasks), None))
    if first is None:
        return Outcome(group.status)
    return Outcome(group.status, first.reason, first.message, first.exit_code)
