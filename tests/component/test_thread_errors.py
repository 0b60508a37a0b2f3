"""Unexpected errors put into the loops that talk to Mesos and to the stores, one loop after the other: the loop goes on
after a pause, or the term ends, and the log tells. test_threads.py beside this file has the other loops."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.client import KazooState
from structlog.testing import capture_logs

from bcs_scheduler.core.interface import cluster_manager, leased
from bcs_scheduler.mesos import agent_watch, cluster_name
from bcs_scheduler.mesos.agent_watch import AgentWatch
from bcs_scheduler.mesos.driver import Driver
from bcs_scheduler.mesos.transport import detect, operator
from bcs_scheduler.mesos.transport.call_queue import CallQueue
from bcs_scheduler.mesos.transport.stream import EventStream
from store import threads
from store.base import StoreError, Term
from store.sqlite import store
from store.sqlite.file_lock import FileLock
from store.sqlite.store import SqliteStore
from store.zookeeper import election
from store.zookeeper.election import Election
from store.zookeeper.tree import Tree
from tests.component.test_mesos_driver import Run, Script, accept
from tests.component.test_mesos_driver import run as run
from tests.component.test_mesos_driver import script as script
from tests.component.test_store_sqlite import Leading
from tests.component.test_store_sqlite import leading as leading
from tests.component.test_threads import Once
from tests.fakemaster import Call
from tests.waiting import wait_for


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(threads, "LONGEST_PAUSE", 0.02)


@pytest.fixture
def told() -> Iterator[list[Any]]:
    with capture_logs() as lines:
        yield lines


def failed(told: list[Any], event: str = "thread.failed", **fields: str) -> bool:
    return any(line["event"] == event and fields.items() <= line.items() for line in told)


# --- the driver of Mesos --------------------------------------------------------------------------------------------


def test_the_stream_of_events_is_subscribed_again(
    script: Script, run: Run, monkeypatch: pytest.MonkeyPatch, told: list[Any]
) -> None:
    monkeypatch.setattr(Driver, "_round", Once(Driver._round))
    running = run(script.master.url)
    running.expect(cluster_manager.Connected)
    assert failed(told, "mesos.stream.failed")


def test_the_core_hears_of_the_end_of_a_subscription_that_cannot_be_closed(
    script: Script, run: Run, monkeypatch: pytest.MonkeyPatch, told: list[Any]
) -> None:
    """Without that it would go on to send calls of a subscription that is gone."""
    running = run(script.master.url)
    running.expect(cluster_manager.Connected)
    monkeypatch.setattr(EventStream, "close", Once(EventStream.close))
    script.streams[0].close()
    running.expect(cluster_manager.Disconnected)
    running.expect(cluster_manager.Connected)
    assert failed(told, part="stream")


def test_calls_go_on(script: Script, run: Run, monkeypatch: pytest.MonkeyPatch, told: list[Any]) -> None:
    monkeypatch.setattr(CallQueue, "next_batch", Once(CallQueue.next_batch))
    running = run(script.master.url)
    running.expect(cluster_manager.Connected)
    running.driver.send([leased.Revive()])
    wait_for(lambda: script.master.calls(Call.REVIVE), what="the call")
    assert failed(told, thread="mesos-calls")


def test_calls_that_cannot_be_dropped_do_not_end_their_thread(
    script: Script, run: Run, monkeypatch: pytest.MonkeyPatch, told: list[Any]
) -> None:
    monkeypatch.setattr(Driver, "_drop", Once(Driver._drop))
    running = run("http://127.0.0.1:1")
    running.driver.send([accept("o1")])
    wait_for(lambda: failed(told, thread="mesos-calls"), what="the error")
    running.driver.send([accept("o2")])
    assert running.expect(cluster_manager.LaunchFailed).certain


@pytest.mark.parametrize("part", [(Driver, "_side_step"), (AgentWatch, "look")], ids=lambda part: part[1])
def test_outcomes_of_calls_are_told_although_agents_cannot_be_listed(
    part: tuple[type, str], script: Script, run: Run, monkeypatch: pytest.MonkeyPatch, told: list[Any]
) -> None:
    """One thread does both."""
    monkeypatch.setattr(agent_watch, "BLIND", 0.1)
    monkeypatch.setattr(*part, Once(getattr(*part), times=3))
    script.on_call = lambda peer, request: b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nbad"
    running = run(script.master.url)
    running.expect(cluster_manager.Connected)
    running.driver.send([accept("o1")])
    assert running.expect(cluster_manager.LaunchFailed).taskgroups == ("tg",)
    running.expect(cluster_manager.AgentsListed)
    assert failed(told, "mesos.side.failed")


def test_a_subscription_does_not_wait_for_a_name_that_cannot_be_asked_for(
    script: Script, run: Run, monkeypatch: pytest.MonkeyPatch, told: list[Any]
) -> None:
    monkeypatch.setattr(operator, "cluster_name", Once(times=99))
    monkeypatch.setattr(cluster_name, "WAIT", 20.0)
    assert run(script.master.url).expect(cluster_manager.Connected).cluster == ""
    assert failed(told, thread="mesos-cluster")


def test_the_election_of_masters_is_looked_at_again(monkeypatch: pytest.MonkeyPatch, told: list[Any]) -> None:
    changes: list[int] = []
    detector = detect.make_detector("zk://127.0.0.1:1/mesos")
    assert isinstance(detector, detect.ZooKeeperDetector)
    detector._changed = lambda: changes.append(1)

    def look() -> None:
        detector._node = "json.info_0000000001"

    monkeypatch.setattr(detector, "_look", Once(look))
    detector._session_changed(KazooState.CONNECTED)
    wait_for(lambda: failed(told, thread="mesos-detect"), what="the error")
    detector._node_changed(None)
    wait_for(lambda: changes, what="the news of another leading master")


# --- the stores -----------------------------------------------------------------------------------------------------


def test_the_writer_of_sqlite_goes_on(leading: Leading, monkeypatch: pytest.MonkeyPatch, told: list[Any]) -> None:
    """The error comes between two groups of commits: nothing is lost by it, so the term goes on."""
    leading.commit("before", leading.epoch).result(30)
    monkeypatch.setattr(leading.store, "_next_group", Once(leading.store._next_group))
    leading.commit("ends the wait", leading.epoch).result(30)
    leading.commit("behind", leading.epoch).result(30)
    assert failed(told, thread="sqlite-writer")
    assert leading.stored() == ["before", "behind", "ends the wait"] and leading.reasons.empty()


def test_a_term_that_ends_without_being_told_does_not_end_the_writer(
    leading: Leading, monkeypatch: pytest.MonkeyPatch, told: list[Any]
) -> None:
    leading.store.resign()
    terms: list[Term] = []
    leading.store.campaign("http://127.0.0.1:1", terms.append, Once(times=9))
    epoch = wait_for(lambda: terms, 30, "the election")[0].epoch
    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "_write", Once(times=9))
        with pytest.raises(StoreError, match="unexpected"):
            leading.commit("lost", epoch).result(30)
        wait_for(lambda: failed(told, thread="sqlite-writer"), what="the error")
    leading.commit("next term", leading.elected()).result(30)
    assert leading.stored() == ["next term"]


def test_a_candidate_at_sqlite_tries_to_get_the_lock_again(leading: Leading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_LOCK_POLL_SECONDS", 0.01)
    leading.store.resign()
    attempts = Once(FileLock.try_acquire, times=3)
    monkeypatch.setattr(FileLock, "try_acquire", attempts)
    assert leading.elected() > leading.epoch and attempts.calls == 4


class Elections:
    """An election without ZooKeeper: one attempt to stand wins it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **replaced: Any) -> None:
        monkeypatch.setattr(election, "_PAUSE_SECONDS", 0.01)
        connected = threading.Event()
        connected.set()
        self.expired = Once(times=0)
        session = SimpleNamespace(closed=False, connected=connected, id=1, expire=self.expired)
        pipeline = SimpleNamespace(end=lambda epoch: None, begin=lambda *_: None)
        self.election = Election(session, Tree("/x"), pipeline)  # type: ignore[arg-type]
        self.won: list[int] = []
        self.lost: list[str] = []
        self.removed = Once(times=0)
        parts = {"_stand": self.stand, "_remove_nodes": self.removed, **replaced}
        for name, part in parts.items():
            monkeypatch.setattr(self.election, name, part)

    def stand(self, candidacy: Any) -> None:
        candidacy.epoch = 7

    def campaign(self) -> threading.Thread:
        self.election.campaign("http://127.0.0.1:1", lambda term: self.won.append(term.epoch), self.lost.append)
        assert self.election._candidacy is not None and self.election._candidacy.thread is not None
        return self.election._candidacy.thread


