"""The URLs and addresses an operator writes, taken apart and checked.

Every function raises ValueError with a message for people; bcs_scheduler.config adds which setting it was.
"""

from __future__ import annotations

from typing import Literal, NamedTuple
from urllib.parse import urlsplit


class HostPort(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class StoreUrl(NamedTuple):
    """`hosts` for ZooKeeper ("host:port,host:port"); `path` is its root node or the file of SQLite."""

    kind: Literal["zookeeper", "sqlite", "memory"]
    path: str = ""
    hosts: str = ""


class MesosUrl(NamedTuple):
    """Where the masters are: given by name (`http`), or announced in ZooKeeper under `path` (`zk`)."""

    kind: Literal["http", "zk"]
    hosts: tuple[HostPort, ...]
    path: str = ""


def parse_address(text: str, *, default_port: int | None = None, allow_zero: bool = False) -> HostPort:
    """Reads ``host:port``, ``[ipv6]:port`` or, with a default port, ``host``."""
    parts = urlsplit(f"//{text}")
    if not text or parts.path or parts.query or parts.fragment or "@" in text or any(c.isspace() for c in text):
        raise ValueError(f"{text!r} is not host:port")
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"{text!r} has no valid port (0 to 65535)") from None
    if port is None:
        port = default_port
    if not parts.hostname or port is None:
        raise ValueError(f"{text!r} is not host:port")
    if port == 0 and not allow_zero:
        raise ValueError(f"{text!r}: port 0 cannot be reached")
    return HostPort(parts.hostname, port)


def parse_store_url(text: str) -> StoreUrl:
    """Reads ``zk://host:port,host:port/path``, ``sqlite:///absolute/file``, ``sqlite:relative/file`` or ``memory:``."""
    if text in ("memory:", "memory://"):
        return StoreUrl("memory")
    if text.startswith("sqlite:"):
        path = text.removeprefix("sqlite:")
        if path.startswith("//"):
            path = path[2:]
            if path and not path.startswith("/"):
                raise ValueError(f"{text!r}: write sqlite:///absolute/file or sqlite:relative/file")
        if not path.strip("/"):
            raise ValueError(f"{text!r} names no file")
        return StoreUrl("sqlite", path=path)
    if text.startswith("zk://"):
        hosts, path = _zookeeper(text)
        return StoreUrl("zookeeper", path=path, hosts=",".join(map(str, hosts)))
    raise ValueError(f"{text!r} is not a store: expected zk://host:port,.../path, sqlite:///file or memory:")


def parse_mesos_url(text: str) -> MesosUrl:
    """Reads ``http://host:port[,host:port]`` or ``zk://host:port,.../path``."""
    if text.startswith("zk://"):
        hosts, path = _zookeeper(text)
        return MesosUrl("zk", hosts, path)
    if not text.startswith("http://"):
        raise ValueError(
            f"{text!r} is not a Mesos URL: expected http://host:port[,host:port] or zk://host:port,.../path"
        )
    names = text.removeprefix("http://").rstrip("/").split(",")
    return MesosUrl("http", tuple(parse_address(name.removeprefix("http://"), default_port=5050) for name in names))


def parse_http_url(text: str) -> str:
    """Checks ``http(s)://host[:port]``; a bare ``host:port`` means http. Returned without a trailing slash."""
    url = text if "://" in text else f"http://{text}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{text!r} is not an http URL")
    parse_address(parts.netloc, default_port=80)
    return url.rstrip("/")


def _zookeeper(text: str) -> tuple[tuple[HostPort, ...], str]:
    names, slash, path = text.removeprefix("zk://").partition("/")
    if not slash or not path.strip("/"):
        raise ValueError(f"{text!r} has no path: expected zk://host:port,.../path")
    if "//" in path or path.endswith("/"):
        raise ValueError(f"{text!r}: a ZooKeeper path has no empty parts")
    return tuple(parse_address(name, default_port=2181) for name in names.split(",")), f"/{path}"
