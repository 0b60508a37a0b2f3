"""Faults in what owns applications, put in on purpose (see tests.simulation.mutants)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core import rollout
from bcs_scheduler.core.controllers import deployments, drains, services
from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.journal import Scribe
from offers.model import Demand
from store.records import Application
from store.state import State
from transactions import daemons, lifecycle, needs, rolling, scale


def ignore_floor(patch: pytest.MonkeyPatch) -> None:
    """An update ends as many as it likes."""
    honest = rolling.bounds
    patch.setattr(rolling, "bounds", lambda deployment: (0, honest(deployment)[1]))


def ignore_ceiling(patch: pytest.MonkeyPatch) -> None:
    """An update adds everything at once."""
    honest = rolling.bounds
    patch.setattr(rolling, "bounds", lambda deployment: (honest(deployment)[0], 1000))


def count_the_finished(patch: pytest.MonkeyPatch) -> None:
    """What has done its work counts as if it served."""
    honest = rolling.failed
    patch.setattr(rolling, "serves", lifecycle.is_ready)
    patch.setattr(rolling, "failed", lambda *asked: [group for group in honest(*asked) if group.status != "Finish"])


def forget_restarting(patch: pytest.MonkeyPatch) -> None:
    """Room is counted by what runs: what has ended and will be restarted has lost its place."""

    def room(self: rolling.Picture) -> int:
        groups = (*self.growing.wanted, *self.growing.leaving, *self.shrinking.wanted, *self.shrinking.leaving)
        return max(0, self.ceiling - sum(not group.ended for group in groups) - self.growing.launching)

    patch.setattr(rolling.Picture, "room", property(room))


def choose_again(patch: pytest.MonkeyPatch) -> None:
    """Each look at a removing step takes another victim, and nobody counts what is ready then."""
    honest = scale._remove
    patch.setattr(rolling, "spare", lambda state, application: math.inf)

    def greedy(ctx: Any, application: Any, transaction: Any) -> Any:
        others = [g.id for g in ctx.state.groups_of(application.key).values() if g.id not in transaction.victims]
        return honest(
            ctx, application, msgspec.structs.replace(transaction, victims=(*transaction.victims, *others[:1]))
        )

    patch.setattr(scale, "_remove", greedy)


def crowd_agents(patch: pytest.MonkeyPatch) -> None:
    """Daemonsets are placed like everything else."""
    honest = needs.demand

    def careless(*arguments: Any, **fields: Any) -> Demand:
        return honest(*arguments, **fields)._replace(per_agent=False, except_agents=frozenset(), only_agents=None)

    patch.setattr(needs, "demand", careless)


def lack_nothing(patch: pytest.MonkeyPatch) -> None:
    """Agents that have no taskgroup of a daemonset are not noticed."""
    patch.setattr(daemons, "lacking", lambda ctx, application: 0)


def overlook_taskgroups(patch: pytest.MonkeyPatch) -> None:
    """Endpoints change with services and applications alone."""
    honest = services.Services.notice

    def deaf(self: services.Services, changed: Iterable[tuple[str, str]]) -> None:
        honest(self, [change for change in changed if change[0] != "taskgroup"])

    patch.setattr(services.Services, "notice", deaf)


def drain_at_any_price(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(drains, "hindrance", lambda state, group: "")


def count_anew(patch: pytest.MonkeyPatch) -> None:
    """A new leader begins a journal of its own."""
    honest = Scribe.__init__

    def forgetful(self: Scribe, state: Any) -> None:
        honest(self, State())
        self._state = state

    patch.setattr(Scribe, "__init__", forgetful)


def forget_updates(patch: pytest.MonkeyPatch) -> None:
    """A new leader does not know that there are deployments."""
    patch.setattr(deployments.Deployments, "recover", lambda self: None)


def keep_the_old(patch: pytest.MonkeyPatch) -> None:
    """What an update has replaced is not deleted."""
    honest = rollout.forget

    def lazy(desk: Desk, application: Application, *, enforce: bool) -> Any:
        """What users delete is deleted."""
        return honest(desk, application, enforce=enforce) if enforce or desk.cause != "turn" else None

    patch.setattr(rollout, "forget", lazy)
