"""The part of the state that belongs to some namespaces, with the face of the whole.

What a caller may not see does not exist for the handlers that serve them: lists leave it out, look-ups by an id that
names no namespace (taskgroups, messages, transactions) find nothing. So no handler can forget to ask. What is not
known to belong to a namespace is left out too. Settings of agents and the framework belong to everybody's taskgroups
and stay; the operations that show them ask for more than a namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, TypeVar

import msgspec

from bcs_scheduler.security.caller import Caller
from store.ids import namespace_of
from store.indexes import Indexes
from store.ordered import Order
from store.records import Command, Journal, Message, Record, Revision, TaskGroup, Transaction, Version
from store.state import TABLES, Key, State

R = TypeVar("R")
_OWNED = (
    "applications",
    "taskgroups",
    "transactions",
    "config_maps",
    "secrets",
    "commands",
    "deployments",
    "revisions",
    "daemonsets",
    "services",
    "endpoints",
    "webhooks",
    "custom_objects",
)
"""Tables of records that name their namespace."""


class _Table(dict[Key, R]):
    """A table without what `keep` refuses; the whole is looked at when it is asked for, never copied for long.

    A dict by type alone, because that is what State has; it holds nothing itself.
    """

    def __init__(self, whole: Mapping[Key, R], keep: Callable[[R], R | None]) -> None:
        super().__init__()
        self._whole, self._keep = whole, keep

    def get(self, key: Key, default: Any = None) -> Any:
        found = self._whole.get(key)
        kept = None if found is None else self._keep(found)
        return default if kept is None else kept

    def __getitem__(self, key: Key) -> R:
        found: R | None = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.get(key) is not None

    def _kept(self) -> dict[Key, R]:
        shown = ((key, self._keep(value)) for key, value in list(self._whole.items()))
        return {key: value for key, value in shown if value is not None}

    def __iter__(self) -> Iterator[Key]:
        return iter(self._kept())

    def __len__(self) -> int:
        return len(self._kept())

    def __bool__(self) -> bool:
        return bool(self._kept())

    def __eq__(self, other: object) -> bool:
        return self._kept() == other

    __hash__ = None

    def keys(self) -> Any:
        return self._kept().keys()

    def values(self) -> Any:
        return self._kept().values()

    def items(self) -> Any:
        return self._kept().items()

    def copy(self) -> dict[Key, R]:
        return self._kept()


class _VisibleIndexes(Indexes):
    """The indexes that operations of the API ask for, without what the caller does not see."""

    def __init__(self, whole: Indexes, caller: Caller) -> None:  # not Indexes': nothing is copied
        self._whole, self._caller = whole, caller

    def keys_in(self, kind: str, namespace: str) -> Mapping[Key, None]:
        return self._whole.keys_in(kind, namespace) if self._caller.sees(namespace) else {}

    def sizes(self) -> dict[tuple[str, str], int]:
        return {place: size for place, size in self._whole.sizes().items() if self._caller.sees(place[1])}


class VisibleState(State):
    """`State` for one caller. Everything it does not name itself is missing, so an index that is new is an error here
    before it is a leak."""

    def __init__(self, whole: State, caller: Caller) -> None:  # not State's: nothing is copied
        self._whole, self._caller = whole, caller
        self.kept = {}
        self.framework = whole.framework
        self.agent_settings = whole.agent_settings
        self.custom_kinds = whole.custom_kinds
        self.indexes = _VisibleIndexes(whole.indexes, caller)
        self.latest_of = whole.latest_of
        """Asked for by keys of applications that the caller sees."""

        def own(record: Any) -> Any:
            return record if caller.sees(record.namespace) else None

        for name in _OWNED:
            setattr(self, name, _Table(getattr(whole, name), own))
        self.messages = _Table(whole.messages, self._message)
        self.namespaces = _Table(whole.namespaces, lambda record: record if caller.sees(record.name) else None)
        self.journals = _Table(whole.journals, self._journal)
        self.remnants = {}  # no operation shows them
        self._tables = {kind: getattr(self, name) for kind, name in TABLES.items()}

    def _message(self, message: Message) -> Message | None:
        """A message belongs to the namespace of its command, or of the taskgroup it was for."""
        owner: Command | TaskGroup | None = self._whole.commands.get(message.command)
        owner = owner or self._whole.taskgroups.get(message.taskgroup)
        return message if owner is not None and self._caller.sees(owner.namespace) else None

    def _journal(self, journal: Journal) -> Journal:
        shown = tuple(event for event in journal.happenings if self._caller.sees(event.namespace))
        return msgspec.structs.replace(journal, happenings=shown)

    def _sees(self, key: Key) -> bool:
        """Of an object, by its key ``<namespace>/<name>``."""
        return self._caller.sees(namespace_of(key))

    def get(self, kind: str, key: Key) -> Record | None:
        if kind == "version":
            application, _, name = key.rpartition("/")
            return self.version(application, name)
        return super().get(kind, key)

    def in_order(self, kind: str, prefix: Order = (), after: Order | None = None) -> Iterator[tuple[Order, Any]]:
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

    def unhealthy(self, application: Key) -> int:
        return self._whole.unhealthy(application) if self._sees(application) else 0

    def indexes_of(self, application: Key) -> Mapping[int, int]:
        return self._whole.indexes_of(application) if self._sees(application) else {}

    def active_of(self, application: Key) -> Mapping[str, Transaction]:
        return self._whole.active_of(application) if self._sees(application) else {}

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

    def records(self) -> list[Record]:
        raise NotImplementedError("a part of the state is no copy of it")

    def apply(self, kind: str, key: Key, record: Record | None) -> Record | None:
        raise NotImplementedError("the API changes nothing by itself")
