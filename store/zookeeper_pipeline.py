"""Commits on their way into ZooKeeper: batched, pipelined, fenced, and decided when the answer is lost.

Each batch is one multi, and each multi begins by rewriting the fence (store.zookeeper_tree), expecting the version that
the multi before it leaves behind. That does three things at once: a new leader's write to the fence makes every later
multi of the old one fail; multis cannot be applied out of order or with a gap; and the fence tells which multi was the
last one applied. So when an answer is lost, or a multi fails (and with it all that were sent after it), nothing more is
sent until every request under way has been answered; then the fence is read, and what it shows as applied is done, the
rest is sent again if the term is still ours, else refused with StaleEpoch.

One thread owns all of this state; everybody else puts messages into its inbox. Futures are resolved by that thread.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import msgspec

from store.base import Change, StaleEpoch, StoreUnavailable
from store.codec import Encoded, encode_changes, size_of
from store.zookeeper_reader import list_records, make_tree
from store.zookeeper_session import TRANSIENT, Session
from store.zookeeper_tree import Address, Fence, Tree
from store.zookeeper_wire import BAD_VERSION, NO_NODE, NODE_EXISTS, Multi, MultiFailed, create, delete, set_data

_LOG = logging.getLogger(__name__)
_IN_FLIGHT = 8
"""Multis under way at once: enough to keep the server's disk busy while answers travel."""
_JOIN_BYTES = 150_000
"""Up to so many bytes, waiting commits are joined in one multi; a single commit may have more. Larger multis are not
faster, and a server keeps the last 500 in its heap (commitLogCount)."""
_RENEW_VERSION = 2_000_000_000
"""Before the 32-bit version of the fence overflows (and passes -1, which means "any"), the node is made anew."""
_PAUSE_SECONDS = 0.2
_HASTY_ATTEMPTS = 3
"""After so many failures a batch is sent again only after a pause."""
_CLOSE_SECONDS = 2.0


@dataclass(eq=False)
class _Commit:
    changes: Sequence[Change]
    epoch: int
    future: Future[None]
    encoded: list[Encoded] = field(default_factory=list)


@dataclass(eq=False)
class _Batch:
    """One multi: the last value of each record that its commits change."""

    epoch: int
    seq: int
    changes: dict[Address, bytes | None]
    commits: list[_Commit]
    operations: list[bytes] = field(default_factory=list)
    attempt: int = 0
    answered: bool = False


@dataclass(frozen=True)
class _Begin:
    fence: Fence
    version: int


@dataclass(frozen=True)
class _Keys:
    epoch: int
    addresses: set[Address]


@dataclass(frozen=True)
class _Answer:
    batch: _Batch
    attempt: int
    error: Exception | MultiFailed | None


@dataclass(frozen=True)
class _SessionLost:
    pass


