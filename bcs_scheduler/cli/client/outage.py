"""Times in which no server can be reached, for commands that continue."""

from __future__ import annotations

import time
from collections.abc import Callable

from bcs_scheduler.cli.errors import CliError

NOTICE = 3.0
"""Seconds without a server before the warning. A change of leaders takes less time."""


class Outage:
    """Warns once of each time without a server. For one thread."""

    def __init__(self, warn: Callable[[str], object]) -> None:
        self._warn = warn
        self._since = 0.0
        """Monotonic seconds; 0.0 = the last attempt has reached a server."""
        self._told = False

    def failed(self, error: CliError) -> None:
        """An attempt has failed with this error, and another one follows."""
        now = time.monotonic()
        self._since = self._since or now
        if not self._told and now - self._since >= NOTICE:
            self._told = True
            self._warn(f"{error.message}; trying again")

    def over(self) -> None:
        """An attempt has reached a server."""
        if self._told:
            self._warn("the server answers again")
        self._since, self._told = 0.0, False
