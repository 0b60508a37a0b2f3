"""A file of `bcs dump`, or the same document of a running scheduler, as the start of a scenario: agents, namespaces,
queues, priority classes and groups; records of the workloads that run, and requests for those that wait.

An application whose demand the dump does not have gets the size that its taskgroups hold, without constraints. The
taskgroups that an application lacks are requested at the start, the oldest application first.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bcs_scheduler.core.interface.requests import (
    CreateApplication,
    CreateDeployment,
    Request,
    ScaleApplication,
    ScaleDeployment,
)
from bcs_scheduler.simulator.amounts import BadInput
from bcs_scheduler.simulator.dump_format import (
    FORMAT,
    FORMAT_VERSION,
    Dump,
    DumpedAgent,
    DumpedConstraint,
    DumpedDaemonset,
    DumpedDemand,
    DumpedDeployment,
    DumpedTaskGroup,
    Resources,
    extended,
    thousandths,
)
from bcs_scheduler.simulator.model import PORTS, START, Machine, Scenario, Submit
from offers.model import Attribute, Ranges
from offers.names import name_of
from offers.resources import normalise
from store.ids import TaskGroupId
from store.records import (
    DEFAULT_PARTITION,
    DEFAULT_QUEUE,
    GROUP_ANNOTATION,
    AgentSetting,
    Application,
    Daemonset,
    Deployment,
    Limits,
    Namespace,
    PodGroup,
    PriorityClass,
    Queue,
    Record,
    Revision,
    Strategy,
    Task,
    TaskGroup,
    Version,
)
from store.records.definition import (
    Amounts,
    AttributeValue,
    Constraint,
    Container,
    Port,
    RestartPolicy,
    Toleration,
)
from store.records.running import BoundPort
from transactions.resource_request import EXECUTOR

ENDED = frozenset({"Killed", "Finish", "Failed", "Error", "Lost"})
"""Statuses of taskgroups that hold no capacity."""


def read_dump(file: Path) -> Scenario:
    """The cluster of a dump, without a load. Raises BadInput, which names the file and the field."""
    try:
        data = file.read_bytes()
        text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        dump = msgspec.json.decode(text, type=Dump)
    except OSError as error:
        raise BadInput(f"--dump: {file}: {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise BadInput(f"--dump: {file}: incomplete or damaged: {error}") from None
    except msgspec.DecodeError as error:  # ValidationError, which names the field, is one
        raise BadInput(f"--dump: {file}: {error}") from None
    if dump.format != FORMAT or dump.format_version != FORMAT_VERSION:
        found = f"{dump.format} {dump.format_version}"
        raise BadInput(f"--dump: {file}: $.format: must be {FORMAT} {FORMAT_VERSION}, not {found}")
    return scenario_of(dump)


def live_dump(document: dict[str, Any]) -> Scenario:
    """The cluster of a dump that has just been read from a scheduler. Raises BadInput, which names the field."""
    try:
        return scenario_of(msgspec.convert(document, Dump))
    except msgspec.ValidationError as error:
        raise BadInput(f"--live: {error}") from None


def scenario_of(dump: Dump) -> Scenario:
    """The cluster of a dump, without a load."""
    agents = {agent.id: agent for agent in dump.agents if agent.active}
    held: defaultdict[str, Amounts] = defaultdict(Amounts)
    groups: defaultdict[tuple[str, str], list[DumpedTaskGroup]] = defaultdict(list)
    ended: Counter[tuple[str, str, str]] = Counter()
    left_out = 0
    for group in dump.taskgroups:
        if group.status in ENDED:
            ended[group.namespace, group.application, group.status] += 1
            continue
        if group.agent not in agents:
            left_out += 1
            continue
        groups[group.namespace, group.application].append(group)
        held[group.agent] = added(held[group.agent], group.resources)
    ports = ports_of(dump)
    workloads = Workloads(dump, agents, groups, ended)
    records = (*objects_of(dump, agents.values()), *workloads.records())
    notes = {
        "taskgroups without an active agent are left out.": left_out,
        "agents that are not active are left out.": len(dump.agents) - len(agents),
        "constraints are left out, because the dump hides their values.": workloads.hidden,
    }
    return Scenario(
        tuple(machine_of(agent, held[agent.id], ports) for agent in agents.values()),
        records,
        (),
        tuple(f"{number} {words}" for words, number in notes.items() if number),
        actions=tuple(Submit(0.0, request) for request in workloads.requests),
        moment=dump.time.timestamp() if dump.time else None,
        taskgroups=workloads.names,
        trees={
            one.partition or DEFAULT_PARTITION: one.spec
            for one in dump.queue_tree_documents or [dump.queue_tree_document]
            if one.spec
        },
    )


NONE = {"cpus": 0, "mem": 0, "disk": 0, "gpus": 0}


def objects_of(dump: Dump, agents: Iterable[DumpedAgent]) -> Iterator[Record]:
    """The records. `agents`: those that are active."""
    classes = tuple(one.name for one in dump.priority_classes)
    for space in dump.namespaces:
        yield Namespace(name=space.name, queue=space.queue, priority_classes=classes)
    for queue in dump.queues:
        if queue.recorded:
            yield Queue(
                name=queue.name,
                weight=queue.weight,
                guarantee=Amounts(**thousandths(queue.guarantee)),
                guarantee_extended=extended(queue.guarantee),
                capability=Limits(**thousandths(queue.capability)),
                capability_extended=extended(queue.capability),
                reclaimable=queue.reclaimable,
                priority=queue.priority,
            )
    recorded = {queue.name for queue in dump.queues if queue.recorded}
    for name in sorted({space.queue for space in dump.namespaces} - recorded - {"", DEFAULT_QUEUE}):
        yield Queue(name=name)  # a queue of the tree, which namespaces may name under other policies, too
    for one in dump.priority_classes:
        yield PriorityClass(
            name=one.name,
            value=one.value,
            global_default=one.global_default,
            preemption_policy=one.preemption_policy,
            created_at=START,
        )
    for group in dump.pod_groups:
        yield PodGroup(
            namespace=group.namespace,
            name=group.name,
            min_member=group.min_member,
            min_task_member=group.min_task_member,
            queue=group.queue,
            priority_class=group.priority_class,
            created_at=START,
        )
    yield from _settings(agents)


def _settings(agents: Iterable[DumpedAgent]) -> Iterator[Record]:
    for agent in agents:
        if agent.cordoned or agent.taints or agent.extended:
            yield AgentSetting(
                agent=name_of(agent.attributes, agent.hostname),
                disabled=agent.cordoned,
                taints=agent.taints,
                extended={name: round(amount * 1000) for name, amount in agent.extended.items()},
            )


def ports_of(dump: Dump) -> Ranges:
    """The ports of every agent: those of an agent whose ports are not known, and all that documents and tasks name."""
    fixed = {port for one in dump.demands or () for container in one.containers for port in container.host_ports}
    held = {port.host_port for group in dump.taskgroups for task in group.tasks for port in task.ports}
    return normalise((*PORTS, *((port, port) for port in (fixed | held) if port > 0)))


def machine_of(agent: DumpedAgent, held: Amounts, ports: Ranges) -> Machine:
    """An agent has at least the capacity that its taskgroups hold."""
    total = {name: max(amount, getattr(held, name)) for name, amount in agent.total.given().items()}
    attributes: dict[str, Attribute] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in agent.attributes.items()
    }
    return Machine(agent.id, agent.hostname, attributes, total, ports, agent.ip)


def added(held: Amounts, more: Resources) -> Amounts:
    """The sum."""
    return Amounts(**{name: getattr(held, name) + amount for name, amount in {**NONE, **thousandths(more)}.items()})


COUNTING = ("UNIQUE", "MAXPER", "GROUPBY")
"""Operators of constraints that count taskgroups."""
LEAST = 10
"""Thousandths of a core, and of a MB, that a taskgroup requests at least."""
Groups = Mapping[tuple[str, str], Sequence[DumpedTaskGroup]]
"""Taskgroups that hold capacity, by namespace and application."""


class Workloads:
    """Makes the records and the requests."""

    def __init__(
        self,
        dump: Dump,
        agents: Mapping[str, DumpedAgent],
        groups: Groups,
        ended: Mapping[tuple[str, str, str], int],
    ) -> None:
        """`ended`: numbers of taskgroups by namespace, application and status in which they have ended."""
        self._dump, self._agents, self._groups, self._ended = dump, agents, groups, ended
        self._demands = {(one.namespace, one.application): one for one in dump.demands or ()}
        whole = (one for one in dump.deployments if dump.demands and not one.next_application)
        self._deployments = {(one.namespace, one.application): one for one in whole}
        self._daemonsets = {(one.namespace, one.name): one for one in dump.daemonsets}
        self._number = int(START) * 10**9
        self.names: dict[str, tuple[str, int]] = {}
        """Application key and index of each taskgroup, by its id in the dump."""
        self.requests: list[Request] = []
        """Requests for the taskgroups that waited."""
        self.hidden = 0
        """Constraints that are left out, because the dump hides their values."""

    def records(self) -> Iterator[Record]:
        """The records; fills `names` and `requests`."""
        wanted = {(one.namespace, one.name): one.wanted for one in self._dump.applications if self._dump.demands}
        age = {(one.namespace, one.name): (str(one.create_time), one.name) for one in self._dump.applications}
        every = {*self._groups, *(key for key, number in wanted.items() if number)}
        keys = sorted(every, key=lambda key: (age.get(key, ("", "")), key))
        for key in keys:
            members = self._groups.get(key, ())
            number = max(wanted.get(key, 0) - self._settled(key), len(members))
            if not number:
                continue
            if key in self._daemonsets and key in self._demands:
                yield from self._daemonset(key, self._daemonsets[key], members)
            elif members:
                yield from self._running(key, members)
                if number > len(members):
                    self._scale(key, number)
            elif key in self._demands and self._demands[key].containers:
                self._create(key, number)

    def _settled(self, key: tuple[str, str]) -> int:
        """Taskgroups that have ended and are not started again."""
        policy = self._demands[key].restart_policy if key in self._demands else "OnFailure"
        statuses = {"Always": (), "OnFailure": ("Finish",), "Never": ("Finish", "Failed")}[policy]
        return sum(self._ended.get((*key, status), 0) for status in statuses)

    # --- one workload -----------------------------------------------------------------------------------------

    def _running(self, key: tuple[str, str], members: Sequence[DumpedTaskGroup]) -> Iterator[Record]:
        version = self._version(key, len(members), members)
        deployment = self._deployments.get(key)
        yield version
        yield self._application(version, deployment=deployment.name if deployment else "")
        if deployment is not None:
            yield from _deployment(deployment, version)
        yield from self._taskgroups(version, members)

    def _daemonset(
        self, key: tuple[str, str], daemonset: DumpedDaemonset, members: Sequence[DumpedTaskGroup]
    ) -> Iterator[Record]:
        version = self._version(key, len(members), members)
        yield version
        yield self._application(version, type="daemonset")
        yield Daemonset(
            namespace=daemonset.namespace,
            name=daemonset.name,
            max_unavailable=max(1, daemonset.max_unavailable),
            status="Running",
            created_at=START,
            updated_at=START,
        )
        yield from self._taskgroups(version, members)

    def _scale(self, key: tuple[str, str], number: int) -> None:
        deployment = self._deployments.get(key)
        if deployment is not None:
            self.requests.append(ScaleDeployment(namespace=key[0], name=deployment.name, instances=number))
        else:
            self.requests.append(ScaleApplication(namespace=key[0], name=key[1], instances=number))

    def _create(self, key: tuple[str, str], number: int) -> None:
        version = msgspec.structs.replace(self._version(key, number, ()), name="", created_at=0.0)
        deployment = self._deployments.get(key)
        if deployment is None:
            self.requests.append(CreateApplication(version=version))
            return
        made = Deployment(
            namespace=key[0],
            name=deployment.name,
            selector={"simulated": deployment.name},
            strategy=_strategy(deployment),
            instances=number,
        )
        self.requests.append(CreateDeployment(deployment=made, version=version))

    # --- records ----------------------------------------------------------------------------------------------

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _version(self, key: tuple[str, str], number: int, members: Sequence[DumpedTaskGroup]) -> Version:
        demand = self._demands.get(key)
        if demand is None or not demand.containers:
            requests = _request(members[0].resources)
            return self._made(key, number, (Container(command="simulated", requests=requests),), DumpedDemand(*key))
        containers = tuple(
            Container(
                name=f"c{rank}",
                command="simulated",
                requests=Amounts(**thousandths(one.resources)),
                extended={name: round(amount * 1000) for name, amount in one.extended.items()},
                ports=tuple(Port(name=f"p{at}", host_port=port) for at, port in enumerate(one.host_ports)),
            )
            for rank, one in enumerate(demand.containers)
        )
        return self._made(key, number, containers, demand)

    def _made(
        self, key: tuple[str, str], number: int, containers: tuple[Container, ...], demand: DumpedDemand
    ) -> Version:
        return Version(
            namespace=key[0],
            application=key[1],
            name=str(self._next()),
            instances=number,
            annotations={GROUP_ANNOTATION: demand.pod_group} if demand.pod_group else {},
            containers=containers,
            restart_policy=RestartPolicy(policy=demand.restart_policy),
            constraints=self._constraints(demand.constraints),
            tolerations=tuple(Toleration(key=one.key, value=one.value) for one in demand.tolerations),
            max_unavailable=demand.max_unavailable,
            min_available=min(demand.min_available, number),
            priority=demand.priority,
            priority_class=demand.priority_class,
            priority_from="class" if demand.priority_class else "document" if demand.priority else "",
            preemption_policy=demand.preemption_policy,
            created_at=START,
        )

    def _constraints(self, given: Sequence[Sequence[DumpedConstraint]]) -> tuple[tuple[Constraint, ...], ...]:
        """A union with a hidden member is left out as a whole: the other members alone would admit too little."""
        found = []
        for union in given:
            if any(one.hidden for one in union):
                self.hidden += 1
                continue
            members = (
                Constraint(
                    name=one.name, operator=one.operator, items=tuple(one.items), number=one.number, limit=one.limit
                )
                for one in union
            )
            found.append(tuple(members))
        return tuple(found)

    def _application(self, version: Version, *, deployment: str = "", type: str = "application") -> Application:
        return Application(
            namespace=version.namespace,
            name=version.application,
            type=type,  # type: ignore[arg-type]  # one of the two types that this module names
            deployment=deployment,
            annotations=version.annotations,
            instances=version.instances,
            version=version.name,
            status="Running",
            created_at=START,
            updated_at=START,
        )

    def _taskgroups(self, version: Version, members: Sequence[DumpedTaskGroup]) -> Iterator[TaskGroup]:
        for index, member in _indexed(members):
            if member.id:
                self.names[member.id] = (version.application_key, index)
            yield self._taskgroup(version, index, member)

    def _taskgroup(self, version: Version, index: int, group: DumpedTaskGroup) -> TaskGroup:
        agent = self._agents[group.agent]
        identity = TaskGroupId.make(index, version.application, version.namespace, "simulation", self._next())
        tasks = tuple(
            Task(
                id=str(identity.task(rank)),
                status="Running",
                last_status="Starting",
                ports=_ports(group, rank),
                updated_at=START,
            )
            for rank in range(len(version.containers))
        )
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
            tasks=tasks,
            resources=Amounts(**thousandths(group.resources)),
            attributes=_counted(version, agent),
            running_since=START,
            created_at=START,
            updated_at=START,
        )


def _deployment(deployment: DumpedDeployment, version: Version) -> Iterator[Record]:
    yield Deployment(
        namespace=deployment.namespace,
        name=deployment.name,
        selector={"simulated": deployment.name},
        strategy=_strategy(deployment),
        instances=version.instances,
        status="Running",
        application=version.application,
        created_at=START,
        updated_at=START,
        progress_at=START,
    )
    yield Revision(
        namespace=deployment.namespace,
        deployment=deployment.name,
        number=1,
        version=version,
        instances=version.instances,
        strategy=_strategy(deployment),
        why="created",
        created_at=START,
    )


def _strategy(deployment: DumpedDeployment) -> Strategy:
    return Strategy(
        max_unavailable=deployment.max_unavailable,
        max_surge=deployment.max_surge if deployment.max_unavailable or deployment.max_surge else 1,
        pause=deployment.upgrade_duration,
        order="DeleteFirst" if deployment.rolling_order == "DeleteFirst" else "CreateFirst",
    )


def _indexed(members: Sequence[DumpedTaskGroup]) -> Iterator[tuple[int, DumpedTaskGroup]]:
    """The taskgroups of an application with indexes below their number: their own where these are free."""
    own = {member.index: member for member in members if member.index < len(members)}
    free = iter([index for index in range(len(members)) if index not in own])
    for member in members:
        yield (member.index if own.get(member.index) is member else next(free)), member


def _ports(group: DumpedTaskGroup, rank: int) -> tuple[BoundPort, ...]:
    held = group.tasks[rank].ports if rank < len(group.tasks) else ()
    return tuple(BoundPort(name=f"p{at}", host_port=port.host_port) for at, port in enumerate(held) if port.host_port)


def _counted(version: Version, agent: DumpedAgent) -> dict[str, AttributeValue]:
    """The attributes of the agent that constraints name: constraints that count taskgroups read them."""
    known: dict[str, object] = {**agent.attributes, "hostname": agent.hostname}
    found = {}
    for name in sorted({one.name for union in version.constraints for one in union if one.operator in COUNTING}):
        value = known.get(name)
        if isinstance(value, str):
            found[name] = AttributeValue(text=value)
        elif isinstance(value, (int, float)):
            found[name] = AttributeValue(number=float(value))
    return found


def _request(held: Resources) -> Amounts:
    """The request of a container whose taskgroup holds the amounts, the executor included."""
    found = thousandths(held)
    return Amounts(
        cpus=max(found.get("cpus", 0) - (EXECUTOR.cpus if found.get("cpus", 0) < EXECUTOR.spared_from else 0), LEAST),
        mem=max(found.get("mem", 0) - EXECUTOR.mem, LEAST),
        disk=max(found.get("disk", 0) - EXECUTOR.disk, 0),
        gpus=found.get("gpus", 0),
    )
