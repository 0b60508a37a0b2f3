"""The time of a turn of the core, measured by the clock of the process (bcs_scheduler.core.pace)."""

from __future__ import annotations

import time
from collections.abc import Callable

TURN = 0.03
"""Seconds a turn should take. A piece of work is not interrupted, so a turn may take some milliseconds longer; no turn
should take more than 0.1 s. Shorter turns cost more: a turn has fixed costs of about half a millisecond."""
COMMANDS, REPORTS = 32, 256
"""Commands and reports taken from the inbox for one turn at most: what a turn has no time for waits in the core, where
commands cannot be withdrawn."""
LAG = 0.1
"""Seconds by which commits or reports may lag behind before launches are slowed down: a few commits of a ZooKeeper
under load. What waits longer delays the launches of other users without making this one faster."""
OFFERS = 200
"""Offers that enter the core as one event at most: some milliseconds of work."""


class TurnPace:
    """Implements bcs_scheduler.core.pace.Pace for one turn, from its construction on."""

    def __init__(self, lag: Callable[[], float]) -> None:
        """`lag`: seconds by which commits or reports lag behind the decisions of the core."""
        self._began = time.perf_counter()
        self._lag = lag

    def spent(self) -> float:
        return (time.perf_counter() - self._began) / TURN

    def pressed(self) -> bool:
        return self._lag() > LAG
