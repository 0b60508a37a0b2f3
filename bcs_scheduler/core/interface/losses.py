"""Requests about large losses."""

from __future__ import annotations

from bcs_scheduler.core.interface.requests import Request


class ResumeReplacements(Request, frozen=True, kw_only=True):
    """Ends the halt after a large loss: lost taskgroups are replaced. Refused if there is no halt."""
