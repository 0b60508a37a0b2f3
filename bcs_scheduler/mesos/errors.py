"""Errors between the scheduler and Mesos. They form one tree, so that the driver can distinguish retryable from final
ones."""

from __future__ import annotations


class MesosError(Exception):
    """Base of every error of this package."""


class SettingsError(MesosError):
    """The Mesos settings cannot be used as they stand, e.g. a malformed URL."""


class DetectionError(MesosError):
    """No leading master is known at the moment; worth another try."""


class ConnectionBroken(MesosError):
    """A connection ended, timed out or spoke nonsense; worth a new connection."""


class CallRefused(MesosError):
    """Mesos answered a call with something other than success."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"HTTP {status}: {reason}")
        self.status = status
        self.reason = reason


class LaunchError(MesosError):
    """A launch cannot be expressed as TaskInfos: the definition or the claim contradicts itself."""
