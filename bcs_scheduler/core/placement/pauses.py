"""Pauses of evictions that have not helped.

An eviction helps if its beneficiary starts a taskgroup. If the room of the victims is free, and the beneficiary starts
nothing within `nominationSeconds` although it still waits, the pair of the beneficiary and of each victim's application
makes a pause: nothing of that application is ended for the beneficiary meanwhile. The first pause takes `FIRST`; each
further one of the pair twice as long, up to `LONGEST`. An eviction that helps ends the count.

The pauses end with the term: a new leader may try once more. Evictions of queues above a lowered maximum have no
beneficiary, and make no pause.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bcs_scheduler.core.placement.source import Tenant
from bcs_scheduler.core.placement.turn import Turn

FIRST, LONGEST = 300.0, 3600.0
"""Seconds of the first pause of a pair, and of the longest."""
DOUBLED = 10
"""Repetitions after which a pause is the longest: greater powers exceed numbers after some weeks."""
MOST_PAIRS = 4096
"""Pairs that are remembered; the oldest leave first."""
MOST_AWAITED = 1024
"""Groups of evictions that are followed; the oldest leave first."""
JUDGE_SECONDS = 1.0
"""Seconds between two looks at the evictions that are followed."""

Pair = tuple[str, str]
"""The keys of the beneficiary and of the application that loses taskgroups."""


class _Awaited:
    """Evictions that were decided together for a beneficiary."""

    def __init__(self, beneficiary: str, at: float) -> None:
        self.beneficiary, self.at = beneficiary, at
        self.victims: dict[str, Tenant] = {}
        """The victims by the id of the taskgroup, as they were when their end was decided."""
        self.free_at: float | None = None
        """Unix seconds at which all victims had ended, and their room could be offered; None: not yet."""


class _Pause(NamedTuple):
    """`until`: Unix seconds. `number`: pauses of the pair so far."""

    until: float
    number: int


class Pauses:
    """Belongs to the thread that owns the state."""

    def __init__(self, turn: Turn, patience: float) -> None:
        """`patience`: seconds from the moment when the room is free until the beneficiary must have started."""
        self._turn, self._patience = turn, patience
        self._awaited: list[_Awaited] = []
        self._pairs: dict[Pair, _Pause] = {}
        self._looked_at = 0.0

    def evicted(self, beneficiary: str, victims: Iterable[Tenant], at: float) -> None:
        """Units are being ended for an application, given by its key, since a moment (Unix seconds)."""
        awaited = _Awaited(beneficiary, at)
        awaited.victims.update((victim.unit, victim) for victim in victims)
        if awaited.victims:
            self._awaited.append(awaited)
            del self._awaited[:-MOST_AWAITED]

    def step(self) -> None:
        """Begins the pauses that are due."""
        now = self._turn.now
        if now < self._looked_at + JUDGE_SECONDS:
            return
        self._looked_at = now
        kept: list[_Awaited] = []
        waiting: frozenset[str] | None = None
        for awaited in self._awaited:
            if awaited.free_at is None and all(map(self._has_left, awaited.victims.values())):
                awaited.free_at = now
            if awaited.free_at is None or now < awaited.free_at + self._patience:
                kept.append(awaited)
            else:
                waiting = waiting or frozenset(application for _, application in self._turn.engine.wanted)
                self._judge(awaited, waits=awaited.beneficiary in waiting)
        self._awaited = kept

    def present(self) -> Mapping[str, Mapping[str, float]]:
        """The pauses that last: by beneficiary, the applications of which nothing is ended for it, with the end of the
        pause in Unix seconds. A pair whose eviction has not helped so far also pauses from the moment when the promise
        of the room is over until the eviction is judged, `FIRST` at most: otherwise one more would be ended in
        between."""
        now, pauses = self._turn.now, defaultdict[str, dict[str, float]](dict)
        for awaited in self._awaited:
            until = awaited.at + self._patience + FIRST
            if awaited.at + self._patience <= now < until and not self._has_helped(awaited):
                pauses[awaited.beneficiary].update({victim.application: until for victim in awaited.victims.values()})
        for (beneficiary, victim), pause in self._pairs.items():
            if pause.until > now:
                pauses[beneficiary][victim] = pause.until
        return pauses

    def _judge(self, awaited: _Awaited, *, waits: bool) -> None:
        """The time of a beneficiary is over. `waits`: it wants places."""
        turn = self._turn
        pairs = dict.fromkeys((awaited.beneficiary, victim.application) for victim in awaited.victims.values())
        if self._has_helped(awaited):
            for pair in pairs:
                self._pairs.pop(pair, None)
            return
        if not waits:
            return
        for pair in pairs:
            number = before.number + 1 if (before := self._pairs.pop(pair, None)) is not None else 1
            seconds = min(FIRST * 2.0 ** min(number - 1, DOUBLED), LONGEST)
            self._pairs[pair] = _Pause(turn.now + seconds, number)
        while len(self._pairs) > MOST_PAIRS:
            del self._pairs[next(iter(self._pairs))]

    def _has_helped(self, awaited: _Awaited) -> bool:
        return self._turn.source.has_started(awaited.beneficiary, awaited.at)

    def _has_left(self, victim: Tenant) -> bool:
        """True if a victim has ended, and an offer could show its room."""
        pool = self._turn.pool
        return self._turn.source.has_ended(victim.unit) and not any(
            pool.hand.coming.is_awaited(row.site) for row in pool.rows_of(victim.agent)
        )
