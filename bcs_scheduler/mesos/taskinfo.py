"""How a taskgroup becomes an executor and its tasks: the seam between the scheduler and what runs on the agents.

A TaskBuilder is all that a way of running taskgroups has to provide. DefaultExecutorBuilder needs nothing installed on
the agents: it runs the taskgroup by LAUNCH_GROUP on Mesos's own default executor, in the network of the host.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Protocol

from bcs_scheduler.core.effects import Launch
from bcs_scheduler.mesos.checks import health_check
from bcs_scheduler.mesos.errors import LaunchError
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.mesos.purse import Purse
from bcs_scheduler.mesos.render import environment, expand, template_variables
from store.definition import Amounts, Container
from store.definition import Volume as VolumeSpec
from store.records import Task, TaskGroup, Version
from transactions.needs import EXECUTOR, GIVES_UP_FROM

REQUEST_IP_LABEL = "io.tencent.bcs.netsvc.requestip"


LaunchGroup = pb.Offer.Operation.LaunchGroup


class TaskBuilder(Protocol):
    def build(self, launch: Launch, framework_id: str, group: LaunchGroup) -> None:
        """Fills the empty `group` with an executor and tasks that together take exactly the launch's claim. Executor
        id = taskgroup id. Raises LaunchError if the launch contradicts itself; `group` is then thrown away.

        It fills instead of returning because nesting a message in another copies it, level by level.
        """


class DefaultExecutorBuilder:
    """Each container is a nested container of Mesos's default executor: a process of the agent, or, with an image, a
    container that the Mesos containerizer provisions. Docker parameters, `privileged` and `hostname` have no
    counterpart there and are left to an executor of our own."""

    def build(self, launch: Launch, framework_id: str, group: LaunchGroup) -> None:
        taskgroup, version = launch.taskgroup, launch.version
        if len(taskgroup.tasks) != len(version.containers):
            raise LaunchError(f"{len(taskgroup.tasks)} tasks for {len(version.containers)} containers")
        purse = Purse(launch.claim)
        executor = group.executor
        executor.type = pb.ExecutorInfo.DEFAULT
        executor.executor_id.value = taskgroup.id
        executor.framework_id.value = framework_id
        executor.resources.extend(purse.take(EXECUTOR))
        variables = template_variables(taskgroup)
        labels = task_labels(taskgroup, version)
        for task, container, share in zip(taskgroup.tasks, version.containers, task_shares(version), strict=True):
            info = group.task_group.tasks.add(name=task.name or task.id)
            info.task_id.value = task.id
            info.agent_id.value = taskgroup.agent_id
            info.kill_policy.grace_period.nanoseconds = round(version.kill_policy.grace_period * 1e9)
            info.resources.extend(purse.take(share))
            info.resources.extend(purse.take_ports(port.host_port for port in task.ports))
            for key, value in labels.items():
                info.labels.labels.add(key=key, value=value)
            _fill_command(info.command, taskgroup, task, container, variables)
            _fill_container(info, taskgroup, container)
            check = health_check(container, task)
            if check is not None:
                info.health_check.CopyFrom(check)
        purse.must_be_empty()


def task_shares(version: Version) -> list[Amounts]:
    """What each task declares to Mesos: its request, less the executor's cores for the first that can spare them."""
    shares = [container.requests for container in version.containers]
    for index, share in enumerate(shares):
        if share.cpus >= GIVES_UP_FROM:
            shares[index] = Amounts(cpus=share.cpus - EXECUTOR.cpus, mem=share.mem, disk=share.disk, gpus=share.gpus)
            break
    return shares


def task_labels(taskgroup: TaskGroup, version: Version) -> dict[str, str]:
    """Labels and annotations of the version, and where the task belongs. Addresses are asked for by instance: the label
    of this instance loses its number and what follows a ``|``; those of the others stay behind."""
    labels: dict[str, str] = {}
    for key, value in {**version.labels, **version.annotations}.items():
        if key.startswith(REQUEST_IP_LABEL + "."):
            if key == f"{REQUEST_IP_LABEL}.{taskgroup.index}":
                labels[REQUEST_IP_LABEL] = value.partition("|")[0]
        else:
            labels[key] = value
    return {**labels, "namespace": taskgroup.namespace, "pod_name": taskgroup.name}


def _fill_command(
    command: pb.CommandInfo, taskgroup: TaskGroup, task: Task, container: Container, variables: Mapping[str, str]
) -> None:
    _set_program(command, container, variables)
    for name, value in environment(taskgroup, task, container, variables).items():
        command.environment.variables.add(name=name, value=value)
    if container.user:
        command.user = container.user
    for uri in container.uris:
        item = command.uris.add(value=expand(uri.value, variables), executable=uri.executable, extract=uri.extract)
        if uri.output:
            item.output_file = uri.output


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


def _fill_container(task: pb.TaskInfo, taskgroup: TaskGroup, container: Container) -> None:
    """A plain process needs none."""
    if container.image or container.volumes:
        task.container.type = pb.ContainerInfo.MESOS
        task.container.volumes.extend(_volumes(taskgroup, container.volumes))
    if container.image:
        image = task.container.mesos.image
        image.type = pb.Image.DOCKER
        image.docker.name = container.image
        image.cached = container.image_pull_policy != "Always"


def _volumes(taskgroup: TaskGroup, volumes: Iterable[VolumeSpec]) -> list[pb.Volume]:
    """Without a host path: a private directory in the sandbox. ``$BCS_POD_ID`` in a host path keeps instances apart."""
    made = []
    for volume in volumes:
        item = pb.Volume(container_path=volume.mount_path, mode=pb.Volume.RO if volume.read_only else pb.Volume.RW)
        if volume.host_path:
            item.host_path = volume.host_path.replace("$BCS_POD_ID", taskgroup.id)
        else:
            item.source.type = pb.Volume.Source.SANDBOX_PATH
            item.source.sandbox_path.type = pb.Volume.Source.SandboxPath.SELF
            item.source.sandbox_path.path = volume.mount_path.strip("/")
        made.append(item)
    return made
