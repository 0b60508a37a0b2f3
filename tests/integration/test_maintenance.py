"""Forgetting a framework id: only when nobody leads, and not over living taskgroups unless told to."""

from __future__ import annotations

import sqlite3
import time
from concurrent.futures import Future
from pathlib import Path

import pytest
from msgspec.structs import replace

from bcs_scheduler.admin.maintenance import MaintenanceError, forget_framework, set_framework
from bcs_scheduler.core.term_start import start_of_term
from bcs_scheduler.leadership.eligibility import obstacle
from store.base import Change, Term
from store.factory import open_store
from store.records import Framework, Record, Task, TaskGroup
from store.state import State

FRAMEWORK = Framework(id="framework-1", cluster="here", created_at=1.0)
GROUP = TaskGroup(
    id="0.web.ns.here.1", namespace="ns", application="web", index=0, version="1", tasks=(Task(id="1.0.0.web.ns.here"),)
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/state.db"


def fill(url: str, *records: Record) -> None:
    store = open_store(url)
    store.open()
    elected: Future[Term] = Future()
    store.campaign("http://127.0.0.1:1", elected.set_result, lambda reason: None)
    store.commit([Change(r.kind, r.key, r) for r in records], elected.result(30).epoch).result(30)
    store.close()


def stored(url: str) -> State:
    store = open_store(url)
    store.open()
    try:
        return State(store.load().records)
    finally:
        store.close()


def plant(url: str, data: bytes) -> None:
    """A framework record as no scheduler writes it."""
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute("INSERT OR REPLACE INTO records VALUES ('framework', 'framework', ?)", (data,))


def test_the_id_is_dropped(url: str) -> None:
    fill(url, FRAMEWORK)
    assert forget_framework(open_store(url), force=False) == "framework-1"
    assert stored(url).framework.id == ""
    with pytest.raises(MaintenanceError, match="no framework id is stored"):
        forget_framework(open_store(url), force=False)


def test_living_taskgroups_are_not_orphaned_by_accident(url: str) -> None:
    fill(url, FRAMEWORK, GROUP)
    with pytest.raises(MaintenanceError, match="1 taskgroup of framework framework-1 may still run"):
        forget_framework(open_store(url), force=False)
    assert stored(url).framework.id == "framework-1"
    assert forget_framework(open_store(url), force=True) == "framework-1"


def test_a_record_that_cannot_be_read_is_forgotten_or_replaced(tmp_path: Path) -> None:
    for data in (b"garbage", None):
        url = f"sqlite:///{tmp_path}/{'lost' if data is None else 'bad'}.db"
        fill(url, GROUP)
        if data is not None:
            plant(url, data)
        with pytest.raises(MaintenanceError, match="a framework whose id is lost"):
            forget_framework(open_store(url), force=False)
        assert forget_framework(open_store(url), force=True) == ""
        assert stored(url).framework == Framework(forgotten=True)
        assert obstacle(stored(url), []) is None
        assert set_framework(open_store(url), "framework-2", force=False) == ""
        framework = stored(url).framework
        assert (framework.id, framework.cluster, framework.forgotten) == ("framework-2", "Unnamed", False)
        assert framework.created_at > 0


def test_an_id_is_set_over_a_record_that_cannot_be_read(url: str) -> None:
    fill(url, GROUP)
    plant(url, b"garbage")
    assert set_framework(open_store(url), "framework-1", force=False) == ""
    assert obstacle(stored(url), []) is None and stored(url).framework.id == "framework-1"


def test_another_id_is_replaced_only_by_force(url: str) -> None:
    fill(url, FRAMEWORK)
    assert set_framework(open_store(url), "framework-1", force=False) == "framework-1"
    with pytest.raises(MaintenanceError, match="framework framework-1 is stored"):
        set_framework(open_store(url), "framework-2", force=False)
    assert set_framework(open_store(url), "framework-2", force=True) == "framework-1"
    framework = stored(url).framework
    assert replace(framework, gaps=()) == Framework(id="framework-2", cluster="here", created_at=1.0)
    again, other = sorted(framework.gaps, key=lambda gap: -gap.after)
    assert again.after == 1e9, "no leader of this store has launched tasks since the newest record"
    assert other.after == 0, "no leader of this store has launched tasks of framework-2"


def test_an_empty_store_vouches_for_no_task_and_another_for_those_up_to_its_mark(url: str) -> None:
    assert set_framework(open_store(url), "framework-1", force=False) == ""
    (gap,) = stored(url).framework.gaps
    assert gap.after == 0 and abs(gap.until / 1e9 - time.time()) < 60


def test_a_lost_id_keeps_the_mark_of_the_records(url: str) -> None:
    number = 1_700_000_000_000_000_000
    fill(url, replace(GROUP, id=f"0.web.ns.here.{number}"))
    set_framework(open_store(url), "framework-1", force=False)
    (gap,) = stored(url).framework.gaps
    assert gap.after == number


HOUR = 3600.0


@pytest.mark.parametrize("command", ["forget", "set", "set again"])
@pytest.mark.parametrize(("host", "begins"), [(0.0, 2 * HOUR), (3 * HOUR, 2 * HOUR), (-5 * HOUR, 0.0)])
def test_the_time_of_the_next_leader_continues_where_that_of_the_last_one_ended(
    url: str, monkeypatch: pytest.MonkeyPatch, command: str, host: float, begins: float
) -> None:
    """Two hours after the last leader by the clock of the store. `host`: seconds by which the host of the operator is
    ahead. The command writes the framework record, and the store counts from this write on."""
    mark = 1_700_000_000.0
    fill(url, replace(FRAMEWORK, seen_at=mark))
    monkeypatch.setattr("bcs_scheduler.admin.maintenance.time.time", lambda: mark + 2 * HOUR + host)
    store = open_store(url)
    campaign = store.campaign
    monkeypatch.setattr(
        store, "campaign", lambda who, won, lost: campaign(who, lambda term: won(Term(term.epoch, 2 * HOUR)), lost)
    )
    if command == "forget":
        forget_framework(store, force=False)
    else:
        set_framework(store, "framework-1" if command == "set again" else "framework-2", force=True)
    state = stored(url)
    assert state.framework.seen_at == mark + begins
    for wall in (mark + 2 * HOUR + 10, mark + 5 * HOUR):
        assert start_of_term(state, wall, 10.0).now == mark + begins + 10
    assert start_of_term(state, mark - HOUR, 10.0).now == mark + begins, "a host that is behind"
    if command != "forget" and begins:
        (gap,) = state.framework.gaps
        assert gap.after == (mark * 1e9 if command == "set again" else 0) and gap.until == (mark + begins) * 1e9


@pytest.mark.parametrize("identity", ["", "two words", "x" * 256, "line\n"])
def test_what_is_no_id_is_refused(url: str, identity: str) -> None:
    with pytest.raises(MaintenanceError, match="is not a framework id"):
        set_framework(open_store(url), identity, force=True)


def test_not_while_somebody_leads(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(url, FRAMEWORK)
    leader = open_store(url)
    leader.open()
    elected: Future[Term] = Future()
    leader.campaign("http://127.0.0.1:1", elected.set_result, lambda reason: None)
    elected.result(30)
    monkeypatch.setattr("bcs_scheduler.admin.maintenance.LOCK_PATIENCE", 0.3)
    try:
        with pytest.raises(MaintenanceError, match="leads; stop every scheduler first"):
            forget_framework(open_store(url), force=False)
    finally:
        leader.close()
    assert stored(url).framework.id == "framework-1"
