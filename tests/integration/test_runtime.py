"""bcs_scheduler.leadership.runtime and term: election, take-over, durable replies, stepping down, outages; real
threads and stores, only the Mesos side is a stand-in."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.core.interface import cluster_manager, effects, inputs, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.decisions.log import DecisionLog, file_name
from bcs_scheduler.decisions.replay import Replay
from bcs_scheduler.leadership import readiness, runtime, standby, term
from bcs_scheduler.leadership.gateway import Busy, NotLeading
from bcs_scheduler.leadership.runtime import Runtime
from bcs_scheduler.loop import pipeline
from bcs_scheduler.loop.inbox import Inbox
from bcs_scheduler.observability.metrics import Metrics
from store.base import Followed, Store
from store.encoding.codec import encode
from store.memory import MemoryBackend, MemoryStore
from store.records import Framework
from store.sqlite.store import SqliteStore
from store.state.replica import Replica
from tests.integration.schedulers import A, B, Deliver, FakeDriver, HeldStore, Process, stored
from tests.integration.test_maintenance import GROUP as ALIVE
from tests.waiting import wait_for
from transactions.rules.task_states import TaskState

Start = Callable[..., Process]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts processes; all are stopped at the end. Pauses that only spare the store are shortened."""
    for module, name, value in (
        (runtime, "FIRST_PAUSE", 0.01),
        (runtime, "LONGEST_PAUSE", 0.05),
        (runtime, "FIRST_RECESS", 0.01),
        (runtime, "LONGEST_RECESS", 0.05),
        (pipeline, "FIRST_PAUSE", 0.01),
        (pipeline, "LONGEST_PAUSE", 0.05),
    ):
        monkeypatch.setattr(module, name, value)
    started: list[Process] = []

    def make(store: Store, url: str = A) -> Process:
        started.append(Process(store, url))
        return started[-1]

    yield make
    for process in started:
        for driver in process.drivers:
            driver.free.set()
        if isinstance(process.store, HeldStore):
            process.store.load_gate.set()
        process.runtime.stop()


@pytest.fixture
def backend() -> MemoryBackend:
    return MemoryBackend()


# --- leading ------------------------------------------------------------------------------------------------------


def test_the_only_one_leads_and_answers_when_the_change_is_durable(start: Start, backend: MemoryBackend) -> None:
    store = HeldStore(backend)
    process = start(store).leads()
    assert process.runtime.leader_url() == A
    store.holding = True
    reply = process.disable("agent-1")
    wait_for(lambda: store.held, what="the commit")
    assert not reply.done()
    assert process.runtime.state().agent_settings["agent-1"].disabled, "the core itself goes on"
    assert stored(store) == set()
    store.release()
    assert reply.result(30.0).error == ""
    assert stored(store) == {"agent-1"}
    assert all(check.ok for check in process.runtime.checks())


def test_a_refused_command_is_answered_and_changes_nothing(start: Start, backend: MemoryBackend) -> None:
    process = start(MemoryStore(backend)).leads()
    reply = process.runtime.submit(requests.DeleteApplication(namespace="ns", name="none")).result(30.0)
    assert reply.error == effects.Reason.NOT_FOUND
    assert b'"DeleteApplication"' not in b"".join(backend.records.values())


def test_a_command_too_large_for_the_store_is_refused_and_the_term_goes_on(
    start: Start, backend: MemoryBackend
) -> None:
    process = start(MemoryStore(backend, batch_bytes=30_000)).leads()
    huge = requests.SetAgent(agent="huge", force=True, strings={"text": "x" * 40_000})
    reply = process.runtime.submit(huge).result(30.0)
    assert reply.error == effects.Reason.INVALID and "at most 10000" in reply.message
    assert process.disable("agent-1").result(30.0).error == ""
    assert process.epoch == 1


def test_effects_for_mesos_reach_the_driver(start: Start, backend: MemoryBackend) -> None:
    process = start(MemoryStore(backend)).leads()
    wait_for(lambda: any(isinstance(e, cluster_manager.Reconcile) for e in process.driver.sent), what="reconciliation")
    assert process.driver.framework_id == ""
    process.runtime.stop()
    second = start(MemoryStore(backend)).leads()
    assert second.driver.framework_id == "framework-1", "the stored id is used again"


# --- several processes --------------------------------------------------------------------------------------------


