"""The effect of one request that has been carried out and is going to be undone: ends, demands, placements."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.placement.placer import Foreseen
from bcs_scheduler.core.requests.answers import Data
from offers.model import DecidedBy, Demand, MatchResult, Placement
from store.ids import part_key
from store.records import Application, Deployment, Transaction
from store.state.reader import StateReader
from store.state.unit_of_work import Savepoint
from transactions import explain, groups, injection, resource_request
from transactions.base import Slot
from transactions.kinds.registry import kind_of
from transactions.rules import gangs, rolling

Names = Collection[tuple[str, str]]
"""Kind and key of records."""


class PlannedAnswer(NamedTuple):
    """The planned effect of a request."""

    data: Data
    """Data of the answer."""
    demands: list[Demand[Slot]]
    """Demands that the request would place; more than one only if each of them wants one place."""
    foreseen: Foreseen | None = None
    """The decisions of the policy; None: the demands are to be matched."""


def begun(turn: TurnContext, before: Names = ()) -> list[Transaction]:
    """The operations that the present unit of work has begun. `before`: records that were changed by earlier
    requests."""
    changed = [name for name in turn.uow.changed() if name not in before and name[0] == "transaction"]
    found = [turn.state.transactions.get(key) for _, key in changed]
    return [one for one in found if one is not None and one.active and turn.uow.is_new(one)]


def resized(turn: TurnContext, since: Savepoint) -> Data:
    """The part of an answer that says how the request changes the number of taskgroups of its workload: `instances`
    with `from` and `to`. Empty if no number of an existing workload changes. `since`: before the request."""
    state = turn.state
    for (_, key), before in turn.uow.before(since).items():
        if isinstance(before, Application) and before.owner is None:
            number = _wanted_of(state, state.applications.get(key))
        elif isinstance(before, Deployment):
            number = _wanted(state, state.deployments.get(key))
        else:
            continue
        if number is not None and number != before.instances:
            return {"instances": {"from": before.instances, "to": number}}
    return {}


def _wanted_of(state: StateReader, application: Application | None) -> int | None:
    """The number of taskgroups that an application gets, or the deployment that owns it; None: it is gone."""
    if application is None or not application.deployment:
        return application.instances if application is not None else None
    return _wanted(state, state.deployments.get(application.deployment_key))


def _wanted(state: StateReader, deployment: Deployment | None) -> int | None:
    """The number of taskgroups that a deployment gets: that of the revision that follows, if there is one. None: it is
    gone."""
    if deployment is None:
        return None
    following = state.revisions.get(part_key(deployment.key, deployment.next_revision))
    return following.instances if following is not None else deployment.instances


def look(turn: TurnContext, transaction: Transaction, before: Names = ()) -> PlannedAnswer:
    """Lets the operation take one step. `before`: records that were changed by earlier requests. The caller undoes the
    changes."""
    # No checkpoint may close a unit in the middle of changes that will be undone.
    context = replace(turn.context, checkpoint=lambda: None, time_is_up=lambda: False)
    kind = kind_of(turn.state, transaction)
    step, ending = kind.preview(context, transaction)
    names = [name for name in turn.uow.changed() if name[0] == "taskgroup" and name not in before]
    changed = [turn.state.taskgroups.get(key) for _, key in names]
    ending = [group for group in changed if group is not None and group.killing_since == turn.now] + ending
    application = transaction.application_key
    version = turn.state.version(application, step.version or transaction.version)
    slots = step.slots
    only_agents = step.only_agents
    if kind.in_place:
        replaced = {slot.replaces for slot in slots}  # the step may not wait for an unreachable one to end
        wanted_by = turn.state.applications.get(application)
        followed = [g for g in ending if wanted_by is None or not groups.is_surplus(wanted_by, g.index)]
        slots = (*slots, *(Slot(g.index, g.id) for g in followed if g.id not in replaced))
        if step.per_agent:
            only_agents |= {g.agent_id for g in followed}
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
        **_steps(turn, transaction),
    }
    return PlannedAnswer(data, demands)


def _steps(turn: TurnContext, transaction: Transaction) -> Data:
    """The part of an answer about an update that takes more than one step: the least number of its `steps`, and the
    number of taskgroups that it has `replaced` at its end. Empty for everything else."""
    state, kind = turn.state, kind_of(turn.state, transaction)
    application = state.applications.get(transaction.application_key)
    deployment = state.deployments.get(application.deployment_key) if application is not None else None
    if deployment is not None and deployment.successor:
        _, shrinking = rolling.sides(deployment)
        replaced = sum(len(state.groups_of(key)) for key in shrinking)
        steps = rolling.least_steps(deployment, replaced)
    else:
        most = kind.max_unavailable(transaction)
        members = state.groups_of(transaction.application_key).values() if most else ()
        older = sum(group.version != transaction.version for group in members)
        replaced = min(older, kind.progress(state, transaction).remaining)
        steps = -(-replaced // most) if most else 0
    return {"steps": steps, "replaced": replaced} if steps > 1 else {}


def conclude(data: Data, wanted: int, found: MatchResult[Slot]) -> None:
    """Adds the placements and the diagnosis to the answer. `wanted`: the total number of places that the request
    needs."""
    data["place"] += [_placement(placement) for placement in found.placements]
    data["unplaced"] = wanted - len(data["place"])
    if found.diagnoses:
        data["reasons"] = dict(found.diagnoses[0].reasons)
        data["message"] = explain.reasons(found.diagnoses[0])


def shown_partition(found: DecidedBy | None) -> Data:
    """The part of an answer that names the policy which decides. `found` None: all roles have one policy, and the part
    is empty."""
    if found is None:
        return {}
    return {"partition": {"policy": found.policy, "roles": list(found.roles), "name": found.name}}


def _placement(placement: Placement[Slot]) -> Data:
    return {
        "index": placement.slot.index,
        "agent": placement.agent_id,
        "hostname": placement.hostname,
        "ports": list(placement.ports),
        "replaces": placement.slot.replaces,
    }
