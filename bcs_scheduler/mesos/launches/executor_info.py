"""A taskgroup for our own executor: LAUNCH_GROUP with a custom executor, and documents that say the rest
(docs/executor-protocol.md, section Launch)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from bcs_scheduler.core.interface.cluster_manager import Launch
from bcs_scheduler.mesos.errors import LaunchError
from bcs_scheduler.mesos.launches import wire
from bcs_scheduler.mesos.launches.allocator import Allocator
from bcs_scheduler.mesos.launches.render import (
    ADDRESS,
    POD_ID,
    environment,
    expand,
    injected,
    injected_in_container,
    is_mapped,
    varies,
)
from bcs_scheduler.mesos.launches.task_info import (
    Blueprint,
    Blueprints,
    LaunchGroup,
    Scalars,
    check_launch,
    common_labels,
    draw_common,
    egress_kbps,
    identify,
    own_labels,
    program_of,
    variables_of,
)
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from offers.model import Allocation
from store.records import Task, TaskGroup, Version
from store.records.definition import Amounts, Container, HealthCheck, Process
from transactions.injection import Content, Injected
from transactions.resource_request import addresses_of, network_name

FILE = "bcs-executor.pyz"
"""Name of the executor's file in its sandbox."""
NAME, SOURCE = "bcs-executor", "bcs"
LAST_SECONDS = 5.0
"""Given to an executor beyond the grace period of its tasks, before the agent destroys its remaining processes."""
_LOCAL_CHECKS = ("HTTP", "TCP", "COMMAND")
Kind = Literal["command", "process", "container"]


@dataclass(frozen=True)
class ExecutorOptions:
    """Options of our executor: where agents fetch it, and its settings. Units: seconds, bytes."""

    uri: str
    cache: bool = True
    """Agents may keep the file: its address changes with its content."""
    python: str = "python3"
    docker: str = "/var/run/docker.sock"
    report_interval: float = 300.0
    log_max_bytes: int = 10 * 1024 * 1024
    log_files: int = 5


class _Plan(NamedTuple):
    """The document of a container that is the same for every taskgroup."""

    document: wire.Task
    env: dict[str, str]


class ExecutorBuilder:
    """The resources are those of DefaultExecutorBuilder; command, environment, container and checks travel in `data`.
    For one thread."""

    def __init__(self, options: ExecutorOptions) -> None:
        self._options = options
        self._blueprints: Blueprints[_Plan | None] = Blueprints()

    def build(self, launch: Launch, framework_id: str, group: LaunchGroup) -> None:
        taskgroup, version, scalars = launch.taskgroup, launch.version, launch.allocation.scalars
        given = check_launch(launch)
        blueprint = self._blueprints.find(version, framework_id, scalars)
        if blueprint is None:
            blueprint = self._blueprints.keep(self._draw(version, framework_id, scalars), framework_id, scalars)
        group.MergeFromString(blueprint.data)
        group.executor.executor_id.value = taskgroup.id
        group.executor.data = wire.encode(self._group(taskgroup, version))
        allocator = Allocator(Allocation(ranges=launch.allocation.ranges))
        labels = own_labels(taskgroup, version)
        parts = zip(taskgroup.tasks, version.containers, group.task_group.tasks, blueprint.plans, given, strict=True)
        for index, (task, container, info, plan, content) in enumerate(parts):
            identify(info, taskgroup, task, labels, allocator)
            if kind_of(container) == "container":
                facts = injected_in_container(taskgroup, task, container, version)
            else:
                facts = injected(taskgroup, task)
            if plan is None:
                plan = _plan(index, version, variables_of(taskgroup, container), content, facts)
            info.data = wire.encode(_complete(plan, facts, launch, task, container, labels))
        allocator.must_be_empty()

    def _group(self, taskgroup: TaskGroup, version: Version) -> wire.Group:
        options = self._options
        return wire.Group(
            v=wire.VERSION,
            taskgroup=taskgroup.id,
            name=taskgroup.name,
            namespace=taskgroup.namespace,
            application=taskgroup.application,
            index=taskgroup.index,
            agent_ip=taskgroup.agent_ip,
            grace_period=version.kill_policy.grace_period,
            report_interval=options.report_interval,
            log_max_bytes=options.log_max_bytes,
            log_files=options.log_files,
            docker=options.docker,
        )

    def _draw(self, version: Version, framework_id: str, scalars: Scalars) -> Blueprint[_Plan | None]:
        group = LaunchGroup()
        executor = group.executor
        executor.type = pb.ExecutorInfo.CUSTOM
        executor.name, executor.source = NAME, SOURCE
        executor.shutdown_grace_period.nanoseconds = round((version.kill_policy.grace_period + LAST_SECONDS) * 1e9)
        executor.command.shell = True
        executor.command.value = f"exec {shlex.quote(self._options.python)} -I -S -B {FILE}"
        executor.command.uris.add(
            value=self._options.uri, cache=self._options.cache, extract=False, executable=False, output_file=FILE
        )
        draw_common(group, version, framework_id, scalars)
        plans = tuple(
            None if varies(container) else _plan(index, version, {}, Injected(), {})
            for index, container in enumerate(version.containers)
        )
        return Blueprint(version, group.SerializePartialToString(), plans)


