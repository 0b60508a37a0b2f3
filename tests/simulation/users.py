"""Users who ask for things at random, and remember what they have been promised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from bcs_scheduler.core.interface import effects
from bcs_scheduler.core.interface import requests as orders
from bcs_scheduler.core.interface.unknown import DecideUnknown
from store.records import AgentSetting, Framework, Record, TaskGroup, Transaction, Version
from store.records.definition import (
    Amounts,
    Constraint,
    Container,
    KillPolicy,
    Port,
    RestartPolicy,
    Toleration,
    UnreachablePolicy,
)
from tests.simulation.operators import Operators
from tests.simulation.owners import DEPLOYMENTS, STEADY, Owners
from tests.simulation.queues import QueueOperators
from tests.simulation.world import World
from transactions.conflicts import OnConflict

APPLICATIONS = (("default", "web"), ("default", "db"), ("prod", "api"), ("prod", "job"))
ZONES = ("east", "west", "north")
FIXED_PORTS = (31001, 31002)
LABELS = ("noisy", "quiet")
LARGE = tuple("x" * size for size in (100_000, 230_000, 340_000, 500_000, 800_000))
"""Annotations of a definition: near and beyond what a store takes with the records that repeat them."""
EVERY = 23
"""One of so many definitions has a large annotation. No chance is drawn for it, so the seeds stay what they were."""
R = TypeVar("R", bound=Record)


def shutdown_delay(seed: int) -> float:
    """The shutdown delay of all taskgroups of users in a world, in seconds. No chance is drawn for it."""
    return 4.0 if seed % 7 == 5 else 0.0


@dataclass(slots=True)
class Promise:
    """What a user may rely on about one application; None = not known (an answer was lost, or it is being deleted)."""

    exists: bool | None = False
    instances: int | None = None


class Users:
    def __init__(self, world: World, durable: dict[tuple[str, str], Record]) -> None:
        self.world = world
        self._durable = durable
        self.promises = {f"{ns}/{name}": Promise() for ns, name in APPLICATIONS}
        self.open: dict[int, orders.Request] = {}
        """Commands that have not been answered, by token."""
        self.transactions: dict[str, str] = {}
        """Transactions that users were told of, with their application."""
        self.deployments = {f"{ns}/{name}": Promise() for ns, name in (*DEPLOYMENTS, STEADY)}
        self.owners = Owners(world, durable, self.version)
        self.agents: list[str] = self.owners.agents
        """Keys of agents, as operators name them."""
        self._operators = Operators(world, durable)
        self.unwanted: set[str] = self._operators.unwanted
        """Commands that users have asked to delete."""
        self._tokens = 0
        self._versions = 0
        self.asked: Callable[[World], dict[str, Any]] = lambda world: {}
        """What users add to a definition in worlds of a certain kind."""
        self.queues: QueueOperators | None = None  # in worlds that have queues

    # --- asking -----------------------------------------------------------------------------------------------

    def ask(self, send: Callable[[orders.Request], None]) -> None:
        """One operation at random."""
        make = self.world.weighted(
            (
                (5.0, self._create),
                (4.0, self._scale),
                (3.0, self._update),
                (0.7, self._rollback),
                (2.0, self._reschedule),
                (1.5, self._delete),
                (1.5, self._cancel),
                (2.0, self._set_agent),
                (9.0, self._operators.ask),
                (14.0, self.owners.ask),
                *(((8.0, self.queues.ask),) if self.queues is not None else ()),
            )
        )
        self._tokens += 1
        self._send(make(self._tokens, self.world.chance(0.12)), send)

    def ask_for(self, make: Callable[[World, int], orders.Request], send: Callable[[orders.Request], None]) -> None:
        """One operation of a certain kind."""
        self._tokens += 1
        self._send(make(self.world, self._tokens), send)

    def repair(self, send: Callable[[orders.Request], None]) -> None:
        """Puts back a configmap or secret that is missing, and ends what stands still."""
        self.decide(send)
        if not self.open:
            self._tokens += 1
            queues = self.queues.repair(self._tokens) if self.queues is not None else None
            self._send(queues or self._operators.repair(self._tokens) or self.owners.repair(self._tokens), send)

    def decide(self, send: Callable[[orders.Request], None]) -> None:
        """Ends the tasks that the store has forgotten, if they halt the leader."""
        framework = self._durable.get(("framework", "framework"))
        asked = any(isinstance(command, DecideUnknown) for command in self.open.values())
        if isinstance(framework, Framework) and framework.unknown is not None and not asked:
            self._tokens += 1
            self._send(DecideUnknown(token=self._tokens, cause=f"user-{self._tokens}", decision="end"), send)

    def _send(self, command: orders.Request | None, send: Callable[[orders.Request], None]) -> None:
        if command is not None:
            self.open[command.token] = command
            self.world.count(f"{'plan' if command.dry_run else 'operation'}: {type(command).__name__}")
            send(command)

    def _create(self, token: int, dry: bool) -> orders.Request | None:
        for namespace, name in self.world.some(APPLICATIONS, len(APPLICATIONS)):
            if ("application", f"{namespace}/{name}") not in self._durable:
                version = self._application(namespace, name, self.world.number(1, 5))
                return orders.CreateApplication(token=token, dry_run=dry, cause=f"user-{token}", version=version)
        return None

    def _scale(self, token: int, dry: bool) -> orders.Request:
        namespace, name = self.world.pick(APPLICATIONS)
        return orders.ScaleApplication(
            token=token,
            dry_run=dry,
            cause=f"user-{token}",
            namespace=namespace,
            name=name,
            instances=self.world.number(0, 6),
            inner=self.world.chance(0.15),
            on_conflict=_on_conflict(token),
        )

    def _update(self, token: int, dry: bool) -> orders.Request:
        namespace, name = self.world.pick(APPLICATIONS)
        application = self._durable.get(("application", f"{namespace}/{name}"))
        instances = getattr(application, "instances", 2) or 1
        part = self.world.number(1, instances) if self.world.chance(0.3) else None
        return orders.UpdateApplication(
            token=token,
            dry_run=dry,
            cause=f"user-{token}",
            version=self._application(namespace, name, instances),
            instances=part,
            max_unavailable=self.world.pick((None, None, 1, 2)),
            on_conflict=_on_conflict(token),
        )

    def _rollback(self, token: int, dry: bool) -> orders.Request:
        namespace, name = self.world.pick(APPLICATIONS)
        return orders.RollbackApplication(
            token=token,
            dry_run=dry,
            cause=f"user-{token}",
            namespace=namespace,
            name=name,
            on_conflict=_on_conflict(token),
        )

    def _reschedule(self, token: int, dry: bool) -> orders.Request | None:
        groups = self._of(TaskGroup)
        if not groups:
            return None
        retain = self.world.pick((0.0, 0.0, 20.0))
        taskgroup = self.world.pick(groups).key
        return orders.RescheduleTaskGroup(
            token=token, dry_run=dry, cause=f"user-{token}", taskgroup=taskgroup, host_retain=retain
        )

    def _delete(self, token: int, dry: bool) -> orders.Request:
        namespace, name = self.world.pick(APPLICATIONS)
        return orders.DeleteApplication(
            token=token,
            dry_run=dry,
            cause=f"user-{token}",
            namespace=namespace,
            name=name,
            enforce=self.world.chance(0.3),
        )

    def _cancel(self, token: int, dry: bool) -> orders.Request | None:
        active = [t for t in self._of(Transaction) if not t.ended]
        if not active:
            return None
        return orders.CancelTransaction(token=token, dry_run=dry, cause=f"user-{token}", id=self.world.pick(active).key)

    def _set_agent(self, token: int, dry: bool) -> orders.Request:
        agent = self.world.pick(self.agents)
        if self.world.chance(0.4) and ("agentsetting", agent) in self._durable:
            return orders.DeleteAgentSetting(token=token, dry_run=dry, cause=f"user-{token}", agent=agent)
        return orders.SetAgent(
            token=token,
            dry_run=dry,
            cause=f"user-{token}",
            agent=agent,
            disabled=self.world.pick((None, True, False, False)),
            strings=self.world.pick((None, {"disk": "ssd"}, {"zone": self.world.pick(ZONES)}, {})),
            taints=self.world.pick((None, {}, {"dedicated": "db"})),
            extended=self.world.pick((None, {"fpga": 2000}, {"fpga": 0})),
        )

    def _of(self, kind: type[R]) -> list[R]:
        return [r for r in self._durable.values() if isinstance(r, kind)]

    # --- definitions ------------------------------------------------------------------------------------------

    def _application(self, namespace: str, name: str, instances: int) -> Version:
        return msgspec.structs.replace(self.version(namespace, name, instances), **self.asked(self.world))

    def version(self, namespace: str, name: str, instances: int) -> Version:
        """A definition at random. Its label differs each time, so that an update always is one."""
        world = self.world
        self._versions += 1
        labels = {"revision": str(self._versions)} if world.chance(0.9) else {}
        if world.chance(0.3):
            labels["kind"] = world.pick(LABELS)
        return Version(
            namespace=namespace,
            application=name,
            instances=instances,
            labels=labels,
            annotations=self._annotations(),
            network_mode=world.pick(("", "HOST")),
            containers=tuple(self._container(number) for number in range(world.pick((1, 1, 2)))),
            restart_policy=RestartPolicy(
                policy=world.pick(("Never", "OnFailure", "OnFailure", "Always", "Always")),
                interval=world.pick((0.0, 0.0, 2.0)),
                backoff=world.pick((0.0, 1.0)),
                max_times=world.pick((0, 0, 0, 2)),
                host_retain=world.pick((0.0, 0.0, 10.0)),
            ),
            kill_policy=KillPolicy(grace_period=world.pick((1.0, 3.0)), shutdown_delay=shutdown_delay(world.seed)),
            unreachable_policy=UnreachablePolicy(replace_after=world.pick((0.0, 10.0, 10.0, 40.0, -1.0))),
            constraints=self._constraints(),
            tolerations=(Toleration(key="dedicated", value="db"),) if world.chance(0.3) else (),
            max_unavailable=world.pick((0, 0, 1, 2)),
            role=world.pick(("", "", "batch")),
        )

    def _annotations(self) -> dict[str, str]:
        number = self._versions + self.world.seed
        return {"notes": LARGE[number // EVERY % len(LARGE)]} if number % EVERY == 0 else {}

    def _container(self, number: int) -> Container:
        world = self.world
        requests = Amounts(
            cpus=world.pick((50, 100, 500, 1000)), mem=world.pick((32_000, 256_000, 1_000_000)), disk=10_000
        )
        ports = []
        if world.chance(0.5):
            ports.append(Port(name=f"a{number}", container_port=80, host_port=0))
        if number == 0 and world.chance(0.2):
            ports.append(Port(name="fixed", container_port=81, host_port=world.pick(FIXED_PORTS)))
        extended = {"fpga": 1000} if number == 0 and world.chance(0.08) else {}
        return self._operators.dress(
            Container(command="serve", requests=requests, ports=tuple(ports), extended=extended)
        )

    def _constraints(self) -> tuple[tuple[Constraint, ...], ...]:
        world = self.world
        choices = (
            Constraint(name="hostname", operator="UNIQUE"),
            Constraint(name="hostname", operator="MAXPER", limit=world.number(1, 3)),
            Constraint(name="zone", operator="MAXPER", limit=world.number(1, 3)),
            Constraint(name="zone", operator="GROUPBY", items=ZONES),
            Constraint(name="zone", operator="CLUSTER", items=tuple(world.some(ZONES, 2))),
            Constraint(name="hostname", operator="UNLIKE", items=("host-1*",)),
            Constraint(name="hostname", operator="LIKE", items=("host-[0-3]", "re:host-1.")),
            Constraint(name="rack", operator="GREATER", number=1.0),
            Constraint(name="", operator="EXCLUDE", items=("kind:noisy",)),
        )
        count = world.pick((0, 0, 1, 1, 2))
        return tuple(tuple(world.some(choices, world.pick((1, 1, 1, 2)))) for _ in range(count))

    # --- being answered ---------------------------------------------------------------------------------------

    def replied(self, reply: effects.Reply) -> None:
        command = self.open.pop(reply.token)
        if reply.error:
            self.world.count(f"refused: {reply.error}")
            if reply.not_storable:
                self.world.count("refused for the size")
        if command.dry_run:
            return
        self._learn(command, reply)
        if not reply.error and isinstance(reply.data, dict) and "transactionID" in reply.data:
            key = f"{reply.data['namespace']}/{reply.data['name']}"
            self.transactions[reply.data["transactionID"]] = key

    def _learn(self, command: orders.Request, reply: effects.Reply) -> None:
        match command:
            case orders.CreateApplication():
                promise = self._promise(command.version.namespace, command.version.application)
                if not reply.error:
                    promise.exists, promise.instances = True, command.version.instances
                elif reply.error == "exists":
                    promise.exists = True if promise.exists is not None else None
            case orders.ScaleApplication():
                if not reply.error:
                    promise = self._promise(command.namespace, command.name)
                    promise.exists, promise.instances = True, None if _waits(reply) else command.instances
            case orders.UpdateApplication():
                if not reply.error and command.version.instances:
                    promise = self._promise(command.version.namespace, command.version.application)
                    promise.instances = None if _waits(reply) else command.version.instances
            case orders.RollbackApplication():
                if not reply.error and _waits(reply):
                    self._promise(command.namespace, command.name).instances = None
            case orders.DeleteApplication():
                if not reply.error:
                    promise = self._promise(command.namespace, command.name)
                    promise.exists = promise.instances = None
            case orders.CreateDeployment() | orders.ScaleDeployment() | orders.DeleteDeployment():
                self._learn_of_owner(command, failed=bool(reply.error))
                if isinstance(command, orders.ScaleDeployment) and not reply.error and _waits(reply):
                    self.deployments[f"{command.namespace}/{command.name}"].instances = None
            case orders.UpdateDeployment() | orders.ControlDeployment() | orders.RollbackDeployment():
                if not reply.error:
                    self._learn_of_owner(command, failed=False)
            case orders.CancelTransaction():
                if not reply.error:
                    promise = self._promise(reply.data["namespace"], reply.data["name"])
                    promise.instances = None

    def _learn_of_owner(self, command: orders.Request, *, failed: bool) -> None:
        """What a deployment ends with depends on how its update goes; what it adopts changes its name."""
        match command:
            case orders.CreateDeployment():
                if failed:
                    return
                key, instances = command.deployment.key, command.deployment.instances
                self.deployments[key] = Promise(
                    True, instances if command.version and not command.deployment.selector else None
                )
                if command.deployment.selector:
                    self._forget(command.deployment.namespace)
            case orders.ScaleDeployment():
                if not failed:
                    self.deployments[f"{command.namespace}/{command.name}"].instances = command.instances
            case orders.DeleteDeployment():
                if not failed:
                    self.deployments[f"{command.namespace}/{command.name}"] = Promise(None, None)
            case orders.UpdateDeployment():
                self.deployments[command.deployment.key].instances = None
            case orders.ControlDeployment() | orders.RollbackDeployment():
                self.deployments[f"{command.namespace}/{command.name}"].instances = None

    def _forget(self, namespace: str) -> None:
        for key, promise in self.promises.items():
            if key.startswith(f"{namespace}/"):
                promise.exists = promise.instances = None

    def unanswered(self, tokens: Sequence[int]) -> None:
        """The leader is gone: nobody knows whether these happened."""
        for token in tokens:
            command = self.open.pop(token)
            self.world.count("answers lost")
            if command.dry_run:
                continue
            match command:
                case orders.UpdateApplication():
                    promise = self._promise(command.version.namespace, command.version.application)
                    promise.instances = None
                    continue
                case orders.CreateApplication():
                    key = f"{command.version.namespace}/{command.version.application}"
                case orders.ScaleApplication() | orders.DeleteApplication():
                    key = f"{command.namespace}/{command.name}"
                case orders.CancelTransaction():
                    for promise in self.promises.values():
                        promise.instances = None
                    continue
                case orders.CreateDeployment():
                    self._forget(command.deployment.namespace)
                    self.deployments[command.deployment.key] = Promise(None, None)
                    continue
                case orders.UpdateDeployment():
                    self.deployments[command.deployment.key].instances = None
                    continue
                case orders.ControlDeployment() | orders.RollbackDeployment() | orders.ScaleDeployment():
                    self.deployments[f"{command.namespace}/{command.name}"].instances = None
                    continue
                case orders.DeleteDeployment():
                    self.deployments[f"{command.namespace}/{command.name}"] = Promise(None, None)
                    continue
                case _:
                    continue
            self.promises[key] = Promise(exists=None, instances=None)

    def _promise(self, namespace: str, name: str) -> Promise:
        """Of what is owned by a deployment or daemonset, its owner is asked."""
        return self.promises.get(f"{namespace}/{name}", Promise())


def _on_conflict(token: int) -> OnConflict:
    """Every other request supersedes what runs. Not drawn at random: other choices of a seed stay as they were."""
    return "supersede" if token % 2 else "fail" if token % 4 else "queue"


def _waits(reply: effects.Reply) -> bool:
    """The request waits, and others may come before it: nobody knows yet what it will lead to."""
    return isinstance(reply.data, dict) and "queuePosition" in reply.data


def setting_of(durable: dict[tuple[str, str], Record], agent: str) -> AgentSetting:
    found = durable.get(("agentsetting", agent))
    return found if isinstance(found, AgentSetting) else AgentSetting(agent=agent)
