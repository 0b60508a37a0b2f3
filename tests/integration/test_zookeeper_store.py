"""The ZooKeeper store when something goes wrong between it and a real ZooKeeper.

Some tests reach for the store's connection to break it at a chosen moment.
"""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import UnimplementedError
from kazoo.protocol.connection import _CONNECTION_DROP

from store.base import Change, StaleEpoch, Store, StoreUnavailable, Term
from store.records import Application, ConfigItem, ConfigMap
from store.zookeeper import reader as zookeeper_reader
from store.zookeeper.commit_pipeline import CommitPipeline
from store.zookeeper.election import Election, _Candidacy
from store.zookeeper.reader import make_tree
from store.zookeeper.session import Session
from store.zookeeper.store import ZooKeeperStore
from store.zookeeper.tree import TERMS_KEPT, Address, Tree
from tests.integration.storeplaces import PATIENCE, Candidate, ZooKeeperPlace, done, puts
from tests.integration.zookeeper import SHORT_LIVED, ZooKeeperServer
from tests.waiting import wait_for

pytestmark = pytest.mark.zookeeper


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A server that these tests may stop and kill."""
    server = ZooKeeperServer(tmp_path_factory.mktemp("own-zookeeper"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def place(own_server: ZooKeeperServer, tmp_path: Path) -> Iterator[ZooKeeperPlace]:
    client = KazooClient(own_server.hosts)
    client.start()
    yield ZooKeeperPlace(own_server.hosts, f"/{tmp_path.name}", client)
    client.stop()
    client.close()


@pytest.fixture
def leader(place: ZooKeeperPlace) -> Iterator[Candidate]:
    candidate = Candidate(place.store(session_timeout=20.0), "http://127.0.0.1:1001")
    candidate.wait_elected()
    yield candidate
    candidate.store.close()


def app(name: object = "web", **fields: object) -> Application:
    return Application(namespace="ns", name=str(name), **fields)  # type: ignore[arg-type]


class HasStore(Protocol):
    store: Store


def session_of(holder: HasStore) -> Session:
    store = holder.store
    assert isinstance(store, ZooKeeperStore) and store._opened is not None
    return store._opened.session


def drop_connection(holder: HasStore) -> None:
    """As if the network had failed; returns when the store has noticed, or has connected again since."""
    client = session_of(holder).client
    states: list[str] = []
    client.add_listener(states.append)
    try:
        client._call(_CONNECTION_DROP, client.handler.async_result())
        wait_for(lambda: states, what="the loss of the connection")
    finally:
        client.remove_listener(states.append)
    wait_for(lambda: not holder.store.healthy() or len(states) > 1, what="the store to notice the loss")


def expire_session(place: ZooKeeperPlace, holder: HasStore) -> None:
    """Lets ZooKeeper end the session of the store, by closing it from a second connection."""
    twin = KazooClient(place.hosts, client_id=session_of(holder).client.client_id)
    twin.start()
    twin.stop()
    twin.close()


def versions(place: ZooKeeperPlace) -> dict[str, int]:
    """How often each stored application has been changed, by name."""
    found: dict[str, int] = {}
    for bucket in place.client.get_children(place.tree.kind("application")):
        for name in place.client.get_children(place.tree.bucket("application", bucket)):
            path = f"{place.tree.bucket('application', bucket)}/{name}"
            found[name.removeprefix("ns%2F")] = place.client.exists(path).version
    return found


def outcome(futures: list[Future[None]]) -> list[bool]:
    """Of each, in order: whether it was applied; refused ones must be StaleEpoch."""
    errors = [future.exception(PATIENCE) for future in futures]
    assert {type(error) for error in errors} <= {type(None), StaleEpoch}
    return [error is None for error in errors]


# --- the connection -------------------------------------------------------------------------------------------------


def test_an_unreachable_server_is_reported_by_open_which_may_be_tried_again(
    own_server: ZooKeeperServer, place: ZooKeeperPlace
) -> None:
    own_server.stop()
    store = ZooKeeperStore(place.hosts, place.root, connect_timeout=0.5)
    with pytest.raises(StoreUnavailable, match=r"does not answer within 0.5 s"):
        store.open()
    assert not store.healthy()
    own_server.start()
    store.connect_timeout = PATIENCE
    store.open()
    assert store.healthy()
    assert store.load().records == []
    store.close()


def test_commits_wait_while_the_server_hangs_and_are_applied_once(
    own_server: ZooKeeperServer, place: ZooKeeperPlace, leader: Candidate
) -> None:
    leader.put(app("first")).result(PATIENCE)
    own_server.suspend()
    try:
        futures = [leader.put(app(number, message="x" * 2000)) for number in range(1000)]
        drop_connection(leader)  # while some of them lie in the socket that the server will read when it goes on
        futures += [leader.put(app("late"))]
        assert not any(future.done() for future in futures)
    finally:
        own_server.resume()
    done(futures)
    assert not leader.was_deposed
    assert versions(place) == dict.fromkeys(["first", "late", *map(str, range(1000))], 0)


def test_a_lost_connection_under_load_loses_and_doubles_nothing(place: ZooKeeperPlace, leader: Candidate) -> None:
    futures: list[Future[None]] = []
    for number in range(3000):
        futures.append(leader.put(app(number), app("counter", instances=number)))
        if number % 500 == 250:
            drop_connection(leader)
    done(futures)
    assert not leader.was_deposed
    found = versions(place)
    assert found.pop("counter") > 0
    assert found == dict.fromkeys(map(str, range(3000)), 0)
    counter = json.loads(place.raw("application", "ns/counter") or b"")
    assert counter["instances"] == 2999


def test_pending_commits_survive_a_killed_server(
    own_server: ZooKeeperServer, place: ZooKeeperPlace, leader: Candidate
) -> None:
    futures = [leader.put(app(number, message="x" * 2000)) for number in range(2000)]
    futures[200].result(PATIENCE)
    own_server.kill()
    wait_for(lambda: not leader.store.healthy())
    futures += [leader.put(app(number)) for number in range(2000, 2100)]
    own_server.start()
    done(futures)
    assert not leader.was_deposed
    assert versions(place) == dict.fromkeys(map(str, range(2100)), 0)


def test_close_does_not_wait_for_a_server_that_hangs(own_server: ZooKeeperServer, leader: Candidate) -> None:
    own_server.suspend()
    try:
        pending = leader.put(app())
        leader.store.close()
        assert isinstance(pending.exception(0), StoreUnavailable)
    finally:
        own_server.resume()


# --- leadership -----------------------------------------------------------------------------------------------------


def test_an_expired_session_ends_the_leadership_and_the_store_may_lead_again(
    place: ZooKeeperPlace, leader: Candidate
) -> None:
    leader.put(app("before")).result(PATIENCE)
    futures = [leader.put(app(number)) for number in range(2000)]
    expire_session(place, leader)
    assert "session" in leader.wait_deposed()
    assert isinstance(leader.put(app("after")).exception(PATIENCE), StaleEpoch)
    applied = outcome(futures)
    assert applied == sorted(applied, reverse=True)
    assert set(versions(place)) == {"before", *map(str, range(sum(applied)))}

    leader.stand()
    assert leader.wait_elected() == 2
    leader.put(app("after")).result(PATIENCE)
    assert "after" in versions(place)


def test_commits_on_their_way_fail_behind_a_takeover_and_only_those(place: ZooKeeperPlace, leader: Candidate) -> None:
    second = Candidate(place.store(), "http://127.0.0.1:1002")
    futures = [leader.put(app(number)) for number in range(500)]
    futures[100].result(PATIENCE)
    place.break_leadership(leader)
    while not leader.was_deposed:
        futures.append(leader.put(app(len(futures))))
        futures[-500].exception(PATIENCE)
    futures.append(leader.put(app(len(futures))))  # all others may have come before the takeover
    assert second.wait_elected() == 2
    found = set(versions(place))
    applied = outcome(futures)
    assert applied == sorted(applied, reverse=True)
    assert not applied[-1]
    assert found == set(map(str, range(sum(applied))))
    second.store.close()


def test_an_overtaken_leader_that_has_nothing_to_commit_is_told(place: ZooKeeperPlace, leader: Candidate) -> None:
    second = Candidate(place.store(), "http://127.0.0.1:1002")
    wait_for(lambda: len(place.client.get_children(place.tree.election)) == 2)
    place.break_leadership(leader)
    assert leader.wait_deposed() == "epoch 2 is led by http://127.0.0.1:1002"
    second.store.close()


def test_a_waiting_candidate_whose_session_expires_enters_again(place: ZooKeeperPlace, leader: Candidate) -> None:
    second = Candidate(place.store())
    wait_for(lambda: len(place.client.get_children(place.tree.election)) == 2)
    entered = max(place.client.get_children(place.tree.election), key=lambda name: name[-10:])
    expire_session(place, second)
    wait_for(lambda: max(place.client.get_children(place.tree.election), key=lambda name: name[-10:]) > entered[-10:])
    wait_for(lambda: len(set(place.client.get_children(place.tree.election)) - {entered}) == 2)
    leader.store.resign()
    assert second.wait_elected() == 2
    assert not second.was_deposed
    second.put(app()).result(PATIENCE)
    second.store.close()


# --- what others do to the tree -------------------------------------------------------------------------------------


def test_an_unexpected_error_of_a_candidate_lets_the_next_one_lead(
    place: ZooKeeperPlace, leader: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The candidate goes on and leads when its turn comes again."""
    troubled = Candidate(place.store(session_timeout=20.0), "http://127.0.0.1:1002")
    wait_for(lambda: len(place.client.get_children(place.tree.election)) == 2, what="the second candidate")
    last = Candidate(place.store(session_timeout=20.0), "http://127.0.0.1:1003")
    wait_for(lambda: len(place.client.get_children(place.tree.election)) == 3, what="the third candidate")
    take_over = Election._take_over
    failures: list[Any] = []

    def fail(self: Election, candidacy: _Candidacy, ours: str) -> None:
        if candidacy.url == troubled.url and not failures:
            failures.append(ours)
            raise IndexError("unexpected")
        take_over(self, candidacy, ours)

    monkeypatch.setattr(Election, "_take_over", fail)
    try:
        leader.store.resign()
        assert last.wait_elected() > leader.epoch
        assert failures
        wait_for(lambda: len(place.client.get_children(place.tree.election)) == 2, what="the second candidacy")
        last.store.resign()
        assert troubled.wait_elected() > last.epoch
    finally:
        troubled.store.close()
        last.store.close()