def two_stores(kind: str, tmp_path: Path) -> tuple[Store, Store]:
    if kind == "memory":
        backend = MemoryBackend()
        return MemoryStore(backend), MemoryStore(backend)
    return SqliteStore(tmp_path / "state.db"), SqliteStore(tmp_path / "state.db")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_standby_points_to_the_leader_answers_reads_and_takes_over(kind: str, start: Start, tmp_path: Path) -> None:
    first_store, second_store = two_stores(kind, tmp_path)
    first = start(first_store, A).leads()
    second = start(second_store, B).stands_by()
    assert first.disable("agent-1").result(30.0).error == ""

    with pytest.raises(NotLeading) as refused:
        second.disable("agent-2")
    assert refused.value.leader == second.runtime.leader_url() == A
    wait_for(lambda: set(second.shown().agent_settings) == {"agent-1"}, what="the change to be seen")
    assert second.runtime.offers() == [] and second.runtime.agents() == []
    assert second.check("leadership") == (True, f"slave of {A}")
    assert not second.drivers, "only the leader speaks to Mesos"

    first.runtime.stop()
    second.leads()
    assert second.epoch == 2
    assert first.driver.stopped and first.runtime.role() == "unknown"
    assert second.disable("agent-2").result(30.0).error == ""
    assert set(second.runtime.state().agent_settings) == {"agent-1", "agent-2"}


def test_a_standby_loads_once_and_leads_with_the_state_that_it_has_shown(start: Start, backend: MemoryBackend) -> None:
    first = start(MemoryStore(backend), A).leads()
    store = HeldStore(backend)
    second = start(store, B).stands_by()
    shown = second.shown()
    for number in range(5):
        assert first.disable(f"agent-{number}").result(30.0).error == ""
        wait_for(lambda number=number: f"agent-{number}" in shown.agent_settings, what="the change to be seen")  # type: ignore[misc]
    assert second.runtime.state() is shown
    first.runtime.stop()
    second.leads()
    assert second.runtime.state() is shown
    assert set(shown.agent_settings) == {f"agent-{number}" for number in range(5)} == stored(second.store)
    assert store.loads == 2, "one by the standby and one by this test"


def test_a_standby_tells_its_lag(start: Start, backend: MemoryBackend) -> None:
    first = start(MemoryStore(backend), A).leads()
    second = start(MemoryStore(backend), B).stands_by()
    second.shown()
    assert first.runtime.age() is None
    age = second.runtime.age()
    assert age is not None and age < standby.STALE
    metrics = second.runtime.metrics()
    assert b"bkbcs_scheduler_standby_lag_seconds " in metrics
    assert b'bkbcs_scheduler_standby_position{part="epoch"} 1.0' in metrics
    assert b"standby_lag_seconds" not in first.runtime.metrics()
    assert second.check("standby")[0] is True


def test_the_state_of_a_term_that_has_ended_is_freed(start: Start, backend: MemoryBackend) -> None:
    first = start(MemoryStore(backend), A).leads()
    assert first.disable("agent-1").result(30.0).error == ""
    led = weakref.ref(first.runtime.state())
    second = start(MemoryStore(backend), B).stands_by()
    first.drivers.clear()  # the stand-ins know their term
    backend.depose("session lost")
    second.leads()
    first.stands_by()
    wait_for(lambda: led() is None, what="the state to be freed")
    assert set(first.shown().agent_settings) == {"agent-1"}


# --- losing the lead ----------------------------------------------------------------------------------------------


def test_a_deposed_leader_fails_waiting_replies_and_writes_nothing_more(start: Start, backend: MemoryBackend) -> None:
    store = HeldStore(backend)
    first = start(store, A).leads()
    second = start(MemoryStore(backend), B).stands_by()
    store.holding = True
    waiting = [first.disable("agent-1"), first.disable("agent-2")]
    wait_for(lambda: store.held, what="the commit")
    backend.depose("session lost")
    for reply in waiting:
        assert reply.result(30.0).error == effects.Reason.STEPPED_DOWN
    second.leads()
    store.release()
    assert second.disable("agent-3").result(30.0).error == ""
    assert stored(store) == {"agent-3"}
    with pytest.raises(NotLeading) as refused:
        first.stands_by().disable("agent-4")
    assert refused.value.leader == B
    assert first.driver.stopped
    wait_for(lambda: len(backend.candidates) == 2, what="the first to stand again")
    backend.depose("session lost")
    assert first.leads().epoch == 3
    assert set(first.runtime.state().agent_settings) == {"agent-3"}


