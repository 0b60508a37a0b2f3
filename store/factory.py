"""From a URL to a store.

zk://host:port[,host:port...]/path    ZooKeeper; all records below /path
sqlite:///file                        SQLite; a file relative to the working directory
sqlite:////folder/file                SQLite; an absolute path (four slashes)
memory:                               nothing survives the process
"""

from __future__ import annotations

import re

from store.base import Store
from store.memory import MemoryStore
from store.seal import UNSEALED, Sealer
from store.sqlite import SqliteStore

_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")
_PATH = re.compile(r"(?:/[^/\s]+)+")
_FORMS = "zk://host:port[,host:port]/path, sqlite:///file or memory:"


def open_store(
    url: str, session_timeout: float = 10.0, *, sealer: Sealer = UNSEALED, user: str = "", password: str = ""
) -> Store:
    """The store that `url` names, not connected yet (call its `open`). Raises ValueError with one line that says
    what is wrong. `session_timeout` (seconds): how long ZooKeeper waits for a silent leader before another one may
    take over; the other stores know at once. `sealer` encrypts what may be confidential. With `user`, ZooKeeper's nodes
    are for that user alone; the other stores have no users."""
    if url == "memory:":
        return MemoryStore(sealer=sealer)
    if url.startswith("sqlite:///"):
        path = url.removeprefix("sqlite:///")
        if not path or path.endswith("/"):
            raise ValueError(f"store URL {url!r} names no file")
        return SqliteStore(path, sealer=sealer)
    if url.startswith("zk://"):
        return _zookeeper(url, session_timeout, sealer, user, password)
    raise ValueError(f"store URL {url!r} is not understood: expected {_FORMS}")


def _zookeeper(url: str, session_timeout: float, sealer: Sealer, user: str, password: str) -> Store:
    from store.zookeeper import ZooKeeperStore
    from store.zookeeper_session import Login

    hosts, slash, path = url.removeprefix("zk://").partition("/")
    for host in hosts.split(","):
        match = _HOST.fullmatch(host)
        if match is None or not 0 < int(match["port"]) < 65536:
            raise ValueError(f"store URL {url!r}: {host!r} is not host:port")
    root = (slash + path).rstrip("/")
    if not _PATH.fullmatch(root) or {".", ".."} & set(root.split("/")):
        raise ValueError(f"store URL {url!r} needs a path such as /bcs after the hosts")
    login = Login(user, password) if user else None
    return ZooKeeperStore(hosts, root, session_timeout, sealer=sealer, login=login)
