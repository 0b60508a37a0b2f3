"""Requests for plans of changes that are made step by step and not by one request."""

from __future__ import annotations

from bcs_scheduler.core.interface.requests import Request


class PlanAgents(Request, frozen=True, kw_only=True):
    """The effect of a cordon (or a drain) of several agents together. Always a dry run. `agents`: keys of their
    settings. `drain`: their taskgroups are moved, too."""

    agents: tuple[str, ...]
    drain: bool = False
    dry_run: bool = True
