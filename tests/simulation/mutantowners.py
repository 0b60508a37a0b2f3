"""Faults in what owns applications, put in on purpose (see tests.simulation.mutants)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers import deployments, services
from bcs_scheduler.core.controllers.cluster import stand_ins
from bcs_scheduler.core.event_log import EventRecorder
from bcs_scheduler.core.requests import queue
from bcs_scheduler.core.rollout import amendments, update_records
from offers.model import Demand
from store.records import Application, Deployment, RollingPayload
from store.state import State, readiness
from transactions import resource_request
from transactions.kinds import daemonset, scale
from transactions.rules import disruptions, lifecycle, rolling


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
    patch.setattr(rolling, "is_ready", lifecycle.is_ready_or_finished)
    patch.setattr(readiness, "is_ready", lifecycle.is_ready_or_finished)
    patch.setattr(rolling, "failed", lambda *asked: [group for group in honest(*asked) if group.status != "Finish"])


def forget_restarting(patch: pytest.MonkeyPatch) -> None:
    """Room is counted by what runs: what has ended and will be restarted has lost its place."""

    def room(self: rolling.RolloutState) -> int:
        alive = 0
        for side in (self.growing, self.shrinking):
            troubled = (*side.unready.values(), *side.leaving.values())
            alive += side.wanted + len(side.leaving) - sum(group.ended for group in troubled)
        return max(0, self.ceiling - alive - self.growing.launching)

    patch.setattr(rolling.RolloutState, "room", property(room))


def choose_again(patch: pytest.MonkeyPatch) -> None:
    """Each look at a removing step takes another victim, and nobody counts what is ready then."""
    honest = scale.Shrink.step
    patch.setattr(rolling, "disruption_budget", lambda state, application: math.inf)

    def greedy(self: scale.Shrink, ctx: Any, transaction: Any) -> Any:
        victims = transaction.payload.victims
        key = f"{transaction.namespace}/{transaction.application}"
        others = [g.id for g in ctx.state.groups_of(key).values() if g.id not in victims]
        payload = RollingPayload(victims=(*victims, *others[:1]))
        return honest(self, ctx, msgspec.structs.replace(transaction, payload=payload))

    patch.setattr(scale.Shrink, "step", greedy)


def crowd_agents(patch: pytest.MonkeyPatch) -> None:
    """Daemonsets are placed like everything else."""
    honest = resource_request.demand

    def careless(*arguments: Any, **fields: Any) -> Demand[Any]:
        return honest(*arguments, **fields)._replace(
            per_agent=False, except_agents=frozenset(), only_agents=frozenset()
        )

    patch.setattr(resource_request, "demand", careless)


def lack_nothing(patch: pytest.MonkeyPatch) -> None:
    """Agents that have no taskgroup of a daemonset are not noticed."""
    patch.setattr(daemonset, "agents_without_taskgroup", lambda ctx, application: 0)


def overlook_taskgroups(patch: pytest.MonkeyPatch) -> None:
    """Endpoints change with services and applications alone."""
    honest = services.Services.notice

    def deaf(self: services.Services, changed: Iterable[tuple[str, str]]) -> None:
        honest(self, [change for change in changed if change[0] != "taskgroup"])

    patch.setattr(services.Services, "notice", deaf)


def drain_at_any_price(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(disruptions.Disruptions, "judge", lambda rules, group, purpose: disruptions.Answer(None, 1))


def move_without_stand_ins(patch: pytest.MonkeyPatch) -> None:
    """The taskgroups of a deployment that may only surge have no replacement elsewhere, so no drain can end them."""
    patch.setattr(stand_ins.StandIns, "before_end", lambda *words: "")


def start_too_many_stand_ins(patch: pytest.MonkeyPatch) -> None:
    """One more than the deployment may surge by."""
    patch.setattr(stand_ins, "_allowed", lambda turn, version, most: most + 1)


def keep_stand_ins(patch: pytest.MonkeyPatch) -> None:
    """Stand-ins stay when no drain needs them any more."""
    patch.setattr(stand_ins.StandIns, "_end_if_unneeded", lambda *words: None)


def look_again_for_ever(patch: pytest.MonkeyPatch) -> None:
    """It is never noted that all stand-ins have been looked at."""
    patch.setattr(stand_ins.StandIns, "end_unneeded", lambda *words: None)


def count_anew(patch: pytest.MonkeyPatch) -> None:
    """A new leader begins an event log of its own."""
    honest = EventRecorder.__init__

    def forgetful(self: EventRecorder, state: Any) -> None:
        honest(self, State())
        self._state = state

    patch.setattr(EventRecorder, "__init__", forgetful)


def forget_updates(patch: pytest.MonkeyPatch) -> None:
    """A new leader does not know that there are deployments."""
    patch.setattr(deployments.Deployments, "recover", lambda self: None)


def forget_the_queue(patch: pytest.MonkeyPatch) -> None:
    """A new leader does not know which requests wait."""
    patch.setattr(queue.QueuedRequests, "recover", lambda self: None)


def keep_the_old(patch: pytest.MonkeyPatch) -> None:
    """What an update has replaced is not deleted."""
    honest = update_records.forget

    def lazy(turn: TurnContext, application: Application, *, enforce: bool) -> Any:
        """What users delete is deleted."""
        return honest(turn, application, enforce=enforce) if enforce or turn.cause != "turn" else None

    patch.setattr(update_records, "forget", lazy)


def forget_amendments(patch: pytest.MonkeyPatch) -> None:
    """Another number for an update in progress is accepted, and the update goes on with the old number."""

    def careless(turn: TurnContext, present: Any, instances: int) -> Any:
        if instances == present.instances:
            return present
        return update_records.put(turn, present, progress_at=turn.now)

    patch.setattr(amendments, "resize", careless)


def overlook_the_superseded(patch: pytest.MonkeyPatch) -> None:
    """A deployment that rolls forward does not count what the superseded revisions have launched."""
    honest = rolling.sides

    def careless(deployment: Deployment) -> Any:
        return honest(msgspec.structs.replace(deployment, retiring=()))

    patch.setattr(rolling, "sides", careless)
