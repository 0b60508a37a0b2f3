"""Builds executors and tasks of Mesos from taskgroups: the boundary between the scheduler and the programs on the
agents.

A TaskBuilder is all that a way of running taskgroups has to provide. DefaultExecutorBuilder needs nothing of ours on
the agents: it runs the taskgroup by LAUNCH_GROUP on Mesos's own default executor, in the network of the host. The
builder for our own executor is in executorinfo.py.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from bcs_scheduler.core.interface.cluster_manager import Launch
from bcs_scheduler.mesos.errors import LaunchError
from bcs_scheduler.mesos.launches.allocator import Allocator
from bcs_scheduler.mesos.launches.checks import health_check
from bcs_scheduler.mesos.launches.render import (
    POD_ID,
    constant,
    environment,
    expand,
    injected,
    injected_in_container,
    process_variables,
    template_variables,
    varies,
)
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from offers.model import Allocation, ResourceKey
from store.records import Task, TaskGroup, Version
from store.records.definition import Amounts, Container, Process
from store.records.definition import Volume as VolumeSpec
from transactions.injection import Content, Credentials, Injected, refers
from transactions.resource_request import EXECUTOR, addresses_of, network_name

REQUEST_IP_LABEL = "io.tencent.bcs.netsvc.requestip"
EGRESS_RATE_LABEL = "CTNR_NET_EGRESS_RATE"
"""Kbit/s, as network plug-ins of the original call it."""
POD_NAME_LABEL = "pod_name"
NAMESPACE_LABEL = "namespace"
TERMINAL = "xterm"
"""Value of TERM for tasks with a terminal, as container engines set it."""
REMEMBERED = 1024
"""Blueprints kept: one per version that is being launched, more if its scalars come from reservations."""
REMEMBERED_BYTES = 16_000_000
"""Bytes of the blueprints and of the documents that they keep in memory: users may send large ones."""

LaunchGroup = pb.Offer.Operation.LaunchGroup
Scalars = tuple[tuple[ResourceKey, int], ...]
PlanT = TypeVar("PlanT")


class TaskBuilder(Protocol):
    def build(self, launch: Launch, framework_id: str, group: LaunchGroup) -> None:
        """Fills the empty `group` with an executor and tasks that together take exactly the launch's claim. Executor
        id = taskgroup id. Raises LaunchError if the launch contradicts itself; `group` is then thrown away.

        It fills instead of returning because nesting a message in another copies it, level by level.
        """


class Blueprint(NamedTuple, Generic[PlanT]):
    """The parts that all taskgroups of a version share if their scalars come from the same resources."""

    version: Version
    data: bytes
    """A serialized LaunchGroup without ids, ports and the other parts that differ. Parsing it costs a twentieth of
    setting its fields one by one."""
    plans: tuple[PlanT, ...]
    """Data of each container that a builder needs to fill in the rest."""


class Blueprints(Generic[PlanT]):
    """Remembered by the identity of the version, which is kept with it and so cannot become that of another."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str, Scalars], Blueprint[PlanT]] = {}
        self._bytes = 0

    def find(self, version: Version, framework_id: str, scalars: Scalars) -> Blueprint[PlanT] | None:
        return self._known.get((id(version), framework_id, scalars))

    def keep(self, blueprint: Blueprint[PlanT], framework_id: str, scalars: Scalars) -> Blueprint[PlanT]:
        if len(self._known) >= REMEMBERED or self._bytes >= REMEMBERED_BYTES:
            self._known.clear()
            self._bytes = 0
        self._known[id(blueprint.version), framework_id, scalars] = blueprint
        self._bytes += len(blueprint.data) + len(blueprint.version.raw)
        return blueprint

    def versions(self) -> list[Version]:
        return [blueprint.version for blueprint in self._known.values()]


