"""The in-memory state: all records plus the indexes kept beside them.

One thread changes it (through store.state.unit_of_work); any thread may read it, because records are immutable and the
containers are only ever changed by single, atomic dictionary operations. Readers copy a container before they walk it
(``list(state.applications.values())``).

Indexes are derived, never stored: taskgroups by application and by agent, counts per status, the census that placement
constraints ask, the active transactions, and the indexes of store.state.indexes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from store.encoding.times import newest
from store.ids import nanoseconds_of, split_part
from store.records import (
    Framework,
    Message,
    OrphanedTask,
    Record,
    Revision,
    TaskGroup,
    Transaction,
    Version,
)
from store.state.census import Census, add
from store.state.indexes import Indexes, discard, put
from store.state.moment import Moment
from store.state.ordered import ORDERINGS, Order, Orders
from store.state.reader import TABLES as TABLES
from store.state.reader import StateReader
from store.state.readiness import Readiness, is_plain, is_unhealthy

Key = str
R = TypeVar("R", bound=Record)
Watcher = Callable[[Key, Record | None, Record | None], None]
"""Takes the key of a changed record, the record before and after; None: there was none, or is none any more."""
Watch = Callable[[Iterable[str], Watcher], None]
"""Calls a watcher for every change of these kinds."""


class State(StateReader):
    """All records, by key, and their indexes. `apply` is the only way in."""

    taskgroups: dict[Key, TaskGroup]
    transactions: dict[Key, Transaction]
    messages: dict[Key, Message]
    revisions: dict[Key, Revision]
    latest_of: dict[Key, float]
    orphaned_tasks: dict[Key, OrphanedTask]
    indexes: Indexes

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.unreadable: dict[tuple[str, str], str] = {}
        """Records, by kind and key, that are stored but cannot be read, and why. The unit of work does not replace
        them."""
        self.newest = 0.0
        """The newest time (Unix seconds) in any record, removed ones included: the clock of a new leader begins no
        earlier (bcs_scheduler.core.term_start)."""
        self.moment = Moment()
        self.framework = Framework()
        for table in TABLES.values():
            setattr(self, table, {})
        self._tables = {kind: getattr(self, name) for kind, name in TABLES.items()}
        self._revisions_of = {}
        self._messages_of = {}
        self._open_messages = {}
        self._versions = {}
        self._groups_of = {}
        self._groups_on = {}
        self._status_of = {}
        self._indexes_of = {}
        self._unhealthy_of = Counter()
        self._active_of = {}
        self._transactions_of = {}
        self._queued_of = {}
        self._orders = Orders()
        self.latest_of = {}
        self.census = Census(self._groups_of, self._versions)
        self.indexes = Indexes()
        self.readiness = Readiness()
        self._watchers: dict[str, tuple[Watcher, ...]] = {}
        for record in records:
            self.apply(record.kind, record.key, record)

    # --- reading ----------------------------------------------------------------------------------------------

    def unhealthy_applications(self) -> list[Key]:
        """Keys of the applications that have at least one unhealthy taskgroup (see `unhealthy`)."""
        return list(self._unhealthy_of)

    def in_reverse(self, kind: type[R], prefix: Order) -> Iterator[R]:
        """Yields the records of a kind (store.state.ordered.ORDERINGS) whose order begins with `prefix` and continues
        with a number, greatest first. The cost depends only on the records that are read."""
        table, key_of, length = self._table(kind), ORDERINGS[kind.kind].key, len(prefix)
        for order in self._orders.of(kind.kind).before((*prefix, math.inf)):
            if order[:length] != prefix:
                return
            if (record := table.get(key_of(order))) is not None:  # removed meanwhile
                yield record

    def records(self) -> list[Record]:
        """Returns all records; a state made from them is equal to this one."""
        found: list[Record] = [record for table in self._tables.values() for record in list(table.values())]
        found += [version for versions in list(self._versions.values()) for version in list(versions.values())]
        framework = self.get("framework", "framework")
        return [*found, framework] if framework is not None else found

    @property
    def size(self) -> int:
        """Number of records."""
        versions = sum(map(len, list(self._versions.values())))
        return sum(map(len, self._tables.values())) + versions + (self.get("framework", "framework") is not None)

    def settle(self) -> None:
        """Sorts the indexes whose order is that of earlier changes. The decisions of a term follow this order, and a
        state that has followed a store must lead to the same decisions as one that is made from its records. Costs with
        the taskgroups that are not ready and with the active transactions."""
        self.readiness.settle()
        for application, active in self._active_of.items():
            if len(active) > 1:
                self._active_of[application] = dict(
                    sorted(active.items(), key=lambda item: (item[1].created_at, item[0]))
                )

    # --- changing ---------------------------------------------------------------------------------------------

    def apply(self, kind: str, key: Key, record: Record | None) -> Record | None:
        """Puts (or with None removes) a record and keeps the indexes right; returns the one before."""
        before = self.get(kind, key)
        self.change(kind, key, before, record)
        return before

    def change(self, kind: str, key: Key, before: Record | None, record: Record | None) -> None:
        """Like `apply`, but the caller passes the previous record, which it has read before."""
        if record is not None and (at := newest(record)) > self.newest:
            self.newest = at
        match kind:
            case "taskgroup":
                self._apply_taskgroup(key, before, record)  # type: ignore[arg-type]
            case "transaction":
                self._apply_transaction(key, before, record)  # type: ignore[arg-type]
            case "version":
                self._apply_version(key, before, record)  # type: ignore[arg-type]
            case "message":
                self._apply_message(key, before, record)  # type: ignore[arg-type]
            case "revision":
                self._apply_revision(key, record)  # type: ignore[arg-type]
            case "framework":
                self.framework = record if isinstance(record, Framework) else Framework()
            case _:
                put(self._tables[kind], key, record)
                self.indexes.changed(kind, key, before, record)
        if (before is None) is not (record is None):
            self._orders.changed(kind, before, record)
        for watcher in self._watchers.get(kind, ()):
            watcher(key, before, record)

    def watch(self, kinds: Iterable[str], watcher: Watcher) -> None:
        """Calls the watcher with (key, before, after) for every change of these kinds, undone ones included, for sums
        that are kept elsewhere. An error of the watcher leaves the change half done."""
        for kind in kinds:
            self._watchers[kind] = (*self._watchers.get(kind, ()), watcher)

    def _apply_taskgroup(self, key: Key, before: TaskGroup | None, after: TaskGroup | None) -> None:
        group = after or before
        if group is not None:
            self.readiness.changed(group.application_key, key, after)
        self.census.evictions_changed(before, after)
        if before is not None and after is not None and before.agent_id == after.agent_id:
            self._replace_taskgroup(key, before, after)
            if before.hostname != after.hostname or before.agent_ip != after.agent_ip:
                self.indexes.taskgroup_changed(before, after)
            if is_plain(before) and is_plain(after):
                return
        else:
            if before is not None:
                self._remove_taskgroup(key, before)
            if after is not None:
                self._add_taskgroup(key, after)
            self.indexes.taskgroup_changed(before, after)
        self._count_unhealthy(before, after)
        self.census.taskgroup_changed(before, after)

    def _count_unhealthy(self, before: TaskGroup | None, after: TaskGroup | None) -> None:
        was = before is not None and is_unhealthy(before)
        now = after is not None and is_unhealthy(after)
        group = after or before
        if was != now and group is not None:
            add(self._unhealthy_of, group.application_key, now - was)

    def _replace_taskgroup(self, key: Key, before: TaskGroup, after: TaskGroup) -> None:
        """The usual change: a status report. Its identity (application, index) is part of the key."""
        app = after.application_key
        if after.status != before.status:
            counts = self._status_of[app]
            add(counts, before.status, -1)
            counts[after.status] += 1
        self._groups_of[app][key] = self._groups_on[after.agent_id][key] = self.taskgroups[key] = after
        if after.updated_at > self.latest_of[app]:
            self.latest_of[app] = after.updated_at

    def _remove_taskgroup(self, key: Key, group: TaskGroup) -> None:
        app = group.application_key
        add(self._status_of[app], group.status, -1)
        add(self._indexes_of[app], group.index, -1)
        discard(self._groups_on, group.agent_id, key)
        discard(self._groups_of, app, key)
        if app not in self._groups_of:
            del self._status_of[app], self._indexes_of[app], self.latest_of[app]
        del self.taskgroups[key]

    def _add_taskgroup(self, key: Key, group: TaskGroup) -> None:
        app = group.application_key
        if app not in self._groups_of:
            self._groups_of[app], self._status_of[app], self._indexes_of[app] = {}, Counter(), Counter()
        self._groups_of[app][key] = self.taskgroups[key] = group
        self.latest_of[app] = max(self.latest_of.get(app, 0.0), group.updated_at)
        self._status_of[app][group.status] += 1
        self._indexes_of[app][group.index] += 1
        self._groups_on.setdefault(group.agent_id, {})[key] = group

    def _apply_transaction(self, key: Key, before: Transaction | None, after: Transaction | None) -> None:
        if before is not None and (after is None or not after.active):
            discard(self._active_of, before.application_key, key)
        # A queued scale of a deployment begins on the application that the deployment is bound to by then.
        if before is not None and (after is None or after.application_key != before.application_key):
            discard(self._transactions_of, before.application_key, key)
        if after is not None:
            app = after.application_key
            self._transactions_of.setdefault(app, {})[key] = after
            if after.active:
                self._active_of.setdefault(app, {})[key] = after
        if (before is not None and before.waiting) or (after is not None and after.waiting):
            self._requeue(key, before, after)
        self.indexes.transaction_changed(key, before, after)
        put(self.transactions, key, after)

    def _requeue(self, key: Key, before: Transaction | None, after: Transaction | None) -> None:
        """Ids increase with time, so their order is that of the queue, also after a change was undone."""
        if before is not None and before.waiting:
            discard(self._queued_of, before.queue, key)
        if after is not None and after.waiting:
            members = {**self._queued_of.get(after.queue, {}), key: after}
            self._queued_of[after.queue] = dict(sorted(members.items(), key=lambda item: nanoseconds_of(item[0])))

    def _apply_message(self, key: Key, before: Message | None, after: Message | None) -> None:
        if before is not None and (after is None or not after.open):
            discard(self._open_messages, before.taskgroup, key)
        if before is not None and after is None:
            discard(self._messages_of, before.command, key)
        if after is not None:
            self._messages_of.setdefault(after.command, {})[key] = after
            if after.open:
                self._open_messages.setdefault(after.taskgroup, {})[key] = after
        put(self.messages, key, after)

    def _apply_revision(self, key: Key, after: Revision | None) -> None:
        deployment, number = split_part(key)
        if after is None:
            members = self._revisions_of.get(deployment, {})
            members.pop(int(number), None)
            if not members:
                self._revisions_of.pop(deployment, None)
        else:
            self._revisions_of.setdefault(deployment, {})[int(number)] = after
        put(self.revisions, key, after)

    def _apply_version(self, key: Key, before: Version | None, after: Version | None) -> None:
        app, name = split_part(key)
        if after is None:
            discard(self._versions, app, name)
        else:
            self._versions.setdefault(app, {})[name] = after
        self.census.version_changed(app, before, after)