def test_a_leader_whose_election_cannot_be_told_gives_the_lead_back(place: ZooKeeperPlace, leader: Candidate) -> None:
    deposed: queue.Queue[str] = queue.Queue()
    store = place.store(session_timeout=20.0)
    store.open()
    store.campaign("http://127.0.0.1:1002", _unable, deposed.put)
    try:
        leader.store.resign()
        assert "unexpected" in deposed.get(timeout=PATIENCE)
        leader.stand()
        assert leader.wait_elected() > 1
    finally:
        store.close()


def removal_fails_for(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remove = Election._remove_nodes

    def fail(self: Election, candidacy: _Candidacy) -> None:
        if candidacy.url == url:
            raise IndexError("unexpected")
        remove(self, candidacy)

    monkeypatch.setattr(Election, "_remove_nodes", fail)


def test_a_leader_that_cannot_remove_its_node_ends_its_session_and_another_one_leads(
    place: ZooKeeperPlace, leader: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session would live on, and its node in front of all others with it."""
    last = Candidate(place.store(session_timeout=20.0), "http://127.0.0.1:1002")
    wait_for(lambda: len(place.client.get_children(place.tree.election)) == 2, what="the second candidate")
    before = session_of(leader).id
    try:
        with monkeypatch.context() as patched:
            removal_fails_for(leader.url, patched)
            leader.store.resign()
            assert last.wait_elected() > leader.epoch
            wait_for(lambda: session_of(leader).id not in (None, before), what="another session")
        leader.stand()
        last.store.resign()
        assert leader.wait_elected() > last.epoch, "the store may lead again"
    finally:
        last.store.close()


def test_a_candidate_that_can_neither_lead_nor_remove_its_node_does_not_hold_up_the_next_one(
    place: ZooKeeperPlace, leader: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubled = Candidate(place.store(session_timeout=20.0), "http://127.0.0.1:1002")
    wait_for(lambda: len(place.client.get_children(place.tree.election)) == 2, what="the second candidate")
    last = Candidate(place.store(session_timeout=20.0), "http://127.0.0.1:1003")
    wait_for(lambda: len(place.client.get_children(place.tree.election)) == 3, what="the third candidate")
    take_over = Election._take_over

    def fail(self: Election, candidacy: _Candidacy, ours: str) -> None:
        if candidacy.url == troubled.url:
            raise IndexError("unexpected")
        take_over(self, candidacy, ours)

    try:
        with monkeypatch.context() as patched:
            patched.setattr(Election, "_take_over", fail)
            removal_fails_for(troubled.url, patched)
            leader.store.resign()
            assert last.wait_elected() > leader.epoch
    finally:
        troubled.store.close()
        last.store.close()


def _unable(term: Term) -> None:
    raise RuntimeError("unexpected")


def test_records_changed_behind_our_back_do_not_stop_the_commits(place: ZooKeeperPlace, leader: Candidate) -> None:
    leader.put(app("deleted"), app("kept")).result(PATIENCE)
    place.client.delete(place.tree.record(Address("application", "ns/deleted")))
    place.plant("application", "ns/created", b"{}")
    done([leader.put(app("deleted", instances=1)), leader.put(app("created")), leader.remove(app("kept"))])
    assert set(versions(place)) == {"deleted", "created"}
    assert not leader.was_deposed


def test_kinds_of_a_newer_layout_are_reported(place: ZooKeeperPlace, leader: Candidate) -> None:
    place.plant("gadget", "g/1", b"{}")
    loaded = leader.store.load()
    assert [(item.kind, item.key) for item in loaded.quarantined] == [("gadget", "g/1")]


def test_servers_without_multi_reads_are_read_node_by_node(
    place: ZooKeeperPlace, leader: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [app(number) for number in range(100)]
    leader.put(*records).result(PATIENCE)
    fast = leader.store.load()

    def refuse(*_: object) -> list[object]:
        raise UnimplementedError

    monkeypatch.setattr(zookeeper_reader, "_many", refuse)
    assert leader.store.load() == fast
    assert len(fast.records) == 100


def test_a_counter_is_renewed_before_its_version_overflows(own_server: ZooKeeperServer, tmp_path: Path) -> None:
    session = Session(own_server.hosts, 10.0, lambda _state: None)
    session.start(PATIENCE)
    tree = Tree(f"/{tmp_path.name}")
    make_tree(session, tree)
    session.client.create(tree.epoch, b"")
    session.client.create(tree.counter(1), b"0")
    pipeline = CommitPipeline(session, tree, 700_000, lambda _epoch, _reason: None, renew_version=5)
    pipeline.start()
    pipeline.begin(1, 0)
    for number in range(20):
        pipeline.submit(puts([app(number)]), 1).result(PATIENCE)
    data, stat = session.client.get(tree.counter(1))
    assert (data, stat.version) == (b"20", 20 % 6)
    pipeline.stop()
    session.close()


def test_only_the_counters_of_the_last_terms_are_kept(place: ZooKeeperPlace, leader: Candidate) -> None:
    for _ in range(TERMS_KEPT + 3):
        leader.store.resign()
        leader.stand()
        leader.wait_elected()
    kept = sorted(int(epoch) for epoch in place.client.get_children(place.tree.epoch))
    assert kept == list(range(leader.epoch - TERMS_KEPT + 1, leader.epoch + 1))


@pytest.mark.rotating
def test_many_large_records_are_loaded_from_a_server_with_a_small_heap(tmp_path: Path) -> None:
    """Answers to reads of many nodes once overflowed the heap of the server: it ended the connection each time."""
    server = ZooKeeperServer(tmp_path / "server", java=("-Xmx192m", SHORT_LIVED))
    server.start()
    stores = [ZooKeeperStore(server.hosts, "/large", session_timeout=10.0) for _ in range(2)]
    try:
        writer, reader = stores
        for store in stores:
            store.open()
        elected: queue.SimpleQueue[int] = queue.SimpleQueue()
        writer.campaign("http://a:1", lambda term: elected.put(term.epoch), lambda reason: None)
        epoch = elected.get(timeout=PATIENCE)
        content = "x" * 240_000
        for number in range(110):
            record = ConfigMap(namespace="ns", name=f"c{number}", items={"k": ConfigItem(content=content)})
            writer.commit([Change(record.kind, record.key, record)], epoch).result(PATIENCE)
        for _ in range(3):
            loaded = reader.load()
            assert len(loaded.records) == 110 and not loaded.quarantined
        follower = reader.follow()
        assert sum(len(part.changes) for part in follower.read()) == 110
        follower.close()
    finally:
        for store in stores:
            store.close()
        server.stop()
