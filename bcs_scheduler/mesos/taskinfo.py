"""How a taskgroup becomes an executor and its tasks: the seam between the scheduler and what runs on the agents.

A TaskBuilder is all that a way of running taskgroups has to provide. DefaultExecutorBuilder needs nothing installed on
the agents: it runs the taskgroup by LAUNCH_GROUP on Mesos's own default executor, in the network of the host.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from bcs_scheduler.core.effects import Launch
from bcs_scheduler.mesos.checks import health_check
from bcs_scheduler.mesos.errors import LaunchError
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.mesos.purse import Purse
from bcs_scheduler.mesos.render import POD_ID, constant, environment, expand, injected, template_variables, varies
from offers.model import Claim, Pot
from store.definition import Amounts, Container
from store.definition import Volume as VolumeSpec
from store.records import TaskGroup, Version
from transactions.needs import EXECUTOR, GIVES_UP_FROM

REQUEST_IP_LABEL = "io.tencent.bcs.netsvc.requestip"
POD_NAME_LABEL = "pod_name"
NAMESPACE_LABEL = "namespace"
REMEMBERED = 1024
"""Blueprints kept: one per version that is being launched, more if its scalars come from reservations."""
REMEMBERED_BYTES = 16_000_000
"""Of them and of the documents they keep alive: users may send large ones."""

LaunchGroup = pb.Offer.Operation.LaunchGroup
Scalars = tuple[tuple[Pot, int], ...]


class TaskBuilder(Protocol):
    def build(self, launch: Launch, framework_id: str, group: LaunchGroup) -> None:
        """Fills the empty `group` with an executor and tasks that together take exactly the launch's claim. Executor
        id = taskgroup id. Raises LaunchError if the launch contradicts itself; `group` is then thrown away.

        It fills instead of returning because nesting a message in another copies it, level by level.
        """


class _Blueprint(NamedTuple):
    """What all taskgroups of a version have in common if their scalars come from the same pots."""

    version: Version
    data: bytes
    """A serialized LaunchGroup without ids, ports and whatever else differs. Parsing it costs a twentieth of setting
    its fields one by one."""
    uniform: tuple[bool, ...]
    """For each container: command, volumes and own environment are in `data`, because they are the same everywhere."""


class DefaultExecutorBuilder:
    """Each container is a nested container of Mesos's default executor: a process of the agent, or, with an image, a
    container that the Mesos containerizer provisions. Docker parameters, `privileged` and `hostname` have no
    counterpart there and are left to an executor of our own. For one thread."""

    def __init__(self) -> None:
        self._blueprints: dict[tuple[int, str, Scalars], _Blueprint] = {}
        self._bytes = 0

    def build(self, launch: Launch, framework_id: str, group: LaunchGroup) -> None:
        taskgroup, version = launch.taskgroup, launch.version
        if len(taskgroup.tasks) != len(version.containers):
            raise LaunchError(f"{len(taskgroup.tasks)} tasks for {len(version.containers)} containers")
        blueprint = self._blueprint(version, framework_id, launch.claim.scalars)
        group.MergeFromString(blueprint.data)
        group.executor.executor_id.value = taskgroup.id
        purse = Purse(Claim(ranges=launch.claim.ranges))
        variables = {} if all(blueprint.uniform) else template_variables(taskgroup)
        labels = _own_labels(taskgroup, version)
        parts = zip(taskgroup.tasks, version.containers, group.task_group.tasks, blueprint.uniform, strict=True)
        for task, container, info, uniform in parts:
            info.name = task.name or task.id
            info.task_id.value = task.id
            info.agent_id.value = taskgroup.agent_id
            purse.take_ports([port.host_port for port in task.ports], info)
            for key, value in labels.items():
                info.labels.labels.add(key=key, value=value)
            if uniform:
                _add_environment(info.command, injected(taskgroup, task))
            else:
                _fill_command(info.command, container, variables)
                _add_environment(info.command, environment(taskgroup, task, container, variables))
                _fill_container(info, container, taskgroup.id)
            check = health_check(container, task)
            if check is not None:
                info.health_check.CopyFrom(check)
        purse.must_be_empty()

    def _blueprint(self, version: Version, framework_id: str, scalars: Scalars) -> _Blueprint:
        """Remembered by the identity of the version, which is kept with it and so cannot become that of another."""
        key = (id(version), framework_id, scalars)
        found = self._blueprints.get(key)
        if found is None:
            if len(self._blueprints) >= REMEMBERED or self._bytes >= REMEMBERED_BYTES:
                self._blueprints.clear()
                self._bytes = 0
            found = self._blueprints[key] = _draw(version, framework_id, scalars)
            self._bytes += len(found.data) + len(version.raw)
        return found


def _draw(version: Version, framework_id: str, scalars: Scalars) -> _Blueprint:
    """Raises LaunchError if the scalars are not exactly what executor and tasks take."""
    purse = Purse(Claim(scalars=scalars))
    group = LaunchGroup()
    executor = group.executor
    executor.type = pb.ExecutorInfo.DEFAULT
    executor.framework_id.value = framework_id
    executor.resources.extend(purse.take(EXECUTOR))
    labels = common_labels(version)
    uniform = tuple(not varies(container) for container in version.containers)
    for container, share, same in zip(version.containers, task_shares(version), uniform, strict=True):
        info = group.task_group.tasks.add()
        info.kill_policy.grace_period.nanoseconds = round(version.kill_policy.grace_period * 1e9)
        info.resources.extend(purse.take(share))
        for key, value in labels.items():
            info.labels.labels.add(key=key, value=value)
        if same:
            _fill_command(info.command, container, {})
            _add_environment(info.command, constant(container))
            _fill_container(info, container, "")
    purse.must_be_empty()
    return _Blueprint(version, group.SerializePartialToString(), uniform)


def task_shares(version: Version) -> list[Amounts]:
    """What each task declares to Mesos: its request, less the executor's cores for the first that can spare them."""
    shares = [container.requests for container in version.containers]
    for index, share in enumerate(shares):
        if share.cpus >= GIVES_UP_FROM:
            shares[index] = Amounts(cpus=share.cpus - EXECUTOR.cpus, mem=share.mem, disk=share.disk, gpus=share.gpus)
            break
    return shares


