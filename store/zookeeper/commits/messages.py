"""Messages to the commit pipeline of the ZooKeeper store, and the pipeline's work in progress."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from store.encoding.codec import Encoded
from store.zookeeper.tree import Address
from store.zookeeper.wire import MultiFailed


@dataclass(eq=False)
class Commit:
    """Encoded changes that are to be written together in an epoch. `future` gets the outcome."""

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
    """Number of operations before those of the changes."""
    attempt: int = 0
    listings: int = 0
    """Number of times that the operations were made anew because other records were stored than expected."""
    answered: bool = False


@dataclass(frozen=True)
class Begin:
    """A term begins. `epoch`: its number; `version`: of the node that holds the epoch, as written by this process."""

    epoch: int
    version: int


@dataclass(frozen=True)
class Keys:
    """Addresses of all records, which a follower has seen before its process became the leader."""

    epoch: int
    addresses: set[Address]


@dataclass(frozen=True)
class Answer:
    """The outcome of one attempt to write a batch; `error` None: it is written."""

    batch: Batch
    attempt: int
    error: Exception | MultiFailed | None


@dataclass(frozen=True)
class SessionLost:
    """The session with ZooKeeper has ended; changes without an answer may or may not be written."""


def error_of(done: Any) -> Exception | MultiFailed | None:
    """Returns the error of a finished request; None if the multi was applied."""
    try:
        failed: list[MultiFailed] = done.get(block=False)
    except Exception as error:
        return error
    return failed[0] if failed else None
