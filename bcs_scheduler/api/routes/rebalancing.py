"""Rebalancing: moves of taskgroups toward fewer or more even agents."""

from __future__ import annotations

import msgspec

from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.operation import Answer, Call, Param, Table
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import Rebalance

table = Table("cluster")
GOAL = Param(
    "goal", "text", "The goal: fewer agents in use, or agents that are equally used. Default: spread.",
    choices=("pack", "spread"),
)  # fmt: skip
MOVES = Param("moves", "int", "Maximum number of moves. Default: 10.", 1, 100)
GAIN = Param("gain", "float", "Least gain of a move, as a difference of squared shares. Default: 0.01.", 0.0001, 1)


class RebalanceMove(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A move of a taskgroup: agents by id and host name, and the gain as a difference of squared shares."""

    taskgroup: str
    source: str
    source_host: str
    target: str
    target_host: str
    gain: float


class RefusedMove(msgspec.Struct, frozen=True, kw_only=True):
    """A move that could not begin, because its taskgroup or its agent has changed."""

    taskgroup: str
    reason: str


class RebalanceView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Moves of a rebalancing. `stopped`: TaskgroupsWait, MovesInProgress, LargeLoss, MoveLimit or GainBelowBound.
    `before`, `after`: sum over the agents of the mean square of their used shares. `agents_in_use`: number of agents
    with taskgroups after all moves."""

    goal: str
    moves: list[RebalanceMove]
    refused: list[RefusedMove]
    stopped: str
    message: str
    before: float
    after: float
    agents_in_use: int
    dry_run: bool


@table.write(
    "POST",
    "/cluster/rebalance",
    "Move taskgroups toward fewer agents (pack) or more even agents (spread), within the disruption budgets",
    query=(GOAL, MOVES, GAIN),
    answer=RebalanceView,
    reasons=(errors.BAD_PARAMETER, Reason.INVALID),
    status=200,
)
async def rebalance(call: Call) -> Answer:
    fields = {name: call.query[name] for name in ("goal", "moves", "gain") if name in call.query}
    return await call.submit(Rebalance(**fields, dry_run=call.dry_run, cause=call.cause))