class DefaultExecutorBuilder:
    """Each container is a nested container of Mesos's default executor: a process of the agent, or, with an image, a
    container that the Mesos containerizer provisions. Docker parameters, `privileged` and `hostname` have no
    counterpart there and are left to our own executor. For one thread."""

    def __init__(self) -> None:
        self._blueprints: Blueprints[bool] = Blueprints()

    def build(self, launch: Launch, framework_id: str, group: LaunchGroup) -> None:
        taskgroup, version, scalars = launch.taskgroup, launch.version, launch.allocation.scalars
        given = check_launch(launch)
        blueprint = self._blueprints.find(version, framework_id, scalars)
        if blueprint is None:
            blueprint = self._blueprints.keep(_draw(version, framework_id, scalars), framework_id, scalars)
        group.MergeFromString(blueprint.data)
        group.executor.executor_id.value = taskgroup.id
        _ask_for_addresses(group.executor, taskgroup, version)
        allocator = Allocator(Allocation(ranges=launch.allocation.ranges))
        labels = own_labels(taskgroup, version)
        parts = zip(taskgroup.tasks, version.containers, group.task_group.tasks, blueprint.plans, given, strict=True)
        for task, container, info, uniform, content in parts:
            identify(info, taskgroup, task, labels, allocator)
            facts = _facts(taskgroup, task, container, version)
            if uniform:
                _add_environment(info.command, facts)
            else:
                variables = variables_of(taskgroup, container)
                _fill_command(info.command, container, variables)
                contents = _only_variables(container, content)
                _add_environment(info.command, environment(container, variables, facts, contents))
                _fill_container(info, container, taskgroup.id)
            check = health_check(container, task)
            if check is not None:
                info.health_check.CopyFrom(check)
        allocator.must_be_empty()


def check_launch(launch: Launch) -> tuple[Injected, ...]:
    """Returns the values that each container gets from outside its version. Raises LaunchError if the launch
    contradicts itself."""
    containers = launch.version.containers
    if len(launch.taskgroup.tasks) != len(containers):
        raise LaunchError(f"{len(launch.taskgroup.tasks)} tasks for {len(containers)} containers")
    if launch.injected:
        if len(launch.injected) != len(containers):
            raise LaunchError(f"configuration for {len(launch.injected)} of {len(containers)} containers")
        return launch.injected
    if refers(launch.version):
        raise LaunchError("the launch lacks contents of configmaps, secrets or credentials")
    return (Injected(),) * len(containers)


def identify(
    info: pb.TaskInfo, taskgroup: TaskGroup, task: Task, labels: Mapping[str, str], allocator: Allocator
) -> None:
    """Fills in the parts that no other task has: ids, ports, labels of its own."""
    info.name = task.name or task.id
    info.task_id.value = task.id
    info.agent_id.value = taskgroup.agent_id
    allocator.take_ports([port.host_port for port in task.ports], info)
    for key, value in labels.items():
        info.labels.labels.add(key=key, value=value)


def variables_of(taskgroup: TaskGroup, container: Container) -> dict[str, str]:
    """Returns the variables that templates of the container may use."""
    if container.process is not None:
        return process_variables(taskgroup, container, container.process)
    return template_variables(taskgroup)


def _only_variables(container: Container, given: Injected) -> Sequence[Content]:
    """Raises LaunchError for features that only our own executor has."""
    wanted = [
        ("files of configmaps and secrets", any(content.item.type == "file" for content in given.contents)),
        ("remote content of configmaps", any(content.url for content in given.contents)),
        ("credentials for images", given.registry != Credentials()),
        ("credentials for URIs", any(uri != Credentials() for uri in given.uris)),
    ]
    _refuse(container, wanted)
    return given.contents


def _refuse(container: Container, wanted: Iterable[tuple[str, bool]]) -> None:
    refused = [what for what, is_wanted in wanted if is_wanted]
    if refused:
        raise LaunchError(f"container {container.name!r}: {', '.join(refused)}: not supported by the executor of Mesos")


