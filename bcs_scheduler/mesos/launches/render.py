"""Environment and template variables of tasks (docs/original.md#environment). Pure; versions are never changed. Errors
name variables and objects, never contents."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence

import msgspec

from bcs_scheduler.mesos.errors import LaunchError
from store.records import Task, TaskGroup, Version
from store.records.definition import Amounts, Container, EnvVar, Process
from transactions.injection import Content
from transactions.resource_request import addresses_of, is_random, network_name

POD_ID = "$BCS_POD_ID"
"""Name of the taskgroup in host paths of volumes."""
CONTAINER_INTERFACE = "eth1"
"""BCS_ETH_NAME and BCS_CNI_NAME of every container, as the original sets them (docs/original.md#environment)."""
ADDRESS = "BCS_CONTAINER_IP"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_.\-]*)\}")
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


def process_variables(taskgroup: TaskGroup, container: Container, process: Process) -> dict[str, str]:
    """Returns the variables of ``${...}`` in a task of kind process: the same values under the names that processes
    use, and two of their own fields. ``${work_base_dir}`` and ``${run_base_dir}`` are left for the agent."""
    variables = template_variables(taskgroup)
    variables |= {key.removeprefix("bcs."): value for key, value in variables.items()}
    variables["processname"] = taskgroup.application
    variables |= {
        "workPath": expand(container.working_dir, variables),
        "pidFile": expand(process.pid_file, variables),
    }
    return variables


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replaces ``${...}``. Unknown names stay as they are: they may be meant for the shell."""
    if "${" not in text:
        return text
    return _VARIABLE.sub(lambda match: variables.get(match[1], match[0]), text)


def environment(
    container: Container,
    variables: Mapping[str, str],
    facts: Mapping[str, str],
    contents: Sequence[Content] = (),
) -> dict[str, str]:
    """Variables of one task: as defined, from configmaps and secrets (`contents`), then `facts`, which win. Raises
    LaunchError."""
    defined = {expand(item.name, variables): _value(item, container, variables) for item in container.env}
    given = {expand(content.item.target, variables): _text(content) for content in contents}
    given.update(facts)
    values = {**defined, **given}
    # Given values are literal, even if they look like references.
    return {name: value if name in given else _follow(value, defined, given) for name, value in values.items()}


def injected(taskgroup: TaskGroup, task: Task) -> dict[str, str]:
    """Variables that every task in the network of its host gets."""
    values = {f"PORT_{port.name}": str(port.host_port or port.container_port) for port in task.ports}
    values["BCS_NODE_IP"] = taskgroup.agent_ip
    values["BCS_POD_ID"] = taskgroup.id
    if taskgroup.agent_ip:
        values[ADDRESS] = taskgroup.agent_ip
    return values


def injected_in_container(taskgroup: TaskGroup, task: Task, container: Container, version: Version) -> dict[str, str]:
    """Variables that a container gets: which of them name a port depends on the network (docs/original.md#ports).
    Raises LaunchError if the task was placed with other ports than the container has."""
    if len(task.ports) != len(container.ports):
        raise LaunchError(f"{len(task.ports)} ports for the {len(container.ports)} of task {task.name!r}")
    values = {}
    mode = version.network_mode.upper()
    for port, bound in zip(container.ports, task.ports, strict=True):
        if mode == "HOST":
            value = bound.host_port or bound.container_port
        elif mode in ("", "NONE"):
            value = bound.host_port
        elif is_mapped(version):
            value = bound.host_port if is_random(version, port) else 0
        else:
            value = bound.container_port
        if value:
            values[f"PORT_{port.name}"] = str(value)
    values["BCS_NODE_IP"] = taskgroup.agent_ip
    values["BCS_POD_ID"] = taskgroup.id
    values["BCS_ETH_NAME"] = values["BCS_CNI_NAME"] = CONTAINER_INTERFACE
    address = _known_address(taskgroup, container, version)
    if address:
        values[ADDRESS] = address
    return values


def _known_address(taskgroup: TaskGroup, container: Container, version: Version) -> str:
    """The address of a container that is known before its launch; empty if its network draws it."""
    if version.network_mode.upper() == "HOST":
        return taskgroup.agent_ip
    if not network_name(version):
        return ""
    reserved = addresses_of(version, taskgroup.index)
    return reserved[0] if reserved else dict(container.parameters).get("ip", "")


def is_mapped(version: Version) -> bool:
    """The network of its containers publishes container ports on the host."""
    mode = version.network_mode.upper()
    return mode == "BRIDGE" or (mode not in ("", "HOST", "NONE", "USER") and version.network_type.lower() == "cnm")


def varies(container: Container) -> bool:
    """True if anything in the definition may come out differently for different taskgroups, or comes from elsewhere."""
    if container.configmaps or container.secrets or container.image_pull_user:
        return True
    if any(uri.user or uri.password for uri in container.uris):
        return True
    text = msgspec.json.encode(container)
    names = any(item.value.startswith("$") for item in container.env)
    templates = b"${bcs." in text if container.process is None else b"${" in text
    return names or templates or POD_ID.encode() in text


def constant(container: Container) -> dict[str, str]:
    """The defined variables of a container that does not vary, without those that are injected. Raises LaunchError."""
    values = {item.name: _value(item, container, {}) for item in container.env}
    for name in (*(f"PORT_{port.name}" for port in container.ports), "BCS_NODE_IP", "BCS_POD_ID", ADDRESS):
        values.pop(name, None)
    return values


def _value(item: EnvVar, container: Container, variables: Mapping[str, str]) -> str:
    if item.resource:
        return str(_resource(item.resource, container))
    return expand(item.value, variables)


def _resource(name: str, container: Container) -> int:
    """Returns the amount for ``requests.cpu`` and the like: cores in thousandths, everything else in MB. Without a
    limit, the request counts."""
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


def _text(content: Content) -> str:
    """Returns the value of a variable as text; the data is known to be base64. Raises LaunchError for a value that a
    variable cannot hold."""
    try:
        text = b64decode(content.data).decode()
    except UnicodeDecodeError:
        raise LaunchError(f"the value for variable {content.item.target!r} is not UTF-8") from None
    if "\0" in text:
        raise LaunchError(f"the value for variable {content.item.target!r} contains a NUL byte")
    return text


def _follow(value: str, defined: Mapping[str, str], given: Mapping[str, str]) -> str:
    """A value that is wholly ``$KEY`` becomes the value of that variable, along a chain but never around a circle."""
    seen = set()
    while (match := _REFERENCE.match(value)) and match[1] not in seen:
        seen.add(match[1])
        if match[1] in given:
            return given[match[1]]
        if match[1] not in defined:
            break
        value = defined[match[1]]
    return value
