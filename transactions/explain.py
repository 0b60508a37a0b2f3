"""Why something is waiting, in words: diagnoses of the placement turned into sentences."""

from __future__ import annotations

from offers.model import Diagnosis
from store.records import Transaction
from transactions import delete, health
from transactions.base import Context
from transactions.lifecycle import is_ready

_UNITS = {"cpus": "cores", "mem": "MB", "disk": "MB", "gpus": "GPUs"}


def several(number: int, thing: str) -> str:
    """``1 agent``, ``2 agents``."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def reasons(diagnosis: Diagnosis) -> str:
    """E.g. ``7 of 10 agents: not enough cpus; 3 of 10 agents: constraint UNIQUE hostname``."""
    if diagnosis.reasons and not diagnosis.agents:
        return waiting(tuple(diagnosis.reasons))
    if not diagnosis.agents:
        return "no agent offers resources at the moment"
    ranked = sorted(diagnosis.reasons.items(), key=lambda item: (-item[1], item[0]))
    parts = [f"{count} of {diagnosis.agents} agents: {wording(reason)}" for reason, count in ranked]
    for name, needed, free in diagnosis.closest:
        parts.append(f"closest for {name}: needs {_amount(name, needed)}, at most {_amount(name, free)} free")
    return "; ".join(parts)


def wording(reason: str) -> str:
    if reason == "role":
        return "what they offer now is for other roles"
    return f"not enough {reason}" if reason in ("cpus", "mem", "disk", "gpus", "ports") else reason


def _amount(name: str, thousandths: int) -> str:
    return f"{thousandths / 1000:g} {_UNITS.get(name, '')}".strip() if name != "ports" else str(thousandths)


def waiting(missing: tuple[str, ...]) -> str:
    """What a launch waits for; `missing` as transactions.injection says it."""
    return f"waiting for configuration: {'; '.join(missing)}"


def timeout(ctx: Context, transaction: Transaction, diagnosis: Diagnosis | None, missing: tuple[str, ...] = ()) -> str:
    """What was missing when the time of a transaction ran out."""
    life = transaction.deadline - transaction.due_at
    if missing:
        return f"after {life:.0f} s still {waiting(missing)}"
    if transaction.type == "DELETE":
        return f"after {life:.0f} s {delete.waiting_for(ctx, transaction)}"
    if diagnosis is not None:
        left = diagnosis.wanted - diagnosis.placed
        return f"after {life:.0f} s have not enough resources: {left} taskgroups not placed; {reasons(diagnosis)}"
    members = ctx.state.groups_of(f"{transaction.namespace}/{transaction.application}").values()
    late = sorted(g.id for g in members if g.status not in ("Running", "Finish"))
    if late:
        return f"after {life:.0f} s {len(late)} taskgroups are not running: {', '.join(late[:3])}"
    unhealthy = sorted((g for g in members if not is_ready(g)), key=lambda g: g.index)
    if unhealthy and transaction.type == "UPDATE":
        told = "; ".join(f"{group.id} ({health.complaints(group) or 'is to end'})" for group in unhealthy[:3])
        return f"after {life:.0f} s {len(unhealthy)} taskgroups are not healthy: {told}"
    return f"after {life:.0f} s not all taskgroups were placed; no offers were seen"
