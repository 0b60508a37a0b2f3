"""The gate between the policy engine and a launcher that looks for agents by itself.

The engine decides order, quota and agent, and approves. The launcher asks before it looks for an agent (`pre_filter`),
for each agent that it finds (`filter`), and reports its launch (`post_launch`). The hooks and their answers are those
of Apache YuniKorn's plug-in for the scheduler of another system; docs/decisions/0045-application-managers.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from offers.policy.applications.tables import TaskState


class Unnamed(StrEnum):
    """The treatment of work without an application. Bypass: the gate admits the work and keeps nothing of it; Wait: the
    work waits until it has an application; Refuse: the work is refused for good."""

    BYPASS = "bypass"
    WAIT = "wait"
    REFUSE = "refuse"


class Verdict(StrEnum):
    """Answers of the gate. After every answer but Success the launcher must not end other work to make room."""

    SUCCESS = "Success"
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    REFUSED = "Refused"


class Cause(StrEnum):
    """The causes of answers."""

    APPROVED = "Approved"
    BYPASSED = "Bypassed"
    NOT_APPROVED = "NotApproved"
    OTHER_NODE = "OtherNode"
    LAUNCH_FAILED = "LaunchFailed"
    NO_APPLICATION = "NoApplication"


class Answer(NamedTuple):
    """An answer with its cause. `returned`: the task whose launch did not happen, empty if none; the caller releases
    its allocation and asks the engine again (event TaskReturned)."""

    verdict: Verdict
    cause: Cause
    returned: str = ""


class GateTask(NamedTuple):
    """The properties of a task that the gate reads. `id`: unique among all applications; `application`: empty for work
    without an application; `state`: as in `TaskState`."""

    id: str
    application: str
    state: str


class PlacementGate:
    """Approvals that the launcher has not used yet (`pending`), and those that it works on (`in_progress`): node by
    task. The gate keeps nothing about work without an application."""

    def __init__(self, unnamed: Unnamed = Unnamed.BYPASS) -> None:
        self.unnamed = unnamed
        self._pending: dict[str, str] = {}
        self._in_progress: dict[str, str] = {}

    @property
    def pending(self) -> Mapping[str, str]:
        """The approved node of each task whose launcher does not know the node yet."""
        return MappingProxyType(self._pending)

    @property
    def in_progress(self) -> Mapping[str, str]:
        """The node of each task that the launcher is launching."""
        return MappingProxyType(self._in_progress)

    def approve(self, task: str, node: str) -> None:
        """The engine allocates a node to a task."""
        self._in_progress.pop(task, None)
        self._pending[task] = node

    def pre_filter(self, task: GateTask) -> Answer:
        """The answer before the launcher looks for an agent. A task that is in progress was not launched: the approval
        is void, and the answer names the task as returned."""
        if not task.application:
            return self._without_application()
        if task.id in self._in_progress:
            self.forget(task.id)
            return Answer(Verdict.UNRESOLVABLE, Cause.LAUNCH_FAILED, task.id)
        if task.id in self._pending and task.state == TaskState.BOUND:
            return Answer(Verdict.SUCCESS, Cause.APPROVED)
        return Answer(Verdict.UNRESOLVABLE, Cause.NOT_APPROVED)

    def filter(self, task: GateTask, node: str) -> Answer:
        """The answer for one agent. The approved agent is admitted once."""
        if not task.application:
            return self._without_application()
        approved = self._pending.get(task.id)
        if approved is None:
            return Answer(Verdict.UNRESOLVABLE, Cause.NOT_APPROVED)
        if approved != node:
            return Answer(Verdict.UNRESOLVABLE, Cause.OTHER_NODE)
        self._in_progress[task.id] = self._pending.pop(task.id)
        return Answer(Verdict.SUCCESS, Cause.APPROVED)

    def post_launch(self, task: GateTask) -> bool:
        """The launcher has launched a task. Returns True if the task counts for its application, False if the caller
        reports its usage as foreign usage of the node."""
        self.forget(task.id)
        return bool(task.application)

    def forget(self, task: str) -> None:
        """Removes every approval of a task, for example because the task was deleted."""
        self._pending.pop(task, None)
        self._in_progress.pop(task, None)

    def _without_application(self) -> Answer:
        if self.unnamed is Unnamed.BYPASS:
            return Answer(Verdict.SUCCESS, Cause.BYPASSED)
        refused = self.unnamed is Unnamed.REFUSE
        return Answer(Verdict.REFUSED if refused else Verdict.UNRESOLVABLE, Cause.NO_APPLICATION)
