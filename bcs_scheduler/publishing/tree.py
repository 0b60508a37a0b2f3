"""The nodes below the root in ZooKeeper, as one term may change them.

Fencing: the node <root>/publisher holds the epoch of the term that publishes. Every write is one transaction with a
check of that node's version, so from the moment a later term has claimed it, an earlier one cannot write.

Nodes of other programs are neither written nor deleted: every write names the version that has been read or written
last, and a node that has been changed meanwhile is read again before it is written.
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
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Permissions

from bcs_scheduler.publishing.documents import NAMESPACE, is_ours
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


class Foreign(Exception):
    """Another program has written the node."""

    def __init__(self) -> None:
        super().__init__("another program has written this node")


class Claim(msgspec.Struct, frozen=True):
    epoch: int
    url: str = ""


class Node(NamedTuple):
    data: bytes
    version: int


class Write(NamedTuple):
    """`data` None deletes the node; `version`: the one that the node has; None = there is no node."""

    path: str
    data: bytes | None
    version: int | None


class Tree:
    """One session's. Every method raises KazooException, and of those that write FenceGone."""

    def __init__(self, session: Session, root: str, *, protected: bool = False) -> None:
        """`protected`: only the user of the session may change the nodes; everybody may read them."""
        self._session, self._client, self._root = session, session.client, root
        self._fence_path, self._fence = f"{root}/publisher", 0
        self._protected = protected
        self._acl = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE] if protected else OPEN_ACL_UNSAFE
        self._parents: set[str] = set()
        """Namespaces that are known to be there."""

    def claim(self, claim: Claim) -> None:
        """Takes the right to publish. Raises Deposed; msgspec.MsgspecError if the node holds something else."""
        path, ours, wait = self._fence_path, msgspec.json.encode(claim), self._session.wait
        wait(self._client.ensure_path_async(self._root, self._acl))
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
                    wait(self._client.create_async(path, ours, self._acl))
                except NodeExistsError:
                    continue
            except BadVersionError:
                continue

    def read(self, wanted: Iterable[str]) -> tuple[dict[str, Node], set[str]]:
        """Our nodes by path, and the paths of those of other programs. `wanted`: paths to look at even if their
        namespace does not list them, because we may not ask it. Our namespaces without nodes are removed."""
        paths = set(wanted)
        for kind in KINDS:
            base = f"{self._root}/{kind}"
            self._session.wait(self._client.ensure_path_async(base, self._acl))
            for namespace in self._children(base):
                names = self._children(f"{base}/{namespace}")
                paths |= {f"{base}/{object_key(namespace, name)}" for name in names}
                if not names:
                    self.prune(f"{base}/{namespace}")
        ordered = sorted(paths)
        ours: dict[str, Node] = {}
        foreign = set()
        for path, answer in zip(ordered, self._ask(self._client.get_async, ordered), strict=True):
            try:
                data, stat = self._session.wait(answer)
            except NoNodeError:
                continue  # not written yet, or its publisher, or an operator, has just removed it
            except NoAuthError:
                foreign.add(path)
                continue
            if is_ours(data or b""):
                ours[path] = Node(data, stat.version)
            else:
                foreign.add(path)
        return ours, foreign

    def protect(self, nodes: Iterable[str]) -> None:
        """Takes the right to change our nodes from everybody else, if that is wanted and they have it."""
        if not self._protected:
            return
        paths = [self._fence_path, *sorted({parent_of(path) for path in nodes}), *nodes]
        for path, answer in zip(paths, self._ask(self._client.get_acls_async, paths), strict=True):
            try:
                rights, _ = self._session.wait(answer)
                if any(one.id.scheme == "world" and one.perms & ~Permissions.READ for one in rights):
                    self._session.wait(self._client.set_acls_async(path, self._acl))
            except (NoNodeError, NoAuthError):
                continue

    def write(self, batch: Sequence[Write]) -> Sequence[Write]:
        """All of it or nothing. Returns the writes. Raises TooLarge before anything is sent; BadVersionError,
        NodeExistsError or NoNodeError if a node is not as it was."""
        for write in batch:
            if len(write.data or b"") > NODE_BYTES:
                raise TooLarge(f"has {len(write.data or b''):,} bytes; the limit of ZooKeeper is {NODE_BYTES:,}")
        new = (write for write in batch if write.version is None)
        for namespace in sorted({parent_of(write.path) for write in new} - self._parents):
            self._ensure(namespace)
            self._parents.add(namespace)
        try:
            self._commit(batch)
        except NoNodeError:
            self._parents.clear()
            raise
        return batch

    def force(self, write: Write) -> Sequence[Write]:
        """Writes or deletes one node as it is now. Returns the write. Raises Foreign if another program has written the
        node, NotEmptyError if another program has nodes below it."""
        try:
            node = self._look(write.path)
        except NoAuthError:
            raise Foreign from None
        if node is not None and not is_ours(node.data):
            raise Foreign
        made = write._replace(version=None if node is None else node.version)
        if node is None and write.data is None:
            return [made]
        try:
            return self.write([made])
        except NotEmptyError:
            raise NotEmptyError("another program has nodes below this node") from None

    def prune(self, namespace: str) -> None:
        """Removes the node of a namespace if we have made it, it has no children, and ZooKeeper allows the deletion."""
        self._parents.discard(namespace)
        try:
            node = self._look(namespace)
            if node is not None and is_ours(node.data):
                self._commit([Write(namespace, None, node.version)])
        except TRANSIENT:
            raise
        except KazooException:
            return

    def _ensure(self, namespace: str) -> None:
        self._session.wait(self._client.ensure_path_async(parent_of(namespace), self._acl))
        try:
            self._session.wait(self._client.create_async(namespace, NAMESPACE, self._acl))
        except NodeExistsError:
            return

    def _look(self, path: str) -> Node | None:
        """None: there is no such node."""
        try:
            data, stat = self._session.wait(self._client.get_async(path))
        except NoNodeError:
            return None
        return Node(data or b"", stat.version)

    def _ask(self, ask: Callable[[str], Any], paths: Iterable[str]) -> Iterator[Any]:
        """The result objects of a question about each path, in their order."""
        return self._session.pipelined([lambda path=path: ask(path) for path in paths])  # type: ignore[misc]

    def _children(self, path: str) -> list[str]:
        try:
            return list(self._session.wait(self._client.get_children_async(path)))
        except (NoNodeError, NoAuthError):
            return []

    def _commit(self, batch: Sequence[Write]) -> None:
        transaction = self._client.transaction()
        transaction.check(self._fence_path, self._fence)
        for write in batch:
            if write.version is None:
                transaction.create(write.path, write.data, self._acl)
            elif write.data is None:
                transaction.delete(write.path, write.version)
            else:
                transaction.set_data(write.path, write.data, write.version)
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
