"""From taskgroup to our own executor and the documents it gets: read back by the executor's own reader."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, NamedTuple

import msgspec
import pytest

from bcs_scheduler.core.interface.cluster_manager import Launch, LaunchOnAgent
from bcs_scheduler.executor import model
from bcs_scheduler.mesos.calls import CallMaker
from bcs_scheduler.mesos.errors import LaunchError
from bcs_scheduler.mesos.launches.builders import AnyExecutorBuilder
from bcs_scheduler.mesos.launches.executor_info import ExecutorBuilder, ExecutorOptions
from bcs_scheduler.mesos.launches.task_info import DefaultExecutorBuilder
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from store.records import BoundPort, TaskGroup
from store.records.definition import (
    Amounts,
    Container,
    EnvVar,
    HealthCheck,
    Item,
    KillPolicy,
    Port,
    Process,
    Reference,
    ReservedAddress,
    Uri,
    Volume,
)
from tests.unit.test_mesos_taskinfo import claim_for, launch
from transactions.injection import Content, Credentials, Injected

OPTIONS = ExecutorOptions(uri="http://scheduler:8080/bcs-executor-0123.pyz")
ONE = Amounts(cpus=500, mem=32_000, disk=5_000)
HTTP = (BoundPort(name="http", container_port=31005, host_port=31005),)
HIDDEN = "n0t-t0-be-seen"


class Built(NamedTuple):
    executor: pb.ExecutorInfo
    group: model.Group
    infos: list[pb.TaskInfo]
    tasks: list[model.Task]


def build(item: Launch, builder: ExecutorBuilder | None = None) -> Built:
    group = pb.Offer.Operation.LaunchGroup()
    (builder or ExecutorBuilder(OPTIONS)).build(item, "f", group)
    assert group.IsInitialized()
    infos = list(group.task_group.tasks)
    tasks = [model.task_of(info.data, info.task_id.value, info.name) for info in infos]
    return Built(group.executor, model.group_of(group.executor.data), infos, tasks)


def task_of(container: Container, ports: tuple[BoundPort, ...] = (), **fields: Any) -> model.Task:
    return build(launch(container, ports=(ports,), **fields)).tasks[0]


def placed(item: Launch, **fields: Any) -> Launch:
    """The launch of a taskgroup with other fields."""
    return msgspec.structs.replace(item, taskgroup=msgspec.structs.replace(item.taskgroup, **fields))


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


class TestExecutor:
    def test_what_mesos_is_told(self) -> None:
        built = build(launch(Container(command="x", requests=ONE), kill_policy=KillPolicy(grace_period=2.5)))
        executor = built.executor
        assert executor.type == pb.ExecutorInfo.CUSTOM
        assert (executor.executor_id.value, executor.framework_id.value) == ("3.web.ns.c.1", "f")
        assert executor.shutdown_grace_period.nanoseconds == 7_500_000_000
        assert executor.command.shell
        assert executor.command.value == "exec python3 -I -S -B bcs-executor.pyz"
        assert list(executor.command.uris) == [
            pb.CommandInfo.URI(
                value=OPTIONS.uri, cache=True, extract=False, executable=False, output_file="bcs-executor.pyz"
            )
        ]
        (info,) = built.infos
        assert (info.task_id.value, info.agent_id.value) == ("1.0.3.web.ns.c", "s1")
        assert info.kill_policy.grace_period.nanoseconds == 2_500_000_000
        for absent in ("command", "container", "health_check", "executor"):
            assert not info.HasField(absent)

    def test_resources_and_labels_are_those_of_the_default_executor(self) -> None:
        containers = (
            Container(command="x", requests=ONE),
            Container(command="y", requests=ONE, ports=(Port(name="a"),)),
        )
        item = launch(*containers, ports=((), (BoundPort(name="a", host_port=31000),)), labels={"team": "a"})
        theirs = pb.Offer.Operation.LaunchGroup()
        DefaultExecutorBuilder().build(item, "f", theirs)
        ours = build(item)
        assert list(ours.executor.resources) == list(theirs.executor.resources)
        for mine, other in zip(ours.infos, theirs.task_group.tasks, strict=True):
            assert list(mine.resources) == list(other.resources)
            assert sorted((x.key, x.value) for x in mine.labels.labels) == sorted(
                (x.key, x.value) for x in other.labels.labels
            )

    def test_what_the_executor_is_told_of_its_taskgroup(self) -> None:
        options = ExecutorOptions(
            uri="file:///opt/bcs-executor.pyz",
            cache=False,
            python="/opt/my python",
            docker="/run/d.sock",
            report_interval=60.0,
            log_max_bytes=4096,
            log_files=2,
        )
        item = launch(Container(command="x", requests=ONE), kill_policy=KillPolicy(grace_period=2.5))
        built = build(placed(item, agent_ip="10.0.0.4"), ExecutorBuilder(options))
        assert built.executor.command.value == "exec '/opt/my python' -I -S -B bcs-executor.pyz"
        assert built.executor.command.uris[0].cache is False
        assert built.group == model.Group(
            taskgroup="3.web.ns.c.1",
            name="web-3",
            namespace="ns",
            application="web",
            index=3,
            agent_ip="10.0.0.4",
            grace_period=2.5,
            report_interval=60.0,
            log_max_bytes=4096,
            log_files=2,
            docker="/run/d.sock",
        )

    def test_the_front_builder_goes_by_the_taskgroup(self) -> None:
        builder = AnyExecutorBuilder(OPTIONS)
        item = launch(Container(command="x", requests=ONE))
        for executor, kind in (("bcs", pb.ExecutorInfo.CUSTOM), ("mesos", pb.ExecutorInfo.DEFAULT)):
            group = pb.Offer.Operation.LaunchGroup()
            builder.build(placed(item, executor=executor), "f", group)
            assert group.executor.type == kind


class TestCommand:
    @pytest.mark.parametrize(
        ("command", "args", "expected"),
        [
            ("/bin/echo", ("a b", "${bcs.instanceid}"), model.Command(argv=("/bin/echo", "a b", "3"))),
            ("echo ${bcs.appname} $HOME", (), model.Command(shell=True, value="echo web $HOME")),
            ("true", (), model.Command(argv=("true",))),
        ],
    )
    def test_programs_and_lines(self, command: str, args: tuple[str, ...], expected: model.Command) -> None:
        task = task_of(Container(command=command, args=args, working_dir="/${bcs.namespace}", user="me", requests=ONE))
        assert (task.kind, task.command) == ("command", expected)
        assert (task.working_dir, task.user) == ("/ns", "me")

    def test_environment(self) -> None:
        env = (
            EnvVar(name="AT", value="${bcs.hostip}:${bcs.ports.http}"),
            EnvVar(name="SAME", value="$PORT_http"),
            EnvVar(name="CPU", resource="requests.cpu"),
            EnvVar(name="BCS_POD_ID", value="mine"),
            EnvVar(name="HOME_OF", value="${HOME}"),
        )
        item = launch(Container(command="x", env=env, requests=ONE, ports=(Port(name="http"),)), ports=(HTTP,))
        assert build(placed(item, agent_ip="10.0.0.4")).tasks[0].env == {
            "AT": "10.0.0.4:31005",
            "SAME": "31005",
            "CPU": "500",
            "HOME_OF": "${HOME}",
            "PORT_http": "31005",
            "BCS_NODE_IP": "10.0.0.4",
            "BCS_POD_ID": "3.web.ns.c.1",
            "BCS_CONTAINER_IP": "10.0.0.4",
        }

    def test_amounts_ports_and_parameters(self) -> None:
        container = Container(
            command="x",
            requests=ONE,
            limits=Amounts(cpus=1000, mem=64_000),
            parameters=(("ulimit", "nofile=64"),),
            ports=(Port(name="http", protocol="http"),),
        )
        task = task_of(container, (HTTP[0], BoundPort(name="log", protocol="udp", host_port=31006)))
        assert task.requests == model.Amounts(cpus=500, mem=32_000)
        assert task.limits == model.Amounts(cpus=1000, mem=64_000)
        assert task.parameters == (("ulimit", "nofile=64"),)
        assert task.ports == (
            model.Port(name="http", protocol="tcp", container_port=31005, host_port=31005),
            model.Port(name="log", protocol="udp", container_port=31006, host_port=31006),
        )

    def test_nothing_to_run_is_an_error(self) -> None:
        with pytest.raises(LaunchError, match="neither a command nor an image"):
            task_of(Container(name="a", requests=ONE))


class TestProcess:
    def test_templates_reach_every_field(self) -> None:
        process = Process(
            name="chat${instanceid}",
            start="./start ${ports.http} ${workPath}",
            start_grace=3.0,
            pid_file="${run_base_dir}/${processname}.pid",
            check="test -e ${pidFile}",
            stop="./stop ${namespace}",
            restart="./restart ${hostip}",
            reload="./reload",
            kill="./kill ${unknown}",
        )
        container = Container(
            process=process,
            working_dir="${work_base_dir}/${processname}",
            env=(EnvVar(name="PID", value="${pidFile}"),),
            uris=(Uri(value="http://x/${processname}.tgz", output="${workPath}/pkg"),),
            ports=(Port(name="http"),),
            requests=ONE,
        )
        task = build(placed(launch(container, ports=(HTTP,)), agent_ip="10.0.0.4")).tasks[0]
        assert task.kind == "process"
        assert task.working_dir == "${work_base_dir}/web"
        assert task.process == model.Process(
            name="chat3",
            start="./start 31005 ${work_base_dir}/web",
            start_grace=3.0,
            pid_file="${run_base_dir}/web.pid",
            check="test -e ${run_base_dir}/web.pid",
            stop="./stop ns",
            restart="./restart 10.0.0.4",
            reload="./reload",
            kill="./kill ${unknown}",
        )
        assert task.env["PID"] == "${run_base_dir}/web.pid"
        assert task.env["PORT_http"] == "31005"
        assert task.uris == (model.Uri(value="http://x/web.tgz", output="${work_base_dir}/web/pkg"),)

    def test_the_executor_of_mesos_runs_a_plain_one_and_refuses_more(self) -> None:
        plain = launch(Container(process=Process(start="./serve ${ports.http}"), requests=ONE), ports=(HTTP,))
        group = pb.Offer.Operation.LaunchGroup()
        DefaultExecutorBuilder().build(plain, "f", group)
        assert group.task_group.tasks[0].command.value == "./serve 31005"
        more = Process(start="./start", pid_file="x.pid", restart="./again")
        with pytest.raises(LaunchError, match="pidFile, restartCmd: not supported by the executor of Mesos"):
            DefaultExecutorBuilder().build(
                launch(Container(process=more, requests=ONE)), "f", pb.Offer.Operation.LaunchGroup()
            )


class TestContainer:
    IMAGE = Container(
        image="demo/front:1",
        image_pull_policy="Always",
        requests=ONE,
        hostname="front",
        privileged=True,
        parameters=(("shm-size", "64"),),
        volumes=(Volume(host_path="/data/$BCS_POD_ID", mount_path="/data", read_only=True), Volume(mount_path="/tmp")),
        ports=(Port(name="http", container_port=80), Port(name="admin", container_port=81, host_port=31010)),
        health_checks=(HealthCheck(type="HTTP", port_name="http", path="up"),),
    )
    PORTS = (
        BoundPort(name="http", container_port=80, host_port=31005),
        BoundPort(name="admin", container_port=81, host_port=31010),
    )

    def test_everything_arrives(self) -> None:
        task = task_of(self.IMAGE, self.PORTS, network_mode="BRIDGE", labels={"team": "a"}, annotations={"note": "b"})
        assert task.kind == "container"
        assert task.container == model.Container(
            image="demo/front:1",
            pull_policy="Always",
            network_mode="BRIDGE",
            hostname="front",
            privileged=True,
            parameters=(("shm-size", "64"),),
            volumes=(
                model.Volume(host_path="/data/3.web.ns.c.1", mount_path="/data", read_only=True),
                model.Volume(mount_path="/tmp"),
            ),
            labels={"team": "a", "note": "b", "namespace": "ns", "pod_name": "web-3"},
        )
        assert task.command == model.Command()
        assert task.parameters == ()
        assert task.env["BCS_ETH_NAME"] == task.env["BCS_CNI_NAME"] == "eth1"

    def test_ports_of_another_definition_are_refused(self) -> None:
        with pytest.raises(LaunchError, match="1 ports for the 2"):
            task_of(self.IMAGE, self.PORTS[:1], network_mode="BRIDGE")

    def test_arguments_of_an_entry_point(self) -> None:
        container = Container(image="nginx:1", args=("-g", "daemon off;"), requests=ONE)
        assert task_of(container).command == model.Command(argv=("-g", "daemon off;"))

    @pytest.mark.parametrize(
        ("mode", "kind", "docker", "variables", "published", "probed"),
        [
            ("HOST", "", ("HOST", ""), {"http": "31005", "admin": "31010"}, [31005, 31010], 31005),
            ("BRIDGE", "", ("BRIDGE", ""), {"http": "31005"}, [31005, 31010], 80),
            ("blue", "cnm", ("USER", "blue"), {"http": "31005"}, [31005, 31010], 80),
            ("blue", "cni", ("USER", "blue"), {"http": "80", "admin": "81"}, [0, 0], 80),
            ("blue", "", ("USER", "blue"), {"http": "80", "admin": "81"}, [0, 0], 80),
            ("USER", "", ("USER", "ns"), {"http": "80", "admin": "81"}, [0, 0], 80),
            ("NONE", "", ("NONE", ""), {"http": "31005", "admin": "31010"}, [0, 0], 80),
            ("", "", ("NONE", ""), {"http": "31005", "admin": "31010"}, [0, 0], 80),
        ],
    )
    def test_networks(
        self,
        mode: str,
        kind: str,
        docker: tuple[str, str],
        variables: dict[str, str],
        published: list[int],
        probed: int,
    ) -> None:
        """docs/original.md#ports: which port a variable names, which ports are mapped, which one is probed."""
        task = task_of(self.IMAGE, self.PORTS, network_mode=mode, network_type=kind)
        assert (task.container.network_mode, task.container.network) == docker
        named = {name.removeprefix("PORT_"): value for name, value in task.env.items() if name.startswith("PORT_")}
        assert named == variables
        assert [port.host_port for port in task.ports] == published
        assert task.checks[0].port == probed

    @pytest.mark.parametrize(
        ("mode", "parameters", "reserved", "known"),
        [
            ("HOST", (), False, "10.0.0.4"),
            ("BRIDGE", (), False, ""),
            ("NONE", (), True, ""),
            ("blue", (), False, ""),
            ("blue", (("ip", "10.1.1.9"),), False, "10.1.1.9"),
            ("blue", (("ip", "10.1.1.9"),), True, "10.1.1.3"),
        ],
    )
    def test_the_address_of_the_container_and_what_refers_to_it(
        self, mode: str, parameters: tuple[tuple[str, str], ...], reserved: bool, known: str
    ) -> None:
        """What is not known before the launch is left to the executor, by the names of the variables."""
        env = (EnvVar(name="A", value="$B"), EnvVar(name="B", value="$BCS_CONTAINER_IP"), EnvVar(name="C", value="c"))
        container = Container(image="i", requests=ONE, env=env, parameters=parameters)
        addresses = (ReservedAddress(index=3, addresses=("10.1.1.3",)),) if reserved else ()
        item = launch(container, network_mode=mode, network_type="cni", egress_limit=20, reserved=addresses)
        (task,) = build(placed(item, agent_ip="10.0.0.4")).tasks
        value = known or "$BCS_CONTAINER_IP"
        assert (task.env["A"], task.env["B"], task.env["C"]) == (value, value, "c")
        assert task.env.get("BCS_CONTAINER_IP", "") == known
        assert task.address_env == (() if known else ("A", "B"))
        custom = mode == "blue"
        assert task.container.addresses == (("10.1.1.3",) if custom and reserved else ())
        assert task.container.egress_kbps == 20480

    def test_content_of_a_configmap_that_looks_like_a_reference_is_meant_literally(self) -> None:
        item = Item(type="env", key="k", target="A")
        container = Container(image="i", requests=ONE, configmaps=(Reference(name="c", items=(item,)),))
        content = Content(item=item, data=b64encode(b"$BCS_CONTAINER_IP").decode())
        found = launch(container, network_mode="BRIDGE")
        found = msgspec.structs.replace(found, injected=(Injected(contents=(content,)),))
        (task,) = build(found).tasks
        assert task.env["A"] == "$BCS_CONTAINER_IP" and task.address_env == ()


