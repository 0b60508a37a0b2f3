"""Daemonsets: one taskgroup on every agent their definition admits.

An agent is for a daemonset if Mesos lists it and the constraints admit it, settings of operators included. Whether
there is room on it is another question, which the placement answers and explains. An agent that is disabled or has a
taint which is not tolerated keeps its taskgroup and gets no new one. What is on an agent that is not for it any more is
ended. All of this is derived from the records and the list of agents, so it may be done again at any time; until Mesos
has listed its agents, nothing is.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec

from bcs_scheduler.core.controllers.supply import decoration
from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.effects import Changed, ListAgents
from store.ids import application_of
from store.records import Application, Daemonset, TaskGroup, Transaction, Version
from store.workloads import DaemonsetStatus
from transactions import base, daemons, delete, explain, groups, needs
from transactions.explain import several
from transactions.lifecycle import serves
from transactions.timers import Timers
from transactions.wants import Wants

ASK_AGENTS = 5.0
"""Seconds between two lists of agents, so that agents that join get their taskgroups soon; in big clusters, whose list
is long, a second for every AGENTS_PER_SECOND."""
AGENTS_PER_SECOND = 200
SMALL = 200
PACE = 0.0001
"""Seconds per taskgroup above SMALL between two looks at a daemonset: each walks over all of them."""


class Admitted:
    """Ids of the agents that the constraints of a version admit: those that take new taskgroups (`open`), and those
    that do not because they are disabled or tainted (`closed`). Settings of operators count; what runs does not."""

    def __init__(self, desk: Desk, version: Version) -> None:
        self._desk = desk
        self._rules = needs.rules_of(version)
        self.version = version.name
        self.open: set[str] = set()
        self.closed: set[str] = set()
        for identity in desk.agents.agents:
            self.judge(identity)

    def judge(self, identity: str) -> bool:
        """Looks at one agent again; whether that has changed anything."""
        before = (identity in self.open, identity in self.closed)
        self.open.discard(identity)
        self.closed.discard(identity)
        agent = self._desk.agents.agents.get(identity)
        if agent is not None:
            set_up = decoration(self._desk.state.agent_settings.get(agent.key))
            attributes = {**agent.attributes, **set_up.attributes, "hostname": agent.hostname}
            if self._rules.could_admit(attributes):
                shut = set_up.disabled or self._rules.untolerated(tuple(set_up.taints.items())) is not None
                (self.closed if shut else self.open).add(identity)
        return before != (identity in self.open, identity in self.closed)


def _matters(transaction: Transaction) -> bool:
    """One that has run out of time is begun anew as long as an agent lacks its taskgroup. A restart on request may be
    for what nothing else restarts; of restarts by policy the taskgroups tell enough."""
    return not (transaction.inner if transaction.type == "RESCHEDULE" else transaction.active)


class Daemonsets:
    """A Follower (core.scheduler). What it holds is derived."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._dirty: dict[str, None] = {}
        """Keys of daemonsets to be looked at."""
        self._rests: dict[str, float] = {}
        """Until when a big daemonset is not looked at again."""
        self._due = Timers()
        """When a daemonset is to be looked at although nothing has changed."""
        self._admitted: dict[str, Admitted] = {}
        self._listed = False
        self._ask_at = 0.0

    def recover(self) -> None:
        self._dirty.update(dict.fromkeys(self._desk.state.daemonsets))

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        known = self._desk.state.daemonsets
        if not known:
            self._admitted.clear()
            self._desk.agents.take_moved()
            return
        moved = self._moved()
        concerned = set(moved)
        for kind, key in changed:
            if kind == "agentsetting":
                concerned |= self._desk.agents.ids_of(key)
                continue
            if kind == "taskgroup":
                key = application_of(key)
            elif kind == "transaction":
                transaction = self._desk.state.transactions.get(key)
                if transaction is None or not _matters(transaction):
                    continue
                key = f"{transaction.namespace}/{transaction.application}"
            elif kind not in ("application", "daemonset"):
                continue
            if key in known:
                self._dirty[key] = None
        if concerned:
            self._rejudge(concerned, moved)
        self._look()

    def tick(self) -> None:
        desk = self._desk
        if not desk.state.daemonsets:
            return
        if desk.connected and desk.now >= self._ask_at:
            self._ask_at = desk.now + max(ASK_AGENTS, len(desk.agents.agents) / AGENTS_PER_SECOND)
            desk.emit(ListAgents(cause=desk.cause))
        self._dirty.update(dict.fromkeys(self._due.take(desk.now)))
        self._look()

    def next_timer(self) -> float | None:
        return min((self._rests[key] for key in self._dirty if key in self._rests), default=None)

    def _moved(self) -> set[str]:
        """Agents that have joined, left or changed since the last look."""
        agents = self._desk.agents
        moved = agents.take_moved()
        if moved is None or self._listed != agents.listed:
            self._listed = agents.listed
            self._admitted.clear()
            self._dirty.update(dict.fromkeys(self._desk.state.daemonsets))
            for key in self._desk.state.daemonsets:
                self._desk.engine.look_again(self._desk.state.active_of(key))
            return set()
        return moved

    def _rejudge(self, agents: set[str], moved: set[str]) -> None:
        """Has daemonsets looked at for which one of these agents has become one of theirs, or is none any more; and
        those with a taskgroup on an agent that has `moved`: it may be gone."""
        state = self._desk.state
        held = {f"{g.namespace}/{g.application}" for agent in moved for g in state.groups_on(agent).values()}
        for key in state.daemonsets:
            admitted = self._admitted.get(key)
            # Each is judged, also after one that differs.
            differing = [agent for agent in agents if admitted is None or admitted.judge(agent)]
            if differing or key in held:
                self._dirty[key] = None
                self._desk.engine.look_again(state.active_of(key))

    def _look(self) -> None:
        desk = self._desk
        for key in [key for key in self._dirty if self._rests.get(key, 0.0) <= desk.now]:
            del self._dirty[key]
            self._due.drop(key)
            self._rests[key] = desk.now + PACE * max(0, len(desk.state.groups_of(key)) - SMALL)
            desk.attempt("daemonset", key, partial(self._examine, key))
            desk.checkpoint()

    def _examine(self, key: str) -> None:
        desk = self._desk
        daemonset, application = desk.state.daemonsets.get(key), desk.state.applications.get(key)
        if daemonset is None or application is None:
            self._rests.pop(key, None)
            self._admitted.pop(key, None)
            self._due.drop(key)
            if daemonset is not None:
                desk.uow.delete(daemonset)
                desk.tell("daemonset", key, "deleted", "all taskgroups have ended")
                desk.emit(Changed(kind=daemonset.kind, key=key, record=None, cause=desk.cause))
            return
        if daemonset.status == "Deleting":
            # A delete that ran out of time is begun anew: whoever asked for it may rely on it.
            if not any(transaction.type == "DELETE" for transaction in desk.state.active_of(key).values()):
                delete.create(desk.context, application, enforce=False)
            self._put(daemonset, "Deleting", explain.deleting(desk.state.groups_of(key).values()))
            return
        version = desk.state.version(key, application.version)
        if desk.agents.listed and version is not None:
            self._adjust(daemonset, application, version)
        self._judge(daemonset)

    # --- where it is wanted -----------------------------------------------------------------------------------

    def _admits(self, key: str, version: Version) -> Admitted:
        known = self._admitted.get(key)
        if known is not None and known.version == version.name:
            return known
        found = self._admitted[key] = Admitted(self._desk, version)
        return found

    def _adjust(self, daemonset: Daemonset, application: Application, version: Version) -> None:
        desk, ctx = self._desk, self._desk.context
        agents = self._admits(application.key, version)
        for group in list(desk.state.groups_of(application.key).values()):
            self._clear(group, agents)
        held = {group.agent_id for group in daemons.staying(ctx, application)}
        wanted = len(agents.open | held)
        if wanted > application.instances:
            # Nobody asked for this growth, so the quota bounds it instead of refusing it.
            need = needs.total(version)
            one = Wants(need.cpus, need.mem, need.disk, 1)
            growth = desk.quotas.room(application.namespace, one, wanted - application.instances)
            wanted = application.instances + growth
        if wanted != application.instances:
            words = f"wanted on {wanted} agents, {application.instances} before"
            desk.tell("daemonset", application.key, "agents", words)
            application = desk.uow.put(msgspec.structs.replace(application, instances=wanted, updated_at=desk.now))
        active = desk.state.active_of(application.key).values()
        launch = next((transaction for transaction in active if transaction.type == "LAUNCH"), None)
        if launch is not None:
            desk.engine.look_again((launch.id,))
        elif daemons.lacking(ctx, application):
            daemons.begin_launch(ctx, application)
        if not any(transaction.type in ("UPDATE", "DELETE") for transaction in active) and any(
            group.version != version.name and not group.unreachable_since and daemons.takes_new(ctx, group, version)
            for group in daemons.staying(ctx, application)
        ):
            daemons.begin_update(ctx, application, daemonset.max_unavailable)

    def _clear(self, group: TaskGroup, agents: Admitted) -> None:
        """Ends a taskgroup that is not wanted where it is, and forgets one that will not be replaced there."""
        desk, ctx = self._desk, self._desk.context
        agent = group.agent_id
        if group.unreachable_since and self._past(group, group.unreachable_since + desk.options.agent_forget):
            groups.remove(ctx, group, "its agent has not come back")
        elif daemons.leaving(group) or agent in agents.open:
            return
        elif agent in desk.agents.agents:
            if group.ended:
                words = "its agent takes nothing new" if agent in agents.closed else daemons.MISPLACED
                groups.remove(ctx, group, words)
            elif agent not in agents.closed:
                daemons.misplace(ctx, group)
        elif group.ended:
            missing_since = desk.now - desk.agents.absent_for(agent, desk.now)
            if self._past(group, missing_since + desk.options.agent_return):
                groups.remove(ctx, group, "its agent is gone")
        elif group.unreachable_since:
            version = desk.state.version(f"{group.namespace}/{group.application}", group.version)
            patience = version.unreachable_policy.replace_after if version is not None else 0.0
            if patience >= 0 and self._past(group, group.unreachable_since + patience):
                daemons.misplace(ctx, group)

    def _past(self, group: TaskGroup, at: float) -> bool:
        """Whether the moment has come; if not, there will be another look then."""
        if at <= self._desk.now:
            return True
        self._due.no_later(f"{group.namespace}/{group.application}", at)
        return False

    # --- how it is --------------------------------------------------------------------------------------------

    def _judge(self, daemonset: Daemonset) -> None:
        desk, ctx = self._desk, self._desk.context
        application = desk.state.applications[daemonset.key]
        active = desk.state.active_of(daemonset.key).values()
        update = next((transaction for transaction in active if transaction.type == "UPDATE"), None)
        found = daemons.standing(ctx, application, update)
        troubles = explain.troubles(found)
        status: DaemonsetStatus = "Updating"
        if update is not None:
            message = explain.updating(application.version, found)
            if found.stuck:
                self._tell_stuck(daemonset, update, message)
        elif troubles:
            status, message = "Abnormal", troubles
        else:
            status, message = self._without_troubles(application)
        if not desk.agents.listed:
            message = message or "waits for the list of agents"
        self._put(daemonset, status, message, stuck=found.stuck)

    def _without_troubles(self, application: Application) -> tuple[DaemonsetStatus, str]:
        there = daemons.staying(self._desk.context, application)
        lacking = daemons.lacking(self._desk.context, application)
        if lacking:
            return "Starting", f"{several(lacking, 'agent')} without a taskgroup"
        if not all(map(serves, there)):
            return "Starting", "not all taskgroups are ready yet"
        older = sum(group.version != application.version for group in there)
        if older:
            return "Running", f"{several(older, 'taskgroup')} of an older version on agents that take nothing new"
        return "Running", "daemonset is running" if there else "no agent is for it"

    def _tell_stuck(self, daemonset: Daemonset, update: Transaction, words: str) -> None:
        """Once per update, whoever leads: its history knows."""
        if all(explain.STANDS_STILL not in note.text for note in update.history):
            base.note(self._desk.context, update, words)
            self._desk.tell("daemonset", daemonset.key, "stuck", words, "warning", transaction=update.id)

    def _put(self, daemonset: Daemonset, status: DaemonsetStatus, message: str, *, stuck: bool = False) -> None:
        """Writes how it is if that has changed."""
        desk = self._desk
        if (status, message, stuck) == (daemonset.status, daemonset.message, daemonset.stuck):
            return
        if status != daemonset.status:
            desk.tell("daemonset", daemonset.key, status, message)
        after = desk.uow.put(
            msgspec.structs.replace(daemonset, status=status, message=message, stuck=stuck, updated_at=desk.now)
        )
        desk.emit(Changed(kind=after.kind, key=after.key, record=after, cause=desk.cause))
