"""Dry runs: the result of a request, with nothing changed.

The request is carried out, its transaction takes one step, and all changes are rolled back in the same turn. With the
policies `session` and `hierarchical`, the policy decides about the slots that the request would place, beside all work
that waits; this costs as much as one session. With `simple`, the slots are matched with the offers that are held. Many
slots are then matched in slices, on a copy of the offers at the begin of the plan, so that a plan for 50,000 taskgroups
does not delay the turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.cluster.offer_manager import OfferManager
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.placement import rebalancing
from bcs_scheduler.core.placement.placer import SLICE, Mode
from bcs_scheduler.core.requests import agent_plans, planned_documents
from bcs_scheduler.core.requests.answers import Data
from bcs_scheduler.core.requests.handler import RequestHandler
from bcs_scheduler.core.requests.planned_effect import PlannedAnswer, begun, conclude, look, resized, shown_partition

PLAN_PATIENCE = 3.0
"""Seconds for which a plan waits for offers if none are held."""

PLACING = (
    requests.CreateApplication,
    requests.UpdateApplication,
    requests.RollbackApplication,
    requests.ScaleApplication,
    requests.RescheduleTaskGroup,
    requests.DeleteApplication,
    requests.CancelTransaction,
    requests.CreateDeployment,
    requests.UpdateDeployment,
    requests.ControlDeployment,
    requests.RollbackDeployment,
    requests.ScaleDeployment,
    requests.CreateDaemonset,
    requests.UpdateDaemonset,
    requests.RollbackDaemonset,
    requests.RestartDaemonset,
    requests.PutQueueTree,
    requests.RollbackQueueTree,
    requests.SetQueueState,
    requests.PlanAgents,
    requests.PlanRequests,
)
"""Requests whose dry runs need offers."""


def needs_offers(command: requests.Request) -> bool:
    """True if the answer depends on the offers that are held."""
    return isinstance(command, requests.Rebalance) or (command.dry_run and isinstance(command, PLACING))


def wait_for_offers(turn: TurnContext, offers: OfferManager, command: requests.Request) -> float:
    """Unix seconds until which a request waits for offers, which are requested; 0.0: the request does not wait."""
    if isinstance(command, requests.Rebalance) and offers.gather():
        return turn.now + rebalancing.GATHER
    if needs_offers(command) and turn.connected and not len(turn.pool.hand):
        offers.revive()
        return turn.now + PLAN_PATIENCE
    return 0.0


def waits_for_offers(turn: TurnContext, command: requests.Request, until: float) -> bool:
    """True while a request waits on. `until`: Unix seconds, from `wait_for_offers`. A rebalancing waits for the offers
    of all agents, a plan for the first one."""
    return turn.now < until and turn.connected and (isinstance(command, requests.Rebalance) or not len(turn.pool.hand))


def plan(turn: TurnContext, commands: RequestHandler, command: requests.Request) -> Data:
    """Returns the data of the reply: the operation, the planned placements, the taskgroups that would be ended, and the
    slots without a place. For an update or a reschedule, whose old taskgroups must end first, the places are planned on
    the present free resources. While the policy takes over many changes, the request waits: each turn has a portion of
    them, and the data follow with the last one."""
    turn.cut()
    changes = iter(turn.placer.read_changes())
    for _ in changes:
        data: Data = {}
        turn.later(_afterwards(turn, commands, command, changes, data))
        return data
    return _planned(turn, commands, command)


def _afterwards(
    turn: TurnContext, commands: RequestHandler, command: requests.Request, changes: Iterator[None], data: Data
) -> Iterator[None]:
    """Plans when the policy has taken over `changes`."""
    yield from changes
    found = _planned(turn, commands, command)
    left, turn.remaining_work = turn.remaining_work, []
    yield from chain.from_iterable(left)
    data.update(found)


def _planned(turn: TurnContext, commands: RequestHandler, command: requests.Request) -> Data:
    if isinstance(command, requests.PlanAgents):
        return agent_plans.plan(turn, command)
    if isinstance(command, requests.PlanRequests):
        return planned_documents.plan(turn, commands.run, command)
    if isinstance(command, requests.Rebalance):
        return rebalancing.run(turn, command)
    begin = turn.uow.savepoint()
    planned = PlannedAnswer({"place": [], "end": [], "unplaced": 0}, [])
    try:
        data = commands.run(command)
        turn.fits()
        data.update(resized(turn, begin))
        new = begun(turn)
        if new:
            planned = look(turn, new[0])
            if planned.demands and turn.placer.policy_of(planned.demands[0].role) is not None:
                # The policy looks at the records of the request, so it decides before they are undone.
                planned = planned._replace(foreseen=turn.placer.foresee(planned.demands))
    finally:
        turn.uow.rollback()
    data.pop("transactionID", None)
    demands = planned.demands
    decided = turn.placer.decided_by(demands[0].role) if demands else None
    data.update({**planned.data, "dryRun": True, **shown_partition(decided)})
    if planned.foreseen is not None:
        conclude(data, sum(len(demand.slots) for demand in demands), planned.foreseen.result)
        data["evict"] = list(planned.foreseen.evicted)
    elif len(demands) == 1 and len(demands[0].slots) > SLICE:
        turn.later(planned_documents.match(turn, [planned_documents.Wanted(data, demands[0])]))
    elif demands:
        conclude(data, sum(len(demand.slots) for demand in demands), turn.placer.plan(demands, Mode.DRY_RUN))
    return data
