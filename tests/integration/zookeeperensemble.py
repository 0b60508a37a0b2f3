"""A real ZooKeeper ensemble of three servers on loopback, each a process with its own data.

ensemble = ZooKeeperEnsemble(folder)
ensemble.start()
... ensemble.hosts, ensemble.leader().kill() ...
ensemble.heal()
ensemble.stop()
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.integration.zookeeper import SHORT_LIVED, ZooKeeperServer, free_ports
from tests.waiting import wait_for

_MEMBERS = 3
_JAVA = ("-Xmx192m", SHORT_LIVED)


class ZooKeeperEnsemble:
    """`members` may be killed, stopped, suspended and started at will; `heal` undoes that."""

    def __init__(self, folder: Path, java: Sequence[str] = _JAVA) -> None:
        """`java`: options of the machines."""
        ports = free_ports(3 * _MEMBERS)
        clients, peers, elections = (ports[i * _MEMBERS : (i + 1) * _MEMBERS] for i in range(3))
        quorum = "".join(f"server.{i + 1}=127.0.0.1:{peers[i]}:{elections[i]}\n" for i in range(_MEMBERS))
        self.members = [
            ZooKeeperServer(folder / str(i + 1), clients[i], number=i + 1, quorum=quorum, java=java)
            for i in range(_MEMBERS)
        ]

    @property
    def hosts(self) -> str:
        """The connect string that names all members."""
        return ",".join(member.hosts for member in self.members)

    def start(self) -> None:
        """Returns when all members serve."""
        for member in self.members:
            member.launch()
        for member in self.members:
            member.wait_until_it_serves()

    def stop(self) -> None:
        for member in self.members:
            member.stop()

    def heal(self) -> None:
        """Brings back what is suspended or gone; returns when all members serve."""
        for member in self.members:
            if member.runs:
                member.resume()
            else:
                member.launch()
        for member in self.members:
            member.wait_until_it_serves()

    def replace_damaged(self) -> int:
        """What an operator does with a member whose records are not those of the ensemble; returns how many there were.
        All members must serve. (ZooKeeper before 3.8.4 and 3.9.2 can lose transactions of a member that is killed soon
        after it has joined.)"""
        damaged = [member for member in self.members if member.is_damaged()]
        for member in damaged:
            member.replace()
        return len(damaged)

    def leader(self) -> ZooKeeperServer:
        """Waits until there is one. Ask only while no member is suspended: it would not answer."""
        return wait_for(self._leader, what="a leader of the ensemble")

    def followers(self) -> list[ZooKeeperServer]:
        return [member for member in self.members if member is not self.leader()]

    def _leader(self) -> ZooKeeperServer | None:
        return next((member for member in self.members if member.mode() == "leader"), None)
