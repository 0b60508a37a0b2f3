"""A lab for deployments: the bounds of their updates are checked after every turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from bcs_scheduler.core.interface import effects, inputs, requests
from bcs_scheduler.core.options import CoreOptions
from store.records import Application, Deployment, Record, Strategy, TaskGroup, Version
from store.records.definition import Container, HealthCheck, RestartPolicy
from tests.unit.lab import START, Lab, version
from transactions.conflicts import OnConflict
from transactions.rules import rolling
from transactions.rules.lifecycle import is_ready_or_finished

WEB = "default/web"
NEW: dict[str, Any] = {"labels": {"revision": "2"}}


class RollingLab(Lab):
    """`least` ready and `most` present so far; `seen`: all effects so far."""

    def __init__(self, options: CoreOptions | None = None, records: Iterable[Record] = (), now: float = START) -> None:
        self.least = 10**6
        self.most = 0
        self.seen: list[effects.Effect] = []
        super().__init__(options, records, now)

    def turn(self, *batch: inputs.Input) -> list[effects.Effect]:
        out = super().turn(*batch)
        self.seen += out
        self.least = min(self.least, self.ready)
        self.most = max(self.most, self.present)
        return out

    def measure(self) -> None:
        """From now on."""
        self.least, self.most = self.ready, self.present

    # --- users ------------------------------------------------------------------------------------------------

    def deploy(self, instances: int = 1, *, name: str = "web", strategy: Strategy | None = None, **fields: Any) -> Any:
        selector = fields.pop("selector", {})
        wanted = wish(instances, name=name, strategy=strategy, selector=selector)
        return self.ask(requests.CreateDeployment(deployment=wanted, version=named(instances, name, **fields)))

    def renew(
        self,
        instances: int,
        *,
        strategy: Strategy | None = None,
        dry: bool = False,
        on_conflict: OnConflict = "fail",
        **fields: Any,
    ) -> Any:
        wanted = wish(instances, strategy=strategy or self.deployment.strategy, selector=self.deployment.selector)
        definition = version(instances, **fields)
        return self.ask(
            requests.UpdateDeployment(deployment=wanted, version=definition, dry_run=dry, on_conflict=on_conflict)
        )

    def control(self, action: Any) -> effects.Reply:
        return self.ask(requests.ControlDeployment(namespace="default", name="web", action=action))

    def undo(self, revision: int | None = None) -> effects.Reply:
        return self.ask(requests.RollbackDeployment(namespace="default", name="web", revision=revision))

    def resize(self, instances: int, on_conflict: OnConflict = "fail") -> effects.Reply:
        return self.ask(
            requests.ScaleDeployment(namespace="default", name="web", instances=instances, on_conflict=on_conflict)
        )

    def remove(self, *, enforce: bool = False) -> effects.Reply:
        return self.ask(requests.DeleteDeployment(namespace="default", name="web", enforce=enforce))

    # --- Mesos ------------------------------------------------------------------------------------------------

    def once(self, *, start: bool = True, end: bool = True) -> bool:
        """What is staged starts, what is to end is killed, room is offered. False if there was nothing to do."""
        staged = [g for g in self.groups if start and not g.ended and not g.started and not g.killing_since]
        ending = [g for g in self.groups if end and not g.ended and g.killing_since and not g.unreachable_since]
        for group in staged:
            self.report(group, "RUNNING")
        for group in ending:
            self.report(group, "KILLED")
        self.offer(f"agent-{self._serial}")
        return bool(staged or ending)

    def run(self) -> None:
        idle = 0
        for _ in range(400):
            before = self.core.state.deployments.get(WEB)
            idle = 0 if self.once() or before != self.core.state.deployments.get(WEB) else idle + 1
            if idle > 1:
                return
        raise AssertionError("does not come to rest")

    def run_applications(self) -> None:
        """Before there is a deployment."""
        while self.once():
            pass

    def until(self, phase: str) -> None:
        """Runs until a phase of a step begins, or the update is over."""
        self.run_until(lambda: self.deployment.phase == phase or not self.deployment.updating)

    def run_until(self, condition: Callable[[], bool]) -> None:
        for _ in range(100):
            if condition():
                return
            self.once()
        raise AssertionError("it does not come to that")

    # --- looking ----------------------------------------------------------------------------------------------

    @property
    def deployment(self) -> Deployment:
        return self.core.state.deployments[WEB]

    @property
    def application(self) -> Application:
        return self.core.state.applications[f"default/{self.deployment.application}"]

    @property
    def successor(self) -> Application:
        return self.core.state.applications[f"default/{self.deployment.successor}"]

    @property
    def groups(self) -> list[TaskGroup]:
        return sorted(self.core.state.taskgroups.values(), key=lambda g: (g.application, g.index, g.id))

    def members(self, application: Application) -> list[TaskGroup]:
        return [group for group in self.groups if group.application == application.name]

    def group_of(self, index: int) -> TaskGroup:
        """Of the bound application."""
        (found,) = [group for group in self.members(self.application) if group.index == index]
        return found

    @property
    def old(self) -> list[TaskGroup]:
        return self.members(self.application)

    @property
    def new(self) -> list[TaskGroup]:
        return self.members(self.successor)

    @property
    def ready(self) -> int:
        return sum(map(self.is_ready, self.groups))

    @staticmethod
    def is_ready(group: TaskGroup) -> bool:
        return group.status == "Running" and is_ready_or_finished(group)

    @property
    def present(self) -> int:
        return sum(not group.ended for group in self.groups)

    def hold_bounds(self) -> None:
        floor, ceiling = rolling.bounds(self.deployment)
        assert self.least >= floor, f"{self.least} were ready, {floor} must be"
        assert self.most <= ceiling, f"{self.most} were there, {ceiling} may be"

    def records(self) -> list[Record]:
        return self.core.state.records()

    def succeed(self) -> RollingLab:
        successor = type(self)(self.options, self.records(), self.now)
        successor._serial = self._serial + 1000
        return successor


def wish(
    instances: int,
    *,
    name: str = "web",
    strategy: Strategy | None = None,
    selector: dict[str, str] | None = None,
) -> Deployment:
    return Deployment(
        namespace="default",
        name=name,
        instances=instances,
        strategy=strategy or Strategy(),
        selector=selector or {},
        raw=f'{{"instance":{instances}}}',
    )


def named(instances: int, name: str, **fields: Any) -> Version:
    return msgspec.structs.replace(version(instances, **fields), application=name)


def deployed(
    instances: int, strategy: Strategy | None = None, options: CoreOptions | None = None, **fields: Any
) -> RollingLab:
    """A lab with a deployment that runs."""
    lab = RollingLab(options)
    lab.offer()
    lab.deploy(instances, strategy=strategy, **fields)
    lab.run()
    assert lab.deployment.status == "Running"
    lab.measure()
    return lab


NEVER: dict[str, Any] = {"restart_policy": RestartPolicy(policy="Never")}
FAST = Strategy(max_surge=2, max_unavailable=1)


def checked() -> dict[str, Any]:
    """A definition whose one container has a REMOTE check."""
    return {"containers": (Container(command="serve", health_checks=(HealthCheck(type="REMOTE_TCP"),)),)}


def healthy(lab: RollingLab, group: TaskGroup, verdict: bool = True, message: str = "") -> None:
    for task in group.tasks:
        lab.ask(requests.ReportHealth(task_id=task.id, type="REMOTE_TCP", healthy=verdict, message=message))
