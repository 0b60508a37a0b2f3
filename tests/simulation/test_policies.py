"""Quiet worlds in small: who gets room, is ended or waits is as the rules say, and planted faults are noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from bcs_scheduler.core.placement.engines import hierarchical, session
from offers.policy.hierarchy.tree import Tree
from offers.policy.session.memory import Memory
from tests import effort
from tests.simulation.policies import figures
from tests.simulation.policies.mutants import PLANTED, PolicyMutant
from tests.simulation.policies.presence import WORDS
from tests.simulation.policies.questions import KINDS, questioned
from tests.simulation.policies.users import Engine, fair

STEPS = 36
QUESTIONED = 24
"""Steps of a world that is asked questions."""
ENGINES: tuple[Engine, ...] = ("session", "hierarchical")
SEEDS: dict[Engine, tuple[int, ...]] = {
    "session": tuple(range(1, 22)),
    "hierarchical": (*range(1, 20), 21),
}
"""Seeds that are run, others in each share."""

MANIFOLD: dict[Engine, tuple[int, ...]] = {"session": (2, 8, 15, 16), "hierarchical": (7, 13, 15, 18)}
"""Seeds that have every condition of `WORDS` among them."""


@pytest.mark.parametrize("engine", ENGINES)
def test_who_gets_room_is_as_the_rules_say(engine: Engine) -> None:
    counts: Counter[str] = Counter()
    for seed in dict.fromkeys(SEEDS[engine][number % len(SEEDS[engine])] for number in effort.in_turn(0, 3)):
        result = fair(seed, STEPS, engine)
        assert result.violation is None, f"seed {seed}: {result.violation}\n" + "\n".join(result.story)
        counts.update(result.counts)
    assert counts["times at rest"] and counts["asks at rest"]


@pytest.mark.parametrize("engine", ENGINES)
def test_questions_change_nothing_of_what_follows(engine: Engine) -> None:
    seeds = (1, 2, *range(4, 15))  # 3 has a session at another moment, and so another order
    for number in effort.in_turn(0, 1):
        violation, counts = questioned(seeds[number % len(seeds)], QUESTIONED, engine, KINDS)
        assert violation is None, str(violation)
        assert sum(number for name, number in counts.items() if name.startswith("answer")) > 10


@pytest.mark.rotating
@pytest.mark.parametrize("engine", ENGINES)
def test_questions_that_ask_the_live_pass_are_noticed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (session, hierarchical):
        monkeypatch.setattr(place, "copied", lambda live: live)
    violation, _ = questioned(1, 40, engine, KINDS)
    assert violation is not None and violation.number == "I12" and " changed #" in str(violation)


@pytest.mark.parametrize("engine", ENGINES)
def test_dropping_figures_changes_no_decision(engine: Engine) -> None:
    for seed in effort.in_turn(1, 1):
        assert figures.difference(seed, STEPS, engine) == "", f"seed {seed}"


def forget_what_has_changed(patch: pytest.MonkeyPatch) -> None:
    """Sessions pass over all tries that were in vain once, whatever has changed."""
    patch.setattr(Memory, "is_vain", lambda self, attempt, state: attempt in self._vain)


def forget_what_has_left(patch: pytest.MonkeyPatch) -> None:
    """Trees do not try requests again that wait for a node, when a node has more room."""
    patch.setattr(Tree, "wake_on", lambda self, node: None)


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("engine", "plant"), [("session", forget_what_has_changed), ("hierarchical", forget_what_has_left)]
)
def test_figures_that_ignore_a_fact_are_noticed(
    engine: Engine, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert any("figures dropped:" in figures.difference(seed, 60, engine) for seed in range(1, 4))


@pytest.mark.rotating
@pytest.mark.parametrize("engine", ENGINES)
def test_worlds_have_what_the_rules_are_about(engine: Engine) -> None:
    counts: Counter[str] = Counter()
    for seed in MANIFOLD[engine]:
        counts.update(fair(seed, STEPS, engine).counts)
    assert [word for word in WORDS if not counts[word]] == []
    assert counts["victims judged"] and counts["entitled asks at rest"]


@pytest.mark.rotating
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mutant", PLANTED, ids=lambda mutant: mutant.name)
def test_planted_faults_are_noticed(mutant: PolicyMutant, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.breaks(monkeypatch)
    found = []
    for seed in mutant.seeds[engine]:
        violation = fair(seed, STEPS, engine).violation
        found.append(violation.number if violation is not None else "-")
        if found[-1] == mutant.caught_by:
            return
    pytest.fail(f"nobody noticed {mutant.name}: {found}")
