"""Follows the deployments: what their commands have set going is brought to its end, whoever leads.

It reacts to changed taskgroups, applications and transactions at once, and keeps timers for what depends on time alone.
What it holds is derived from the records.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial

from bcs_scheduler.core import deployments, effects, rollout, rollout_steps
from bcs_scheduler.core.desk import Desk
from store.ids import application_of
from store.records import Application, Deployment
from transactions import rolling, scale
from transactions.timers import Timers

LAUNCH_AGAIN = 60.0
"""Seconds between the end of a launch that ran out of time and the next."""
RETRY = 10.0
"""Seconds after which what has failed unexpectedly is tried again."""
FOLLOWED = frozenset({"taskgroup", "application", "transaction", "deployment", "message", "command"})


class Deployments:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._owned: dict[str, set[str]] = {}
        """Applications of a deployment, by its key."""
        self._owner: dict[str, str] = {}
        """Deployment of an application, by key."""
        self._telling: dict[str, str] = {}
        """Deployment that waits for a command, by command id."""
        self._due = Timers()
        """When a deployment is to be looked at even if nothing changes."""

    def recover(self) -> None:
        for application in self._desk.state.applications.values():
            self._own(application.key, application)
        # With the first turn: nothing may change while the core is being built.
        for key in self._desk.state.deployments:
            self._due.set(key, 0.0)

    def next_timer(self) -> float | None:
        return self._due.next()

    def tick(self) -> None:
        self._look_at(self._due.take(self._desk.now))

    def notice(self, changed: Sequence[tuple[str, str]]) -> None:
        concerned: dict[str, None] = {}
        for kind, key in changed:
            if kind not in FOLLOWED:
                continue
            found = self._concerned(kind, key)
            if found:
                concerned[found] = None
        self._look_at(concerned)

    def _concerned(self, kind: str, key: str) -> str:
        """Key of the deployment that a changed record may matter to; empty if there is none."""
        state = self._desk.state
        match kind:
            case "taskgroup":
                owner = self._owner.get(application_of(key), "")
                deployment = state.deployments.get(owner)
                if deployment is None or deployment.status != "Update" or rolling.waits(state, deployment):
                    return ""
                return owner
            case "application":
                return self._own(key, state.applications.get(key))
            case "transaction":
                transaction = state.transactions.get(key)
                if transaction is None or transaction.active or transaction.type == "RESCHEDULE":
                    return ""
                return self._owner.get(f"{transaction.namespace}/{transaction.application}", "")
            case "message":
                message = state.messages.get(key)
                return self._telling.get(message.command, "") if message is not None and not message.open else ""
            case "command":
                return self._telling.get(key, "")
        return key

    def _own(self, key: str, application: Application | None) -> str:
        """Notes who owns an application, or did."""
        before = self._owner.get(key, "")
        owner = ""
        if application is not None and application.deployment and application.type != "daemonset":
            owner = f"{application.namespace}/{application.deployment}"
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

    def _look_at(self, keys: Iterable[str]) -> None:
        for key in sorted(keys):
            self._due.drop(key)
            if self._desk.attempt("deployment", key, partial(self._look, key)):
                self._due.set(key, self._desk.now + RETRY)

    def _look(self, key: str) -> None:
        deployment = self._desk.state.deployments.get(key)
        if deployment is None:
            return
        match deployment.status:
            case "Deleting":
                self._delete(deployment)
                return
            case "Deploying":
                self._launched(deployment)
            case "UpdateResource":
                self._told(deployment)
            case "Update":
                at = rollout_steps.advance(self._desk, deployment)
                if at < math.inf:
                    self._due.set(key, at)
        current = self._desk.state.deployments[key]
        if current.status == "Running" and current.following:
            deployments.take_up(self._desk, current)
        elif current.status == "Running":
            self._complete(current)
        self._clear(deployment)

    def _launched(self, deployment: Deployment) -> None:
        """It is Running when its launch has ended, however: the conditions say what is there."""
        state, key = self._desk.state, f"{deployment.namespace}/{deployment.application}"
        if any(t.type in ("LAUNCH", "SCALE") for t in state.active_of(key).values()):
            return
        last = max(state.transactions_of(key).values(), key=lambda t: t.created_at, default=None)
        words = "" if last is None or last.status == "FINISH" else f"{last.type} {last.status}: {last.message}"
        rollout.tell(self._desk, deployment, "launched", words or "its taskgroups have been launched")
        rollout.put(self._desk, deployment, status="Running", message=words, progress_at=self._desk.now)

    def _complete(self, deployment: Deployment) -> None:
        """What could not be launched in its time is launched again a while later, for as long as it is wanted."""
        desk, key = self._desk, f"{deployment.namespace}/{deployment.application}"
        missing = deployment.instances - len(desk.state.indexes_of(key))
        if missing <= 0 or any(t.type != "RESCHEDULE" for t in desk.state.active_of(key).values()):
            return
        ended = (t.finished_at for t in desk.state.transactions_of(key).values() if t.type in ("LAUNCH", "SCALE"))
        again = max(ended, default=0.0) + LAUNCH_AGAIN
        if desk.now < again:
            self._due.set(deployment.key, again)
            return
        words = f"{missing} of {deployment.instances} taskgroups are missing and launched again"
        rollout.tell(desk, deployment, "launching", words)
        scale.create(desk.context, desk.state.applications[key], deployment.instances)
        rollout.put(desk, deployment, status="Deploying", message=words)

    def _told(self, deployment: Deployment) -> None:
        """Limits have been changed when every taskgroup has answered, or cannot any more."""
        state, desk = self._desk.state, self._desk
        messages = state.messages_of(deployment.command).values()
        writing = deployment.command in desk.incomplete
        if deployment.command in state.commands and (writing or any(message.open for message in messages)):
            self._telling[deployment.command] = deployment.key
            return
        self._telling.pop(deployment.command, None)
        failed = sum(message.status == "failed" for message in messages)
        words = f"limits were not changed in {failed} of {len(messages)} taskgroups" if failed else ""
        level = "warning" if failed else "info"
        rollout.tell(desk, deployment, "limits-changed", words or "limits have been changed in place", level)
        rollout.put(desk, deployment, status="Running", message=words, command="", progress_at=desk.now)

    def _clear(self, deployment: Deployment) -> None:
        """Applications it has had are deleted, again if that failed."""
        current = self._desk.state.deployments[deployment.key]
        needed = {f"{current.namespace}/{name}" for name in (current.application, current.successor)}
        for key in sorted(self._owned.get(current.key, set()) - needed):
            self._forget(current, key)

    def _delete(self, deployment: Deployment) -> None:
        desk = self._desk
        left = sorted(self._owned.get(deployment.key, ()))
        for key in left:
            self._forget(deployment, key)
        if left:
            return
        for revision in list(desk.state.revisions_of(deployment.key).values()):
            desk.uow.delete(revision)
        desk.uow.delete(deployment)
        rollout.tell(desk, deployment, "deleted", "its applications are gone")
        desk.emit(effects.Changed(kind="deployment", key=deployment.key, record=None, cause=desk.cause))

    def _forget(self, deployment: Deployment, key: str) -> None:
        """Has an application deleted. A deletion that ran out of time is begun again, one that failed a while later."""
        state, now = self._desk.state, self._desk.now
        application = state.applications.get(key)
        if application is None or any(t.type == "DELETE" for t in state.active_of(key).values()):
            return
        failed = (
            t.finished_at for t in state.transactions_of(key).values() if (t.type, t.status) == ("DELETE", "FAIL")
        )
        again = max(failed, default=-RETRY) + RETRY
        if now < again:
            self._due.no_later(deployment.key, again)
        else:
            rollout.forget(self._desk, application, enforce=False)
