"""Commits on their way into ZooKeeper: batched, pipelined, fenced, and decided when the answer is lost.

Each batch is one multi, and each multi begins with a guard of two operations:

* a check of the version of the epoch node, which changes when another term begins: so no commit of a deposed leader is
  applied any more, also none in flight;
* a write of the batch's number to the counter of the term, expecting the version that the batch before it leaves
  behind: so batches cannot be applied out of order, twice or with a gap, and reading the counter tells which was the
  last one applied. (The counter alone would be no fence: a new leader's write to it would raise its version just as the
  first of two batches in flight would have done, and the second would pass.)

A third operation writes which records the batch changes into the log that followers read (store.zookeeper.commit_log).

So when an answer is lost, or a multi fails (and with it all that were sent after it), no request is sent until every
request in flight has been answered; then epoch and counter are read. Batches that they show as applied are done; the
others are sent again if the term is still ours, else refused with StaleEpoch.

One thread owns all of this state; the other threads put messages into its inbox. Futures are resolved by that thread.
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
from kazoo.exceptions import KazooException

from store import threads
from store.base import Change, StaleEpoch, StoreError, StoreUnavailable
from store.encoding.codec import Encoded, encode_changes, size_of
from store.encoding.seal import UNSEALED, Sealer
from store.zookeeper.commit_log import LogWriter
from store.zookeeper.reader import list_records, make_tree
from store.zookeeper.session import TRANSIENT, Session
from store.zookeeper.tree import Address, EpochNode, Tree
from store.zookeeper.wire import BAD_VERSION, NO_NODE, NODE_EXISTS, Multi, MultiFailed, check, create, delete, set_data


@dataclass(eq=False)
class Commit:
    """Encoded changes that are to be written together in an epoch. `future` gets the outcome."""

    encoded: list[Encoded]
    epoch: int
    future: Future[None]


@dataclass(eq=False)
class Batch:
    """One multi: the last value of each record that its commits change."""

    seq: int
    changes: dict[Address, bytes | None]
    commits: list[Commit]
    operations: list[bytes] = field(default_factory=list)
    guards: int = 0
    """Number of operations before those of the changes."""
    attempt: int = 0
    listings: int = 0
    """Number of times that the operations were made anew because other records were stored than expected."""
    answered: bool = False


@dataclass(frozen=True)
class Begin:
    """A term begins. `epoch`: its number; `version`: of the node that holds the epoch, as written by this process."""

    epoch: int
    version: int


@dataclass(frozen=True)
class Keys:
    """Addresses of all records, which a follower has seen before its process became the leader."""

    epoch: int
    addresses: set[Address]


@dataclass(frozen=True)
class Answer:
    """The outcome of one attempt to write a batch; `error` None: it is written."""

    batch: Batch
    attempt: int
    error: Exception | MultiFailed | None


@dataclass(frozen=True)
class SessionLost:
    """The session with ZooKeeper has ended; changes without an answer may or may not be written."""


def error_of(done: Any) -> Exception | MultiFailed | None:
    """Returns the error of a finished request; None if the multi was applied."""
    try:
        failed: list[MultiFailed] = done.get(block=False)
    except Exception as error:
        return error
    return failed[0] if failed else None


_LOG = logging.getLogger(__name__)
_IN_FLIGHT = 8
"""Multis in flight at once: enough to keep the server's disk busy while answers travel."""
_JOIN_BYTES = 64 * 1024
"""Up to so many bytes, waiting commits are joined in one multi; a single commit may have more. Larger multis are not
faster, and a server keeps the last 500 in its heap (commitLogCount), each about three times."""
_RENEW_VERSION = 2_000_000_000
"""Before the 32-bit version of a counter overflows (and passes -1, which means "any"), the node is made anew."""
_PAUSE_SECONDS = 0.2
_HASTY_ATTEMPTS = 3
"""After so many failures a batch is sent again only after a pause."""
_LISTINGS = 3
"""Number of listings after which a batch that still does not fit is not the fault of a user who changes records by
hand: the server that answers has other records than its ensemble."""
_CLOSE_SECONDS = 1.0


