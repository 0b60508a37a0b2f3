"""The layout of the records in ZooKeeper.

    <root>/epoch                       the newest epoch; written once per term, checked by every commit of the term
    <root>/epoch/<epoch>               how many multis that term has applied; each of them counts it up
    <root>/leader                      url and epoch of the leader; ephemeral, so it goes with its session
    <root>/log/<slot>                  which records a commit has changed; a ring (store.zookeeper.commit_log)
    <root>/election/<candidate>        one ephemeral sequential node per candidate; the lowest leads
    <root>/<kind>/<bucket>/<key>       one record

Records are spread over 256 buckets by the CRC-32 of their key, so that the answer to one listing stays far below the 1
MB that ZooKeeper's clients and servers take in one packet. Buckets are made once, when the store is opened.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote
from zlib import crc32

import msgspec

BUCKETS = 256
TERMS_KEPT = 16
"""Counters of so many terms are kept, so that a deposed leader can read the outcome of its last commits."""


class Address(NamedTuple):
    """The address of a record: kind and key, as the rest of the program knows them."""

    kind: str
    key: str


class EpochNode(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of the epoch node and of the leader node: the epoch and the url of the leader it was given to."""

    epoch: int = 0
    leader: str = ""


class Tree:
    """The paths below one root."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.epoch = f"{root}/epoch"
        self.leader = f"{root}/leader"
        self.election = f"{root}/election"
        self.log = f"{root}/log"
        self.reserved = frozenset({"epoch", "leader", "election", "log"})

    def counter(self, epoch: int | str) -> str:
        """Path of the node whose content is the number of commits of an epoch."""
        return f"{self.epoch}/{epoch}"

    def slot(self, name: str) -> str:
        """Path of a slot of the log of commits."""
        return f"{self.log}/{name}"

    def kind(self, kind: str) -> str:
        """Path of the folder of a kind of records."""
        return f"{self.root}/{kind}"

    def bucket(self, kind: str, bucket: str) -> str:
        """Path of one bucket of a kind."""
        return f"{self.root}/{kind}/{bucket}"

    def record(self, address: Address) -> str:
        """Path of the node of a record."""
        return f"{self.root}/{address.kind}/{place(address.key)}"


@lru_cache(maxsize=32_768)
def place(key: str) -> str:
    """Bucket and node of a key. Cached, since a record is written several times in short order when it is new."""
    return f"{crc32(key.encode()) % BUCKETS:02x}/{escape(key)}"


def bucket_names() -> list[str]:
    """Names of all buckets: two hexadecimal digits."""
    return [f"{bucket:02x}" for bucket in range(BUCKETS)]


def escape(key: str) -> str:
    """A node name for a key: percent-encoding, also of the names that ZooKeeper forbids."""
    name = quote(key, safe="")
    if not name.strip("."):
        return name.replace(".", "%2E") or "%"
    return name


def unescape(name: str) -> str:
    """The key of a record from the name of its node; the inverse of `escape`."""
    return "" if name == "%" else unquote(name)
