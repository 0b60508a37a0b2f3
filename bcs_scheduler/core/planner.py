"""Plans: what a command would do, with nothing changed.

The command runs for real, its transaction is looked at once, and everything is rolled back in the same turn. What it
would place is matched with the offers that are held. Many slots are matched in slices, on a copy of the offers as they
are at the begin of the plan, so that a plan for 50,000 taskgroups does not hold up the turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from bcs_scheduler.core import events
from bcs_scheduler.core.commands import Commands
from bcs_scheduler.core.desk import Desk
from offers.matcher import match
from offers.model import Demand, Diagnosis, MatchResult, Placement
from offers.planned import PlannedCensus
from offers.pool import OfferPool
from store.records import Transaction
from transactions import explain, injection, kinds, needs
from transactions.base import Slot

SLICE = 512
"""Slots matched at once: some milliseconds. A plan for no more of them uses the offers themselves."""
COPIED = 256
"""Offers copied at once."""
Data = dict[str, Any]


class _Outlook(NamedTuple):
    """What a transaction would do."""

    data: Data
    """Of the answer."""
    demand: Demand | None
    """What it would place; None: nothing."""


def plan(desk: Desk, commands: Commands, command: events.Command) -> Data:
    """Data of the reply: the operation, what would be placed where, what would be ended, and what would not fit. For an
    update or a reschedule, whose old taskgroups must end first, their places are planned on what is free now."""
    desk.cut()
    outlook = _Outlook({"place": [], "end": [], "unplaced": 0}, None)
    try:
        data = commands.run(command)
        desk.fits()
        begun = [desk.state.transactions.get(key) for kind, key in desk.uow.changed() if kind == "transaction"]
        new = [t for t in begun if t is not None and desk.uow.is_new(t)]
        if new:
            outlook = _look(desk, new[0])
    finally:
        desk.uow.rollback()
    data.pop("transactionID", None)
    data.update({**outlook.data, "dryRun": True})
    demand = outlook.demand
    if demand is not None and len(demand.slots) <= SLICE:
        found = match([demand], desk.pool, desk.census, desk.options.scoring, dry_run=True)
        _conclude(data, demand, found.placements, found.diagnoses)
    elif demand is not None:
        desk.later(_match(desk, demand, data))
    return data


def _look(desk: Desk, transaction: Transaction) -> _Outlook:
    # No checkpoint may close a unit in the middle of what is going to be undone.
    context = replace(desk.context, checkpoint=lambda: None, enough=lambda: False)
    step, ending = kinds.prospect(context, transaction)
    changed = [desk.state.taskgroups.get(key) for kind, key in desk.uow.changed() if kind == "taskgroup"]
    ending = [group for group in changed if group is not None and group.killing_since == desk.now] + ending
    application = f"{transaction.namespace}/{transaction.application}"
    version = desk.state.version(application, step.version or transaction.version)
    slots = step.slots
    only_agents = step.only_agents
    if transaction.type in ("UPDATE", "RESCHEDULE"):
        slots = (*slots, *(Slot(g.index, g.id) for g in ending))
        if step.per_agent:
            only_agents |= {g.agent_id for g in ending}
    missing = injection.missing(desk.state, version) if slots and version is not None else ()
    demand = None
    if slots and version is not None and not missing:
        wanted = step._replace(slots=slots, only_agents=only_agents)
        demand = needs.demand(transaction.id, version, wanted, desk.options.transactions.role)
    data = {
        "place": [],
        "end": [g.id for g in ending],
        "unplaced": len(slots),
        "maxUnavailable": transaction.max_unavailable,
        "reasons": {},
        "message": explain.waiting(missing) if missing else "",
    }
    return _Outlook(data, demand)


def _match(desk: Desk, demand: Demand, data: Data) -> Iterator[None]:
    """Matches the demand slice by slice. The first step takes note of the offers and of what is planned on them."""
    copy = desk.pool.copy()
    yield
    pool = OfferPool()
    for _ in copy.into(pool, COPIED):
        yield
    census = PlannedCensus(desk.census)
    placements: list[Placement] = []
    diagnoses: list[Diagnosis] = []
    while len(placements) < len(demand.slots) and not diagnoses:
        part = demand._replace(slots=demand.slots[len(placements) : len(placements) + SLICE])
        if demand.per_agent:
            used = frozenset(placement.agent_id for placement in placements)
            part = part._replace(except_agents=demand.except_agents | used)
        found: MatchResult = match([part], pool, census, desk.options.scoring)
        for placement in found.placements:
            census.add(part, placement)
        placements += found.placements
        diagnoses += found.diagnoses
        _conclude(data, demand, found.placements, found.diagnoses)
        yield


def _conclude(data: Data, demand: Demand, placements: list[Placement], diagnoses: list[Diagnosis]) -> None:
    """Adds what has been matched to the answer."""
    data["place"] += [_placement(placement) for placement in placements]
    data["unplaced"] = len(demand.slots) - len(data["place"])
    if diagnoses:
        data["reasons"] = dict(diagnoses[0].reasons)
        data["message"] = explain.reasons(diagnoses[0])


def _placement(placement: Placement) -> Data:
    slot = placement.slot
    assert isinstance(slot, Slot)
    return {
        "index": slot.index,
        "agent": placement.agent_id,
        "hostname": placement.hostname,
        "ports": list(placement.ports),
        "replaces": slot.replaces,
    }
