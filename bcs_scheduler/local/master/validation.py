"""The checks of a Mesos master (the rules of src/master/validation.cpp of Apache Mesos 1.11 that concern this cluster).

The functions return the complaint, in Mesos' words where a user would search for them; None = no complaint.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from bcs_scheduler.local.errors import InvalidResources
from bcs_scheduler.local.objects import resources
from bcs_scheduler.local.objects.model import Agent, Framework, Offer
from bcs_scheduler.local.objects.resources import Amounts
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.mesos.proto import scheduler_pb2

MIN_CPUS = 10
"""Thousandths of a core that the executor of a task group must have at least."""
MIN_MEM = 32_000
"""Thousandths of a MB, likewise."""
MAX_ID_LENGTH = 255
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f/\\]")
MAX_DURATION = (2**63 - 1) / 1e9
"""Seconds; Mesos keeps durations in 64-bit nanoseconds."""

_PAYLOADS = {
    scheduler_pb2.Call.ACCEPT: "accept",
    scheduler_pb2.Call.DECLINE: "decline",
    scheduler_pb2.Call.ACCEPT_INVERSE_OFFERS: "accept_inverse_offers",
    scheduler_pb2.Call.DECLINE_INVERSE_OFFERS: "decline_inverse_offers",
    scheduler_pb2.Call.KILL: "kill",
    scheduler_pb2.Call.SHUTDOWN: "shutdown",
    scheduler_pb2.Call.ACKNOWLEDGE: "acknowledge",
    scheduler_pb2.Call.ACKNOWLEDGE_OPERATION_STATUS: "acknowledge_operation_status",
    scheduler_pb2.Call.RECONCILE: "reconcile",
    scheduler_pb2.Call.MESSAGE: "message",
    scheduler_pb2.Call.REQUEST: "request",
    scheduler_pb2.Call.UPDATE_FRAMEWORK: "update_framework",
}


def call(message: scheduler_pb2.Call) -> str | None:
    """A call as such, before anything is looked up."""
    if not message.HasField("type"):
        return "Expecting 'type' to be present"
    if message.type == scheduler_pb2.Call.SUBSCRIBE:
        if not message.HasField("subscribe"):
            return "Expecting 'subscribe' to be present"
        if message.subscribe.framework_info.id.value != message.framework_id.value:
            return "'framework_id' differs from 'subscribe.framework_info.id'"
        return None
    if not message.HasField("framework_id"):
        return "Expecting 'framework_id' to be present"
    payload = _PAYLOADS.get(message.type)
    if payload is not None and not message.HasField(payload):
        return f"Expecting '{payload}' to be present"
    if message.type == scheduler_pb2.Call.ACKNOWLEDGE and len(message.acknowledge.uuid) != 16:
        return "Not a valid UUID"
    if (
        message.type == scheduler_pb2.Call.UPDATE_FRAMEWORK
        and message.update_framework.framework_info.id != message.framework_id
    ):
        return "'framework_id' differs from 'update_framework.framework_info.id'"
    return None


# --- frameworks ---


def framework_info(info: pb.FrameworkInfo) -> str | None:
    multi_role = any(c.type == pb.FrameworkInfo.Capability.MULTI_ROLE for c in info.capabilities)
    if multi_role and info.HasField("role"):
        return "'FrameworkInfo.role' must not be set when the framework is MULTI_ROLE capable"
    if not multi_role and info.roles:
        return "'FrameworkInfo.roles' must not be set when the framework is not MULTI_ROLE capable"
    if multi_role:
        if len(set(info.roles)) != len(info.roles):
            return "'FrameworkInfo.roles' contains duplicate items"
        for name in info.roles:
            if error := role(name):
                return f"'FrameworkInfo.roles' contains invalid role: {error}"
    elif error := role(info.role):
        return f"'FrameworkInfo.role' is not a valid role: {error}"
    if info.id.value and (error := identifier(info.id.value)):
        return error
    if not math.isfinite(info.failover_timeout) or abs(info.failover_timeout) > MAX_DURATION:
        return f"The framework failover_timeout ({info.failover_timeout}) is invalid"
    return None


def framework_update(old: pb.FrameworkInfo, new: pb.FrameworkInfo) -> str | None:
    """`new` by a framework that is known already."""
    if old.HasField("principal") != new.HasField("principal") or old.principal != new.principal:
        return "Changing framework's principal is not allowed."
    return None


def suppressed_roles(suppressed: Iterable[str], roles: Iterable[str]) -> str | None:
    unknown = sorted(set(suppressed) - set(roles))
    if unknown:
        return f"Suppressed roles {{ {', '.join(unknown)} }} are not contained in the set of roles"
    return None


def role(name: str) -> str | None:
    if name == "*":
        return None
    if not name:
        return "Role name is an empty string"
    for part in name.split("/"):
        if part in ("", ".", "..", "*") or part.startswith("-"):
            return f"Role '{name}' has an invalid component '{part}'"
    if any(c.isspace() or not c.isprintable() for c in name):
        return f"Role '{name}' contains invalid characters"
    return None


def identifier(value: str) -> str | None:
    if not value:
        return "ID must not be empty"
    if len(value) > MAX_ID_LENGTH:
        return f"ID must not be greater than {MAX_ID_LENGTH} characters"
    if value in (".", ".."):
        return f"'{value}' is disallowed"
    if _FORBIDDEN.search(value):
        return f"'{value}' contains invalid characters"
    return None


# --- offers ---


def offers(ids: list[str], known: dict[str, Offer], framework: Framework) -> str | None:
    """The offers of an ACCEPT: valid, of this framework, of one agent and one role."""
    if not ids:
        return "No offers specified"
    if len(set(ids)) != len(ids):
        twice = next(i for i in ids if ids.count(i) > 1)
        return f"Duplicate offer {twice} in offer list"
    for offer_id in ids:
        if offer_id not in known:
            return f"Offer {offer_id} is no longer valid"
    first = known[ids[0]]
    for offer_id in ids:
        offer = known[offer_id]
        if offer.framework is not framework:
            return (
                f"Offer {offer_id} has invalid framework {offer.framework.id} "
                f"while framework {framework.id} is expected"
            )
        if offer.role != first.role:
            return (
                f"Aggregated offers must be allocated to the same role. Offer {offer_id} uses role '{offer.role}' "
                f"but another is using role '{first.role}'"
            )
        if offer.agent is not first.agent:
            return (
                f"Aggregated offers must belong to one single agent. Offer {offer_id} uses agent {offer.agent.id} "
                f"and agent {first.agent.id}"
            )
    return None


# --- tasks and executors ---


def allocated_to(role_name: str, messages: Iterable[pb.Resource]) -> str | None:
    """All resources name the role of the offer. (The master fills in the role where a call leaves it out.)"""
    for message in messages:
        if message.allocation_info.role != role_name:
            return (
                f"The resources have multiple allocation roles ('{message.allocation_info.role}' and '{role_name}') "
                "but only one allocation role is allowed"
            )
    return None


def task(info: pb.TaskInfo, framework: Framework, agent: Agent) -> str | None:
    """One task, apart from its executor and whether the offer has room for it."""
    task_id = info.task_id.value
    if error := identifier(task_id):
        return error
    if task_id in framework.tasks:
        return f"Task has duplicate ID: {task_id}"
    if task_id in framework.unreachable:
        return f"Task reuses the ID of an unreachable task: {task_id}"
    if info.agent_id.value != agent.id:
        return f"Task uses invalid agent {info.agent_id.value} while agent {agent.id} is expected"
    if info.kill_policy.grace_period.nanoseconds < 0:
        return "Task's 'kill_policy.grace_period' must be non-negative"
    if info.max_completion_time.nanoseconds < 0:
        return "Task's `max_completion_time` must be non-negative"
    if info.HasField("health_check") and (error := health_check(info.health_check)):
        return f"Task uses invalid health check: {error}"
    if not info.resources:
        return "Task uses no resources"
    if info.HasField("command") and (error := environment(info.command.environment)):
        return f"Task's `CommandInfo` is invalid: {error}"
    if info.HasField("container") and (error := container(info.container)):
        return f"Task's `ContainerInfo` is invalid: {error}"
    return None


def health_check(check: pb.HealthCheck) -> str | None:
    if not check.HasField("type"):
        return "HealthCheck must specify 'type'"
    if check.type == pb.HealthCheck.COMMAND:
        if not check.HasField("command"):
            return "Expecting 'command' to be set for COMMAND health check"
        if not check.command.HasField("value"):
            kind = "shell command" if check.command.shell else "executable path"
            return f"Command health check must contain '{kind}'"
    elif check.type == pb.HealthCheck.HTTP:
        if not check.HasField("http"):
            return "Expecting 'http' to be set for HTTP health check"
        if check.http.HasField("scheme") and check.http.scheme not in ("http", "https"):
            return f"Unsupported HTTP health check scheme: '{check.http.scheme}'"
        if check.http.HasField("path") and not check.http.path.startswith("/"):
            return f"The path '{check.http.path}' of HTTP health check must start with '/'"
    elif check.type == pb.HealthCheck.TCP:
        if not check.HasField("tcp"):
            return "Expecting 'tcp' to be set for TCP health check"
    else:
        return "'UNKNOWN' is not a valid health check type"
    for name in ("delay_seconds", "grace_period_seconds", "interval_seconds", "timeout_seconds"):
        if not 0 <= getattr(check, name) <= MAX_DURATION:
            return f"Expecting '{name}' to be non-negative"
    return None


def environment(env: pb.Environment) -> str | None:
    for variable in env.variables:
        if variable.type == pb.Environment.Variable.VALUE and not variable.HasField("value"):
            return f"Environment variable '{variable.name}' of type 'VALUE' must have a value set"
        if variable.type == pb.Environment.Variable.UNKNOWN:
            return "Environment variable of type 'UNKNOWN' is not allowed"
    return None


def container(info: pb.ContainerInfo) -> str | None:
    if info.HasField("tty_info"):
        return "'ContainerInfo.tty_info': the embedded cluster has no terminals for tasks of the executor of Mesos"
    for volume in info.volumes:
        if sum(volume.HasField(name) for name in ("host_path", "image", "source")) != 1:
            return "Invalid volume: Only one of them should be set: 'host_path', 'image' and 'source'"
    if info.type == pb.ContainerInfo.DOCKER:
        if not info.HasField("docker"):
            return "DockerInfo 'docker' is not set for DOCKER typed ContainerInfo"
        if any(parameter.key == "name" for parameter in info.docker.parameters):
            return "Parameter in DockerInfo must not be 'name'"
    return None


def executor(info: pb.ExecutorInfo, framework: Framework, running: pb.ExecutorInfo | None) -> str | None:
    """An executor, apart from its amounts. `running`: the executor of the same id on the agent."""
    if info.type == pb.ExecutorInfo.DEFAULT:
        if info.HasField("command"):
            return "'ExecutorInfo.command' must not be set for 'DEFAULT' executor"
        if info.HasField("container"):
            if info.container.type != pb.ContainerInfo.MESOS:
                return "'ExecutorInfo.container.type' must be 'MESOS' for 'DEFAULT' executor"
            if info.container.mesos.HasField("image"):
                return "'ExecutorInfo.container.mesos.image' must not be set for 'DEFAULT' executor"
    elif info.type == pb.ExecutorInfo.CUSTOM and not info.HasField("command"):
        return "'ExecutorInfo.command' must be set for 'CUSTOM' executor"
    if error := identifier(info.executor_id.value):
        return error
    if info.shutdown_grace_period.nanoseconds < 0:
        return "ExecutorInfo's 'shutdown_grace_period' must be non-negative"
    if info.HasField("command") and (error := environment(info.command.environment)):
        return f"Executor's `CommandInfo` is invalid: {error}"
    if info.HasField("container") and (error := container(info.container)):
        return f"Executor's `ContainerInfo` is invalid: {error}"
    if not info.HasField("framework_id"):
        return "'ExecutorInfo.framework_id' must be set"
    if info.framework_id.value != framework.id:
        return (
            f"ExecutorInfo has an invalid FrameworkID (Actual: {info.framework_id.value} vs Expected: {framework.id})"
        )
    if running is not None and running != info:
        return "ExecutorInfo is not compatible with existing ExecutorInfo with same ExecutorID."
    return None


def group_task(info: pb.TaskInfo, group_executor: pb.ExecutorInfo) -> str | None:
    """Checks the additional rules for a task of a group."""
    if info.HasField("container"):
        if (
            info.container.network_infos
            and info.HasField("health_check")
            and info.health_check.type in (pb.HealthCheck.HTTP, pb.HealthCheck.TCP)
        ):
            return "HTTP and TCP health checks are not supported for nested containers not joining parent's network"
        if info.container.type == pb.ContainerInfo.DOCKER:
            return "Docker ContainerInfo is not supported on the task"
    if info.limits:
        return (
            "Resource limits may only be set for tasks within a task group when the 'share_cgroups' field is set "
            "to 'false'."
        )
    if info.HasField("executor") and info.executor != group_executor:
        return (
            f"The `ExecutorInfo` of task '{info.task_id.value}' is different from executor "
            f"'{group_executor.executor_id.value}'"
        )
    return None


def group_executor(info: pb.ExecutorInfo, amounts: Amounts) -> str | None:
    """Checks the additional rules for the executor of a group."""
    name = info.executor_id.value
    if not info.HasField("type"):
        return "'ExecutorInfo.type' must be set"
    if info.type == pb.ExecutorInfo.UNKNOWN:
        return "Unknown executor type"
    if info.HasField("container") and info.container.type == pb.ContainerInfo.DOCKER:
        return "Docker ContainerInfo is not supported on the executor"
    cpus, mem = amounts.scalar("cpus"), amounts.scalar("mem")
    if cpus < MIN_CPUS:
        return f"Executor '{name}' uses less CPUs ({cpus / 1000:g}) than the minimum required ({MIN_CPUS / 1000:g})"
    if mem < MIN_MEM:
        return f"Executor '{name}' uses less memory ({mem / 1000:g}MB) than the minimum required ({MIN_MEM // 1000}MB)"
    if not amounts.scalar("disk"):
        return f"Executor '{name}' uses no disk"
    return None


def parse(messages: Iterable[pb.Resource], who: str) -> Amounts:
    """The sum; raises InvalidResources with the complaint about `who`."""
    try:
        return resources.parse(messages)
    except InvalidResources as error:
        raise InvalidResources(f"{who} uses invalid resources: {error}") from None
