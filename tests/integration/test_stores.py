"""What the Store protocol promises, held by every store: in memory, in SQLite and in a real ZooKeeper."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from kazoo.client import KazooClient

from store.base import (
    BatchTooLarge,
    Change,
    Leader,
    RecordTooLarge,
    RecordUnencodable,
    StaleEpoch,
    StoreError,
    StoreUnavailable,
)
from store.encoding.codec import encode
from store.records import SCHEMA, AgentSetting, Application, Record, TaskGroup, Version
from store.zookeeper import commit_pipeline
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
from tests.integration.zookeeper import ZooKeeperServer
from tests.waiting import wait_for

EVERY = pytest.mark.parametrize(
    "place", ["memory", "sqlite", pytest.param("zookeeper", marks=pytest.mark.zookeeper)], indirect=True
)
DURABLE = pytest.mark.parametrize(
    "place", ["sqlite", pytest.param("zookeeper", marks=pytest.mark.zookeeper)], indirect=True
)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "zookeeper":
        server: ZooKeeperServer = request.getfixturevalue("zookeeper")
        client = KazooClient(server.hosts)
        client.start()
        try:
            yield ZooKeeperPlace(server.hosts, f"/tests/{tmp_path.name}", client)
        finally:
            client.stop()
            client.close()
    else:
        yield MemoryPlace() if request.param == "memory" else SqlitePlace(tmp_path)


@pytest.fixture
def candidates(place: Place) -> Iterator[list[Candidate]]:
    """Candidates that are closed at the end, by `enter`."""
    entered: list[Candidate] = []
    yield entered
    for candidate in entered:
        candidate.store.close()


def enter(place: Place, candidates: list[Candidate], url: str = "http://127.0.0.1:31100") -> Candidate:
    candidates.append(Candidate(place.store(), url))
    return candidates[-1]


@pytest.fixture
def leader(place: Place, candidates: list[Candidate]) -> Candidate:
    candidate = enter(place, candidates)
    candidate.wait_elected()
    return candidate


def app(name: str = "web", **fields: object) -> Application:
    return Application(namespace="ns", name=name, **fields)  # type: ignore[arg-type]


def stored(place: Place) -> dict[str, Record]:
    """What another process loads, by kind and key; nothing may be broken."""
    store = place.store()
    store.open()
    try:
        loaded = store.load()
    finally:
        store.close()
    assert loaded.quarantined == []
    return {f"{record.kind} {record.key}": record for record in loaded.records}


# --- records --------------------------------------------------------------------------------------------------------


@EVERY
def test_what_was_committed_is_loaded(place: Place, leader: Candidate) -> None:
    records: list[Record] = [
        app(labels={"a": "ü"}),
        Version(namespace="ns", application="web", name="170000"),
        TaskGroup(id="0.web.ns.Unnamed.1", namespace="ns", application="web", index=0, version="170000"),
        AgentSetting(agent="10.0.0.1", taints={"k": "v"}),
    ]
    leader.put(*records).result(PATIENCE)
    expected = {f"{record.kind} {record.key}": record for record in records}
    assert stored(place) == expected
    assert {f"{r.kind} {r.key}": r for r in leader.store.load().records} == expected


@EVERY
def test_commits_are_applied_in_order(place: Place, leader: Candidate) -> None:
    futures = [leader.put(app(instances=number)) for number in range(300)]
    futures += [leader.put(app("gone")), leader.remove(app("gone")), leader.remove(app("never"))]
    futures += [leader.put(app("back")), leader.remove(app("back")), leader.put(app("back", instances=2))]
    done(futures)
    assert stored(place) == {"application ns/web": app(instances=299), "application ns/back": app("back", instances=2)}


@EVERY
def test_one_commit_may_change_a_record_twice(place: Place, leader: Candidate) -> None:
    again = app(instances=2)
    leader.store.commit([*puts([app(), app("b")]), *puts([again]), Change("application", "ns/b", None)], 1).result(
        PATIENCE
    )
    assert stored(place) == {"application ns/web": again}


@EVERY
def test_an_empty_commit_succeeds(leader: Candidate) -> None:
    assert leader.store.commit([], leader.epoch).exception(PATIENCE) is None


@EVERY
def test_a_large_commit_is_one(place: Place, leader: Candidate) -> None:
    records = [app(f"a{i}", message="x" * 100) for i in range(1500)]
    leader.put(*records).result(PATIENCE)
    assert len(stored(place)) == 1500


@EVERY
def test_any_key_can_be_stored(place: Place, leader: Candidate) -> None:
    keys = ["a/b/c", ".", "..", "...", "%", "%2F", "", "ä ö", "x" * 200, "line\nbreak", "\x00"]
    leader.put(*(AgentSetting(agent=key) for key in keys)).result(PATIENCE)
    leader.put(*(AgentSetting(agent=key, disabled=True) for key in keys)).result(PATIENCE)
    assert sorted(record.key for record in stored(place).values()) == sorted(keys)


@EVERY
def test_a_record_that_is_too_large_is_refused_alone(place: Place, leader: Candidate) -> None:
    large = app("large", message="x" * leader.store.batch_bytes)
    futures = [leader.put(app("before")), leader.put(app("with"), large), leader.put(app("after"))]
    with pytest.raises(RecordTooLarge, match="application ns/large has"):
        futures[1].result(PATIENCE)
    done([futures[0], futures[2]])
    assert sorted(stored(place)) == ["application ns/after", "application ns/before"]


@EVERY
def test_a_commit_that_is_too_large_names_its_largest_record(place: Place, leader: Candidate) -> None:
    part = leader.store.batch_bytes // 10
    records = [app(f"a{i}", message="x" * (part + i)) for i in range(10)]
    with pytest.raises(BatchTooLarge, match=r"10 changes .* the largest is application ns/a9"):
        leader.put(*records).result(PATIENCE)
    assert stored(place) == {}


@EVERY
def test_a_record_that_cannot_be_encoded_fails_alone(place: Place, leader: Candidate) -> None:
    broken = app("broken", message="\ud800")
    failed, fine = leader.put(broken), leader.put(app())
    assert isinstance(failed.exception(PATIENCE), RecordUnencodable)
    done([fine])
    assert list(stored(place)) == ["application ns/web"]


@EVERY
def test_a_broken_record_is_quarantined_and_left_alone(place: Place, leader: Candidate) -> None:
    leader.put(app("good")).result(PATIENCE)
    place.plant("application", "ns/bad", b'{"namespace":"ns","name":"bad","instances":"many"}')
    loaded = leader.store.load()
    assert loaded.records == [app("good")]
    assert [(item.kind, item.key) for item in loaded.quarantined] == [("application", "ns/bad")]
    assert "$.instances" in loaded.quarantined[0].error
    assert place.raw("application", "ns/bad") == b'{"namespace":"ns","name":"bad","instances":"many"}'


@EVERY
def test_a_quarantined_record_can_be_replaced_and_deleted_by_the_next_leader(
    place: Place, candidates: list[Candidate]
) -> None:
    first = place.store()
    first.open()
    for name in ("a", "b"):
        place.plant("application", f"ns/{name}", b"garbage")
    first.close()
    leader = enter(place, candidates)
    leader.wait_elected()
    done([leader.put(app("a")), leader.remove(app("b"))])
    assert stored(place) == {"application ns/a": app("a")}


@EVERY
def test_candidates_read_the_notes_of_each_other(place: Place, candidates: list[Candidate], leader: Candidate) -> None:
    second = enter(place, candidates, "http://127.0.0.1:31101")
    wait_for(lambda: _noted(second, "asks: ü", leader), what="the note of the candidate")
    leader.store.note("reaches")
    assert second.store.notes() == {leader.url: "reaches"}
    assert leader.store.notes() == {second.url: "asks: ü"}
    leader.store.note("")
    assert second.store.notes() == {}
    second.store.note("")
    assert leader.store.notes() == {}


def _noted(candidate: Candidate, text: str, reader: Candidate) -> bool:
    """A candidate shows notes as soon as it stands, which may take it a moment."""
    candidate.store.note(text)
    return reader.store.notes() == {candidate.url: text}


@EVERY
def test_unknown_fields_of_a_newer_layout_survive_a_change(place: Place, leader: Candidate) -> None:
    document = json.loads(encode(app())) | {"schema": SCHEMA + 3, "zone": {"name": "z"}}
    leader.put(app()).result(PATIENCE)
    place.plant("application", "ns/web", json.dumps(document).encode())
    (record,) = leader.store.load().records
    leader.put(msgspec.structs.replace(record, instances=7)).result(PATIENCE)
    assert json.loads(place.raw("application", "ns/web") or b"") == document | {"instances": 7}


@EVERY
def test_erase_removes_everything(place: Place, leader: Candidate) -> None:
    leader.put(app(), AgentSetting(agent="10.0.0.1")).result(PATIENCE)
    leader.store.resign()
    leader.store.erase()
    assert stored(place) == {}
    leader.stand()
    assert leader.wait_elected() == 1
    leader.put(app()).result(PATIENCE)
    assert list(stored(place)) == ["application ns/web"]


@EVERY
def test_loading_twenty_thousand_records(place: Place, leader: Candidate, capsys: pytest.CaptureFixture[str]) -> None:
    records = [app(f"a{number}", message="m" * 900) for number in range(20_000)]
    started = time.monotonic()
    done([leader.put(*records[at : at + 200]) for at in range(0, len(records), 200)])
    committed = time.monotonic()
    loaded = leader.store.load()
    ended = time.monotonic()
    with capsys.disabled():
        name = type(leader.store).__name__
        print(f"\n{name}: 20,000 records committed in {committed - started:.2f} s, loaded in {ended - committed:.2f} s")
    assert {record.key for record in loaded.records} == {record.key for record in records}


# --- leadership -----------------------------------------------------------------------------------------------------


@EVERY
def test_only_the_present_epoch_may_write(place: Place, leader: Candidate) -> None:
    leader.put(app()).result(PATIENCE)
    for epoch in (leader.epoch - 1, leader.epoch + 1):
        refused = leader.store.commit(puts([app(instances=9), app("other")]), epoch)
        assert isinstance(refused.exception(PATIENCE), StaleEpoch)
    assert stored(place) == {"application ns/web": app()}


@EVERY
def test_a_store_that_does_not_lead_may_not_write(place: Place, candidates: list[Candidate], leader: Candidate) -> None:
    standby = enter(place, candidates)
    assert isinstance(standby.store.commit(puts([app()]), leader.epoch).exception(PATIENCE), StaleEpoch)
    assert stored(place) == {}


@EVERY
def test_one_leads_and_everybody_knows(place: Place, candidates: list[Candidate]) -> None:
    bystander = place.store()
    bystander.open()
    assert bystander.leader() is None
    first = enter(place, candidates, "http://127.0.0.1:1001")
    assert first.wait_elected() == 1
    second = enter(place, candidates, "http://127.0.0.1:1002")
    for store in (first.store, second.store, bystander):
        wait_for(lambda store=store: store.leader() == Leader("http://127.0.0.1:1001", 1))  # type: ignore[misc]

    first.store.resign()
    assert second.wait_elected() == 2
    for store in (first.store, second.store, bystander):
        wait_for(lambda store=store: store.leader() == Leader("http://127.0.0.1:1002", 2))  # type: ignore[misc]
    second.store.resign()
    wait_for(lambda: bystander.leader() is None)
    assert not first.was_deposed and not second.was_deposed
    bystander.close()


@EVERY
def test_a_resigned_leader_writes_no_more_and_may_stand_again(place: Place, leader: Candidate) -> None:
    leader.store.resign()
    assert isinstance(leader.put(app()).exception(PATIENCE), StaleEpoch)
    leader.stand()
    assert leader.wait_elected() == 2
    leader.put(app()).result(PATIENCE)
    assert list(stored(place)) == ["application ns/web"]


@EVERY
def test_a_candidate_that_gives_up_while_waiting_is_never_elected(
    place: Place, candidates: list[Candidate], leader: Candidate
) -> None:
    second = enter(place, candidates)
    third = enter(place, candidates)
    second.store.resign()
    leader.store.close()
    winner = third.wait_elected()
    assert winner == 2
    assert not second.was_elected


@EVERY
def test_nobody_stands_twice(leader: Candidate) -> None:
    with pytest.raises(StoreError, match="already"):
        leader.stand()


@EVERY
def test_an_overtaken_leader_changes_nothing_and_is_told(
    place: Place, candidates: list[Candidate], leader: Candidate
) -> None:
    leader.put(app()).result(PATIENCE)
    second = enter(place, candidates, "http://127.0.0.1:1002")
    place.break_leadership(leader)
    assert second.wait_elected() > leader.epoch
    refused = [leader.put(app(instances=number), app(f"new{number}")) for number in range(20)]
    assert {type(future.exception(PATIENCE)) for future in refused} == {StaleEpoch}
    assert leader.wait_deposed()
    assert stored(place) == {"application ns/web": app()}

    leader.stand()
    second.put(app(instances=5)).result(PATIENCE)
    second.store.resign()
    assert leader.wait_elected() > second.epoch
    leader.put(app("mine")).result(PATIENCE)
    assert sorted(stored(place)) == ["application ns/mine", "application ns/web"]


@DURABLE
def test_a_killed_leader_leaves_whole_commits_and_another_takes_over(
    place: SqlitePlace | ZooKeeperPlace, candidates: list[Candidate]
) -> None:
    command = [sys.executable, "-m", "tests.integration.storeprocess", place.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "elected 1\n"
        second = enter(place, candidates)
        acknowledged = next(number for number in map(int, process.stdout) if number >= 300)
        process.kill()
        acknowledged = max([acknowledged, *(int(line) for line in process.stdout if line.endswith("\n"))])
    assert second.wait_elected() == 2

    sides = {"left": set[int](), "right": set[int]()}
    for record in second.store.load().records:
        assert isinstance(record, Application)
        sides[record.namespace].add(int(record.name))
    assert sides["left"] == sides["right"] == set(range(len(sides["left"])))
    assert len(sides["left"]) > acknowledged
    second.put(app()).result(PATIENCE)


# --- open and closed ------------------------------------------------------------------------------------------------


@EVERY
def test_a_closed_store_refuses_everything(place: Place, leader: Candidate, monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy disk may take longer than a scheduler that closes its store waits.
    monkeypatch.setattr(commit_pipeline, "_CLOSE_SECONDS", PATIENCE)
    pending = leader.put(app())
    leader.store.close()
    assert pending.exception(PATIENCE) is None
    assert not leader.store.healthy()
    assert leader.store.leader() is None or isinstance(place, MemoryPlace)
    assert isinstance(leader.put(app("late")).exception(PATIENCE), StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        leader.store.load()
    with pytest.raises(StoreUnavailable):
        leader.stand()
    leader.store.close()
    assert list(stored(place)) == ["application ns/web"]


@EVERY
def test_a_closed_store_can_be_opened_again(place: Place, leader: Candidate) -> None:
    leader.store.close()
    leader.store.open()
    assert leader.store.healthy()
    leader.stand()
    assert leader.wait_elected() == 2
    leader.put(app()).result(PATIENCE)
    assert list(stored(place)) == ["application ns/web"]