def kind_of(container: Container) -> Kind:
    if container.process is not None:
        return "process"
    return "container" if container.image else "command"


def _plan(
    index: int, version: Version, variables: Mapping[str, str], given: Injected, facts: Mapping[str, str]
) -> _Plan:
    """The document of a task without the fields that `_complete` adds, and its environment. `facts` are needed only
    where other variables may refer to them. Raises LaunchError."""
    container = version.containers[index]
    kind = kind_of(container)
    environments = [content for content in given.contents if content.item.type == "env"]
    remote = tuple(_remote_variable(content, variables) for content in environments if content.url)
    contents = [content for content in environments if not content.url]
    document = wire.Task(
        v=wire.VERSION,
        kind=kind,
        name=container.name,
        index=index,
        command=_command(container, variables) if container.process is None else wire.Command(),
        process=_process(container.process, variables) if container.process is not None else wire.Process(),
        container=_container(container, version, given) if kind == "container" else None,
        working_dir=expand(container.working_dir, variables),
        user=container.user,
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
        remote_env=remote,
        files=tuple(_file(content, variables) for content in given.contents if content.item.type == "file"),
        uris=_uris(container, given, variables),
        requests=_amounts(container.requests),
        limits=_amounts(container.limits),
        parameters=container.parameters if kind != "container" else (),
    )
    env = environment(container, variables, facts, contents)
    literal = {expand(content.item.target, variables) for content in contents}
    addressed = tuple(name for name, value in env.items() if value == f"${ADDRESS}" and name not in literal)
    document = msgspec.structs.replace(document, address_env=addressed)
    unknown = {f"${item.name}" for item in remote}.intersection(env.values())
    if unknown:
        raise LaunchError(f"variables refer to {', '.join(sorted(unknown))}, whose value only the agent will know")
    return _Plan(document, env)


def _complete(
    plan: _Plan,
    facts: Mapping[str, str],
    launch: Launch,
    task: Task,
    container: Container,
    labels: Mapping[str, str],
) -> wire.Task:
    """Adds the parts that differ between the taskgroups of a version."""
    document = plan.document
    inside = document.container
    isolated = inside is not None and inside.network_mode != "HOST"
    if inside is not None:
        inside = msgspec.structs.replace(
            inside,
            addresses=addresses_of(launch.version, launch.taskgroup.index) if inside.network_mode == "USER" else (),
            volumes=_volumes(container, launch.taskgroup.id),
            labels={**common_labels(launch.version), **labels},
        )
    return msgspec.structs.replace(
        document,
        name=task.name or task.id,
        env={**plan.env, **facts},
        ports=_ports(task, launch.version, isolated),
        checks=_checks(container, task, isolated) if container.health_checks else (),
        container=inside,
    )


def _command(container: Container, variables: Mapping[str, str]) -> wire.Command:
    program, arguments, is_line = program_of(container, variables)
    if is_line:
        return wire.Command(shell=True, value=program)
    return wire.Command(argv=(program, *arguments) if program else tuple(arguments))


def _process(process: Process, variables: Mapping[str, str]) -> wire.Process:
    return wire.Process(
        name=expand(process.name, variables),
        start=expand(process.start, variables),
        start_grace=process.start_grace,
        pid_file=expand(process.pid_file, variables),
        check=expand(process.check, variables),
        stop=expand(process.stop, variables),
        restart=expand(process.restart, variables),
        reload=expand(process.reload, variables),
        kill=expand(process.kill, variables),
    )


