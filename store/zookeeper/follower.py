"""Following the records in ZooKeeper: the addresses of changed records are read from the log, then the records
themselves. A read begins with a sync, so it finds everything that was committed before its begin, on every server. The
epoch is read before the counters: once another epoch is found, the counters of the terms before do not change any more
(every commit checks the epoch), so the number read from them is the last commit of those terms.

The first read lists all records. So does one that finds the log overwritten, by a leader that has made too many commits
since or by one of an older version that keeps no log. The position is read before the listing; the next read yields
commits during the listing again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import starmap

import msgspec
from kazoo.exceptions import KazooException

from store.base import Change, Followed, Position, StoreUnavailable
from store.encoding.codec import Stored, followed
from store.encoding.seal import Sealer
from store.zookeeper.commit_log import SLOTS, read_entry, slot_name
from store.zookeeper.reader import list_records, read_nodes
from store.zookeeper.session import TRANSIENT, Session
from store.zookeeper.tree import Address, EpochNode, Tree

_PORTION = 2_000
"""Records of one portion of a read: bounds the memory that a read of all of them takes."""
_TERMS = 8
"""A follower that has missed more terms than this reads everything: it would hardly find its log anyway."""


class ZooKeeperFollower:
    """Implements store.base.Follower."""

    def __init__(
        self, session: Session, tree: Tree, sealer: Sealer, offer_keys: Callable[[int, set[Address]], None]
    ) -> None:
        """`offer_keys` gets an epoch and the addresses of all records when this process leads with it."""
        self._session, self._tree, self._sealer = session, tree, sealer
        self._offer_keys = offer_keys
        self._position: Position | None = None
        self._reported: set[Address] = set()
        """Addresses of the records that were yielded and exist."""

    @property
    def position(self) -> Position | None:
        """Like `Follower.position`."""
        return self._position

    def read(self, again: Collection[tuple[str, str]] = ()) -> Iterator[Followed]:
        """Like `Follower.read`. All records are listed again if the log of commits does not reach back far enough."""
        try:
            end, addresses = self._missed()
            if addresses is None:
                self._position = None
                addresses = list_records(self._session, self._tree)
                yield from self._report(addresses)
                gone = self._reported.difference(addresses)
                self._reported -= gone
                if gone:
                    yield Followed([Change(kind, key, None) for kind, key in gone], [])
            else:
                yield from self._report(list(dict.fromkeys([*addresses, *starmap(Address, again)])))
        except (*TRANSIENT, KazooException, ValueError) as error:
            raise StoreUnavailable(f"cannot follow {self._tree.root} in ZooKeeper: {error!r}") from error
        self._position = end

    def lead(self, epoch: int) -> None:
        """Like `Follower.lead`: the commit pipeline gets the addresses of all records."""
        reported, self._reported = self._reported, set()
        self._offer_keys(epoch, reported)

    def close(self) -> None:
        """Like `Follower.close`; the session belongs to the store and stays."""
        self._reported = set()

    # --- changed records --------------------------------------------------------------------------------------

    def _missed(self) -> tuple[Position, list[Address] | None]:
        """Returns the new position and the addresses of the records that have changed since the present one; None
        instead of the addresses if they are not known."""
        before = self._position
        epoch, counter = self._newest(before.epoch if before is not None else 0)
        if before is None or not before.epoch <= epoch <= before.epoch + _TERMS:
            return Position(epoch, self._counters([epoch])[0] or 0), None
        terms = range(before.epoch, epoch + 1)
        counters = [counter, *self._counters(terms[1:])]
        end = Position(epoch, counters[-1] or 0)
        commits: list[tuple[int, int]] = []
        for term, last in zip(terms, counters, strict=True):
            first = before.number if term == before.epoch else 0
            if last is None:
                if term:  # epoch 0: no scheduler has ever led
                    return end, None
                last = 0
            if not first <= last < first + SLOTS:
                return end, None
            commits += [(term, number) for number in range(first + 1, last + 1)]
        return end, self._changed(commits)

    def _newest(self, known: int) -> tuple[int, int | None]:
        """The newest epoch, 0 if there is none, and the counter of epoch `known` as it is not before that."""
        tree = self._tree
        self._session.wait(self._session.client.sync_async(tree.epoch))
        epoch, counter = read_nodes(self._session, [tree.epoch, tree.counter(known)])
        newest = msgspec.json.decode(epoch, type=EpochNode).epoch if epoch else 0
        return newest, _number(counter)

    def _counters(self, epochs: Sequence[int]) -> list[int | None]:
        return [_number(data) for data in read_nodes(self._session, [self._tree.counter(epoch) for epoch in epochs])]

    def _changed(self, commits: Sequence[tuple[int, int]]) -> list[Address] | None:
        """Returns the addresses that these commits have changed, each once; None if the log does not have all of the
        commits any more."""
        slots = read_nodes(self._session, [self._tree.slot(slot_name(*commit)) for commit in commits])
        changed: dict[Address, None] = {}
        for (epoch, number), data in zip(commits, slots, strict=True):
            addresses = read_entry(data, epoch, number)
            if addresses is None:
                return None
            changed.update(dict.fromkeys(addresses))
        return list(changed)

    # --- the records ------------------------------------------------------------------------------------------

    def _report(self, addresses: Sequence[Address]) -> Iterator[Followed]:
        for begin in range(0, len(addresses), _PORTION):
            portion = addresses[begin : begin + _PORTION]
            data = read_nodes(self._session, [self._tree.record(address) for address in portion])
            items = [
                address if found is None else Stored(address.kind, address.key, found)
                for address, found in zip(portion, data, strict=True)
            ]
            for address, found in zip(portion, data, strict=True):
                if found is None:
                    self._reported.discard(address)
                else:
                    self._reported.add(address)
            yield followed(items, self._sealer)


def _number(data: bytes | None) -> int | None:
    return int(data) if data else None
