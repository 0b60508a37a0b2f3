"""A log in ZooKeeper of the records that the last commits have changed, for followers.

    <root>/log/<slot>        one commit: epoch, number, and the addresses of the records it has changed

Each multi of the commit pipeline writes one slot, so the log shows exactly the applied commits. The slots are a ring: a
commit takes the slot of an earlier one. Slots are named by the parity of the epoch and by the number of the commit
within its term, so the first commits of a term do not overwrite the last ones of the term before. The contents of a
slot name their commit; a follower that finds another commit there has not read for too long.

The log holds no records: they are read where they lie. Slots are compressed, since a server keeps all of them in its
heap: about 1 kB for 50 taskgroups.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable

import msgspec
from kazoo.exceptions import NoNodeError

from store.zookeeper.session import Session
from store.zookeeper.tree import Address, Tree
from store.zookeeper.wire import create, set_data

SLOTS = 4096
"""Commits of one term that are remembered: at 100 a second, 40 s. A follower that reads all records must be done
with that sooner."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a slot. `changed`: keys by kind."""

    epoch: int
    number: int
    changed: dict[str, list[str]] = {}


_DECODER = msgspec.json.Decoder(Entry)


def slot_name(epoch: int, number: int) -> str:
    """Name of the node that holds an entry. Slots are used again in turn; two epochs that follow each other use
    different ones."""
    return f"{epoch % 2}-{number % SLOTS:04d}"


def write_entry(epoch: int, number: int, addresses: Iterable[Address]) -> bytes:
    """The compressed log entry: epoch, number, and which records a commit has changed."""
    changed: dict[str, list[str]] = {}
    for kind, key in addresses:
        changed.setdefault(kind, []).append(key)
    return zlib.compress(msgspec.json.encode(Entry(epoch=epoch, number=number, changed=changed)), 1)


def read_entry(data: bytes | None, epoch: int, number: int) -> list[Address] | None:
    """Returns the addresses of the records that the commit has changed. None if the slot does not exist (`data` None),
    holds another commit, or cannot be read."""
    if data is None:
        return None
    try:
        entry = _DECODER.decode(zlib.decompress(data))
    except (zlib.error, msgspec.MsgspecError):
        return None
    if (entry.epoch, entry.number) != (epoch, number):
        return None
    return [Address(sys.intern(kind), key) for kind, keys in entry.changed.items() for key in keys]


class LogWriter:
    """The log as the commit pipeline writes it. Used by the pipeline's thread alone."""

    def __init__(self, session: Session, tree: Tree) -> None:
        self._session, self._tree = session, tree
        self._slots: set[str] | None = None
        """Names of the slots that exist; None: to be listed."""

    def forget(self) -> None:
        """Discards the knowledge of which slots exist; `prepare` then lists them again."""
        self._slots = None

    def prepare(self) -> None:
        """Finds out which slots exist, if that is not known."""
        if self._slots is not None:
            return
        client = self._session.client
        try:
            self._slots = set(self._session.wait(client.get_children_async(self._tree.log)))
        except NoNodeError:
            self._session.wait(client.ensure_path_async(self._tree.log))
            self._slots = set()

    def operation(self, epoch: int, number: int, addresses: Iterable[Address]) -> bytes:
        """The part of a multi that writes the entry of a commit."""
        assert self._slots is not None
        name = slot_name(epoch, number)
        path, entry = self._tree.slot(name), write_entry(epoch, number, addresses)
        return set_data(path, entry) if name in self._slots else create(path, entry, acl=self._session.acl)

    def written(self, epoch: int, number: int) -> None:
        """Records that the commit was applied. Its slot is not used again before: fewer commits are in flight than
        there are slots."""
        if self._slots is not None:
            self._slots.add(slot_name(epoch, number))