def test_being_told_twice_that_the_lead_is_lost_does_no_harm(start: Start, backend: MemoryBackend) -> None:
    """The store says so, and so does the next commit: in either order, and again and again."""
    process = start(MemoryStore(backend)).leads()
    for epoch in range(2, 12):
        with backend.lock:
            leader = backend.leader()
            assert leader is not None
            backend.remove(leader)
            backend.epoch += 1
        try:
            assert process.disable(f"lost-{epoch}").result(30.0).error == effects.Reason.STEPPED_DOWN
        finally:
            leader.deposed("session lost")
        wait_for(lambda: process.runtime.role() == "master" and backend.leader() is not None, what="the next term")
        wait_for(lambda: process.epoch == backend.epoch, what="the newest epoch")
        assert process.leads().disable(f"kept-{epoch}").result(30.0).error == ""
    assert stored(process.store) == {f"kept-{epoch}" for epoch in range(2, 12)}


def test_one_that_is_deposed_while_it_takes_over_never_speaks_to_mesos(start: Start, backend: MemoryBackend) -> None:
    store = HeldStore(backend)
    store.load_gate.clear()
    first = start(store, A)
    wait_for(lambda: store.loads == 1 and backend.epoch == 1, what="loading, and the election")
    second = start(MemoryStore(backend), B).stands_by()
    backend.depose("session lost")
    second.leads()
    store.load_gate.set()
    wait_for(lambda: len(backend.candidates) == 2, what="the first to stand again")
    assert not any(driver.started for driver in first.drivers)
    assert first.runtime.role() == "slave"
    assert first.runtime.leader_url() == B


def test_a_deposed_one_does_not_insist_on_loading(start: Start, backend: MemoryBackend) -> None:
    store = HeldStore(backend)
    store.load_gate.clear()
    first = start(store, A)
    wait_for(lambda: store.loads == 1 and backend.epoch == 1, what="loading, and the election")
    backend.reachable = False
    store.load_gate.set()
    wait_for(lambda: store.loads > 2, what="retries")
    backend.depose("session lost")
    wait_for(lambda: first.check("store")[1].startswith("cannot stand for election"), what="giving up on loading")
    backend.reachable = True
    assert first.leads().epoch == 2


def test_a_core_that_fails_hands_the_lead_over(start: Start, backend: MemoryBackend) -> None:
    first = start(MemoryStore(backend), A).leads()
    second = start(MemoryStore(backend), B).stands_by()
    current = first.runtime._term
    assert current is not None

    def fail(batch: Any, now: float) -> Any:
        raise ArithmeticError("broken")

    current.core.turn = fail  # type: ignore[method-assign, assignment]
    assert first.disable("lost").result(30.0).error == effects.Reason.STEPPED_DOWN
    assert second.leads().epoch == 2
    first.stands_by()
    assert first.driver.stopped
    assert second.disable("agent-1").result(30.0).error == ""
    assert stored(second.store) == {"agent-1"}


def test_an_event_the_core_cannot_handle_is_told_and_counted(start: Start, backend: MemoryBackend) -> None:
    class Unknown(inputs.Input, frozen=True, kw_only=True):
        pass

    process = start(MemoryStore(backend)).leads()
    process.driver.deliver(Unknown())
    counted = b'bkbcs_scheduler_recorded_events_total{kind="event",reason="InternalError"} 1.0'
    wait_for(lambda: counted in process.runtime.metrics(), what="the error to be counted")
    assert process.disable("agent-1").result(30.0).error == ""
    assert process.epoch == 1


def test_a_take_over_that_fails_is_tried_again(start: Start, backend: MemoryBackend) -> None:
    store = HeldStore(backend)
    store.load_gate.clear()
    process = start(store)
    broken, make = 2, process._driver

    def factory(deliver: Deliver) -> FakeDriver:
        nonlocal broken
        broken -= 1
        if broken >= 0:
            raise OSError("no such master")
        return make(deliver)

    process.runtime._make_driver = factory
    store.load_gate.set()
    wait_for(lambda: process.drivers, what="the third attempt")
    assert process.leads().epoch == 3
    assert process.disable("agent-1").result(30.0).error == ""


# --- an unreachable store -----------------------------------------------------------------------------------------


def test_a_store_that_is_not_there_at_the_start(start: Start, backend: MemoryBackend) -> None:
    backend.reachable = False
    process = start(MemoryStore(backend))
    wait_for(lambda: "cannot connect" in process.check("store")[1], what="the attempt")
    assert process.runtime.role() == "unknown" and process.runtime.leader_url() is None
    with pytest.raises(NotLeading):
        process.disable("agent-1")
    with pytest.raises(Busy, match="cannot connect to the store"):
        process.runtime.state()
    backend.reachable = True
    process.leads()
    assert process.check("store") == (True, "connected")


