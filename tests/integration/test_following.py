"""What a follower tells, for every store: all records first, then what has changed, and exactly what is stored when
nobody writes any more."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from store.base import Change, Follower, Store, StoreUnavailable
from store.encoding.seal import Sealer, new_key
from store.records import AgentSetting, Application, ConfigMap, Framework, Record, TaskGroup, Version
from store.sqlite import follower
from store.sqlite.store import SqliteStore
from store.state import State
from store.state.replica import Replica
from store.state.validation import wrong_index
from store.zookeeper import commit_log, commit_pipeline
from store.zookeeper import follower as zookeeper_follower
from store.zookeeper.store import ZooKeeperStore
from tests.integration.storeplaces import (
    PATIENCE,
    Candidate,
    MemoryPlace,
    Place,
    SqlitePlace,
    ZooKeeperPlace,
    done,
    puts,
)
from tests.integration.test_zookeeper_store import drop_connection, expire_session
from tests.integration.zookeeper import ZooKeeperServer
from tests.integration.zookeeperensemble import ZooKeeperEnsemble
from tests.waiting import wait_for

pytestmark = pytest.mark.rotating

EVERY = pytest.mark.parametrize(
    "place", ["memory", "sqlite", pytest.param("zookeeper", marks=pytest.mark.zookeeper)], indirect=True
)
ZOOKEEPER = [
    pytest.mark.zookeeper,
    pytest.mark.parametrize("place", ["zookeeper"], indirect=True),
]


def zookeeper_only(test: object) -> object:
    for mark in ZOOKEEPER:
        test = mark(test)
    return test


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param not in ("zookeeper", "ensemble"):
        yield MemoryPlace() if request.param == "memory" else SqlitePlace(tmp_path)
        return
    servers: ZooKeeperServer | ZooKeeperEnsemble = request.getfixturevalue(
        "zookeeper" if request.param == "zookeeper" else "zookeeper_ensemble"
    )
    client = KazooClient(servers.hosts)
    client.start()
    try:
        yield ZooKeeperPlace(servers.hosts, f"/tests/{tmp_path.name}", client)
    finally:
        client.stop()
        client.close()


@pytest.fixture
def opened() -> Iterator[list[Store]]:
    """Stores that are closed at the end."""
    stores: list[Store] = []
    yield stores
    for store in stores:
        store.close()


@pytest.fixture
def leader(place: Place, opened: list[Store]) -> Candidate:
    candidate = Candidate(place.store())
    opened.append(candidate.store)
    candidate.wait_elected()
    return candidate


class Standby:
    """A replica kept by the follower of a store of its own, as in another process."""

    def __init__(self, store: Store, opened: list[Store]) -> None:
        self.store = store
        self.store.open()
        opened.append(store)
        self.follower: Follower = store.follow()
        self.replica = Replica()

    def read(self) -> list[Change]:
        """What one read has told."""
        changes: list[Change] = []
        for part in self.follower.read(self.replica.repairable()):
            self.replica.apply(part)
            changes += part.changes
        return [change for change in changes if change != Change("framework", "framework", None)]

    def catch_up(self) -> None:
        """Reads until the store answers."""

        def works() -> bool:
            try:
                self.read()
            except StoreUnavailable:
                return False
            return True

        wait_for(works, PATIENCE, "the store to answer")

    def assert_equal_to(self, store: Store) -> None:
        loaded = store.load()
        expected = State(loaded.records)
        state = self.replica.state
        assert {(r.kind, r.key): r for r in state.records()} == {(r.kind, r.key): r for r in expected.records()}
        assert set(self.replica.quarantined.values()) == set(loaded.quarantined)
        assert wrong_index(state, expected) == ""


@pytest.fixture
def standby(place: Place, opened: list[Store]) -> Standby:
    return Standby(place.store(), opened)


def app(name: object = "web", **fields: object) -> Application:
    return Application(namespace="ns", name=str(name), **fields)  # type: ignore[arg-type]


def group(number: int, status: str = "Running", agent: str = "a1") -> TaskGroup:
    return TaskGroup(
        id=f"{number}.web.ns.Unnamed.1",
        namespace="ns",
        application="web",
        index=number,
        status=status,  # type: ignore[arg-type]
        agent_id=agent,
        version="1",
    )


def named(changes: list[Change]) -> dict[str, Record | None]:
    return {f"{kind} {key}": record for kind, key, record, *_ in changes}


# --- one after the other --------------------------------------------------------------------------------------------


@EVERY
def test_the_first_read_tells_everything_and_later_ones_what_has_changed(
    place: Place, leader: Candidate, standby: Standby
) -> None:
    leader.put(app("a"), app("b"), AgentSetting(agent="10.0.0.1")).result(PATIENCE)
    assert named(standby.read()) == named(puts([app("a"), app("b"), AgentSetting(agent="10.0.0.1")]))
    assert standby.read() == []
    done([leader.put(app("a", instances=n)) for n in range(1, 200)])
    leader.remove(app("b")).result(PATIENCE)
    assert named(standby.read()) == {"application ns/a": app("a", instances=199), "application ns/b": None}
    assert standby.read() == []
    standby.assert_equal_to(leader.store)


@EVERY
def test_a_follower_of_an_empty_store_is_told_of_the_first_record(place: Place, opened: list[Store]) -> None:
    early = Standby(place.store(), opened)
    assert early.read() == []
    assert early.follower.position is not None
    first = Candidate(place.store())
    opened.append(first.store)
    first.wait_elected()
    first.put(Framework(id="f")).result(PATIENCE)
    assert named(early.read()) == {"framework framework": Framework(id="f")}


@EVERY
def test_terms_that_begin_meanwhile_change_nothing(place: Place, leader: Candidate, standby: Standby) -> None:
    leader.put(app("a")).result(PATIENCE)
    standby.read()
    for number in range(3):
        done([leader.put(app("a", instances=number)), leader.put(app(number))])
        leader.store.resign()
        leader.stand()
        leader.wait_elected()
    assert set(named(standby.read())) == {"application ns/a", *(f"application ns/{n}" for n in range(3))}, "not all"
    leader.put(app("last")).result(PATIENCE)
    assert set(named(standby.read())) == {"application ns/last"}
    standby.assert_equal_to(leader.store)


@EVERY
def test_a_follower_that_was_away_for_too_long_reads_everything_again(
    place: Place, leader: Candidate, opened: list[Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "KEPT", 5)
    monkeypatch.setattr(commit_log, "SLOTS", 5)
    monkeypatch.setattr(zookeeper_follower, "SLOTS", 5)
    monkeypatch.setattr(commit_pipeline, "_IN_FLIGHT", 1)
    if isinstance(place, MemoryPlace):
        place.backend.log = deque(maxlen=5)
    standby = Standby(place.store(), opened)
    leader.put(app("kept"), app("removed")).result(PATIENCE)
    standby.read()
    for number in range(4):
        leader.put(app("kept", instances=number)).result(PATIENCE)
    assert set(named(standby.read())) == {"application ns/kept"}, "the log has it"
    leader.remove(app("removed")).result(PATIENCE)
    for number in range(9):
        leader.put(app("kept", instances=number), app("new")).result(PATIENCE)
    before = standby.replica.state
    assert named(standby.read()) == {
        "application ns/kept": app("kept", instances=8),
        "application ns/new": app("new"),
        "application ns/removed": None,
    }
    assert standby.replica.state is before, "whoever reads from it goes on"
    standby.assert_equal_to(leader.store)
    assert standby.read() == []


@EVERY
def test_records_that_cannot_be_decoded_are_followed(place: Place, leader: Candidate, standby: Standby) -> None:
    leader.put(app("fine")).result(PATIENCE)
    place.plant("application", "ns/broken", b'{"schema": 1, "namespace": 3}')
    place.plant("gadget", "g/1", b"{}")
    standby.read()
    assert {(bad.kind, bad.key) for bad in standby.replica.quarantined.values()} == {
        ("application", "ns/broken"),
        ("gadget", "g/1"),
    }
    standby.assert_equal_to(leader.store)
    leader.put(app("broken")).result(PATIENCE)
    standby.read()
    assert set(standby.replica.quarantined) == {("gadget", "g/1")}
    standby.assert_equal_to(leader.store)


@EVERY
def test_a_record_that_is_repaired_past_the_store_is_noticed(place: Place, leader: Candidate, standby: Standby) -> None:
    place.plant("application", "ns/broken", b"{")
    standby.read()
    assert set(standby.replica.quarantined) == {("application", "ns/broken")}
    place.plant("application", "ns/broken", b'{"schema":1,"namespace":"ns","name":"broken"}')
    place.plant("framework", "framework", b'{"schema":1,"id":"restored"}')
    standby.read()
    assert standby.replica.state.framework.id == "restored"
    standby.assert_equal_to(leader.store)


@EVERY
def test_sealed_records_without_a_key_are_told_and_noticed_when_they_go(
    place: Place, opened: list[Store], standby: Standby
) -> None:
    store = place.store()
    sealer = Sealer([new_key()])
    if isinstance(store, ZooKeeperStore):
        store.sealer = sealer
    else:
        store._sealer = sealer  # type: ignore[attr-defined]
    leader = Candidate(store)
    opened.append(store)
    leader.wait_elected()
    hidden = ConfigMap(namespace="ns", name="hidden")
    leader.put(hidden).result(PATIENCE)
    standby.read()
    assert {name: bad.sealed for name, bad in standby.replica.quarantined.items()} == {("configmap", "ns/hidden"): True}
    leader.remove(hidden).result(PATIENCE)
    standby.read()
    assert standby.replica.quarantined == {}


@EVERY
def test_a_read_that_breaks_off_is_repeated_by_the_next(place: Place, leader: Candidate, standby: Standby) -> None:
    leader.put(*(app(n) for n in range(20))).result(PATIENCE)
    standby.read()
    leader.put(app("late")).result(PATIENCE)
    reading = standby.follower.read()
    assert isinstance(reading, Generator)
    next(reading)  # told, but not taken to its end
    reading.close()
    assert set(named(standby.read())) == {"application ns/late"}
    standby.assert_equal_to(leader.store)


# --- under way ------------------------------------------------------------------------------------------------------


class Writer:
    """Commits random changes of a few records, with terms that end in between, until it is told to end."""

    def __init__(self, leader: Candidate, seed: int) -> None:
        self._leader, self._random = leader, random.Random(seed)
        self._ending = threading.Event()
        self.commits = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        pending: list[Future[None]] = []
        while not self._ending.is_set():
            pending.append(self._leader.store.commit(self._changes(), self._leader.epoch))
            self.commits += 1
            if len(pending) > 20:
                pending.pop(0).result(PATIENCE)
            if self.commits % 150 == 0:
                done(pending)
                pending = []
                self._leader.store.resign()
                self._leader.stand()
                self._leader.wait_elected()
        done(pending)

    def _changes(self) -> list[Change]:
        choose = self._random
        changes: dict[tuple[str, str], Change] = {}
        for _ in range(choose.randint(0, 6)):
            number = choose.randint(0, 30)
            record: Record = choose.choice(
                [
                    app(number, instances=choose.randint(0, 9)),
                    group(number, choose.choice(["Running", "Failed", "Starting"]), choose.choice(["a1", "a2"])),
                    Version(namespace="ns", application="web", name=str(number), labels={"l": str(number % 3)}),
                ]
            )
            kept = record if choose.random() < 0.7 else None
            changes[record.kind, record.key] = Change(record.kind, record.key, kept)
        return list(changes.values())

    def wrote(self, commits: int) -> None:
        wanted = self.commits + commits
        wait_for(lambda: self.commits >= wanted or not self._thread.is_alive(), PATIENCE, f"{commits} commits")
        assert self._thread.is_alive(), "the writer has failed"

    def end(self) -> None:
        self._ending.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


@EVERY
@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_told_while_others_write_ends_up_equal_to_what_is_stored(
    seed: int, place: Place, leader: Candidate, standby: Standby
) -> None:
    writer = Writer(leader, seed)
    standby.read()
    while writer.commits < 700:
        writer.wrote(1)
        standby.read()
    writer.end()
    standby.read()
    standby.assert_equal_to(leader.store)
    assert standby.read() == []
    for number in range(10):
        leader.put(app(number, instances=100)).result(PATIENCE)
        assert set(named(standby.read())) == {f"application ns/{number}"}, "an increment"


@zookeeper_only
def test_a_lost_session_and_lost_connections_of_the_follower_lose_nothing(
    place: ZooKeeperPlace, leader: Candidate, opened: list[Store]
) -> None:
    standby = Standby(place.store(session_timeout=6.0), opened)
    standby.read()
    writer = Writer(leader, 3)
    for round_ in range(4):
        writer.wrote(60)
        if round_ == 1:
            expire_session(place, standby)
        else:
            drop_connection(standby)
        standby.catch_up()
        standby.catch_up()
    writer.end()
    standby.catch_up()
    standby.assert_equal_to(leader.store)


@pytest.mark.zookeeper
@pytest.mark.parametrize("place", ["ensemble"], indirect=True)
def test_members_of_the_ensemble_that_are_killed_lose_nothing(
    place: ZooKeeperPlace, zookeeper_ensemble: ZooKeeperEnsemble, opened: list[Store]
) -> None:
    first = Candidate(place.store(session_timeout=20.0))
    opened.append(first.store)
    first.wait_elected()
    standby = Standby(place.store(session_timeout=20.0), opened)
    standby.catch_up()
    number = 0
    for victim in (zookeeper_ensemble.leader(), None):
        member = victim or zookeeper_ensemble.leader()
        member.kill()
        for _ in range(100):
            number += 1
            first.put(app("counter", instances=number), app(number)).result(PATIENCE)
            if number % 10 == 0:
                standby.catch_up()
        zookeeper_ensemble.heal()
    standby.catch_up()
    standby.assert_equal_to(first.store)
    assert number == len(standby.replica) - 1


# --- taking over ----------------------------------------------------------------------------------------------------


@zookeeper_only
def test_who_has_followed_needs_no_listing_to_lead(
    place: ZooKeeperPlace, leader: Candidate, opened: list[Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    leader.put(app("a"), app("b"), app("c")).result(PATIENCE)
    place.plant("application", "ns/broken", b"{")
    candidate = Candidate(place.store(), "http://127.0.0.1:2")
    standby = Standby(candidate.store, opened)
    standby.read()
    leader.remove(app("c")).result(PATIENCE)
    leader.put(app("d")).result(PATIENCE)
    leader.store.close()
    candidate.wait_elected()

    def refuse(*_: object) -> None:
        raise AssertionError("listed")

    monkeypatch.setattr(commit_pipeline, "list_records", refuse)
    standby.read()
    standby.follower.lead(candidate.epoch)
    done([candidate.put(app("a", instances=1), app("c"), app("e")), candidate.put(app("broken"))])
    candidate.remove(app("b"), app("never")).result(PATIENCE)
    loaded = {record.key: record for record in candidate.store.load().records}
    assert loaded == {f"ns/{r.name}": r for r in (app("a", instances=1), app("c"), app("d"), app("e"), app("broken"))}


@zookeeper_only
def test_a_leader_of_a_version_without_the_log_is_followed_by_reading_everything(
    place: ZooKeeperPlace, leader: Candidate, standby: Standby
) -> None:
    leader.put(app("a")).result(PATIENCE)
    standby.read()
    leader.put(app("b")).result(PATIENCE)
    for slot in place.client.get_children(place.tree.log):
        place.client.delete(f"{place.tree.log}/{slot}")
    assert set(named(standby.read())) == {"application ns/a", "application ns/b"}
    done([leader.put(app("c")), leader.put(app("d"))])  # the writer finds its slots gone and goes on
    assert {"application ns/c", "application ns/d"} <= set(named(standby.read()))
    standby.assert_equal_to(leader.store)
    leader.put(app("e")).result(PATIENCE)
    assert set(named(standby.read())) == {"application ns/e"}, "the log is there again"


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_changes_by_other_programs_are_told_too(place: SqlitePlace, leader: Candidate, standby: Standby) -> None:
    """A writer of an older version knows nothing of the log: triggers of the file write it."""
    leader.put(app("a")).result(PATIENCE)
    standby.read()
    place.plant("application", "ns/planted", b'{"schema":1,"namespace":"ns","name":"planted"}')
    assert named(standby.read()) == {"application ns/planted": app("planted")}


def test_the_log_of_a_file_stays_bounded(tmp_path: Path, opened: list[Store], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "KEPT", 50)
    candidate = Candidate(SqliteStore(tmp_path / "bcs.db"))
    opened.append(candidate.store)
    candidate.wait_elected()
    done([candidate.put(app(n % 7, instances=n)) for n in range(500)])
    assert isinstance(candidate.store, SqliteStore) and candidate.store._reader is not None
    assert candidate.store._reader.execute("SELECT count(*) FROM changes").fetchone()[0] <= 50
