"""Mesos health checks of one task."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable

from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.tasks import background

log = logging.getLogger(__name__)

Probe = Callable[[], Awaitable[None]]
"""Returns if the task is healthy; raises otherwise."""


class Unhealthy(Exception):
    """The probe says why."""


class HealthChecker:
    """`report(healthy, kill)` is called for the first success, for each failure after the grace period, and for the
    first success after failures; `kill` once there were too many failures in a row. The rules are those of Mesos
    (src/checks/health_checker.cpp)."""

    def __init__(self, check: pb.HealthCheck, probe: Probe, report: Callable[[bool, bool], None]) -> None:
        self._check = check
        self._probe = probe
        self._report = report
        self._failures = 0
        self._healthy: bool | None = None
        self._task = background(self._run(), "health check")

    def stop(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        check = self._check
        started = time.monotonic()
        await asyncio.sleep(check.delay_seconds)
        while True:
            try:
                async with asyncio.timeout(check.timeout_seconds or None):
                    await self._probe()
            except Exception as error:
                if not isinstance(error, Unhealthy | OSError | asyncio.IncompleteReadError | TimeoutError):
                    log.exception("a health check could not be probed")
                in_grace = self._healthy is None and time.monotonic() - started <= check.grace_period_seconds
                if not in_grace:
                    self._failed()
            else:
                self._succeeded()
            await asyncio.sleep(check.interval_seconds)

    def _failed(self) -> None:
        self._failures += 1
        self._healthy = False
        self._report(False, self._failures >= self._check.consecutive_failures)

    def _succeeded(self) -> None:
        self._failures = 0
        if not self._healthy:
            self._healthy = True
            self._report(True, False)


async def tcp_probe(host: str, port: int) -> None:
    _, writer = await asyncio.open_connection(host, port)
    writer.close()


async def http_probe(host: str, info: pb.HealthCheck.HTTPCheckInfo) -> None:
    """Healthy is any status from 200 to 399; redirects are not followed and certificates not verified, as by Mesos."""
    context = None
    if info.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(host, info.port, ssl=context)
    try:
        path = info.path or "/"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{info.port}\r\nConnection: close\r\n\r\n".encode())
        status = (await reader.readuntil(b"\n")).split()
    finally:
        writer.close()
    if len(status) < 2 or not status[1].isdigit() or not 200 <= int(status[1]) < 400:
        raise Unhealthy(f"answered {b' '.join(status[1:]).decode(errors='replace') or 'nothing'}")
