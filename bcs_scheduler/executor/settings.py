"""The settings that the agent passes to an executor through its environment (Mesos documentation, executor HTTP
API)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "secs": 1.0,
    "mins": 60.0,
    "hrs": 3600.0,
    "days": 86400.0,
    "weeks": 604800.0,
}
"""Seconds by the units with which Mesos writes durations (stout, duration.hpp)."""


class SettingsError(Exception):
    """The environment is not that of an executor; the message names the fault."""


def duration(text: str) -> float:
    """Seconds of `15mins`, `0.5secs`. Raises SettingsError."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    try:
        return float(number) * UNITS[text[len(number) :]]
    except (KeyError, ValueError):
        raise SettingsError(f"not a duration: {text!r}") from None


@dataclass(frozen=True)
class Settings:
    """Durations in seconds."""

    endpoint: str
    """`host:port`."""
    domain_socket: str
    framework: str
    executor: str
    sandbox: Path
    checkpoint: bool
    recovery_timeout: float
    backoff_max: float
    shutdown_grace: float
    token: str = field(repr=False)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Settings:
        """Raises SettingsError."""

        def needed(name: str) -> str:
            if not environment.get(name):
                raise SettingsError(f"{name} is not set: an executor is started by a Mesos agent")
            return environment[name]

        endpoint = needed("MESOS_AGENT_ENDPOINT")
        if not endpoint.rpartition(":")[2].isdecimal():
            raise SettingsError(f"MESOS_AGENT_ENDPOINT: not host:port: {endpoint!r}")
        return cls(
            endpoint=endpoint,
            domain_socket=environment.get("MESOS_DOMAIN_SOCKET", ""),
            framework=needed("MESOS_FRAMEWORK_ID"),
            executor=needed("MESOS_EXECUTOR_ID"),
            sandbox=Path(environment.get("MESOS_SANDBOX") or environment.get("MESOS_DIRECTORY") or "."),
            checkpoint=environment.get("MESOS_CHECKPOINT") == "1",
            recovery_timeout=duration(environment.get("MESOS_RECOVERY_TIMEOUT") or "15mins"),
            backoff_max=duration(environment.get("MESOS_SUBSCRIPTION_BACKOFF_MAX") or "2secs"),
            shutdown_grace=duration(environment.get("MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD") or "5secs"),
            token=environment.get("MESOS_EXECUTOR_AUTHENTICATION_TOKEN", ""),
        )
