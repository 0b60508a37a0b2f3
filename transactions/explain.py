"""Why something is waiting, in words: diagnoses of the placement turned into sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from offers.model import Diagnosis
from store.records import TaskGroup, Transaction
from transactions import daemons, delete, health
from transactions.base import Context
from transactions.lifecycle import is_ready

NAMED = 3
"""Of taskgroups and agents so many are named, the first ones."""
STANDS_STILL = "stands still"
"""Of an update that gets no further by itself."""
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
    application = ctx.application(transaction)
    lasting = application is not None and daemons.is_daemonset(application)
    late = sorted(g.id for g in members if g.status != "Running" and (lasting or g.status != "Finish"))
    if late:
        return f"after {life:.0f} s {len(late)} taskgroups are not running: {', '.join(late[:3])}"
    unhealthy = sorted((g for g in members if not is_ready(g)), key=lambda g: g.index)
    if unhealthy and transaction.type == "UPDATE":
        told = "; ".join(f"{group.id} ({health.complaints(group) or 'is to end'})" for group in unhealthy[:3])
        return f"after {life:.0f} s {len(unhealthy)} taskgroups are not healthy: {told}"
    return f"after {life:.0f} s not all taskgroups were placed; no offers were seen"


def troubles(standing: daemons.Standing) -> str:
    """What is wrong with the taskgroups of a daemonset; empty if nothing is."""
    ended, dead, away = standing.ended, standing.dead, standing.away
    parts = []
    if dead:
        told = "will not be restarted" if len(dead) == len(ended) else f"{len(dead)} of them will not be restarted"
        parts.append(f"{_have(ended)} ended and {told} ({_named(map(_placed, dead))})")
    elif ended:
        parts.append(f"{_have(ended)} ended ({_named(map(_placed, ended))})")
    if away:
        parts.append(f"{several(len(away), 'taskgroup')} out of reach ({_named(map(_placed, away))})")
    return ", ".join(parts)


def updating(version: str, standing: daemons.Standing) -> str:
    """How the update of a daemonset to this version gets on."""
    words = f"to version {version}" + (f" {STANDS_STILL}" if standing.stuck else "")
    found = troubles(standing)
    return f"{words}: {found}" if found else words


def deleting(groups: Iterable[TaskGroup]) -> str:
    """What the deletion of a daemonset with these taskgroups waits for."""
    away = sorted({group.hostname for group in groups if group.unreachable_since and not group.ended})
    if not away:
        return "its taskgroups are being ended"
    return (
        f"waits for {several(len(away), 'agent')} out of reach ({_named(away)}); "
        "deleting it with --enforce (enforce=1) gives up what is there"
    )


def _have(groups: Sequence[TaskGroup]) -> str:
    return f"{several(len(groups), 'taskgroup')} {'has' if len(groups) == 1 else 'have'}"


def _placed(group: TaskGroup) -> str:
    return f"{group.name} on {group.hostname}"


def _named(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - NAMED} more" if len(listed) > NAMED else ""
    return ", ".join(listed[:NAMED]) + more
