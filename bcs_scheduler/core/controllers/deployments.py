"""The controller of deployments: completes the operations that requests have begun, also after a change of the leader.

The controller reacts to changed taskgroups, applications and transactions at once, and keeps timers for work that
depends on time alone. All its state is derived from the records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from bcs_scheduler.core.context import RETRY, UNFIT, TurnContext
from bcs_scheduler.core.interface import effects
from bcs_scheduler.core.rollout import revisions, steps, update_records
from bcs_scheduler.core.work_queue import WorkQueue
from store.ids import application_of, object_key
from store.reasons import Level
from store.records import Application, Deployment
from transactions.base import Refused
from transactions.kinds import scale
from transactions.kinds.registry import kind_of
from transactions.rules import rolling
from transactions.text import counted, operation, verdict

LAUNCH_AGAIN = 60.0
"""Seconds between the end of a launch that ran out of time and the next."""
FOLLOWED = frozenset({"taskgroup", "application", "transaction", "deployment", "message", "command"})


class Deployments:
    """Continues the operations of deployments: launches, rolling updates, limits, deletions."""

    def __init__(self, turn: TurnContext, apply_next: Callable[[TurnContext, Deployment], None]) -> None:
        """`apply_next`: applies the revision that follows the present one."""
        self._turn = turn
        self._apply_next = apply_next
        self._owned: dict[str, set[str]] = {}
        """Applications of a deployment, by its key."""
        self._owner: dict[str, str] = {}
        """Deployment of an application, by key."""
        self._limits_commands: dict[str, str] = {}
        """Deployment that waits for a command, by command id."""
        self._work = WorkQueue()
        """Deployments to be looked at, by key: those that something has changed for, and when another is looked at even
        if nothing changes."""

    def recover(self) -> None:
        """Takes up all deployments and examines each in the first turn."""
        for known in (self._owned, self._owner, self._limits_commands, self._work):
            known.clear()
        applications = self._turn.state.applications
        self._turn.each("application", applications, lambda key: self._own(key, applications[key]))
        # In the first turn, because nothing may change while the core is being built.
        for key in self._turn.state.deployments:
            self._work.put(key, 0.0)

    def next_timer(self) -> float | None:
        """Unix seconds of the next look at a deployment; None if none is planned."""
        return self._work.first()

    def tick(self) -> None:
        """Looks at the deployments whose time has come."""
        self._work.mark_due(self._turn.now)
        self._look_at_marked()

    def notice(self, changed: Sequence[tuple[str, str]]) -> None:
        """Looks at the deployments that the changes concern."""
        self._turn.each_change(changed, self._follow)
        self._look_at_marked()

    def _follow(self, kind: str, key: str) -> None:
        found = self._concerned(kind, key) if kind in FOLLOWED else ""
        if found:
            self._work.mark(found)

    def _concerned(self, kind: str, key: str) -> str:
        """Key of the deployment that a changed record may matter to; empty if there is none."""
        state = self._turn.state
        match kind:
            case "taskgroup":
                owner = self._owner.get(application_of(key), "")
                deployment = state.deployments.get(owner)
                if deployment is None or deployment.status != "Update" or rolling.must_wait(state, deployment):
                    return ""
                return owner
            case "application":
                return self._own(key, state.applications.get(key))
            case "transaction":
                transaction = state.transactions.get(key)
                if transaction is None or not transaction.ended or transaction.taskgroup:
                    return ""
                return self._owner.get(transaction.application_key, "")
            case "message":
                message = state.messages.get(key)
                return (
                    self._limits_commands.get(message.command, "") if message is not None and not message.open else ""
                )
            case "command":
                return self._limits_commands.get(key, "")
        return key

    def _own(self, key: str, application: Application | None) -> str:
        """Notes who owns an application, or did."""
        before = self._owner.get(key, "")
        owner = ""
        if application is not None and application.owner is not None and application.owner.kind == Deployment.kind:
            owner = application.owner.key
        if before and before != owner:
            del self._owner[key]
            self._owned[before].discard(key)
            if not self._owned[before]:
                del self._owned[before]
        if owner:
            self._owner[key] = owner
            self._owned.setdefault(owner, set()).add(key)
        return owner or before

    # --- one deployment ---------------------------------------------------------------------------------------

    def _look_at_marked(self) -> None:
        for key in sorted(self._work.ready(self._turn.now)):
            self._work.drop(key)
            # In another unit than the end of the update: both write whole documents, which may be too large together.
            for work in (self._look, self._go_on):
                if self._turn.attempt("deployment", key, partial(work, key)) is not None:
                    self._work.put(key, self._turn.now + RETRY)
                    break

    def _look(self, key: str) -> None:
        deployment = self._turn.state.deployments.get(key)
        if deployment is None:
            return
        match deployment.status:
            case "Deleting":
                self._delete(deployment)
                return
            case "Deploying":
                self._launched(deployment)
            case "UpdateResource":
                self._finish_limits(deployment)
            case "Update":
                at = steps.advance(self._turn, deployment)
                if at < math.inf:
                    self._work.put(key, at)

    def _go_on(self, key: str) -> None:
        """Continues a deployment that is at rest: applies a waiting revision, or launches missing taskgroups."""
        current = self._turn.state.deployments.get(key)
        if current is None or current.status == "Deleting":
            return
        if current.status == "Running" and current.next_revision:
            self._take_up(current)
        elif current.status == "Running":
            self._complete(current)
        self._clear(current)

    def _take_up(self, deployment: Deployment) -> None:
        """A revision that follows was accepted by itself. With the definition and the deployment, which repeat its
        document, it may be more than a store takes: then it does not follow."""
        turn = self._turn
        try:
            self._apply_next(turn, deployment)
            turn.fits()
        except UNFIT as error:
            turn.uow.rollback()
            revisions.refuse_at_last(turn, deployment, Refused("invalid", str(error)))

    def _launched(self, deployment: Deployment) -> None:
        """Ends the launch of a deployment. The status becomes Running after any verdict; the conditions show missing
        taskgroups."""
        state, key = self._turn.state, deployment.application_key
        if any(kind_of(state, t).sizes for t in state.active_of(key).values()):
            return
        ended = [t for t in state.transactions_of(key).values() if t.ended]
        last = max(ended, key=lambda t: t.created_at, default=None)
        words = (
            ""
            if last is None or last.status == "FINISH"
            else f"{operation(last.type)} {verdict(last.status)}: {last.message}"
        )
        update_records.record_event(
            self._turn, deployment, "DeploymentLaunched", words or "its taskgroups have been launched"
        )
        update_records.put(self._turn, deployment, status="Running", message=words, progress_at=self._turn.now)

    def _complete(self, deployment: Deployment) -> None:
        """Launches taskgroups again some time after their launch has failed, as long as they are wanted."""
        turn, key = self._turn, deployment.application_key
        missing = deployment.instances - len(turn.state.indexes_of(key))
        if missing <= 0 or deployment.launch_failed or any(not t.taskgroup for t in turn.state.active_of(key).values()):
            return
        known = turn.state.transactions_of(key).values()
        ended = (t.finished_at for t in known if kind_of(turn.state, t).sizes)
        again = max(ended, default=0.0) + LAUNCH_AGAIN
        if turn.now < again:
            self._work.put(deployment.key, again)
            return
        words = f"{missing} of {counted(deployment.instances, 'taskgroup')} missing, to be launched again"
        update_records.record_event(turn, deployment, "DeploymentLaunching", words)
        scale.create(turn.context, turn.state.applications[key], deployment.instances)
        update_records.put(turn, deployment, status="Deploying", message=words)

    def _finish_limits(self, deployment: Deployment) -> None:
        """Limits have been changed when every taskgroup has answered, or cannot any more."""
        state, turn = self._turn.state, self._turn
        messages = state.messages_of(deployment.command).values()
        writing = deployment.command in turn.incomplete
        if deployment.command in state.commands and (writing or any(message.open for message in messages)):
            self._limits_commands[deployment.command] = deployment.key
            return
        self._limits_commands.pop(deployment.command, None)
        failed = sum(message.status == "failed" for message in messages)
        words = f"limits were not changed in {failed} of {counted(len(messages), 'taskgroup')}" if failed else ""
        level: Level = "warning" if failed else "info"
        update_records.record_event(
            turn, deployment, "LimitsChanged", words or "limits have been changed in place", level
        )
        update_records.put(turn, deployment, status="Running", message=words, command="", progress_at=turn.now)

    def _clear(self, deployment: Deployment) -> None:
        """Applications it has had are deleted, again if that failed."""
        current = self._turn.state.deployments[deployment.key]
        needed = {object_key(current.namespace, name) for name in current.sides}
        for key in sorted(self._owned.get(current.key, set()) - needed):
            self._forget(current, key)

    def _delete(self, deployment: Deployment) -> None:
        turn = self._turn
        left = sorted(self._owned.get(deployment.key, ()))
        for key in left:
            self._forget(deployment, key)
        if left:
            return
        for task in list(turn.state.indexes.outputs_of_deployment(deployment.key)):
            turn.uow.delete(turn.state.outputs[task])
            turn.checkpoint()
        for revision in list(turn.state.revisions_of(deployment.key).values()):
            turn.uow.delete(revision)
        turn.uow.delete(deployment)
        update_records.record_event(turn, deployment, "DeploymentDeleted", "its applications are gone")
        turn.emit(effects.Changed(kind="deployment", key=deployment.key, record=None, cause=turn.cause))

    def _forget(self, deployment: Deployment, key: str) -> None:
        """Has an application deleted. A deletion that ran out of time is begun again, one that failed a while later."""
        state, now = self._turn.state, self._turn.now
        application = state.applications.get(key)
        if application is None or any(kind_of(state, t).deletes for t in state.active_of(key).values()):
            return
        known = state.transactions_of(key).values()
        failed = (t.finished_at for t in known if kind_of(state, t).deletes and t.status == "FAIL")
        again = max(failed, default=-RETRY) + RETRY
        if now < again:
            self._work.put_earlier(deployment.key, again)
        else:
            update_records.forget(self._turn, application, enforce=False)
