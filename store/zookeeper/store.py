"""A store in ZooKeeper: for several schedulers, one leading, the others standing by.

The parts, all in store.zookeeper: tree (layout), wire (requests), session (the connection), reads.reader and reads.bulk
(listing and loading), commits.pipeline (commits), commits.log and reads.follower (changes), election (leadership).

While the connection is suspended commits wait; they are decided when it is back. When the session is lost, the
leadership ends: `deposed` is called, and commits that had not been applied by then fail with StaleEpoch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import msgspec
from kazoo.exceptions import InvalidACLError, KazooException, NoAuthError
from kazoo.protocol.states import KazooState

from store.base import SESSION_TIMEOUT, Change, Leader, Loaded, StoreError, StoreUnavailable, Term
from store.encoding.codec import decode_all
from store.encoding.seal import UNSEALED, Sealer
from store.encoding.sizes import SMALLEST_LIMIT, Sizer
from store.zookeeper.access import open_nodes, take_over
from store.zookeeper.commit_pipeline import CommitPipeline
from store.zookeeper.election import Election
from store.zookeeper.follower import ZooKeeperFollower
from store.zookeeper.reader import erase_records, list_records, make_tree, read_records
from store.zookeeper.session import TRANSIENT, Login, Session
from store.zookeeper.tree import EpochNode, Tree

_LOG = logging.getLogger(__name__)


class _Opened:
    """The objects that exist between open and close."""

    def __init__(self, store: ZooKeeperStore) -> None:
        self.tree = store.tree
        self.session = Session(store.hosts, store.session_timeout, self._state_changed, store.login)
        self.pipeline = CommitPipeline(
            self.session, store.tree, store.batch_bytes, self._overtaken, sealer=store.sealer
        )
        self.election = Election(self.session, store.tree, self.pipeline)
        self.leader: EpochNode | None = None

    def leader_changed(self, data: bytes | None, _stat: object) -> None:
        """Called by kazoo's watch. Also ends the term of a leader that has nothing to commit and was overtaken."""
        try:
            self.leader = msgspec.json.decode(data, type=EpochNode) if data else None
        except msgspec.MsgspecError as error:  # an error raised here would keep the store from being opened
            _LOG.error("the node %s cannot be read: %s", self.tree.leader, error)
            self.leader = None
        ours = self.election.leading
        if self.leader is not None and ours is not None and self.leader.epoch > ours.epoch:
            self._overtaken(ours.epoch, f"epoch {self.leader.epoch} is led by {self.leader.leader}")

    def _state_changed(self, state: str) -> None:
        if state == KazooState.LOST:
            self.pipeline.session_lost()
            self.election.session_lost()
        elif state == KazooState.CONNECTED:
            self.election.connected()

    def _overtaken(self, epoch: int, reason: str) -> None:
        self.election.overtaken(epoch, reason)


