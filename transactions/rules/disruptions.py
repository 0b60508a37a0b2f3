"""The one answer whether a taskgroup may be ended now for the sake of others: for preemption, reclaim, drains,
rebalancing and what-if. Pure.

| state of the taskgroup and its application | for | answer | price |
|---|---|---|---|
| the application is a daemonset | any | no: BoundToAgent | |
| it is being ended, or has ended | any | no: Ending | |
| its agent is unreachable | any | no: Unreachable | |
| a RESCHEDULE replaces it | any | no: Replaced | |
| an operation ends it: DELETE, a scale to fewer taskgroups, a step of a rolling update | any | no: Operation | |
| critical priority class | evict, rebalance | no: Critical | |
| not ready, with or without an operation on the application | any | yes, before all ready ones | 0 |
| ready, in a gang with fewer ready ones than its minimum | any | yes, before all ready ones | 0 |
| ready, bound 0 | any | no: NoBudget | |
| ready, with or without an operation, budget used up | any | no: Budget | |
| ready, with or without an operation, budget left | any | yes | 1 |

An operation protects nothing by itself. Taskgroups that it has ended or launched are not ready yet, and so use up the
budget; the places for which it finds no room use up nothing. A taskgroup that is evicted while an operation works is
simply wanted again.

The budget of an application is the bound of its updates (`maxUnavailable`), less the wanted taskgroups that are not
ready: those that end, start, fail, or are unreachable. Places without a taskgroup do not count:

* an index that has never had a taskgroup: the application asks for more than it can get
* a taskgroup that has ended and whose successor has waited for room for `WAITED` seconds

So a budget limits how many taskgroups are lost in `WAITED` seconds. It does not keep the room of an application for
good from a queue that is entitled to it.

Both sides of a rolling update have one budget together. There, a missing place counts as not ready until its launch has
waited for `WAITED` seconds or the update is halted: the update has ended a taskgroup for it.

A gang below its minimum does no work, so the end of the first taskgroup is the price of the whole gang. Engines decide
whether a gang at its minimum may go; a drain moves it, each ready taskgroup for a place elsewhere. So price 0 does not
mean that a taskgroup is not ready.

An operator who drains an agent wants it empty, so a drain also moves critical taskgroups, as `kubectl drain` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import Literal, NamedTuple, Self

from store.advice import advise
from store.ids import object_key
from store.records import (
    CRITICAL_CLASSES,
    Application,
    Deployment,
    RollingPayload,
    TaskGroup,
    Transaction,
    UpdatePayload,
)
from store.state.reader import StateReader
from transactions import text
from transactions.base import BasicKind, Context
from transactions.kinds.update import default_bound
from transactions.rules.application_types import bound_to_agents, lasting
from transactions.rules.draining import stand_ins_of
from transactions.rules.lifecycle import is_ready, is_ready_or_finished

WAITED = 60.0
"""Seconds of waiting for room after which a place spends no budget."""
HALTED = ("UpdatePaused", "UpdateSuspend")

Purpose = Literal["evict", "drain", "rebalance"]
"""The reason why a taskgroup is to be ended.

* evict: other work, by preemption, reclaim, or a proposal of what-if
* drain: an operator who wants the agent empty
* rebalance: agents fewer in use or more even
"""
Refusal = Literal[
    "NoApplication",
    "BoundToAgent",
    "Ending",
    "Unreachable",
    "Replaced",
    "Operation",
    "Critical",
    "NoBudget",
    "Budget",
]
"""Codes of the reasons why a taskgroup must not be ended now; see the table of the module.

