"""The fields of a dump that simulations read. Fields that an older `bcs dump` does not write have defaults."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from offers.resources import SCALARS

FORMAT, FORMAT_VERSION = "bcs-dump", 1


class DumpedAmounts(msgspec.Struct, frozen=True):
    """Cores, MB, MB, GPUs. None: the dump does not have the amount."""

    cpus: float | None = None
    mem: float | None = None
    disk: float | None = None
    gpus: float | None = None

    def given(self) -> dict[str, int]:
        """Thousandths of the amounts that the dump has."""
        found = {"cpus": self.cpus, "mem": self.mem, "disk": self.disk, "gpus": self.gpus}
        return {name: round(amount * 1000) for name, amount in found.items() if amount is not None}


Resources = dict[str, float]
"""Amounts of taskgroups and containers. The API begins their names with capitals (``Cpus``)."""


def thousandths(resources: Mapping[str, float]) -> dict[str, int]:
    """Thousandths of cores, MB, MB and GPUs; other names are left out."""
    known = {name.lower(): round(1000 * amount) for name, amount in resources.items()}
    return {name: known[name] for name in SCALARS if name in known}


def extended(resources: Mapping[str, float]) -> dict[str, int]:
    """Thousandths of extended resources."""
    return {name: round(1000 * amount) for name, amount in resources.items() if name.lower() not in SCALARS}


class DumpedAgent(msgspec.Struct, frozen=True):
    id: str
    hostname: str
    total: DumpedAmounts
    ip: str = ""
    active: bool = True
    cordoned: bool = False
    attributes: dict[str, str | float | list[tuple[int, int]]] = {}
    taints: dict[str, str] = {}
    extended: dict[str, float] = {}


class DumpedNamespace(msgspec.Struct, frozen=True):
    name: str
    queue: str = ""


class DumpedQueue(msgspec.Struct, frozen=True):
    name: str
    weight: int = 1
    guarantee: Resources = {}
    capability: Resources = {}
    reclaimable: bool = True
    priority: int = 0
    recorded: bool = True


class DumpedPort(msgspec.Struct, frozen=True, rename="camel"):
    host_port: int = 0


class DumpedTask(msgspec.Struct, frozen=True):
    ports: list[DumpedPort] = []


class DumpedTaskGroup(msgspec.Struct, frozen=True):
    namespace: str
    application: str
    index: int
    status: str
    id: str = ""
    agent: str = ""
    version: str = ""
    resources: Resources = {}
    tasks: list[DumpedTask] = []


class DumpedContainer(msgspec.Struct, frozen=True, rename="camel"):
    resources: Resources = {}
    extended: dict[str, float] = {}
    host_ports: list[int] = []


class DumpedConstraint(msgspec.Struct, frozen=True):
    """`hidden`: the dump hides names, and does not have the patterns."""

    name: str
    operator: Literal["UNIQUE", "MAXPER", "CLUSTER", "LIKE", "UNLIKE", "GROUPBY", "EXCLUDE", "GREATER"]
    items: list[str] = []
    number: float = 0.0
    limit: int = 0
    hidden: bool = False


class DumpedToleration(msgspec.Struct, frozen=True):
    key: str
    value: str


class DumpedDemand(msgspec.Struct, frozen=True, rename="camel"):
    """The demand of an application. Without containers the dump does not have its version."""

    namespace: str
    application: str
    containers: list[DumpedContainer] = []
    constraints: list[list[DumpedConstraint]] = []
    tolerations: list[DumpedToleration] = []
    restart_policy: Literal["Never", "OnFailure", "Always"] = "OnFailure"
    min_available: int = 0
    max_unavailable: int = 0
    priority: int = 0
    priority_class: str = ""
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"
    pod_group: str = ""


class DumpedApplication(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    wanted: int = 0
    deployment: str = ""
    create_time: int | str = 0


class DumpedDeployment(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    application: str = ""
    next_application: str = ""
    wanted: int = 0
    max_unavailable: int = 1
    max_surge: int = 1
    upgrade_duration: float = 0.0
    rolling_order: str = "CreateFirst"


class DumpedDaemonset(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    max_unavailable: int = 1


class DumpedPodGroup(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    min_member: int = 0
    min_task_member: dict[str, int] = {}
    queue: str = ""
    priority_class: str = ""


class DumpedPriorityClass(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    value: int = 0
    global_default: bool = False
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"


class DumpedTree(msgspec.Struct, frozen=True):
    """`spec`: a queue configuration; empty under another policy. `partition`: name of the partition of roles; empty in
    an older dump."""

    partition: str = ""
    spec: dict[str, Any] = {}


class Dump(msgspec.Struct, frozen=True, rename="camel"):
    format: str
    format_version: int
    agents: list[DumpedAgent]
    taskgroups: list[DumpedTaskGroup]
    time: datetime | None = None
    namespaces: list[DumpedNamespace] = []
    queues: list[DumpedQueue] = []
    demands: list[DumpedDemand] | None = None
    """None: an older `bcs dump`, without demands."""
    applications: list[DumpedApplication] = []
    deployments: list[DumpedDeployment] = []
    daemonsets: list[DumpedDaemonset] = []
    pod_groups: list[DumpedPodGroup] = []
    priority_classes: list[DumpedPriorityClass] = []
    queue_tree_document: DumpedTree = DumpedTree()
    queue_tree_documents: list[DumpedTree] = []
    """Those of all partitions, if several have a tree."""
