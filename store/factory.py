"""Opens the store that a URL names.

zk://host:port[,host:port...]/path    ZooKeeper; all records below /path sqlite:///file                        SQLite; a
file relative to the working directory sqlite:////folder/file                SQLite; an absolute path (four slashes)
memory:                               nothing survives the process
"""

from __future__ import annotations

import re

from store.base import SESSION_TIMEOUT, Store
from store.encoding.seal import UNSEALED, Sealer
from store.memory import MemoryStore
from store.sqlite.store import SqliteStore

_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")
_PATH = re.compile(r"(?:/[^/\s]+)+")
_FORMS = "zk://host:port[,host:port]/path, sqlite:///file or memory:"


def open_store(
    url: str, session_timeout: float = SESSION_TIMEOUT, *, sealer: Sealer = UNSEALED, user: str = "", password: str = ""
) -> Store:
    """Returns the store that `url` names; the caller connects it with `open`. Raises ValueError with a one-line
    explanation. `session_timeout` (seconds): how long ZooKeeper waits for a silent leader before another one may take
    over; the other stores notice at once. `sealer` encrypts records that may be confidential. With `user`, only that
    user may use ZooKeeper's nodes; the other stores have no users."""
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
    from store.zookeeper.session import Login
    from store.zookeeper.store import ZooKeeperStore

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
