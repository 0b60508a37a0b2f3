"""Ports of a host that are taken or not. Pure functions of values."""

from __future__ import annotations

from typing import NamedTuple

ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})
"""Addresses that mean every address of the host."""


class HostPort(NamedTuple):
    """One port of a host. `protocol` empty: every protocol; `address` empty: every address."""

    port: int
    protocol: str = ""
    address: str = ""

    def __str__(self) -> str:
        return f"{self.protocol}/{self.port}" if self.protocol else str(self.port)

    def conflicts(self, other: HostPort) -> bool:
        """Returns True if both ports cannot be held at once on one host."""
        return (
            self.port == other.port
            and (not self.protocol or not other.protocol or self.protocol == other.protocol)
            and (self.address in ANY_ADDRESS or other.address in ANY_ADDRESS or self.address == other.address)
        )
