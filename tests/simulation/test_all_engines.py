"""``--all-engines`` continues after violations and exceptions, and names every seed that has one."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation import __main__ as program
from tests.simulation.simulation import Result
from tests.simulation.violation import Violation


def _run(world: str, seed: int, steps: int) -> Result:
    if (world, seed) == ("mixed", 4):
        raise KeyError("agent-1")
    broken = Violation("I81", "0.w1.red is not needed") if (world, seed) == ("fair-session", 5) else None
    return Result(seed, steps, Counter(), broken, [], 3600.0)


@pytest.mark.parametrize(("first", "code"), [(4, 1), (6, 0)])
def test_all_seeds_of_all_worlds_are_run(
    first: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["simulation", "--all-engines", "--first", str(first), "--seeds", "2", "--steps", "30"]
    monkeypatch.setattr(program, "_run", _run)
    monkeypatch.setattr("bcs_scheduler.loop.gc_tuning.tune_process", lambda: None)
    monkeypatch.setattr("sys.argv", asked)

    assert program.main() == code

    lines = capsys.readouterr().out.partition(f"Seeds {first} to {first + 1}, 30 steps:\n")[2].splitlines()
    said = {line.split(":")[0]: line for line in lines[: len(program.WORLDS)]}
    red = {"fair-session", "mixed"} if code else set()
    assert list(said) == list(program.WORLDS)
    assert {world for world, line in said.items() if "1 RED" in line} == red
    assert {world for world, line in said.items() if "clean" in line} == set(program.WORLDS) - red
    rest = lines[len(program.WORLDS) :]
    assert [line for line in rest if "VIOLATION" in line] == (
        [
            "fair-session seed 5: VIOLATION of I81: 0.w1.red is not needed",
            "mixed seed 4: VIOLATION of crash: KeyError: 'agent-1'",
        ]
        if code
        else []
    )
    replays = [line.strip() for line in rest if "replay: " in line]
    assert replays == (
        [
            "replay: python -m tests.simulation --seed 5 --steps 30 --policy fair-session --verbose",
            "replay: python -m tests.simulation --seed 4 --steps 30 --policy mixed --verbose",
        ]
        if code
        else []
    )
