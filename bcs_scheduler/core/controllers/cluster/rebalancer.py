"""The controller of rebalancing: begins moves toward fewer or more even agents from time to time, if a setting says so.

Everything is derived from the records and the offers at the beginning of each round, so a new leader needs nothing of
its predecessor. The steps of a round stop where the time of the turn is used up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.cluster.offer_manager import OfferManager
from bcs_scheduler.core.interface.requests import Rebalance
from bcs_scheduler.core.placement import rebalancing
from bcs_scheduler.core.placement.rebalancing import GATHER


class Rebalancer:
    """Implements `core.parts`. Costs nothing while the setting is off."""

    def __init__(self, turn: TurnContext, offer_manager: OfferManager) -> None:
        self._turn = turn
        self._offer_manager = offer_manager
        self._next = 0.0
        """Unix seconds of the next round, or of its plan once offers are gathered."""
        self._gathering = False
        self._steps: Iterator[None] | None = None
        """The rest of the present round."""

    def recover(self) -> None:
        """Lets a whole period pass after an election: taskgroups and agents report first."""
        self._end()

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Changes are seen by the next round."""

    def next_timer(self) -> float | None:
        """Unix seconds of the next round; now while one is in progress, None with the setting off."""
        if self._turn.options.rebalance == "off":
            return None
        return self._turn.now if self._steps is not None else self._next

    def tick(self) -> None:
        """Begins a round when one is due, and continues it as long as the time of the turn allows."""
        turn, options = self._turn, self._turn.options
        if options.rebalance == "off" or (self._steps is None and turn.now < self._next):
            return
        framework = turn.state.framework
        if not turn.connected or framework.halt is not None or framework.unknown is not None:
            self._end()
            return
        if self._steps is None and not self._gathering:
            self._offer_manager.want()
            self._gathering, self._next = True, turn.now + GATHER
            return
        if self._steps is None:
            command = Rebalance(goal=options.rebalance, moves=options.rebalance_moves, gain=options.rebalance_gain)
            self._gathering, self._steps = False, rebalancing.rounds(turn, command)
        if turn.attempt("core", "rebalancing", self._go_on) is not None:
            self._end()
        turn.cut()

    def _go_on(self) -> None:
        for _ in self._steps or ():
            if self._turn.context.time_is_up():
                return
        self._end()

    def _end(self) -> None:
        self._steps, self._gathering = None, False
        self._next = self._turn.now + self._turn.options.rebalance_period
