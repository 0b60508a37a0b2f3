"""Places demands on agents, many at once, with the result of the sequential greedy algorithm
(offers.matching.greedy)."""

from __future__ import annotations

from collections.abc import Sequence

from offers.ledger.pool import AnyPool
from offers.matching.ranking import Scoring
from offers.model import Census, Demand, MatchResult, SlotT
from offers.statements.statement import Statement

__all__ = ["Scoring", "Statement", "match"]


def match(
    demands: Sequence[Demand[SlotT]],
    pool: AnyPool,
    census: Census,
    scoring: Scoring = "spread",
    *,
    dry_run: bool = False,
) -> MatchResult[SlotT]:
    """Places as much of the demands as possible, first come, first served.

    The placements are deducted from the pool: the caller takes the offers of every used agent, or renames the claims on
    standing capacity to their units. With `dry_run`, and after an error, the pool is as it was before. Demands that are
    not fully placed are diagnosed (`Statement.plan`).
    """
    tentative = dry_run or any(demand.min_members for demand in demands)
    with Statement(pool, census, scoring, tentative=tentative) as statement:
        result = statement.plan(demands)
        if not dry_run:
            statement.commit()
    return result
