"""Where services are published: the setting services.publish."""

from __future__ import annotations

import re
from typing import NamedTuple

from bcs_scheduler.net.addresses import ZOOKEEPER_PORT, parse_address

ROOT = "/blueking"
"""Where the original's components look."""
_PATH = re.compile(r"(?:/[^/\s]+)+")


class Target(NamedTuple):
    """`hosts` as kazoo takes them; `root` is the node above /service and /endpoint."""

    hosts: str
    root: str


def parse_target(url: str) -> Target:
    """Reads ``zk://host:port[,host:port][/root]``. Raises ValueError."""
    if not url.startswith("zk://"):
        raise ValueError(f"{url!r} is invalid: expected zk://host:port[,host:port][/root]")
    hosts, slash, path = url.removeprefix("zk://").partition("/")
    addresses = [str(parse_address(host, default_port=ZOOKEEPER_PORT)) for host in hosts.split(",")]
    root = (slash + path).rstrip("/") or ROOT
    if not _PATH.fullmatch(root) or {".", ".."} & set(root.split("/")):
        raise ValueError(f"{url!r}: {root} is not a path of ZooKeeper")
    return Target(",".join(addresses), root)
