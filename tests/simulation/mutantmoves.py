"""Faults put into rebalancing on purpose (tests.simulation.mutants); they are looked for in worlds with moves."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.placement import rebalancing
from offers import rebalancing as planner
from transactions.rules import disruptions


def move_anybody(patch: pytest.MonkeyPatch) -> None:
    """Every taskgroup that runs may move."""
    patch.setattr(rebalancing, "_may_move", lambda turn, group: not (group.ended or group.killing_since))


def ignore_the_budget(patch: pytest.MonkeyPatch) -> None:
    """Moves end as many taskgroups of an application as they like."""
    patch.setattr(disruptions.Budget, "left", property(lambda budget: 1_000))


def move_to_full_agents(patch: pytest.MonkeyPatch) -> None:
    """The new agent is taken for free."""
    honest = rebalancing._admission

    def hasty(turn: TurnContext, trial: Any) -> Any:
        judged = honest(turn, trial)
        return lambda unit, target: judged(unit, target) or unit.name in turn.state.taskgroups

    patch.setattr(rebalancing, "_admission", hasty)
    patch.setattr(rebalancing._Begun, "_has_room", lambda self, group, target: True)
    patch.setattr(planner.Load, "takes", lambda self, amounts: True)


def ignore_the_bound(patch: pytest.MonkeyPatch) -> None:
    """Every move is worth it."""
    honest = planner.moves
    patch.setattr(planner, "moves", lambda loads, goal, least, admits: honest(loads, goal, -10.0, admits))
    patch.setattr(rebalancing._Begun, "_gain", lambda self, move: 10.0)


def overlook_moves_in_progress(patch: pytest.MonkeyPatch) -> None:
    """Each plan is the first one."""

    def nothing(turn: TurnContext) -> Generator[None, None, None]:
        return
        yield

    patch.setattr(rebalancing, "_earlier_moves", nothing)
