"""The environment a Mesos agent gives to an executor (slave.cpp, executorEnvironment)."""

from __future__ import annotations

import os
from pathlib import Path

from bcs_scheduler.local.agents.launcher import MARK
from bcs_scheduler.local.objects.model import Executor
from bcs_scheduler.local.settings import ClusterSettings

BACKOFF_MAX = 2.0
"""Seconds an executor waits at most between two attempts to subscribe."""

_UNITS = (
    ("weeks", 7 * 86400.0),
    ("days", 86400.0),
    ("hrs", 3600.0),
    ("mins", 60.0),
    ("secs", 1.0),
    ("ms", 1e-3),
    ("us", 1e-6),
    ("ns", 1e-9),
)


def environment(executor: Executor, sandbox: Path, settings: ClusterSettings) -> dict[str, str]:
    """The variables of the executor's command over those of the agent."""
    agent, info = executor.agent, executor.info
    grace = settings.executor_shutdown_grace
    if info.HasField("shutdown_grace_period"):
        grace = info.shutdown_grace_period.nanoseconds / 1e9
    checkpoint = executor.framework.info.checkpoint
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LIBPROCESS_IP": agent.spec.ip,
        "LIBPROCESS_PORT": "0",
        "MESOS_FRAMEWORK_ID": executor.framework.id,
        "MESOS_EXECUTOR_ID": executor.id,
        "MESOS_DIRECTORY": str(sandbox),
        "MESOS_SANDBOX": str(sandbox),
        "MESOS_SLAVE_ID": agent.id,
        "MESOS_SLAVE_PID": agent.pid,
        "MESOS_AGENT_ENDPOINT": f"{agent.spec.ip}:{agent.port}",
        "MESOS_CHECKPOINT": "1" if checkpoint else "0",
        "MESOS_HTTP_COMMAND_EXECUTOR": "0",
        "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD": duration(grace),
        MARK: executor.container_id,
    }
    if checkpoint:
        env["MESOS_RECOVERY_TIMEOUT"] = duration(settings.executor_recovery_timeout)
        env["MESOS_SUBSCRIPTION_BACKOFF_MAX"] = duration(BACKOFF_MAX)
    env.update({v.name: v.value for v in info.command.environment.variables})
    return env


def duration(seconds: float) -> str:
    """As Mesos writes it, such as ``15mins`` or ``1.5secs``: in the largest unit of which it is at least one."""
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.15g}{unit}"
    return "0ns"