def test_a_candidate_at_zookeeper_stands_again(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    stands = Once(lambda candidacy: setattr(candidacy, "epoch", 7), times=3)
    elections = Elections(monkeypatch, _stand=stands)
    elections.campaign()
    wait_for(lambda: elections.won == [7], what="the election")
    assert stands.calls == 4 and elections.removed.calls >= 3, "its node is removed before each further attempt"
    assert "failed, trying again: ZeroDivisionError" in caplog.text
    elections.election.resign()


def test_a_leader_at_zookeeper_whose_thread_fails_gives_the_lead_back(
    monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    removed = Once(times=2)
    elections = Elections(monkeypatch, _remove_nodes=removed)
    thread = elections.campaign()
    wait_for(lambda: elections.won, what="the election")
    candidacy = elections.election._candidacy
    assert candidacy is not None
    monkeypatch.setattr(candidacy.wake, "clear", Once())
    candidacy.wake.set()
    thread.join(30)
    assert not thread.is_alive() and removed.calls == 3, "the candidate node is removed, however often that fails"
    assert len(elections.lost) == 1 and "ZeroDivisionError" in elections.lost[0]
    assert "the candidacy of http://127.0.0.1:1 has failed" in caplog.text


def test_a_candidate_at_zookeeper_that_gives_up_ends_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its node would keep all others from leading."""
    elections = Elections(monkeypatch, _remove_nodes=Once(times=99))
    elections.expired.times = 2
    thread = elections.campaign()
    wait_for(lambda: elections.won, what="the election")
    elections.election.resign()
    thread.join(30)
    assert not thread.is_alive() and elections.expired.calls == 3, "until the session has ended"


def test_a_leader_at_zookeeper_that_nobody_can_tell_of_its_end_is_gone(
    monkeypatch: pytest.MonkeyPatch, told: list[Any]
) -> None:
    elections = Elections(monkeypatch)
    elections.election.campaign("http://127.0.0.1:1", lambda term: elections.won.append(term.epoch), Once(times=9))
    wait_for(lambda: elections.won, what="the election")
    elections.election.session_lost()
    wait_for(lambda: failed(told, thread="zookeeper-election"), what="the error")
    assert elections.removed.calls == 1 and elections.election.leading is None
    thread = elections.campaign()
    wait_for(lambda: len(elections.won) == 2, what="the next candidacy")
    elections.election.resign()
    thread.join(30)


def test_commits_that_wait_are_answered_when_the_store_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Leading(tmp_path / "bcs.db")
    honest = SqliteStore._write_until_done
    started, go_on = threading.Event(), threading.Event()

    def write(self: SqliteStore, *arguments: Any) -> bool:
        started.set()
        assert go_on.wait(30)
        return honest(self, *arguments)

    monkeypatch.setattr(SqliteStore, "_write_until_done", write)
    first = made.commit("a", made.epoch)
    assert started.wait(30)
    waiting = made.commit("b", made.epoch)
    closing = threading.Thread(target=made.store.close)
    closing.start()
    wait_for(made.store._closing.is_set, what="the store to be closed")
    go_on.set()
    closing.join(30)
    assert not closing.is_alive() and first.done() and waiting.done()