def common_labels(version: Version) -> dict[str, str]:
    """Labels and annotations of the version as every task of it has them."""
    labels = {**version.labels, **version.annotations}
    own = (REQUEST_IP_LABEL, POD_NAME_LABEL)
    kept = {k: v for k, v in labels.items() if k not in own and not k.startswith(REQUEST_IP_LABEL + ".")}
    return {**kept, NAMESPACE_LABEL: version.namespace}


def _own_labels(taskgroup: TaskGroup, version: Version) -> dict[str, str]:
    """Those that differ. Addresses are asked for by instance: the label of this instance loses its number and what
    follows a ``|``; those of the others stay behind."""
    labels = {POD_NAME_LABEL: taskgroup.name}
    for defined in (version.labels, version.annotations):
        for key in (REQUEST_IP_LABEL, f"{REQUEST_IP_LABEL}.{taskgroup.index}") if defined else ():
            if key in defined:
                labels[REQUEST_IP_LABEL] = defined[key] if key == REQUEST_IP_LABEL else defined[key].partition("|")[0]
    return labels


def _fill_command(command: pb.CommandInfo, container: Container, variables: Mapping[str, str]) -> None:
    _set_program(command, container, variables)
    if container.user:
        command.user = container.user
    for uri in container.uris:
        item = command.uris.add(value=expand(uri.value, variables), executable=uri.executable, extract=uri.extract)
        if uri.output:
            item.output_file = uri.output


def _add_environment(command: pb.CommandInfo, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        command.environment.variables.add(name=name, value=value)


def _set_program(command: pb.CommandInfo, container: Container, variables: Mapping[str, str]) -> None:
    """``command`` with ``args`` is a program and its arguments, passed on untouched. A ``command`` alone that contains
    blanks is a line for the shell. With an image and no command, the image's own entry point gets the arguments."""
    program = expand(container.command, variables)
    arguments = [expand(argument, variables) for argument in container.args]
    is_line = not arguments and any(character.isspace() for character in program)
    if not program:
        if not container.image:
            raise LaunchError(f"container {container.name!r} has neither a command nor an image")
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
    """A plain process needs none."""
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
