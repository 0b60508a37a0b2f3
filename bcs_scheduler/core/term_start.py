"""The time at which a term begins (pure): the time of the scheduler continues from the newest time in the records.

Hosts do not agree on the time, and the clock of a host may have been set while no scheduler led. A term therefore
compares the newest time in the records, the clock of this host, and, where the store has a clock of its own, the time
by that clock since the previous leader was last at work. Only time that passed by both clocks, of host and store,
counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from store.encoding.times import newest
from store.ids import nanoseconds_of
from store.records import IdGap, Record
from store.state import State

MARK_EVERY = 30.0
"""Seconds between two writes of `Framework.seen_at`: the precision with which the end of a term without other writes is
known."""
AHEAD_MAX = 86_400.0
"""Seconds by which stored times may be ahead of this host's clock and be believed: a wrong time zone is at most 26 h,
and a host that is set by NTP within a second."""

SLACK = 1_000_000
"""Nanoseconds by which ids may be ahead of the times in the records: many ids of one turn count up from its time."""
MOST_GAPS = 8
"""Spans without a leader that are kept: the longest."""


class TermStart(NamedTuple):
    """The times of the start of a term. `now`: Unix seconds at which the term begins. `ahead`: seconds by which stored
    times later than `now` are moved back before anything else is done; 0.0 = they are not moved. `host_wrong`: the
    clock of this host is not trusted."""

    now: float
    ahead: float = 0.0
    host_wrong: bool = False


def start_of_term(state: State, wall: float, elapsed: float | None) -> TermStart:
    """Determines the time of the start of a term. `wall`: Unix seconds by this host's clock. `elapsed`: seconds since
    the latest write of the framework record by the clock of the store; None = unknown (store.base.Term)."""
    if state.newest > wall + AHEAD_MAX:
        return _far_ahead(state, wall)
    seen = state.framework.seen_at
    now = min(wall, seen + elapsed) if seen and elapsed is not None else wall
    return TermStart(max(now, state.newest))


def _far_ahead(state: State, wall: float) -> TermStart:
    """Either a few times in the records are wrong, or the clock of this host is. If most records had been created by
    then, the host is right."""
    records = state.records()
    created = [at for record in records if (at := getattr(record, "created_at", 0.0))]
    if sum(at > wall + AHEAD_MAX for at in created) * 2 > len(created):
        return TermStart(state.newest, host_wrong=True)
    now = max(wall, _newest_until(records, wall + AHEAD_MAX))
    return TermStart(now, ahead=state.newest - now)


def _newest_until(records: Iterable[Record], limit: float) -> float:
    return max((at for record in records if (at := newest(record)) <= limit), default=0.0)


def highest_id(state: State) -> int:
    """The greatest nanosecond used in any known id: ids made from now on are greater (never reused)."""
    tables = (state.taskgroups, state.transactions, state.commands, state.messages)
    numbers = [nanoseconds_of(identity) for table in tables for identity in table]
    numbers += [int(a.version) for a in state.applications.values() if a.version.isdigit()]
    return max(numbers, default=0)


def mark_of(state: State) -> int:
    """The mark of the store: the Unix nanoseconds of its newest id or time; 0 for an empty store. No taskgroup of its
    leaders is newer, because every launch is stored before it leaves, and so are the events about its end."""
    return max(highest_id(state), int(state.newest * 1e9))


def with_gap(gaps: Sequence[IdGap], mark: int, began: int) -> tuple[IdGap, ...]:
    """The spans without a leader, with the one that a new term ends. `mark`: as `mark_of`; `began`: Unix nanoseconds
    at which the term begins."""
    if began - mark <= 2 * SLACK:
        return tuple(gaps)
    longest = sorted((*gaps, IdGap(after=mark, until=began)), key=lambda gap: gap.after - gap.until)[:MOST_GAPS]
    return tuple(sorted(longest, key=lambda gap: gap.after))


def is_from_gap(nanoseconds: int, gaps: Iterable[IdGap]) -> bool:
    """True if an id with this number was made while no leader of this store was at work."""
    return any(gap.after + SLACK < nanoseconds < gap.until - SLACK for gap in gaps)
