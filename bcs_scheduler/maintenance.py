"""What an operator does to the store while no scheduler leads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager

from store.base import BatchTooLarge, Change, Store, StoreError, Term
from store.records import Framework, Record
from store.seal import OPEN_KINDS
from store.state import State
from store.zookeeper import ZooKeeperStore

ELECTION_PATIENCE = 30.0
"""Seconds to wait for leadership: longer than the session of a scheduler that was killed."""
COMMIT_PATIENCE = 30.0
"""Seconds to wait until one commit is durable."""
AT_ONCE = 50
"""Records that are sealed anew in one commit, if they fit into it."""


class MaintenanceError(Exception):
    """It was not done; the message says why."""


@contextmanager
def leading(store: Store) -> Iterator[int]:
    """Opens the store and takes the lead, so that no running scheduler can be at work; gives the epoch, and closes the
    store at the end. Raises MaintenanceError."""
    try:
        store.open()
        elected: Future[Term] = Future()
        store.campaign("maintenance", elected.set_result, lambda reason: None)
        yield elected.result(ELECTION_PATIENCE).epoch
    except FutureTimeout:
        leader = store.leader()
        raise MaintenanceError(
            f"{leader.url if leader else 'somebody else'} leads; stop every scheduler first"
        ) from None
    except StoreError as error:
        raise MaintenanceError(str(error)) from None
    finally:
        store.close()


def forget_framework(store: Store, *, force: bool) -> str:
    """Removes the stored framework id, so that the next leader registers anew; returns the id. Raises MaintenanceError.

    A new framework knows nothing of the tasks of the old one: with taskgroups left this is refused unless `force` is
    given.
    """
    with leading(store) as epoch:
        state = State(store.load().records)
        framework = state.framework
        if not framework.id:
            raise MaintenanceError("no framework id is stored")
        alive = sum(1 for group in state.taskgroups.values() if not group.ended)
        if alive and not force:
            raise MaintenanceError(f"{alive} taskgroups belong to framework {framework.id}; delete them or use --force")
        _write(store, epoch, [Framework(created_at=framework.created_at)])
    return framework.id


def reseal(store: Store) -> str:
    """Writes everything that may be confidential again, as the store's keys say now; returns what was done in words.
    Raises MaintenanceError, also if some records could not be read: those stay as they are."""
    with leading(store) as epoch:
        records, quarantined = store.load()
        secret = [record for record in records if record.kind not in OPEN_KINDS]
        for start in range(0, len(secret), AT_ONCE):
            part = secret[start : start + AT_ONCE]
            try:
                _write(store, epoch, part)
            except BatchTooLarge:
                for record in part:
                    _write(store, epoch, [record])
    lost = [bad for bad in quarantined if bad.sealed]
    if lost:
        first = lost[0]
        raise MaintenanceError(
            f"{len(secret)} records were written, but {len(lost)} cannot be read and stay as they are: "
            f"{first.kind} {first.key}: {first.error}"
        )
    return f"{len(secret)} records were written again"


def protect(store: Store) -> int:
    """Gives all nodes in ZooKeeper to the user of the store; returns how many. Raises MaintenanceError."""
    if not isinstance(store, ZooKeeperStore) or store.login is None:
        raise MaintenanceError("this is for a store in ZooKeeper (zk://...) with store.user and store.password_file")
    with leading(store):
        return store.take_over()


def _write(store: Store, epoch: int, records: Sequence[Record]) -> None:
    changes = [Change(record.kind, record.key, record) for record in records]
    store.commit(changes, epoch).result(COMMIT_PATIENCE)
