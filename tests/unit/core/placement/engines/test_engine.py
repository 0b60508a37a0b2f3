"""Figures of engines follow from the records, the offers, and facts that engines keep besides."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from bcs_scheduler.core.options import CoreOptions
from tests import effort
from tests.unit.core.placement.engines.test_hierarchical import options
from tests.unit.core.placement.test_session_snapshots import OPTIONS, Steps

ENGINES: Mapping[str, CoreOptions] = {"session": OPTIONS, "hierarchical": options()}
STEPS, SHARE = 60, 0.3
"""Steps of a history, and the share of them before which figures are dropped."""


def history(seed: int, chosen: CoreOptions, share: float) -> list[Any]:
    """The taskgroups after each step of a random history, with agents, states and ends."""
    chance, steps, found = random.Random(f"figures-{seed}"), Steps(random.Random(seed), chosen), []
    for _ in range(STEPS):
        for loop in steps.lab.core._offer_manager.placing.loops:
            if chance.random() < share:
                loop.engine.drop_figures()
        steps()
        groups = steps.lab.core.state.taskgroups.values()
        found.append(sorted((group.id, group.agent_id, group.status, group.killing_since) for group in groups))
    return found


def different(seeds: Iterable[int], engine: str) -> list[int]:
    """The seeds whose history is another one if figures are dropped."""
    chosen = ENGINES[engine]
    return [seed for seed in seeds if history(seed, chosen, 0.0) != history(seed, chosen, SHARE)]


@pytest.mark.parametrize("engine", ENGINES)
def test_dropping_figures_changes_no_decision(engine: str) -> None:
    assert different(effort.in_turn(1, 5), engine) == []