def _container(container: Container, version: Version, given: Injected) -> wire.Container:
    mode, network = _network(version)
    return wire.Container(
        image=container.image,
        pull_policy=container.image_pull_policy,
        registry=wire.Registry(user=given.registry.user, password=given.registry.password),
        network_mode=mode,
        network=network,
        egress_kbps=egress_kbps(version),
        hostname=container.hostname,
        privileged=container.privileged,
        parameters=container.parameters,
    )


def _network(version: Version) -> tuple[str, str]:
    """Docker's network mode, and the name of the network if it is one of the user's."""
    mode = version.network_mode.upper()
    if mode in ("", "NONE"):
        return "NONE", ""
    if mode in ("HOST", "BRIDGE"):
        return mode, ""
    return "USER", network_name(version)


def _volumes(container: Container, taskgroup_id: str) -> tuple[wire.Volume, ...]:
    """Without a host path: a private directory in the sandbox. ``$BCS_POD_ID`` in one keeps instances apart."""
    return tuple(
        wire.Volume(
            host_path=volume.host_path.replace(POD_ID, taskgroup_id),
            mount_path=volume.mount_path,
            read_only=volume.read_only,
        )
        for volume in container.volumes
    )


def _remote_variable(content: Content, variables: Mapping[str, str]) -> wire.RemoteVariable:
    name = expand(content.item.target, variables)
    return wire.RemoteVariable(name=name, url=content.url, user=content.user, password=content.password)


def _file(content: Content, variables: Mapping[str, str]) -> wire.File:
    item = content.item
    return wire.File(
        path=expand(item.target, variables),
        data=content.data,
        url=content.url,
        user=content.user,
        password=content.password,
        mode=item.mode,
        owner=item.user,
        secret=content.secret,
    )


def _uris(container: Container, given: Injected, variables: Mapping[str, str]) -> tuple[wire.Uri, ...]:
    """Credentials are those looked up for the launch, if any were."""
    return tuple(
        wire.Uri(
            value=expand(uri.value, variables),
            output=expand(uri.output, variables),
            executable=uri.executable,
            extract=uri.extract,
            user=given.uris[number].user if given.uris else "",
            password=given.uris[number].password if given.uris else "",
        )
        for number, uri in enumerate(container.uris)
    )


def _ports(task: Task, version: Version, isolated: bool) -> tuple[wire.Port, ...]:
    """Ports of the host are named only where something of the task is reached by them."""
    published = not isolated or is_mapped(version)
    return tuple(
        wire.Port(
            name=port.name,
            protocol="udp" if port.protocol == "udp" else "tcp",
            container_port=port.container_port if isolated else port.host_port or port.container_port,
            host_port=port.host_port if published else 0,
        )
        for port in task.ports
    )


def _checks(container: Container, task: Task, isolated: bool) -> tuple[wire.Check, ...]:
    """Returns the checks that run on the agent; the others are probed from outside. Raises LaunchError."""
    return tuple(
        wire.Check(
            type=check.type,
            delay=check.delay,
            grace_period=check.grace_period,
            interval=check.interval,
            timeout=check.timeout,
            consecutive_failures=check.consecutive_failures,
            port=0 if check.type == "COMMAND" else _check_port(check, task, isolated),
            scheme=check.scheme,
            path=check.path if check.path.startswith("/") else f"/{check.path}",
            headers=check.headers,
            command=check.command,
        )
        for check in container.health_checks
        if check.type in _LOCAL_CHECKS
    )


def _check_port(check: HealthCheck, task: Task, isolated: bool) -> int:
    """A number wins over a name. Checks go to the address of the task, so the port at that address counts."""
    if check.port > 0:
        return check.port
    for port in task.ports:
        if port.name == check.port_name:
            return port.container_port if isolated else port.host_port or port.container_port
    raise LaunchError(f"a health check of task {task.name!r} names port {check.port_name!r}, which it does not have")


def _amounts(amounts: Amounts) -> wire.Amounts:
    return wire.Amounts(cpus=amounts.cpus, mem=amounts.mem)
