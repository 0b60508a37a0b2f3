"""Health checks of a task (docs/original.md#health-checks): at most one local one, one REMOTE_HTTP and one REMOTE_TCP,
each with all fields that its probes need (docs/original.md#incomplete-checks)."""

from __future__ import annotations

import re

from bcs_scheduler.wire.documents.pod import CommandCheck, HealthCheckDocument, HttpCheck, TaskDocument, TcpCheck
from bcs_scheduler.wire.problems import Problems, element, member
from bcs_scheduler.wire.redaction import HIDDEN

_PAYLOAD = {"HTTP": "http", "REMOTE_HTTP": "http", "TCP": "tcp", "REMOTE_TCP": "tcp", "COMMAND": "command"}
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
"""A token of RFC 9110, section 5.6.2."""


_BLANK: dict[str, object] = {"http": HttpCheck(), "tcp": TcpCheck(), "command": CommandCheck()}
"""Parts that ask for nothing."""


def payload_of(check: HealthCheckDocument) -> HttpCheck | TcpCheck | CommandCheck | None:
    """The part of a check that belongs to its type."""
    part: HttpCheck | TcpCheck | CommandCheck | None = getattr(check, _PAYLOAD[check.type])
    return part


def effective_checks(task: TaskDocument) -> tuple[HealthCheckDocument, ...]:
    """Returns the checks that take effect: the first one of each kind (local, REMOTE_HTTP, REMOTE_TCP). A check without
    a type has no effect."""
    kept: dict[str, HealthCheckDocument] = {}
    for check in filter(_has_type, task.health_checks):
        kept.setdefault(check.type if is_remote(check) else "local", check)
    return tuple(kept.values())


def _has_type(check: HealthCheckDocument) -> bool:
    return bool(check.type)


def is_remote(check: HealthCheckDocument) -> bool:
    return check.type.startswith("REMOTE_")


def check_health_checks(task: TaskDocument, path: str, problems: Problems) -> None:
    seen: dict[str, str] = {}
    for j, check in enumerate(task.health_checks):
        at = element(path, j)
        if not check.type or problems.refuses(member(at, "type")):
            continue
        kind = check.type if is_remote(check) else "local"
        first = seen.setdefault(kind, at)
        if first != at:
            problems.warn(at, f"a task has at most one {kind} check; the first is {first}", "this one is left out")
            continue
        if check.interval_seconds <= check.timeout_seconds:
            problems.add(
                member(at, "intervalSeconds"),
                f"must be greater than timeoutSeconds: {check.interval_seconds} is not above {check.timeout_seconds}",
            )
        _check_probe(check, task, at, problems)


def _check_probe(check: HealthCheckDocument, task: TaskDocument, path: str, problems: Problems) -> None:
    wanted = _PAYLOAD[check.type]
    for name, blank in _BLANK.items():
        if name != wanted and getattr(check, name) not in (None, blank):
            problems.warn(member(path, name), f"has no meaning in a check of type {check.type}")
    payload = payload_of(check)
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
            problems.add(at, "is not the name of a header")
        elif any(character in value for character in "\r\n"):
            problems.add(at, "must be one line")
        elif value == HIDDEN:
            problems.add(at, f"is {HIDDEN}, the mark of a hidden value: give the value again")


def _check_port(probe: HttpCheck | TcpCheck, task: TaskDocument, path: str, problems: Problems) -> None:
    if probe.port > 0:
        return
    known = [port.name for port in task.ports]
    if not probe.port_name:
        problems.add(member(path, "portName"), "is required where port is not given")
    elif probe.port_name not in known:
        problems.add(member(path, "portName"), f'the task has no port "{probe.port_name}"', probe.port_name, known)
