"""The in-memory state: all records plus the indexes kept beside them.

One thread changes it (through store.unit_of_work); any thread may read it, because records are immutable and the
containers are only ever changed by single, atomic dictionary operations. Readers copy a container before they walk it
(``list(state.applications.values())``).

Indexes are derived, never stored: taskgroups by application and by agent, counts per status, the census that placement
constraints ask, the active transactions, and what store.indexes has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from store.census import Census as Census
from store.census import add
from store.indexes import Indexes
from store.ordered import ORDERINGS, Order, Orders
from store.records import (
    AgentSetting,
    Application,
    Command,
    ConfigMap,
    CustomKind,
    CustomObject,
    Daemonset,
    Deployment,
    Endpoint,
    Framework,
    Journal,
    Message,
    Namespace,
    Record,
    Remnant,
    Revision,
    Secret,
    Service,
    TaskGroup,
    Transaction,
    Version,
    Webhook,
)
from store.times import newest

Key = str
K = TypeVar("K")
R = TypeVar("R")
_EMPTY: dict[str, TaskGroup] = {}
_NO_MESSAGES: dict[str, Message] = {}
_NO_TRANSACTIONS: dict[str, Transaction] = {}
_NO_VERSIONS: dict[str, Version] = {}
_NO_REVISIONS: dict[int, Revision] = {}
_NO_COUNTS: Mapping[str, int] = Counter()
_NO_INDEXES: Mapping[int, int] = Counter()

TABLES = {
    "taskgroup": "taskgroups",
    "remnant": "remnants",
    "application": "applications",
    "transaction": "transactions",
    "agentsetting": "agent_settings",
    "configmap": "config_maps",
    "secret": "secrets",
    "command": "commands",
    "message": "messages",
    "deployment": "deployments",
    "revision": "revisions",
    "daemonset": "daemonsets",
    "service": "services",
    "endpoint": "endpoints",
    "namespace": "namespaces",
    "webhook": "webhooks",
    "customkind": "custom_kinds",
    "customobject": "custom_objects",
    "journal": "journals",
}
"""The table of State that has the records of a kind."""


class State:
    """All records, by key, and their indexes. `apply` is the only way in."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        """Records, by kind and key, that are stored but cannot be read, and why. The unit of work does not replace
        them."""
        self.newest = 0.0
        """The newest moment (Unix seconds) that any record has told of, removed ones included: a new leader's clock
        begins no earlier (bcs_scheduler.core.beginning)."""
        self.framework: Framework = Framework()
        self.applications: dict[Key, Application] = {}
        self.taskgroups: dict[Key, TaskGroup] = {}
        self.remnants: dict[Key, Remnant] = {}
        self.transactions: dict[Key, Transaction] = {}
        self.agent_settings: dict[Key, AgentSetting] = {}
        self.config_maps: dict[Key, ConfigMap] = {}
        self.secrets: dict[Key, Secret] = {}
        self.commands: dict[Key, Command] = {}
        self.messages: dict[Key, Message] = {}
        self.deployments: dict[Key, Deployment] = {}
        self.revisions: dict[Key, Revision] = {}
        self.daemonsets: dict[Key, Daemonset] = {}
        self.services: dict[Key, Service] = {}
        self.endpoints: dict[Key, Endpoint] = {}
        self.namespaces: dict[Key, Namespace] = {}
        self.webhooks: dict[Key, Webhook] = {}
        self.custom_kinds: dict[Key, CustomKind] = {}
        self.custom_objects: dict[Key, CustomObject] = {}
        self.journals: dict[Key, Journal] = {}
        self._tables: dict[str, dict[Key, Any]] = {kind: getattr(self, name) for kind, name in TABLES.items()}
        self._revisions_of: dict[Key, dict[int, Revision]] = {}
        self._messages_of: dict[Key, dict[str, Message]] = {}
        self._open_messages: dict[str, dict[str, Message]] = {}
        self._versions: dict[Key, dict[str, Version]] = {}
        self._groups_of: dict[Key, dict[str, TaskGroup]] = {}
        self._groups_on: dict[str, dict[str, TaskGroup]] = {}
        self._status_of: dict[Key, Counter[str]] = {}
        self._indexes_of: dict[Key, Counter[int]] = {}
        self._unhealthy_of: Counter[Key] = Counter()
        self._active_of: dict[Key, dict[str, Transaction]] = {}
        self._transactions_of: dict[Key, dict[str, Transaction]] = {}
        self._orders = Orders()
        self.latest_of: dict[Key, float] = {}
        """When a taskgroup of an application was changed last, by the application's key: Unix seconds. Applications
        without taskgroups are missing."""
        self.census = Census(self._groups_of, self._versions)
        self.indexes = Indexes()
        self._watchers: dict[str, Callable[[Key, Record | None, Record | None], None]] = {}
        for record in records:
            self.apply(record.kind, record.key, record)

    # --- reading ----------------------------------------------------------------------------------------------

    def get(self, kind: str, key: Key) -> Record | None:
        """The record of this kind and key, or None."""
        table = self._tables.get(kind)
        if table is not None:
            found: Record | None = table.get(key)
            return found
        if kind == "version":
            application, _, name = key.rpartition("/")
            return self._versions.get(application, _NO_VERSIONS).get(name)
        if kind == "framework":
            return self.framework if self.framework.id or self.framework.created_at else None
        raise KeyError(kind)

    def versions_of(self, application: Key) -> Mapping[str, Version]:
        """Versions of an application by name."""
        return self._versions.get(application, _NO_VERSIONS)

    def version(self, application: Key, name: str) -> Version | None:
        return self._versions.get(application, _NO_VERSIONS).get(name)

    def groups_of(self, application: Key) -> Mapping[str, TaskGroup]:
        """Taskgroups of an application by id."""
        return self._groups_of.get(application, _EMPTY)

    def groups_on(self, agent_id: str) -> Mapping[str, TaskGroup]:
        """Taskgroups on an agent by id."""
        return self._groups_on.get(agent_id, _EMPTY)

    def status_counts(self, application: Key) -> Mapping[str, int]:
        """How many taskgroups of the application are in which status."""
        return self._status_of.get(application, _NO_COUNTS)

    def unhealthy(self, application: Key) -> int:
        """How many live taskgroups of the application have a task whose health checks fail."""
        return self._unhealthy_of.get(application, 0)

    def unhealthy_applications(self) -> list[Key]:
        """Applications of which `unhealthy` is not 0."""
        return list(self._unhealthy_of)

    def indexes_of(self, application: Key) -> Mapping[int, int]:
        """Indexes that taskgroups of the application hold, with how many hold each."""
        return self._indexes_of.get(application, _NO_INDEXES)

    def active_of(self, application: Key) -> Mapping[str, Transaction]:
        """Transactions of an application that have not ended, by id."""
        return self._active_of.get(application, _NO_TRANSACTIONS)

    def transactions_of(self, application: Key) -> Mapping[str, Transaction]:
        """All remembered transactions of an application, by id."""
        return self._transactions_of.get(application, _NO_TRANSACTIONS)

    def messages_of(self, command: Key) -> Mapping[str, Message]:
        """Messages of a command by id."""
        return self._messages_of.get(command, _NO_MESSAGES)

    def open_messages_of(self, taskgroup: str) -> Mapping[str, Message]:
        """Messages to a taskgroup that have not been answered, by id."""
        return self._open_messages.get(taskgroup, _NO_MESSAGES)

    def open_messages(self) -> list[Message]:
        return [m for group in list(self._open_messages.values()) for m in list(group.values())]

    def revisions_of(self, deployment: Key) -> Mapping[int, Revision]:
        """Revisions of a deployment that are kept, by number."""
        return self._revisions_of.get(deployment, _NO_REVISIONS)

    def active_transactions(self) -> list[Transaction]:
        return [t for group in list(self._active_of.values()) for t in list(group.values())]

    def agent_ids(self) -> list[str]:
        """Agents that hold taskgroups."""
        return list(self._groups_on)

    def in_order(self, kind: str, prefix: Order = (), after: Order | None = None) -> Iterator[tuple[Order, Any]]:
        """Records of a kind of store.ordered.ORDERINGS with their orders, smallest first: those whose order begins with
        `prefix`, and is greater than `after`. Costs with what is read. Raises TypeError if `after` is no order of this
        kind."""
        table, key_of, length = self._tables[kind], ORDERINGS[kind].key, len(prefix)
        begin = prefix if after is None or prefix > after else after
        for order in self._orders.of(kind).after(begin or None):
            if order[:length] != prefix:
                return
            record = table.get(key_of(order))
            if record is not None:  # removed meanwhile
                yield order, record

    def records(self) -> list[Record]:
        """All of them: what a state equal to this one can be made from."""
        found: list[Record] = [record for table in self._tables.values() for record in list(table.values())]
        found += [version for versions in list(self._versions.values()) for version in list(versions.values())]
        framework = self.get("framework", "framework")
        return [*found, framework] if framework is not None else found

    @property
    def size(self) -> int:
        """How many records there are."""
        versions = sum(map(len, list(self._versions.values())))
        return sum(map(len, self._tables.values())) + versions + (self.get("framework", "framework") is not None)

    # --- changing ---------------------------------------------------------------------------------------------

    def apply(self, kind: str, key: Key, record: Record | None) -> Record | None:
        """Puts (or with None removes) a record and keeps the indexes right; returns the one before."""
        before = self.get(kind, key)
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
                _set(self._tables[kind], key, record)
                self.indexes.changed(kind, key, before, record)
        if (before is None) is not (record is None):
            self._orders.changed(kind, before, record)
        watcher = self._watchers.get(kind)
        if watcher is not None:
            watcher(key, before, record)
        return before

    def watch(self, kinds: Iterable[str], watcher: Callable[[Key, Record | None, Record | None], None]) -> None:
        """Has every change of these kinds told (key, before, after), undone ones too: for sums that are kept elsewhere.
        One watcher per kind."""
        self._watchers |= dict.fromkeys(kinds, watcher)

    def _apply_taskgroup(self, key: Key, before: TaskGroup | None, after: TaskGroup | None) -> None:
        if before is not None and after is not None and before.agent_id == after.agent_id:
            self._replace_taskgroup(key, before, after)
            if (before.hostname, before.agent_ip) != (after.hostname, after.agent_ip):
                self.indexes.taskgroup_changed(before, after)
        else:
            if before is not None:
                self._remove_taskgroup(key, before)
            if after is not None:
                self._add_taskgroup(key, after)
            self.indexes.taskgroup_changed(before, after)
        self._count_unhealthy(before, after)
        self.census.taskgroup_changed(before, after)

    def _count_unhealthy(self, before: TaskGroup | None, after: TaskGroup | None) -> None:
        was = before is not None and _unhealthy(before)
        now = after is not None and _unhealthy(after)
        group = after or before
        if was != now and group is not None:
            add(self._unhealthy_of, f"{group.namespace}/{group.application}", now - was)

    def _replace_taskgroup(self, key: Key, before: TaskGroup, after: TaskGroup) -> None:
        """The usual change: a status report. Its identity (application, index) is part of the key."""
        app = f"{after.namespace}/{after.application}"
        if after.status != before.status:
            counts = self._status_of[app]
            add(counts, before.status, -1)
            counts[after.status] += 1
        self._groups_of[app][key] = self._groups_on[after.agent_id][key] = self.taskgroups[key] = after
        if after.updated_at > self.latest_of[app]:
            self.latest_of[app] = after.updated_at

    def _remove_taskgroup(self, key: Key, group: TaskGroup) -> None:
        app = f"{group.namespace}/{group.application}"
        add(self._status_of[app], group.status, -1)
        add(self._indexes_of[app], group.index, -1)
        _discard(self._groups_on, group.agent_id, key)
        _discard(self._groups_of, app, key)
        if app not in self._groups_of:
            del self._status_of[app], self._indexes_of[app], self.latest_of[app]
        del self.taskgroups[key]

    def _add_taskgroup(self, key: Key, group: TaskGroup) -> None:
        app = f"{group.namespace}/{group.application}"
        if app not in self._groups_of:
            self._groups_of[app], self._status_of[app], self._indexes_of[app] = {}, Counter(), Counter()
        self._groups_of[app][key] = self.taskgroups[key] = group
        self.latest_of[app] = max(self.latest_of.get(app, 0.0), group.updated_at)
        self._status_of[app][group.status] += 1
        self._indexes_of[app][group.index] += 1
        self._groups_on.setdefault(group.agent_id, {})[key] = group

    def _apply_transaction(self, key: Key, before: Transaction | None, after: Transaction | None) -> None:
        if before is not None and (after is None or not after.active):
            _discard(self._active_of, f"{before.namespace}/{before.application}", key)
        if before is not None and after is None:
            _discard(self._transactions_of, f"{before.namespace}/{before.application}", key)
        if after is not None:
            app = f"{after.namespace}/{after.application}"
            self._transactions_of.setdefault(app, {})[key] = after
            if after.active:
                self._active_of.setdefault(app, {})[key] = after
        _set(self.transactions, key, after)

    def _apply_message(self, key: Key, before: Message | None, after: Message | None) -> None:
        if before is not None and (after is None or not after.open):
            _discard(self._open_messages, before.taskgroup, key)
        if before is not None and after is None:
            _discard(self._messages_of, before.command, key)
        if after is not None:
            self._messages_of.setdefault(after.command, {})[key] = after
            if after.open:
                self._open_messages.setdefault(after.taskgroup, {})[key] = after
        _set(self.messages, key, after)

    def _apply_revision(self, key: Key, after: Revision | None) -> None:
        deployment, _, number = key.rpartition("/")
        if after is None:
            members = self._revisions_of.get(deployment, {})
            members.pop(int(number), None)
            if not members:
                self._revisions_of.pop(deployment, None)
        else:
            self._revisions_of.setdefault(deployment, {})[int(number)] = after
        _set(self.revisions, key, after)

    def _apply_version(self, key: Key, before: Version | None, after: Version | None) -> None:
        app, _, name = key.rpartition("/")
        if after is None:
            _discard(self._versions, app, name)
        else:
            self._versions.setdefault(app, {})[name] = after
        self.census.version_changed(app, before, after)


def _unhealthy(group: TaskGroup) -> bool:
    for task in group.tasks:  # noqa: SIM110 (asked twice per status report)
        if task.healthy is False and not task.ended:
            return True
    return False


def _set(table: dict[Key, R], key: Key, record: object) -> None:
    if record is None:
        table.pop(key, None)
    else:
        table[key] = record  # type: ignore[assignment]


def _discard(index: dict[str, dict[str, R]], outer: str, inner: str) -> None:
    members = index.get(outer)
    if members is not None:
        members.pop(inner, None)
        if not members:
            del index[outer]
