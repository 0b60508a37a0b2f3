"""The state as a caller of one namespace sees it: every table and every read method, without other namespaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from bcs_scheduler.api.reading.visible import VisibleState
from bcs_scheduler.security.caller import Caller
from store.records import KINDS, Command, Event, EventLog, Message, Namespace, Record, TaskGroup, Transaction
from store.state import TABLES, State
from store.state.reader import StateReader
from tests.golden.write import filled

CALLER = Caller("alice", "token", "viewer", frozenset({"mine"}))
OPEN = {"agent_settings", "custom_kinds", "priority_classes", "queues", "queue_trees"}
"""Tables that belong to no namespace."""
INNER = {"census", "readiness"}
"""Parts of the whole state that the visible one does not have."""
READS = sorted(
    name for name in {*vars(StateReader), *StateReader.__annotations__} if name[0] != "_" and name not in INNER
)
OF_ONE = (
    "versions_of",
    "groups_of",
    "status_counts",
    "unhealthy",
    "unready_of",
    "indexes_of",
    "active_of",
    "transactions_of",
)
"""Methods that are asked by the key of an application."""


def records(namespace: str) -> list[Record]:
    """A record of every kind in the namespace, with fields that refer to each other."""
    found = []
    for cls in KINDS.values():
        record, names = filled(cls), {field.name for field in msgspec.structs.fields(cls)}
        changes: dict[str, Any] = {"id": f"{cls.kind}-{namespace}"} if "id" in names else {}
        changes |= {"namespace": namespace} if "namespace" in names else {}
        if cls is Namespace:
            changes["name"] = namespace
        elif cls is Message:
            changes |= {"command": f"command-{namespace}", "taskgroup": f"taskgroup-{namespace}", "status": "staging"}
        elif cls is TaskGroup:
            group: Any = record
            sick = [msgspec.structs.replace(task, healthy=False, ended=False) for task in group.tasks]
            changes |= {"agent_id": "agent", "tasks": tuple(sick)}
        elif cls is Transaction:
            changes |= {"status": "INIT"}
        elif cls is EventLog:
            changes |= {"events": tuple(event(number, space) for number, space in enumerate(("mine", "other")))}
        found.append(msgspec.structs.replace(record, **changes))
    return found


def event(number: int, namespace: str) -> Event:
    log: Any = filled(EventLog)
    changed: Event = msgspec.structs.replace(log.events[0], number=number, namespace=namespace)
    return changed


@pytest.fixture(scope="module")
def whole() -> State:
    return State([*records("mine"), *records("other")])


@pytest.fixture(scope="module")
def seen(whole: State) -> VisibleState:
    return VisibleState(whole, CALLER)


def test_it_answers_what_a_reader_of_the_state_answers_and_nothing_else(seen: VisibleState) -> None:
    assert sorted(name for name in {*vars(VisibleState), *vars(seen)} if not name.startswith("_")) == READS
    assert not isinstance(seen, State)


@pytest.mark.parametrize("table", sorted(set(READS) & set(TABLES.values()) - OPEN - {"event_logs"}))
def test_a_table_has_only_what_the_caller_sees(table: str, whole: State, seen: VisibleState) -> None:
    shown, everything = getattr(seen, table), getattr(whole, table)
    assert isinstance(shown, Mapping)
    ((key, record),) = shown.items()
    assert "mine" in msgspec.json.encode(record).decode()
    assert [*shown] == [*shown.keys()] == [key] and [*shown.values()] == [record] and len(shown) == 1
    assert key in shown and shown[key] is shown.get(key) is record is everything[key]
    (hidden,) = set(everything) - {key}
    assert hidden not in shown and shown.get(hidden) is None and shown.get(hidden, 1) == 1
    with pytest.raises(KeyError):
        shown[hidden]
    kind = next(kind for kind, name in TABLES.items() if name == table)
    assert seen.get(kind, key) is record
    assert seen.get(kind, hidden) is None


def test_records_of_no_namespace_are_seen_and_runs_of_events_are_cut_down(whole: State, seen: VisibleState) -> None:
    for table in OPEN:
        assert getattr(seen, table) == getattr(whole, table) != {}
    (run,) = seen.event_logs.values()
    assert [told.namespace for told in run.events] == ["mine"]
    assert seen.framework is whole.framework is seen.get("framework", "framework")
    assert seen.get("remnant", next(iter(whole.orphaned_tasks))) is None
    with pytest.raises(KeyError):
        seen.get("no such kind", "a")


def test_answers_about_other_namespaces_are_empty(whole: State, seen: VisibleState) -> None:
    answered = set()
    for group in whole.taskgroups.values():
        for key in {group.application_key, *(t.application_key for t in whole.transactions.values())}:
            for name in OF_ONE:
                expected = getattr(whole, name)(key) if key.startswith("mine/") else type(getattr(whole, name)(key))()
                assert getattr(seen, name)(key) == expected, (name, key)
                answered |= {name} if expected else set()
    assert answered == set(OF_ONE)
    for kind, table in TABLES.items():
        for namespace in ("mine", "other"):
            if keys := whole.indexes.keys_in(kind, namespace):
                assert seen.indexes.keys_in(kind, namespace) == (keys if namespace == "mine" else {}), table
    for namespace in ("mine", "other"):
        waiting = msgspec.structs.replace(whole.transactions[f"transaction-{namespace}"], status="QUEUED")
        queues = State([waiting])
        kind, key = waiting.queue.split(" ", 1)
        assert len(queues.queued_of(kind, key)) == 1
        assert len(VisibleState(queues, CALLER).queued_of(kind, key)) == (namespace == "mine")
    assert {space for _, space in seen.indexes.sizes()} == {"mine"}
    assert seen.indexes.agents_called("agent") == whole.indexes.agents_called("agent")


def test_members_of_commands_agents_and_deployments_are_cut_down(whole: State, seen: VisibleState) -> None:
    assert set(seen.groups_on("agent")) == {"taskgroup-mine"}
    assert seen.agent_ids() == ["agent"]
    assert [message.id for message in seen.open_messages()] == ["message-mine"]
    assert set(seen.open_messages_of("taskgroup-mine")) == {"message-mine"}
    assert not seen.open_messages_of("taskgroup-other") and whole.open_messages_of("taskgroup-other")
    assert set(seen.messages_of("command-mine")) == {"message-mine"}
    assert not seen.messages_of("command-other") and whole.messages_of("command-other")
    assert [transaction.id for transaction in seen.active_transactions()] == ["transaction-mine"]
    for revision in whole.revisions.values():
        assert bool(seen.revisions_of(revision.deployment_key)) == (revision.namespace == "mine")
    for namespace in ("mine", "other"):
        application = next(iter(key for key in whole._versions if key.startswith(namespace)))
        (name,) = whole.versions_of(application)
        assert bool(seen.version(application, name)) == bool(seen.versions_of(application)) == (namespace == "mine")
    assert [record.namespace for _, record in seen.in_order(Command)] == ["mine"]
    assert not [*seen.in_order(Command, ("other",))]
