"""From taskgroup to executor and tasks: the claim is split exactly, and everything of the definition arrives."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.interface.cluster_manager import Launch, LaunchOnAgent
from bcs_scheduler.mesos.calls import CallMaker
from bcs_scheduler.mesos.errors import LaunchError
from bcs_scheduler.mesos.launches.checks import NEVER
from bcs_scheduler.mesos.launches.resources import resource_amounts
from bcs_scheduler.mesos.launches.task_info import REMEMBERED_BYTES, DefaultExecutorBuilder
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.mesos.proto import scheduler_pb2
from offers.model import Allocation, Reservation, ResourceKey
from store.records import BoundPort, Task, TaskGroup, Version
from store.records.definition import (
    Amounts,
    Container,
    EnvVar,
    HealthCheck,
    KillPolicy,
    Port,
    ReservedAddress,
    Uri,
    Volume,
)
from tests.unit.lab import Lab, version
from transactions.resource_request import EXECUTOR, amounts

PLAIN = ResourceKey("cpus", "games")
RESERVED = ResourceKey("cpus", "games", (Reservation("DYNAMIC", "games", "ops"),))


def launch(
    *containers: Container,
    ports: tuple[tuple[BoundPort, ...], ...] = (),
    allocation: Allocation | None = None,
    **fields: object,
) -> Launch:
    """A launch of these containers whose claim is just what they need, unless one is given."""
    version = Version(namespace="ns", application="web", name="1", containers=containers, **fields)  # type: ignore[arg-type]
    tasks = tuple(
        Task(id=f"1.{index}.3.web.ns.c", ports=ports[index] if index < len(ports) else ())
        for index in range(len(containers))
    )
    taskgroup = TaskGroup(
        id="3.web.ns.c.1", namespace="ns", application="web", index=3, version="1", agent_id="s1", tasks=tasks
    )
    return Launch(taskgroup=taskgroup, version=version, allocation=allocation or claim_for(version, ports))


def claim_for(version: Version, ports: tuple[tuple[BoundPort, ...], ...] = ()) -> Allocation:
    request = amounts(version, EXECUTOR)
    scalars = tuple(
        (ResourceKey(name, "*"), amount)
        for name, amount in (
            ("cpus", request.cpus),
            ("mem", request.mem),
            ("disk", request.disk),
            ("gpus", request.gpus),
        )
        if amount
    )
    taken = sorted(port.host_port for bound in ports for port in bound if port.host_port)
    return Allocation(scalars, ((ResourceKey("ports", "*"), tuple((port, port) for port in taken)),) if taken else ())


class Built(NamedTuple):
    executor: pb.ExecutorInfo
    tasks: list[pb.TaskInfo]


def build(item: Launch) -> Built:
    group = pb.Offer.Operation.LaunchGroup()
    DefaultExecutorBuilder().build(item, "f", group)
    assert group.IsInitialized()
    return Built(group.executor, list(group.task_group.tasks))


def command_of(container: Container) -> pb.CommandInfo:
    return build(launch(container)).tasks[0].command


ONE = Amounts(cpus=500, mem=32_000, disk=5_000)


@pytest.mark.parametrize("containers", [1, 2])
def test_a_host_port_for_tcp_and_udp_is_taken_once(containers: int) -> None:
    """Both names have the number, in one container or in two; the agent gives it once, and no offer has more."""
    ports = (Port(name="dns", protocol="udp", host_port=31053), Port(name="dns-tcp", protocol="tcp", host_port=31053))
    own = [ports] if containers == 1 else [(port,) for port in ports]
    made = tuple(Container(command="serve", requests=ONE, ports=each) for each in own)
    lab = Lab()
    lab.create(1, containers=made, network_mode="HOST")
    lab.offer(ports=(31053, 31053))
    (group,) = lab.groups
    bound = [(port.name, port.host_port) for task in group.tasks for port in task.ports]
    assert bound == [("dns", 31053), ("dns-tcp", 31053)]
    (sent,) = lab.sent(LaunchOnAgent)
    built = build(sent.launches[0])
    ranges = [each for task in built.tasks for each in task.resources if each.name == "ports"]
    assert [(one.begin, one.end) for each in ranges for one in each.ranges.range] == [(31053, 31053)]
    lab.create(1)
    lab.ask(requests.CreateApplication(version=msgspec.structs.replace(version(1, containers=made), application="dns")))
    lab.offer("agent-2", ports=(31054, 31054))
    assert not lab.core.state.groups_of("default/dns"), "the number of the first one is taken"


class TestResources:
    @given(
        st.lists(
            st.builds(
                Amounts,
                cpus=st.integers(1, 4000),
                mem=st.integers(0, 10**7),
                disk=st.integers(0, 10**7),
                gpus=st.integers(0, 3).map(lambda n: n * 1000),
            ),
            min_size=1,
            max_size=5,
        ),
        st.integers(0, 100),
    )
    def test_executor_and_tasks_are_exactly_the_claim(self, requests: list[Amounts], percent: int) -> None:
        """The claim comes from two pots; each thousandth of either is declared once, with its role and reservations."""
        containers = [Container(command="x", requests=request) for request in requests]
        request = amounts(Version(namespace="ns", application="web", containers=tuple(containers)), EXECUTOR)
        scalars: list[tuple[ResourceKey, int]] = []
        for name in ("cpus", "mem", "disk", "gpus"):
            total = getattr(request, name)
            reserved = total * percent // 100
            for pot, amount in ((RESERVED, reserved), (PLAIN, total - reserved)):
                if amount:
                    scalars.append((pot._replace(name=name), amount))
        built = build(launch(*containers, allocation=Allocation(tuple(scalars))))
        declared = [*built.executor.resources, *(resource for task in built.tasks for resource in task.resources)]
        assert Counter(dict(resource_amounts(declared, "")[0])) == Counter(dict(scalars))
        assert all(resource.scalar.value > 0 for resource in declared)
        assert dict(resource_amounts(built.executor.resources, "")[0])
        assert sum(dict(resource_amounts(built.executor.resources, "")[0]).values()) == 10 + 64_000 + 64_000

    def test_the_first_task_that_can_spare_it_pays_for_the_executor(self) -> None:
        small, big = Amounts(cpus=99, mem=1000), Amounts(cpus=100, mem=1000)
        built = build(launch(*(Container(command="x", requests=item) for item in (small, big, big))))
        assert [round(task.resources[0].scalar.value * 1000) for task in built.tasks] == [99, 90, 100]

    def test_small_tasks_keep_theirs(self) -> None:
        item = launch(
            Container(command="x", requests=Amounts(cpus=50)), Container(command="x", requests=Amounts(cpus=60))
        )
        assert dict(item.allocation.scalars)[ResourceKey("cpus", "*")] == 120
        assert [round(task.resources[0].scalar.value * 1000) for task in build(item).tasks] == [50, 60]

    def test_each_task_gets_its_own_ports(self) -> None:
        ports = (
            (BoundPort(name="a", host_port=31001), BoundPort(name="b", host_port=31000)),
            (BoundPort(name="c", host_port=31007), BoundPort(name="inside", container_port=80)),
        )
        built = build(launch(Container(command="x", requests=ONE), Container(command="x", requests=ONE), ports=ports))
        assert [resource_amounts(task.resources, "")[1] for task in built.tasks] == [
            ((ResourceKey("ports", "*"), ((31000, 31001),)),),
            ((ResourceKey("ports", "*"), ((31007, 31007),)),),
        ]

    @pytest.mark.parametrize(
        "allocation",
        [
            Allocation(
                ((ResourceKey("cpus", "*"), 499), (ResourceKey("mem", "*"), 96_000), (ResourceKey("disk", "*"), 69_000))
            ),
            Allocation(
                ((ResourceKey("cpus", "*"), 501), (ResourceKey("mem", "*"), 96_000), (ResourceKey("disk", "*"), 69_000))
            ),
            Allocation(
                (
                    (ResourceKey("cpus", "*"), 500),
                    (ResourceKey("mem", "*"), 96_000),
                    (ResourceKey("disk", "*"), 69_000),
                ),
                ((ResourceKey("ports", "*"), ((31000, 31000),)),),
            ),
            Allocation(((ResourceKey("mem", "*"), 96_000), (ResourceKey("disk", "*"), 69_000))),
        ],
        ids=["too little", "too much", "a port nobody has", "nothing"],
    )
    def test_a_claim_that_does_not_fit_is_refused(self, allocation: Allocation) -> None:
        with pytest.raises(LaunchError):
            build(launch(Container(command="x", requests=ONE), allocation=allocation))


class TestDefinition:
    def test_identity(self) -> None:
        built = build(launch(Container(command="x", requests=ONE), kill_policy=KillPolicy(grace_period=2.5)))
        (task,) = built.tasks
        assert built.executor.type == pb.ExecutorInfo.DEFAULT
        assert (built.executor.executor_id.value, built.executor.framework_id.value) == ("3.web.ns.c.1", "f")
        assert (task.task_id.value, task.agent_id.value) == ("1.0.3.web.ns.c", "s1")
        assert task.kill_policy.grace_period.nanoseconds == 2_500_000_000
        assert not task.HasField("container") and not task.HasField("health_check")

    def test_labels_say_what_it_is_and_only_its_own_address(self) -> None:
        label = "io.tencent.bcs.netsvc.requestip"
        built = build(
            launch(
                Container(command="x", requests=ONE),
                labels={"team": "a", f"{label}.3": "10.1.1.3|eth1", f"{label}.4": "10.1.1.4"},
                annotations={"note": "b"},
            )
        )
        assert {item.key: item.value for item in built.tasks[0].labels.labels} == {
            "team": "a",
            "note": "b",
            label: "10.1.1.3",
            "namespace": "ns",
            "pod_name": "web-3",
        }

    def test_a_network_of_the_user_is_joined_with_what_the_taskgroup_asks_of_it(self) -> None:
        ports = ((BoundPort(name="http", container_port=80, host_port=0),),)
        item = launch(
            Container(
                image="i", command="x", requests=ONE, ports=(Port(name="http", container_port=80, host_port=-1),)
            ),
            ports=ports,
            network_mode="blue",
            network_type="cni",
            egress_limit=20,
            reserved=(
                ReservedAddress(index=3, addresses=("10.1.1.3", "fd00::3")),
                ReservedAddress(index=4, addresses=("10.1.1.4",)),
            ),
        )
        built = build(item)
        container = built.executor.container
        assert container.type == pb.ContainerInfo.MESOS
        (joined,) = container.network_infos
        assert joined.name == "blue"
        assert [(one.protocol, one.ip_address) for one in joined.ip_addresses] == [
            (pb.NetworkInfo.IPv4, "10.1.1.3"), (pb.NetworkInfo.IPv6, "fd00::3")
        ]  # fmt: skip
        assert {label.key: label.value for label in joined.labels.labels} == {
            "CTNR_NET_EGRESS_RATE": "20480",
            "io.tencent.bcs.netsvc.requestip": "10.1.1.3;fd00::3",
        }
        variables = {v.name: v.value for v in built.tasks[0].command.environment.variables}
        assert variables["BCS_CONTAINER_IP"] == "10.1.1.3" and variables["PORT_http"] == "80"

    def test_networks_of_every_agent_are_not_joined(self) -> None:
        for mode in ("", "NONE", "HOST"):
            built = build(launch(Container(command="x", requests=ONE), network_mode=mode, egress_limit=20))
            assert not built.executor.HasField("container")

    def test_command_with_arguments_is_no_shell_line(self) -> None:
        command = command_of(Container(command="/bin/echo", args=("a b", "${bcs.instanceid}"), requests=ONE))
        assert (command.shell, command.value) == (False, "/bin/echo")
        assert list(command.arguments) == ["/bin/echo", "a b", "3"]

    def test_command_alone_with_blanks_goes_through_the_shell(self) -> None:
        command = command_of(Container(command="echo ${bcs.appname} $HOME", requests=ONE))
        assert (command.shell, command.value, list(command.arguments)) == (True, "echo web $HOME", [])

    def test_command_alone_without_blanks_is_a_program(self) -> None:
        command = command_of(Container(command="true", requests=ONE))
        assert (command.shell, command.value, list(command.arguments)) == (False, "true", ["true"])

    @pytest.mark.parametrize(
        ("command", "args", "line"),
        [("run", ("a b",), "cd '/my dir' && exec run 'a b'"), ("run | tee log", (), "cd '/my dir' && run | tee log")],
    )
    def test_working_directory(self, command: str, args: tuple[str, ...], line: str) -> None:
        made = command_of(Container(command=command, args=args, working_dir="/my dir", requests=ONE))
        assert (made.shell, made.value) == (True, line)

    def test_environment_uris_and_user(self) -> None:
        uri = Uri(value="http://files/${bcs.appname}.tgz", output="app.tgz", executable=True, extract=False)
        container = Container(command="x", user="games", uris=(uri,), requests=ONE)
        ports = ((BoundPort(name="http", host_port=31000),),)
        command = build(launch(container, ports=ports)).tasks[0].command
        variables = {item.name: item.value for item in command.environment.variables}
        assert variables == {"PORT_http": "31000", "BCS_NODE_IP": "", "BCS_POD_ID": "3.web.ns.c.1"}
        assert command.user == "games"
        assert list(command.uris) == [
            pb.CommandInfo.URI(value="http://files/web.tgz", output_file="app.tgz", executable=True, extract=False)
        ]

    def test_image_without_command_uses_its_entry_point(self) -> None:
        container = Container(image="nginx:1", args=("-g", "daemon off;"), image_pull_policy="Always", requests=ONE)
        (task,) = build(launch(container)).tasks
        assert not task.command.shell and not task.command.value
        assert list(task.command.arguments) == ["-g", "daemon off;"]
        assert task.container.type == pb.ContainerInfo.MESOS
        assert task.container.mesos.image.docker.name == "nginx:1"
        assert task.container.mesos.image.cached is False

    def test_a_terminal_needs_a_container(self) -> None:
        (task,) = build(launch(Container(command="sh", stdin=True, tty=True, requests=ONE))).tasks
        assert task.container.type == pb.ContainerInfo.MESOS and task.container.HasField("tty_info")
        assert task.command.environment.variables[0].name == "TERM"
        (plain,) = build(launch(Container(command="sh", requests=ONE))).tasks
        assert not plain.HasField("container")

    def test_volumes(self) -> None:
        volumes = (
            Volume(host_path="/data/$BCS_POD_ID", mount_path="/data", read_only=True),
            Volume(mount_path="/scratch/"),
        )
        (task,) = build(launch(Container(command="x", volumes=volumes, requests=ONE))).tasks
        host, sandbox = task.container.volumes
        assert (host.host_path, host.container_path, host.mode) == ("/data/3.web.ns.c.1", "/data", pb.Volume.RO)
        assert sandbox.source.type == pb.Volume.Source.SANDBOX_PATH
        assert (sandbox.source.sandbox_path.path, sandbox.mode) == ("scratch", pb.Volume.RW)

    @pytest.mark.parametrize(("failures", "limit"), [(0, NEVER), (3, 4)])
    def test_http_check_at_the_port_on_the_host(self, failures: int, limit: int) -> None:
        checks = (
            HealthCheck(type="REMOTE_HTTP", port=1),
            HealthCheck(
                type="HTTP",
                port_name="web",
                path="up",
                delay=1,
                interval=2,
                timeout=3,
                grace_period=4,
                consecutive_failures=failures,
            ),
        )
        ports = ((BoundPort(name="web", container_port=80, host_port=31000),),)
        (task,) = build(launch(Container(command="x", health_checks=checks, requests=ONE), ports=ports)).tasks
        check = task.health_check
        assert (check.type, check.http.port, check.http.path) == (pb.HealthCheck.HTTP, 31000, "/up")
        assert (check.delay_seconds, check.interval_seconds, check.timeout_seconds) == (1, 2, 3)
        assert (check.grace_period_seconds, check.consecutive_failures) == (4, limit)

    def test_tcp_and_command_checks_and_one_without_a_port(self) -> None:
        def check_of(*checks: HealthCheck) -> pb.TaskInfo:
            return build(launch(Container(command="x", health_checks=checks, requests=ONE))).tasks[0]

        assert check_of(HealthCheck(type="TCP", port=81)).health_check.tcp.port == 81
        assert check_of(HealthCheck(type="COMMAND", command="test -e up")).health_check.command.value == "test -e up"
        assert not check_of(HealthCheck(type="TCP", port_name="missing")).HasField("health_check")

    def test_nothing_to_run_is_an_error(self) -> None:
        with pytest.raises(LaunchError, match="neither a command nor an image"):
            build(launch(Container(name="a", requests=ONE)))


def test_one_bad_launch_does_not_keep_its_neighbours() -> None:
    good, bad = launch(Container(command="x", requests=ONE)), launch(Container(requests=ONE))
    bad = Launch(
        taskgroup=TaskGroup(
            id="bad", namespace="ns", application="web", index=0, version="1", tasks=bad.taskgroup.tasks
        ),
        version=bad.version,
        allocation=bad.allocation,
    )
    accept = LaunchOnAgent(agent_id="s1", offer_ids=("o1", "o2"), launches=(bad, good), refuse_seconds=1.0)
    body, launched, failed = CallMaker("f", DefaultExecutorBuilder()).accept(accept)
    call = scheduler_pb2.Call.FromString(body)
    assert launched == ("3.web.ns.c.1",)
    assert [taskgroup for taskgroup, _ in failed] == ["bad"]
    (operation,) = call.accept.operations
    assert operation.type == pb.Offer.Operation.LAUNCH_GROUP
    assert operation.launch_group.executor.executor_id.value == "3.web.ns.c.1"
    assert [item.value for item in call.accept.offer_ids] == ["o1", "o2"]
    assert call.accept.filters.refuse_seconds == 1.0


class TestManyTaskgroupsOfOneVersion:
    """What a version's taskgroups have in common is worked out once, so nothing of one may show in another."""

    def test_each_has_what_a_builder_of_its_own_would_give_it(self) -> None:
        containers = (
            Container(name="same", command="run", args=("$HOME",), env=(EnvVar(name="A", value="b"),), requests=ONE),
            Container(
                name="varies",
                command="run ${bcs.instanceid}",
                env=(EnvVar(name="B", value="$PORT_http"), EnvVar(name="BCS_POD_ID", value="mine")),
                volumes=(Volume(host_path="/data/$BCS_POD_ID", mount_path="/data"),),
            ),
        )
        first = launch(*containers, ports=((bound(31001),), (bound(31002),)), labels={"pod_name": "mine", "team": "x"})
        group = msgspec.structs.replace(
            first.taskgroup,
            id="4.web.ns.c.2",
            index=4,
            agent_id="s2",
            agent_ip="10.0.0.2",
            tasks=tuple(
                msgspec.structs.replace(task, id=f"2.{number}.4.web.ns.c", ports=(bound(31005 + number),))
                for number, task in enumerate(first.taskgroup.tasks)
            ),
        )
        allocation = claim_for(first.version, tuple(task.ports for task in group.tasks))
        second = Launch(taskgroup=group, version=first.version, allocation=allocation)
        shared = DefaultExecutorBuilder()
        for item in (first, second, first):
            built = pb.Offer.Operation.LaunchGroup()
            shared.build(item, "f", built)
            alone = build(item)
            assert built.executor == alone.executor
            assert list(built.task_group.tasks) == alone.tasks
            for task in alone.tasks:
                labels = [(label.key, label.value) for label in task.labels.labels]
                assert Counter(labels) == Counter(
                    [("team", "x"), ("namespace", "ns"), ("pod_name", item.taskgroup.name)]
                )
                variables = [(v.name, v.value) for v in task.command.environment.variables]
                assert ("BCS_POD_ID", item.taskgroup.id) in variables
                assert len({name for name, _ in variables}) == len(variables)
        assert alone.tasks[1].command.value == "run 3"
        assert alone.tasks[1].container.volumes[0].host_path == "/data/3.web.ns.c.1"
        assert ("B", "31002") in [(v.name, v.value) for v in alone.tasks[1].command.environment.variables]

    def test_a_claim_that_does_not_fit_is_refused_each_time(self) -> None:
        item = launch(Container(command="x", requests=ONE), allocation=Allocation(((ResourceKey("cpus", "*"), 500),)))
        builder = DefaultExecutorBuilder()
        for _ in range(2):
            with pytest.raises(LaunchError, match="lacks"):
                builder.build(item, "f", pb.Offer.Operation.LaunchGroup())


def bound(port: int) -> BoundPort:
    return BoundPort(name="http", host_port=port)


def test_large_documents_are_not_remembered_without_end() -> None:
    builder = DefaultExecutorBuilder()
    for number in range(100):
        group = pb.Offer.Operation.LaunchGroup()
        large = Container(name="a", command="sleep", args=(str(number),), requests=Amounts(cpus=1, mem=1))
        builder.build(launch(large, raw="x" * 1_000_000), "framework", group)
    kept = sum(len(version.raw) for version in builder._blueprints.versions())
    assert kept <= REMEMBERED_BYTES + 1_000_000
