"""Users of deployments, daemonsets, services and drains, at random; and what brings them to rest in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from bcs_scheduler.core.interface import requests
from store.records import (
    AgentSetting,
    Application,
    Canary,
    Daemonset,
    Deployment,
    Record,
    Revision,
    Service,
    ServicePort,
    Strategy,
    TaskGroup,
    Version,
)
from store.records.definition import Amounts, Container
from tests.simulation.world import World
from transactions.conflicts import OnConflict

DEPLOYMENTS = (("default", "front"), ("prod", "mesh"))
STEADY = ("default", "steady")
"""The deployment of which taskgroups are drained at the end of some worlds."""
DAEMONSETS = (("default", "agentd"), ("prod", "probe"))
SERVICES = (("default", "everything"), ("default", "fronts"), ("prod", "kinds"))
SELECTORS: dict[str, dict[str, str]] = {"everything": {}, "fronts": {"team": "front"}, "kinds": {"kind": "noisy"}}
MAINTAINED = 2
"""Agents that operators drain at the end of some worlds, one after the other."""
ON_CONFLICT: tuple[OnConflict, ...] = ("queue", "supersede", "fail", "supersede")
"""By the number of the request: nothing is drawn for it."""
R = TypeVar("R", bound=Record)
Asked = requests.Request | None
Define = Callable[[str, str, int], Version]
Common = dict[str, Any]


def maintains(seed: int) -> bool:
    """Whether operators drain agents in a world when everything else is at rest. No chance is drawn for it."""
    return seed % 4 == 3


class Owners:
    def __init__(self, world: World, durable: dict[tuple[str, str], Record], define: Define) -> None:
        self.world = world
        self._durable = durable
        self._define = define
        self.agents: list[str] = []
        """Keys of agents, as operators name them."""
        self._maintained: set[str] = set()
        """Keys of the agents that have been drained at the end, and an empty one as soon as that has begun."""

    def ask(self, token: int, dry: bool) -> Asked:
        """One command at random; None if there is nothing it could be about."""
        make: Callable[[Common], Asked] = self.world.weighted(
            (
                (4.0, self._create_deployment),
                (5.0, self._update_deployment),
                (5.0, self._control_deployment),
                (1.0, self._roll_back_deployment),
                (1.5, self._scale_deployment),
                (0.7, self._delete_deployment),
                (1.5, self._create_daemonset),
                (1.5, self._change_daemonset),
                (0.4, self._delete_daemonset),
                (1.5, self._put_service),
                (0.3, self._delete_service),
                (1.5, self._drain),
                (1.5, self._enable),
            )
        )
        common = {"token": token, "dry_run": dry, "cause": f"user-{token}"}
        adding = next((d for d in self._of(Deployment) if d.status == "Update" and d.phase == "START"), None)
        if adding is not None and token % 3 == 1:
            return self._meanwhile(adding, common)
        return make(common)

    def repair(self, token: int) -> Asked:
        """What a user does who wants peace: undoes updates that stand still, and makes agents available again."""
        common: Common = {"token": token, "cause": f"user-{token}"}
        for deployment in self._of(Deployment):
            if deployment.status == "UpdatePaused":
                return self._control(deployment, "resume", common)
            if deployment.status == "UpdateSuspend":
                return self._control(deployment, "resume" if deployment.rolling_back else "cancel", common)
        for setting in self._of(AgentSetting):
            drain = setting.drain
            if (setting.disabled or setting.taints) and (drain is None or drain.done_at):
                return requests.SetAgent(agent=setting.agent, disabled=False, taints={}, **common)
        return self._maintain(common) if maintains(self.world.seed) else None

    def _maintain(self, common: Common) -> Asked:
        """A new deployment that needs stand-ins, then the drains of agents with taskgroups of such deployments; None
        while one of them is in progress, and in the end."""
        if not self._maintained:
            self._maintained.add("")
            return self._create_steady(common)
        draining = any(s.drain is not None and not s.drain.done_at for s in self._of(AgentSetting))
        if draining or len(self._maintained) > MAINTAINED:
            return None
        surging = {d.key for d in self._of(Deployment) if d.status == "Running" and _surges(d.strategy)}
        steady = {a.key for a in self._of(Application) if a.status == "Running" and a.deployment_key in surging}
        for group in self._of(TaskGroup):
            if group.application_key in steady and group.agent_ip not in self._maintained:
                self._maintained.add(group.agent_ip)
                return requests.DrainAgent(agent=group.agent_ip, at_once=2, **common)
        return None

    def _create_steady(self, common: Common) -> Asked:
        namespace, name = STEADY
        small = Container(command="serve", requests=Amounts(cpus=50, mem=32_000, disk=10_000))
        version = Version(namespace=namespace, application=name, instances=2, containers=(small,))
        strategy = Strategy(max_unavailable=self.world.seed % 8 // 4, max_surge=1, order="CreateFirst")
        deployment = Deployment(namespace=namespace, name=name, instances=2, strategy=strategy)
        return requests.CreateDeployment(deployment=deployment, version=version, **common)

    # --- deployments ------------------------------------------------------------------------------------------

    def _create_deployment(self, common: Common) -> Asked:
        for namespace, name in self.world.some(DEPLOYMENTS, len(DEPLOYMENTS)):
            if ("deployment", f"{namespace}/{name}") not in self._durable:
                instances = self.world.number(1, 5)
                version = self._define(namespace, name, instances) if self.world.chance(0.9) else None
                selector = self.world.pick(({}, {}, {"kind": self.world.pick(("noisy", "quiet"))}))
                deployment = self._deployment(namespace, name, instances, selector)
                return requests.CreateDeployment(deployment=deployment, version=version, **common)
        return None

    def _update_deployment(self, common: Common) -> Asked:
        deployment = self._some(Deployment)
        if deployment is None:
            return None
        instances = self.world.pick((deployment.instances, 0, self.world.number(1, 6)))  # 0: left as it is
        version = self._define(deployment.namespace, deployment.name, instances)
        wanted = self._deployment(deployment.namespace, deployment.name, instances, deployment.selector)
        return requests.UpdateDeployment(
            deployment=wanted,
            version=version,
            resources_only=self.world.chance(0.05),
            on_conflict=ON_CONFLICT[common["token"] % 4],
            **common,
        )

    def _control_deployment(self, common: Common) -> Asked:
        deployment = self._some(Deployment)
        action = self.world.pick(("pause", "resume", "resume", "cancel", "restart"))
        return self._control(deployment, action, common) if deployment is not None else None

    @staticmethod
    def _control(deployment: Deployment, action: Any, common: Common) -> Asked:
        return requests.ControlDeployment(namespace=deployment.namespace, name=deployment.name, action=action, **common)

    def _roll_back_deployment(self, common: Common) -> Asked:
        deployment = self._some(Deployment)
        if deployment is None:
            return None
        kept = [r.number for r in self._of(Revision) if f"{r.namespace}/{r.deployment}" == deployment.key]
        return requests.RollbackDeployment(
            namespace=deployment.namespace, name=deployment.name, revision=self.world.pick((None, *kept)), **common
        )

    def _scale_deployment(self, common: Common) -> Asked:
        namespace, name = self.world.pick(DEPLOYMENTS)
        return self._scale(namespace, name, self.world.number(0, 6), common)

    @staticmethod
    def _scale(namespace: str, name: str, instances: int, common: Common) -> Asked:
        on_conflict = ON_CONFLICT[common["token"] % 4]
        return requests.ScaleDeployment(
            namespace=namespace, name=name, instances=instances, on_conflict=on_conflict, **common
        )

    def _meanwhile(self, deployment: Deployment, common: Common) -> Asked:
        """Something else is wanted while an update adds taskgroups."""
        namespace, name = deployment.namespace, deployment.name
        instances = self.world.number(1, 6)
        if self.world.chance(0.5):
            return self._scale(namespace, name, instances, common)
        wanted = self._deployment(namespace, name, instances, deployment.selector)
        version = self._define(namespace, name, instances)
        return requests.UpdateDeployment(deployment=wanted, version=version, on_conflict="supersede", **common)

    def _delete_deployment(self, common: Common) -> Asked:
        namespace, name = self.world.pick(DEPLOYMENTS)
        return requests.DeleteDeployment(namespace=namespace, name=name, enforce=self.world.chance(0.3), **common)

    def _deployment(self, namespace: str, name: str, instances: int, selector: dict[str, str]) -> Deployment:
        return Deployment(
            namespace=namespace, name=name, selector=selector, instances=instances, strategy=self._strategy(instances)
        )

    def _strategy(self, instances: int) -> Strategy:
        world = self.world
        unavailable, surge = world.pick(((1, 1), (1, 0), (0, 1), (2, 1), (1, 2), (0, 3)))
        canary = Canary(instances=1, hold=world.pick((0.0, 3.0)), manual=world.chance(0.3))
        return Strategy(
            max_unavailable=unavailable,
            max_surge=surge,
            pause=world.pick((0.0, 0.0, 2.0)),
            order=world.pick(("CreateFirst", "DeleteFirst")),
            manual=world.chance(0.1),
            min_ready=world.pick((0.0, 0.0, 2.0)),
            step_timeout=world.pick((0.0, 20.0)),
            on_failure=world.pick(("suspend", "rollback")),
            canary=canary if world.chance(0.2) else None,
        )

    # --- daemonsets -------------------------------------------------------------------------------------------

    def _create_daemonset(self, common: Common) -> Asked:
        for namespace, name in self.world.some(DAEMONSETS, len(DAEMONSETS)):
            if ("daemonset", f"{namespace}/{name}") not in self._durable:
                return requests.CreateDaemonset(
                    daemonset=self._daemonset(namespace, name), version=self._define(namespace, name, 0), **common
                )
        return None

    def _change_daemonset(self, common: Common) -> Asked:
        daemonset = self._some(Daemonset)
        if daemonset is None:
            return None
        namespace, name = daemonset.namespace, daemonset.name
        if self.world.chance(0.2):
            return requests.RollbackDaemonset(namespace=namespace, name=name, **common)
        if self.world.chance(0.3):
            return requests.RestartDaemonset(namespace=namespace, name=name, **common)
        return requests.UpdateDaemonset(
            daemonset=self._daemonset(namespace, name), version=self._define(namespace, name, 0), **common
        )

    def _delete_daemonset(self, common: Common) -> Asked:
        namespace, name = self.world.pick(DAEMONSETS)
        return requests.DeleteDaemonset(namespace=namespace, name=name, enforce=self.world.chance(0.3), **common)

    def _daemonset(self, namespace: str, name: str) -> Daemonset:
        return Daemonset(namespace=namespace, name=name, max_unavailable=self.world.number(1, 2))

    # --- services and drains ----------------------------------------------------------------------------------

    def _put_service(self, common: Common) -> Asked:
        namespace, name = self.world.pick(SERVICES)
        ports = (ServicePort(name="a0"), ServicePort(name="fixed"))
        labels = self.world.pick(({}, {"BCS-WEIGHT-web": "3", "BCS-WEIGHT-front": "0"}))
        service = Service(
            namespace=namespace, name=name, selector=SELECTORS[name], labels=labels, ports=self.world.pick((ports, ()))
        )
        return requests.PutService(service=service, create=self.world.pick((None, None, True, False)), **common)

    def _delete_service(self, common: Common) -> Asked:
        namespace, name = self.world.pick(SERVICES)
        return requests.DeleteService(namespace=namespace, name=name, **common)

    def _drain(self, common: Common) -> Asked:
        return requests.DrainAgent(
            agent=self.world.pick(self.agents),
            at_once=self.world.number(1, 3),
            daemonsets=self.world.chance(0.2),
            timeout=self.world.pick((0.0, 0.0, 30.0)),
            **common,
        )

    def _enable(self, common: Common) -> Asked:
        return requests.SetAgent(agent=self.world.pick(self.agents), disabled=False, **common)

    def _some(self, kind: type[R]) -> R | None:
        found = self._of(kind)
        return self.world.pick(found) if found else None

    def _of(self, kind: type[R]) -> list[R]:
        return [r for r in self._durable.values() if isinstance(r, kind)]


def _surges(strategy: Strategy) -> bool:
    """Whether a drain starts stand-ins for the taskgroups of such a deployment."""
    return strategy.max_surge > 0 and (strategy.order == "CreateFirst" or strategy.max_unavailable < 1)
