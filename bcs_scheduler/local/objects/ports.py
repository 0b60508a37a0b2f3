"""Task ports of agents that share this machine with other programs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

from bcs_scheduler.local.errors import SettingsError
from bcs_scheduler.local.settings import PORT_STRIDE, USUAL_PORTS, parse_ranges

LAST_PORT = 65535
LISTENS = "0A"
"""State of a TCP socket that listens, in /proc/net/tcp. UDP sockets have no such state: each of them holds its port."""
TABLES = ("tcp", "tcp6", "udp", "udp6")


class PortClaim:
    """Blocks of PORT_STRIDE ports, one for each agent, that no other embedded cluster of this machine takes."""

    def __init__(self) -> None:
        self._claims: list[socket.socket] = []

    def take(self, agents: int) -> str:
        """The ports of the first agent: the usual ones, or the next whose block, and the blocks after it for the other
        agents, are free. Raises SettingsError if there are none."""
        (first, last), *_ = parse_ranges("ports", USUAL_PORTS)
        used = used_ports()
        while last + (agents - 1) * PORT_STRIDE <= LAST_PORT:
            blocks = [first + number * PORT_STRIDE for number in range(agents)]
            taken = any(first <= port < first + agents * PORT_STRIDE for port in used)
            if not taken and self._claim(blocks):
                return f"{first}-{last}"
            first, last = first + PORT_STRIDE, last + PORT_STRIDE
        raise SettingsError(f"ports: no free ranges for {agents} agents from {USUAL_PORTS} on; give a range")

    def close(self) -> None:
        for claim in self._claims:
            claim.close()
        self._claims.clear()

    def _claim(self, blocks: list[int]) -> bool:
        """A claim is an abstract socket of Unix: it belongs to the network namespace, as ports do, has no file, and
        ends with its process."""
        for block in blocks:
            claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._claims.append(claim)
            try:
                claim.bind(f"\0bcs-scheduler/task-ports/{block}")
            except OSError:
                self.close()
                return False
        return True


def used_ports() -> set[int]:
    """Ports of this machine on which a program listens."""
    return {port for table in TABLES for port in _ports_of(table)}


def _ports_of(table: str) -> Iterator[int]:
    try:
        lines = Path("/proc/net", table).read_text().splitlines()[1:]
    except OSError:
        return
    for line in lines:
        _, local, _, state, *_ = line.split()
        if state == LISTENS or table.startswith("udp"):
            yield int(local.rpartition(":")[2], 16)
