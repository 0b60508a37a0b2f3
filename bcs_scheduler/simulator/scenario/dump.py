"""A file of `bcs dump` as the start of a scenario.

A dump has no documents. Running taskgroups become applications without end, of the size that their taskgroups hold now,
without constraints; deployments and daemonsets are simulated as these applications.
"""

from __future__ import annotations

import gzip
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from bcs_scheduler.simulator.scenario.amounts import BadInput
from bcs_scheduler.simulator.scenario.model import START, Machine, Scenario
from offers.model import Attribute
from offers.names import name_of
from store.ids import TaskGroupId
from store.records import AgentSetting, Application, Limits, Namespace, Queue, Record, Task, TaskGroup, Version
from store.records.definition import Amounts, Container
from transactions.resources.resource_request import EXECUTOR

FORMAT, FORMAT_VERSION = "bcs-dump", 1
ENDED = frozenset({"Killed", "Finish", "Failed", "Error", "Lost"})
"""Statuses of taskgroups that hold no capacity."""
LEAST = 10
"""Thousandths of a core, and of a MB, that a taskgroup requests at least."""


class _Amounts(msgspec.Struct, frozen=True):
    cpus: float | None = None
    mem: float | None = None
    disk: float | None = None
    gpus: float | None = None

    def given(self) -> dict[str, int]:
        """Thousandths of the amounts that the dump has."""
        found = {"cpus": self.cpus, "mem": self.mem, "disk": self.disk, "gpus": self.gpus}
        return {name: round(amount * 1000) for name, amount in found.items() if amount is not None}


class _Agent(msgspec.Struct, frozen=True):
    id: str
    hostname: str
    total: _Amounts
    ip: str = ""
    active: bool = True
    cordoned: bool = False
    attributes: dict[str, str | float | list[tuple[int, int]]] = {}
    taints: dict[str, str] = {}
    extended: dict[str, float] = {}


class _Namespace(msgspec.Struct, frozen=True):
    name: str
    queue: str = ""


class _Queue(msgspec.Struct, frozen=True):
    name: str
    weight: int = 1
    guarantee: _Amounts = _Amounts()
    capability: _Amounts = _Amounts()
    reclaimable: bool = True
    recorded: bool = True


class _TaskGroup(msgspec.Struct, frozen=True):
    namespace: str
    application: str
    index: int
    status: str
    id: str = ""
    agent: str = ""
    resources: _Amounts = _Amounts()


class _Dump(msgspec.Struct, frozen=True, rename="camel"):
    format: str
    format_version: int
    agents: list[_Agent]
    taskgroups: list[_TaskGroup]
    time: datetime | None = None
    namespaces: list[_Namespace] = []
    queues: list[_Queue] = []


