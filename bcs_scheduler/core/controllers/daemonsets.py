"""Daemonsets: one taskgroup on every agent that their definition admits.

An agent is for a daemonset if the cluster manager lists it and the constraints admit it, settings of operators
included. The room on the agent is not part of this rule: the placement checks and explains it. An agent that is
disabled or has a taint that is not tolerated keeps its taskgroup and gets no new one. A taskgroup is ended if its agent
is not for the daemonset any more. All decisions are derived from the records and the list of agents, so they may be
repeated at any time. Daemonsets begin no operation until the cluster manager has listed its agents.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec

from bcs_scheduler.core.context import RETRY, TurnContext
from bcs_scheduler.core.controllers.cluster.offer_manager import overrides
from bcs_scheduler.core.interface.cluster_manager import ListAgents
from bcs_scheduler.core.interface.effects import Changed
from bcs_scheduler.core.work_queue import WorkQueue
from store.ids import application_of
from store.reasons import DAEMONSET_TURNED
from store.records import Application, Daemonset, TaskGroup, Transaction, Version
from store.records.workloads import DaemonsetStatus
from transactions import base, explain, groups, resource_request
from transactions.kinds import daemonset as daemons
from transactions.kinds import delete
from transactions.kinds.registry import kind_of
from transactions.rules import endings
from transactions.rules.lifecycle import is_ready
from transactions.rules.quota_usage import QuotaUsage
from transactions.text import counted

ASK_AGENTS = 5.0
"""Seconds between two lists of agents, so that agents that join get their taskgroups soon; in big clusters, whose list
is long, a second for every AGENTS_PER_SECOND."""
AGENTS_PER_SECOND = 200
SMALL = 200
PACE = 0.0001
"""Seconds per taskgroup above SMALL between two looks at a daemonset: each walks over all of them."""


class Admitted:
    """Ids of the agents that the constraints of a version admit: those that accept new taskgroups (`open`), and those
    that do not because they are cordoned or tainted (`closed`). Settings of operators count; present taskgroups do
    not."""

    def __init__(self, turn: TurnContext, version: Version) -> None:
        self._turn = turn
        self._rules = resource_request.rules_of(version)
        self.version = version.name
        self.open: set[str] = set()
        self.closed: set[str] = set()
        for identity in turn.agents.agents:
            self.update(identity)

    def update(self, identity: str) -> bool:
        """Examines one agent again. Returns True if the result has changed."""
        before = (identity in self.open, identity in self.closed)
        self.open.discard(identity)
        self.closed.discard(identity)
        agent = self._turn.agents.agents.get(identity)
        if agent is not None:
            set_up = overrides(self._turn.state.agent_settings.get(agent.key))
            attributes = {**agent.attributes, **set_up.attributes, "hostname": agent.hostname}
            if self._rules.could_admit(attributes):
                shut = set_up.disabled or self._rules.untolerated(tuple(set_up.taints.items())) is not None
                (self.closed if shut else self.open).add(identity)
        return before != (identity in self.open, identity in self.closed)


def _matters(transaction: Transaction) -> bool:
    """Returns True if a change of the transaction must be examined: an ended operation, or a restart on request. An
    operation that has run out of time is begun again as long as an agent lacks its taskgroup, and possibly no other
    transaction restarts the taskgroup of a request. A restart by policy need not be examined, because its taskgroups
    change as well."""
    return not (transaction.inner if transaction.taskgroup else transaction.active)


class Daemonsets:
    """The controller of daemonsets (core.parts). All its state is derived from the records."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._work = WorkQueue()
        """Daemonsets to be looked at, by key: those that something has changed for, and when another is looked at
        although nothing has changed. Big daemonsets rest."""
        self._admitted: dict[str, Admitted] = {}
        self._listed = False
        self._ask_at = 0.0

    def recover(self) -> None:
        """Marks all daemonsets to be looked at."""
        self._work.clear()
        self._admitted.clear()
        self._work.mark(*self._turn.state.daemonsets)

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Marks the daemonsets that the changes concern."""
        known = self._turn.state.daemonsets
        if not known:
            self._admitted.clear()
            self._turn.agents.take_moved()
            return
        moved = self._moved()
        concerned = set(moved)

        def follow(kind: str, key: str) -> None:
            if kind == "agentsetting":
                concerned.update(self._turn.agents.ids_of(key))
                return
            if kind == "taskgroup":
                key = application_of(key)
            elif kind == "transaction":
                transaction = self._turn.state.transactions.get(key)
                if transaction is None or not _matters(transaction):
                    return
                key = transaction.application_key
            elif kind not in ("application", "daemonset"):
                return
            if key in known:
                self._work.mark(key)

        self._turn.each_change(changed, follow)
        if concerned:
            self._rejudge(concerned, moved)
        self._look()

    def tick(self) -> None:
        """Asks for the list of agents if it is time, and brings marked daemonsets in line with their agents."""
        turn = self._turn
        if not turn.state.daemonsets:
            return
        if turn.connected and not turn.options.traits.complete_lists and turn.now >= self._ask_at:
            self._ask_at = turn.now + max(ASK_AGENTS, len(turn.agents.agents) / AGENTS_PER_SECOND)
            turn.emit(ListAgents(cause=turn.cause))
        self._work.mark_due(turn.now)
        self._look()

    def next_timer(self) -> float | None:
        """Returns the Unix seconds at which the first pause ends; None if no daemonset pauses. A daemonset without a
        pause is examined in the turn that marks it."""
        return self._work.next_ready(self._turn.now) or None

    def _moved(self) -> set[str]:
        """Agents that have joined, left or changed since the last look."""
        agents = self._turn.agents
        moved = agents.take_moved()
        if moved is None or self._listed != agents.listed:
            self._listed = agents.listed
            self._admitted.clear()
            self._work.mark(*self._turn.state.daemonsets)
            for key in self._turn.state.daemonsets:
                self._turn.engine.queue_steps(self._turn.state.active_of(key))
            return set()
        return moved

    def _rejudge(self, agents: set[str], moved: set[str]) -> None:
        """Has daemonsets looked at for which one of these agents has become one of theirs, or is none any more; and
        those with a taskgroup on an agent that has `moved`: it may be gone."""
        state = self._turn.state
        held = {application_of(key) for agent in moved for key in state.groups_on(agent)}

        def judge(key: str) -> None:
            admitted = self._admitted.get(key)
            # Every agent is examined, also after one that differs.
            differing = [agent for agent in agents if admitted is None or admitted.update(agent)]
            if differing or key in held:
                self._work.mark(key)
                self._turn.engine.queue_steps(state.active_of(key))

        for key in self._turn.each("daemonset", state.daemonsets, judge):
            self._admitted.pop(key, None)  # it is judged anew by the look
            self._work.mark(key)

    def _look(self) -> None:
        turn = self._turn
        for key in self._work.ready(turn.now):
            self._work.drop(key)
            self._work.rest(key, turn.now, turn.now + PACE * max(0, len(turn.state.groups_of(key)) - SMALL))
            if turn.attempt("daemonset", key, partial(self._examine, key)) is not None:
                self._work.put_earlier(key, turn.now + RETRY)
            turn.checkpoint()

    def _examine(self, key: str) -> None:
        turn = self._turn
        daemonset, application = turn.state.daemonsets.get(key), turn.state.applications.get(key)
        if daemonset is None or application is None:
            self._work.forget(key)
            self._admitted.pop(key, None)
            if daemonset is not None:
                turn.uow.delete(daemonset)
                turn.record_event("daemonset", key, "DaemonsetDeleted", "all taskgroups have ended")
                turn.emit(Changed(kind=daemonset.kind, key=key, record=None, cause=turn.cause))
            return
        if daemonset.status == "Deleting":
            # A delete that ran out of time begins anew, because the user has been promised the deletion.
            if not any(kind_of(turn.state, running).deletes for running in turn.state.active_of(key).values()):
                delete.create(turn.context, application, enforce=False)
            self._put(daemonset, "Deleting", explain.deleting(turn.state.groups_of(key).values()))
            return
        version = turn.state.version(key, application.version)
        if turn.agents.listed and version is not None:
            self._adjust(daemonset, application, version)
        self._judge(daemonset)

    # --- where it is wanted -----------------------------------------------------------------------------------

    def _admits(self, key: str, version: Version) -> Admitted:
        known = self._admitted.get(key)
        if known is not None and known.version == version.name:
            return known
        found = self._admitted[key] = Admitted(self._turn, version)
        return found

    def _adjust(self, daemonset: Daemonset, application: Application, version: Version) -> None:
        turn, ctx = self._turn, self._turn.context
        agents = self._admits(application.key, version)
        for group in list(turn.state.groups_of(application.key).values()):
            self._clear(group, agents)
        held = {group.agent_id for group in daemons.remaining(ctx, application)}
        wanted = len(agents.open | held)
        if wanted > application.instances:
            # No request asked for this growth, so the quota limits it instead of refusing it.
            request = resource_request.total(version, ctx.overhead)
            one = QuotaUsage(request.cpus, request.mem, request.disk, 1)
            growth = turn.quotas.room(application.namespace, one, wanted - application.instances)
            wanted = application.instances + growth
        if wanted != application.instances:
            words = f"wanted on {counted(wanted, 'agent')}, {application.instances} before"
            turn.record_event("daemonset", application.key, "DaemonsetAgentsChanged", words)
            application = turn.uow.put(msgspec.structs.replace(application, instances=wanted, updated_at=turn.now))
        active = turn.state.active_of(application.key).values()
        launch = daemons.active_launch(turn.state, application.key)
        if launch is not None:
            turn.engine.queue_steps((launch.id,))
        elif daemons.agents_without_taskgroup(ctx, application):
            daemons.begin_launch(ctx, application)
        if not any(kind_of(turn.state, running).exclusive for running in active) and any(
            group.version != version.name and not group.unreachable_since and daemons.accepts_new(ctx, group, version)
            for group in daemons.remaining(ctx, application)
        ):
            daemons.begin_update(ctx, application, daemonset.max_unavailable)

    def _clear(self, group: TaskGroup, agents: Admitted) -> None:
        """Ends a taskgroup that is not wanted where it is, and forgets one that will not be replaced there."""
        turn, ctx = self._turn, self._turn.context
        agent = group.agent_id
        if group.unreachable_since and self._past(group, group.unreachable_since + turn.options.agent_forget):
            groups.remove(ctx, group, "its agent has not come back")
        elif daemons.is_misplaced(group) or agent in agents.open:
            return
        elif agent in turn.agents.agents:
            if group.ended:
                words = (
                    "its agent accepts no new taskgroups" if agent in agents.closed else endings.describe("Misplaced")
                )
                groups.remove(ctx, group, words)
            elif agent not in agents.closed:
                daemons.end_as_misplaced(ctx, group)
        elif group.ended:
            missing_since = turn.now - turn.agents.absent_for(agent, turn.now)
            if self._past(group, missing_since + turn.options.agent_return):
                groups.remove(ctx, group, "its agent is gone")
        elif group.unreachable_since:
            version = turn.state.version(group.application_key, group.version)
            patience = version.unreachable_policy.replace_after if version is not None else 0.0
            if patience >= 0 and self._past(group, group.unreachable_since + patience):
                daemons.end_as_misplaced(ctx, group)

    def _past(self, group: TaskGroup, at: float) -> bool:
        """True if the moment has come; if not, there will be another look then."""
        if at <= self._turn.now:
            return True
        self._work.put_earlier(group.application_key, at)
        return False

    # --- how it is --------------------------------------------------------------------------------------------

    def _judge(self, daemonset: Daemonset) -> None:
        turn, ctx = self._turn, self._turn.context
        application = turn.state.applications[daemonset.key]
        update = daemons.active_update(turn.state, daemonset.key)
        found = daemons.update_health(ctx, application, update)
        problems = explain.problems(found)
        status: DaemonsetStatus = "Updating"
        if update is not None:
            message = explain.updating(application.version, found)
            if found.stuck:
                self._record_stuck(daemonset, update, message)
        elif problems:
            status, message = "Abnormal", problems
        else:
            status, message = self._without_problems(application)
        if not turn.agents.listed:
            message = message or "waits for the list of agents"
        self._put(daemonset, status, message, stuck=found.stuck)

    def _without_problems(self, application: Application) -> tuple[DaemonsetStatus, str]:
        there = daemons.remaining(self._turn.context, application)
        agents_without_taskgroup = daemons.agents_without_taskgroup(self._turn.context, application)
        if agents_without_taskgroup:
            return "Starting", f"{counted(agents_without_taskgroup, 'agent')} without a taskgroup"
        if not all(map(is_ready, there)):
            return "Starting", "not all taskgroups are ready yet"
        older = sum(group.version != application.version for group in there)
        if older:
            return "Running", f"{counted(older, 'taskgroup')} of an older version on agents that take nothing new"
        return "Running", "daemonset is running" if there else "no agent is for it"

    def _record_stuck(self, daemonset: Daemonset, update: Transaction, words: str) -> None:
        """Records the event once per update; the history of the update remembers it for later leaders."""
        if all(note.code != "Stuck" for note in update.history):
            base.note(self._turn.context, update, words, "Stuck")
            self._turn.record_event("daemonset", daemonset.key, "DaemonsetStuck", words, transaction=update.id)

    def _put(self, daemonset: Daemonset, status: DaemonsetStatus, message: str, *, stuck: bool = False) -> None:
        """Writes how it is if that has changed."""
        turn = self._turn
        if (status, message, stuck) == (daemonset.status, daemonset.message, daemonset.stuck):
            return
        if status != daemonset.status:
            turn.record_event("daemonset", daemonset.key, DAEMONSET_TURNED[status], message)
        after = turn.uow.put(
            msgspec.structs.replace(daemonset, status=status, message=message, stuck=stuck, updated_at=turn.now)
        )
        turn.emit(Changed(kind=after.kind, key=after.key, record=after, cause=turn.cause))