def _draw(version: Version, framework_id: str, scalars: Scalars) -> Blueprint[bool]:
    """Raises LaunchError if the scalars are not exactly those of executor and tasks. The plan of a container says
    whether command, volumes and own environment are in the blueprint, because they are the same everywhere."""
    group = LaunchGroup()
    group.executor.type = pb.ExecutorInfo.DEFAULT
    draw_common(group, version, framework_id, scalars)
    _join_network(group.executor, version)
    uniform = tuple(not varies(container) for container in version.containers)
    for container, info, same in zip(version.containers, group.task_group.tasks, uniform, strict=True):
        if same:
            _fill_command(info.command, container, {})
            _add_environment(info.command, constant(container))
            _fill_container(info, container, "")
    return Blueprint(version, group.SerializePartialToString(), uniform)


def _facts(taskgroup: TaskGroup, task: Task, container: Container, version: Version) -> dict[str, str]:
    """Variables that the task gets: in a network of the user's those of a container there."""
    if network_name(version):
        return injected_in_container(taskgroup, task, container, version)
    return injected(taskgroup, task)


def _join_network(executor: pb.ExecutorInfo, version: Version) -> None:
    """Tasks of Mesos's executor share its network. Plug-ins of CNI get the labels as arguments (decision 42)."""
    network = network_name(version)
    if not network:
        return
    executor.container.type = pb.ContainerInfo.MESOS
    joined = executor.container.network_infos.add(name=network)
    if version.egress_limit:
        joined.labels.labels.add(key=EGRESS_RATE_LABEL, value=str(egress_kbps(version)))


def _ask_for_addresses(executor: pb.ExecutorInfo, taskgroup: TaskGroup, version: Version) -> None:
    addresses = addresses_of(version, taskgroup.index)
    for joined in executor.container.network_infos if addresses else ():
        for address in addresses:
            family = pb.NetworkInfo.IPv6 if ":" in address else pb.NetworkInfo.IPv4
            joined.ip_addresses.add(protocol=family, ip_address=address)
        joined.labels.labels.add(key=REQUEST_IP_LABEL, value=";".join(addresses))


def egress_kbps(version: Version) -> int:
    """The limit of outgoing bandwidth in kbit/s, by the factor of the original; 0 = unlimited."""
    return version.egress_limit * 1024


def draw_common(group: LaunchGroup, version: Version, framework_id: str, scalars: Scalars) -> None:
    """Resources of the executor and its tasks, kill policy, common labels. Raises LaunchError."""
    allocator = Allocator(Allocation(scalars=scalars))
    group.executor.framework_id.value = framework_id
    group.executor.resources.extend(allocator.take(EXECUTOR.amounts))
    labels = common_labels(version)
    for share in task_shares(version):
        info = group.task_group.tasks.add()
        info.kill_policy.grace_period.nanoseconds = round(version.kill_policy.grace_period * 1e9)
        info.resources.extend(allocator.take(share))
        for key, value in labels.items():
            info.labels.labels.add(key=key, value=value)
    allocator.must_be_empty()


def task_shares(version: Version) -> list[Amounts]:
    """Returns the resources that each task declares to Mesos: its request, without the executor's cores for the first
    task that can spare them."""
    shares = [container.requests for container in version.containers]
    index = EXECUTOR.sparing(shares)
    if index is not None:
        share = shares[index]
        shares[index] = Amounts(cpus=share.cpus - EXECUTOR.cpus, mem=share.mem, disk=share.disk, gpus=share.gpus)
    return shares


def common_labels(version: Version) -> dict[str, str]:
    """Labels and annotations of the version as every task of it has them."""
    labels = {**version.labels, **version.annotations}
    own = (REQUEST_IP_LABEL, POD_NAME_LABEL)
    kept = {k: v for k, v in labels.items() if k not in own and not k.startswith(REQUEST_IP_LABEL + ".")}
    return {**kept, NAMESPACE_LABEL: version.namespace}


def own_labels(taskgroup: TaskGroup, version: Version) -> dict[str, str]:
    """Returns the labels that differ between taskgroups. Addresses are requested by instance: the label of this
    instance loses its number and everything after a ``|``; labels of other instances are left out."""
    labels = {POD_NAME_LABEL: taskgroup.name}
    for defined in (version.labels, version.annotations):
        for key in (REQUEST_IP_LABEL, f"{REQUEST_IP_LABEL}.{taskgroup.index}") if defined else ():
            if key in defined:
                labels[REQUEST_IP_LABEL] = defined[key] if key == REQUEST_IP_LABEL else defined[key].partition("|")[0]
    return labels


