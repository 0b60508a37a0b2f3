"""Handing the lead to a scheduler that reaches Mesos (bcs_scheduler.leadership.handover): who asks, who answers, and
when."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bcs_scheduler.leadership.handover import Handover, Standing
from bcs_scheduler.mesos.settings import MesosSettings
from bcs_scheduler.mesos.transport.reach import reaches_master
from store.memory import MemoryBackend, MemoryStore
from tests import fakemaster
from tests.fakemaster import FakeMaster


class Scheduler:
    """One candidate, with the network as the test says."""

    def __init__(self, backend: MemoryBackend, url: str, patience: float = 60.0) -> None:
        self.store = MemoryStore(backend)
        self.store.open()
        self.store.campaign(url, lambda term: None, lambda reason: None)
        self.standing: Standing = "standing by"
        self.reaching = False
        self.tried = 0
        self.gave_up: list[str] = []
        self.handover = Handover(self.store, patience, lambda: self.standing, self._reaches, self.gave_up.append)

    def _reaches(self) -> bool:
        self.tried += 1
        return self.reaching


@pytest.fixture
def pair() -> tuple[Scheduler, Scheduler]:
    backend = MemoryBackend()
    leader, standby = Scheduler(backend, "http://a:1"), Scheduler(backend, "http://b:2")
    leader.standing = "cut off"
    return leader, standby


def rounds(leader: Scheduler, standby: Scheduler, since: float, seconds: float) -> None:
    """Both look every two seconds."""
    moment = since
    while moment <= since + seconds:
        leader.handover.step(moment)
        standby.handover.step(moment)
        moment += 2.0


def test_the_leader_gives_up_when_a_candidate_reaches_mesos(pair: tuple[Scheduler, Scheduler]) -> None:
    leader, standby = pair
    standby.reaching = True
    rounds(leader, standby, 0.0, 58.0)
    assert (leader.gave_up, standby.tried) == ([], 0), "nobody is asked before the patience is over"
    rounds(leader, standby, 60.0, 4.0)
    assert len(leader.gave_up) == 1 and "http://b:2 reaches the master" in leader.gave_up[0]


def test_the_leader_stays_if_nobody_reaches_mesos(pair: tuple[Scheduler, Scheduler]) -> None:
    leader, standby = pair
    rounds(leader, standby, 0.0, 600.0)
    assert leader.gave_up == [] and standby.tried > 100
    standby.reaching = True
    rounds(leader, standby, 602.0, 4.0)
    assert len(leader.gave_up) == 1


def test_a_subscription_ends_the_question(pair: tuple[Scheduler, Scheduler]) -> None:
    leader, standby = pair
    rounds(leader, standby, 0.0, 70.0)
    assert standby.store.notes()
    leader.standing = "subscribed"
    leader.handover.step(72.0)
    assert not standby.store.notes()
    tried, leader.standing, standby.reaching = standby.tried, "cut off", True
    rounds(leader, standby, 74.0, 58.0)
    assert standby.tried == tried and leader.gave_up == [], "the patience begins anew"


def test_an_answer_to_an_earlier_question_does_not_count(pair: tuple[Scheduler, Scheduler]) -> None:
    leader, standby = pair
    rounds(leader, standby, 0.0, 62.0)
    standby.reaching = True
    standby.handover.step(64.0)  # it answers, and hangs from then on
    leader.standing = "subscribed"
    leader.handover.step(66.0)
    leader.standing = "cut off"
    for moment in range(68, 200, 2):
        leader.handover.step(float(moment))
    assert leader.gave_up == []


def test_the_lead_does_not_go_round(pair: tuple[Scheduler, Scheduler]) -> None:
    """Each says that it reaches the master, and none is ever subscribed: each waits twice as long the next time."""
    leader, standby = pair
    leader.reaching = standby.reaching = True
    changes: list[float] = []
    moment = 0.0
    while moment < 7200.0:
        leader.handover.step(moment)
        standby.handover.step(moment)
        if leader.gave_up:
            leader.gave_up.clear()
            changes.append(moment)
            leader, standby = standby, leader
            leader.standing, standby.standing = "cut off", "standing by"
        moment += 2.0
    assert changes[0] < 70.0
    assert changes[1] - changes[0] >= 60.0, "a new leader has the same patience"
    assert len(changes) < 14
    assert changes[3] - changes[2] >= 120.0


class TestReach:
    @pytest.fixture
    def master(self) -> Iterator[FakeMaster]:
        made = FakeMaster(lambda peer, request: peer.send(fakemaster.answer(200)))
        yield made
        made.close()

    def test_a_master_that_answers(self, master: FakeMaster) -> None:
        assert reaches_master(MesosSettings(master=master.url))
        assert not master.calls(fakemaster.Call.SUBSCRIBE)

    def test_one_that_does_not(self, master: FakeMaster, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bcs_scheduler.mesos.transport.reach.ANSWER", 0.2)
        hanging = FakeMaster(lambda peer, request: None)
        try:
            assert not reaches_master(MesosSettings(master=hanging.url))
            location = f"Location: //127.0.0.1:{hanging.port}"
            follower = FakeMaster(lambda peer, request: peer.send(fakemaster.answer(307, b"", location)))
            try:
                assert not reaches_master(MesosSettings(master=follower.url)), "the leading one does not answer"
            finally:
                follower.close()
        finally:
            hanging.close()
        master.close()
        assert not reaches_master(MesosSettings(master=master.url))
