"""Where services are published: the setting services.publish."""

from __future__ import annotations

import re
from typing import NamedTuple

from bcs_scheduler.net.addresses import ZOOKEEPER_PORT, parse_address, without_account

ROOT = "/blueking"
"""Where the original's components look."""
_PATH = re.compile(r"(?:/[^/\s]+)+")


class Target(NamedTuple):
    """`hosts` as kazoo takes them; `root` is the node above /service and /endpoint; `user` and `password` of scheme
    digest, empty = no login."""

    hosts: str
    root: str
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Target({self.hosts}, {self.root}, {self.user})"


def parse_target(url: str) -> Target:
    """Reads ``zk://[user:password@]host:port[,host:port][/root]``. Raises ValueError, without the password."""
    shown = without_account(url)
    if not url.startswith("zk://"):
        raise ValueError(f"{shown!r} is invalid: expected zk://[user:password@]host:port[,host:port][/root]")
    account, at, place = url.removeprefix("zk://").rpartition("@")
    user, colon, password = account.partition(":")
    if at and not (user and colon and password):
        raise ValueError(f"{shown!r}: the account is not user:password")
    hosts, slash, path = place.partition("/")
    addresses = [str(parse_address(host, default_port=ZOOKEEPER_PORT)) for host in hosts.split(",")]
    root = (slash + path).rstrip("/") or ROOT
    if not _PATH.fullmatch(root) or {".", ".."} & set(root.split("/")):
        raise ValueError(f"{shown!r}: {root} is not a path of ZooKeeper")
    return Target(",".join(addresses), root, user, password)