class ZooKeeperStore:
    """Records below `root` (which is created) of the ensemble `hosts` (``host:port,host:port``). Implements
    store.base.Store."""

    def __init__(
        self,
        hosts: str,
        root: str,
        session_timeout: float = SESSION_TIMEOUT,
        connect_timeout: float = 10.0,
        batch_bytes: int = SMALLEST_LIMIT,
        sealer: Sealer = UNSEALED,
        login: Login | None = None,
    ) -> None:
        """`session_timeout`: seconds after which ZooKeeper gives up a silent client; the servers have bounds for it,
        by default 4 to 40 s. It bounds how long a failover takes. `connect_timeout`: patience of `open`, seconds.
        `batch_bytes` stays below the servers' jute.maxbuffer (1 MB) with room for paths and headers. `login`: all nodes
        that are created are for this user alone."""
        self.hosts = hosts
        self.tree = Tree(root)
        self.session_timeout = session_timeout
        self.connect_timeout = connect_timeout
        self.batch_bytes = batch_bytes
        self.sizer = Sizer(batch_bytes, sealer)
        self.sealer = sealer
        self.login = login
        self._lock = threading.Lock()
        self._opened: _Opened | None = None

    def open(self) -> None:
        """Like `Store.open`. Creates the nodes of the tree if they do not exist. Raises StoreUnavailable, also if the
        tree belongs to another user."""
        with self._lock:
            if self._opened is not None:
                return
            opened = _Opened(self)
            opened.session.start(self.connect_timeout)
            try:
                make_tree(opened.session, self.tree)
                opened.session.client.DataWatch(self.tree.leader, opened.leader_changed)
                if self.login is not None and (nodes := open_nodes(opened.session, self.tree)):
                    _LOG.warning("%s in ZooKeeper is open to everybody: bcs-scheduler protect-store", nodes[0])
            except (NoAuthError, InvalidACLError) as error:
                opened.session.close()
                raise StoreUnavailable(f"{self.tree.root} in ZooKeeper belongs to another user: {error!r}") from error
            except (*TRANSIENT, KazooException) as error:
                opened.session.close()
                raise StoreUnavailable(
                    f"cannot open {self.tree.root} in ZooKeeper at {self.hosts}: {error!r}"
                ) from error
            opened.pipeline.start()
            self._opened = opened

    def close(self) -> None:
        """Like `Store.close`. Waits until the commit pipeline has ended."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.election.resign()
            opened.pipeline.stop()
            opened.session.close()
            opened.pipeline.join()

    def campaign(self, url: str, elected: Callable[[Term], None], deposed: Callable[[str], None]) -> None:
        """Like `Store.campaign`; by sequential ephemeral nodes."""
        self._require_open().election.campaign(url, elected, deposed)

    def resign(self) -> None:
        """Like `Store.resign`."""
        if self._opened is not None:
            self._opened.election.resign()

    def note(self, text: str) -> None:
        """Like `Store.note`; the note is the content of the node of the candidacy."""
        election = self._require_open().election
        try:
            election.note(text)
        except (*TRANSIENT, KazooException) as error:
            raise StoreUnavailable(f"cannot write a note: {error!r}") from error

    def notes(self) -> dict[str, str]:
        """Like `Store.notes`."""
        election = self._require_open().election
        try:
            return election.notes()
        except (*TRANSIENT, KazooException) as error:
            raise StoreUnavailable(f"cannot read the notes: {error!r}") from error

    def leader(self) -> Leader | None:
        """Like `Store.leader`; kept up to date by a watch. While ZooKeeper cannot be reached, the last known leader."""
        opened = self._opened
        if opened is None:
            return None
        node = opened.election.leading or opened.leader
        return None if node is None else Leader(node.leader, node.epoch)

    def load(self) -> Loaded:
        """Like `Store.load`. While another process leads and writes, the records are not of one moment."""
        opened = self._require_open()
        epoch = opened.pipeline.open_epoch
        session = opened.session
        try:
            session.wait(session.client.sync_async(self.tree.root))
            addresses = list_records(session, self.tree)
            stored = read_records(session, self.tree, addresses)
        except (*TRANSIENT, KazooException, ValueError) as error:
            raise StoreUnavailable(f"cannot read {self.tree.root} from ZooKeeper at {self.hosts}: {error!r}") from error
        if epoch:
            opened.pipeline.offer_keys(epoch, set(addresses))
        return decode_all(stored, self.sealer)

    def follow(self) -> ZooKeeperFollower:
        """Like `Store.follow`; over the session of the store."""
        opened = self._require_open()
        return ZooKeeperFollower(opened.session, self.tree, self.sealer, opened.pipeline.offer_keys)

    def commit(self, changes: Sequence[Change], epoch: int) -> Future[None]:
        """Like `Store.commit`; through the commit pipeline."""
        opened = self._opened
        if opened is None:
            future: Future[None] = Future()
            future.set_exception(StoreUnavailable("the store is not open"))
            return future
        return opened.pipeline.submit(changes, epoch)

    def healthy(self) -> bool:
        """True if the session is connected now."""
        opened = self._opened
        return opened is not None and opened.session.connected.is_set()

    def erase(self) -> None:
        """Removes all records, the log and the epoch. Raises StoreUnavailable; part of the records may be gone then."""
        session = self._require_open().session
        try:
            erase_records(session, self.tree)
        except (*TRANSIENT, KazooException) as error:
            raise StoreUnavailable(f"cannot erase {self.tree.root}: {error!r}") from error

    def take_over(self) -> int:
        """Takes the access to all nodes away from everybody but `login`. Returns the number of nodes. No scheduler may
        run meanwhile. Raises StoreError if no user is set, StoreUnavailable if ZooKeeper refuses or cannot be
        reached."""
        if self.login is None:
            raise StoreError("no ZooKeeper user is set that could own the nodes")
        session = self._require_open().session
        try:
            return take_over(session, self.tree)
        except (*TRANSIENT, KazooException) as error:
            raise StoreUnavailable(f"cannot take {self.tree.root} over: {error!r}") from error

    def _require_open(self) -> _Opened:
        opened = self._opened
        if opened is None:
            raise StoreUnavailable("the store is not open")
        return opened
