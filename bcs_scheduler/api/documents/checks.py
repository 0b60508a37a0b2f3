"""Health checks of a task (bcs_api 6.8): at most one local one, one REMOTE_HTTP and one REMOTE_TCP, each with what it
needs to be carried out (W24)."""

from __future__ import annotations

import re

from bcs_scheduler.api.documents.pod import HealthCheckDocument, HttpCheck, TaskDocument, TcpCheck
from bcs_scheduler.api.documents.walk import Problems, element, member
from bcs_scheduler.api.redaction import HIDDEN

_PAYLOAD = {"HTTP": "http", "REMOTE_HTTP": "http", "TCP": "tcp", "REMOTE_TCP": "tcp", "COMMAND": "command"}
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
"""A token of RFC 9110, section 5.6.2."""


def is_remote(check: HealthCheckDocument) -> bool:
    return check.type.startswith("REMOTE_")


def check_health_checks(task: TaskDocument, path: str, problems: Problems) -> None:
    seen: dict[str, str] = {}
    for j, check in enumerate(task.health_checks):
        at = element(path, j)
        kind = check.type if is_remote(check) else "local"
        first = seen.setdefault(kind, at)
        if first != at:
            problems.add(at, f"a task has one {kind} check; {first} is there already")
        if check.interval_seconds <= check.timeout_seconds:
            problems.add(
                member(at, "intervalSeconds"),
                f"must be greater than timeoutSeconds: {check.interval_seconds} is not above {check.timeout_seconds}",
            )
        _check_probe(check, task, at, problems)


def _check_probe(check: HealthCheckDocument, task: TaskDocument, path: str, problems: Problems) -> None:
    wanted = _PAYLOAD[check.type]
    for name in dict.fromkeys(_PAYLOAD.values()):
        if name != wanted and getattr(check, name) is not None:
            problems.add(member(path, name), f"has no meaning in a check of type {check.type}")
    payload = getattr(check, wanted)
    if payload is None:
        problems.add(member(path, wanted), f"is required for a check of type {check.type}")
    elif isinstance(payload, HttpCheck | TcpCheck):
        _check_port(payload, task, member(path, wanted), problems)
    elif not payload.value.strip():
        problems.add(f"{path}.command.value", "must not be empty")
    if isinstance(payload, HttpCheck):
        _check_http(payload, member(path, "http"), problems)


def _check_http(probe: HttpCheck, path: str, problems: Problems) -> None:
    if probe.scheme.lower() not in ("http", "https"):
        problems.add(member(path, "scheme"), "must be http or https")
    if not probe.path.startswith("/") or not probe.path.isprintable() or " " in probe.path:
        problems.add(member(path, "path"), "must start with / and have no blanks")
    for name, value in probe.headers.items():
        at = member(member(path, "headers"), name)
        if not _HEADER.match(name):
            problems.add(at, "is no name of a header")
        elif any(character in value for character in "\r\n"):
            problems.add(at, "must be one line")
        elif value == HIDDEN:
            problems.add(at, f"is shown as {HIDDEN} and not known here: give it again")


def _check_port(probe: HttpCheck | TcpCheck, task: TaskDocument, path: str, problems: Problems) -> None:
    if probe.port > 0:
        return
    known = [port.name for port in task.ports]
    if not probe.port_name:
        problems.add(member(path, "portName"), "is required where port is not given")
    elif probe.port_name not in known:
        problems.add(member(path, "portName"), f'the task has no port "{probe.port_name}"', probe.port_name, known)
