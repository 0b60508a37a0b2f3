"""The indexes of the state say what a look at all records would say, also after changes that were undone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from store.records import (
    Application,
    ConfigMap,
    CustomKind,
    CustomObject,
    Record,
    ReschedulePayload,
    TaskGroup,
    Transaction,
    Version,
)
from store.state import State
from store.state.unit_of_work import UnitOfWork

SPACES = ("a", "b")
NAMES = ("x", "y", "z")
LABELS: tuple[dict[str, str], ...] = ({}, {"app": "x"}, {"app": "x", "tier": "web"}, {"tier": "web"})


def _record(draw: random.Random) -> Record:
    space, name = draw.choice(SPACES), draw.choice(NAMES)
    makers: tuple[Callable[[], Record], ...] = (
        lambda: Application(
            namespace=space, name=name, labels=draw.choice(LABELS), deployment=draw.choice(("", "x", "y"))
        ),
        lambda: ConfigMap(namespace=space, name=name),
        lambda: CustomKind(name=draw.choice(("Kind", "kind", "Kinds"))),
        lambda: CustomObject(type=draw.choice(("Kind", "Kinds")), namespace=space, name=name),
        lambda: Version(namespace=space, application=name, name=draw.choice("12"), labels=draw.choice(LABELS)),
        lambda: TaskGroup(
            id=f"0.{name}.{space}.c.1",
            namespace=space,
            application=name,
            index=0,
            version="1",
            agent_id=draw.choice(("a1", "a2")),
            hostname=draw.choice(("h1", "h2")),
            agent_ip=draw.choice(("h1", "10.0.0.1")),
        ),
        lambda: Transaction(
            id=f"application-{draw.choice('123')}",
            type="RESCHEDULE",
            namespace=space,
            application=name,
            created_at=1.0,
            due_at=1.0,
            deadline=2.0,
            payload=ReschedulePayload(drained=draw.choice(("", "h1", "h2"))),
        ),
    )
    return draw.choice(makers)()


def _pairs(labels: dict[str, str]) -> Iterator[tuple[str, str]]:
    yield from labels.items()


def _check(state: State) -> None:
    indexes, census = state.indexes, state.census
    tables: dict[str, Mapping[str, Any]] = {
        "application": state.applications,
        "configmap": state.config_maps,
        "customobject": state.custom_objects,
    }
    sizes = {}
    for kind, table in tables.items():
        for space in SPACES:
            there = {key for key, record in table.items() if record.namespace == space}
            assert set(indexes.keys_in(kind, space)) == there
            if there:
                sizes[kind, space] = len(there)
    assert indexes.sizes() == sizes
    applications = state.applications.values()
    for space in SPACES:
        for pair in {pair for labels in LABELS for pair in _pairs(labels)}:
            expected = {a.key for a in applications if a.namespace == space and pair in a.labels.items()}
            assert set(indexes.applications_labelled(space, *pair)) == expected
            defined = {
                f"{space}/{name}"
                for name in NAMES
                if any(pair in version.labels.items() for version in state.versions_of(f"{space}/{name}").values())
            }
            assert set(census.applications_with(space, *pair)) == defined
        for name in NAMES:
            owned = {a.key for a in applications if (a.namespace, a.deployment) == (space, name)}
            assert set(indexes.applications_owned(space, name)) == owned
    for kind in ("Kind", "Kinds"):
        assert indexes.objects_of(kind) == sum(custom.type == kind for custom in state.custom_objects.values())
    assert set(indexes.custom_kinds_like("KIND")) == {name for name in state.custom_kinds if name.lower() == "kind"}
    for called in ("h1", "h2", "10.0.0.1"):
        holders = {g.agent_id for g in state.taskgroups.values() if called in (g.hostname, g.agent_ip)}
        assert set(indexes.agents_called(called)) == holders
    for drained in ("h1", "h2"):
        moves = {t.id for t in state.transactions.values() if ReschedulePayload.of(t).drained == drained}
        assert set(indexes.drained_from(drained)) == moves


def test_indexes_agree_with_a_look_at_all_records() -> None:
    for seed in range(30):
        draw = random.Random(seed)
        state = State()
        work = UnitOfWork(state)
        for _ in range(80):
            record = _record(draw)
            if draw.random() < 0.6:
                work.put(record)
            else:
                work.delete(record)
            if draw.random() < 0.2:
                work.rollback()
            elif draw.random() < 0.5:
                work.cut()
            _check(state)
        _check(State(state.records()))


def test_what_is_new_in_a_unit_of_work_was_not_there_at_its_beginning() -> None:
    state = State([ConfigMap(namespace="a", name="x")])
    work = UnitOfWork(state)
    old = work.put(ConfigMap(namespace="a", name="x", labels={"changed": "1"}))
    new = work.put(ConfigMap(namespace="a", name="y"))
    new = work.put(ConfigMap(namespace="a", name="y", labels={"changed": "2"}))
    assert (work.is_new(old), work.is_new(new)) == (False, True)
    work.cut()
    assert not work.is_new(new)
