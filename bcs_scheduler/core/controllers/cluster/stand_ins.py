"""Stand-ins: additional taskgroups of deployments that are ready elsewhere before a drain ends the present ones.

A deployment that may surge grows by a few taskgroups while a drain moves others. The taskgroups beyond the number of
the deployment are its stand-ins; this number is derived from the records of the application and the deployment, so a
new leader continues. The application becomes smaller again when no drain needs the stand-ins.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from functools import partial
from math import inf

from bcs_scheduler.core.context import TurnContext
from store.advice import advise
from store.ids import application_of
from store.records import Application, Deployment, TaskGroup, Transaction, Version
from store.state import State
from store.state.reader import StateReader
from transactions import resource_request
from transactions.base import Refused
from transactions.kinds import scale
from transactions.rules import disruptions
from transactions.rules.draining import stand_ins_of, surging
from transactions.rules.lifecycle import is_ready_or_finished
from transactions.rules.quota_usage import QuotaUsage
from transactions.text import are, counted, named


class StandIns:
    """Begins and ends stand-ins for the controller of drains."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._present: dict[str, str] = {}
        """Keys of the applications of the deployments that may have stand-ins, by key of the deployment."""
        self.stirred = False
        """Something has changed because of which stand-ins may end."""
        self._needed: dict[str, set[str]] = {}
        """Keys of the applications whose taskgroups a drain moves, by key of the agent's settings. An agent that is
        missing has not been looked at by this leader."""

    def notice(self, kind: str, key: str) -> None:
        """Follows a changed record, named by kind and key."""
        state = self._turn.state
        if kind == "taskgroup":
            self.stirred = self.stirred or (bool(self._present) and application_of(key) in self._present.values())
            return
        if kind == "application":
            application = state.applications.get(key)
            if application is None or not application.deployment:
                return
            key = application.deployment_key
        elif kind != "deployment":
            return
        deployment = state.deployments.get(key)
        if deployment is not None and stand_ins_of(state, deployment):
            self._present[key] = deployment.application_key
            self.stirred = True
        else:
            self._present.pop(key, None)

    def needed(self, agent: str, left: Iterable[TaskGroup], arriving: Iterable[str]) -> None:
        """The drain of this agent has these taskgroups left, and these names (`Drains`) on their way."""
        coming = (name.rpartition("-")[0] for name in arriving)
        wanted = {*(group.application_key for group in left), *coming}
        if self._needed.get(agent) != wanted:
            self._needed[agent] = wanted
            self.stirred = bool(self._present)

    def ended(self, agent: str) -> None:
        """The drain of this agent has ended."""
        self._needed.pop(agent, None)
        self.stirred = bool(self._present)

    def before_end(self, group: TaskGroup, here: int, no_place: Callable[[int], str]) -> str:
        """Makes sure that a stand-in is ready before the taskgroup is ended. Returns the reason to wait; empty if the
        taskgroup needs no stand-in, or if a stand-in is not possible or not expected to become ready, and the
        deployment may have one taskgroup less. `here`: number of taskgroups that the drain wants to move at a time.
        `no_place`: explains why a stand-in of this index finds no place beside the taskgroup."""
        turn, state = self._turn, self._turn.state
        application = state.applications.get(group.application_key)
        deployment = surging(state, application) if application is not None else None
        if application is None or deployment is None or not is_ready_or_finished(group):
            return ""
        present = stand_ins_of(state, deployment)
        if not present:
            return self._begin(application, deployment, group, here, no_place)
        if group.index >= deployment.instances:
            return ""
        beyond, serving = _beyond(state, application, deployment)
        if beyond < present and _operation(state, application) is None:
            # The time of their launch is over: the drain continues with those that exist.
            scale.create(turn.context, application, deployment.instances + beyond)
        late = present - serving
        if late < 1 or (deployment.strategy.max_unavailable and turn.now >= self.stuck_at(application.key)):
            return ""
        return f"{counted(late, 'stand-in')} of {application.key} {are(late)} not ready yet"

    def stuck_at(self, key: str) -> float:
        """Unix seconds from which no stand-in of an application that is not ready is expected to become ready;
        infinity if it has none."""
        state = self._turn.state
        application = state.applications.get(key)
        deployment = state.deployments.get(application.deployment_key) if application is not None else None
        if application is None or deployment is None:
            return inf
        late = [one for one in state.unready_of(key) if one.index >= deployment.instances]
        moments = list(map(disruptions.stuck_at, late))
        beyond, _ = _beyond(state, application, deployment)
        if beyond < stand_ins_of(state, deployment) and (launch := _operation(state, application)) is not None:
            moments.append(launch.due_at + disruptions.WAITED)
        return max(moments, default=inf)

    def _begin(
        self,
        application: Application,
        deployment: Deployment,
        group: TaskGroup,
        here: int,
        no_place: Callable[[int], str],
    ) -> str:
        turn = self._turn
        # Without a stand-in, the disruption budget decides. With bound 0, only a gang below its minimum has one.
        strict = deployment.strategy.max_unavailable < 1
        if (running := _operation(turn.state, application)) is not None:
            return _no_start(application, running) if strict else ""
        version = turn.state.version(application.key, application.version)
        if version is None:
            return ""
        number = _allowed(turn, version, min(deployment.strategy.max_surge, here))
        if number < 1:
            return _no_quota(application) if strict else ""
        if words := no_place(application.instances):
            return words if strict else ""
        try:
            scale.create(turn.context, application, deployment.instances + number, stand_ins=number)
        except Refused as refused:
            return refused.message if strict else ""
        words = f"{counted(number, 'taskgroup')} more, until a drain has moved {group.name} and others"
        turn.record_event("deployment", deployment.key, "DeploymentStandIn", words)
        return f"{counted(number, 'stand-in')} of {application.key} {are(number)} being started"

    def end_unneeded(self, drained: Iterable[str]) -> None:
        """Ends the stand-ins that no drain needs. `drained`: keys of the settings of all agents that are being
        drained; as long as this leader has not looked at all of them, nothing is ended."""
        if not self.stirred or not self._needed.keys() >= set(drained):
            return
        self.stirred = False
        turn = self._turn
        needed = set().union(*self._needed.values())
        for key in list(self._present):
            turn.attempt("deployment", key, partial(self._end_if_unneeded, key, needed))
            turn.cut()

    def _end_if_unneeded(self, key: str, needed: Container[str]) -> None:
        state = self._turn.state
        deployment = state.deployments.get(key)
        application = state.applications.get(deployment.application_key) if deployment is not None else None
        if deployment is None or application is None or application.key in needed:
            return
        if stand_ins_of(state, deployment) and self._may_end(application, deployment):
            self._end(application, deployment)

    def _may_end(self, application: Application, deployment: Deployment) -> bool:
        state = self._turn.state
        _, serving = _beyond(state, application, deployment)
        unready = state.readiness.unready(application.key)
        ready = len(state.groups_of(application.key)) - len(unready) - serving
        restarted = {transaction.taskgroup for transaction in state.active_of(application.key).values()}
        # A taskgroup that is not restarted would keep its stand-in without end.
        over = sum(one.ended and identity not in restarted for identity, one in unready.items())
        return not serving or ready >= max(0, deployment.instances - over - deployment.strategy.max_unavailable)

    def _end(self, application: Application, deployment: Deployment) -> None:
        # A stand-in that has found no place yet is not waited for.
        scale.create(self._turn.context, application, deployment.instances, on_conflict="supersede")
        self._turn.record_event("deployment", deployment.key, "DeploymentStandInEnded", "no drain needs it any more")

    def recover(self) -> None:
        """Takes up the stand-ins that the records hold."""
        self._turn.each("deployment", self._turn.state.deployments, partial(self.notice, "deployment"))


