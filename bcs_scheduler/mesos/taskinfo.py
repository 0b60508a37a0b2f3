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
from bcs_scheduler.mesos.render import environment, expand, template_variables
from store.definition import Amounts, Container
from store.definition import Volume as VolumeSpec
from store.records import Task, TaskGroup, Version
from transactions.needs import EXECUTOR, GIVES_UP_FROM

REQUEST_IP_LABEL = "io.tencent.bcs.netsvc.requestip"


class TaskSet(NamedTuple):
    """What one launch is made of, in Mesos's terms."""

    executor: pb.ExecutorInfo
    tasks: list[pb.TaskInfo]


class TaskBuilder(Protocol):
    def build(self, launch: Launch, framework_id: str) -> TaskSet:
        """Executor and tasks that together take exactly the launch's claim. Executor id = taskgroup id. Raises
        LaunchError if the launch contradicts itself; it is then not sent."""


def launch_group(builder: TaskBuilder, launch: Launch, framework_id: str) -> pb.Offer.Operation:
    executor, tasks = builder.build(launch, framework_id)
    group = pb.Offer.Operation.LaunchGroup(executor=executor, task_group=pb.TaskGroupInfo(tasks=tasks))
    return pb.Offer.Operation(type=pb.Offer.Operation.LAUNCH_GROUP, launch_group=group)


class DefaultExecutorBuilder:
    """Each container is a nested container of Mesos's default executor: a process of the agent, or, with an image, a
    container that the Mesos containerizer provisions. Docker parameters, `privileged` and `hostname` have no
    counterpart there and are left to an executor of our own."""

    def build(self, launch: Launch, framework_id: str) -> TaskSet:
        taskgroup, version = launch.taskgroup, launch.version
        if len(taskgroup.tasks) != len(version.containers):
            raise LaunchError(f"{len(taskgroup.tasks)} tasks for {len(version.containers)} containers")
        purse = Purse(launch.claim)
        executor = pb.ExecutorInfo(
            type=pb.ExecutorInfo.DEFAULT,
            executor_id=pb.ExecutorID(value=taskgroup.id),
            framework_id=pb.FrameworkID(value=framework_id),
            resources=purse.take(EXECUTOR),
        )
        shares = task_shares(version)
        variables = template_variables(taskgroup)
        labels = pb.Labels(labels=[pb.Label(key=k, value=v) for k, v in task_labels(taskgroup, version).items()])
        tasks = []
        for task, container, share in zip(taskgroup.tasks, version.containers, shares, strict=True):
            resources = [*purse.take(share), *purse.take_ports(port.host_port for port in task.ports)]
            info = _task_info(taskgroup, version, task, container, variables)
            info.resources.extend(resources)
            info.labels.CopyFrom(labels)
            tasks.append(info)
        purse.must_be_empty()
        return TaskSet(executor, tasks)


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


def _task_info(
    taskgroup: TaskGroup, version: Version, task: Task, container: Container, variables: Mapping[str, str]
) -> pb.TaskInfo:
    """Everything but resources and labels."""
    info = pb.TaskInfo(
        name=task.name or task.id,
        task_id=pb.TaskID(value=task.id),
        agent_id=pb.AgentID(value=taskgroup.agent_id),
        command=_command(taskgroup, task, container, variables),
    )
    info.kill_policy.grace_period.nanoseconds = round(version.kill_policy.grace_period * 1e9)
    if container.image or container.volumes:
        info.container.CopyFrom(_container(taskgroup, container))
    check = health_check(container, task)
    if check is not None:
        info.health_check.CopyFrom(check)
    return info


def _command(taskgroup: TaskGroup, task: Task, container: Container, variables: Mapping[str, str]) -> pb.CommandInfo:
    command = pb.CommandInfo()
    _set_program(command, container, variables)
    for name, value in environment(taskgroup, task, container, variables).items():
        command.environment.variables.add(name=name, value=value)
    if container.user:
        command.user = container.user
    for uri in container.uris:
        item = command.uris.add(value=expand(uri.value, variables), executable=uri.executable, extract=uri.extract)
        if uri.output:
            item.output_file = uri.output
    return command


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


def _container(taskgroup: TaskGroup, container: Container) -> pb.ContainerInfo:
    info = pb.ContainerInfo(type=pb.ContainerInfo.MESOS, volumes=_volumes(taskgroup, container.volumes))
    if container.image:
        image = info.mesos.image
        image.type = pb.Image.DOCKER
        image.docker.name = container.image
        image.cached = container.image_pull_policy != "Always"
    return info


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
