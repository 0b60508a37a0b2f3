"""News of agents reach the scheduler within seconds, without lists of all agents in between."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bcs_scheduler.core.interface import cluster_manager
from bcs_scheduler.mesos import agent_watch
from bcs_scheduler.mesos.agent_watch import AgentWatch
from bcs_scheduler.mesos.errors import CallRefused
from bcs_scheduler.mesos.transport import operator
from bcs_scheduler.mesos.transport.http import Master
from tests.integration.localmesos import LocalMesosProcess
from tests.integration.mesoscluster import RealMesos
from tests.waiting import wait_for

HOUR = 3600.0


class Watched:
    """A watch that is looked at as often as it wants, and the lists it has made."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.master = Master(host, int(port))
        self.watch = AgentWatch({}, HOUR)
        self.lists: list[cluster_manager.AgentsListed] = []
        self.watch.renew()

    def look(self) -> cluster_manager.AgentsListed | None:
        if self.watch.pause() == 0.0:
            listed = self.watch.look(self.master, lambda: "test")
            if listed is not None:
                self.lists.append(listed)
                return listed
        return None

    def times(self) -> dict[str, float]:
        """Registration times of the last list."""
        return {agent.hostname: agent.registered_time for agent in self.lists[-1].agents}


@pytest.fixture
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalMesosProcess]:
    cluster = LocalMesosProcess(tmp_path_factory.mktemp("watched"), "--synthetic", "--agents=3").start()
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.mark.mesos
def test_an_agent_that_registers_again_is_listed_at_once_on_the_real_mesos(own_mesos: RealMesos) -> None:
    own_mesos.wait_for_agents()
    watched = Watched(own_mesos.masters["solo"])
    wait_for(watched.look, 30, "the first list")
    first = watched.times()
    assert watched.lists[0].clock == pytest.approx(max(first.values()), abs=120)
    own_mesos.kill_agent("s2")
    own_mesos.start_process("s2")
    own_mesos.wait_for_agents()
    wait_for(lambda: watched.look() and watched.times()["agent2"] > first["agent2"], 30, "the list with its return")
    assert {name for name, at in watched.times().items() if at != first[name]} == {"agent2"}


def test_an_agent_that_comes_back_is_listed_at_once_and_else_nothing_is(local: LocalMesosProcess) -> None:
    watched = Watched(local.url.removeprefix("http://"))
    wait_for(watched.look, 30, "the first list")
    first = watched.times()
    polls = 0
    while polls < 2:
        if watched.watch.pause() == 0.0:
            polls += 1
            assert watched.look() is None, "nothing has changed"
    local.control("kill_agent", agent="agent-2")
    local.control("restart_agent", agent="agent-2")
    wait_for(lambda: watched.look() and watched.times() != first, 30, "the list after the return")
    assert watched.lists[-1].clock > 0


def test_a_master_that_hides_its_counters_is_asked_for_lists_more_often(
    local: LocalMesosProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "agent_counters", lambda master, headers: None)
    monkeypatch.setattr(agent_watch, "BLIND", 0.2)
    watched = Watched(local.url.removeprefix("http://"))
    wait_for(lambda: watched.look() and len(watched.lists) >= 3, 30, "three lists")


def test_a_master_that_does_not_answer_is_asked_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(master: Master, headers: dict[str, str]) -> None:
        raise CallRefused(500, "no")

    monkeypatch.setattr(operator, "agent_counters", refused)
    watched = Watched("127.0.0.1:1")
    assert watched.look() is None
    assert 0 < watched.watch.pause() <= agent_watch.RETRY