class CommitPipeline:
    """Started once and stopped once, like the session it writes to."""

    def __init__(
        self,
        session: Session,
        tree: Tree,
        batch_bytes: int,
        overtaken: Callable[[int, str], None],
        renew_version: int = _RENEW_VERSION,
    ) -> None:
        """`overtaken` is called with our epoch and a reason when the fence shows that the term has ended."""
        self._session = session
        self._tree = tree
        self._batch_bytes = batch_bytes
        self._overtaken = overtaken
        self._renew_version = renew_version
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._open_epoch = 0
        self._stopping = threading.Event()
        self._fence = Fence()
        self._version = 0
        self._keys: set[Address] | None = None
        self._waiting: deque[_Commit] = deque()
        self._in_flight: deque[_Batch] = deque()
        self._failed = False
        self._keys_doubtful = False
        self._thread = threading.Thread(target=self._run, name="zookeeper-commit", daemon=True)

    # --- called by other threads --------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Waits a moment for the answers under way, then fails what is left with StoreUnavailable. May return before
        that is done; it is done at the latest when the session has been closed."""
        self._open_epoch = 0
        self._stopping.set()
        self._inbox.put(None)
        self._thread.join(_CLOSE_SECONDS)

    def join(self) -> None:
        self._thread.join()

    @property
    def open_epoch(self) -> int:
        """The epoch whose commits are accepted; 0 while this store does not lead."""
        return self._open_epoch

    def begin(self, fence: Fence, version: int) -> None:
        """A new term: `fence` has just been written by us and has this version."""
        self._inbox.put(_Begin(fence, version))
        self._open_epoch = fence.epoch

    def end(self, epoch: int) -> None:
        """No more commits of this term are accepted; those accepted before are still decided."""
        if self._open_epoch == epoch:
            self._open_epoch = 0

    def session_lost(self) -> None:
        """Requests under way will not be answered, and are not applied later either."""
        self._open_epoch = 0
        self._inbox.put(_SessionLost())

    def offer_keys(self, epoch: int, addresses: Sequence[Address]) -> None:
        """What a load within the term `epoch` has found, which spares the pipeline a listing of its own."""
        self._inbox.put(_Keys(epoch, set(addresses)))

    def submit(self, changes: Sequence[Change], epoch: int) -> Future[None]:
        future: Future[None] = Future()
        if self._stopping.is_set():
            future.set_exception(StoreUnavailable("the store is closed"))
        elif not epoch or epoch != self._open_epoch:
            future.set_exception(StaleEpoch(f"epoch {epoch} is not the one this store leads with"))
        else:
            self._inbox.put(_Commit(changes, epoch, future))
        return future

    # --- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._handle(self._inbox.get())
            while not self._inbox.empty():
                self._handle(self._inbox.get())
            try:
                if self._failed and all(batch.answered for batch in self._in_flight):
                    self._recover()
                self._send_waiting()
            except TRANSIENT as error:
                self._pause(error)
            except Exception as error:
                _LOG.exception("commits cannot go on, trying again")
                self._pause(error)
        self._finish()

    def _handle(self, message: Any) -> None:
        match message:
            case _Commit():
                self._accept(message)
            case _Answer():
                self._answered(message)
            case _Begin():
                self._settle(message.fence)
                self._refuse_all(f"epoch {message.fence.epoch} has begun")
                self._fence, self._version, self._keys = message.fence, message.version, None
                self._failed = False
            case _Keys():
                if message.epoch == self._fence.epoch and self._keys is None:
                    self._keys = message.addresses
            case _SessionLost():
                for batch in self._in_flight:
                    batch.answered = True
                self._failed = self._failed or bool(self._in_flight or self._waiting)

    def _accept(self, commit: _Commit) -> None:
        if commit.epoch != self._fence.epoch:
            commit.future.set_exception(StaleEpoch(f"epoch {commit.epoch} has ended"))
            return
        try:
            commit.encoded = encode_changes(commit.changes, self._batch_bytes)
        except Exception as error:
            commit.future.set_exception(error)
        else:
            self._waiting.append(commit)

    def _answered(self, answer: _Answer) -> None:
        batch = answer.batch
        if batch.answered or answer.attempt != batch.attempt:
            return
        batch.answered = True
        if answer.error is None and not self._failed and batch is self._in_flight[0]:
            self._in_flight.popleft()
            _succeed(batch)
            return
        self._failed = True
        if isinstance(answer.error, MultiFailed):
            self._keys_doubtful |= answer.error.code in (NO_NODE, NODE_EXISTS) and answer.error.position > 0
            if answer.error.code not in (BAD_VERSION, NO_NODE, NODE_EXISTS):
                _LOG.error("%s", self._session.error(answer.error, f"commit {batch.seq} of epoch {batch.epoch}"))
        elif answer.error is not None and not isinstance(answer.error, TRANSIENT):
            _LOG.error("commit %d of epoch %d: %r", batch.seq, batch.epoch, answer.error)

    # --- sending ----------------------------------------------------------------------------------------------

    def _send_waiting(self) -> None:
        while self._waiting and not self._failed and len(self._in_flight) < _IN_FLIGHT:
            if self._keys is None:
                self._keys = set(list_records(self._session, self._tree))
            batch = self._next_batch()
            batch.operations = self._operations(batch.changes)
            self._in_flight.append(batch)
            self._send(batch)

    def _next_batch(self) -> _Batch:
        """Joins what waits, in order."""
        commits: list[_Commit] = []
        size = 0
        while self._waiting:
            size += sum(map(size_of, self._waiting[0].encoded))
            if commits and size > _JOIN_BYTES:
                break
            commits.append(self._waiting.popleft())
        changes = {Address(c.kind, c.key): c.data for commit in commits for c in commit.encoded}
        self._fence = msgspec.structs.replace(self._fence, seq=self._fence.seq + 1)
        return _Batch(self._fence.epoch, self._fence.seq, changes, commits)

    def _operations(self, changes: dict[Address, bytes | None]) -> list[bytes]:
        """Create, set or delete, as needed after the batches before this one; keeps track of what exists."""
        assert self._keys is not None
        operations: list[bytes] = []
        for address, data in changes.items():
            path = self._tree.record(address)
            exists = address in self._keys
            if data is None:
                if exists:
                    operations.append(delete(path))
                    self._keys.discard(address)
            elif exists:
                operations.append(set_data(path, data))
            else:
                operations.append(create(path, data))
                self._keys.add(address)
        return operations

    def _send(self, batch: _Batch) -> None:
        """Sends a batch behind the one sent before it."""
        fence = msgspec.json.encode(msgspec.structs.replace(self._fence, seq=batch.seq))
        if self._version < self._renew_version:
            guard = [set_data(self._tree.fence, fence, self._version)]
            self._version += 1
        else:
            guard = [delete(self._tree.fence, self._version), create(self._tree.fence, fence)]
            self._version = 0
        batch.attempt += 1
        batch.answered = False
        attempt = batch.attempt
        result = self._session.send(Multi(guard + batch.operations))
        result.rawlink(lambda done: self._inbox.put(_Answer(batch, attempt, _error_of(done))))

    # --- after a failure --------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Decides every batch by the fence, and sends again what is not applied if the term is still ours."""
        if any(batch.attempt >= _HASTY_ATTEMPTS for batch in self._in_flight):
            self._stopping.wait(_PAUSE_SECONDS)
        found = self._session.read_current(self._tree.fence)
        stored = Fence() if found is None else msgspec.json.decode(found[0], type=Fence)
        self._settle(stored)
        if found is None or stored.epoch != self._fence.epoch:
            epoch, leader = stored.epoch, stored.leader
            reason = f"epoch {epoch} is led by {leader}" if epoch else "the records have been erased"
            self._refuse_all(reason)
            self._overtaken(self._fence.epoch, reason)
        elif self._open_epoch != self._fence.epoch:
            self._refuse_all(f"epoch {self._fence.epoch} has ended")
        else:
            self._version = found[1]
            if self._keys_doubtful:
                self._rebuild()
            for batch in self._in_flight:
                self._send(batch)
        self._failed = False

    def _rebuild(self) -> None:
        """Somebody else has created or deleted records: finds out what is there and plans the batches again."""
        _LOG.warning("the records in ZooKeeper are not those that were expected, listing them again")
        make_tree(self._session, self._tree)
        self._keys = set(list_records(self._session, self._tree))
        for batch in self._in_flight:
            batch.operations = self._operations(batch.changes)
        self._keys_doubtful = False

    def _settle(self, fence: Fence) -> None:
        """Answers the batches that this fence shows as applied."""
        while self._in_flight and fence.applied(self._in_flight[0].epoch, self._in_flight[0].seq):
            _succeed(self._in_flight.popleft())

    def _refuse_all(self, reason: str) -> None:
        """Answers everything that is left: none of it is applied or ever will be."""
        self._answer_all(StaleEpoch(reason))

    def _answer_all(self, error: Exception) -> None:
        for batch in self._in_flight:
            batch.answered = True
        for commit in [commit for batch in self._in_flight for commit in batch.commits] + list(self._waiting):
            commit.future.set_exception(error)
        self._in_flight.clear()
        self._waiting.clear()

    def _pause(self, error: Exception) -> None:
        """Waits for the connection, then for a moment; new messages are handled afterwards."""
        _LOG.debug("commits wait for ZooKeeper: %r", error)
        while not self._session.connected.wait(_PAUSE_SECONDS):
            if self._stopping.is_set():
                return
        self._stopping.wait(_PAUSE_SECONDS)
        self._inbox.put(None)  # wakes the loop: there may be no other message coming

    def _finish(self) -> None:
        deadline = monotonic() + _CLOSE_SECONDS
        while self._in_flight and not self._failed and self._session.connected.is_set() and monotonic() < deadline:
            try:
                self._handle(self._inbox.get(timeout=_PAUSE_SECONDS))
            except queue.Empty:
                continue
        while not self._inbox.empty():
            self._handle(self._inbox.get())
        self._answer_all(StoreUnavailable("the store was closed before the commit"))


def _succeed(batch: _Batch) -> None:
    batch.answered = True
    for commit in batch.commits:
        commit.future.set_result(None)


def _error_of(done: Any) -> Exception | MultiFailed | None:
    """What a finished request says: None for a multi that was applied."""
    try:
        failed: list[MultiFailed] = done.get(block=False)
    except Exception as error:
        return error
    return failed[0] if failed else None
