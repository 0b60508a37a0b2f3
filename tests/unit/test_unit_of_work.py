"""Savepoints of a unit of work: what is undone leaves state, changes and sizes as they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.records import Namespace, Queue, Record
from store.state import State
from store.state.unit_of_work import UnitHeld, UnitOfWork

RECORDS: tuple[Record, ...] = tuple(
    kind(name=name, labels={"n": str(number)})
    for kind in (Namespace, Queue)
    for name in ("a", "b")
    for number in range(3)
)
STEP = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(RECORDS)),
    st.tuples(st.just("delete"), st.sampled_from(RECORDS)),
    st.tuples(st.just("effect"), st.sampled_from(RECORDS)),
    st.tuples(st.just("measure"), st.sampled_from(RECORDS)),
)
STEPS = st.lists(STEP, max_size=12)


def carry_out(uow: UnitOfWork, steps: list[tuple[str, Record]]) -> None:
    for step, record in steps:
        if step == "put":
            uow.put(record)
        elif step == "delete":
            uow.delete(record)
        elif step == "effect":
            uow.effect(record)
        else:
            uow.size()


def seen(uow: UnitOfWork) -> tuple[object, ...]:
    state = {(record.kind, record.key): record for record in uow.state.records()}
    changes = {name: uow.state.get(*name) for name in uow.changed()}
    return state, changes, uow.size(), list(uow.effects)


@given(STEPS, STEPS, STEPS, STEPS)
def test_undone_steps_leave_nothing_behind(
    stored: list[tuple[str, Record]],
    first: list[tuple[str, Record]],
    undone: list[tuple[str, Record]],
    last: list[tuple[str, Record]],
) -> None:
    tried, plain = UnitOfWork(State([])), UnitOfWork(State([]))
    for uow in (tried, plain):
        carry_out(uow, stored)
        uow.cut()
        carry_out(uow, first)
    point = tried.savepoint()
    before = seen(tried)
    carry_out(tried, undone)
    tried.undo(point)
    assert seen(tried) == before
    carry_out(tried, last)
    carry_out(plain, last)
    assert seen(tried) == seen(plain)
    left, right = tried.cut(), plain.cut()
    assert (left is None) is (right is None)
    if left is not None and right is not None:
        assert {(c.kind, c.key): c.record for c in left.changes} == {(c.kind, c.key): c.record for c in right.changes}


def test_changes_that_are_only_tried_cannot_be_closed_and_are_undone() -> None:
    uow = UnitOfWork(State([]))
    with pytest.raises(UnitHeld), uow.held():
        uow.put(Queue(name="one"))
        uow.cut()
    assert not uow.state.queues and uow.empty
    uow.put(Queue(name="two"))
    assert uow.cut() is not None


@pytest.mark.parametrize("end", [None, "cut", "rollback"])
def test_an_object_whose_work_fails_loses_its_own_changes_only(end: str | None) -> None:
    uow = UnitOfWork(State([]))
    failures: list[tuple[tuple[str, ...], str]] = []

    def work(name: str) -> None:
        uow.put(Queue(name=name))
        uow.effect(name)
        if name != "wrong":
            return
        if end is not None:
            getattr(uow, end)()
        uow.put(Namespace(name=name))
        uow.effect("never")
        raise ValueError(name)

    uow.put(Queue(name="before"))
    uow.each(zip(["first", "wrong", "last"], strict=True), work, lambda names, e: failures.append((names, str(e))))
    assert failures == [(("wrong",), "wrong")]
    assert not uow.state.namespaces and "never" not in uow.effects
    kept = {None: ["before", "first", "last"], "cut": ["before", "first", "wrong", "last"], "rollback": ["last"]}
    assert sorted(uow.state.queues) == sorted(kept[end])
    assert list(uow.effects) == (["first", "last"] if end is None else ["last"])
