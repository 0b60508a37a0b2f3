"""Requests about agents that are planned as a whole: plans of cordons and drains, and rebalancing; requests
that are planned together; what-if."""

from __future__ import annotations

from bcs_scheduler.core.interface.requests import Request
from offers.rebalancing import Goal


class PlanAgents(Request, frozen=True, kw_only=True):
    """The effect of a cordon (or a drain) of several agents together. Always a dry run. `agents`: keys of their
    settings. `drain`: their taskgroups are moved, too."""

    agents: tuple[str, ...]
    drain: bool = False
    dry_run: bool = True


class Rebalance(Request, frozen=True, kw_only=True):
    """Moves taskgroups toward fewer agents (pack) or more even agents (spread). `moves`: their greatest number.
    `gain`: least gain of a move (difference of squared shares)."""

    goal: Goal = "spread"
    moves: int = 10
    gain: float = 0.01


class AskWhatIf(Request, frozen=True, kw_only=True):
    """Asks which changes would give the open taskgroups of an application places. Refused (not_found) if the
    application does not exist."""

    namespace: str
    name: str
    changes: bool = True
    """False: only the estimate of the time until room is free is wanted."""


class PlanRequests(Request, frozen=True, kw_only=True):
    """The effect of several requests together, in their order: later ones see the records and the room that earlier
    ones take. Always a dry run. A request that is refused does not end the plan."""

    requests: tuple[Request, ...]
    dry_run: bool = True
