"""store.state.replica and store.state: dropped states leave nothing behind; replicas take over what a follower
tells."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from store.base import Change, Followed, Quarantined
from store.records import Application, Task, TaskGroup, Transaction, Version
from store.state import State
from store.state.replica import Replica
from store.state.validation import wrong_index


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def app(name: str = "web", **fields: object) -> Application:
    return Application(namespace="ns", name=name, **fields)  # type: ignore[arg-type]


def test_a_state_that_nobody_uses_is_freed_without_the_collector(no_collector: None) -> None:
    group = TaskGroup(
        id="0.web.ns.c.1",
        namespace="ns",
        application="web",
        index=0,
        version="1",
        agent_id="a",
        tasks=(Task(id="1.0.0.web.ns.c.1", name="0", status="Running"),),
    )
    version = Version(namespace="ns", application="web", name="1", labels={"l": "v"})
    for _ in range(50):
        state = State([app(), version, group])
        assert set(state.census.agents_with_label("l:v", "ns/other")) == {"a"}
        dropped = weakref.ref(state)
        del state
        assert dropped() is None


def test_a_replica_that_reads_everything_again_keeps_its_state(no_collector: None) -> None:
    replica = Replica()
    state = replica.state
    first = [app(str(n)) for n in range(100)]
    replica.apply(Followed([Change("application", r.key, r) for r in first], []))
    before = {key: id(record) for key, record in state.applications.items()}
    for _ in range(50):
        replica.apply(Followed([Change("application", r.key, app(r.name)) for r in first], []))
    assert replica.state is state and len(replica) == 100
    assert {key: id(record) for key, record in state.applications.items()} == before, "equal records are not replaced"


def test_a_record_that_becomes_unreadable_is_no_longer_in_the_state() -> None:
    replica = Replica()
    replica.apply(Followed([Change("application", "ns/web", app())], []))
    bad = Quarantined("application", "ns/web", "it is damaged")
    replica.apply(Followed([Change("application", "ns/web", None)], [bad]))
    assert replica.state.applications == {} and replica.quarantined == {("application", "ns/web"): bad}
    replica.apply(Followed([Change("application", "ns/web", app())], []))
    assert replica.quarantined == {} and set(replica.state.applications) == {"ns/web"}


def test_what_cannot_be_decoded_may_be_of_a_kind_of_a_newer_layout() -> None:
    replica = Replica()
    replica.apply(Followed([Change("gadget", "g/1", None)], [Quarantined("gadget", "g/1", "unknown kind")]))
    assert set(replica.quarantined) == {("gadget", "g/1")}
    replica.apply(Followed([Change("gadget", "g/1", None)], []))
    assert len(replica) == 0


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "with others"])
def test_a_record_that_the_indexes_cannot_take_is_quarantined(alone: bool) -> None:
    replica = Replica()
    others = [] if alone else [app("first"), transaction(2)]
    replica.apply(Followed([Change(record.kind, record.key, record) for record in others[:1]], []))
    bad = transaction(1, created_at=1e306)
    read = Followed([Change(record.kind, record.key, record) for record in (bad, *others[1:])], [])
    assert replica.apply(read) == len(read.changes)
    assert replica.quarantined[bad.kind, bad.key].error.startswith("the indexes cannot take it: OverflowError")
    assert len(replica) == 1 + len(others)
    assert {record.key for record in replica.state.records()} == {record.key for record in others}
    assert replica.state.newest < 1e300 and wrong_index(replica.state, State(replica.state.records())) == "", (
        "nothing of it is left in the state"
    )
    repaired = transaction(1)
    replica.apply(Followed([Change(bad.kind, bad.key, repaired)], []))
    assert replica.quarantined == {} and replica.state.transactions[bad.key] == repaired


def transaction(number: int, created_at: float = 1.0) -> Transaction:
    return Transaction(
        id=f"application-{number}",
        namespace="ns",
        application="web",
        type="LAUNCH",
        created_at=created_at,
        due_at=created_at,
        deadline=created_at,
    )