class TestChecks:
    def test_local_ones_with_resolved_ports(self) -> None:
        checks = (
            HealthCheck(type="REMOTE_HTTP", port=1),
            HealthCheck(
                type="HTTP",
                port_name="http",
                path="up",
                scheme="https",
                headers={"A": "b"},
                delay=1,
                interval=2,
                timeout=3,
                grace_period=4,
                consecutive_failures=5,
            ),
            HealthCheck(type="TCP", port=81),
            HealthCheck(type="COMMAND", command="test -e up"),
        )
        task = task_of(Container(command="x", health_checks=checks, requests=ONE, ports=(Port(name="http"),)), HTTP)
        http, tcp, command = task.checks
        assert http == model.Check(
            type="HTTP",
            delay=1.0,
            grace_period=4.0,
            interval=2.0,
            timeout=3.0,
            consecutive_failures=5,
            port=31005,
            scheme="https",
            path="/up",
            headers={"A": "b"},
        )
        assert (tcp.type, tcp.port) == ("TCP", 81)
        assert (command.type, command.port, command.command) == ("COMMAND", 0, "test -e up")

    def test_a_port_that_does_not_exist(self) -> None:
        container = Container(command="x", health_checks=(HealthCheck(type="TCP", port_name="no"),), requests=ONE)
        with pytest.raises(LaunchError, match="'no', which it does not have"):
            task_of(container)


