"""Agents as engines see them: as much as offers and taskgroups show, and the room that is still to come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from bcs_scheduler.core.placement.snapshots.held import extended_dimension, request_of
from offers.dimensions import Amounts
from offers.ledger.holds import Cause
from offers.ledger.pool import AnyPool
from offers.ledger.table import Row
from offers.policy.session.model import Agent
from offers.resources import SCALARS

IN_ORDER = tuple(sorted(SCALARS))
NOTHING: Mapping[str, int] = {}
OF_UNITS = (Cause.INTERRUPTED, Cause.PLACEHOLDER)
"""Causes of holds whose room has a unit of its own, which counts as used."""


def agent_of(
    name: str,
    row: Row | None,
    used: Mapping[str, int],
    size: tuple[int, ...] | None,
    coming: Mapping[str, int] = NOTHING,
    held: Mapping[str, int] = NOTHING,
    lines: Sequence[str] = SCALARS,
) -> Agent:
    """The agent with `used` of our taskgroups, by dimension: the rest that is not free now is in the hands of others.
    `row`: the offered amounts; None = nothing is offered. `size`: amounts of the whole agent in the order of
    `SCALARS`, the first two or more; None = they are not known, and the greatest offered amounts stand in. `coming`:
    amounts that no unit has any more, and that no offer shows yet (`offers.ledger.coming`). `held`: offered amounts
    that are held for work that waits; they seem to be in the hands of others. `lines`: the dimensions of the row.

    The room of a taskgroup may be offered before the report of its end is read. The agent is not larger meanwhile."""
    if row is not None and row.node is not None:
        return _of_node(name, row, used, lines)
    total = _offered(row)
    for dimension, amount in used.items():
        total[dimension] = total.get(dimension, 0) + amount
    least: tuple[int, ...] = size or (0, 0)
    if row is not None:
        least = (*row.totals, *least[2:])
    if coming and len(size or ()) < len(SCALARS):  # not all of the size is known
        known, sized = (*least, *[0] * (len(SCALARS) - len(least))), len(size or ())
        least = tuple(
            known[n] if n < sized else max(known[n], total[line] + coming.get(line, 0))
            for n, line in enumerate(SCALARS)
        )
    foreign = []
    for line, amount in zip(SCALARS, least, strict=False):
        if amount > total[line]:
            foreign.append((line, amount - total[line]))
            total[line] = amount
        elif size is not None:
            total[line] = max(amount, used.get(line, 0))
    for extended, capacity in row.overrides.extended.items() if row is not None else ():
        total[extended_dimension(extended)] = max(capacity, used.get(extended_dimension(extended), 0))
    names = IN_ORDER if len(total) == len(SCALARS) else sorted(total)
    whole = tuple([(line, total[line]) for line in names if total[line]])
    comes: Amounts = ()
    if coming:
        limits = [(line, min(amount - held.get(line, 0), coming.get(line, 0))) for line, amount in foreign]
        comes = tuple(sorted([(line, amount) for line, amount in limits if amount > 0]))
    if row is None:
        return Agent(name, whole, tuple(foreign), coming=comes)
    return Agent(name, whole, tuple(foreign), row.attributes, coming=comes, facts=(row.overrides, row.unavailable))


def _of_node(name: str, row: Row, used: Mapping[str, int], lines: Sequence[str]) -> Agent:
    """Like `agent_of`, for a node: all its free room is in hand."""
    free, whole = dict(zip(lines, row.amounts, strict=True)), row.node.allocatable
    foreign = [(line, amount - free.get(line, 0) - used.get(line, 0)) for line, amount in whole]
    others = tuple((line, amount) for line, amount in foreign if amount > 0)
    return Agent(name, whole, others, row.attributes, facts=(row.overrides, row.taints))


def _offered(row: Row | None) -> dict[str, int]:
    if row is None or not row.offers:
        return dict.fromkeys(SCALARS, 0)
    return dict(zip(SCALARS, row.amounts, strict=False))


def held_on(row: Row | None, pool: AnyPool) -> Mapping[str, int]:
    """The offered amounts of a row that are held for work that waits: nothing uses them, and they do not come. Other
    holds are those of units, which count as used. `row` None: nothing is offered."""
    holds = pool.holds.on(row.site) if row is not None else {}
    if row is None or not holds:
        return NOTHING
    held = Counter(row.held())
    for unit, request in holds.items():
        if pool.holds.cause_of(unit) in OF_UNITS:
            held.subtract(dict(request_of(request, ())))
    return +held
