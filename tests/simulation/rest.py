"""What must be true of deployments, daemonsets and drains once faults have stopped (see tests.simulation.convergence).

C8   deployments have come through their updates: one application, all of it at the revision that is wanted
C9   every agent that a daemonset admits runs one taskgroup of it, unless there is no room; no other agent does
C10  no agent is being drained any more, unless what is left has nowhere to go; a drain that has not ended names its
     cause
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from store.records import (
    AgentSetting,
    Application,
    Daemonset,
    Deployment,
    Record,
    Revision,
    TaskGroup,
    Version,
)
from tests.simulation.agents import Agent
from tests.simulation.mesos import Master
from tests.simulation.oracle import Neighbours, Site, neighbours_in, objection
from tests.simulation.ownership import is_limited
from tests.simulation.readiness import is_ready, ready
from tests.simulation.users import setting_of
from transactions.kinds.update import same_definition

R = TypeVar("R", bound=Record)
Problem = tuple[str, ...] | None
Fits = Callable[[Version, Agent, Neighbours], bool]
LetBe = Callable[[TaskGroup], bool]


class Rest:
    def __init__(self, durable: dict[tuple[str, str], Record], master: Master, fits: Fits, let_be: LetBe) -> None:
        """`fits`: there is a place on that agent now; `let_be`: it has ended and is not to be restarted."""
        self._durable, self._master, self._fits, self._let_be = durable, master, fits, let_be

    def problem(self) -> Problem:
        for deployment in self._all(Deployment):
            found = self._deployment(deployment)
            if found is not None:
                return found
        for daemonset in self._all(Daemonset):
            found = self._daemonset(daemonset)
            if found is not None:
                return found
        for setting in self._all(AgentSetting):
            found = self._drain(setting) if setting.drain is not None and not setting.drain.done_at else None
            if found is not None:
                return found
        return None

    # --- deployments ------------------------------------------------------------------------------------------

    def _deployment(self, deployment: Deployment) -> Problem:
        key = deployment.key
        if deployment.status != "Running" or deployment.successor or deployment.retiring or deployment.phase:
            # One that lacks taskgroups launches them again and again.
            if (deployment.successor or deployment.status == "Deploying") and not self._can_grow(deployment):
                return None
            if deployment.successor and self._has_failed(deployment):
                return None
            return "C8", f"{key} is {deployment.status} {deployment.message}", key, deployment.successor
        application = self._durable.get(("application", f"{deployment.namespace}/{deployment.application}"))
        if not isinstance(application, Application) or application.rolling:
            return "C8", f"{key} is at rest, {deployment.application} is not", key
        beyond = application.instances - deployment.instances
        if beyond and not (0 < beyond <= deployment.strategy.max_surge and self._is_drained(application)):
            return "C8", f"{key} x{deployment.instances} has {application.key} x{application.instances}", key
        left = [a.name for a in self._all(Application) if a.deployment == deployment.name and a != application]
        left = [name for name in left if ("application", f"{deployment.namespace}/{name}") in self._durable]
        if left:
            return "C8", f"{key} is at rest and still has {left}", key, *left
        revision = self._durable.get(("revision", f"{key}/{deployment.revision}"))
        newest = self._durable.get(("version", f"{application.key}/{application.version}"))
        if not isinstance(revision, Revision) or not isinstance(newest, Version):
            return "C8", f"{key} has no revision {deployment.revision}, or no version of it", key
        if not same_definition(_named(revision.version, application.name), newest):
            return "C8", f"{key} runs another definition than revision {deployment.revision}", key, application.key
        return None

    def _has_failed(self, deployment: Deployment) -> bool:
        """A taskgroup of the side that grows has used up its restarts. The update waits until a user has the taskgroup
        restarted."""
        key = f"{deployment.namespace}/{_growing(deployment)}"
        members = [g for g in self._all(TaskGroup) if f"{g.namespace}/{g.application}" == key]
        return any(group.ended and self._let_be(group) for group in members)

    def _can_grow(self, deployment: Deployment) -> bool:
        """There is a place for one more taskgroup of the side that grows."""
        application = self._durable.get(("application", f"{deployment.namespace}/{_growing(deployment)}"))
        if not isinstance(application, Application):
            return True
        version = self._durable.get(("version", f"{application.key}/{application.version}"))
        if not isinstance(version, Version) or version.min_available > 1:
            return False  # a gang needs several places at the same time: how many there are is not asked here
        neighbours = neighbours_in(self._durable.values())
        return any(self._fits(version, agent, neighbours) for agent in self._master.registered.values())

    # --- daemonsets -------------------------------------------------------------------------------------------

    def _daemonset(self, daemonset: Daemonset) -> Problem:
        application = self._durable.get(("application", daemonset.key))
        if not isinstance(application, Application):
            return "C9", f"{daemonset.key} has no application", daemonset.key
        version = self._durable.get(("version", f"{application.key}/{application.version}"))
        assert isinstance(version, Version)
        groups = [g for g in self._all(TaskGroup) if f"{g.namespace}/{g.application}" == application.key]
        by_agent = {group.agent_id: group for group in groups}
        if len(by_agent) < len(groups):
            return "C9", f"{daemonset.key} has several taskgroups on an agent", *(g.id for g in groups)
        neighbours = neighbours_in(self._durable.values())
        for agent in self._master.registered.values():
            group = by_agent.pop(agent.id, None)
            found = self._on(daemonset, version, agent, group, neighbours)
            if found is not None:
                return found
        left = [g for g in by_agent.values() if not g.ended]
        return ("C9", f"{daemonset.key} runs on agents that are gone", *(g.id for g in left)) if left else None

    def _on(
        self, daemonset: Daemonset, version: Version, agent: Agent, group: TaskGroup | None, neighbours: Neighbours
    ) -> Problem:
        setting = setting_of(self._durable, str(agent.attributes["InnerIP"]))
        if group is None:
            if not setting.disabled and self._fits(version, agent, neighbours):
                return "C9", f"{daemonset.key} is missing on {agent.id}", daemonset.key, agent.id
            return None
        if group.ended and self._let_be(group):
            return None
        alone = Neighbours([g for g in neighbours.live if g.id != group.id], neighbours.versions)
        if objection(version, Site(agent, setting), alone):
            return None  # what runs there may stay; what has ended need not come back
        if group.status != "Running" and self._fits(version, agent, neighbours):
            return "C9", f"{daemonset.key} is {group.status} on {agent.id}", group.id, daemonset.key
        if group.status == "Running" and group.version != version.name and not self.update_may_wait(daemonset.key):
            return "C9", f"{group.id} runs an older version", group.id, daemonset.key
        return None

    def update_may_wait(self, application: str) -> bool:
        """A taskgroup of the daemonset uses up the bound of its update: it has failed for good, or its agent has no
        room for what comes next."""
        neighbours = neighbours_in(self._durable.values())
        for group in self._all(TaskGroup):
            if f"{group.namespace}/{group.application}" != application or not group.ended:
                continue
            agent = self._master.registered.get(group.agent_id)
            newest = self._durable.get(("application", application))
            assert isinstance(newest, Application)
            version = neighbours.versions[application, newest.version]
            if self._let_be(group) or (agent is not None and not self._fits(version, agent, neighbours)):
                return True
        return False

    # --- drains -----------------------------------------------------------------------------------------------

    def _is_drained(self, application: Application) -> bool:
        """A taskgroup of the application is on an agent that is still being drained: others may stand in for it."""
        drained = {s.agent for s in self._all(AgentSetting) if s.drain is not None and not s.drain.done_at}
        agents = {a.id for a in self._master.registered.values() if a.attributes["InnerIP"] in drained}
        groups = self._all(TaskGroup)
        return any(f"{g.namespace}/{g.application}" == application.key and g.agent_id in agents for g in groups)

    def _drain(self, setting: AgentSetting) -> Problem:
        """What is left has nowhere to go, or its application could not bear the loss."""
        here = [a for a in self._master.registered.values() if a.attributes["InnerIP"] == setting.agent]
        groups = [g for agent in here for g in self._all(TaskGroup) if g.agent_id == agent.id and not g.ended]
        for group in groups:
            if self._could_move(group):
                return "C10", f"{group.id} is still on {group.agent_id}, which is being drained", group.id
        if not groups:
            return "C10", f"the drain of {setting.agent} does not end", setting.agent
        drain = setting.drain
        assert drain is not None
        if not drain.blocked or "; " not in drain.message:
            return (
                "C10",
                f"the drain of {setting.agent} does not end and names no cause: {drain.message}",
                setting.agent,
            )
        return None

    def _could_move(self, group: TaskGroup) -> bool:
        application = self._durable[("application", f"{group.namespace}/{group.application}")]
        assert isinstance(application, Application)
        members = [g for g in self._all(TaskGroup) if f"{g.namespace}/{g.application}" == application.key]
        owner = self._durable.get(("deployment", f"{application.namespace}/{application.deployment}"))
        bound = owner.strategy.max_unavailable if isinstance(owner, Deployment) else 1
        if application.type == "daemonset" or application.rolling:
            return False
        if not bound and is_limited(self._durable, application.namespace):
            return False  # the quota may have no room for a stand-in
        counts = is_ready if application.deployment else ready
        wanted = owner.instances if isinstance(owner, Deployment) else application.instances
        if sum(map(counts, members)) < wanted:
            return False
        over = sum(one.ended and self._let_be(one) for one in members)
        if isinstance(owner, Deployment) and not bound and owner.strategy.max_surge <= over:
            return False  # the stand-ins serve in the place of those that are not restarted
        neighbours = neighbours_in(self._durable.values())
        # Without a taskgroup that may be unavailable, the first new one runs beside all present ones.
        beside = [g for g in neighbours.live if not bound or g.id != group.id]
        alone = Neighbours(beside, neighbours.versions)
        version = neighbours.versions[application.key, group.version]
        return any(
            agent.id != group.agent_id and self._fits(version, agent, alone)
            for agent in self._master.registered.values()
        )

    def _all(self, kind: type[R]) -> list[R]:
        return [record for record in self._durable.values() if isinstance(record, kind)]


def _named(version: Version, application: str) -> Version:
    return msgspec.structs.replace(version, application=application)


def _growing(deployment: Deployment) -> str:
    """The application that gets more taskgroups, or has them all already."""
    return deployment.application if deployment.rolling_back else deployment.successor or deployment.application
