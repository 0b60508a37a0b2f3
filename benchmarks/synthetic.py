"""A core beside a synthetic cluster in one process: no threads, no network, no store, and a clock that is set by hand.

The records of a large cluster are made directly, so 50,000 running taskgroups take a few seconds. What the core asks of
Mesos is answered when `World.rest` is called: launches run, kills end, declined or used offers come again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from bcs_scheduler.core.interface import cluster_manager, effects, inputs, leased
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from offers.agents import ListedAgent
from offers.model import Attribute, Offer, ResourceKey
from store.records import (
    AgentSetting,
    Application,
    BoundPort,
    Command,
    ConfigItem,
    ConfigMap,
    CustomKind,
    CustomObject,
    Deployment,
    Endpoint,
    Framework,
    Message,
    Namespace,
    Note,
    Record,
    Revision,
    Secret,
    Service,
    ServicePort,
    Task,
    TaskGroup,
    Transaction,
    Version,
    Webhook,
)
from store.records.definition import Amounts, Container, RestartPolicy
from transactions.rules.task_states import TaskState

START = 1_700_000_000.0
PER_AGENT = 10
"""Taskgroups per agent, and per application."""
OTHERS = 50
"""Taskgroups for each object of every other kind."""
SPACE = "big"
CONTAINER = Container(command="serve", requests=Amounts(cpus=100, mem=32_000, disk=0))
HUGE = Container(command="serve", requests=Amounts(cpus=1_000_000, mem=32_000, disk=0))
CROWD = "crowd"
"""Namespace of what waits for a place."""
POLICY = RestartPolicy(policy="Always", interval=0.0)
PORTS = (31_000, 31_999)


def version(namespace: str, application: str, instances: int, **fields: Any) -> Version:
    """A definition that is restarted at once, whatever happens to it."""
    settings: dict[str, Any] = {
        "containers": (CONTAINER,),
        "restart_policy": POLICY,
        "labels": {"app": application, "tier": "web"},
        **fields,
    }
    return Version(namespace=namespace, application=application, instances=instances, **settings)


def agent_name(number: int) -> str:
    return f"agent-{number}"


def attributes(number: int) -> dict[str, Attribute]:
    return {"InnerIP": f"10.{number >> 16}.{(number >> 8) & 255}.{number & 255}", "rack": f"r{number // 20}"}


def listed(numbers: Iterable[int]) -> tuple[ListedAgent, ...]:
    """Agents as the Mesos master lists them."""
    return tuple(
        ListedAgent(
            id=agent_name(number),
            hostname=f"host-{number}",
            ip=str(attributes(number)["InnerIP"]),
            attributes=attributes(number),
            total={"cpus": 32_000, "mem": 64_000_000, "disk": 64_000_000},
            allocated={},
            active=True,
        )
        for number in numbers
    )


def applications(taskgroups: int, agents: int, each: int = PER_AGENT) -> Iterator[Record]:
    """Running applications of `each` taskgroups, spread over the agents."""
    for number in range(0, taskgroups, each):
        size = min(each, taskgroups - number)
        name = f"app-{number // each}"
        definition = version(SPACE, name, size, name=str(int(START) * 10**9 + number), created_at=START)
        yield definition
        yield Application(
            namespace=SPACE,
            name=name,
            instances=size,
            version=definition.name,
            status="Running",
            message="application is running",
            labels=definition.labels,
            created_at=START,
            updated_at=START,
        )
        for index in range(size):
            yield taskgroup(definition, index, (number + index) % agents, 10**15 + number + index)


def waiting(count: int) -> Iterator[Record]:
    """So many applications of one taskgroup each that is too large for any agent: their launches wait for a place."""
    for number in range(count):
        name, operation = f"w{number}", f"application-{10**17 + number}"
        definition = version(CROWD, name, 1, name=str(10**17 + number), created_at=START, containers=(HUGE,))
        yield definition
        yield Application(
            namespace=CROWD,
            name=name,
            instances=1,
            version=definition.name,
            status="Operating",
            operation=operation,
            created_at=START,
        )
        yield Transaction(
            id=operation,
            type="LAUNCH",
            namespace=CROWD,
            application=name,
            target=1,
            version=definition.name,
            created_at=START,
            due_at=START,
            deadline=START + 1e6,
            history=(Note(at=START, text="accepted"),),
        )


def taskgroup(definition: Version, index: int, agent: int, nano: int) -> TaskGroup:
    """A running taskgroup of the definition."""
    tail = f"{index}.{definition.application}.{definition.namespace}.cluster"
    port = BoundPort(name="http", container_port=80, host_port=31_000 + nano % 1000)
    task = Task(
        id=f"{nano}.0.{tail}", name="main", status="Running", last_status="Starting", ports=(port,), updated_at=START
    )
    return TaskGroup(
        id=f"{tail}.{nano}",
        namespace=definition.namespace,
        application=definition.application,
        index=index,
        version=definition.name,
        agent_id=agent_name(agent),
        hostname=f"host-{agent}",
        agent_ip=str(attributes(agent)["InnerIP"]),
        role="*",
        status="Running",
        last_status="Starting",
        message="pod is running",
        started=True,
        tasks=(task,),
        resources=Amounts(cpus=100, mem=32_000, disk=0),
        running_since=START,
        created_at=START,
        updated_at=START,
    )


def others(count: int) -> Iterator[Record]:
    """So many objects of every other kind, none of which concerns anything else."""
    for number in range(count):
        name = f"x{number}"
        labels = {"app": name}
        yield AgentSetting(agent=f"spare-{number}", strings={"zone": name})
        yield ConfigMap(namespace=SPACE, name=name, items={"a": ConfigItem(content="YQ==")}, created_at=START)
        yield Secret(namespace=SPACE, name=name, items={"a": "YQ=="}, created_at=START)
        yield Namespace(name=f"space-{number}", created_at=START)
        yield Webhook(namespace=SPACE, name=name, created_at=START)
        yield CustomKind(name=f"Kind{number}", created_at=START)
        yield CustomObject(type=f"Kind{number}", namespace=SPACE, name=name, created_at=START)
        port = ServicePort(name="http", service_port=80)
        yield Service(namespace=SPACE, name=name, selector=labels, ports=(port,), created_at=START)
        yield Endpoint(namespace=SPACE, name=name, ports=(port,), created_at=START)
        yield Revision(namespace=SPACE, deployment=f"d{number}", number=1, version=version(SPACE, f"d{number}", 0))
        yield from _owned(number)
        yield from _remembered(number)


def _owned(number: int) -> Iterator[Record]:
    """A deployment and a daemonset without taskgroups."""
    name = f"d{number}"
    yield Deployment(
        namespace=SPACE, name=name, application=name, instances=0, status="Running", created_at=START, revision=1
    )
    yield version(SPACE, name, 0, name=str(10**18 + number), created_at=START)
    yield Application(
        namespace=SPACE,
        name=name,
        deployment=name,
        instances=0,
        version=str(10**18 + number),
        status="Abnormal",
        message="no taskgroups are wanted",
        created_at=START,
    )


def _remembered(number: int) -> Iterator[Record]:
    """An operation and a command that have ended."""
    yield Transaction(
        id=f"application-{10**18 + number}",
        type="SCALE",
        namespace=SPACE,
        application=f"app-{number}",
        status="FINISH",
        created_at=START,
        due_at=START,
        deadline=START + 480,
        finished_at=START,
        history=(Note(at=START, text="accepted"),),
    )
    identity = f"command-{10**18 + number}"
    yield Command(
        id=identity,
        type="command",
        namespace=SPACE,
        application=f"app-{number}",
        targets=1,
        created_at=START,
        deadline=START + 60,
        keep_until=START + 864_000,
    )
    yield Message(
        id=str(10**18 + number),
        command=identity,
        taskgroup="gone",
        status="success",
        created_at=START,
        completed_at=START,
    )


class World:
    """A core whose cluster has `taskgroups` running taskgroups on a tenth as many agents, each with an offer. `queued`
    launches of one taskgroup wait for a place and fit nowhere."""

    def __init__(
        self,
        taskgroups: int,
        each: int = PER_AGENT,
        options: CoreOptions | None = None,
        *,
        offers: bool = True,
        queued: int = 0,
    ) -> None:
        self.agents = max(1, taskgroups // PER_AGENT)
        self.now = START + 10.0
        records = [
            Framework(id="framework", cluster="cluster", created_at=START),
            *applications(taskgroups, self.agents, each),
            *others(taskgroups // OTHERS),
            *waiting(queued),
        ]
        self.options = options or CoreOptions(strict=True, offer_hold=1e6)
        self.core = Core(records, self.options, self.now)
        self.replies: list[effects.Reply] = []
        self.units: list[Any] = []
        """Units of the latest turn."""
        self.after: Callable[[], Any] = lambda: None
        """What is to be done when the turn that was prepared is over."""
        self._asked: deque[effects.Effect] = deque()
        self._serial = 0
        self.turn(cluster_manager.AgentsListed(agents=listed(range(self.agents))))
        self.turn(cluster_manager.Connected(framework_id="framework", cluster="cluster"))
        self.reconciled()
        if offers:
            self.all_offers()
        self.rest()

    # --- turns ------------------------------------------------------------------------------------------------

    def turn(self, *batch: inputs.Input, after: float = 0.0001) -> None:
        """One turn, `after` so many seconds."""
        self.now += after
        self.take(self.core.turn(batch, self.now))

    def take(self, units: Sequence[Any]) -> None:
        """Takes over what a turn of the core has returned."""
        self.units = list(units)
        for unit in units:
            for effect in unit.effects:
                if isinstance(effect, effects.Reply):
                    self.replies.append(effect)
                elif isinstance(effect, cluster_manager.LaunchOnAgent | leased.Decline | cluster_manager.End):
                    self._asked.append(effect)

    def rest(self) -> None:
        """Mesos does what it has been asked, until nothing is left to do."""
        for _ in range(100):
            batch = self.answers()
            if not batch:
                return
            self.turn(*batch)
        raise AssertionError("the core does not come to rest")

    def answers(self) -> list[inputs.Input]:
        """What Mesos says to all that it has been asked."""
        batch: list[inputs.Input] = []
        while self._asked:
            effect = self._asked.popleft()
            if isinstance(effect, cluster_manager.LaunchOnAgent):
                for launch in effect.launches:
                    batch += self.reports(launch.taskgroup, "RUNNING")
                number = int(effect.agent_id.rpartition("-")[2])
                batch.append(leased.OffersArrived(offers=(self.offer(number),)))
            elif isinstance(effect, cluster_manager.End):
                batch += [self.report(task, effect.agent_id, "KILLED") for task in effect.tasks]
        return batch

    # --- what Mesos says --------------------------------------------------------------------------------------

    def offer(self, number: int) -> Offer:
        """An offer of an agent with plenty of room, whatever runs there."""
        self._serial += 1
        resource_amounts = {name: ResourceKey(name, "*") for name in ("cpus", "mem", "disk", "ports")}
        known = attributes(number)
        return Offer(
            id=f"offer-{self._serial}",
            agent_id=agent_name(number),
            hostname=f"host-{number}",
            ip=str(known["InnerIP"]),
            role="*",
            attributes=known,
            scalars=(
                (resource_amounts["cpus"], 31_000),
                (resource_amounts["mem"], 60_000_000),
                (resource_amounts["disk"], 64_000_000),
            ),
            ranges=((resource_amounts["ports"], (PORTS,)),),
            received_at=self.now,
        )

    def report(self, task_id: str, agent_id: str, state: str, **fields: Any) -> cluster_manager.StatusUpdate:
        self._serial += 1
        uuid = b"u%d" % self._serial
        return cluster_manager.StatusUpdate(
            task_id=task_id, agent_id=agent_id, state=TaskState(state), uuid=uuid, **fields
        )

    def reports(self, group: TaskGroup, state: str, **fields: Any) -> list[cluster_manager.StatusUpdate]:
        return [self.report(task.id, group.agent_id, state, **fields) for task in group.tasks]

    def reconciled(self) -> None:
        """Mesos answers for every task after a subscription."""
        groups = list(self.core.state.taskgroups.values())
        for first in range(0, len(groups), 2000):
            batch = [report for group in groups[first : first + 2000] for report in self.reports(group, "RUNNING")]
            self.turn(*batch)

    def connected(self) -> None:
        """Subscribes again if there is no subscription."""
        if not self.core.turn_context.connected:
            self.turn(cluster_manager.Connected(framework_id="framework", cluster="cluster"))
        if self.core.open_questions:
            self.reconciled()
        if not len(self.core.turn_context.pool.hand):
            self.all_offers()

    def all_offers(self) -> None:
        """Every agent offers what it has."""
        self.turn(leased.OffersArrived(offers=tuple(map(self.offer, range(self.agents)))))

    def agent_back(self, number: int) -> None:
        """An agent that was away registers again, with all its tasks and an offer."""
        groups = list(self.core.state.groups_on(agent_name(number)).values())
        self.turn(*[report for group in groups for report in self.reports(group, "RUNNING")])
        self.turn(leased.OffersArrived(offers=(self.offer(number),)))
        self.rest()
