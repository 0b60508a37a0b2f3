"""What a task sees of its place: environment and template variables (bcs_api 6.6). Pure; versions are never changed."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from bcs_scheduler.mesos.errors import LaunchError
from store.definition import Amounts, Container, EnvVar
from store.records import Task, TaskGroup

POD_ID = "$BCS_POD_ID"
"""In host paths of volumes."""
_VARIABLE = re.compile(r"\$\{(bcs\.[A-Za-z0-9_.\-]+)\}")
_REFERENCE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_.\-]*)\Z")


def template_variables(taskgroup: TaskGroup) -> dict[str, str]:
    """Everything that ``${...}`` can name. Ports are those of the whole taskgroup, after drawing."""
    variables = {
        "bcs.appname": taskgroup.application,
        "bcs.namespace": taskgroup.namespace,
        "bcs.instanceid": str(taskgroup.index),
        "bcs.hostip": taskgroup.agent_ip,
        "bcs.taskgroupid": taskgroup.id,
        "bcs.taskgroupname": taskgroup.name,
    }
    for task in taskgroup.tasks:
        for port in task.ports:
            variables[f"bcs.ports.{port.name}"] = str(port.host_port or port.container_port)
    return variables


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replaces ``${bcs...}``. Unknown names stay as they are: they may be meant for the shell."""
    if "${" not in text:
        return text
    return _VARIABLE.sub(lambda match: variables.get(match[1], match[0]), text)


def environment(taskgroup: TaskGroup, task: Task, container: Container, variables: Mapping[str, str]) -> dict[str, str]:
    """Variables of one task as defined, then the injected ones, which win. Raises LaunchError."""
    values: dict[str, str] = {}
    for item in container.env:
        values[expand(item.name, variables)] = _value(item, container, variables)
    values.update(injected(taskgroup, task))
    return {name: _follow(value, values) for name, value in values.items()}


def injected(taskgroup: TaskGroup, task: Task) -> dict[str, str]:
    """Variables that every task gets."""
    values = {f"PORT_{port.name}": str(port.host_port or port.container_port) for port in task.ports}
    values["BCS_NODE_IP"] = taskgroup.agent_ip
    values["BCS_POD_ID"] = taskgroup.id
    return values


def varies(container: Container) -> bool:
    """Whether anything in the definition may come out differently for different taskgroups."""
    text = msgspec.json.encode(container)
    names = any(item.value.startswith("$") for item in container.env)
    return names or b"${bcs." in text or POD_ID.encode() in text


def constant(container: Container) -> dict[str, str]:
    """The defined variables of a container that does not vary, without those that are injected. Raises LaunchError."""
    values = {item.name: _value(item, container, {}) for item in container.env}
    for name in (*(f"PORT_{port.name}" for port in container.ports), "BCS_NODE_IP", "BCS_POD_ID"):
        values.pop(name, None)
    return values


def _value(item: EnvVar, container: Container, variables: Mapping[str, str]) -> str:
    if item.resource:
        return str(_resource(item.resource, container))
    return expand(item.value, variables)


def _resource(name: str, container: Container) -> int:
    """Of ``requests.cpu`` and the like: cores in thousandths, everything else in MB. No limit means the request."""
    kind, _, resource = name.partition(".")
    if kind not in ("requests", "limits"):
        raise LaunchError(f"no such resource field: {name!r}")
    amounts = [container.requests] if kind == "requests" else [container.limits, container.requests]
    return next((found for item in amounts if (found := _amount(item, resource, name))), 0)


def _amount(amounts: Amounts, resource: str, name: str) -> int:
    if resource == "cpu":
        return amounts.cpus
    if resource == "memory":
        return amounts.mem // 1000
    if resource == "storage":
        return amounts.disk // 1000
    raise LaunchError(f"no such resource field: {name!r}")


def _follow(value: str, values: Mapping[str, str]) -> str:
    """A value that is wholly ``$KEY`` becomes the value of that variable, along a chain but never around a circle."""
    seen = set()
    while (match := _REFERENCE.match(value)) and match[1] in values and match[1] not in seen:
        seen.add(match[1])
        value = values[match[1]]
    return value
