"""The store on a real ZooKeeper ensemble of three: members are killed, hang, and come back while commits stream."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from store.base import StoreUnavailable
from store.factory import open_store
from store.records import Application
from store.zookeeper.session import Session
from store.zookeeper.store import ZooKeeperStore
from store.zookeeper.tree import Address
from tests.integration.storeplaces import PATIENCE, Candidate, ZooKeeperPlace, catch_up, done
from tests.integration.zookeeper import ZooKeeperServer
from tests.integration.zookeeperensemble import ZooKeeperEnsemble
from tests.waiting import wait_for

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.rotating]


@pytest.fixture
def place(zookeeper_ensemble: ZooKeeperEnsemble, tmp_path: Path) -> Iterator[ZooKeeperPlace]:
    client = KazooClient(zookeeper_ensemble.hosts)
    client.start()
    yield ZooKeeperPlace(zookeeper_ensemble.hosts, f"/{tmp_path.name}", client)
    client.stop()
    client.close()


@pytest.fixture
def leader(place: ZooKeeperPlace) -> Iterator[Candidate]:
    candidate = Candidate(open_store(place.url))
    candidate.wait_elected()
    yield candidate
    candidate.store.close()


class CommitStream:
    """A thread that commits all the time: number N creates the record N and changes `counter` to N."""

    WINDOW = 100
    """So many commits under way at most."""
    PACE = 0.002
    """Seconds between commits: a few thousand in a test are enough."""

    def __init__(self, leader: Candidate) -> None:
        self._leader = leader
        self._room = threading.Semaphore(self.WINDOW)
        self._stopping = threading.Event()
        self.futures: list[Future[None]] = []
        self.durable = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(self.PACE):
            if self._room.acquire(timeout=0.1):
                number = len(self.futures)
                record = Application(namespace="ns", name=str(number))
                counter = Application(namespace="ns", name="counter", instances=number)
                future = self._leader.put(record, counter)
                self.futures.append(future)
                future.add_done_callback(self._decided)

    def _decided(self, future: Future[None]) -> None:
        self.durable += future.exception() is None
        self._room.release()

    def flows(self, seconds: float = PATIENCE) -> None:
        """Waits for commits to be made and to become durable that were not under way when this was called."""
        wanted = self.durable + 2 * self.WINDOW
        wait_for(lambda: self.durable >= wanted, seconds, lambda: f"{wanted} durable commits: {self.durable}")

    def stalls(self) -> None:
        """Waits until the window is full."""
        wait_for(lambda: len(self.futures) == self.durable + self.WINDOW, what="a full window")

    def end(self) -> int:
        """Stops; all commits made must succeed. Their number."""
        self._stopping.set()
        self._thread.join(PATIENCE)
        done(self.futures)
        return len(self.futures)


def assert_all_there_once_in_order(place: ZooKeeperPlace, count: int) -> None:
    """What another process finds: each of the records written once, one after the other; the last value on top."""
    successor = open_store(place.url)
    successor.open()
    loaded = {record.name: record for record in successor.load().records if isinstance(record, Application)}
    successor.close()
    assert loaded.pop("counter").instances == count - 1
    assert set(loaded) == set(map(str, range(count)))
    catch_up(place.client, place.tree)
    born: list[int] = []
    for first in range(0, count, 64):
        paths = [place.tree.record(Address("application", f"ns/{n}")) for n in range(first, min(first + 64, count))]
        for answer in [place.client.exists_async(path) for path in paths]:
            stat = answer.get(timeout=PATIENCE)
            assert stat.version == 0, "a record was written twice"
            born.append(stat.czxid)
    assert born == sorted(born)


def server_of(candidate: Candidate, ensemble: ZooKeeperEnsemble) -> ZooKeeperServer:
    """The member that the store is connected to."""
    store = candidate.store
    assert isinstance(store, ZooKeeperStore) and store._opened is not None
    port = store._opened.session.client._connection._socket.getpeername()[1]
    return next(member for member in ensemble.members if member.port == port)


def test_servers_are_tried_in_turn() -> None:
    """A session has time for one server that hangs, not for the same one twice."""
    tried: list[int] = []
    with ExitStack() as stack:
        ports = []
        for number in range(3):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            ports.append(listener.getsockname()[1])
            threading.Thread(target=_turn_away, args=(listener, number, tried), daemon=True).start()
        session = Session(",".join(f"127.0.0.1:{port}" for port in ports), 10.0, lambda _state: None)
        stack.callback(session.close)
        session.client.start_async()
        wait_for(lambda: len(tried) >= 15, what="attempts to connect")
    assert sorted(tried[:3]) == [0, 1, 2]
    assert tried[:12] == tried[3:15]


def _turn_away(listener: socket.socket, number: int, tried: list[int]) -> None:
    """Accepts and closes at once, as a member without a quorum does."""
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            tried.append(number)
            connection.close()


def test_the_leading_member_is_killed_again_and_again_under_commits(
    zookeeper_ensemble: ZooKeeperEnsemble, place: ZooKeeperPlace, leader: Candidate
) -> None:
    stream = CommitStream(leader)
    for _ in range(2):
        stream.flows()
        zookeeper_ensemble.leader().kill()
        stream.flows()
        zookeeper_ensemble.heal()
    assert_all_there_once_in_order(place, stream.end())
    assert not leader.was_deposed
    assert json.loads(place.client.get(place.tree.epoch)[0])["epoch"] == 1


@pytest.mark.parametrize("which", ["leading", "ours"])
def test_a_member_that_hangs_does_not_cost_the_session(
    zookeeper_ensemble: ZooKeeperEnsemble, place: ZooKeeperPlace, leader: Candidate, which: str
) -> None:
    stream = CommitStream(leader)
    stream.flows()
    member = zookeeper_ensemble.leader() if which == "leading" else server_of(leader, zookeeper_ensemble)
    member.suspend()
    stream.flows()
    member.resume()
    assert_all_there_once_in_order(place, stream.end())
    assert not leader.was_deposed


@pytest.mark.parametrize("victims", [2, 3])
def test_without_a_quorum_commits_wait_and_are_applied_once_it_is_back(
    zookeeper_ensemble: ZooKeeperEnsemble, place: ZooKeeperPlace, leader: Candidate, victims: int
) -> None:
    stream = CommitStream(leader)
    stream.flows()
    for member in zookeeper_ensemble.members[:victims]:
        member.kill()
    stream.stalls()
    wait_for(lambda: not leader.store.healthy(), what="the loss of the connection")
    other = ZooKeeperStore(place.hosts, place.root, connect_timeout=0.5)
    with pytest.raises(StoreUnavailable):
        other.open()
    zookeeper_ensemble.heal()
    stream.flows()
    assert_all_there_once_in_order(place, stream.end())
    assert not leader.was_deposed