def test_during_an_outage_commands_wait_then_are_turned_away_and_none_is_lost(
    start: Start, backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start(MemoryStore(backend)).leads()
    assert process.disable("before").result(30.0).error == ""
    backend.reachable = False
    waiting = process.disable("during")
    usual = term.STALL
    monkeypatch.setattr(term, "STALL", 0.1)
    monkeypatch.setattr(readiness, "STALL", 0.1)

    def turned_away() -> bool:
        try:
            process.disable("refused")
        except Busy as busy:
            return "has not accepted changes" in str(busy)
        return False

    wait_for(turned_away, what="commands to be turned away")
    assert not waiting.done()
    ready, message = process.check("store")
    assert not ready and "waiting" in message
    assert process.runtime.role() == "master"
    monkeypatch.setattr(term, "STALL", usual)
    backend.reachable = True
    assert waiting.result(30.0).error == ""
    assert process.disable("after").result(30.0).error == ""
    assert {"before", "during", "after"} <= stored(process.store)


def test_a_standby_without_the_store_shows_what_it_knows_for_a_while_only(
    start: Start, backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(MemoryStore(backend), A).leads()
    second = start(MemoryStore(backend), B).stands_by()
    assert second.shown().agent_settings == {}
    backend.reachable = False
    second.runtime.state()
    monkeypatch.setattr(standby, "STALE", 1.0)
    monkeypatch.setattr(readiness, "STALE", 1.0)

    def refused() -> str:
        try:
            second.runtime.state()
        except Busy as busy:
            return str(busy)
        return ""

    message = wait_for(refused, what="a refusal")
    assert "cannot be read" in message and "s old" in message
    assert second.check("store")[0] is False and second.check("standby")[0] is False
    backend.reachable = True
    wait_for(lambda: not refused(), what="the store to be followed again")
    wait_for(lambda: second.check("standby")[0], what="a standby that is ready")


def test_a_standby_that_has_read_nothing_refuses_at_once(start: Start, backend: MemoryBackend) -> None:
    start(MemoryStore(backend), A).leads()
    store = HeldStore(backend)
    store.load_gate.clear()
    second = start(store, B).stands_by()
    wait_for(lambda: store.loads, what="the load to begin")
    with pytest.raises(Busy, match="being read"):
        second.runtime.state()
    assert second.check("standby")[0] is False
    store.load_gate.set()
    second.shown()


def test_a_follower_that_fails_unexpectedly_is_replaced(
    start: Start, backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start(MemoryStore(backend), A).leads()
    second = start(MemoryStore(backend), B).stands_by()
    before = second.shown()
    broken = [True]
    apply = Replica.apply

    def fail_once(self: Replica, found: Followed) -> int:
        if found.changes and broken and broken.pop():
            raise ArithmeticError("broken")
        return apply(self, found)

    monkeypatch.setattr(Replica, "apply", fail_once)
    assert first.disable("agent-1").result(30.0).error == ""
    wait_for(lambda: set(second.shown().agent_settings) == {"agent-1"}, what="the change to be seen")
    assert second.runtime.state() is not before, "the old one may lack a part of what was read"


# --- ending -------------------------------------------------------------------------------------------------------


def test_stopping_lets_what_was_decided_become_durable(start: Start, backend: MemoryBackend) -> None:
    store = HeldStore(backend)
    process = start(store).leads()
    wait_for(lambda: process.runtime._term is not None and process.runtime._term.queues()["commit"] == 0)
    store.holding = True
    reply = process.disable("agent-1")
    wait_for(lambda: store.held, what="the commit")
    stopping = threading.Thread(target=process.runtime.stop, daemon=True)
    stopping.start()
    wait_for(lambda: process.runtime.role() != "master", what="stepping down")
    store.release()
    assert reply.result(30.0).error == ""
    stopping.join(30.0)
    assert not stopping.is_alive()
    later = MemoryStore(backend)
    later.open()
    assert stored(later) == {"agent-1"}


def test_everybody_waiting_for_everybody_does_not_keep_it_from_standing_down(
    start: Start, backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outlet of calls waits for the driver, and the threads of the driver wait for the inbox."""
    monkeypatch.setattr(term, "Inbox", lambda: Inbox(limit=4))
    monkeypatch.setattr(term, "PATIENCE", 600.0)  # no thread is left behind within the time of this test
    process = start(MemoryStore(backend)).leads()
    driver = process.driver
    current = process.runtime._term
    assert current is not None
    wait_for(lambda: any(isinstance(e, cluster_manager.Reconcile) for e in driver.sent), what="the first calls")
    driver.send_blocks = True
    threads = [threading.Thread(target=_flood, args=(driver,), daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(current.inbox) == 4, what="the inbox to be full")
    assert all(thread.is_alive() for thread in threads)
    backend.depose("session lost")
    wait_for(lambda: len(process.drivers) == 2 and process.driver.started, 60.0, "the next term")
    for thread in threads:
        thread.join(30.0)
        assert not thread.is_alive()
    assert not current._thread.is_alive() and not current._pipeline.thread.is_alive()


def test_a_driver_that_does_not_end_is_left_behind(
    start: Start, backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(term, "PATIENCE", 0.05)
    process = start(MemoryStore(backend)).leads()
    process.driver.stop_blocks = process.driver.send_blocks = True
    replies = [process.disable(f"agent-{n}") for n in range(3)]
    for reply in replies:
        reply.result(30.0)
    backend.depose("session lost")
    wait_for(lambda: len(process.drivers) == 2 and process.driver.started, what="the next term")
    assert process.disable("agent-9").result(30.0).error == ""
    assert process.epoch == 2


def test_stopping_twice_and_before_the_start_is_harmless(backend: MemoryBackend) -> None:
    made = Runtime(MemoryStore(backend), CoreOptions(), FakeDriver, Metrics(), A)
    made.stop()
    made.start()
    made.stop()
    assert made.role() == "unknown"
    assert backend.candidates == []


# --- what operators see -------------------------------------------------------------------------------------------


def test_a_removed_framework_is_not_ready(start: Start, backend: MemoryBackend) -> None:
    process = start(MemoryStore(backend)).leads()
    process.driver.deliver(cluster_manager.RegistrationRevoked(message="Framework has been removed"))
    wait_for(lambda: not process.check("mesos")[0], what="the check to fail")
    assert "Framework has been removed" in process.check("mesos")[1]
    assert b"bkbcs_scheduler_framework_removed 1.0" in process.runtime.metrics()


def test_a_broken_record_is_quarantined_and_told(start: Start, backend: MemoryBackend) -> None:
    backend.records["application", "ns/broken"] = b'{"namespace": 7}'
    process = start(MemoryStore(backend)).leads()
    assert process.check("store") == (True, "1 records quarantined, see the log")
    assert b"bkbcs_scheduler_quarantined_records 1.0" in process.runtime.metrics()
    assert backend.records["application", "ns/broken"] == b'{"namespace": 7}'


def test_nobody_leads_without_the_framework_record(start: Start, backend: MemoryBackend) -> None:
    """Neither candidate speaks to Mesos or writes; both say what to do; the record that comes back is used."""
    backend.records["taskgroup", ALIVE.id] = encode(ALIVE)
    backend.records["framework", "framework"] = b"{"
    before = dict(backend.records)
    first, second = start(MemoryStore(backend), A), start(MemoryStore(backend), B)
    for process in (first, second):
        wait_for(lambda p=process: "records" in {check.name for check in p.runtime.checks()}, what="the refusal")  # type: ignore[misc]
        check = next(check for check in process.runtime.checks() if check.name == "records")
        assert (check.ok, check.code) == (False, "framework_unreadable")
        assert "bcs-scheduler set-framework" in check.message
    assert [driver.started for process in (first, second) for driver in process.drivers].count(True) == 0
    del backend.records["framework", "framework"]
    wait_for(
        lambda: {c.code for p in (first, second) for c in p.runtime.checks() if c.code} == {"framework_missing"},
        what="the refusal for want of the record",
    )
    assert backend.records == {at: data for at, data in before.items() if at[0] != "framework"}

    backend.records["framework", "framework"] = encode(Framework(id="framework-7", cluster="here", created_at=1.0))
    leader = wait_for(
        lambda: next((p for p in (first, second) if p.runtime.role() == "master" and p.driver.started), None),
        what="a leader",
    )
    assert leader.driver.framework_id == "framework-7"
    assert "records" not in {check.name for check in leader.runtime.checks()}


def test_an_unreadable_record_is_not_replaced(start: Start, backend: MemoryBackend) -> None:
    backend.records["agentsetting", "agent-1"] = b'{"agent": 7}'
    process = start(MemoryStore(backend)).leads()
    reply = process.disable("agent-1").result(30.0)
    assert reply.error == effects.Reason.CONFLICT
    assert process.disable("agent-2").result(30.0).error == ""
    assert backend.records["agentsetting", "agent-1"] == b'{"agent": 7}'


def test_the_metrics_follow_the_role(start: Start, backend: MemoryBackend) -> None:
    process = start(MemoryStore(backend)).leads()
    assert process.disable("agent-1").result(30.0).error == ""
    text = process.runtime.metrics().decode()
    assert 'bkbcs_scheduler_role{role="master"} 1.0' in text
    assert "bkbcs_scheduler_epoch 1.0" in text
    assert 'bkbcs_scheduler_committed_records_total{kind="agentsetting"} 1.0' in text
    assert 'bkbcs_scheduler_storage_operator_latency_ms_count{operator="fetch"} 1.0' in text
    assert 'bkbcs_scheduler_recorded_events_total{kind="framework",reason="FrameworkSubscribed"} 1.0' in text
    process.runtime.stop()
    text = process.runtime.metrics().decode()
    assert 'bkbcs_scheduler_role{role="unknown"} 1.0' in text
    assert "bkbcs_scheduler_epoch" not in text


def _flood(driver: FakeDriver) -> None:
    """Updates of unknown tasks until the driver is stopped: each is acknowledged, so each has an effect."""
    for number in itertools.count():
        if driver.stopped:
            return
        driver.deliver(
            cluster_manager.StatusUpdate(
                task_id=f"unknown-{number}", state=TaskState.RUNNING, agent_id="x", uuid=b"u", cause="m"
            )
        )


def test_answers_do_not_wait_behind_calls_to_mesos(start: Start, backend: MemoryBackend) -> None:
    process = start(MemoryStore(backend)).leads()
    process.driver.send_blocks = True
    process.driver.deliver(
        cluster_manager.StatusUpdate(task_id="1.0.0.web.ns.c", state=TaskState.RUNNING, agent_id="agent", uuid=b"u")
    )
    assert process.runtime._term is not None
    wait_for(lambda: process.runtime._term and process.runtime._term._calls.lag() > 0.0, what="a call to wait")
    assert process.disable("agent-1").result(30.0).error == ""
    assert process.disable("agent-2").result(30.0).error == ""
    sent = len(process.driver.sent)
    process.driver.free.set()
    wait_for(lambda: len(process.driver.sent) > sent, what="the calls to leave")


def test_a_term_that_fills_half_of_its_decision_log_is_followed_by_another(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path, 20_000, 6, {})
    process = Process(MemoryStore(MemoryBackend()), decisions=log)
    log.renewing(process.runtime.renew, 0.0)
    log.start()
    try:
        number, last = 0, process.subscribed().epoch + 2
        answered: set[str] = set()
        while (term := process.runtime._term) is None or term.epoch < last:
            # A log that lags behind asks late for the next term, and the term then has more files.
            wait_for(log._queue.empty, what="the turns in the log")
            agent = f"agent-{number}"
            number += 1
            try:
                reply = process.disable(agent).result(30.0)
            except (Busy, NotLeading):  # between two terms
                continue
            assert reply.error in ("", effects.Reason.STEPPED_DOWN)
            answered |= set() if reply.error else {agent}
        assert answered <= stored(process.store), "what was answered is durable"
        assert process.leads().driver.framework_id, "the next term has the framework of the one before"
    finally:
        process.runtime.stop()
        log.stop(30.0)
    assert log.lost == 0
    files = sorted(path.name for path in tmp_path.iterdir())
    assert len(files) <= 6
    assert {file_name(last - 1, 0), file_name(last - 1, 2)} <= set(files), "the term before is complete"
    for epoch in (last - 1, last):
        result = Replay(tmp_path / file_name(epoch, 0), lambda begin: CoreOptions()).run()
        assert (result.difference, result.gaps, result.torn) == (None, [], 0)
        assert result.records


def test_the_end_of_a_term_that_is_over_is_not_asked_for_again(start: Start, backend: MemoryBackend) -> None:
    process = start(MemoryStore(backend)).subscribed()
    first = process.epoch
    process.runtime.renew(first)
    process.runtime.renew(first)
    wait_for(lambda: process.runtime.role() == "master" and process.epoch == first + 1, what="the next term")
    assert process.disable("agent-1").result(30.0).error == ""
    assert process.epoch == first + 1
