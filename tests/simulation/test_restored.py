"""Stores that are replaced by an old copy or by an empty one: no unknown task is ended without an operator."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from bcs_scheduler.core.controllers.cluster.unknown_tasks import UnknownTasks
from bcs_scheduler.core.interface.unknown import Decision
from tests.simulation.restored import Copy, Restored
from tests.simulation.violation import Violation

STEPS = 120
CASES = [
    pytest.param(copy, decision, marks=[] if (copy, decision) == ("old", "end") else pytest.mark.rotating)
    for copy, decision in product(("old", "empty"), ("adopt", "end"))
]


def run(seed: int, copy: Copy, decision: Decision) -> Counter[str]:
    world = Restored(seed, copy, decision)
    try:
        world.run(STEPS)
    except Violation as violation:
        raise AssertionError(f"seed {seed}: {violation}\n" + "\n".join(world.world.told(violation.objects))) from None
    return world.world.counts


@pytest.mark.parametrize(("copy", "decision"), CASES)
def test_unknown_tasks_wait_for_the_operator(copy: Copy, decision: Decision) -> None:
    counts: Counter[str] = Counter()
    for seed in range(4):
        counts.update(run(seed, copy, decision))
    assert counts["unknown taskgroups"] > 4 and counts["units during a halt"]
    assert bool(counts["unknown taskgroups at the end"]) == (decision == "adopt")


@pytest.mark.rotating
def test_a_leader_that_takes_them_for_few_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UnknownTasks, "_are_many", lambda self: False)
    with pytest.raises(AssertionError, match="I75"):
        for seed in range(10):
            run(seed, "empty", "adopt")


@pytest.mark.rotating
def test_a_leader_that_launches_during_the_halt_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UnknownTasks, "admitted", lambda self, transaction, step: step)
    with pytest.raises(AssertionError, match="I76"):
        for seed in range(40):
            run(seed, "old", "adopt")


@pytest.mark.rotating
def test_a_leader_that_forgets_the_mark_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few taskgroups that are newer than the store are ended."""
    monkeypatch.setattr(UnknownTasks, "_is_newer", lambda self, key: False)
    with pytest.raises(AssertionError, match="I75"):
        for seed in range(40):
            run(seed, "old", "adopt")