def _beyond(state: State, application: Application, deployment: Deployment) -> tuple[int, int]:
    """The numbers of taskgroups beyond those of the deployment, and of ready ones among them. Costs with their number
    and with that of the taskgroups that are not ready."""
    held = state.indexes_of(application.key)
    beyond = sum(held.get(index, 0) for index in range(deployment.instances, application.instances))
    unready = sum(one.index >= deployment.instances for one in state.readiness.unready(application.key).values())
    return beyond, max(0, beyond - unready)


def foreseen(turn: TurnContext, application: Application) -> str:
    """Returns the reason for which a drain would not end a ready taskgroup of the application yet: new stand-ins, an
    operation or no room for one in the quota. Empty if it would start none."""
    deployment = surging(turn.state, application)
    version = turn.state.version(application.key, application.version)
    if deployment is None or version is None or stand_ins_of(turn.state, deployment):
        return ""
    strict = deployment.strategy.max_unavailable < 1
    if (running := _operation(turn.state, application)) is not None:
        return _no_start(application, running) if strict else ""
    number = _allowed(turn, version, deployment.strategy.max_surge)
    if number < 1:
        return _no_quota(application) if strict else ""
    return f"at most {counted(number, 'stand-in')} of {application.key} {are(number)} started first"


def _operation(state: StateReader, application: Application) -> Transaction | None:
    """The operation that works on the application, other than those for one taskgroup; None if there is none."""
    active = state.active_of(application.key).values()
    return next((running for running in active if not running.taskgroup), None)


def _no_start(application: Application, running: Transaction) -> str:
    return f"{named(running.type, running.id)} works on {application.key}, so no stand-in can be started"


def _allowed(turn: TurnContext, version: Version, most: int) -> int:
    """Number of stand-ins for which the quota of the namespace has room; at most `most`."""
    request = resource_request.total(version, turn.context.overhead)
    return turn.quotas.room(version.namespace, QuotaUsage(request.cpus, request.mem, request.disk, 1), most)


def _no_quota(application: Application) -> str:
    words = f"the quota of namespace {application.namespace} has no room for a stand-in"
    return f"{words}; {advise('look_at_quota', namespace=application.namespace)}"
