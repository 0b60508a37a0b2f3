"""A store in ZooKeeper: for several schedulers, one leading, the others standing by.

The parts: zookeeper_tree (where things lie), zookeeper_wire (requests), zookeeper_session (the connection),
zookeeper_reader and zookeeper_bulk (listing and loading), zookeeper_pipeline (commits), zookeeper_log and
zookeeper_follower (what has changed), zookeeper_election (who leads).

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

from store.base import Change, Leader, Loaded, StoreError, StoreUnavailable, Term
from store.codec import decode_all
from store.seal import UNSEALED, Sealer
from store.sizes import SMALLEST_LIMIT, Sizer
from store.zookeeper_access import open_nodes, take_over
from store.zookeeper_election import Election
from store.zookeeper_follower import ZooKeeperFollower
from store.zookeeper_pipeline import CommitPipeline
from store.zookeeper_reader import erase_records, list_records, make_tree, read_records
from store.zookeeper_session import TRANSIENT, Login, Session
from store.zookeeper_tree import EpochNode, Tree

_LOG = logging.getLogger(__name__)


class _Opened:
    """What exists between open and close."""

    def __init__(self, store: ZooKeeperStore) -> None:
        self.tree = store.tree
        self.session = Session(store.hosts, store.session_timeout, self._state_changed, store.login)
        self.pipeline = CommitPipeline(
            self.session, store.tree, store.batch_bytes, self._overtaken, sealer=store.sealer
        )
        self.election = Election(self.session, store.tree, self.pipeline)
        self.leader: EpochNode | None = None

    def leader_changed(self, data: bytes | None, _stat: object) -> None:
        """Called by kazoo's watch. It also tells a leader that has nothing to commit that it has been overtaken."""
        try:
            self.leader = msgspec.json.decode(data, type=EpochNode) if data else None
        except msgspec.MsgspecError as error:  # raised in here it would keep the store from being opened
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
        session_timeout: float = 10.0,
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
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.election.resign()
            opened.pipeline.stop()
            opened.session.close()
            opened.pipeline.join()

    def campaign(self, url: str, elected: Callable[[Term], None], deposed: Callable[[str], None]) -> None:
        self._require_open().election.campaign(url, elected, deposed)

    def resign(self) -> None:
        if self._opened is not None:
            self._opened.election.resign()

    def note(self, text: str) -> None:
        election = self._require_open().election
        try:
            election.note(text)
        except (*TRANSIENT, KazooException) as error:
            raise StoreUnavailable(f"cannot write a note: {error!r}") from error

    def notes(self) -> dict[str, str]:
        election = self._require_open().election
        try:
            return election.notes()
        except (*TRANSIENT, KazooException) as error:
            raise StoreUnavailable(f"cannot read the notes: {error!r}") from error

    def leader(self) -> Leader | None:
        """Kept up to date by a watch; the last one known while ZooKeeper cannot be reached."""
        opened = self._opened
        if opened is None:
            return None
        node = opened.election.leading or opened.leader
        return None if node is None else Leader(node.leader, node.epoch)

    def load(self) -> Loaded:
        """While somebody else leads and writes, the records found are not of one moment."""
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
        opened = self._require_open()
        return ZooKeeperFollower(opened.session, self.tree, self.sealer, opened.pipeline.offer_keys)

    def commit(self, changes: Sequence[Change], epoch: int) -> Future[None]:
        opened = self._opened
        if opened is None:
            future: Future[None] = Future()
            future.set_exception(StoreUnavailable("the store is not open"))
            return future
        return opened.pipeline.submit(changes, epoch)

    def healthy(self) -> bool:
        opened = self._opened
        return opened is not None and opened.session.connected.is_set()

    def erase(self) -> None:
        session = self._require_open().session
        try:
            erase_records(session, self.tree)
        except (*TRANSIENT, KazooException) as error:
            raise StoreUnavailable(f"cannot erase {self.tree.root}: {error!r}") from error

    def take_over(self) -> int:
        """Closes all nodes to everybody but `login`; returns how many there are. While no scheduler runs."""
        if self.login is None:
            raise StoreError("no user is set that the nodes could be given to")
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
