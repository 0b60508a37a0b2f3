"""What must hold for the containers of a taskgroup: commands, ports, environment, resources, checks, volumes."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from urllib.parse import urlsplit

from bcs_scheduler.api.documents import quantities
from bcs_scheduler.api.documents.application import (
    LATER,
    ContainerDocument,
    HealthCheckDocument,
    HttpCheck,
    PodSpec,
    PortDocument,
    ResourceAmounts,
    ResourcesDocument,
    TcpCheck,
)
from bcs_scheduler.api.documents.names import check_port_name, check_variable
from bcs_scheduler.api.documents.walk import Problems, element, member

PROTOCOLS = ("tcp", "udp", "http", "https")
RESOURCE_FIELDS = ("requests.cpu", "limits.cpu", "requests.memory", "limits.memory")
READERS: dict[str, Callable[[quantities.Written], int]] = {
    "cpu": quantities.cores,
    "memory": quantities.memory,
    "storage": quantities.storage,
    "gpu": quantities.gpus,
}


class _Taken:
    """Names and numbers that may be used once; remembers where each was used first."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._first: dict[object, str] = {}

    def take(self, value: object, path: str, problems: Problems) -> None:
        first = self._first.setdefault(value, path)
        if first != path:
            problems.add(path, f"{self._what} {value!r} is used already by {first}")


def check_containers(pod: PodSpec, path: str, problems: Problems) -> None:
    """Port names and fixed host ports are unique in the taskgroup, the rest within its container."""
    port_names, host_ports, task_names = _Taken("port name"), _Taken("host port"), _Taken("container name")
    for i, container in enumerate(pod.containers):
        at = element(path, i)
        if not container.image and not container.command:
            problems.add(member(at, "command"), "is required where there is no image")
        if container.name:
            task_names.take(container.name, member(at, "name"), problems)
        for j, port in enumerate(container.ports):
            port_path = element(member(at, "ports"), j)
            _check_port(port, port_path, pod.network_mode.upper(), problems)
            port_names.take(port.name, member(port_path, "name"), problems)
            fixed = fixed_host_port(port)
            if fixed > 0:
                host_ports.take(
                    fixed, member(port_path, "hostPort" if port.host_port > 0 else "containerPort"), problems
                )
        _check_env(container, at, problems)
        check_resources(container.resources, member(at, "resources"), problems)
        _check_health_checks(container, at, problems)
        _check_volumes(container, at, problems)
        _check_uris(container, at, problems)


def fixed_host_port(port: PortDocument) -> int:
    """In host networking the container port is the host port; 0 = a random one."""
    return port.host_port if port.host_port > 0 else max(port.container_port, 0)


def _check_port(port: PortDocument, path: str, mode: str, problems: Problems) -> None:
    check_port_name(port.name, member(path, "name"), problems)
    if port.protocol.lower() not in ("", *PROTOCOLS):
        problems.add(member(path, "protocol"), f"must be one of {', '.join(PROTOCOLS)}", port.protocol, PROTOCOLS)
    for field, number in (("containerPort", port.container_port), ("hostPort", port.host_port)):
        if number < 0:
            problems.add(member(path, field), "must not be negative: unmapped ports need a custom network")
    if port.container_port > 0 and port.host_port > 0 and port.container_port != port.host_port:
        problems.add(member(path, "hostPort"), f"must equal containerPort {port.container_port} in host networking")
    if mode in ("", "NONE"):
        problems.add(path, 'needs host networking: write "networkMode": "HOST"')


def _check_env(container: ContainerDocument, at: str, problems: Problems) -> None:
    variables = _Taken("variable")
    for j, variable in enumerate(container.env):
        path = element(member(at, "env"), j)
        check_variable(variable.name, member(path, "name"), problems)
        variables.take(variable.name, member(path, "name"), problems)
        if variable.value_from is None:
            continue
        if variable.value:
            problems.add(member(path, "valueFrom"), "give either value or valueFrom, not both")
        resource = variable.value_from.resource_field_ref.resource
        if resource not in RESOURCE_FIELDS:
            known = ", ".join(RESOURCE_FIELDS)
            where = f"{path}.valueFrom.resourceFieldRef.resource"
            problems.add(where, f"must be one of {known}", resource, RESOURCE_FIELDS)