def _fill_command(command: pb.CommandInfo, container: Container, variables: Mapping[str, str]) -> None:
    if container.process is not None:
        _set_process(command, container, container.process, variables)
    else:
        _set_program(command, container, variables)
    if container.tty:
        command.environment.variables.add(name="TERM", value=TERMINAL)  # first, so that own variables prevail
    if container.user:
        command.user = container.user
    for uri in container.uris:
        item = command.uris.add(value=expand(uri.value, variables), executable=uri.executable, extract=uri.extract)
        if uri.output:
            item.output_file = uri.output


def program_of(container: Container, variables: Mapping[str, str]) -> tuple[str, list[str], bool]:
    """Program, arguments, and whether the program is a line for the shell: ``command`` alone if it contains blanks.
    With ``args`` it is passed on untouched. With an image and no command, the image's own entry point gets the
    arguments. Raises LaunchError."""
    program = expand(container.command, variables)
    arguments = [expand(argument, variables) for argument in container.args]
    if not program and not container.image:
        raise LaunchError(f"container {container.name!r} has neither a command nor an image")
    return program, arguments, not arguments and any(character.isspace() for character in program)


def _add_environment(command: pb.CommandInfo, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        command.environment.variables.add(name=name, value=value)


def _set_process(command: pb.CommandInfo, container: Container, process: Process, variables: Mapping[str, str]) -> None:
    """A process that is nothing but a line for the shell. Raises LaunchError for everything more."""
    fields = {
        "pidFile": process.pid_file,
        "checkCmd": process.check,
        "stopCmd": process.stop,
        "restartCmd": process.restart,
        "reloadCmd": process.reload,
        "killCmd": process.kill,
    }
    _refuse(container, [(name, bool(value)) for name, value in fields.items()])
    command.shell = True
    command.value = expand(process.start, variables)
    if container.working_dir:
        command.value = f"cd {shlex.quote(expand(container.working_dir, variables))} && {command.value}"


def _set_program(command: pb.CommandInfo, container: Container, variables: Mapping[str, str]) -> None:
    program, arguments, is_line = program_of(container, variables)
    if not program:
        command.shell = False
        command.arguments.extend(arguments)
    elif container.working_dir:
        line = program if is_line else "exec " + shlex.join([program, *arguments])
        command.shell = True
        command.value = f"cd {shlex.quote(expand(container.working_dir, variables))} && {line}"
    else:
        command.shell = is_line
        command.value = program
        if not is_line:
            command.arguments.extend([program, *arguments])


def _fill_container(task: pb.TaskInfo, container: Container, taskgroup_id: str) -> None:
    """A plain process without a terminal needs none."""
    if container.tty:
        task.container.type = pb.ContainerInfo.MESOS
        task.container.tty_info.SetInParent()
    if container.image or container.volumes:
        task.container.type = pb.ContainerInfo.MESOS
        task.container.volumes.extend(_volumes(taskgroup_id, container.volumes))
    if container.image:
        image = task.container.mesos.image
        image.type = pb.Image.DOCKER
        image.docker.name = container.image
        image.cached = container.image_pull_policy != "Always"


def _volumes(taskgroup_id: str, volumes: Iterable[VolumeSpec]) -> list[pb.Volume]:
    """Without a host path: a private directory in the sandbox. ``$BCS_POD_ID`` in a host path keeps instances apart."""
    made = []
    for volume in volumes:
        item = pb.Volume(container_path=volume.mount_path, mode=pb.Volume.RO if volume.read_only else pb.Volume.RW)
        if volume.host_path:
            item.host_path = volume.host_path.replace(POD_ID, taskgroup_id)
        else:
            item.source.type = pb.Volume.Source.SANDBOX_PATH
            item.source.sandbox_path.type = pb.Volume.Source.SandboxPath.SELF
            item.source.sandbox_path.path = volume.mount_path.strip("/")
        made.append(item)
    return made
