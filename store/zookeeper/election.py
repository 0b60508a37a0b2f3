"""Leader election: ZooKeeper's recipe of ephemeral sequential nodes, in which each candidate watches the one before it.

The first of them takes over in one multi that checks that its candidate node still exists, raises the epoch by
compare-and-set, and puts its url into the leader node. The order of the candidates only avoids needless attempts. The
check of the epoch node in every commit excludes two leaders (store.zookeeper.commit_pipeline).
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import msgspec
from kazoo.exceptions import ConnectionLoss, KazooException, NoNodeError

from store import threads
from store.base import StoreError, Term
from store.zookeeper.commit_pipeline import CommitPipeline
from store.zookeeper.session import TRANSIENT, Session
from store.zookeeper.tree import TERMS_KEPT, Address, EpochNode, Tree
from store.zookeeper.wire import BAD_VERSION, NO_NODE, NODE_EXISTS, Multi, check, create, delete, set_data

_LOG = logging.getLogger(__name__)
_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 10.0
_LEAVE_SECONDS = 2.0
_REMOVALS = 10
"""Attempts to remove our nodes that may fail for other reasons than the connection. Then the session ends."""


@dataclass(eq=False)
class _Candidacy:
    url: str
    elected: Callable[[Term], None]
    deposed: Callable[[str], None]
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    wake: threading.Event = field(default_factory=threading.Event)
    withdrawn: bool = False
    problem: str = ""
    """Reason for which a leadership that has begun has ended; empty = it has not ended."""
    epoch: int = 0
    """The epoch it leads with; 0 while it waits."""
    elapsed: float | None = None
    """Like `Term.elapsed` of store.base."""
    node: str = ""
    """Name of its candidate node, once there is one."""
    thread: threading.Thread | None = None


class Election:
    """Candidacies of one store, one after the other, each with a thread in which its callbacks are called."""

    def __init__(self, session: Session, tree: Tree, pipeline: CommitPipeline) -> None:
        self._session = session
        self._tree = tree
        self._pipeline = pipeline
        self._lock = threading.Lock()
        self._candidacy: _Candidacy | None = None
        self._rest = threading.Event()
        """Never set: a pause between two attempts."""

    # --- called by other threads --------------------------------------------------------------------------------

    def campaign(self, url: str, elected: Callable[[Term], None], deposed: Callable[[str], None]) -> None:
        """Like `Store.campaign`, in a thread of its own. Raises StoreError if this store is a candidate already."""
        with self._lock:
            if self._candidacy is not None:
                raise StoreError("this store is a candidate already")
            candidacy = self._candidacy = _Candidacy(url, elected, deposed)
        candidacy.thread = threads.ending("zookeeper-election", partial(self._run, candidacy))
        candidacy.thread.start()

    def resign(self) -> None:
        """Waits a moment until the candidate node is gone."""
        with self._lock:
            candidacy, self._candidacy = self._candidacy, None
            if candidacy is None:
                return
            candidacy.withdrawn = True
            self._pipeline.end(candidacy.epoch)
        candidacy.wake.set()
        if candidacy.thread is not None and candidacy.thread is not threading.current_thread():
            candidacy.thread.join(_LEAVE_SECONDS)

    def session_lost(self) -> None:
        """Ends the term, if there is one: the node of the candidacy vanishes with the session."""
        self._end_term("the session with ZooKeeper has been lost")

    def overtaken(self, epoch: int, reason: str) -> None:
        """Ends the term with this epoch: a later one has begun. A call for another epoch does nothing."""
        candidacy = self._candidacy
        if candidacy is not None and candidacy.epoch == epoch:
            self._end_term(reason)

    def connected(self) -> None:
        """Wakes a candidacy that waits for the connection."""
        candidacy = self._candidacy
        if candidacy is not None:
            candidacy.wake.set()

    def note(self, text: str) -> None:
        """Written behind the url into our candidate node. Raises KazooException, KazooTimeoutError."""
        candidacy = self._candidacy
        node = candidacy.node if candidacy is not None else ""
        if candidacy is not None and node:
            data = f"{candidacy.url}\n{text}" if text else candidacy.url
            with suppress(NoNodeError):  # the candidacy has ended, or is about to begin again
                self._session.wait(self._session.client.set_async(f"{self._tree.election}/{node}", data.encode()))

    def notes(self) -> dict[str, str]:
        """Notes of the other candidates by URL. Raises KazooException, KazooTimeoutError."""
        found: dict[str, str] = {}
        candidacy = self._candidacy
        for name in self._candidates():
            if candidacy is not None and name.startswith(candidacy.id):
                continue
            with suppress(NoNodeError):
                data, _ = self._session.wait(self._session.client.get_async(f"{self._tree.election}/{name}"))
                url, _, text = data.decode("utf-8", "replace").partition("\n")
                if text:
                    found[url] = text
        return found

    @property
    def leading(self) -> EpochNode | None:
        """Returns this process as the leader; None if it does not lead."""
        candidacy = self._candidacy
        if candidacy is None or not candidacy.epoch or candidacy.problem:
            return None
        return EpochNode(epoch=candidacy.epoch, leader=candidacy.url)

    def _end_term(self, reason: str) -> None:
        candidacy = self._candidacy
        if candidacy is not None:
            candidacy.problem = candidacy.problem or reason
            candidacy.wake.set()

    # --- the thread of a candidacy ----------------------------------------------------------------------------

    def _run(self, candidacy: _Candidacy) -> None:
        """Whatever happens, the candidate node does not outlive this thread: it would keep everybody from leading."""
        try:
            self._stand_until_elected(candidacy)
            if candidacy.epoch:
                _LOG.info("leading with epoch %d", candidacy.epoch)
                candidacy.elected(Term(candidacy.epoch, candidacy.elapsed))
            while candidacy.epoch and not candidacy.withdrawn and not candidacy.problem:
                candidacy.wake.wait()
                candidacy.wake.clear()
        except Exception as error:
            _LOG.exception("the candidacy of %s has failed", candidacy.url)
            candidacy.problem = candidacy.problem or f"the candidacy has failed: {error!r}"
        self._leave(candidacy)

    def _stand_until_elected(self, candidacy: _Candidacy) -> None:
        """Returns when this candidate leads or has been withdrawn."""
        pause = _PAUSE_SECONDS
        while not candidacy.withdrawn and not candidacy.epoch:
            candidacy.wake.clear()
            try:
                self._stand(candidacy)
                pause = _PAUSE_SECONDS
            except TRANSIENT as error:
                _LOG.debug("candidate waits for ZooKeeper: %r", error)
                candidacy.wake.wait(_PAUSE_SECONDS)
            except Exception as error:
                # Without this node another candidate may take over; the next attempt queues behind all others.
                expected = isinstance(error, KazooException | msgspec.MsgspecError)
                _LOG.error("candidacy of %s failed, trying again: %r", candidacy.url, error, exc_info=not expected)
                self._withdraw_node(candidacy)
                candidacy.wake.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _withdraw_node(self, candidacy: _Candidacy) -> None:
        try:
            self._remove_nodes(candidacy)
        except TRANSIENT as error:
            _LOG.warning("cannot remove the candidate node of %s: %r", candidacy.url, error)
        except Exception as error:
            _LOG.error("cannot remove the candidate node of %s: %r", candidacy.url, error)
            self._end_session()

    def _end_session(self) -> None:
        """Ends the session in place of its nodes, which cannot be removed one by one: while they exist, no other
        candidate can lead. Returns when the session has ended, or the store is being closed."""
        session = self._session
        ours = session.id
        while not session.closed and session.id == ours:
            try:
                session.expire()
                _LOG.error("ended the session with ZooKeeper, because its nodes could not be removed")
                return
            except Exception as error:
                _LOG.warning("cannot end the session with ZooKeeper: %r", error)
                self._rest.wait(_PAUSE_SECONDS)

    def _stand(self, candidacy: _Candidacy) -> None:
        """One attempt: takes over if we are first, else waits until that may have changed."""
        candidacy.problem = ""  # a lost session before leadership does no harm: the candidate enters again
        ours = candidacy.node = self._enter(candidacy)
        everybody = self._candidates()
        if ours not in everybody:
            return
        position = everybody.index(ours)
        if position == 0:
            self._take_over(candidacy, ours)
            return
        before = f"{self._tree.election}/{everybody[position - 1]}"
        watched = self._session.client.exists_async(before, watch=lambda _event: candidacy.wake.set())
        if self._session.wait(watched) is not None:
            candidacy.wake.wait()

    def _enter(self, candidacy: _Candidacy) -> str:
        """The name of our candidate node, which is created if need be.

        The answer to the creation may be lost, so ours is recognised by its name. The session is part of the name,
        because a node of an earlier session is about to vanish.
        """
        session = self._session.id
        if session is None:
            raise ConnectionLoss("not connected")
        prefix = f"{candidacy.id}-{session:016x}-"
        for name in self._candidates():
            if name.startswith(prefix):
                return name
        path, url = f"{self._tree.election}/{prefix}", candidacy.url.encode()
        created = self._session.client.create_async(path, url, ephemeral=True, sequence=True)
        return str(self._session.wait(created)).rpartition("/")[2]

    def _candidates(self) -> list[str]:
        """Names of all candidate nodes, in the order of their sequence numbers (the last ten digits)."""
        names: list[str] = self._session.wait(self._session.client.get_children_async(self._tree.election))
        return sorted(names, key=lambda name: name[-10:])

    def _take_over(self, candidacy: _Candidacy, ours: str) -> None:
        """Raises the epoch; does nothing if our candidate node is gone or another candidate was faster."""
        tree = self._tree
        current = self._session.read_current(tree.epoch)
        before = EpochNode() if current is None else msgspec.json.decode(current[0], type=EpochNode)
        node = EpochNode(epoch=before.epoch + 1, leader=candidacy.url)
        written, acl = msgspec.json.encode(node), self._session.acl
        failed = self._session.wait(
            self._session.send(
                Multi(
                    [
                        check(f"{tree.election}/{ours}"),
                        create(tree.epoch, written, acl=acl)
                        if current is None
                        else set_data(tree.epoch, written, current[1]),
                        *self._leftovers(node.epoch),
                        create(tree.counter(node.epoch), b"0", acl=acl),
                        create(tree.leader, written, ephemeral=True, acl=acl),
                    ]
                )
            )
        )
        if failed:
            if failed[0].code not in (NO_NODE, NODE_EXISTS, BAD_VERSION):
                raise self._session.error(failed[0], "raising the epoch")
            candidacy.wake.wait(_PAUSE_SECONDS)
            return
        candidacy.elapsed = self._elapsed()
        with self._lock:
            if not candidacy.withdrawn:
                self._pipeline.begin(node.epoch, 0 if current is None else current[1] + 1)
                candidacy.epoch = node.epoch

    def _elapsed(self) -> float | None:
        """Seconds between the latest write of the framework record and the write of the epoch node, both by the clock
        of ZooKeeper. None if one of them is missing. No earlier leader can write the framework record any more."""
        exists, tree = self._session.client.exists_async, self._tree
        try:
            epoch = self._session.wait(exists(tree.epoch))
            mark = self._session.wait(exists(tree.record(Address("framework", "framework"))))
        except TRANSIENT:
            return None  # the epoch is raised already; another try would raise it again
        return (epoch.mtime - mark.mtime) / 1000 if epoch is not None and mark is not None else None

    def _leftovers(self, epoch: int) -> list[bytes]:
        """Deletes the remaining nodes of earlier terms: the leader node and old counters."""
        client, tree = self._session.client, self._tree
        try:
            counters = self._session.wait(client.get_children_async(tree.epoch))
        except NoNodeError:
            counters = []
        gone = [tree.counter(old) for old in counters if not epoch - TERMS_KEPT < int(old) < epoch]
        if self._session.wait(client.exists_async(tree.leader)) is not None:
            gone.append(tree.leader)
        return [delete(path) for path in gone]

    def _leave(self, candidacy: _Candidacy) -> None:
        with self._lock:
            self._pipeline.end(candidacy.epoch)
        failures = 0
        while not self._session.closed and failures < _REMOVALS:
            try:
                self._remove_nodes(candidacy)
                break
            except TRANSIENT:
                self._session.connected.wait(_PAUSE_SECONDS)
            except Exception:
                failures += 1
                _LOG.exception("cannot remove the candidate node of %s", candidacy.url)
                candidacy.wake.clear()
                candidacy.wake.wait(_PAUSE_SECONDS)
        if failures == _REMOVALS:
            self._end_session()
        with self._lock:
            if self._candidacy is candidacy:
                self._candidacy = None
        if candidacy.problem and not candidacy.withdrawn:
            _LOG.warning("epoch %d has ended: %s", candidacy.epoch, candidacy.problem)
            candidacy.deposed(candidacy.problem)

    def _remove_nodes(self, candidacy: _Candidacy) -> None:
        """The leader node, if it is still ours, then the candidate node; so others never see us after our successor."""
        client, tree = self._session.client, self._tree
        leader = self._session.read_current(tree.leader)
        gone = [f"{tree.election}/{name}" for name in self._candidates() if name.startswith(candidacy.id)]
        if leader is not None and _epoch_of(leader[0]) == candidacy.epoch:
            gone.insert(0, tree.leader)
        for path in gone:
            with suppress(NoNodeError):
                self._session.wait(client.delete_async(path))


def _epoch_of(data: bytes) -> int | None:
    """Epoch in the content of a leader node; None if it cannot be read."""
    try:
        return msgspec.json.decode(data, type=EpochNode).epoch
    except msgspec.MsgspecError:
        return None
