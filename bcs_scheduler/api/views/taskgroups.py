"""Taskgroups and tasks as users see them (docs/original.md#taskgroup-views). Built for lists of ten thousand: the parts
from the version are made once per version and shared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from bcs_scheduler.api.views.base import KillPolicyView, Meta, ResourceView, RestartPolicyView, View, resources
from bcs_scheduler.api.views.reasons import NotReplaced, Replacements, not_replaced
from bcs_scheduler.wire.redaction import hide_headers
from bcs_scheduler.wire.times import rfc3339
from store.records import BoundPort, CheckResult, Task, TaskGroup, Transaction, Version
from store.records.definition import AttributeValue, Container, HealthCheck, KillPolicy, RestartPolicy
from store.state.reader import StateReader
from transactions.rules.health import LOCAL, unknown
from transactions.rules.membership import address_of

ATTRIBUTE_SCALAR, ATTRIBUTE_TEXT = 101, 103
"""Attribute types of the original's stored records (docs/original.md#cluster-view)."""
REMEMBERED = 20_000
"""Taskgroups whose JSON is kept for the next list: about 50 MB."""
_encoder = msgspec.json.Encoder()


class PortMapping(View, frozen=True, kw_only=True):
    """A port after placement. `Address` is ours: host:port as clients reach it; empty = none is known."""

    name: str
    protocol: str
    container_port: int
    host_port: int
    address: str


class AttributeView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    type: int
    scalar: dict[str, float] = {}
    text: dict[str, str] = {}


