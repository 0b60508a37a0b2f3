"""At which time a term begins, and what becomes of times that no host can have meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import msgspec
import pytest

from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.core.term_start import AHEAD_MAX, MARK_EVERY, start_of_term
from store.encoding import times
from store.records import KINDS, Application, Framework, TaskGroup, Transaction
from store.records import Record as AnyRecord
from store.records.definition import Part
from store.records.record import Record
from store.state import State
from tests.golden.write import filled
from tests.unit.lab import START, Lab, running, version

HOUR = 3600.0
YEARS_2099 = 73 * 365 * 86_400.0


def state(*moments: float, seen: float = 0.0) -> State:
    records: list[AnyRecord] = [
        Application(namespace="ns", name=f"a{number}", created_at=at, updated_at=at)
        for number, at in enumerate(moments)
    ]
    return State([*records, Framework(id="f", created_at=START - 1000, seen_at=seen)])


# --- where a term begins ----------------------------------------------------------------------------------------------


def test_it_begins_with_the_host_where_the_store_has_no_clock() -> None:
    assert start_of_term(state(START), START + 5, None) == (START + 5, 0.0, False)


def test_it_begins_no_earlier_than_the_newest_record() -> None:
    assert start_of_term(state(START, START - 50), START - HOUR, 10.0).now == START


def test_a_host_that_is_ahead_is_believed_as_far_as_the_store_saw_time_pass() -> None:
    assert start_of_term(state(START - 20, seen=START), START + 3 * HOUR, 10.0).now == START + 10


def test_an_outage_that_host_and_store_saw_counts() -> None:
    assert start_of_term(state(START, seen=START), START + 3 * HOUR, 3 * HOUR).now == START + 3 * HOUR


def test_a_store_whose_clock_was_put_forward_is_not_believed_beyond_the_host() -> None:
    assert start_of_term(state(START, seen=START), START + 10, 5 * HOUR).now == START + 10


def test_a_few_times_of_2099_are_moved_back() -> None:
    found = start_of_term(state(START, START - 5, START - 9, START + YEARS_2099), START + 30, None)
    assert (found.now, found.host_wrong) == (START + 30, False)
    assert found.now + found.ahead == START + YEARS_2099


def test_a_host_that_is_behind_most_records_is_wrong() -> None:
    assert start_of_term(state(START, START - 5, START - 9), 0.0, None) == (START, 0.0, True)


@pytest.mark.parametrize(("ahead", "believed"), [(AHEAD_MAX - 1, True), (AHEAD_MAX + 1, False)])
def test_times_ahead_are_believed_up_to_a_day(ahead: float, believed: bool) -> None:
    found = start_of_term(state(START, START, START, START + ahead), START, None)
    assert (found.now == START + ahead) is believed
    assert (found.ahead == 0.0) is believed


def test_a_minute_of_2099_holds_up_nothing() -> None:
    """A leader whose host is in 2099 for a minute leaves a restart, a launch and an end that are due in 2099."""
    lab = running(2)
    lab.wait(10)
    lab.report(lab.group(1), "FAILED")
    at = lab.now + YEARS_2099
    wrong = Lab(lab.options, lab.records(), at)
    wrong.report(wrong.group(0), "FAILED")
    wrong.turn()
    assert max(t.deadline for t in wrong.core.state.transactions.values()) > at
    healed = Lab(lab.options, wrong.records(), lab.now + 60)
    newest = max(times.newest(record) for record in healed.core.state.records())
    assert newest <= healed.now
    assert max(t.deadline for t in healed.core.state.transactions.values()) < healed.now + 2 * 86_400
    healed.offer()
    healed.wait(5)
    healed.run()
    assert [group.status for group in healed.groups] == ["Running", "Running"]
    numbers = [int(group.id.rpartition(".")[2]) for group in healed.groups]
    assert len(set(numbers)) == 2


def test_the_core_marks_when_it_was_last_at_work() -> None:
    lab = running(1)
    lab.wait(10 * MARK_EVERY)
    assert lab.now - lab.core.state.framework.seen_at <= MARK_EVERY
    written = sum(change.kind == "framework" for unit in lab.core.turn((), lab.now) for change in unit.changes)
    assert written == 0


@pytest.mark.parametrize("subscribed", [True, False], ids=["a known framework", "before the first subscription"])
def test_an_operation_of_a_leader_whose_clock_was_behind_is_not_too_old_for_the_next(subscribed: bool) -> None:
    """A host that is 70 minutes behind leads for a moment, accepts an operation, and dies before it has a subscription.
    The clock of the next leader is right."""
    behind, begun = 70 * 60.0, START - 70 * 60.0
    records = [Framework(id="f", created_at=begun - 1000, seen_at=begun)] if subscribed else []
    ill = Core(records, CoreOptions(strict=True), begun, elapsed=behind if subscribed else None)
    units = ill.turn([requests.CreateApplication(token=1, version=version(1))], begun + 0.2)
    changed = [change.kind for unit in units for change in unit.changes]
    assert "transaction" in changed
    # No mark: the store counts from the write of the leader before, or knows of no write.
    counted = 0.5 if changed[0] == "framework" else behind + 0.5 if subscribed else None
    healed = Lab(records=ill.state.records(), now=START + 0.5, elapsed=counted)
    assert healed.transaction("LAUNCH").active
    assert healed.now < begun + 2.0


# --- a successor on a host with another clock -------------------------------------------------------------------------


def successor(lab: Lab, offset: float, elapsed: float) -> Lab:
    """Takes over `elapsed` seconds after the latest mark, on a host whose clock is off."""
    return Lab(CoreOptions(strict=True), lab.records(), lab.now + offset, elapsed=elapsed)


def test_a_launch_does_not_time_out_early_on_a_host_that_is_ahead() -> None:
    lab = Lab()
    lab.create(1)
    lab.wait(5)
    after = successor(lab, 3 * HOUR, 5.0)
    after.wait(60)
    assert after.transaction("LAUNCH").active


def test_a_launch_times_out_in_time_on_a_host_that_is_behind() -> None:
    lab = Lab()
    lab.create(1)
    after = successor(lab, -3 * HOUR, 5.0)
    after.wait(1900)
    assert after.transaction("LAUNCH").status == "TIMEOUT"


@pytest.mark.parametrize("offset", [-3 * HOUR, 3 * HOUR])
def test_ids_grow_and_events_stay_in_order_across_hosts(offset: float) -> None:
    lab = running(1)
    after = successor(lab, offset, 1.0)
    after.scale(2)
    after.offer()
    first, second = (int(group.id.rpartition(".")[2]) for group in after.groups)
    assert second > first
    told = [h.at for key in sorted(after.core.state.event_logs) for h in after.core.state.event_logs[key].events]
    assert told == sorted(told)


# --- the fields -------------------------------------------------------------------------------------------------------


def structs() -> list[type]:
    found: list[type] = [*KINDS.values()]
    todo = list(Part.__subclasses__())
    while todo:
        part = todo.pop()
        found.append(part)
        todo += part.__subclasses__()
    return [struct for struct in found if struct.__module__.startswith("store.")]


def test_every_field_that_looks_like_a_time_is_known_as_one() -> None:
    suffixes = ("_at", "_since", "_until", "keep_until")
    known = {
        (name, field) for kind in (times.PAST, times.COMING, times.FOREIGN) for name in kind for field in kind[name]
    }
    for struct in structs():
        for field in msgspec.structs.fields(struct):
            if field.type is float and (field.name.endswith(suffixes) or field.name in ("at", "since", "deadline")):
                assert (struct.__name__, field.name) in known, f"{struct.__name__}.{field.name}"
    names = {(struct.__name__, field.name) for struct in structs() for field in msgspec.structs.fields(struct)}
    assert known <= names


def parts_of(annotation: object, by_name: Mapping[str, type]) -> set[type]:
    """Structs that a value of this type may hold, subclasses included."""
    if isinstance(annotation, str):
        return parts_of(by_name[annotation], by_name) if annotation in by_name else set()
    if isinstance(annotation, type) and annotation in by_name.values():
        return {struct for struct in by_name.values() if issubclass(struct, annotation)}
    return {found for inner in get_args(annotation) for found in parts_of(inner, by_name)}


def test_every_part_with_times_is_reached() -> None:
    by_name = {struct.__name__: struct for struct in structs()}
    timed = {by_name[name] for name in (*times.PAST, *times.COMING, *times.PARTS)}
    found = {
        (struct.__name__, field.name)
        for struct in structs()
        for field in msgspec.structs.fields(struct)
        if parts_of(field.type, by_name) & timed
    }
    assert found == {(name, field) for name in times.PARTS for field in times.PARTS[name]}


def test_a_deadline_keeps_its_distance_when_it_is_moved_back() -> None:
    transaction = Transaction(
        id="application-1", type="LAUNCH", namespace="ns", application="a",
        created_at=START + 1000, due_at=START + 1000, deadline=START + 1480, finished_at=0.0,
    )  # fmt: skip
    moved: Transaction = times.moved_back(transaction, START, 900.0)
    assert (moved.created_at, moved.due_at, moved.deadline, moved.finished_at) == (
        START + 100, START + 100, START + 580, 0.0,
    )  # fmt: skip
    assert times.moved_back(transaction, START + 2000, 900.0) is transaction


def test_the_state_knows_the_newest_time_whatever_is_removed() -> None:
    found = state(START, START + 7)
    assert found.newest == START + 7
    found.apply("application", "ns/a1", None)
    assert found.newest == START + 7
    group = TaskGroup(id="0.a.ns.c.1", namespace="ns", application="a0", index=0, version="1", killing_since=START + 9)
    found.apply("taskgroup", group.key, group)
    assert found.newest == START + 9


def test_every_kind_tells_its_newest_time() -> None:
    lab = running(1)
    assert version(1).created_at == 0.0
    for record in lab.core.state.records():
        assert isinstance(record, Record)
        assert 0.0 <= times.newest(record) <= lab.now


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_time_of_a_record_counts(kind: str) -> None:
    """A term that begins before a record was written would judge the age of the record by a time ahead."""
    record = filled(KINDS[kind])
    for field in times.PAST.get(type(record).__name__, ()):
        if kind == "taskgroup" and field not in ("updated_at", "killing_since"):
            continue  # never newer than `updated_at`
        late = msgspec.structs.replace(record, **{field: START + 1_000_000})
        assert times.newest(late) == START + 1_000_000, field
    for field in times.PARTS.get(type(record).__name__, ()):
        if kind in ("managedapplication", "managedtask", "placeholder") and field.endswith("history"):
            last = msgspec.structs.replace(getattr(record, field)[-1], at=START + 1_000_000)
            late = msgspec.structs.replace(record, **{field: (*getattr(record, field), last)})
            assert times.newest(late) == START + 1_000_000, field
