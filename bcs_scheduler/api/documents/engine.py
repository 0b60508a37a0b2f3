"""Options of the container engine (docs/original.md#docker-parameters) and the executors that can carry out a
document."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Sequence

from bcs_scheduler.api.documents.checks import is_remote
from bcs_scheduler.api.documents.ports import BUILT_IN, is_custom, network_mode, network_type
from bcs_scheduler.wire.documents.pod import ContainerDocument, ParameterDocument, PodSpec, TaskDocument
from bcs_scheduler.wire.problems import Problems, Taken, element, hint, member

FETCHED = ("http", "https", "file")
"""Schemes of URIs that our executor fetches."""
PARAMETERS = ("oom-kill-disable", "ulimit", "rm", "shm-size", "ipc", "ip")
LIMITS = (
    "as", "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio",
    "rttime", "sigpending", "stack",
)  # fmt: skip
"""Names of limits, as setrlimit(2) and `ulimit` of container engines have them."""


def check_parameters(container: ContainerDocument, mode: str, path: str, problems: Problems) -> None:
    keys, limits = Taken("parameter"), Taken("limit")
    for j, parameter in enumerate(container.parameters):
        at = element(path, j)
        if parameter.key == "ulimit":
            _check_limit(parameter, limits, member(at, "value"), problems)
            continue
        keys.take(parameter.key, member(at, "key"), problems)
        if parameter.key == "P":
            words = "is not supported as a parameter: list the ports that are to be reachable in ports"
            problems.add(member(at, "key"), words)
        elif parameter.key == "net":
            problems.warn(member(at, "key"), "is not supported as a parameter", "write networkMode")
        elif parameter.key not in PARAMETERS:
            known = f"must be one of {', '.join(PARAMETERS)}"
            problems.warn(member(at, "key"), known, hint(parameter.key, PARAMETERS).removeprefix("; "))
        elif not container.image:
            problems.add(member(at, "key"), "needs an image; for a plain process only ulimit has a meaning")
        else:
            _check_value(parameter, mode, at, problems)


def honours(parameter: ParameterDocument, mode: str) -> bool:
    """True if the parameter has an effect in a network of this mode."""
    return parameter.key in PARAMETERS and (parameter.key != "ip" or mode not in BUILT_IN)


def _check_value(parameter: ParameterDocument, mode: str, path: str, problems: Problems) -> None:
    key, value, at = parameter.key, parameter.value, member(path, "value")
    if key in ("oom-kill-disable", "rm"):
        if value not in ("true", "false"):
            problems.add(at, "must be true or false")
    elif key == "shm-size":
        if not _is_number(value, 1, 1_048_576):
            problems.add(at, "must be a whole number of MB")
    elif key == "ipc":
        if not value:
            problems.add(at, "must not be empty")
    elif not honours(parameter, mode):
        problems.warn(member(path, "key"), f"has no effect in network {mode}", "a fixed address needs a custom network")
    else:
        try:
            ipaddress.ip_address(value)
        except ValueError:
            problems.add(at, "must be an IP address")


def _check_limit(parameter: ParameterDocument, limits: Taken, path: str, problems: Problems) -> None:
    name, _, number = parameter.value.partition("=")
    if name not in LIMITS:
        problems.add(path, f"must be <name>=<number>; names are {', '.join(LIMITS)}", name, LIMITS)
    elif number != "-1" and not _is_number(number, 0, 2**63 - 1):
        problems.add(path, "must be <name>=<number>, -1 = unlimited")
    else:
        limits.take(name, path, problems)


def _is_number(text: str, least: int, most: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 19 and least <= int(text) <= most


# --- who can do it --------------------------------------------------------------------------------------------


_NEEDS_OURS = "needs the executor of this scheduler, but "
_SAID = 'this says "mesos"'
_DEFAULT = 'the scheduler\'s default is "mesos": write "executor": "bcs"'


def check_image_needs(container: ContainerDocument, pod: PodSpec, path: str, problems: Problems) -> None:
    """Checks the fields that have a meaning only for containers of an engine."""
    if container.image:
        if container.hostname and network_mode(pod) == "HOST":
            problems.warn(member(path, "hostname"), "has no meaning in host networking: the name is the host's")
        return
    for field in ("hostname", "imagePullUser", "imagePullPasswd", "privileged"):
        if getattr(container, _SNAKE.get(field, field)):
            problems.add(member(path, field), "needs an image: the field has no effect for a plain process")
    mode = network_mode(pod)
    if mode not in ("HOST", "NONE"):
        problems.add(member(path, "image"), f"is required in network {mode}: a plain process cannot join it")


_SNAKE = {"imagePullUser": "image_pull_user", "imagePullPasswd": "image_pull_passwd"}


def check_executor(pod: PodSpec, executor: str, default: str, path: str, problems: Problems) -> None:
    """Reports each demand of the document that its executor cannot carry out. `executor` empty = `default`."""
    by_mesos = run_by_mesos(pod, executor, default)
    _check_input(pod, by_mesos, path, problems)
    if by_mesos:
        for at in _beyond_mesos(pod, path):
            problems.add(at, _NEEDS_OURS + (_SAID if executor else _DEFAULT))
    else:
        for at in _beyond_ours(pod, path):
            problems.add(at, f"cannot be fetched: {', '.join(FETCHED)} and absolute paths on the agent can")


def _check_input(pod: PodSpec, by_mesos: bool, path: str, problems: Problems) -> None:
    """Mesos gives an input only together with a terminal."""
    for i, container in enumerate(pod.containers):
        at = element(member(path, "containers"), i)
        if container.tty and not container.stdin:
            problems.add(member(at, "tty"), "needs stdin: true, because a terminal is input and output")
        if container.stdin_once and (container.tty or not container.stdin):
            problems.add(member(at, "stdinOnce"), "needs stdin: true without tty: a terminal stays open")
        if by_mesos and container.stdin and not container.tty:
            problems.add(member(at, "stdin"), 'needs tty: true with the executor "mesos"')


def check_remote_variables(
    pod: PodSpec, executor: str, fetched: Callable[[str, str], bool], path: str, problems: Problems
) -> None:
    """Reports variables that Mesos's default executor would have to fetch. `fetched`: True for the name and key of a
    configmap whose content is a URL."""
    for i, container in enumerate(pod.containers):
        references = member(element(member(path, "containers"), i), "configmaps")
        for j, reference in enumerate(container.configmaps):
            for k, item in enumerate(reference.items):
                if item.type == "env" and fetched(reference.name, item.data_key):
                    at = element(member(element(references, j), "items"), k)
                    problems.add(
                        at, "is fetched on the agent, which " + _NEEDS_OURS + (_SAID if executor else _DEFAULT)
                    )


def run_by_mesos(pod: PodSpec, executor: str, default: str) -> bool:
    """True if Mesos's default executor runs the pod. Processes that name no executor are run by ours, for every
    default."""
    return (executor or ("bcs" if pod.processes else default)) == "mesos"


def _beyond_ours(pod: PodSpec, path: str) -> Iterator[str]:
    """URIs that only a fetcher of Mesos may know."""
    kinds: tuple[tuple[str, Sequence[TaskDocument]], ...] = (
        ("containers", pod.containers),
        ("processes", pod.processes),
    )
    for field, tasks in kinds:
        for i, task in enumerate(tasks):
            for j, uri in enumerate(task.uris):
                scheme, colon, _ = uri.value.partition("://")
                if colon and scheme.lower() not in FETCHED and not uri.value.startswith("$"):
                    yield member(element(member(element(member(path, field), i), "uris"), j), "value")


def _beyond_mesos(pod: PodSpec, path: str) -> Iterator[str]:
    if pod.processes:
        yield member(path, "processes")
        return
    if network_mode(pod) not in ("HOST", "NONE") and not (is_custom(pod) and network_type(pod) == "cni"):
        yield member(path, "networkMode")
    for i, container in enumerate(pod.containers):
        at = element(member(path, "containers"), i)
        for field, asked in (
            ("privileged", container.privileged),
            ("parameters", container.parameters),
            ("hostname", container.hostname),
            ("imagePullUser", container.image_pull_user),
            ("imagePullPasswd", container.image_pull_passwd),
            ("imagePullPolicy", container.image_pull_policy == "Never"),
        ):
            if asked:
                yield member(at, field)
        if is_custom(pod):
            yield from _needs_address(container, at)
        yield from _beyond_mesos_in_task(container, at)


def _needs_address(container: ContainerDocument, path: str) -> Iterator[str]:
    """Variables whose value only the agent will know."""
    for j, variable in enumerate(container.env):
        if variable.value == "$BCS_CONTAINER_IP":
            yield member(element(member(path, "env"), j), "value")


def _beyond_mesos_in_task(task: TaskDocument, path: str) -> Iterator[str]:
    for j, uri in enumerate(task.uris):
        if uri.user:
            yield member(element(member(path, "uris"), j), "user")
    for j, check in enumerate(task.health_checks):
        if check.http is not None and check.http.headers and not is_remote(check):
            yield f"{element(member(path, 'healthChecks'), j)}.http.headers"
    for field in ("configmaps", "secrets"):
        for j, reference in enumerate(getattr(task, field)):
            for i, item in enumerate(reference.items):
                if item.type == "file":
                    yield element(member(element(member(path, field), j), "items"), i)