class HealthStatus(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`result` is true until a check has failed, as in the original; `message` says so if no result has been reported.
    `update_time`: time since which the result holds, in Unix seconds; 0 = not reported."""

    type: str
    result: bool
    message: str
    update_time: int = msgspec.field(name="updateTime")


class StatusData(View, frozen=True, kw_only=True):
    """The executor's report about a task; shown as a JSON string, as the original stores it. Times in Unix seconds, 0 =
    not yet."""

    id: str
    name: str
    pid: int
    start_at: int
    finish_at: int
    status: str
    healthy: bool
    is_checked: bool
    consecutive_failure_times: int
    exit_code: int
    hostname: str
    network_mode: str
    ip_address: str = msgspec.field(name="IPAddress")
    node_address: str
    ports: list[PortMapping]
    message: str
    resource: ResourceView
    bcs_message: None = None
    oom_killed: bool = msgspec.field(name="OOMKilled")


class TaskView(View, frozen=True, kw_only=True):
    """`Hostame` is the original's spelling and stays beside `AgentHostname`. Ours: `Reason`, `OOMKilled`,
    `ContainerIP`, `ContainerID`, `Pid`, `ExitCode` (null: has not ended; negative: ended by that signal), `StartTime`,
    `FinishTime`."""

    id: str
    name: str
    kind: str = "application"
    app_id: str
    run_as: str
    hostame: str
    command: str
    arguments: tuple[str, ...]
    image: str
    network: str
    network_type: str
    port_mappings: list[PortMapping]
    labels: dict[str, str]
    kill_policy: KillPolicyView
    resources: ResourceView
    health_checks: tuple[HealthCheck, ...]
    health_check_status: list[HealthStatus]
    healthy: bool
    is_checked: bool
    consecutive_failure_times: int
    local_max_consecutive_failures: int
    agent_id: str
    agent_hostname: str
    agent_ip_address: str = msgspec.field(name="AgentIPAddress")
    container_ip: str = msgspec.field(name="ContainerIP")
    status: str
    last_status: str
    message: str
    reason: str
    oom_killed: bool = msgspec.field(name="OOMKilled")
    pid: int
    container_id: str = msgspec.field(name="ContainerID")
    exit_code: int | None
    start_time: int
    finish_time: int
    status_data: str
    update_time: int
    last_update_time: int


class TaskGroupView(View, frozen=True, kw_only=True):
    """`ReschededTimes` and `Taskgroup` (the tasks) are the original's spellings. Ours: `AgentIP`, `Role`,
    `Executor`, `Healthy` (no check of a task that runs fails), `UnreachableSince`, `KillingSince`, `KillReason`,
    `EndCause`, `EndTime`, `NextStart`, `NotReplaced`, `LastFailure`. `NextStart`: Unix seconds before which it is not
    started again; 0 = it is not restarted. `LastFailure`: message of the failed taskgroup that this one replaces."""

    kind: str = "application"
    id: str
    name: str
    app_id: str = msgspec.field(name="AppID")
    run_as: str
    object_meta: Meta
    instance_id: int = msgspec.field(name="InstanceID")
    agent_id: str = msgspec.field(name="AgentID")
    agent_ip: str = msgspec.field(name="AgentIP")
    executor_id: str = msgspec.field(name="ExecutorID")
    executor: str
    host_name: str
    role: str
    attributes: list[AttributeView]
    status: str
    last_status: str
    healthy: bool
    message: str
    start_time: int
    update_time: int
    last_update_time: int
    end_time: int
    taskgroup: list[TaskView]
    kill_policy: KillPolicyView
    restart_policy: RestartPolicyView
    version_name: str
    resched_times: int = msgspec.field(name="ReschededTimes")
    last_resched_time: int
    unreachable_since: int
    killing_since: int
    kill_reason: str
    end_cause: str
    next_start: int
    not_replaced: NotReplaced
    last_failure: str
    launch_resource: ResourceView
    curr_resource: ResourceView


class _Definition:
    """The common part of all taskgroups of one version."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.kind = "process" if any(container.process for container in version.containers) else "application"
        self.kill = show_kill_policy(version.kill_policy)
        self.restart = show_restart_policy(version.restart_policy)
        self.resources = [resources(container.requests) for container in version.containers]
        self.checks = [show_health_checks(container) for container in version.containers]

    def container(self, position: int) -> Container:
        containers = self.version.containers
        return containers[position] if position < len(containers) else Container()


_encoded: dict[str, tuple[TaskGroup, Version, Transaction | None, msgspec.Raw]] = {}
"""Encoded views of taskgroups by id, with the records of which they were made; shared by all requests."""


class Presenter:
    """Shows taskgroups and tasks of one state; keeps the parts from their versions for the duration of a request."""

    def __init__(self, state: StateReader) -> None:
        self._state = state
        self._definitions: dict[tuple[str, str], _Definition] = {}
        self._replacements = Replacements(state)

    def taskgroup(self, group: TaskGroup) -> TaskGroupView:
        definition = self._definition(group)
        amounts = resources(group.resources)
        replacing = self._replacements.of(group)
        return TaskGroupView(
            kind=definition.kind,
            id=group.id,
            name=group.name,
            app_id=group.application,
            run_as=group.namespace,
            object_meta=Meta(
                name=group.id,
                namespace=group.namespace,
                creation_timestamp=rfc3339(group.created_at),
                labels=definition.version.pod_labels,
                annotations=definition.version.pod_annotations,
            ),
            instance_id=group.index,
            agent_id=group.agent_id,
            agent_ip=group.agent_ip,
            executor_id=group.id,
            executor=group.executor,
            host_name=group.hostname,
            role=group.role,
            attributes=[_attribute(name, value) for name, value in group.attributes.items()],
            status=group.status,
            last_status=group.last_status,
            healthy=all(task.healthy is not False for task in group.tasks if not task.ended),
            message=group.message,
            start_time=int(group.created_at),
            update_time=int(group.updated_at),
            last_update_time=int(group.updated_at),
            end_time=int(group.ended_at),
            taskgroup=[self._task(group, task, i, definition) for i, task in enumerate(group.tasks)],
            kill_policy=definition.kill,
            restart_policy=definition.restart,
            version_name=group.version,
            resched_times=group.restarts,
            last_resched_time=int(group.last_restart_at),
            unreachable_since=int(group.unreachable_since),
            killing_since=int(group.killing_since),
            kill_reason=group.kill_reason,
            end_cause=group.end_cause,
            next_start=int(replacing.due_at) if replacing is not None else 0,
            not_replaced=not_replaced(group, definition.version, replacing is not None),
            last_failure=group.last_failure,
            launch_resource=amounts,
            curr_resource=amounts,
        )

    def encoded(self, group: TaskGroup) -> msgspec.Raw:
        """The taskgroup as JSON, for long lists. Records are immutable, and most are the same as at the last list."""
        version, replacing = self._definition(group).version, self._replacements.of(group)
        known = _encoded.get(group.id)
        if known is None or known[0] is not group or known[1] is not version or known[2] is not replacing:
            encoded = msgspec.Raw(_encoder.encode(self.taskgroup(group)))
            known = _encoded[group.id] = group, version, replacing, encoded
            while len(_encoded) > REMEMBERED:
                _encoded.pop(next(iter(_encoded)), None)
        return known[3]

    def task(self, group: TaskGroup, position: int) -> TaskView:
        return self._task(group, group.tasks[position], position, self._definition(group))

    def tasks(self, groups: Iterable[TaskGroup]) -> Iterator[TaskView]:
        return (
            self._task(group, task, i, self._definition(group))
            for group in groups
            for i, task in enumerate(group.tasks)
        )

    def _definition(self, group: TaskGroup) -> _Definition:
        key = (group.application_key, group.version)
        found = self._definitions.get(key)
        if found is None:
            version = self._state.version(*key)
            found = _Definition(version or Version(namespace=group.namespace, application=group.application))
            self._definitions[key] = found
        return found

    def _task(self, group: TaskGroup, task: Task, position: int, definition: _Definition) -> TaskView:
        container = definition.container(position)
        version = definition.version
        amounts = definition.resources[position] if position < len(definition.resources) else ResourceView()
        ports = [_port(group, task, port, version.network_mode) for port in task.ports]
        checks = task.checks or unknown(container)
        checked = task.healthy is not None
        failures = 0
        if checks:  # most have none, and there may be very many of them
            checked = checked or any(check.healthy is not None for check in checks)
            failures = max((check.failures for check in checks if check.type in LOCAL), default=0)
        data = StatusData(
            id=task.id,
            name=task.name,
            pid=task.pid,
            start_at=int(task.started_at),
            finish_at=int(task.finished_at),
            status=task.status,
            healthy=task.healthy is not False,
            is_checked=checked,
            consecutive_failure_times=failures,
            exit_code=task.exit_code or 0,
            hostname=group.hostname,
            network_mode=version.network_mode,
            ip_address=task.container_ip,
            node_address=group.agent_ip,
            ports=ports,
            message=task.message,
            resource=amounts,
            oom_killed=task.oom,
        )
        return TaskView(
            id=task.id,
            name=task.name,
            kind=definition.kind,
            app_id=group.application,
            run_as=group.namespace,
            hostame=group.hostname,
            command=container.process.start if container.process is not None else container.command,
            arguments=container.args,
            image=container.image,
            network=version.network_mode,
            network_type=version.network_type,
            port_mappings=ports,
            labels=version.labels,
            kill_policy=definition.kill,
            resources=amounts,
            health_checks=definition.checks[position] if position < len(definition.checks) else (),
            health_check_status=[_health(check) for check in checks],
            healthy=task.healthy is not False,
            is_checked=checked,
            consecutive_failure_times=failures,
            local_max_consecutive_failures=most_failures(container),
            agent_id=group.agent_id,
            agent_hostname=group.hostname,
            agent_ip_address=group.agent_ip,
            container_ip=task.container_ip,
            status=task.status,
            last_status=task.last_status,
            message=task.message,
            reason=task.reason,
            oom_killed=task.oom,
            pid=task.pid,
            container_id=task.container_id,
            exit_code=task.exit_code,
            start_time=int(task.started_at),
            finish_time=int(task.finished_at),
            status_data=_encoder.encode(data).decode(),
            update_time=int(task.updated_at),
            last_update_time=int(task.updated_at),
        )


def order(group: TaskGroup) -> tuple[str | int, ...]:
    """Order by application, index, id: the stable order of every list."""
    return group.namespace, group.application, group.index, group.id


def show_health_checks(container: Container) -> tuple[HealthCheck, ...]:
    """Without the values of headers, which may be credentials."""
    return tuple(
        msgspec.structs.replace(check, headers=hide_headers(check.headers)) if check.headers else check
        for check in container.health_checks
    )


def most_failures(container: Container) -> int:
    local = [check.consecutive_failures for check in container.health_checks if check.type in LOCAL]
    return max(local, default=0)


def show_kill_policy(policy: KillPolicy) -> KillPolicyView:
    return KillPolicyView(grace_period=policy.grace_period, shutdown_delay_seconds=policy.shutdown_delay)


def show_restart_policy(policy: RestartPolicy) -> RestartPolicyView:
    return RestartPolicyView(
        policy=policy.policy,
        interval=policy.interval,
        backoff=policy.backoff,
        maxtimes=policy.max_times,
        host_retain_time=policy.host_retain,
    )


def _health(check: CheckResult) -> HealthStatus:
    message = check.message
    if check.healthy is None and not message:
        message = f"{check.type.lower().replace('_', ' ')} check, not reported"
    since = int(check.updated_at) if check.healthy is not None else 0
    return HealthStatus(type=check.type, result=check.healthy is not False, message=message, update_time=since)


def _port(group: TaskGroup, task: Task, port: BoundPort, network: str) -> PortMapping:
    return PortMapping(
        name=port.name,
        protocol=port.protocol,
        container_port=port.container_port,
        host_port=port.host_port,
        address=address_of(group, task, port, network),
    )


def _attribute(name: str, value: AttributeValue) -> AttributeView:
    payload: dict[str, Any] = {"type": ATTRIBUTE_TEXT, "text": {"value": value.text}}
    if value.number is not None:
        payload = {"type": ATTRIBUTE_SCALAR, "scalar": {"value": value.number}}
    return AttributeView(name=name, **payload)
