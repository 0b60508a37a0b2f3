"""Checks of the tasks of a taskgroup: commands, environment, resources, volumes; ports, checks and references have
modules of their own."""

from __future__ import annotations

import posixpath

from bcs_scheduler.api.documents.amounts import check_differences
from bcs_scheduler.api.documents.checks import check_health_checks
from bcs_scheduler.api.documents.engine import check_image_needs, check_parameters
from bcs_scheduler.api.documents.names import check_variable
from bcs_scheduler.api.documents.ports import PortBook, network_mode
from bcs_scheduler.api.documents.references import check_credentials, check_references, check_uris, check_user
from bcs_scheduler.wire import quantities
from bcs_scheduler.wire.documents.pod import (
    ContainerDocument,
    PodSpec,
    ProcessDocument,
    ResourceAmounts,
    ResourcesDocument,
    TaskDocument,
)
from bcs_scheduler.wire.problems import Problems, Taken, element, member

RESOURCE_FIELDS = ("requests.cpu", "limits.cpu", "requests.memory", "limits.memory")


def check_tasks(pod: PodSpec, path: str, problems: Problems) -> None:
    """Task names, port names and host ports are unique in the taskgroup, the rest within its task."""
    ports, names = PortBook(pod), Taken("task name")
    for i, container in enumerate(pod.containers):
        at = element(member(path, "containers"), i)
        if container.name:
            names.take(container.name, member(at, "name"), problems)
        _check_container(container, pod, at, problems)
        _check_task(container, ports, at, problems)
    for i, process in enumerate(pod.processes):
        at = element(member(path, "processes"), i)
        names.take(process.proc_name, member(at, "procName"), problems)
        _check_process(process, at, problems)
        _check_task(process, ports, at, problems)


def _check_task(task: TaskDocument, ports: PortBook, at: str, problems: Problems) -> None:
    """Checks the fields that containers and processes share."""
    ports.check(task.ports, member(at, "ports"), problems)
    _check_env(task, at, problems)
    check_user(task.user, member(at, "user"), problems)
    check_resources(task.resources, member(at, "resources"), problems)
    check_differences(task, at, problems)
    check_health_checks(task, member(at, "healthChecks"), problems)
    check_uris(task.uris, member(at, "uris"), problems)
    check_references(task, at, problems)


def _check_container(container: ContainerDocument, pod: PodSpec, at: str, problems: Problems) -> None:
    if not container.image and not container.command:
        problems.add(member(at, "command"), "is required without an image")
    check_image_needs(container, pod, at, problems)
    fields = ("imagePullUser", "imagePullPasswd")
    check_credentials(container.image_pull_user, container.image_pull_passwd, at, fields, problems)
    if container.parameters:
        check_parameters(container, network_mode(pod), member(at, "parameters"), problems)
    _check_volumes(container, at, problems)


def _check_process(process: ProcessDocument, at: str, problems: Problems) -> None:
    if "/" in process.proc_name or not process.proc_name.isprintable():
        problems.add(member(at, "procName"), "must be the base name of the executable, without directories")
    if not process.start_cmd.strip():
        problems.add(member(at, "startCmd"), "must not be empty")
    for field, written in (("workPath", process.work_path), ("pidFile", process.pid_file)):
        if ".." in written.split("/"):
            problems.add(member(at, field), "must not contain '..'")


def _check_env(task: TaskDocument, at: str, problems: Problems) -> None:
    seen: dict[str, str] = {}
    for j, variable in enumerate(task.env):
        path = element(member(at, "env"), j)
        check_variable(variable.name, member(path, "name"), problems)
        first = seen.setdefault(variable.name, member(path, "name"))
        if first != member(path, "name"):
            words = f"variable {variable.name!r} is given already by {first}"
            problems.warn(member(path, "name"), words, "the last value counts")
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
    needs = Taken("extended resource")
    for j, need in enumerate(resources.extended_resources):
        at = member(element(member(path, "extendedResources"), j), "Name")
        if not need.name:
            problems.add(at, "must not be empty")
        needs.take(need.name, at, problems)


def _check_amounts(amounts: ResourceAmounts, path: str, problems: Problems) -> dict[str, int]:
    """Thousandths by name, of the amounts that were given and could be read."""
    read: dict[str, int] = {}
    for name, reader in quantities.READERS.items():
        written = getattr(amounts, name)
        if written is None or written == "":
            continue
        if not quantities.is_given(name, written):
            problems.warn(member(path, name), "must be greater than 0", "the value is ignored")
            continue
        try:
            read[name] = reader(written)
        except quantities.QuantityError as error:
            problems.add(member(path, name), str(error))
    return read


def _check_volumes(container: ContainerDocument, at: str, problems: Problems) -> None:
    mounts = Taken("mount path")
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
        elif ".." in host.split("/"):
            problems.add(member(path, "hostPath"), "must not contain '..'")
        mounts.take(posixpath.normpath(item.volume.mount_path or "/"), member(path, "mountPath"), problems)
