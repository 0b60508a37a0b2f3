"""Writes services and endpoints to ZooKeeper for components that read them there; one per term of leadership.

`changed` is called when a change has become durable. The call only notes the key, so no caller waits for that
ZooKeeper, and the number of notes is bounded by the number of services. A thread writes the differences. The thread
begins with a full comparison, which also removes our nodes without a record; nodes of other programs stay as they are
(docs/decisions/0106-nodes-of-other-programs.md). The comparison is repeated every RESYNC
seconds, after every failure of the connection, and when a node was not as it should have been. A node that cannot be
written is skipped and tried again later; the other nodes are written meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec
import structlog
from kazoo.exceptions import (
    BadArgumentsError,
    BadVersionError,
    InvalidACLError,
    KazooException,
    MarshallingError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState

from bcs_scheduler.publishing import documents
from bcs_scheduler.publishing.retry_queue import RetryQueue
from bcs_scheduler.publishing.status import Status
from bcs_scheduler.publishing.target import Target
from bcs_scheduler.publishing.tree import (
    KINDS,
    Claim,
    Deposed,
    FenceGone,
    Foreign,
    Node,
    TooLarge,
    Tree,
    Write,
    batches,
    parent_of,
)
from store import threads
from store.base import StoreUnavailable
from store.records import Endpoint, Record, Service
from store.zookeeper.session import Login, Session

log = structlog.get_logger(__name__)

RESYNC, DRIFT_RESYNC = 300.0, 1.0
"""Seconds between two full comparisons: another program may have removed or changed published nodes. The second number
applies when such a change has just been found."""
SESSION_TIMEOUT, CONNECT_TIMEOUT = 10.0, 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
"""Seconds between attempts after a failure: doubled each time up to the longest."""
DRIFT = (BadVersionError, NoNodeError, NodeExistsError)
ABOUT_NODES = (
    *DRIFT,
    BadArgumentsError,
    Foreign,
    InvalidACLError,
    MarshallingError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NotEmptyError,
    TooLarge,
)
"""Errors that say something of one node, not of the connection."""

Counted = Callable[[str, str, int], None]
"""(kind, outcome, number of nodes): written, deleted, skipped because it failed, or (no kind) failed sessions."""


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
        self.target, self._claimed, self._counted = target, Claim(epoch, url), counted
        self._durable: dict[tuple[str, str], Record] = {(r.kind, r.key): r for r in records if r.kind in KINDS}
        self._dirty: set[tuple[str, str]] = set()
        self._condition = threading.Condition()
        """Guards the two above, and `_stopping`."""
        self._stopping = False
        self._published: dict[str, Node] = {}
        """Each of our nodes as it was written or read last, by path; the thread's own."""
        self._retry_queue = RetryQueue()
        self._drifted = False
        """Something was found that is not as it was written."""
        self._online = self._synchronised = False
        self._problem, self._since = "not connected yet", time.monotonic()
        self._pause = FIRST_PAUSE
        self.thread = threads.lasting("publisher", self._run, self._over)

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
        online = self._online and not self._problem
        return Status(online, len(self._dirty), self._problem, self._since, self._retry_queue.skipped())

    # --- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._session()
            except Deposed as deposed:
                self._fail(str(deposed))
                return
            except NoAuthError:
                self._rest(f"ZooKeeper refuses access to {self.target.root}: see services.user in the settings")
            except (KazooException, KazooTimeoutError, FenceGone, StoreUnavailable, msgspec.MsgspecError) as error:
                self._rest(str(error) or type(error).__name__)
            except Exception as error:
                log.exception("publishing failed")
                self._rest(f"{type(error).__name__}: {error}")

    def _over(self, seconds: float) -> bool:
        with self._condition:
            return self._condition.wait_for(lambda: self._stopping, seconds)

    def _session(self) -> None:
        """Publishes until it is stopped or something fails."""
        login = Login(self.target.user, self.target.password) if self.target.user else None
        session = Session(self.target.hosts, SESSION_TIMEOUT, self._state_changed, login)
        try:
            session.start(CONNECT_TIMEOUT)
            tree = Tree(session, self.target.root, protected=login is not None)
            tree.claim(self._claimed)
            while not self._stopping:
                self._drifted = False
                self._synchronise(tree)
                if not self._synchronised:
                    tree.protect(list(self._published))
                self._well()
                self._follow(tree, time.monotonic() + (DRIFT_RESYNC if self._drifted else RESYNC))
        finally:
            self._online = self._synchronised = False
            session.close()

    def _state_changed(self, state: str) -> None:
        """Called by kazoo. While there is nothing to write, only this tells that the connection has gone."""
        self._online = state == KazooState.CONNECTED
        if not self._online and not self._problem:
            self._problem, self._since = f"no connection to ZooKeeper at {self.target.hosts}", time.monotonic()
        elif self._online and self._synchronised:
            self._problem = ""

    def _follow(self, tree: Tree, until: float) -> None:
        drifted = self._drifted
        while (keys := self._take(until)) is not None:
            self._write(tree, self._differences(keys))
            if self._drifted and not drifted:
                return

    def _take(self, until: float) -> list[tuple[str, str]] | None:
        """Keys that have changed, or are tried again, as soon as there are any; None when it is time to compare
        everything, or to stop."""
        wake = min(until, self._retry_queue.next())
        with self._condition:
            self._condition.wait_for(lambda: self._dirty or self._stopping, max(0.0, wake - time.monotonic()))
            now = time.monotonic()
            if self._stopping or (not self._dirty and now >= until):
                return None
            keys = self._dirty | {self._key(path) for path in self._retry_queue.due(now)}
            self._dirty.clear()
        return sorted(keys)

    def _fail(self, words: str) -> None:
        if not self._problem:
            self._since = time.monotonic()
        if words != self._problem:
            log.warning("services are not published", zookeeper=self.target.hosts, reason=words)
        self._problem = words
        self._counted("", "failed", 1)

    def _rest(self, words: str) -> None:
        if self._stopping:
            return
        self._fail(words)
        with self._condition:
            self._condition.wait_for(lambda: self._stopping, self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _well(self) -> None:
        if self._problem:
            log.info("services are published", zookeeper=self.target.hosts, root=self.target.root)
        self._problem, self._synchronised, self._pause = "", True, FIRST_PAUSE

    # --- ZooKeeper --------------------------------------------------------------------------------------------

    def _synchronise(self, tree: Tree) -> None:
        """Compares everything that is there with everything that should be, and writes the differences."""
        with self._condition:
            self._dirty.clear()
            keys = set(self._durable)
        self._published, foreign = tree.read([_node(self.target.root, key) for key in keys])
        for write in self._differences(sorted(keys & {self._key(path) for path in foreign})):
            self._skip(write, str(Foreign()))
        keys |= {self._key(path) for path in self._published}
        self._write(tree, self._differences(sorted(keys)))

    def _differences(self, keys: Iterable[tuple[str, str]]) -> list[Write]:
        """The writes that are needed for these keys, without those whose retry time has not come."""
        now, found = time.monotonic(), []
        for key in keys:
            path = _node(self.target.root, key)
            with self._condition:
                record = self._durable.get(key)
            wanted, known = _encoded(record), self._published.get(path)
            write = Write(path, wanted, None if known is None else known.version)
            if wanted == (None if known is None else known.data):
                self._overcome(write)
            elif not self._retry_queue.waits(write, now):
                found.append(write)
        return found

    def _write(self, tree: Tree, writes: Sequence[Write]) -> None:
        """In transactions. A node that cannot be written is skipped. Raises KazooException or FenceGone if
        the failure concerns no single node; then the nodes must be read again."""
        suspect = [write for write in writes if self._retry_queue.is_suspect(write.path)]
        others = [write for write in writes if not self._retry_queue.is_suspect(write.path)]
        for batch in batches(others):
            try:
                self._attempt(partial(tree.write, batch), batch)
            except ABOUT_NODES as error:
                self._drifted |= isinstance(error, DRIFT)
                suspect = batch + suspect
        for write in suspect:
            try:
                self._attempt(partial(tree.force, write), [write])
            except ABOUT_NODES as error:
                self._skip(write, str(error) or type(error).__name__)
        self._prune(tree, writes)

    def _attempt(self, call: Callable[[], Sequence[Write]], batch: Sequence[Write]) -> None:
        """Notes the written nodes, or that the connection has been lost during their write."""
        try:
            made = call()
        except (KazooException, KazooTimeoutError) as error:
            if not isinstance(error, ABOUT_NODES) and self._retry_queue.lost(batch):
                self._skip(batch[0], f"the connection ends during the write: {type(error).__name__}")
            raise
        for write in made:
            self._note(write)

    def _skip(self, write: Write, reason: str) -> None:
        if self._retry_queue.failed(write, reason, time.monotonic()):
            log.warning("node not published", node=write.path, reason=reason)
        self._counted(self._key(write.path)[0], "skipped", 1)

    def _overcome(self, write: Write) -> None:
        if self._retry_queue.succeeded(write.path) and write.data is not None:
            log.info("node published again", node=write.path)

    def _prune(self, tree: Tree, writes: Sequence[Write]) -> None:
        """Removes the nodes of namespaces that have lost their last one."""
        left = {parent_of(write.path) for write in writes if write.data is None}
        if left:
            for namespace in sorted(left - {parent_of(path) for path in self._published}):
                tree.prune(namespace)

    def _note(self, write: Write) -> None:
        kind = self._key(write.path)[0]
        self._overcome(write)
        if write.data is None:
            self._published.pop(write.path, None)
            self._counted(kind, "deleted", 1)
        else:
            self._published[write.path] = Node(write.data, 0 if write.version is None else write.version + 1)
            self._counted(kind, "written", 1)

    def _key(self, path: str) -> tuple[str, str]:
        """Of the record that a node shows."""
        kind, _, key = path.removeprefix(f"{self.target.root}/").partition("/")
        return kind, key


def _node(root: str, key: tuple[str, str]) -> str:
    return f"{root}/{key[0]}/{key[1]}"


def _encoded(record: Record | None) -> bytes | None:
    if isinstance(record, Service):
        return documents.service(record)
    return documents.endpoint(record) if isinstance(record, Endpoint) else None