class CommitPipeline:
    """Started once and stopped once, like the session it writes to."""

    def __init__(
        self,
        session: Session,
        tree: Tree,
        batch_bytes: int,
        overtaken: Callable[[int, str], None],
        renew_version: int = _RENEW_VERSION,
        sealer: Sealer = UNSEALED,
    ) -> None:
        """`overtaken` is called with our epoch and a reason when the epoch node shows that the term has ended."""
        self._session, self._tree = session, tree
        self._batch_bytes = batch_bytes
        self._overtaken = overtaken
        self._renew_version, self._sealer = renew_version, sealer
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._open_epoch = 0
        self._stopping = threading.Event()
        self._epoch = 0
        self._epoch_version = 0
        self._seq = 0
        self._counter_version = 0
        self._keys: set[Address] | None = None
        self._log = LogWriter(session, tree)
        self._waiting: deque[Commit] = deque()
        self._in_flight: deque[Batch] = deque()
        self._failed = self._keys_doubtful = False
        self._thread = threads.ending("zookeeper-commit", self._run)

    # --- called by other threads --------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the thread of the pipeline, once."""
        self._thread.start()

    def stop(self) -> None:
        """Waits a moment for outstanding answers, then fails the rest with StoreUnavailable. May return before that is
        done; it is done at the latest when the session has been closed."""
        self._open_epoch = 0
        self._stopping.set()
        self._inbox.put(None)
        self._thread.join(_CLOSE_SECONDS)

    def join(self) -> None:
        """Waits until the thread has ended; call `stop` before."""
        self._thread.join()

    @property
    def open_epoch(self) -> int:
        """The epoch whose commits are accepted; 0 while this store does not lead."""
        return self._open_epoch

    def begin(self, epoch: int, version: int) -> None:
        """A new term: the epoch node has just been written by us and has this version, the counter has just been
        created."""
        self._inbox.put(Begin(epoch, version))
        self._open_epoch = epoch

    def end(self, epoch: int) -> None:
        """No more commits of this term are accepted; those accepted before are still decided."""
        if self._open_epoch == epoch:
            self._open_epoch = 0

    def session_lost(self) -> None:
        """Requests in flight will not be answered, and are not applied later either."""
        self._open_epoch = 0
        self._inbox.put(SessionLost())

    def offer_keys(self, epoch: int, addresses: set[Address]) -> None:
        """Passes the addresses of all records that are stored when the term `epoch` begins, which saves the pipeline a
        listing of its own. The pipeline takes ownership of the set."""
        self._inbox.put(Keys(epoch, addresses))

    def submit(self, changes: Sequence[Change], epoch: int) -> Future[None]:
        """Queues changes for the next batch. Changes that cannot be written are refused before the call returns, so
        that no later commit depends on them."""
        future: Future[None] = Future()
        if self._stopping.is_set():
            future.set_exception(StoreUnavailable("the store is closed"))
        elif not epoch or epoch != self._open_epoch:
            future.set_exception(StaleEpoch(f"epoch {epoch} is not the one this store leads with"))
        else:
            try:
                encoded = encode_changes(changes, self._batch_bytes, self._sealer)
            except Exception as error:
                future.set_exception(error)
            else:
                self._inbox.put(Commit(encoded, epoch, future))
        return future

    # --- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        threads.persist("zookeeper-commit", self._work_on, self._stopping.wait)
        try:
            self._finish()
        finally:
            self._answer_all(StoreUnavailable("the store was closed before the commit"))

    def _work_on(self) -> None:
        while not self._stopping.is_set():
            try:
                self._work()
            except Exception as error:
                self._break(error)

    def _work(self) -> None:
        self._handle(self._inbox.get())
        while not self._inbox.empty():
            self._handle(self._inbox.get())
        if self._failed and all(batch.answered for batch in self._in_flight):
            self._guarded(self._recover)
        self._guarded(self._send_waiting)

    def _break(self, error: Exception) -> None:
        """Handles an unexpected error. The result of the requests in flight is not known any more: the term ends, its
        commits are refused, and the thread waits for the next term."""
        _LOG.exception("commits of epoch %d have failed", self._epoch)
        reason = f"writing to ZooKeeper failed: {error!r}"
        epoch, self._epoch, self._failed, self._keys_doubtful = self._epoch, 0, False, False
        self.end(epoch)
        try:
            self._answer_all(StoreError(reason))
        finally:
            self._overtaken(epoch, reason)

    def _guarded(self, step: Callable[[], None]) -> None:
        """A step that ZooKeeper may interrupt; it is to be tried again after that."""
        try:
            step()
        except TRANSIENT as error:
            _LOG.debug("commits wait for ZooKeeper: %r", error)
            self._pause()
        except KazooException:
            _LOG.exception("commits failed, trying again")
            self._pause()

    def _handle(self, message: Any) -> None:
        match message:
            case Commit():
                self._accept(message)
            case Answer():
                self._answered(message)
            case Begin():
                self._begin(message)
            case Keys():
                if message.epoch == self._epoch and self._keys is None:
                    self._keys = message.addresses
            case SessionLost():
                self._give_up_answers()

    def _begin(self, begin: Begin) -> None:
        """Decides the remaining batches of the previous term, then starts the count again."""
        self._give_up_answers()
        while self._failed and not self._stopping.is_set():
            self._guarded(self._recover)
        self._epoch, self._epoch_version = begin.epoch, begin.version
        self._seq = self._counter_version = 0
        self._keys = None
        self._log.forget()

    def _give_up_answers(self) -> None:
        for batch in self._in_flight:
            batch.answered = True
        self._failed = self._failed or bool(self._in_flight or self._waiting)

    def _accept(self, commit: Commit) -> None:
        if commit.epoch != self._epoch:
            commit.future.set_exception(StaleEpoch(f"epoch {commit.epoch} has ended"))
        else:
            self._waiting.append(commit)

    def _answered(self, answer: Answer) -> None:
        batch = answer.batch
        if batch.answered or answer.attempt != batch.attempt:
            return
        batch.answered = True
        if answer.error is None and not self._failed and batch is self._in_flight[0]:
            self._in_flight.popleft()
            self._succeed(batch)
            return
        self._failed = True
        if isinstance(answer.error, MultiFailed):
            self._keys_doubtful |= answer.error.code in (NO_NODE, NODE_EXISTS) and answer.error.position >= batch.guards
            if answer.error.code not in (BAD_VERSION, NO_NODE, NODE_EXISTS):
                _LOG.error("%s", self._session.error(answer.error, f"commit {batch.seq} of epoch {self._epoch}"))
        elif answer.error is not None and not isinstance(answer.error, TRANSIENT):
            _LOG.error("commit %d of epoch %d: %r", batch.seq, self._epoch, answer.error)

    # --- sending ----------------------------------------------------------------------------------------------

    def _send_waiting(self) -> None:
        while self._waiting and not self._failed and len(self._in_flight) < _IN_FLIGHT:
            if self._keys is None:
                self._keys = set(list_records(self._session, self._tree))
            self._log.prepare()
            batch = self._next_batch()
            batch.operations = self._operations(batch.changes)
            self._in_flight.append(batch)
            self._send(batch)

    def _next_batch(self) -> Batch:
        """Joins the waiting commits, in order."""
        commits: list[Commit] = []
        size = 0
        while self._waiting:
            size += sum(map(size_of, self._waiting[0].encoded))
            if commits and size > _JOIN_BYTES:
                break
            commits.append(self._waiting.popleft())
        changes = {Address(c.kind, c.key): c.data for commit in commits for c in commit.encoded}
        self._seq += 1
        return Batch(self._seq, changes, commits)

    def _operations(self, changes: dict[Address, bytes | None]) -> list[bytes]:
        """Create, set or delete, as needed after the batches before this one; keeps track of the existing nodes."""
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
                operations.append(create(path, data, acl=self._session.acl))
                self._keys.add(address)
        return operations

    def _send(self, batch: Batch) -> None:
        """Sends a batch behind the one sent before it."""
        counter, number = self._tree.counter(self._epoch), str(batch.seq).encode()
        guard = [check(self._tree.epoch, self._epoch_version)]
        if self._counter_version < self._renew_version:
            guard += [set_data(counter, number, self._counter_version)]
            self._counter_version += 1
        else:
            guard += [delete(counter, self._counter_version), create(counter, number, acl=self._session.acl)]
            self._counter_version = 0
        guard.append(self._log.operation(self._epoch, batch.seq, batch.changes))
        batch.guards = len(guard)
        batch.attempt += 1
        batch.answered = False
        attempt = batch.attempt
        result = self._session.send(Multi(guard + batch.operations))
        result.rawlink(lambda done: self._inbox.put(Answer(batch, attempt, error_of(done))))

    def _succeed(self, batch: Batch) -> None:
        batch.answered = True
        self._log.written(self._epoch, batch.seq)
        for commit in batch.commits:
            commit.future.set_result(None)

    # --- after a failure --------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Decides every batch by epoch and counter, and sends the batches that are not applied again if the term is
        still ours."""
        if any(batch.attempt >= _HASTY_ATTEMPTS for batch in self._in_flight):
            self._stopping.wait(_PAUSE_SECONDS)
        # Read the epoch first: when it belongs to another leader, the counter of this term cannot change any more.
        node = self._session.read_current(self._tree.epoch)
        newest = EpochNode() if node is None else msgspec.json.decode(node[0], type=EpochNode)
        counter = self._session.read_current(self._tree.counter(self._epoch))
        self._settle(0 if counter is None else int(counter[0]))
        if counter is None or newest.epoch != self._epoch:
            reason = f"epoch {newest.epoch} is led by {newest.leader}" if newest.epoch else "the records were erased"
            self._answer_all(StaleEpoch(reason))
            self._overtaken(self._epoch, reason)
        elif self._open_epoch != self._epoch:
            self._answer_all(StaleEpoch(f"epoch {self._epoch} has ended"))
        else:
            self._counter_version = counter[1]
            self._log.forget()
            self._log.prepare()
            if self._keys_doubtful:
                self._rebuild()
            for batch in self._in_flight:
                self._send(batch)
        self._failed = False

    def _rebuild(self) -> None:
        """Lists the existing records, because another program has created or deleted some, and plans the batches again.
        Raises StoreError if that has not helped before: the server does not have the records of its ensemble, so its
        answers cannot be trusted."""
        if any(batch.listings >= _LISTINGS for batch in self._in_flight):
            server = self._session.leave_server()
            raise StoreError(
                f"the ZooKeeper server {server} has other records than its ensemble: its data is damaged and has to be "
                'deleted (see "A damaged server" in docs/operations.md)'
            )
        _LOG.warning("records in ZooKeeper differ from the expected ones, listing them again")
        make_tree(self._session, self._tree)
        self._keys = set(list_records(self._session, self._tree))
        for batch in self._in_flight:
            batch.operations = self._operations(batch.changes)
            batch.listings += 1
        self._keys_doubtful = False

    def _settle(self, applied: int) -> None:
        """Answers the batches up to number `applied`."""
        while self._in_flight and self._in_flight[0].seq <= applied:
            self._succeed(self._in_flight.popleft())

    def _answer_all(self, error: Exception) -> None:
        for batch in self._in_flight:
            batch.answered = True
        commits = [commit for batch in self._in_flight for commit in batch.commits] + list(self._waiting)
        self._in_flight.clear()
        self._waiting.clear()
        for commit in commits:
            if not commit.future.done():  # an error may have come between two commits of one batch
                commit.future.set_exception(error)

    def _pause(self) -> None:
        """Waits for the connection, then for a moment; new messages are handled afterwards."""
        while not self._session.connected.wait(_PAUSE_SECONDS):
            if self._stopping.is_set():
                return
        self._stopping.wait(_PAUSE_SECONDS)
        self._inbox.put(None)  # wakes the loop, because no other message may follow

    def _finish(self) -> None:
        deadline = monotonic() + _CLOSE_SECONDS
        while self._in_flight and not self._failed and self._session.connected.is_set() and monotonic() < deadline:
            try:
                self._handle(self._inbox.get(timeout=_PAUSE_SECONDS))
            except queue.Empty:
                continue
        while not self._inbox.empty():
            self._handle(self._inbox.get())
