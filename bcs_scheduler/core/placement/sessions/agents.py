"""The agents of snapshots, as offers and taskgroups show them."""

from __future__ import annotations

from collections.abc import Mapping

from bcs_scheduler.core.placement.sessions.held import extended_dimension
from offers.leased.row import LeasedRow
from offers.policy.session.model import Agent
from offers.resources import SCALARS


def agent_of(name: str, row: LeasedRow | None, used: Mapping[str, int], size: tuple[int, int]) -> Agent:
    """The agent with `used` of our taskgroups, by dimension: the rest that is not free now is in the hands of others.
    `row`: the offered amounts; None = nothing is offered. `size`: known cores and memory of the whole agent."""
    if row is None:
        total = dict.fromkeys(SCALARS, 0)
    else:
        total = dict(zip(SCALARS, row.amounts, strict=False)) if row.open else dict.fromkeys(SCALARS, 0)
        size = row.totals
    for dimension, amount in used.items():
        total[dimension] = total.get(dimension, 0) + amount
    foreign = []
    for line, amount in zip(("cpus", "mem"), size, strict=True):
        if amount > total[line]:
            foreign.append((line, amount - total[line]))
            total[line] = amount
    for extended, capacity in row.overrides.extended.items() if row is not None else ():
        total[extended_dimension(extended)] = max(capacity, used.get(extended_dimension(extended), 0))
    whole = tuple(sorted(pair for pair in total.items() if pair[1]))
    return Agent(name, whole, tuple(foreign), row.attributes if row is not None else {})
