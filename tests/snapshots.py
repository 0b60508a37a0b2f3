"""Snapshots of sessions as plain values, so that one that was kept can be compared with one that is made anew."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.core.placement.copied import copied
from bcs_scheduler.core.placement.engines.hierarchical import Hierarchical
from bcs_scheduler.core.placement.engines.session import Session
from bcs_scheduler.core.placement.inputs import Inputs
from bcs_scheduler.core.placement.loop import Loop
from bcs_scheduler.core.placement.snapshots.role import RoleInput, RoleSnapshot
from bcs_scheduler.core.scheduler import Core
from offers.policy.session.snapshot import Snapshot


def contents(snapshot: Snapshot) -> dict[str, Any]:
    """Everything that sessions read of a snapshot."""
    columns = snapshot.columns
    mirrors = columns.mirrors
    sums = ("allocated", "requested", "pending", "ready", "settled", "running")
    return {
        "now": snapshot.now,
        "agents": snapshot.agents,
        "rank": snapshot.rank,
        "queues": snapshot.queues,
        "amounts": [columns.total, columns.idle, columns.future, snapshot.totals, snapshot.wide],
        "counts": [columns.count, columns.leaving, columns.ports, columns.max_tasks, columns.limited],
        "scores": [columns.score_cpus, columns.score_mem],
        "special": sorted(columns.special),
        "mirrors": [
            array.tolist()
            for array in (*mirrors.idle, *mirrors.future, mirrors.count, mirrors.score_cpus, mirrors.score_mem)
        ],
        "arrays": [array.tolist() for array in (columns.max_tasks_array, *columns.total_arrays)],
        "jobs": {
            name: (job.queue, job.tasks, job.min_available, job.priority, job.created)
            for name, job in snapshot.jobs.items()
        },
        "figures": {name: [getattr(figures, each) for each in sums] for name, figures in snapshot.figures.items()},
        "standing": {name: [one.allocated, one.jobs, one.running] for name, one in snapshot.standing.items()},
        "waking": set(snapshot.waking),
        "tenants": snapshot.tenants,
        "templates": set(snapshot.templates),
    }


def outdated(core: Core) -> list[str]:
    """What the kept inputs of sessions have different, in all roles, from ones that are made from nothing. A copy is
    read: the live engine does not notice."""
    placing = core._offer_manager.placing
    return [
        line
        for one in placing.loops
        if isinstance(one.engine, Session | Hierarchical)
        for line in _outdated(core, one, copied(one.engine._inputs))
    ]


def _outdated(core: Core, placing: Loop, inputs: Inputs) -> list[str]:
    turn, kept = core.turn_context, inputs.snapshots
    promises = inputs.promises.nominations
    found: list[str] = []
    for role in filter(placing._covers, kept._roles):
        demands = [demand for demand in turn.engine.demands.values() if demand.role == role and not demand.per_agent]
        planned = list(placing._launcher.placements())
        moving = kept.moving(role, demands, {}, planned, promises)
        taken = kept.of_role(role, demands, {}, planned, promises, turn.now, plain=inputs.plain)
        fresh = RoleSnapshot(turn.source, turn.pool, role, plain=inputs.plain)
        found += _differences(fresh.inputs(moving, turn.now), taken, plain=inputs.plain)
    return found


def _differences(fresh: RoleInput, found: RoleInput, *, plain: bool) -> list[str]:
    if fresh.snapshot.dimensions != found.snapshot.dimensions:  # those of former work are kept, with 0
        before = found.snapshot
        found = found._replace(
            snapshot=Snapshot(before.agents, before.queues, before.jobs.values(), before.now, plain=plain),
        )
    kept, anew = _values(found), _values(fresh)
    return [f"{name}: {kept[name]} is kept, {anew[name]} is there" for name in kept if kept[name] != anew[name]]


def _values(found: RoleInput) -> dict[str, Any]:
    return {
        **contents(found.snapshot),
        "rows": {name: row.number for name, row in found.rows.items()},
        "numbers": found.numbers.tolist(),
        "tests": set(found.tests),
        "missing": dict(found.missing),
    }
