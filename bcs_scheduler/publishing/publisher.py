"""Writes services and endpoints to ZooKeeper for those who read them there; one per term of leadership.

`changed` is called when something has become durable; it only notes the key, so nothing waits for that ZooKeeper, and
what waits is bounded by the number of services. A thread writes what differs. It begins with a full comparison, which
also removes what is gone, and repeats it every RESYNC seconds and after every failure.

Fencing: the node <root>/publisher holds the epoch of the term that publishes. Every write is one transaction with a
check of that node's version, so from the moment a later term has claimed it, an earlier one cannot write.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import structlog
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError, RolledBackError
from kazoo.exceptions import RuntimeInconsistency as Inconsistent
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState

from bcs_scheduler.publishing import documents
from bcs_scheduler.publishing.target import Target
from store.base import StoreUnavailable
from store.records import Endpoint, Record, Service
from store.zookeeper_session import Session

log = structlog.get_logger(__name__)

KINDS = ("service", "endpoint")
RESYNC = 300.0
"""Seconds between two full comparisons: somebody may have removed or changed what we published."""
SESSION_TIMEOUT, CONNECT_TIMEOUT = 10.0, 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
"""Seconds between attempts after a failure: doubled each time up to the longest."""
BATCH_NODES, BATCH_BYTES = 100, 500_000
"""Most of one transaction: ZooKeeper takes just under 1 MB."""

Counted = Callable[[str, str, int], None]
"""(kind, what was done, how many nodes): written, deleted, or failed attempts."""


class Status(NamedTuple):
    """`trouble` is empty while all is well; `since`: monotonic seconds of its begin."""

    connected: bool
    pending: int
    trouble: str
    since: float


class _Claim(msgspec.Struct, frozen=True):
    epoch: int
    url: str = ""


class _Deposed(Exception):
    """A later term publishes."""


class _Write(NamedTuple):
    """`data` None deletes the node; `exists`: it is there."""

    path: str
    data: bytes | None
    exists: bool


class Publisher:
    """`records` are the services and endpoints that are durable when the term begins."""

    def __init__(
        self,
        target: Target,
        epoch: int,
        url: str,
        records: Iterable[Record],
        counted: Counted = lambda kind, done, nodes: None,
    ) -> None:
        """`url`: of this scheduler, told to those who look at the node `publisher`."""
        self._target, self._claimed, self._counted = target, _Claim(epoch, url), counted
        self._durable: dict[tuple[str, str], Record] = {(r.kind, r.key): r for r in records if r.kind in KINDS}
        self._dirty: set[tuple[str, str]] = set()
        self._condition = threading.Condition()
        """Guards the two above, and `_stopping`."""
        self._stopping = False
        self._published: dict[str, bytes] = {}
        """Data of every node as it was written or read last, by path; the thread's own."""
        self._online = self._synchronised = False
        self._trouble, self._since = "not connected yet", time.monotonic()
        self._pause = FIRST_PAUSE
        self.thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    # --- any thread -------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Returns at once; the thread ends its session by itself."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()

    def changed(self, kind: str, key: str, record: Record | None) -> None:
        """A record is durable as given, or (None) gone. Never waits."""
        if kind not in KINDS:
            return
        with self._condition:
            if record is None:
                self._durable.pop((kind, key), None)
            else:
                self._durable[kind, key] = record
            self._dirty.add((kind, key))
            self._condition.notify_all()

    def status(self) -> Status:
        return Status(self._online and not self._trouble, len(self._dirty), self._trouble, self._since)

    # --- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._session()
            except _Deposed as deposed:
                self._fail(str(deposed))
                return
            except (KazooException, KazooTimeoutError, StoreUnavailable, msgspec.MsgspecError) as error:
                self._rest(str(error) or type(error).__name__)
            except Exception as error:
                log.exception("publishing failed")
                self._rest(f"{type(error).__name__}: {error}")

    def _session(self) -> None:
        """Publishes until it is stopped or something fails."""
        session = Session(self._target.hosts, SESSION_TIMEOUT, self._state_changed)
        try:
            session.start(CONNECT_TIMEOUT)
            fence = self._claim(session)
            while not self._stopping:
                self._synchronise(session, fence)
                self._well()
                self._follow(session, fence, time.monotonic() + RESYNC)
        finally:
            self._online = self._synchronised = False
            session.close()

    def _state_changed(self, state: str) -> None:
        """Called by kazoo. While there is nothing to write, only this tells that the connection has gone."""
        self._online = state == KazooState.CONNECTED
        if not self._online and not self._trouble:
            self._trouble, self._since = f"no connection to ZooKeeper at {self._target.hosts}", time.monotonic()
        elif self._online and self._synchronised:
            self._trouble = ""

    def _follow(self, session: Session, fence: int, until: float) -> None:
        while (keys := self._take(until)) is not None:
            self._write(session, fence, [write for key in keys if (write := self._difference(key)) is not None])

    def _take(self, until: float) -> list[tuple[str, str]] | None:
        """Keys that have changed, as soon as there are any; None when it is time to compare everything, or to stop."""
        with self._condition:
            self._condition.wait_for(lambda: self._dirty or self._stopping, max(0.0, until - time.monotonic()))
            if self._stopping or not self._dirty:
                return None
            keys = sorted(self._dirty)
            self._dirty.clear()
        return keys

    def _fail(self, words: str) -> None:
        if not self._trouble:
            self._since = time.monotonic()
        if words != self._trouble:
            log.warning("services are not published", zookeeper=self._target.hosts, reason=words)
        self._trouble = words
        self._counted("", "failed", 1)

    def _rest(self, words: str) -> None:
        if self._stopping:
            return
        self._fail(words)
        with self._condition:
            self._condition.wait_for(lambda: self._stopping, self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _well(self) -> None:
        if self._trouble:
            log.info("services are published", zookeeper=self._target.hosts, root=self._target.root)
        self._trouble, self._synchronised, self._pause = "", True, FIRST_PAUSE

    # --- ZooKeeper --------------------------------------------------------------------------------------------

    @property
    def _fence_path(self) -> str:
        return f"{self._target.root}/publisher"

    def _claim(self, session: Session) -> int:
        """Takes the right to publish; the version of the node that holds it. Raises _Deposed."""
        client, path = session.client, self._fence_path
        ours = msgspec.json.encode(self._claimed)
        session.wait(client.ensure_path_async(self._target.root))
        while True:
            try:
                data, stat = session.wait(client.get_async(path))
                known = msgspec.json.decode(data, type=_Claim) if data else _Claim(0)
                if known.epoch > self._claimed.epoch:
                    raise _Deposed(
                        f"epoch {known.epoch} ({known.url}) publishes, this is {self._claimed.epoch}; "
                        f"if its store is gone, delete {path}"
                    )
                return int(session.wait(client.set_async(path, ours, version=stat.version)).version)
            except NoNodeError:
                try:
                    session.wait(client.create_async(path, ours))
                except NodeExistsError:
                    continue
            except BadVersionError:
                continue

    def _synchronise(self, session: Session, fence: int) -> None:
        """Compares everything that is there with everything that should be, and writes the differences."""
        with self._condition:
            self._dirty.clear()
            wanted = [_node(self._target.root, key) for key in self._durable]
            keys = list(self._durable)
        self._published = self._read(session)
        writes = [write for key in keys if (write := self._difference(key)) is not None]
        gone = self._published.keys() - set(wanted)
        self._write(session, fence, writes + [_Write(path, None, True) for path in sorted(gone)])

    def _read(self, session: Session) -> dict[str, bytes]:
        client = session.client
        paths = []
        for kind in KINDS:
            base = f"{self._target.root}/{kind}"
            session.wait(client.ensure_path_async(base))
            for namespace in session.wait(client.get_children_async(base)):
                names = session.wait(client.get_children_async(f"{base}/{namespace}"))
                paths += [f"{base}/{namespace}/{name}" for name in names]
        found = {}
        answers = session.pipelined([lambda path=path: client.get_async(path) for path in paths])  # type: ignore[misc]
        for path, answer in zip(paths, answers, strict=True):
            try:
                found[path] = session.wait(answer)[0] or b""
            except NoNodeError:
                continue  # its publisher, or an operator, has just removed it
        return found

    def _difference(self, key: tuple[str, str]) -> _Write | None:
        """What must be written for a record, if anything."""
        path = _node(self._target.root, key)
        with self._condition:
            record = self._durable.get(key)
        wanted = _encoded(record)
        known = self._published.get(path)
        return None if wanted == known else _Write(path, wanted, known is not None)

    def _write(self, session: Session, fence: int, writes: Sequence[_Write]) -> None:
        """In transactions, each with the fence. Raises KazooException; then what is there must be read again."""
        parents = {write.path.rpartition("/")[0] for write in writes if not write.exists}
        for parent in sorted(parents):
            session.wait(session.client.ensure_path_async(parent))
        for batch in _batches(writes):
            transaction = session.client.transaction()
            transaction.check(self._fence_path, fence)
            for write in batch:
                if write.data is None:
                    transaction.delete(write.path)
                elif write.exists:
                    transaction.set_data(write.path, write.data)
                else:
                    transaction.create(write.path, write.data)
            answers = session.wait(transaction.commit_async())
            _raise_first(answers, [self._fence_path, *(write.path for write in batch)])
            for write in batch:
                self._note(write)

    def _note(self, write: _Write) -> None:
        kind = write.path.removeprefix(self._target.root).split("/")[1]
        if write.data is None:
            self._published.pop(write.path, None)
            self._counted(kind, "deleted", 1)
        else:
            self._published[write.path] = write.data
            self._counted(kind, "written", 1)


def _raise_first(results: Sequence[Any], paths: Sequence[str]) -> None:
    """The error for which a transaction was not applied; the others only say that they were taken back."""
    for result, path in zip(results, paths, strict=True):
        if isinstance(result, Exception) and not isinstance(result, RolledBackError | Inconsistent):
            raise type(result)(f"{path}: {type(result).__name__}")


def _batches(writes: Sequence[_Write]) -> Iterator[list[_Write]]:
    batch: list[_Write] = []
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


def _node(root: str, key: tuple[str, str]) -> str:
    return f"{root}/{key[0]}/{key[1]}"


def _encoded(record: Record | None) -> bytes | None:
    if isinstance(record, Service):
        return documents.service(record)
    return documents.endpoint(record) if isinstance(record, Endpoint) else None
