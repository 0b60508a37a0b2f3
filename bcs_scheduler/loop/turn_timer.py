"""The time of a turn of the core, measured by the clock of the process (bcs_scheduler.core.time_budget)."""

from __future__ import annotations

import time
from collections.abc import Callable

TURN = 0.03
"""Seconds a turn should take. A piece of work is not interrupted, so a turn may take some milliseconds longer; no turn
should take more than 0.1 s. Shorter turns cost more: a turn has fixed costs of about half a millisecond."""
COMMANDS, REPORTS = 32, 256
"""The most requests and reports that one turn takes from the inbox. Inputs that a turn has no time for would wait in
the core, where requests cannot be withdrawn."""
LAG = 0.1
"""Seconds by which commits or reports may lag behind before launches are slowed down: a few commits of a ZooKeeper
under load. A longer queue would delay the launches of other users without making this one faster."""
CROWD = 0.15
"""Seconds that a commit may wait to be sent, beyond which a turn takes one report of each namespace only. Commits are
first in, first out for all users; reports are not. So work that the store cannot take now waits as reports, and reports
of other namespaces overtake it."""
REST, SHORT_REST = 0.05, 0.005
"""Seconds before such a turn, at most, if the turn before has decided something. The rest ends when the store has
caught up, or a command arrives. Turns that follow each other faster cost a fifth of the processor time of a launch, and
give the store nothing that it could take. A core that is busy or has a timer rests until the timer, but for the shorter
time in any case."""
OFFERS = 200
"""Offers that enter the core as one event at most: some milliseconds of work."""


def is_crowded(unsent: float) -> bool:
    """The store is given more than it takes. `unsent`: seconds for which the oldest commit waits to be sent."""
    return unsent > CROWD


def room_for_reports(unhandled: int, unsent: float, width: int, idle: int) -> int:
    """Reports that a turn may take. `unhandled`: those that the last turns had no time for; `unsent`: as in
    `is_crowded`; `width`: namespaces with reports; `idle`: turns with events since the last one that decided something.
    While the store is crowded, each namespace has one in a turn, and one more is an answer to RECONCILE. Reports that
    change nothing give the store nothing to do: each turn without a decision doubles the room of the next."""
    room = max(0, REPORTS - unhandled)
    return min(room, (width + 1) << min(idle, REPORTS.bit_length())) if is_crowded(unsent) else room


def rest(
    wakeup: float,
    unsent_for: Callable[[], float],
    await_command: Callable[[float], bool],
    clock: Callable[[], float] = time.monotonic,
) -> float:
    """Waits as described at `REST`. `wakeup`: seconds until the core has work by itself, 0.0 or less = now.
    `unsent_for`: seconds for which the oldest commit has been waiting to be sent; the last value is returned.
    `await_command`: waits up to so many seconds, returns whether a command has arrived or the term ends.
    `clock`: seconds that never go back."""
    until = clock() + max(SHORT_REST, min(REST, wakeup))
    unsent = unsent_for()
    while is_crowded(unsent) and clock() < until and not await_command(SHORT_REST):
        unsent = unsent_for()
    return unsent


class TurnPace:
    """Implements bcs_scheduler.core.time_budget.TimeBudget for one turn, from its construction on."""

    def __init__(self, lag: Callable[[], float]) -> None:
        """`lag`: seconds by which commits or reports lag behind the decisions of the core."""
        self._began = time.perf_counter()
        self._lag = lag

    def spent(self) -> float:
        return (time.perf_counter() - self._began) / TURN

    def is_congested(self) -> bool:
        return self._lag() > LAG
