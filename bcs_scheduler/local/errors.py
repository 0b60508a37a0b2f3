"""Exceptions of the embedded cluster."""

from __future__ import annotations


class LocalClusterError(Exception):
    """Base of everything the embedded cluster raises."""


class SettingsError(LocalClusterError):
    """A setting makes no sense; the message names it."""


class InvalidCall(LocalClusterError):
    """A call a real master or agent answers with an error status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class InvalidResources(LocalClusterError):
    """A Resource message that Mesos does not accept."""


class ControlError(LocalClusterError):
    """A request to the control endpoint that cannot be followed."""
