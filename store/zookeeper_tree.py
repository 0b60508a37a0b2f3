"""How records lie in ZooKeeper.

    <root>/epoch                       the fence (Fence): every commit rewrites it, expecting the version it predicted
    <root>/leader                      url and epoch of the leader; ephemeral, so it goes with its session
    <root>/election/<candidate>        one ephemeral sequential node per candidate; the lowest leads
    <root>/<kind>/<bucket>/<key>       one record

Records are spread over 256 buckets by the CRC-32 of their key, so that the answer to one listing stays far below the
1 MB that ZooKeeper's clients and servers take in one packet. Buckets are made once, when the store is opened.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote
from zlib import crc32

import msgspec

BUCKETS = 256
_TERMS_REMEMBERED = 16


class Address(NamedTuple):
    """Where a record is: kind and key as the rest of the program knows them."""

    kind: str
    key: str


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of the epoch node.

    `seq` counts the multis of this term, so reading the node tells which of them have been applied. `ended` keeps the
    last `seq` of earlier terms by epoch: a deposed leader can still learn what became of its last commits.
    """

    epoch: int = 0
    leader: str = ""
    seq: int = 0
    ended: dict[int, int] = {}

    def successor(self, leader: str) -> Fence:
        """The fence of the next term."""
        ended = self.ended | {self.epoch: self.seq}
        newest = sorted(ended)[-_TERMS_REMEMBERED:]
        return Fence(epoch=self.epoch + 1, leader=leader, ended={epoch: ended[epoch] for epoch in newest})

    def applied(self, epoch: int, seq: int) -> bool:
        """Whether multi `seq` of term `epoch` has been applied."""
        return seq <= (self.seq if epoch == self.epoch else self.ended.get(epoch, -1))


class LeaderNode(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of the leader node: the url of the leader's API and its epoch."""

    url: str
    epoch: int


class Tree:
    """The paths below one root."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.fence = f"{root}/epoch"
        self.leader = f"{root}/leader"
        self.election = f"{root}/election"
        self.reserved = frozenset({"epoch", "leader", "election"})

    def kind(self, kind: str) -> str:
        return f"{self.root}/{kind}"

    def bucket(self, kind: str, bucket: str) -> str:
        return f"{self.root}/{kind}/{bucket}"

    def record(self, address: Address) -> str:
        bucket = crc32(address.key.encode()) % BUCKETS
        return f"{self.root}/{address.kind}/{bucket:02x}/{escape(address.key)}"


def bucket_names() -> list[str]:
    return [f"{bucket:02x}" for bucket in range(BUCKETS)]


def escape(key: str) -> str:
    """A node name for a key: percent-encoding, also of the names that ZooKeeper forbids."""
    name = quote(key, safe="")
    if not name.strip("."):
        return name.replace(".", "%2E") or "%"
    return name


def unescape(name: str) -> str:
    return "" if name == "%" else unquote(name)
