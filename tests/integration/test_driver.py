"""The driver against a real Apache Mesos."""

from __future__ import annotations

import contextlib
import itertools
import queue
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from bcs_scheduler.core.interface import cluster_manager, inputs, leased
from bcs_scheduler.mesos.driver import Driver
from bcs_scheduler.mesos.launches.task_info import DefaultExecutorBuilder
from bcs_scheduler.mesos.settings import MesosSettings
from offers.model import Allocation, Offer, ResourceKey
from store.records import BoundPort, Task, TaskGroup, Version
from store.records.definition import Amounts, Container, EnvVar, HealthCheck, KillPolicy
from tests.integration.mesoscluster import RealMesos
from tests.waiting import wait_for

pytestmark = pytest.mark.mesos

E = TypeVar("E", bound=inputs.Input)
_numbers = itertools.count(1)


class Framework:
    """A driver with the least of a scheduler around it: offers are kept, updates acknowledged."""

    def __init__(self, url: str, framework_id: str = "", **settings: object) -> None:
        self.inbox: queue.Queue[inputs.Input] = queue.Queue()
        self.seen: list[inputs.Input] = []
        self.offers: dict[str, Offer] = {}
        self.states: dict[str, list[str]] = {}
        self.driver = Driver(
            MesosSettings(master=url, framework_name="driver-test", **settings),  # type: ignore[arg-type]
            self._deliver,
            DefaultExecutorBuilder(),
        )
        self.driver.start(framework_id)

    def _deliver(self, *events: inputs.Input) -> None:
        for event in events:
            self.inbox.put(event)

    @property
    def id(self) -> str:
        return str(self.driver.status()["framework_id"])

    def until(self, condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
        """Handles events until the condition holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            left = deadline - time.monotonic()
            assert left > 0, f"waited in vain for {what}; states {self.states}, last events {self.seen[-5:]}"
            try:
                self._handle(self.inbox.get(timeout=min(left, 1.0)))
            except queue.Empty:
                continue

    def expect(self, kind: type[E], accept: Callable[[E], bool] = lambda event: True, seconds: float = 60.0) -> E:
        """The first event of this kind from now on."""
        found: list[E] = []
        start = len(self.seen)

        def look() -> bool:
            found.extend(item for item in self.seen[start:] if isinstance(item, kind) and accept(item))
            return bool(found)

        self.until(look, kind.__name__, seconds)
        return found[0]

    def until_state(self, taskgroup: TaskGroup, state: str) -> None:
        ids = [task.id for task in taskgroup.tasks]
        self.until(lambda: all(state in self.states.get(task, ()) for task in ids), f"{state} of {ids}")

    def offer(self, cpus: int = 500) -> Offer:
        """An offer of at least this many thousandths of a core."""
        found: list[Offer] = []

        def look() -> bool:
            found.extend(
                item
                for item in self.offers.values()
                if dict(item.scalars).get(ResourceKey("cpus", item.role), 0) >= cpus
            )
            return bool(found)

        self.until(look, "an offer")
        return found[0]

    def launch(self, *containers: Container, offer: Offer | None = None, ports: int = 0) -> TaskGroup:
        """One taskgroup with as many random ports for its first task, launched on an offer."""
        offer = offer or self.offer()
        version = Version(
            namespace="ns", application="web", containers=containers, kill_policy=KillPolicy(grace_period=1.0)
        )
        item = hand_made(version, offer, ports)
        del self.offers[offer.id]
        self.driver.send(
            [cluster_manager.LaunchOnAgent(agent_id=offer.agent_id, offer_ids=(offer.id,), launches=(item,))]
        )
        return item.taskgroup

    def kill(self, taskgroup: TaskGroup) -> None:
        self.driver.send(
            [
                cluster_manager.End(
                    taskgroup=taskgroup.id,
                    tasks=tuple(task.id for task in taskgroup.tasks),
                    agent_id=taskgroup.agent_id,
                )
            ]
        )
        self.until_state(taskgroup, "KILLED")

    def _handle(self, event: inputs.Input) -> None:
        self.seen.append(event)
        if isinstance(event, leased.OffersArrived):
            self.offers.update({offer.id: offer.open() for offer in event.offers})
        elif isinstance(event, leased.OfferRescinded):
            self.offers.pop(event.offer_id, None)
        elif isinstance(event, cluster_manager.Connected | cluster_manager.Disconnected):
            self.offers.clear()
        elif isinstance(event, cluster_manager.StatusUpdate):
            self.states.setdefault(event.task_id, []).append(event.state)
            if event.uuid:
                self.driver.send(
                    [cluster_manager.Acknowledge(task_id=event.task_id, agent_id=event.agent_id, uuid=event.uuid)]
                )


def hand_made(version: Version, offer: Offer, ports: int) -> cluster_manager.Launch:
    """What the core would make of a placement."""
    stamp = f"{time.time_ns()}{next(_numbers)}"
    drawn = [offer.ranges[0][1][0][0] + n for n in range(ports)]
    bound = tuple(BoundPort(name=f"p{n}", host_port=port) for n, port in enumerate(drawn))
    tasks = tuple(
        Task(id=f"{stamp}.{index}.0.web.ns.c", ports=bound if index == 0 else ())
        for index in range(len(version.containers))
    )
    taskgroup = TaskGroup(
        id=f"0.web.ns.c.{stamp}",
        namespace="ns",
        application="web",
        index=0,
        version=version.name,
        agent_id=offer.agent_id,
        agent_ip=offer.ip,
        tasks=tasks,
    )
    requests = [container.requests for container in version.containers]
    allocation = Allocation(
        scalars=(
            (ResourceKey("cpus", offer.role), sum(item.cpus for item in requests)),
            (ResourceKey("mem", offer.role), sum(item.mem for item in requests) + 64_000),
            (ResourceKey("disk", offer.role), sum(item.disk for item in requests) + 64_000),
        ),
        ranges=((ResourceKey("ports", offer.role), ((drawn[0], drawn[-1]),)),) if drawn else (),
    )
    return cluster_manager.Launch(taskgroup=taskgroup, version=version, allocation=allocation)


SMALL = Amounts(cpus=100, mem=16_000, disk=4_000)


def sleeper(seconds: int = 1000) -> Container:
    return Container(command="sleep", args=(str(seconds),), requests=SMALL)


Start = Callable[..., Framework]


@pytest.fixture
def framework() -> Iterator[Start]:
    """Starts frameworks on a cluster; at the end of the test each is torn down with its tasks."""
    made: list[tuple[RealMesos, Framework]] = []

    def start(cluster: RealMesos, framework_id: str = "", url: str = "", **settings: object) -> Framework:
        one = Framework(url or cluster.url, framework_id, **settings)
        made.append((cluster, one))
        return one

    yield start
    for _, one in made:
        one.driver.stop()
    for cluster, framework_id in {(cluster, one.id) for cluster, one in made if one.id}:
        with contextlib.suppress(urllib.error.HTTPError):  # torn down already
            cluster.teardown(framework_id)


def test_subscribe_offers_and_agents(real_mesos: RealMesos, framework: Start) -> None:
    one = framework(real_mesos)
    subscribed = one.expect(cluster_manager.Connected)
    assert subscribed.framework_id == one.id != ""
    assert subscribed.cluster == "integration"
    assert subscribed.heartbeat_interval == 15.0
    assert subscribed.master == real_mesos.masters["solo"]
    one.until(lambda: len({offer.hostname for offer in one.offers.values()}) == 3, "offers of all agents")
    offer = next(item for item in one.offers.values() if item.hostname == "agent1")
    assert offer.attributes == {"rack": "r1", "zone": "z1", "ssd": "true"}
    assert dict(offer.scalars) == {
        ResourceKey("cpus", "*"): 4000,
        ResourceKey("mem", "*"): 4_096_000,
        ResourceKey("disk", "*"): 8_192_000,
    }
    assert offer.ranges == ((ResourceKey("ports", "*"), ((real_mesos.task_ports, real_mesos.task_ports + 99),)),)
    assert offer.ip == "127.0.0.1"
    one.until(lambda: any(isinstance(item, cluster_manager.AgentsListed) for item in one.seen), "the list of agents")
    listed = next(item for item in one.seen if isinstance(item, cluster_manager.AgentsListed))
    assert {(agent.hostname, agent.total["cpus"], agent.active) for agent in listed.agents} == {
        ("agent1", 4000, True),
        ("agent2", 2000, True),
        ("agent3", 1000, True),
    }
    assert {agent.id for agent in listed.agents} == {item.agent_id for item in one.offers.values()}


def test_a_taskgroup_of_two_tasks_runs_and_is_killed(real_mesos: RealMesos, framework: Start) -> None:
    """The first task serves HTTP on its drawn port and is probed; the second sees its environment."""
    one = framework(real_mesos)
    server = Container(
        command="exec python3 -m http.server --bind ${bcs.hostip} $PORT_p0",
        env=(EnvVar(name="WHO", value="${bcs.taskgroupname}"),),
        health_checks=(HealthCheck(type="TCP", port_name="p0", delay=0, grace_period=30, interval=0.2, timeout=5),),
        requests=SMALL,
    )
    taskgroup = one.launch(server, sleeper(), ports=2)
    one.until_state(taskgroup, "RUNNING")
    healthy = one.expect(cluster_manager.StatusUpdate, lambda update: update.healthy is True)
    assert healthy.task_id == taskgroup.tasks[0].id
    assert healthy.executor_id == taskgroup.id
    port = taskgroup.tasks[0].ports[0].host_port
    with urllib.request.urlopen(f"http://{taskgroup.agent_ip}:{port}/", timeout=60) as answer:
        assert answer.status == 200
    tasks = {task["id"]: task for task in _framework(real_mesos, one.id)["tasks"]}
    assert tasks[taskgroup.tasks[0].id]["resources"] == {
        "cpus": 0.09,
        "mem": 16.0,
        "disk": 4.0,
        "gpus": 0.0,
        "ports": f"[{port}-{port + 1}]",
    }
    assert {item["key"] for item in tasks[taskgroup.tasks[1].id]["labels"]} == {"namespace", "pod_name"}
    one.kill(taskgroup)
    killed = [item for item in one.seen if isinstance(item, cluster_manager.StatusUpdate) and item.state == "KILLING"]
    assert killed, "the framework is capable of KILLING"
    wait_for(lambda: not _framework(real_mesos, one.id)["tasks"], 30, "acknowledged ends")


def _framework(cluster: RealMesos, framework_id: str) -> dict[str, Any]:
    return next(item for item in cluster.state()["frameworks"] if item["id"] == framework_id)


def test_several_taskgroups_and_offers_in_one_accept(real_mesos: RealMesos, framework: Start) -> None:
    one = framework(real_mesos)
    offer = one.offer(cpus=4000)
    version = Version(namespace="ns", application="web", containers=(sleeper(),))
    launches = tuple(hand_made(version, offer, 0) for _ in range(5))
    one.driver.send(
        [
            cluster_manager.LaunchOnAgent(
                agent_id=offer.agent_id, offer_ids=(offer.id,), launches=launches, refuse_seconds=0.0
            )
        ]
    )
    for launch in launches:
        one.until_state(launch.taskgroup, "RUNNING")


def test_an_exit_code_tells_finished_from_failed(real_mesos: RealMesos, framework: Start) -> None:
    one = framework(real_mesos)
    good = one.launch(Container(command="true", requests=SMALL))
    bad = one.launch(Container(command="exit 3;", requests=SMALL), sleeper())
    one.until_state(good, "FINISHED")
    one.until(lambda: "FAILED" in one.states.get(bad.tasks[0].id, ()), "the failure")
    one.until(lambda: "KILLED" in one.states.get(bad.tasks[1].id, ()), "the end of its neighbour")


def test_shutdown_ends_the_whole_executor(real_mesos: RealMesos, framework: Start) -> None:
    one = framework(real_mesos)
    taskgroup = one.launch(sleeper(), sleeper())
    one.until_state(taskgroup, "RUNNING")
    one.driver.send([cluster_manager.End(taskgroup=taskgroup.id, tasks=(), agent_id=taskgroup.agent_id, forced=True)])
    ended = one.expect(cluster_manager.ExecutorTerminated)
    assert (ended.executor_id, ended.agent_id) == (taskgroup.id, taskgroup.agent_id)


def test_an_accept_of_a_void_offer_is_answered_by_updates(real_mesos: RealMesos, framework: Start) -> None:
    """Mesos takes the call (202) and then drops the tasks; nothing is lost silently."""
    one = framework(real_mesos)
    offer = one.offer()
    one.offers["void"] = offer._replace(id="void")
    taskgroup = one.launch(sleeper(), offer=one.offers["void"])
    one.until_state(taskgroup, "DROPPED")


def test_reconciliation_explicit_and_implicit(real_mesos: RealMesos, framework: Start) -> None:
    one = framework(real_mesos)
    taskgroup = one.launch(sleeper())
    one.until_state(taskgroup, "RUNNING")
    task = taskgroup.tasks[0].id
    one.driver.send([cluster_manager.Reconcile(tasks=((task, taskgroup.agent_id), ("nobody", taskgroup.agent_id)))])
    unknown = one.expect(cluster_manager.StatusUpdate, lambda update: update.task_id == "nobody")
    assert (unknown.state, unknown.uuid, unknown.reason) == ("GONE", b"", "REASON_RECONCILIATION")
    one.driver.send([cluster_manager.Reconcile()])
    known = one.expect(cluster_manager.StatusUpdate, lambda update: update.reason == "REASON_RECONCILIATION")
    assert (known.task_id, known.state, known.uuid) == (task, "RUNNING", b"")


def test_suppress_and_revive(real_mesos: RealMesos, framework: Start) -> None:
    one = framework(real_mesos)
    one.until(lambda: len(one.offers) == 3, "all offers")
    one.driver.send([leased.Suppress(), leased.Decline(offer_ids=tuple(one.offers), refuse_seconds=3600.0)])
    one.offers.clear()
    wait_for(lambda: not _framework(real_mesos, one.id)["offers"], 30, "declined offers")
    one.driver.send([leased.Revive()])
    one.until(lambda: len(one.offers) == 3, "offers again")


def test_updates_that_are_not_acknowledged_come_again(real_mesos: RealMesos, framework: Start) -> None:
    """So an update lost in a crash between receiving and storing is not lost."""
    one = framework(real_mesos)
    taskgroup = one.launch(sleeper())
    first = one.inbox.get(timeout=30)
    while not isinstance(first, cluster_manager.StatusUpdate):
        first = one.inbox.get(timeout=30)
    one.driver.stop()
    two = framework(real_mesos, one.id)
    again = two.expect(cluster_manager.StatusUpdate)
    assert (again.task_id, again.uuid) == (taskgroup.tasks[0].id, first.uuid)
    two.until_state(taskgroup, "RUNNING")


def test_a_second_scheduler_takes_the_framework_over(real_mesos: RealMesos, framework: Start) -> None:
    """The deposed one is told, ends, and its calls no longer count."""
    old = framework(real_mesos)
    taskgroup = old.launch(sleeper())
    old.until_state(taskgroup, "RUNNING")
    new = framework(real_mesos, old.id)
    assert new.expect(cluster_manager.Connected).framework_id == old.id
    old.expect(cluster_manager.Superseded)
    wait_for(lambda: not old.driver.status()["connected"], 30)
    new.kill(taskgroup)


def test_a_framework_that_was_torn_down_is_not_taken_back(real_mesos: RealMesos, framework: Start) -> None:
    one = framework(real_mesos)
    one.expect(cluster_manager.Connected)
    one.driver.stop()
    real_mesos.teardown(one.id)
    two = framework(real_mesos, one.id)
    assert "removed" in two.expect(cluster_manager.RegistrationRevoked).message
    assert two.driver.status()["connected"] is False


def test_the_driver_survives_a_killed_master(real_mesos: RealMesos, framework: Start) -> None:
    one = framework(real_mesos)
    taskgroup = one.launch(sleeper())
    one.until_state(taskgroup, "RUNNING")
    one.states.clear()
    real_mesos.kill_process("solo")
    one.expect(cluster_manager.Disconnected)
    assert one.driver.status()["connected"] is False
    real_mesos.start_process("solo")
    again = one.expect(cluster_manager.Connected)
    assert again.framework_id == one.id
    real_mesos.wait_for_agents()
    one.driver.send([cluster_manager.Reconcile(tasks=((taskgroup.tasks[0].id, taskgroup.agent_id),))])
    one.until_state(taskgroup, "RUNNING")
    one.kill(taskgroup)


def test_a_lost_agent_is_reported(real_mesos: RealMesos, framework: Start) -> None:
    one = framework(real_mesos)
    offer = one.offer()
    name = real_mesos.agents[int(offer.hostname[-1]) - 1]
    taskgroup = one.launch(sleeper(), offer=offer)
    one.until_state(taskgroup, "RUNNING")
    real_mesos.kill_agent(name)
    try:
        one.until_state(taskgroup, "UNREACHABLE")
        assert one.expect(cluster_manager.AgentRemoved).agent_id == offer.agent_id
    finally:
        real_mesos.start_process(name)
        real_mesos.wait_for_agents()


@pytest.mark.zookeeper
@pytest.mark.slow
def test_following_the_leader_through_zookeeper(ha_mesos: RealMesos, framework: Start) -> None:
    one = framework(ha_mesos, url=ha_mesos.zk_url)
    leader = ha_mesos.wait_for_leader()
    assert one.expect(cluster_manager.Connected).master == ha_mesos.masters[leader]
    taskgroup = one.launch(sleeper())
    one.until_state(taskgroup, "RUNNING")
    one.states.clear()
    ha_mesos.kill_process(leader)
    again = one.expect(cluster_manager.Connected)
    assert again.framework_id == one.id
    assert again.master != ha_mesos.masters[leader]
    ha_mesos.wait_for_agents()
    one.driver.send([cluster_manager.Reconcile(tasks=((taskgroup.tasks[0].id, taskgroup.agent_id),))])
    one.until_state(taskgroup, "RUNNING")

    followers = [name for name in ha_mesos.masters if name not in (leader, ha_mesos.leader())]
    two = framework(ha_mesos, url=f"http://{ha_mesos.masters[followers[0]]}")
    assert two.expect(cluster_manager.Connected).master == again.master, "redirected by a master that does not lead"
