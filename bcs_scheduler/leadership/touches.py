"""The objects that look different after durable changes of records: the source of the streams of lists.

The view of an object depends on other records too: that of an application counts its taskgroups, that of an agent sums
them. A `Touch` names an object whose view may have changed; the view itself is made where it is read. Touches are
numbered, and the last ones are remembered, each object once, so that a reader who was away resumes without reading the
whole list again. The numbers are valid within one term.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from offers.agents import ListedAgent
from store.base import Change
from store.ids import TaskGroupId, namespace_of, object_key
from store.records import DEFAULT_QUEUE, Application, Namespace, TaskGroup, Transaction
from store.state import State
from transactions.rules.queues import queue_of

REMEMBERED = 20_000
"""Objects that are remembered with their last touch."""
Name = tuple[str, str]
"""Kind and name of an object. The names are those of records; an agent has its id, or the key of its settings if the
cluster manager does not list it."""


class Touch(NamedTuple):
    """The object may look different, or it is gone. `namespace` is empty for objects without a namespace."""

    kind: str
    name: str
    namespace: str
    position: int
    """Number of the touch in its term, from 1 on."""


class Touches:
    """The touches of a term. Any thread may call each method."""

    def __init__(self, state: State, epoch: int = 0, most: int = REMEMBERED) -> None:
        """`most`: objects that are remembered."""
        self.epoch = epoch
        self._state = state
        self._most = most
        self._lock = threading.Lock()
        self._last: OrderedDict[Name, Touch] = OrderedDict()
        """The last touch of each object, the newest at the end."""
        self._forgotten = 0
        """Position of the newest touch that is no longer remembered."""
        self.position = 0
        """Position of the newest touch."""
        self._homes = {id: transaction.namespace for id, transaction in state.transactions.items()}
        """Namespaces of transactions: the id of a removed one does not name its namespace."""
        self._agents: Mapping[str, ListedAgent] = {}
        self._ids_of: Mapping[str, Sequence[str]] = {}
        """Ids of the listed agents by the key of their settings."""

    def note(self, changes: Iterable[Change]) -> list[Touch]:
        """Returns the touches by changes that are durable now, each object once."""
        found: dict[Name, str] = {}
        for change in changes:
            self._examine(found, change)
        return self._numbered(found)

    def skip(self, changes: Iterable[Change]) -> None:
        """Forgets all touches instead of noting those of the changes, while there is no reader. A reader that comes
        back later has to read the whole list again."""
        for change in changes:
            if change.kind == "transaction":
                self._settle(change.key, change.record if isinstance(change.record, Transaction) else None)
        self.forget()

    def note_agents(self, listed: Sequence[ListedAgent]) -> list[Touch]:
        """Returns the touches of the agents that differ from the last list of the cluster manager. `listed` must not be
        changed later."""
        before, now = self._agents, {agent.id: agent for agent in listed}
        self._agents, ids = now, defaultdict[str, list[str]](list)
        for agent in listed:
            ids[agent.key].append(agent.id)
        self._ids_of = dict(ids)
        changed = [agent.id for agent in listed if _shown(before.get(agent.id)) != _shown(agent)]
        return self._numbered({("agent", id): "" for id in (*changed, *(before.keys() - now.keys()))})

    def since(self, position: int) -> list[Touch] | None:
        """Returns the last touch of each object that was touched after a position, oldest first; None if they are no
        longer all remembered."""
        with self._lock:
            if not self._forgotten <= position <= self.position:
                return None
            found: list[Touch] = []
            for touch in reversed(self._last.values()):
                if touch.position <= position:
                    break
                found.append(touch)
        found.reverse()
        return found

    def forget(self) -> None:
        """Forgets all touches: every reader has to read the whole list again."""
        with self._lock:
            self._last.clear()
            self.position += 1
            self._forgotten = self.position

    def _numbered(self, found: Mapping[Name, str]) -> list[Touch]:
        touches: list[Touch] = []
        with self._lock:
            for (kind, name), namespace in found.items():
                self.position += 1
                touch = Touch(kind, name, namespace, self.position)
                self._last[kind, name] = touch
                self._last.move_to_end((kind, name))
                touches.append(touch)
            while len(self._last) > self._most:
                self._forgotten = self._last.popitem(last=False)[1].position
        return touches

    def _examine(self, found: dict[Name, str], change: Change) -> None:
        """Adds the objects whose views depend on the record."""
        kind, key, record = change.kind, change.key, change.record
        if kind == "taskgroup":
            self._taskgroup(found, key, record if isinstance(record, TaskGroup) else None)
        elif kind == "application":
            self._application(found, key, record if isinstance(record, Application) else None)
        elif kind == "transaction":
            self._transaction(found, key, record if isinstance(record, Transaction) else None)
        elif kind == "deployment":
            found[kind, key] = namespace_of(key)
        elif kind == "agentsetting":
            self._setting(found, key)
        elif kind == "queue":
            found[kind, key] = ""
        elif kind == "namespace":
            # Its queue may be another one than before, which the record no longer names.
            named = record.queue if isinstance(record, Namespace) else ""
            found |= {("queue", name): "" for name in (*list(self._state.queues), named, DEFAULT_QUEUE) if name}

    def _taskgroup(self, found: dict[Name, str], id: str, group: TaskGroup | None) -> None:
        parts = TaskGroupId.parse(id)
        if parts is None:
            return
        owner = parts.owner
        found["taskgroup", id] = parts.namespace
        if group is not None and group.agent_id:
            found["agent", group.agent_id] = ""
        found["queue", queue_of(self._state, parts.namespace)] = ""
        for transaction in list(self._state.active_of(owner)):
            found["transaction", transaction] = parts.namespace
        self._application(found, owner, self._state.applications.get(owner))

    def _application(self, found: dict[Name, str], key: str, application: Application | None) -> None:
        namespace = namespace_of(key)
        found["application", key] = namespace
        if application is not None and application.deployment:
            found["deployment", object_key(namespace, application.deployment)] = namespace

    def _transaction(self, found: dict[Name, str], id: str, transaction: Transaction | None) -> None:
        found["transaction", id] = self._settle(id, transaction)
        if transaction is None:
            return
        self._application(found, transaction.application_key, self._state.applications.get(transaction.application_key))
        queue, _, owner = transaction.queue.partition(" ")
        if queue == "deployment":
            found[queue, owner] = transaction.namespace

    def _settle(self, id: str, transaction: Transaction | None) -> str:
        """Keeps the namespace of a transaction until its removal, and returns it."""
        if transaction is None:
            return self._homes.pop(id, "")
        self._homes[id] = transaction.namespace
        return transaction.namespace

    def _setting(self, found: dict[Name, str], key: str) -> None:
        """An agent is listed under its id, and settings without a listed agent under their key."""
        found["agent", key] = ""
        found |= {("agent", id): "" for id in self._state.indexes.agents_called(key)}
        found |= {("agent", id): "" for id in self._ids_of.get(key, ())}


def _shown(agent: ListedAgent | None) -> object:
    """The facts about an agent that its view has."""
    if agent is None:
        return None
    return agent.hostname, agent.ip, agent.active, agent.attributes, agent.total, agent.registered_time