class TestInjected:
    """What configmaps, secrets and credentials hold comes with the launch, not with the version."""

    CONTAINER = Container(
        image="private/app:1",
        image_pull_user="secret::reg||user",
        image_pull_password="secret::reg||password",
        configmaps=(Reference(name="conf"),),
        secrets=(Reference(name="keys"),),
        env=(EnvVar(name="ALSO", value="$TOKEN"), EnvVar(name="MODE", value="defined")),
        uris=(Uri(value="http://files/x.tgz", user="u", password="secret::reg||password"),),
        requests=ONE,
    )
    CONTENTS = (
        Content(Item(type="env", key="token", target="TOKEN"), data=encoded(HIDDEN), secret=True),
        Content(Item(type="file", key="token", target="/etc/token", mode=0o400), data=encoded(HIDDEN), secret=True),
        Content(Item(type="env", key="mode", target="MODE"), data=encoded("$HOME")),
        Content(Item(type="env", key="rules", target="RULES"), url="http://r", user="u", password=HIDDEN),
        Content(
            Item(type="file", key="main", target="etc/${bcs.appname}.toml", user="app"),
            url="https://c",
            user="u",
            password=HIDDEN,
        ),
    )

    def launch(self, container: Container = CONTAINER, contents: tuple[Content, ...] = CONTENTS) -> Launch:
        given = Injected(contents, Credentials("me", HIDDEN), tuple(Credentials("u", HIDDEN) for _ in container.uris))
        return msgspec.structs.replace(launch(container, network_mode="HOST"), injected=(given,))

    def test_all_of_it_arrives(self) -> None:
        (task,) = build(self.launch()).tasks
        assert (task.env["TOKEN"], task.env["ALSO"]) == (HIDDEN, HIDDEN)
        assert task.env["MODE"] == "$HOME", "contents are literal"
        assert task.remote_env == (model.RemoteVariable(name="RULES", url="http://r", user="u", password=HIDDEN),)
        assert task.files == (
            model.File(path="/etc/token", data=encoded(HIDDEN), mode=0o400, secret=True),
            model.File(path="etc/web.toml", url="https://c", user="u", password=HIDDEN, mode=0o644, owner="app"),
        )
        assert task.container.registry == model.Registry("me", HIDDEN)
        assert (task.uris[0].user, task.uris[0].password) == ("u", HIDDEN)

    def test_another_launch_of_the_version_gets_its_own(self) -> None:
        """Nothing that was looked up for one launch is kept for the next."""
        builder = ExecutorBuilder(OPTIONS)
        first = self.launch()
        second = msgspec.structs.replace(first, injected=(Injected(registry=Credentials("other", "one")),))
        build(first, builder)
        (task,) = build(second, builder).tasks
        assert task.container.registry == model.Registry("other", "one")
        assert task.files == () and "TOKEN" not in task.env

    def test_secrets_are_in_the_data_of_the_task_and_nowhere_else(self) -> None:
        item = self.launch()
        accept = LaunchOnAgent(agent_id="s1", offer_ids=("o",), launches=(item,))
        group = pb.Offer.Operation.LaunchGroup()
        ExecutorBuilder(OPTIONS).build(item, "f", group)
        (info,) = group.task_group.tasks
        assert HIDDEN.encode() in info.data
        info.ClearField("data")
        told = f"{accept!r} {accept} {item!r} {msgspec.to_builtins(item.version)} {group}"
        assert HIDDEN not in told
        assert encoded(HIDDEN) not in told

    @pytest.mark.parametrize("builder", [ExecutorBuilder(OPTIONS), DefaultExecutorBuilder()])
    def test_a_launch_without_them_is_refused(self, builder: ExecutorBuilder | DefaultExecutorBuilder) -> None:
        item = msgspec.structs.replace(self.launch(), injected=())
        with pytest.raises(LaunchError, match="lacks contents of configmaps, secrets or credentials"):
            builder.build(item, "f", pb.Offer.Operation.LaunchGroup())

    @pytest.mark.parametrize(
        ("container", "contents", "message"),
        [
            (
                Container(command="x", env=(EnvVar(name="A", value="$RULES"),), configmaps=(Reference(name="c"),)),
                CONTENTS[3:4],
                "variables refer to $RULES, whose value only the agent will know",
            ),
            (
                Container(command="x", secrets=(Reference(name="c"),)),
                (Content(Item(type="env", key="k", target="K"), data=encoded(f"{HIDDEN}\0"), secret=True),),
                "the value for variable 'K' contains a NUL byte",
            ),
            (
                Container(command="x", configmaps=(Reference(name="c"),)),
                (Content(Item(type="env", key="k", target="K"), data=b64encode(b"\xff\xfe").decode()),),
                "the value for variable 'K' is not UTF-8",
            ),
        ],
    )
    def test_what_cannot_be(self, container: Container, contents: tuple[Content, ...], message: str) -> None:
        with pytest.raises(LaunchError) as caught:
            build(self.launch(container, contents))
        assert str(caught.value) == message

    def test_the_executor_of_mesos_takes_variables_and_nothing_else(self) -> None:
        container = Container(command="x", secrets=(Reference(name="keys"),), requests=ONE)
        item = msgspec.structs.replace(launch(container), injected=(Injected(self.CONTENTS[:1]),))
        group = pb.Offer.Operation.LaunchGroup()
        DefaultExecutorBuilder().build(item, "f", group)
        variables = {v.name: v.value for v in group.task_group.tasks[0].command.environment.variables}
        assert variables["TOKEN"] == HIDDEN
        with pytest.raises(LaunchError) as caught:
            DefaultExecutorBuilder().build(self.launch(), "f", pb.Offer.Operation.LaunchGroup())
        for what in ("files of configmaps", "remote content", "credentials for images", "credentials for URIs"):
            assert what in str(caught.value)
        assert HIDDEN not in str(caught.value)


