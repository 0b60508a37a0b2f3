"""Dry runs: the result of a request, with nothing changed.

The request is carried out, its transaction takes one step, and all changes are rolled back in the same turn. With the
policies `session` and `hierarchical`, the policy decides about the slots that the request would place, beside all work
that waits; this costs as much as one session. With `simple`, the slots are matched with the offers that are held. Many
slots are then matched in slices, on a copy of the offers at the begin of the plan, so that a plan for 50,000 taskgroups
does not delay the turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface import plans, policies, requests
from bcs_scheduler.core.placement import rebalancing
from bcs_scheduler.core.placement.placer import SLICE, Foreseen, Mode
from bcs_scheduler.core.requests import agent_plans
from bcs_scheduler.core.requests.handler import RequestHandler
from offers.model import Demand, MatchResult, Placement
from store.records import Transaction
from transactions import explain, injection
from transactions.base import Slot
from transactions.kinds.registry import kind_of
from transactions.resources import resource_request
from transactions.rules import gangs

Data = dict[str, Any]

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
    policies.PutQueueTree,
    policies.RollbackQueueTree,
    policies.SetQueueState,
    plans.PlanAgents,
)
"""Requests whose dry runs need offers."""


def needs_offers(command: requests.Request) -> bool:
    """True if the answer depends on the offers that are held."""
    return isinstance(command, plans.Rebalance) or (command.dry_run and isinstance(command, PLACING))


class _PlannedAnswer(NamedTuple):
    """The planned effect of a request."""

    data: Data
    """Data of the answer."""
    demands: list[Demand[Slot]]
    """Demands that the request would place; more than one only if each of them wants one place."""
    foreseen: Foreseen | None = None
    """The decisions of the policy; None: the demands are to be matched."""


def plan(turn: TurnContext, commands: RequestHandler, command: requests.Request) -> Data:
    """Returns the data of the reply: the operation, the planned placements, the taskgroups that would be ended, and the
    slots without a place. For an update or a reschedule, whose old taskgroups must end first, the places are planned on
    the present free resources."""
    if isinstance(command, plans.PlanAgents):
        return agent_plans.plan(turn, command)
    if isinstance(command, plans.Rebalance):
        return rebalancing.run(turn, command)
    turn.cut()
    planned = _PlannedAnswer({"place": [], "end": [], "unplaced": 0}, [])
    try:
        data = commands.run(command)
        turn.fits()
        begun = [turn.state.transactions.get(key) for kind, key in turn.uow.changed() if kind == "transaction"]
        new = [t for t in begun if t is not None and t.active and turn.uow.is_new(t)]
        if new:
            planned = _look(turn, new[0])
            if planned.demands and turn.placer.policy is not None:
                # The policy looks at the records of the request, so it decides before they are undone.
                planned = planned._replace(foreseen=turn.placer.foresee(planned.demands))
    finally:
        turn.uow.rollback()
    data.pop("transactionID", None)
    data.update({**planned.data, "dryRun": True})
    demands = planned.demands
    if planned.foreseen is not None:
        _conclude(data, sum(len(demand.slots) for demand in demands), planned.foreseen.result)
        data["evict"] = list(planned.foreseen.evicted)
    elif len(demands) == 1 and len(demands[0].slots) > SLICE:
        turn.later(_match(turn, demands[0], data))
    elif demands:
        _conclude(data, sum(len(demand.slots) for demand in demands), turn.placer.plan(demands, Mode.DRY_RUN))
    return data


def _look(turn: TurnContext, transaction: Transaction) -> _PlannedAnswer:
    # No checkpoint may close a unit in the middle of changes that will be undone.
    context = replace(turn.context, checkpoint=lambda: None, time_is_up=lambda: False)
    kind = kind_of(turn.state, transaction)
    step, ending = kind.preview(context, transaction)
    changed = [turn.state.taskgroups.get(key) for kind, key in turn.uow.changed() if kind == "taskgroup"]
    ending = [group for group in changed if group is not None and group.killing_since == turn.now] + ending
    application = transaction.application_key
    version = turn.state.version(application, step.version or transaction.version)
    slots = step.slots
    only_agents = step.only_agents
    if kind.in_place:
        slots = (*slots, *(Slot(g.index, g.id) for g in ending))
        if step.per_agent:
            only_agents |= {g.agent_id for g in ending}
    missing = injection.missing(turn.state, version) if slots and version is not None else ()
    demands = []
    if slots and version is not None and not missing:
        wanted = step._replace(slots=slots, only_agents=only_agents)
        demands = resource_request.demands(transaction.id, version, wanted, context.options.role, context.overhead)
        if len(demands) == 1:
            least = gangs.missing_members(turn.state, version, len(slots))
            demands = [demands[0]._replace(min_members=least)]
    data = {
        "place": [],
        "end": [g.id for g in ending],
        "unplaced": len(slots),
        "maxUnavailable": kind.max_unavailable(transaction),
        "reasons": {},
        "message": explain.waiting(missing) if missing else "",
    }
    return _PlannedAnswer(data, demands)


def _match(turn: TurnContext, demand: Demand[Slot], data: Data) -> Iterator[None]:
    """Matches the demand slice by slice."""
    for found in turn.placer.slices(demand):
        if found is not None:
            _conclude(data, len(demand.slots), found)
        yield


def _conclude(data: Data, wanted: int, found: MatchResult[Slot]) -> None:
    """Adds the placements and the diagnosis to the answer. `wanted`: the total number of places that the request
    needs."""
    data["place"] += [_placement(placement) for placement in found.placements]
    data["unplaced"] = wanted - len(data["place"])
    if found.diagnoses:
        data["reasons"] = dict(found.diagnoses[0].reasons)
        data["message"] = explain.reasons(found.diagnoses[0])


def _placement(placement: Placement[Slot]) -> Data:
    return {
        "index": placement.slot.index,
        "agent": placement.agent_id,
        "hostname": placement.hostname,
        "ports": list(placement.ports),
        "replaces": placement.slot.replaces,
    }
