"""Health checks of a definition -> checks that Mesos's executors run (docs/original.md#health-checks)."""

from __future__ import annotations

from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from store.records import Task
from store.records.definition import Container, HealthCheck

NEVER = 2**32 - 1
"""Failures in a row before Mesos kills, for checks that shall only report."""


def health_check(container: Container, task: Task) -> pb.HealthCheck | None:
    """The first check that runs on the agent and whose port is known. Remote ones are probed from outside."""
    for check in container.health_checks:
        if check.type == "COMMAND":
            made = _timing(check)
            made.type = pb.HealthCheck.COMMAND
            made.command.shell = True
            made.command.value = check.command
            return made
        port = _port(check, task)
        if port and check.type == "HTTP":
            made = _timing(check)
            made.type = pb.HealthCheck.HTTP
            made.http.port = port
            made.http.scheme = check.scheme
            made.http.path = check.path if check.path.startswith("/") else f"/{check.path}"
            return made
        if port and check.type == "TCP":
            made = _timing(check)
            made.type = pb.HealthCheck.TCP
            made.tcp.port = port
            return made
    return None


def _timing(check: HealthCheck) -> pb.HealthCheck:
    """Mesos kills at the given number of failures in a row; the definition gives the number still borne, 0 = never."""
    return pb.HealthCheck(
        delay_seconds=check.delay,
        grace_period_seconds=check.grace_period,
        interval_seconds=check.interval,
        timeout_seconds=check.timeout,
        consecutive_failures=check.consecutive_failures + 1 if check.consecutive_failures else NEVER,
    )


def _port(check: HealthCheck, task: Task) -> int:
    """A number wins over a name. Tasks run in the network of the host, so a named port is the one on the host."""
    if check.port > 0:
        return check.port
    for port in task.ports:
        if port.name == check.port_name:
            return port.host_port or port.container_port
    return 0
