"""A read-only view of State, restricted to the namespaces that a caller may see.

An object that a caller may not see does not exist for the handlers that serve this caller: lists leave the object out,
look-ups by an id that names no namespace (taskgroups, messages, transactions) find nothing. So no handler can omit the
check. Objects whose namespace is unknown are left out too. Settings of agents and the framework concern the taskgroups
of all namespaces and stay; the operations that show them require the right in all namespaces.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from itertools import chain
from typing import Any, Protocol, TypeVar

import msgspec

from bcs_scheduler.security.caller import Caller
from store.ids import namespace_of, split_part
from store.records import Command, EventLog, Message, Namespace, Record, Revision, TaskGroup, Transaction, Version
from store.state import TABLES, Key
from store.state.ordered import Order
from store.state.reader import IndexReader, StateReader


class _Namespaced(Protocol):
    """A record that names its namespace."""

    @property
    def namespace(self) -> str: ...


R = TypeVar("R")
RecordT = TypeVar("RecordT", bound=Record)
N = TypeVar("N", bound=_Namespaced)


class _Table(Mapping[Key, R]):
    """A table without the records that `keep` refuses (None). The whole table is filtered when a caller iterates; the
    copy is not kept."""

    def __init__(self, whole: Mapping[Key, R], keep: Callable[[R], R | None]) -> None:
        self._whole, self._keep = whole, keep

    def __getitem__(self, key: Key) -> R:
        kept = self._keep(self._whole[key])
        if kept is None:
            raise KeyError(key)
        return kept

    def get(self, key: Key, default: Any = None) -> Any:
        """The `get` of a mapping, without an internal exception for absent keys."""
        found = self._whole.get(key)
        kept = None if found is None else self._keep(found)
        return default if kept is None else kept

    def _kept(self) -> dict[Key, R]:
        shown = ((key, self._keep(value)) for key, value in list(self._whole.items()))
        return {key: value for key, value in shown if value is not None}

    def __iter__(self) -> Iterator[Key]:
        return iter(self._kept())

    def __len__(self) -> int:
        return len(self._kept())

    def keys(self) -> KeysView[Key]:
        return self._kept().keys()

    def values(self) -> ValuesView[R]:
        return self._kept().values()

    def items(self) -> ItemsView[Key, R]:
        return self._kept().items()


class _VisibleIndexes:
    """The indexes that operations of the API use, without the objects that the caller may not see."""

    def __init__(self, whole: IndexReader, caller: Caller) -> None:
        self._whole, self._caller = whole, caller

    def keys_in(self, kind: str, namespace: str) -> Mapping[Key, None]:
        return self._whole.keys_in(kind, namespace) if self._caller.sees(namespace) else {}

    def applications_in(self, group: Key) -> Mapping[Key, None]:
        """Applications and groups have the same namespace: the caller sees both or none."""
        return self._whole.applications_in(group)

    def managed_by(self, kind: str, application: Key) -> Mapping[Key, None]:
        return self._whole.managed_by(kind, application) if self._caller.sees(namespace_of(application)) else {}

    def agents_called(self, name: str) -> list[str]:
        """Agents belong to no namespace; on them the caller finds only the taskgroups that the caller may see."""
        return self._whole.agents_called(name)

    def drained_from(self, agent: str) -> Mapping[Key, None]:
        """Like `agents_called`: the caller finds only the transactions that the caller may see."""
        return self._whole.drained_from(agent)

    def sizes(self) -> dict[tuple[str, str], int]:
        return {place: size for place, size in self._whole.sizes().items() if self._caller.sees(place[1])}


class VisibleState(StateReader):
    """A StateReader for one caller. The class names all its tables and read methods itself; one that is missing here
    finds no table and fails, and shows nothing."""

    def __init__(self, whole: StateReader, caller: Caller) -> None:
        self._whole, self._caller = whole, caller
        self.moment = whole.moment
        self.framework = whole.framework
        self.agent_settings = whole.agent_settings
        self.custom_kinds = whole.custom_kinds
        self.queues = whole.queues
        self.queue_trees = whole.queue_trees
        self.priority_classes = whole.priority_classes
        self.indexes = _VisibleIndexes(whole.indexes, caller)
        self.latest_of = whole.latest_of
        """Asked for by keys of applications that the caller sees."""

        def own(table: Mapping[Key, N]) -> Mapping[Key, N]:
            return _Table(table, lambda record: record if caller.sees(record.namespace) else None)

        self.applications = own(whole.applications)
        self.taskgroups = own(whole.taskgroups)
        self.transactions = own(whole.transactions)
        self.config_maps = own(whole.config_maps)
        self.secrets = own(whole.secrets)
        self.commands = own(whole.commands)
        self.outputs = own(whole.outputs)
        self.deployments = own(whole.deployments)
        self.revisions = own(whole.revisions)
        self.pod_groups = own(whole.pod_groups)
        self.managed_applications = own(whole.managed_applications)
        self.managed_tasks = own(whole.managed_tasks)
        self.placeholders = own(whole.placeholders)
        self.daemonsets = own(whole.daemonsets)
        self.services = own(whole.services)
        self.endpoints = own(whole.endpoints)
        self.webhooks = own(whole.webhooks)
        self.custom_objects = own(whole.custom_objects)
        self.messages: Mapping[Key, Message] = _Table(whole.messages, self._message)
        self.namespaces: Mapping[Key, Namespace] = _Table(
            whole.namespaces, lambda record: record if caller.sees(record.name) else None
        )
        self.event_logs: Mapping[Key, EventLog] = _Table(whole.event_logs, self._event_log)

    def _message(self, message: Message) -> Message | None:
        """A message belongs to the namespace of its command, or of the taskgroup it was for."""
        owner: Command | TaskGroup | None = self._whole.commands.get(message.command)
        owner = owner or self._whole.taskgroups.get(message.taskgroup)
        return message if owner is not None and self._caller.sees(owner.namespace) else None

    def _event_log(self, event_log: EventLog) -> EventLog:
        shown = tuple(event for event in event_log.events if self._caller.sees(event.namespace))
        return msgspec.structs.replace(event_log, events=shown)

    def _sees(self, key: Key) -> bool:
        """True if the caller may see the object with this key ``<namespace>/<name>``."""
        return self._caller.sees(namespace_of(key))

    def get(self, kind: str, key: Key) -> Record | None:
        if kind == "version":
            application, name = split_part(key)
            return self.version(application, name)
        if kind == "framework":
            return self._whole.get(kind, key)
        table: Mapping[Key, Record] = getattr(self, TABLES[kind], {})  # no operation shows orphaned tasks
        return table.get(key)

    def in_order(
        self, kind: type[RecordT], prefix: Order = (), after: Order | None = None
    ) -> Iterator[tuple[Order, RecordT]]:
        """Looks only at the caller's namespaces, however many others there are."""
        if prefix:
            return self._whole.in_order(kind, prefix, after) if self._caller.sees(str(prefix[0])) else iter(())
        mine = sorted(self._caller.namespaces or ())
        return chain.from_iterable(self._whole.in_order(kind, (namespace,), after) for namespace in mine)

    def versions_of(self, application: Key) -> Mapping[str, Version]:
        return self._whole.versions_of(application) if self._sees(application) else {}

    def version(self, application: Key, name: str) -> Version | None:
        return self._whole.version(application, name) if self._sees(application) else None

    def groups_of(self, application: Key) -> Mapping[str, TaskGroup]:
        return self._whole.groups_of(application) if self._sees(application) else {}

    def groups_on(self, agent_id: str) -> Mapping[str, TaskGroup]:
        found = dict(self._whole.groups_on(agent_id))
        return {id: group for id, group in found.items() if self._caller.sees(group.namespace)}

    def status_counts(self, application: Key) -> Mapping[str, int]:
        return self._whole.status_counts(application) if self._sees(application) else {}

    def evicted(self, application: Key) -> Mapping[str, int]:
        return self._whole.evicted(application) if self._sees(application) else {}

    def held(self) -> Mapping[tuple[str, str], Mapping[str, int]]:
        return {owner: found for owner, found in self._whole.held().items() if self._caller.sees(owner[0])}

    def unhealthy(self, application: Key) -> int:
        return self._whole.unhealthy(application) if self._sees(application) else 0

    def unready_of(self, application: Key) -> list[TaskGroup]:
        return self._whole.unready_of(application) if self._sees(application) else []

    def indexes_of(self, application: Key) -> Mapping[int, int]:
        return self._whole.indexes_of(application) if self._sees(application) else {}

    def active_of(self, application: Key) -> Mapping[str, Transaction]:
        return self._whole.active_of(application) if self._sees(application) else {}

    def queued_of(self, kind: str, key: Key) -> Mapping[str, Transaction]:
        return self._whole.queued_of(kind, key) if self._sees(key) else {}

    def transactions_of(self, application: Key) -> Mapping[str, Transaction]:
        return self._whole.transactions_of(application) if self._sees(application) else {}

    def messages_of(self, command: Key) -> Mapping[str, Message]:
        found = self._whole.commands.get(command)
        return self._whole.messages_of(command) if found is not None and self._caller.sees(found.namespace) else {}

    def open_messages_of(self, taskgroup: str) -> Mapping[str, Message]:
        found = self._whole.taskgroups.get(taskgroup)
        return (
            self._whole.open_messages_of(taskgroup) if found is not None and self._caller.sees(found.namespace) else {}
        )

    def open_messages(self) -> list[Message]:
        return [message for message in self._whole.open_messages() if self._message(message) is not None]

    def revisions_of(self, deployment: Key) -> Mapping[int, Revision]:
        return self._whole.revisions_of(deployment) if self._sees(deployment) else {}

    def active_transactions(self) -> list[Transaction]:
        return [found for found in self._whole.active_transactions() if self._caller.sees(found.namespace)]

    def agent_ids(self) -> list[str]:
        return [agent for agent in self._whole.agent_ids() if self.groups_on(agent)]
