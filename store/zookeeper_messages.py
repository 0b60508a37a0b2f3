"""What the commit pipeline of the ZooKeeper store is told, and what it has under way."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field

from store.codec import Encoded
from store.zookeeper_tree import Address
from store.zookeeper_wire import MultiFailed


@dataclass(eq=False)
class Commit:
    encoded: list[Encoded]
    epoch: int
    future: Future[None]


@dataclass(eq=False)
class Batch:
    """One multi: the last value of each record that its commits change."""

    seq: int
    changes: dict[Address, bytes | None]
    commits: list[Commit]
    operations: list[bytes] = field(default_factory=list)
    guards: int = 0
    """How many operations come before them."""
    attempt: int = 0
    listings: int = 0
    """How often its operations were made anew, because the records were not those that were expected."""
    answered: bool = False


@dataclass(frozen=True)
class Begin:
    epoch: int
    version: int


@dataclass(frozen=True)
class Keys:
    epoch: int
    addresses: set[Address]


@dataclass(frozen=True)
class Answer:
    batch: Batch
    attempt: int
    error: Exception | MultiFailed | None


@dataclass(frozen=True)
class SessionLost:
    pass