* NoBudget: the owner wants no taskgroup to be unavailable (bound 0)
* Budget: the disruption budget is used up
"""


class Answer(NamedTuple):
    """The answer whether a taskgroup may be ended now."""

    refusal: Refusal | None = None
    """The reason against it; None: it may be ended."""
    price: int = 0
    """Number of taskgroups of the budget that its end spends: 0 or 1. Those with price 0 are ended first."""
    operation: Transaction | None = None
    """The operation that stands in the way; None: no operation does."""


class Budget(NamedTuple):
    """The disruption budget of an application; of both sides together during a rolling update."""

    bound: int
    """Greatest number of taskgroups that may be unavailable."""
    places: int
    """Number of wanted taskgroups, without the places that wait for room."""
    ready: int
    """Number of ready taskgroups, stand-ins included."""
    stand_ins: int = 0
    """Number of taskgroups that are wanted beyond those of the owner while a drain moves others."""
    minimum: int = 0
    """Number of ready taskgroups without which the others are of no use."""

    @property
    def works(self) -> bool:
        """False for a gang below its minimum."""
        return self.ready >= self.minimum

    @property
    def least(self) -> int:
        """Number of taskgroups that must stay ready."""
        return max(0, self.places - self.bound) if self.works else 0

    @property
    def left(self) -> int:
        """Number of ready taskgroups that may be ended now."""
        return max(0, self.ready - self.least)


BudgetName = tuple[str, ...]
"""The name of a budget: the keys of the applications that spend it, more than one during a rolling update. The number
of taskgroups that a choice spends is counted by this name."""
Unready = Callable[[str], Iterable[TaskGroup]]
"""The taskgroups of an application, given by key, that are not ready (store.state.readiness), or more."""


class Disruptions:
    """The answers at one moment. Nothing is kept between two questions, except in the threads of requests and after
    `keep`."""

    def __init__(
        self,
        state: StateReader,
        kind_of: Callable[[StateReader, Transaction], BasicKind],
        now: float,
        unready: Unready | None = None,
    ) -> None:
        """`now`: Unix seconds. `unready` None: all taskgroups of an application are looked at, once, as any thread may
        that shows the answers of one moment."""
        self._state, self._kind_of, self._now = state, kind_of, now
        self._budgets: dict[str, Budget] | None = {} if unready is None else None
        self._unready = unready or (lambda key: list(state.groups_of(key).values()))

    def keep(self) -> Self:
        """Keeps budgets from now on. The caller says when records have changed (`forget`)."""
        self._budgets = {}
        return self

    def forget(self) -> None:
        """Records have changed: drops the budgets that were kept."""
        if self._budgets:
            self._budgets.clear()

    def judge(self, group: TaskGroup, purpose: Purpose) -> Answer:
        """Answers for one taskgroup; see the table of the module."""
        protected = self.protection(group, purpose)
        if protected is not None:
            return protected
        application = self._state.applications[group.application_key]
        if not is_serving(application, group):
            return Answer()
        budget = self.budget(application)
        if budget.left > 0:
            return Answer(None, int(budget.works))
        active = list(self._state.active_of(application.key).values())
        whole = (running for running in active if not running.taskgroup)
        return Answer("Budget" if budget.bound + budget.stand_ins else "NoBudget", 1, next(whole, None))

    def protection(self, group: TaskGroup, purpose: Purpose) -> Answer | None:
        """Returns the answer if it is no with any budget; None if the budget decides."""
        state = self._state
        application = state.applications.get(group.application_key)
        if application is None:
            return Answer("NoApplication")
        if bound_to_agents(application):
            return Answer("BoundToAgent")
        if group.killing_since or group.ended:
            return Answer("Ending")
        if group.unreachable_since:
            return Answer("Unreachable")
        for running in list(state.active_of(application.key).values()):
            if running.taskgroup == group.id:
                return Answer("Replaced", operation=running)
            if not running.taskgroup and self._kind_of(state, running).ends(state, running, group):
                return Answer("Operation", operation=running)
        return Answer("Critical") if purpose != "drain" and is_critical(state, group) else None

    def reason(self, group: TaskGroup, purpose: Purpose) -> str:
        """Explains for users why the taskgroup must not be ended now; empty if it may be ended."""
        return self.words(group, self.judge(group, purpose))

    def budget(self, application: Application) -> Budget:
        """The budget of the application. Costs as much as it has taskgroups that are not ready."""
        if self._budgets is None:
            return self._budget(application)
        found = self._budgets.get(application.key)
        if found is None:
            found = self._budgets[application.key] = self._budget(application)
        return found

    def name_of(self, application: Application) -> BudgetName:
        """The name of the budget of the application."""
        deployment = self._state.deployments.get(application.deployment_key)
        if deployment is None or not deployment.updating:
            return (application.key,)
        return tuple(object_key(deployment.namespace, name) for name in deployment.sides)

    def _budget(self, application: Application) -> Budget:
        deployment = self._state.deployments.get(application.deployment_key)
        if deployment is not None and deployment.successor:
            return self._shared(deployment)
        there, ready = self._counts(application)
        beyond = stand_ins_of(self._state, deployment) if deployment is not None else 0
        places = min(application.instances - beyond, there)
        version = self._state.version(application.key, application.version)
        minimum = version.min_available if version is not None and version.min_available > 1 else 0
        return Budget(self._bound(application, deployment), places, ready, beyond, minimum)

    def _shared(self, deployment: Deployment) -> Budget:
        """The budget of both sides of a rolling update."""
        state, waits = self._state, deployment.status in HALTED
        there = ready = 0
        for name in deployment.sides:
            application = state.applications.get(object_key(deployment.namespace, name))
            if application is None:
                continue
            more, serving = self._counts(application)
            there, ready = there + more, ready + serving
            for running in list(state.active_of(application.key).values()):
                adds = isinstance(running.payload, RollingPayload) and not running.payload.victims
                waits = waits or (adds and self._now >= running.due_at + WAITED)
        places = min(deployment.instances, there) if waits else deployment.instances
        return Budget(deployment.strategy.max_unavailable, places, ready)

    def _counts(self, application: Application) -> tuple[int, int]:
        """The numbers of taskgroups, without those whose successor waits for room, and of ready ones."""
        members = len(self._state.groups_of(application.key))
        unready = [group for group in self._unready(application.key) if not is_serving(application, group)]
        ended = [group for group in unready if group.ended and self._now >= group.ended_at + WAITED]
        waiting = self._waiting(application, ended) if ended else 0
        return members - waiting, members - len(unready)

    def _waiting(self, application: Application, ended: Iterable[TaskGroup]) -> int:
        """The number of ended taskgroups whose successors have waited for room for long."""
        state = self._state
        long = [t for t in list(state.active_of(application.key).values()) if self._now >= t.due_at + WAITED]
        replaced = {running.taskgroup for running in long}
        whole = [running for running in long if not running.taskgroup]
        return sum(
            group.id in replaced
            or any(self._kind_of(state, running).replaces(state, running, group) for running in whole)
            for group in ended
        )

    def _bound(self, application: Application, deployment: Deployment | None) -> int:
        if deployment is None:
            for running in list(self._state.active_of(application.key).values()):
                if isinstance(running.payload, UpdatePayload):
                    return running.payload.max_unavailable
        return bound_of(self._state, application)

    def grows_at(self, application: Application) -> float:
        """Unix seconds of the next moment at which the budget may grow by time alone; infinity: there is none."""
        state, keys = self._state, self.name_of(application)
        ended = [group.ended_at for key in keys for group in self._unready(key) if group.ended]
        due = [running.due_at for key in keys for running in list(state.active_of(key).values())]
        first = 0.0 if len(keys) > 1 else min(ended, default=inf)  # places that wait count from the end of a taskgroup
        moments = [since + WAITED for since in (*ended, *due) if since >= first]
        return min((at for at in moments if at > self._now), default=inf)

    def words(self, group: TaskGroup, answer: Answer) -> str:
        """Explains for users why the taskgroup stays; empty if it may be ended."""
        key, running = group.application_key, answer.operation
        whose = f" ({text.named(running.type, running.id)})" if running is not None else ""
        application = self._state.applications.get(key)
        match answer.refusal:
            case None:
                return ""
            case "BoundToAgent":
                return "taskgroups of daemonsets stay on their agents"
            case "Ending":
                return "it is being ended already"
            case "Unreachable":
                return "its agent is unreachable"
            case "Replaced":
                return f"it is being replaced already{whose}"
            case "Operation":
                return f"an operation ends it{whose}"
            case "Critical":
                return "it has a critical priority class"
        if application is None:
            return f"application {key} does not exist"
        if answer.refusal == "NoBudget":
            words = f"{key} allows no taskgroup to be unavailable (maxUnavailable 0)"
        else:
            budget = self.budget(application)
            of = f"{budget.ready} of {text.counted(budget.places, 'taskgroup')} of {key}"
            words = f"{of} {text.are(budget.ready)} ready, {budget.least} must stay so"
        return f"{words}; {self._way_on(application, running)}"

    def _way_on(self, application: Application, running: Transaction | None) -> str:
        deployment = self._state.deployments.get(application.deployment_key)
        if deployment is not None and deployment.status in HALTED:
            way_on = advise("resume" if deployment.rolling_back else "resume_or_cancel")
            return f"the update of deployment {deployment.key} is halted; {way_on}"
        if running is not None:
            return f"{text.named(running.type, running.id)} works on it"
        return advise("explain_waiting", name=application.name, namespace=application.namespace)


def at(ctx: Context) -> Disruptions:
    """The answers in the thread of the core, which finds the taskgroups that are not ready by an index."""
    return Disruptions(ctx.state, ctx.kind_of, ctx.now, lambda key: ctx.state.readiness.unready(key).values())


def allowance(ctx: Context, key: str) -> int:
    """The number of ready taskgroups of the application with this key that may be evicted now. Those that are not ready
    (`is_serving`) may be evicted beside them, free of charge. 0 for daemonsets and unknown applications; the taskgroups
    of daemonsets that are not ready stay, too."""
    application = ctx.state.applications.get(key)
    if application is None or bound_to_agents(application):
        return 0
    return at(ctx).budget(application).left


def grows_at(ctx: Context, key: str) -> float:
    """Like `Disruptions.grows_at`, for the application of a key; infinity for unknown ones."""
    application = ctx.state.applications.get(key)
    return at(ctx).grows_at(application) if application is not None else inf


def budget_of(ctx: Context, key: str) -> BudgetName:
    """The budget that the end of a taskgroup of the application with this key spends."""
    application = ctx.state.applications.get(key)
    return at(ctx).name_of(application) if application is not None else (key,)


def admits_some(ctx: Context, key: str) -> bool:
    """True if the budget of the application with this key admits the end of ready taskgroups one after the other, now
    or later: its owner allows that some are unavailable. False for daemonsets and unknown applications."""
    application = ctx.state.applications.get(key)
    if application is None or bound_to_agents(application):
        return False
    budget = at(ctx).budget(application)
    return budget.bound + budget.stand_ins > 0 or budget.left > 0


def is_serving(application: Application, group: TaskGroup) -> bool:
    """True if the taskgroup is ready as its owner counts: of an application without deployment, finished work is no
    disruption. The end of any other taskgroup spends no budget."""
    return is_ready(group) if lasting(application) else is_ready_or_finished(group)


def stuck_at(group: TaskGroup) -> float:
    """Unix seconds from which a taskgroup that is not ready is not expected to become ready: its status and its checks
    have not changed for `WAITED` seconds then."""
    moments = [group.created_at]
    for task in group.tasks:
        moments += [task.status_since, *(check.updated_at for check in task.checks)]
    return max(moments) + WAITED


def is_critical(state: StateReader, group: TaskGroup) -> bool:
    """True if the version of the taskgroup has a critical priority class."""
    version = state.version(group.application_key, group.version)
    return version is not None and version.priority_class in CRITICAL_CLASSES


def bound_of(state: StateReader, application: Application) -> int:
    """Greatest number of taskgroups of the application that may be unavailable because the scheduler ends them."""
    deployment = state.deployments.get(application.deployment_key)
    if deployment is not None:
        return deployment.strategy.max_unavailable
    version = state.version(application.key, application.version)
    return (version.max_unavailable if version is not None else 0) or default_bound(application.instances)
