"""Plans: what a command would do, with nothing changed. The command runs for real, the pass runs on a copy of the
offers, and everything is rolled back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bcs_scheduler.core import events
from bcs_scheduler.core.commands import Commands
from bcs_scheduler.core.desk import Desk
from offers.matcher import match
from offers.model import Diagnosis, Placement
from store.records import Transaction
from transactions import explain, injection, kinds, needs
from transactions.base import Slot


def plan(desk: Desk, commands: Commands, command: events.Command) -> dict[str, Any]:
    """Data of the reply: the operation, what would be placed where, what would be ended, and what would not fit. For an
    update or a reschedule, whose old taskgroups must end first, their places are planned on what is free now."""
    desk.cut()
    try:
        data = commands.run(command)
        desk.fits()
        begun = [desk.state.transactions.get(key) for kind, key in desk.uow.changed() if kind == "transaction"]
        new = [t for t in begun if t is not None and desk.uow.is_new(t)]
        data.pop("transactionID", None)
        return {**data, "dryRun": True, **(_look(desk, new[0]) if new else {"place": [], "end": [], "unplaced": 0})}
    finally:
        desk.uow.rollback()


def _look(desk: Desk, transaction: Transaction) -> dict[str, Any]:
    # No checkpoint may close a unit in the middle of what is going to be undone.
    context = replace(desk.context, checkpoint=lambda: None, enough=lambda: False)
    step = kinds.look(context, transaction)
    application = f"{transaction.namespace}/{transaction.application}"
    ending = [g for g in desk.state.groups_of(application).values() if g.killing_since == desk.now]
    version = desk.state.version(application, step.version or transaction.version)
    slots = step.slots
    only_agents = step.only_agents
    if transaction.type in ("UPDATE", "RESCHEDULE"):
        slots = (*slots, *(Slot(g.index, g.id) for g in ending))
        if step.per_agent:
            only_agents |= {g.agent_id for g in ending}
    placements: list[Placement] = []
    diagnoses: list[Diagnosis] = []
    missing = injection.missing(desk.state, version) if slots and version is not None else ()
    if slots and version is not None and not missing:
        wanted = step._replace(slots=slots, only_agents=only_agents)
        demand = needs.demand(transaction.id, version, wanted, desk.options.transactions.role)
        placements, diagnoses = match([demand], desk.pool, desk.census, desk.options.scoring, dry_run=True)
    return {
        "place": [_placement(p) for p in placements],
        "end": [g.id for g in ending],
        "unplaced": len(slots) - len(placements),
        "maxUnavailable": transaction.max_unavailable,
        "reasons": dict(diagnoses[0].reasons) if diagnoses else {},
        "message": explain.waiting(missing) if missing else explain.reasons(diagnoses[0]) if diagnoses else "",
    }


def _placement(placement: Placement) -> dict[str, Any]:
    slot = placement.slot
    assert isinstance(slot, Slot)
    return {
        "index": slot.index,
        "agent": placement.agent_id,
        "hostname": placement.hostname,
        "ports": list(placement.ports),
        "replaces": slot.replaces,
    }
