"""Spreading: taskgroups that would share an agent wait a moment for requested offers of emptier agents.

Offers come one after the other. Without a pause, the first ones would get all taskgroups of an application. A demand
waits as long as evictions do, while offers that were requested may come (`Turn.shown_at`): a second at most. It
waits only if

- its taskgroups would share an agent: the agents with offers are too few for one each, or have some of the application;
- an agent without offers that suits the demand, and that is expected to offer enough room
  (`offers.ledger.expected`), would take a taskgroup from an agent with at least two more of the application.

So one taskgroup for which an agent without another one of the application is at hand never waits, and neither does
work on a cluster whose other agents are full. An agent that does not offer the expected room in time is not waited for
again, until the agent makes another offer or a taskgroup ends there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from bcs_scheduler.core.placement.turn import Turn
from offers.ledger.table import Ints, Mask
from offers.model import Demand
from offers.resources import amounts_of
from transactions.base import Slot

if TYPE_CHECKING:
    from bcs_scheduler.core.placement.engines.engine import Engine

JUDGED = 256
"""Demands that are judged in one turn; further ones do not wait. Each takes some 0.1 ms among 5,000 agents."""


class Spreading:
    """The demands of one loop that wait for requested offers. Belongs to the thread that owns the state."""

    def __init__(self, turn: Turn, engine: Engine) -> None:
        self._turn, self._engine = turn, engine
        self.waiting: dict[str, None] = {}
        """Ids of the demands that wait."""
        self._judged_at, self._judged = 0.0, 0

    @property
    def until(self) -> float | None:
        """Unix seconds until which the first demand waits at most; None: none waits."""
        return min(map(self._turn.shown_at, self.waiting), default=None)

    @property
    def is_over(self) -> bool:
        """A demand waits no longer."""
        return bool(self.waiting) and (self.until or 0.0) <= self._turn.now

    def release(self) -> list[str]:
        """Ends all waiting, because offers have come or because time is over: the demands are to be judged again."""
        released, self.waiting = list(self.waiting), {}
        for identity in released:
            demand = self._turn.engine.demands.get(identity)
            if demand is not None and self._turn.now >= self._turn.shown_at(identity):
                self._turn.pool.hand.expect_nothing_on(self._away(demand))
        return released

    def judge(self, demands: Iterable[Demand[Slot]]) -> None:
        """Finds the demands among these that wait."""
        if not self._turn.awaits_offers:
            return
        for demand in demands:
            self.waits(demand)

    def waits(self, demand: Demand[Slot]) -> bool:
        """True if the demand waits for offers now."""
        turn = self._turn
        if not turn.is_unshown(demand.id) or not self._engine.spreads():
            return False
        if demand.per_agent or demand.promised or demand.only_host or demand.only_agents:
            return False
        if turn.now != self._judged_at:
            self._judged_at, self._judged = turn.now, 0
        self._judged += 1
        if self._judged > JUDGED or not self._would_share(demand) or demand.id in self._engine.awaiting():
            return False
        self.waiting[demand.id] = None
        return True

    def _would_share(self, demand: Demand[Slot]) -> bool:
        """True if an agent that is expected to offer room would have at least two taskgroups of the application less
        than one of the agents that have offers."""
        pool, needed = self._turn.pool, amounts_of(demand.request)
        pool.table.flush()
        suits = self._suits(demand)
        lines = [line for line, amount in enumerate(needed) if amount]
        free = pool.table.free[lines]
        amounts = np.array([needed[line] for line in lines], dtype=np.int64)[:, None]
        here = np.flatnonzero(pool.table.active & suits & (free >= amounts).all(axis=0))
        counts = self._turn.census.attribute_counts(demand.application, "hostname")
        if len(demand.slots) <= len(here) - len(counts) or not len(here):
            return False
        away = self._away(demand)
        if not (away.any() or pool.hand.expected.unread):
            return False
        present = self._present(counts)
        least = 0 if pool.hand.expected.unread else int(present[away].min())
        most = (free[:, here] // amounts).min(axis=0) if lines else np.full(len(here), len(demand.slots))
        return self._level(present[here], most, len(demand.slots)) >= least + 2

    def _suits(self, demand: Demand[Slot]) -> Mask:
        """The rows of agents that the fixed tests of a demand admit."""
        pool = self._turn.pool
        suits = pool.eligibility(demand.rules, demand.role).ok
        if demand.except_agents:
            suits = suits.copy()
            for row in (row for agent in demand.except_agents for row in pool.rows_of(agent)):
                suits[row.number] = False
        return suits

    def _away(self, demand: Demand[Slot]) -> Mask:
        """The rows of agents without offers that suit a demand, and are expected to offer enough room."""
        pool = self._turn.pool
        expected = pool.hand.expected.fits(amounts_of(demand.request), len(pool.table.rows))
        away: Mask = expected & ~pool.table.active & self._suits(demand)
        return away

    def _present(self, counts: Mapping[str | float, int]) -> Ints:
        """Taskgroups of an application on the host of each row. `counts`: by host name."""
        column = self._turn.pool.table.attribute("hostname")
        by_code = np.zeros(len(column.values) + 1, dtype=np.int64)  # code -1, no value, is the last entry
        for host, number in counts.items():
            code = column.code_of.get(host)
            if code is not None:
                by_code[code] = number
        present: Ints = by_code[column.codes]
        return present

    @staticmethod
    def _level(present: Ints, most: Ints, number: int) -> float:
        """The greatest number of taskgroups of the application on an agent, if so many more are spread evenly over
        agents that have `present` ones and take at most `most` more; infinite if they do not take all."""
        low, high = 0, int(present.max()) + number
        if np.minimum(most, number).sum() < number:
            return inf
        while low < high:
            middle = (low + high) // 2
            if np.clip(middle - present, 0, most).sum() >= number:
                high = middle
            else:
                low = middle + 1
        return low
