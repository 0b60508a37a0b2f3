"""At which time a term begins (pure): the scheduler's own time goes on where the records end.

Hosts do not agree on the time, and a host's clock may have been set while nobody led. A term therefore compares what
it knows: the newest time in the records, the clock of this host, and, where the store has a clock of its own, how much
time has passed by that since the previous leader was last at work. Only time that host and store both saw pass counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from store.records import Record
from store.state import State
from store.times import newest

MARK_EVERY = 30.0
"""Seconds between two writes of `Framework.seen_at`: to within this the end of the previous term is known, also if
nothing happened in it."""
AHEAD_MAX = 86_400.0
"""Seconds by which stored times may be ahead of this host's clock and be believed: a wrong time zone is at most 26 h,
and a host that is set by NTP within a second."""


class Beginning(NamedTuple):
    """`now`: Unix seconds at which the term begins. `back`: seconds by which stored times later than `now` are moved
    back before anything else is done, 0.0 = none is. `host_wrong`: the clock of this host is not believed."""

    now: float
    back: float = 0.0
    host_wrong: bool = False


def beginning(state: State, wall: float, elapsed: float | None) -> Beginning:
    """`wall`: Unix seconds by this host's clock. `elapsed`: seconds since the latest write of the framework record by
    the clock of the store, None = unknown (store.base.Term)."""
    if state.newest > wall + AHEAD_MAX:
        return _far_ahead(state, wall)
    seen = state.framework.seen_at
    now = min(wall, seen + elapsed) if seen and elapsed is not None else wall
    return Beginning(max(now, state.newest))


def _far_ahead(state: State, wall: float) -> Beginning:
    """Either a few times in the records are wrong, or the clock of this host is. If most records had been created by
    then, the host is right."""
    records = state.records()
    created = [at for record in records if (at := getattr(record, "created_at", 0.0))]
    if sum(at > wall + AHEAD_MAX for at in created) * 2 > len(created):
        return Beginning(state.newest, host_wrong=True)
    now = max(wall, _newest_until(records, wall + AHEAD_MAX))
    return Beginning(now, back=state.newest - now)


def _newest_until(records: Iterable[Record], limit: float) -> float:
    return max((at for record in records if (at := newest(record)) <= limit), default=0.0)
