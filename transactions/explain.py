"""Why something is waiting, in words: diagnoses of the placement turned into sentences."""

from __future__ import annotations

from offers.model import Diagnosis
from store.records import Transaction
from transactions import delete
from transactions.base import Context

_UNITS = {"cpus": "cores", "mem": "MB", "disk": "MB", "gpus": "GPUs"}


def reasons(diagnosis: Diagnosis) -> str:
    """E.g. ``7 of 10 agents: not enough cpus; 3 of 10 agents: constraint UNIQUE hostname``."""
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


def timeout(ctx: Context, transaction: Transaction, diagnosis: Diagnosis | None) -> str:
    """What was missing when the time of a transaction ran out."""
    life = transaction.deadline - transaction.due_at
    if transaction.type == "DELETE":
        return f"after {life:.0f} s {delete.waiting_for(ctx, transaction)}"
    if diagnosis is not None:
        missing = diagnosis.wanted - diagnosis.placed
        return f"after {life:.0f} s have not enough resources: {missing} taskgroups not placed; {reasons(diagnosis)}"
    members = ctx.state.groups_of(f"{transaction.namespace}/{transaction.application}").values()
    waiting = sorted(g.id for g in members if g.status not in ("Running", "Finish"))
    if waiting:
        return f"after {life:.0f} s {len(waiting)} taskgroups are not running: {', '.join(waiting[:3])}"
    return f"after {life:.0f} s not all taskgroups were placed; no offers were seen"
