"""Writes the archives of classes of ZooKeeper's servers in tests: `python -m tests.integration.zookeeperarchive`.

The start of a server with its archive takes three fifths of the processor time. The Java machine ignores an archive of
another version of Java or ZooKeeper. Without an archive, servers start as usual.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from kazoo.client import KazooClient

from tests.integration.zookeeper import ARCHIVE, ARCHIVING, MEMBER_ARCHIVE, SHORT_LIVED, ZooKeeperServer
from tests.integration.zookeeperensemble import ZooKeeperEnsemble

NAME = "classes.jsa"
"""In the folder of each server."""
JAVA = (SHORT_LIVED, ARCHIVING + NAME)


def write() -> None:
    """Runs a standalone server and an ensemble with a client each, and writes the classes that they have loaded.
    Raises RuntimeError if a server does not come up or does not write."""
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as name:
        folder = Path(name)
        server = ZooKeeperServer(folder / "server", java=JAVA)
        try:
            server.start()
            _use(server.hosts)
        finally:
            server.stop()
        ensemble = ZooKeeperEnsemble(folder / "ensemble", java=JAVA)
        try:
            ensemble.start()
            follower = next(member for member in ensemble.members if member.mode() == "follower")
            _use(follower.hosts)
        finally:
            ensemble.stop()
        _keep(follower, MEMBER_ARCHIVE)
        _keep(server, ARCHIVE)


def _keep(server: ZooKeeperServer, archive: Path) -> None:
    made = server.folder / NAME
    if not made.exists():
        raise RuntimeError(f"the Java machine has not written {archive}")
    made.rename(archive)


def _use(hosts: str) -> None:
    """The requests of a scheduler: a server loads their classes when the first of them comes."""
    client = KazooClient(hosts)
    client.start()
    client.create("/a", b"1")
    client.get("/a", watch=lambda _: None)
    client.get_children("/", watch=lambda _: None)
    with client.transaction() as transaction:
        transaction.check("/a", 0)
        transaction.set_data("/a", b"2")
        transaction.create("/b", b"", ephemeral=True, sequence=True)
    client.delete("/a")
    client.stop()
    client.close()


if __name__ == "__main__":
    write()
