"""Maintenance of the store by an operator while no scheduler leads."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager

from msgspec.structs import replace

from bcs_scheduler.core.term_start import mark_of, start_of_term, with_gap
from bcs_scheduler.leadership.eligibility import obstacle, possibly_alive
from store.base import BatchTooLarge, Change, Store, StoreError, Term
from store.encoding.seal import OPEN_KINDS
from store.records import Framework, Record
from store.state import State
from store.state.replica import Replica
from store.zookeeper.store import ZooKeeperStore
from transactions.text import counted

ELECTION_PATIENCE = 30.0
"""Seconds to wait for leadership in ZooKeeper: longer than the session of a scheduler that was killed."""
LOCK_PATIENCE = 3.0
"""The same in other stores: the end of a scheduler releases its lock at once."""
COMMIT_PATIENCE = 30.0
"""Seconds to wait until one commit is durable."""
LONGEST_ID = 255
"""Characters of a framework id: Mesos makes ids of about 41."""
AT_ONCE = 50
"""Records that are sealed anew in one commit, if they fit into it."""


class MaintenanceError(Exception):
    """It was not done; the message says why."""


@contextmanager
def leading(store: Store) -> Iterator[Term]:
    """Opens the store and takes the lead, so that no running scheduler can be at work; gives the term, and closes the
    store at the end. Raises MaintenanceError."""
    try:
        store.open()
        elected: Future[Term] = Future()
        store.campaign("maintenance", elected.set_result, lambda reason: None)
        yield elected.result(ELECTION_PATIENCE if isinstance(store, ZooKeeperStore) else LOCK_PATIENCE)
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
    """Removes the stored framework id, so that the next leader registers anew; returns the id, empty if it was lost.
    Raises MaintenanceError.

    A new framework knows nothing of the tasks of the old one: with taskgroups left this is refused unless `force` is
    given. A record that cannot be read, or is missing although taskgroups are recorded, is replaced as well.
    The mark of time stays: the time of the next leader continues where that of the last one ended.
    """
    with leading(store) as term:
        replica = Replica.of(store.load())
        state, quarantined = replica.state, list(replica.quarantined.values())
        framework = state.framework
        if not framework.id and obstacle(state, quarantined) is None:
            raise MaintenanceError("no framework id is stored")
        alive = possibly_alive(state, quarantined)
        if alive and not force:
            owner = f"framework {framework.id}" if framework.id else "a framework whose id is lost"
            raise MaintenanceError(
                f"{counted(alive, 'taskgroup')} of {owner} may still run; delete them or use --force"
            )
        forgotten = Framework(created_at=framework.created_at, forgotten=True)
        _write(store, term.epoch, [_marked(forgotten, state, _present(state, term))])
    return framework.id


def set_framework(store: Store, identity: str, *, force: bool) -> str:
    """Stores the framework id that an operator gives, so that the next leader continues as that framework; returns the
    id stored before, empty if there was none. Raises MaintenanceError, also if another id is stored, unless `force` is
    given. The name of the Mesos cluster is kept if the record can be read, else it is asked at the subscription."""
    if not identity or len(identity) > LONGEST_ID or not identity.isprintable() or " " in identity:
        raise MaintenanceError(f"{identity!r} is not a framework id")
    with leading(store) as term:
        state = Replica.of(store.load()).state
        framework = state.framework
        if framework.id and framework.id != identity and not force:
            raise MaintenanceError(f"framework {framework.id} is stored already; --force replaces it")
        now = _present(state, term)
        # No leader of this store has launched tasks of this framework but those in the records.
        mark = mark_of(state) if framework.id in ("", identity) else 0
        gaps = with_gap(framework.gaps, mark, int(now * 1e9))
        created = framework.created_at or now
        wanted = replace(framework, id=identity, created_at=created, forgotten=False, gaps=gaps)
        _write(store, term.epoch, [_marked(wanted, state, now)])
    return framework.id


def reseal(store: Store) -> str:
    """Writes everything that may be confidential again, with the present keys of the store; returns a report in words.
    Raises MaintenanceError, also if some records could not be read: those stay as they are."""
    with leading(store) as term:
        records, quarantined = store.load()
        secret = [record for record in records if record.kind not in OPEN_KINDS]
        for start in range(0, len(secret), AT_ONCE):
            part = secret[start : start + AT_ONCE]
            try:
                _write(store, term.epoch, part)
            except BatchTooLarge:
                for record in part:
                    _write(store, term.epoch, [record])
    lost = [bad for bad in quarantined if bad.sealed]
    if lost:
        first = lost[0]
        raise MaintenanceError(
            f"{len(secret)} records were written, but {len(lost)} cannot be read and stay unchanged: "
            f"{first.kind} {first.key}: {first.error}"
        )
    return f"{len(secret)} records were written again"


def protect(store: Store) -> int:
    """Gives all nodes in ZooKeeper to the user of the store; returns how many. Raises MaintenanceError."""
    if not isinstance(store, ZooKeeperStore) or store.login is None:
        raise MaintenanceError(
            "protect-store needs a store in ZooKeeper (zk://...) with store.user and store.password_file"
        )
    with leading(store):
        return store.take_over()


def _present(state: State, term: Term) -> float:
    """Unix seconds now, as a leader that begins this term would count them."""
    return start_of_term(state, time.time(), term.elapsed).now


def _marked(framework: Framework, state: State, now: float) -> Framework:
    """The record with the mark of time moved to `now`, if the store has a mark. A store with a clock dates this write,
    and the next leader counts the time since then: with the old mark, the time before would be lost."""
    return replace(framework, seen_at=now if state.framework.seen_at else 0.0)


def _write(store: Store, epoch: int, records: Sequence[Record]) -> None:
    changes = [Change(record.kind, record.key, record) for record in records]
    store.commit(changes, epoch).result(COMMIT_PATIENCE)
