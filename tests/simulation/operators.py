"""Operators who keep configmaps and secrets, tell executors what to do, and report health, at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from bcs_scheduler.core.interface import requests
from store.records import Application, Command, ConfigItem, ConfigMap, Record, Secret, TaskGroup, Version
from store.records.definition import Amounts, Container, HealthCheck, Item, Reference
from tests.simulation.world import World

NAMESPACES = ("default", "prod")
KEYS = ("a", "b")
R = TypeVar("R", bound=Record)
Asked = requests.Request | None


class Operators:
    def __init__(self, world: World, durable: dict[tuple[str, str], Record]) -> None:
        self.world = world
        self._durable = durable
        self._written = 0
        self.unwanted: set[str] = set()
        """Commands that somebody has asked to delete."""

    def ask(self, token: int, dry: bool) -> Asked:
        """One command at random; None if there is nothing it could be about."""
        make: Callable[[dict[str, Any]], Asked] = self.world.weighted(
            (
                (4.0, self._put),
                (3.0, self._drop),
                (6.0, self._create_command),
                (0.5, self._forget),
                (6.0, self._change_limits),
                (1.0, self._report),
            )
        )
        return make({"token": token, "dry_run": dry, "cause": f"user-{token}"})

    def repair(self, token: int) -> Asked:
        """The next object that is missing or lacks a key; None once all is there."""
        common: dict[str, Any] = {"token": token, "cause": f"user-{token}"}
        for namespace in NAMESPACES:
            config = self._durable.get(("configmap", f"{namespace}/app"))
            if not isinstance(config, ConfigMap) or set(config.items) != set(KEYS):
                return requests.PutConfigMap(config_map=self._config(namespace, KEYS), **common)
            secret = self._durable.get(("secret", f"{namespace}/db"))
            if not isinstance(secret, Secret) or set(secret.items) != set(KEYS):
                return requests.PutSecret(secret=self._secret(namespace, KEYS), **common)
        return None

    def dress(self, container: Container) -> Container:
        """The container with checks, limits and references at random."""
        world = self.world
        checks: list[HealthCheck] = []
        if world.chance(0.35):
            checks.append(HealthCheck(type=world.pick(("HTTP", "TCP", "COMMAND"))))
        if world.chance(0.15):
            checks.append(HealthCheck(type=world.pick(("REMOTE_HTTP", "REMOTE_TCP"))))
        return msgspec.structs.replace(
            container,
            health_checks=tuple(checks),
            limits=Amounts(cpus=world.pick((0, 1000, 2000))),
            configmaps=self._references("app") if world.chance(0.25) else (),
            secrets=self._references("db") if world.chance(0.25) else (),
        )

    def _references(self, name: str) -> tuple[Reference, ...]:
        keys = self.world.pick((KEYS, KEYS[:1], KEYS[1:]))
        return (Reference(name=name, items=tuple(Item(type="env", key=key, target=key) for key in keys)),)

    # --- configmaps and secrets -------------------------------------------------------------------------------

    def _put(self, common: dict[str, Any]) -> Asked:
        namespace = self.world.pick(NAMESPACES)
        keys = self.world.pick((KEYS, KEYS, KEYS, KEYS[:1], KEYS[1:]))
        create = self.world.pick((None, None, True, False))
        if self.world.chance(0.5):
            return requests.PutConfigMap(config_map=self._config(namespace, keys), create=create, **common)
        return requests.PutSecret(secret=self._secret(namespace, keys), create=create, **common)

    def _drop(self, common: dict[str, Any]) -> Asked:
        namespace = self.world.pick(NAMESPACES)
        if self.world.chance(0.5):
            return requests.DeleteConfigMap(namespace=namespace, name="app", **common)
        return requests.DeleteSecret(namespace=namespace, name="db", **common)

    def _config(self, namespace: str, keys: tuple[str, ...]) -> ConfigMap:
        self._written += 1
        items = {key: ConfigItem(content=f"config-{key}-{self._written}") for key in keys}
        return ConfigMap(namespace=namespace, name="app", items=items)

    def _secret(self, namespace: str, keys: tuple[str, ...]) -> Secret:
        self._written += 1
        return Secret(namespace=namespace, name="db", items={key: f"secret-{key}-{self._written}" for key in keys})

    # --- executors --------------------------------------------------------------------------------------------

    def _create_command(self, common: dict[str, Any]) -> Asked:
        world = self.world
        applications = self._of(Application)
        if not applications:
            return None
        application = world.pick(applications)
        groups = [g.id for g in self._of(TaskGroup) if g.namespace == application.namespace] or ["0.x.y.z.1"]
        return requests.CreateCommand(
            namespace=application.namespace,
            name=application.name,
            type=world.pick(("signal", "command", "restart", "reload", "env")),
            taskgroups=tuple(world.some(groups, 1)) if world.chance(0.3) else (),
            timeout=world.pick((5.0, 20.0)),
            reserve=world.pick((10.0, 60.0)),
            **common,
        )

    def _forget(self, common: dict[str, Any]) -> Asked:
        commands = self._of(Command)
        if not commands:
            return None
        identity = self.world.pick(commands).id
        if not common["dry_run"]:
            self.unwanted.add(identity)
        return requests.DeleteCommand(id=identity, **common)

    def _change_limits(self, common: dict[str, Any]) -> Asked:
        applications = self._of(Application)
        if not applications:
            return None
        application = self.world.pick(applications)
        newest = self._durable.get(("version", f"{application.key}/{application.version}"))
        if not isinstance(newest, Version):
            return None
        limits = Amounts(cpus=self.world.pick((0, 1000, 2000, 3000)))
        containers = tuple(msgspec.structs.replace(c, limits=limits) for c in newest.containers)
        wanted = msgspec.structs.replace(newest, name="", containers=containers, instances=application.instances)
        return requests.UpdateApplication(version=wanted, resources_only=True, **common)

    def _report(self, common: dict[str, Any]) -> Asked:
        tasks = [task for group in self._of(TaskGroup) for task in group.tasks]
        if not tasks:
            return None
        return requests.ReportHealth(
            task_id=self.world.pick(tasks).id,
            type=self.world.pick(("REMOTE_HTTP", "REMOTE_TCP")),
            healthy=self.world.chance(0.5),
            **common,
        )

    def _of(self, kind: type[R]) -> list[R]:
        return [r for r in self._durable.values() if isinstance(r, kind)]