def test_each_taskgroup_of_a_version_has_what_a_builder_of_its_own_would_give_it() -> None:
    first = launch(
        Container(
            name="same", command="run", env=(EnvVar(name="A", value="b"),), requests=ONE, ports=(Port(name="http"),)
        ),
        TestContainer.IMAGE,
        Container(name="varies", command="run ${bcs.instanceid}", requests=ONE),
        ports=((BoundPort(name="http", host_port=31001),), TestContainer.PORTS, ()),
        network_mode="BRIDGE",
    )
    ports = ((BoundPort(name="http", host_port=31002),), TestContainer.PORTS, ())
    group: TaskGroup = msgspec.structs.replace(
        first.taskgroup,
        id="4.web.ns.c.2",
        index=4,
        agent_ip="10.0.0.2",
        tasks=tuple(
            msgspec.structs.replace(task, id=f"2.{number}.4.web.ns.c", ports=bound)
            for number, (task, bound) in enumerate(zip(first.taskgroup.tasks, ports, strict=True))
        ),
    )
    second = Launch(taskgroup=group, version=first.version, allocation=claim_for(first.version, ports))
    shared = ExecutorBuilder(OPTIONS)
    for item in (first, second, first):
        assert build(item, shared) == build(item)
    assert build(second, shared).tasks[0].env["PORT_http"] == "31002"
    assert build(second, shared).tasks[1].container.labels["pod_name"] == "web-4"


def test_a_bad_launch_says_why_and_does_not_keep_its_neighbours() -> None:
    good = placed(launch(Container(command="x", requests=ONE)), executor="bcs")
    bad = placed(launch(Container(requests=ONE)), executor="bcs", id="bad")
    accept = LaunchOnAgent(agent_id="s1", offer_ids=("o",), launches=(bad, good))
    _, launched, failed = CallMaker("f", AnyExecutorBuilder(OPTIONS)).accept(accept)
    assert launched == (good.taskgroup.id,)
    assert failed == [("bad", "container '' has neither a command nor an image")]