def check_resources(resources: ResourcesDocument, path: str, problems: Problems) -> None:
    requests = _check_amounts(resources.requests, member(path, "requests"), problems)
    limits = _check_amounts(resources.limits, member(path, "limits"), problems)
    for name in requests.keys() & limits.keys():
        if requests[name] > limits[name]:
            problems.add(f"{path}.requests.{name}", "must not exceed the limit")
    needs = _Taken("extended resource")
    for j, need in enumerate(resources.extended_resources):
        at = member(element(member(path, "extendedResources"), j), "Name")
        if not need.name:
            problems.add(at, "must not be empty")
        needs.take(need.name, at, problems)


def _check_amounts(amounts: ResourceAmounts, path: str, problems: Problems) -> dict[str, int]:
    """Thousandths by name, of what was given and could be read."""
    read: dict[str, int] = {}
    for name, reader in READERS.items():
        written = getattr(amounts, name)
        if written is None or written == "":
            continue
        try:
            read[name] = reader(written)
        except quantities.QuantityError as error:
            problems.add(member(path, name), str(error))
    return read


def _check_health_checks(container: ContainerDocument, at: str, problems: Problems) -> None:
    local = ""
    for j, check in enumerate(container.health_checks):
        path = element(member(at, "healthChecks"), j)
        if check.type.startswith("REMOTE_"):
            problems.add(member(path, "type"), f"{check.type} {LATER}: nothing would carry it out")
            continue
        if local:
            problems.add(path, f"a container has one local check; {local} is there already")
        local = local or path
        if check.interval_seconds <= check.timeout_seconds:
            problems.add(
                member(path, "intervalSeconds"),
                f"must be greater than timeoutSeconds: {check.interval_seconds} is not above {check.timeout_seconds}",
            )
        _check_probe(check, container, path, problems)


def _check_probe(check: HealthCheckDocument, container: ContainerDocument, path: str, problems: Problems) -> None:
    payloads = {"HTTP": "http", "TCP": "tcp", "COMMAND": "command"}
    wanted = payloads[check.type]
    for name in payloads.values():
        if name != wanted and getattr(check, name) is not None:
            problems.add(member(path, name), f"has no meaning in a check of type {check.type}")
    payload = getattr(check, wanted)
    if payload is None:
        problems.add(member(path, wanted), f"is required for a check of type {check.type}")
    elif isinstance(payload, HttpCheck | TcpCheck):
        _check_probe_port(payload, container, member(path, wanted), problems)
    elif not payload.value.strip():
        problems.add(f"{path}.command.value", "must not be empty")
    if isinstance(payload, HttpCheck):
        if payload.scheme not in ("http", "https"):
            problems.add(f"{path}.http.scheme", "must be http or https")
        if not payload.path.startswith("/"):
            problems.add(f"{path}.http.path", "must start with /")


def _check_probe_port(probe: HttpCheck | TcpCheck, container: ContainerDocument, path: str, problems: Problems) -> None:
    known = [port.name for port in container.ports]
    if probe.port > 0:
        return
    if not probe.port_name:
        problems.add(member(path, "portName"), "is required where port is not given")
    elif probe.port_name not in known:
        problems.add(member(path, "portName"), f'the container has no port "{probe.port_name}"', probe.port_name, known)


def _check_volumes(container: ContainerDocument, at: str, problems: Problems) -> None:
    mounts = _Taken("mount path")
    for j, item in enumerate(container.volumes):
        path = member(element(member(at, "volumes"), j), "volume")
        if not container.image:
            problems.add(path, "needs an image: a plain process sees the file system of its agent as it is")
        if not item.volume.mount_path:
            problems.add(member(path, "mountPath"), "must not be empty")
        elif ".." in item.volume.mount_path.split("/"):
            problems.add(member(path, "mountPath"), "must not contain '..'")
        host = item.volume.host_path
        if host and not host.startswith("/"):
            problems.add(member(path, "hostPath"), "must be an absolute path")
        mounts.take(posixpath.normpath(item.volume.mount_path or "/"), member(path, "mountPath"), problems)


def _check_uris(container: ContainerDocument, at: str, problems: Problems) -> None:
    for j, uri in enumerate(container.uris):
        path = element(member(at, "uris"), j)
        try:
            scheme = urlsplit(uri.value).scheme
        except ValueError:
            scheme = ""
        if not scheme and not uri.value.startswith("/"):
            problems.add(member(path, "value"), "must be a URL or an absolute path on the agent")
        if uri.output.startswith("/") or ".." in uri.output.split("/"):
            problems.add(member(path, "output"), "must be a relative path inside the sandbox")
