"""The decision log of simulations with faults repeats every decision; planted differences and damage are found."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from bcs_scheduler.core.interface import cluster_manager
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.decisions.format import MAGIC, DamagedLog, Turn, encoded, frames
from bcs_scheduler.decisions.log import QUEUED, DecisionLog, file_name
from bcs_scheduler.decisions.recorded import RecordedCore
from bcs_scheduler.decisions.replay import Replay, Replayed
from bcs_scheduler.main import main
from bcs_scheduler.observability.metrics import Metrics
from bcs_scheduler.service import core_options, decision_log
from bcs_scheduler.settings.sections import DecisionSettings, Settings
from store.state import State
from tests.simulation import driver
from tests.simulation.simulation import Simulation

STEPS = 200
TWO_TREES = 16
"""A seed of a world in which both roles have a tree of queues (tests.simulation.partitions)."""


def recorded(folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch, **kinds: bool) -> tuple[Any, int]:
    """Runs a simulation whose processes record. Returns the options of its cores and the number of terms."""
    log = DecisionLog(folder, 1 << 20, 10_000, {}, queued=1_000_000)
    log.start()
    terms: list[Any] = []

    def make(state: Any, options: Any, wall: float, elapsed: float | None = None) -> RecordedCore:
        terms.append(options)
        # Two processes may lead at once in a simulation; each term has a log of its own there.
        own = DecisionLog(folder / str(len(terms)), 1 << 20, 10_000, {}, queued=1_000_000)
        own.start()
        logs.append(own)
        return RecordedCore(own, len(terms), state, options, wall, None, elapsed)

    logs = [log]
    monkeypatch.setattr(driver, "Core", make)
    simulation = Simulation(seed, **kinds)
    simulation.run(STEPS)
    for each in logs:
        each.stop(120.0)
        assert each.lost == 0
    return terms[0], len(terms)


def replayed(folder: Path, options: Any, terms: int) -> Iterator[Replayed]:
    for number in range(1, terms + 1):
        path = folder / str(number) / file_name(number, 0)
        if path.exists():  # a term may end before its first turn
            yield Replay(path, lambda begin: options).run()


@pytest.mark.parametrize(
    ("seed", "kinds"),
    [
        (3, {}),
        pytest.param(11, {}, marks=pytest.mark.rotating),
        (4, {"sessions": True}),
        pytest.param(7, {"groups": True}, marks=pytest.mark.rotating),
        pytest.param(TWO_TREES, {"mixed": True}, marks=pytest.mark.rotating),
    ],
)
def test_every_decision_of_a_run_with_faults_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, kinds: dict[str, bool]
) -> None:
    options, terms = recorded(tmp_path, seed, monkeypatch, **kinds)
    results = list(replayed(tmp_path, options, terms))
    for result in results:
        assert result.difference is None, result.difference
        assert (result.gaps, result.torn) == ([], 0)
    assert sum(result.turns for result in results) > 150
    assert sum(result.decisions for result in results) > 500


def longest(folder: Path) -> Path:
    return max(folder.glob("*/*-000000.log"), key=lambda path: path.stat().st_size)


def test_a_planted_difference_a_torn_tail_and_damage_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options, _ = recorded(tmp_path, 5, monkeypatch)
    path = longest(tmp_path)
    run = partial(lambda path: Replay(path, lambda begin: options).run(), path)
    whole = run()
    with path.open("rb") as file:
        found = list(frames(file, "log"))
    turns = [n for n, frame in enumerate(found) if isinstance(frame, Turn) and len(frame.decisions) > 1]
    planted = found[turns[len(turns) // 2]]
    assert isinstance(planted, Turn)
    other = msgspec.structs.replace(planted, decisions=(planted.decisions[0], b"[0]", *planted.decisions[2:]))
    path.write_bytes(MAGIC + b"".join(encoded(other if f is planted else f) for f in found))  # type: ignore[arg-type]
    difference = run().difference
    assert difference is not None
    assert (difference.turn, difference.position) == (planted.number, 1)
    assert (difference.recorded[0], difference.repeated[0]) == (b"[0]", planted.decisions[1])

    data = MAGIC + b"".join(map(encoded, found))  # type: ignore[arg-type]
    path.write_bytes(data[:-7])
    torn = run()
    assert (torn.difference, torn.torn > 0, torn.turns) == (None, True, whole.turns - 1)

    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 255
    path.write_bytes(damaged)
    with pytest.raises(DamagedLog, match="damaged"):
        run()


def test_turns_that_find_the_queue_full_are_counted_and_marked(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path, 1 << 20, 10, {}, queued=5)
    for epoch in (1, 2):  # the queue is full when the second term begins: the term is not recorded
        core = RecordedCore(log, epoch, State(()), CoreOptions(), 1e9)
        for number in range(10):
            core.turn([cluster_manager.Connected(framework_id="f", master=str(number))], 1e9 + number)
    log.start()
    log.stop(60.0)
    assert [path.name for path in tmp_path.iterdir()] == [file_name(1, 0)]
    result = Replay(tmp_path / file_name(1, 0), lambda begin: CoreOptions()).run()
    assert (result.turns, result.difference, len(result.gaps)) == (4, None, 1)
    assert log.lost == 6 + 1 + 10


def test_lost_turns_are_counted_in_the_metrics(tmp_path: Path) -> None:
    metrics = Metrics()
    log = decision_log(Settings(decisions=DecisionSettings(folder=str(tmp_path))), metrics)
    core = RecordedCore(log, 1, State(()), CoreOptions(), 1e9)  # the start of the term takes one place of the queue
    lost = []
    for turns in (QUEUED - 1, 3):
        for number in range(turns):
            core.turn([cluster_manager.Connected(framework_id="f", master=str(number))], 1e9 + number)
        lost.append(metrics.registry.get_sample_value("bkbcs_scheduler_decision_log_turns_lost_total"))
    assert lost == [0.0, 3.0]


def test_a_term_in_many_files_is_replayed_and_the_oldest_terms_are_removed(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path, 4000, 6, {}, queued=1_000_000)
    log.start()
    terms = (1, 2)
    for epoch in terms:
        core = RecordedCore(log, epoch, State(()), CoreOptions(), 1e9)
        for number in range(60):
            core.turn([cluster_manager.Connected(framework_id="f", master=f"{epoch}-{number}")], 1e9 + number)
    log.stop(60.0)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert len(left) <= 6
    assert file_name(2, 0) in left and file_name(2, 1) in left, "the present term begins with its first file"
    assert file_name(1, 0) not in left, "the oldest term went first"
    result = Replay(tmp_path / file_name(2, 0), lambda begin: CoreOptions()).run()
    assert result.difference is None
    assert result.turns > 1


def test_a_new_term_is_asked_for_once_when_half_of_the_files_are_full(tmp_path: Path) -> None:
    for least, asked in ((0.0, [1, 2]), (3600.0, [])):
        folder, renewed = tmp_path / str(least), list[int]()
        log = DecisionLog(folder, 4000, 6, {}, queued=1_000_000)
        log.renewing(renewed.append, least)
        log.start()
        for epoch, turns in ((1, 60), (2, 60), (3, 2)):  # the third term does not fill its first file
            core = RecordedCore(log, epoch, State(()), CoreOptions(), 1e9)
            for number in range(turns):
                core.turn([cluster_manager.Connected(framework_id="f", master=f"{epoch}-{number}")], 1e9 + number)
        log.stop(60.0)
        assert renewed == asked
        assert len(list(folder.iterdir())) <= 6


def several_terms(folder: Path, epochs: tuple[int, ...], queued: int = 100) -> None:
    """Terms of one scheduler, of ten turns each, as the program records them."""
    settings = Settings(decisions=DecisionSettings(folder=str(folder)))
    log = decision_log(settings, Metrics())
    log.start()
    for epoch in epochs:
        core = RecordedCore(log, epoch, State(()), core_options(settings), 1e9)
        for number in range(10):
            core.turn([cluster_manager.Connected(framework_id="f", master=f"{epoch}-{number}")], 1e9 + number)
    log.stop(60.0)


def repeated(*places: Path) -> tuple[int, list[str]]:
    """Exit code of `bcs-scheduler replay`, and its lines."""
    done = CliRunner().invoke(main, ["replay", *map(str, places)])
    return done.exit_code, done.output.splitlines()


def test_the_terms_of_several_schedulers_are_repeated_in_their_order(tmp_path: Path) -> None:
    several_terms(tmp_path / "first", (1, 4))
    several_terms(tmp_path / "second", (2, 5))
    code, lines = repeated(tmp_path)
    assert code == 0
    assert [line.partition(",")[0] for line in lines if line.startswith("term ")] == [f"term {n}" for n in (1, 2, 4, 5)]
    assert lines[-2].startswith("4 terms: 40 turns repeated with equal decisions, ")
    assert lines[-1] == "no file of the terms 3: they took no turn, or their files are elsewhere"
    files = [tmp_path / "second" / file_name(5, 0), tmp_path / "first" / file_name(4, 0)]
    code, lines = repeated(*files)
    assert code == 0 and lines[-1].startswith("2 terms: 20 turns")
    assert lines[0].startswith("term 4,")


def test_a_difference_in_one_term_does_not_hide_the_other_terms(tmp_path: Path) -> None:
    several_terms(tmp_path, (1, 2, 3))
    path = tmp_path / file_name(2, 0)
    with path.open("rb") as file:
        found = [frame for frame in frames(file, "log") if not isinstance(frame, int)]
    planted = next(frame for frame in found[5:] if isinstance(frame, Turn))
    other = msgspec.structs.replace(planted, decisions=(*planted.decisions, b"[0]"))
    path.write_bytes(MAGIC + b"".join(encoded(other if frame is planted else frame) for frame in found))
    code, lines = repeated(tmp_path)
    assert code == 1
    assert any(line.startswith(f"difference in turn {planted.number} at ") for line in lines)
    assert "terms with a difference: 2" in lines
    assert any(line.startswith("term 3,") for line in lines)


def test_a_term_whose_first_file_is_gone_is_a_gap(tmp_path: Path) -> None:
    several_terms(tmp_path, (1, 2))
    (tmp_path / file_name(1, 0)).rename(tmp_path / file_name(1, 1))
    code, lines = repeated(tmp_path)
    assert code == 3
    assert (
        f"gap: {tmp_path / file_name(1, 1)}: the first file of the term is missing, so the term was not repeated"
        in lines
    )
    assert any(line.startswith("term 2,") for line in lines)
    (tmp_path / file_name(2, 0)).unlink()
    assert repeated(tmp_path)[0] == 2
    (tmp_path / "empty").mkdir()
    assert repeated(tmp_path / "empty")[0] == 2
