"""The nodes below the root in ZooKeeper, as one term may change them.

Fencing: the node <root>/publisher holds the epoch of the term that publishes. Every write is one transaction with a
check of that node's version, so from the moment a later term has claimed it, an earlier one cannot write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
)
from kazoo.exceptions import RuntimeInconsistency as Inconsistent

from store.ids import object_key
from store.zookeeper.session import TRANSIENT, Session

KINDS = ("service", "endpoint")
BATCH_NODES, BATCH_BYTES = 100, 500_000
"""Most of one transaction: ZooKeeper takes just under 1 MB."""
NODE_BYTES = 1_000_000
"""The most bytes of one node. Larger data must not be sent: ZooKeeper would close the connection without an answer."""


class Deposed(Exception):
    """A later term publishes."""


class FenceGone(Exception):
    """The fence node has changed: a later term has claimed it, or another program has removed it."""


class TooLarge(Exception):
    """A node that ZooKeeper does not take."""


class Claim(msgspec.Struct, frozen=True):
    epoch: int
    url: str = ""


class Write(NamedTuple):
    """`data` None deletes the node; `exists`: it is there."""

    path: str
    data: bytes | None
    exists: bool


class Tree:
    """One session's. Every method raises KazooException, and of those that write FenceGone."""

    def __init__(self, session: Session, root: str) -> None:
        self._session, self._client, self._root = session, session.client, root
        self._fence_path, self._fence = f"{root}/publisher", 0
        self._parents: set[str] = set()
        """Namespaces that are known to be there."""

    def claim(self, claim: Claim) -> None:
        """Takes the right to publish. Raises Deposed; msgspec.MsgspecError if the node holds something else."""
        path, ours, wait = self._fence_path, msgspec.json.encode(claim), self._session.wait
        wait(self._client.ensure_path_async(self._root))
        while True:
            try:
                data, stat = wait(self._client.get_async(path))
                known = msgspec.json.decode(data, type=Claim) if data else Claim(0)
                if known.epoch > claim.epoch:
                    raise Deposed(
                        f"epoch {known.epoch} ({known.url}) publishes, this is {claim.epoch}; "
                        f"if its store is gone, delete {path}"
                    )
                self._fence = int(wait(self._client.set_async(path, ours, version=stat.version)).version)
                return
            except NoNodeError:
                try:
                    wait(self._client.create_async(path, ours))
                except NodeExistsError:
                    continue
            except BadVersionError:
                continue

    def read(self, wanted: Iterable[str]) -> dict[str, bytes]:
        """Data of every node there is, by path. `wanted`: paths to look at even if their namespace does not list
        them, because we may not ask it. Namespaces without nodes are removed."""
        paths = set(wanted)
        for kind in KINDS:
            base = f"{self._root}/{kind}"
            self._session.wait(self._client.ensure_path_async(base))
            for namespace in self._children(base):
                names = self._children(f"{base}/{namespace}")
                paths |= {f"{base}/{object_key(namespace, name)}" for name in names}
                if not names:
                    self.prune(f"{base}/{namespace}")
        ordered = sorted(paths)
        requests: list[Callable[[], Any]] = [lambda path=path: self._client.get_async(path) for path in ordered]  # type: ignore[misc]
        found = {}
        for path, answer in zip(ordered, self._session.pipelined(requests), strict=True):
            try:
                found[path] = self._session.wait(answer)[0] or b""
            except NoNodeError:
                continue  # not written yet, or its publisher, or an operator, has just removed it
            except NoAuthError:
                found[path] = b""
        return found

    def write(self, batch: Sequence[Write]) -> None:
        """All of it or nothing. Raises TooLarge before anything is sent."""
        for write in batch:
            if len(write.data or b"") > NODE_BYTES:
                raise TooLarge(f"has {len(write.data or b''):,} bytes; the limit of ZooKeeper is {NODE_BYTES:,}")
        for parent in sorted({parent_of(write.path) for write in batch if not write.exists} - self._parents):
            self._session.wait(self._client.ensure_path_async(parent))
            self._parents.add(parent)
        try:
            self._commit(batch)
        except NoNodeError:
            self._parents.clear()
            raise

    def force(self, write: Write) -> None:
        """Writes or deletes one node, also if its existence was not as expected. A deletion includes nodes that other
        programs have put below it."""
        try:
            self.write([write])
        except NoNodeError:
            if write.data is not None:
                self.write([write._replace(exists=False)])
        except NodeExistsError:
            self.write([write._replace(exists=True)])
        except NotEmptyError:
            below = self._below(write.path)
            for batch in batches([Write(path, None, True) for path in (*below, write.path)]):
                self._commit(batch)

    def prune(self, namespace: str) -> None:
        """Removes the node of a namespace if it has no children and ZooKeeper allows the deletion."""
        self._parents.discard(namespace)
        try:
            self._commit([Write(namespace, None, True)])
        except TRANSIENT:
            raise
        except KazooException:
            return

    def _children(self, path: str) -> list[str]:
        try:
            return list(self._session.wait(self._client.get_children_async(path)))
        except (NoNodeError, NoAuthError):
            return []

    def _below(self, path: str) -> list[str]:
        """Everything below a node, leaves first."""
        found: list[str] = []
        for name in self._children(path):
            found += [*self._below(f"{path}/{name}"), f"{path}/{name}"]
        return found

    def _commit(self, batch: Sequence[Write]) -> None:
        transaction = self._client.transaction()
        transaction.check(self._fence_path, self._fence)
        for write in batch:
            if write.data is None:
                transaction.delete(write.path)
            elif write.exists:
                transaction.set_data(write.path, write.data)
            else:
                transaction.create(write.path, write.data)
        fence, *answers = self._session.wait(transaction.commit_async())
        if _is_cause(fence):
            raise FenceGone(f"{self._fence_path}: {type(fence).__name__}")
        for answer, write in zip(answers, batch, strict=True):
            if _is_cause(answer):
                raise type(answer)(f"{write.path}: {type(answer).__name__}")


def _is_cause(answer: Any) -> bool:
    """The error for which a transaction was not applied; the others only say that they were taken back."""
    return isinstance(answer, Exception) and not isinstance(answer, RolledBackError | Inconsistent)


def parent_of(path: str) -> str:
    return path.rpartition("/")[0]


def batches(writes: Sequence[Write]) -> Iterator[list[Write]]:
    batch: list[Write] = []
    size = 0
    for write in writes:
        own = len(write.data or b"") + len(write.path)
        if batch and (len(batch) >= BATCH_NODES or size + own > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(write)
        size += own
    if batch:
        yield batch