def read_dump(file: Path) -> Scenario:
    """The cluster of a dump, without a load. Raises BadInput, which names the file and the field."""
    try:
        data = file.read_bytes()
        text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        dump = msgspec.json.decode(text, type=_Dump)
    except OSError as error:
        raise BadInput(f"--dump: {file}: {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise BadInput(f"--dump: {file}: incomplete or damaged: {error}") from None
    except msgspec.DecodeError as error:  # ValidationError, which names the field, is one
        raise BadInput(f"--dump: {file}: {error}") from None
    if dump.format != FORMAT or dump.format_version != FORMAT_VERSION:
        found = f"{dump.format} {dump.format_version}"
        raise BadInput(f"--dump: {file}: $.format: must be {FORMAT} {FORMAT_VERSION}, not {found}")
    return _Reading(dump).scenario()


class _Reading:
    def __init__(self, dump: _Dump) -> None:
        self._dump = dump
        self._agents = {agent.id: agent for agent in dump.agents if agent.active}
        self._names: dict[str, tuple[str, int]] = {}
        """Application key and index by the id in the dump."""

    def scenario(self) -> Scenario:
        held: defaultdict[str, Amounts] = defaultdict(Amounts)
        groups: defaultdict[tuple[str, str], list[_TaskGroup]] = defaultdict(list)
        left_out = 0
        for group in self._dump.taskgroups:
            if group.status in ENDED:
                continue
            if group.agent not in self._agents:
                left_out += 1
                continue
            groups[group.namespace, group.application].append(group)
            held[group.agent] = _sum(held[group.agent], group.resources)
        notes = []
        if left_out:
            notes.append(f"{left_out} taskgroups without an active agent are left out.")
        if len(self._agents) < len(self._dump.agents):
            notes.append(f"{len(self._dump.agents) - len(self._agents)} agents that are not active are left out.")
        machines = tuple(_machine(agent, held[agent.id]) for agent in self._agents.values())
        records = [*self._objects(), *self._applications(groups)]
        return Scenario(
            machines,
            tuple(records),
            (),
            tuple(notes),
            moment=self._dump.time.timestamp() if self._dump.time else None,
            taskgroups=self._names,
        )

    def _objects(self) -> Iterator[Record]:
        for space in self._dump.namespaces:
            yield Namespace(name=space.name, queue=space.queue)
        for queue in self._dump.queues:
            if queue.recorded:
                yield Queue(
                    name=queue.name,
                    weight=queue.weight,
                    guarantee=Amounts(**queue.guarantee.given()),
                    capability=Limits(**queue.capability.given()),
                    reclaimable=queue.reclaimable,
                )
        for agent in self._agents.values():
            if agent.cordoned or agent.taints or agent.extended:
                extended = {name: round(amount * 1000) for name, amount in agent.extended.items()}
                yield AgentSetting(
                    agent=name_of(agent.attributes, agent.hostname),
                    disabled=agent.cordoned,
                    taints=agent.taints,
                    extended=extended,
                )

    def _applications(self, groups: Mapping[tuple[str, str], Sequence[_TaskGroup]]) -> Iterator[Record]:
        number = int(START) * 10**9
        for (namespace, name), members in sorted(groups.items()):
            number += 1
            version = Version(
                namespace=namespace,
                application=name,
                name=str(number),
                instances=len(members),
                containers=(Container(command="simulated", requests=_request(members[0].resources)),),
                created_at=START,
            )
            yield version
            yield Application(
                namespace=namespace,
                name=name,
                instances=len(members),
                version=version.name,
                status="Running",
                created_at=START,
                updated_at=START,
            )
            for index, member in _indexed(members):
                number += 1
                if member.id:
                    self._names[member.id] = (version.application_key, index)
                yield self._taskgroup(version, index, member, number)

    def _taskgroup(self, version: Version, index: int, group: _TaskGroup, number: int) -> TaskGroup:
        agent = self._agents[group.agent]
        identity = TaskGroupId.make(index, version.application, version.namespace, "simulation", number)
        task = Task(id=str(identity.task(0)), status="Running", last_status="Starting", updated_at=START)
        return TaskGroup(
            id=str(identity),
            namespace=version.namespace,
            application=version.application,
            index=index,
            version=version.name,
            agent_id=agent.id,
            hostname=agent.hostname,
            agent_ip=agent.ip,
            role="*",
            status="Running",
            last_status="Starting",
            started=True,
            tasks=(task,),
            resources=Amounts(**group.resources.given()),
            running_since=START,
            created_at=START,
            updated_at=START,
        )


def _indexed(members: Sequence[_TaskGroup]) -> Iterator[tuple[int, _TaskGroup]]:
    """The taskgroups of an application with indexes below their number: their own where these are free."""
    own = {member.index: member for member in members if member.index < len(members)}
    free = iter([index for index in range(len(members)) if index not in own])
    for member in members:
        yield (member.index if own.get(member.index) is member else next(free)), member


def _request(held: _Amounts) -> Amounts:
    """The request of a container whose taskgroup holds the amounts, the executor included."""
    found = held.given()
    return Amounts(
        cpus=max(found.get("cpus", 0) - (EXECUTOR.cpus if found.get("cpus", 0) < EXECUTOR.spared_from else 0), LEAST),
        mem=max(found.get("mem", 0) - EXECUTOR.mem, LEAST),
        disk=max(found.get("disk", 0) - EXECUTOR.disk, 0),
        gpus=found.get("gpus", 0),
    )


def _machine(agent: _Agent, held: Amounts) -> Machine:
    """An agent has at least the capacity that its taskgroups hold."""
    total = {name: max(amount, getattr(held, name)) for name, amount in agent.total.given().items()}
    attributes: dict[str, Attribute] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in agent.attributes.items()
    }
    return Machine(agent.id, agent.hostname, attributes, total, ip=agent.ip)


def _sum(held: Amounts, more: _Amounts) -> Amounts:
    return Amounts(**{name: getattr(held, name) + amount for name, amount in {**_NONE, **more.given()}.items()})


_NONE = {"cpus": 0, "mem": 0, "disk": 0, "gpus": 0}
