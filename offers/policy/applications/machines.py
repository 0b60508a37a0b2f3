"""State machines as tables: which event takes an object from which state to which one.

A table is the whole machine. `Table.after` gives the next life of an object; the old one stays as it was, so an illegal
event changes nothing, neither here nor elsewhere.

Exception tree:

    OfferError
      IllegalEvent      an event that the table does not allow in the present state
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from offers.errors import OfferError

HISTORY_LINES = 10
"""Number of changes that a life remembers: the latest ones."""


class Change(NamedTuple):
    """One change of state. `at`: Unix seconds."""

    at: float
    event: str
    before: str
    after: str


class Life(NamedTuple):
    """The state of one object and how the object got there. `kind` is the name of its table."""

    kind: str
    key: str
    state: str
    history: tuple[Change, ...] = ()


class IllegalEvent(OfferError):
    """The table of the object has no row for this event in the present state. `life` is unchanged, and has the history
    of the object, oldest change first."""

    def __init__(self, life: Life, event: str) -> None:
        self.life, self.event = life, event
        past = [f"{one.at:.3f} {one.event}: {one.before} to {one.after}" for one in life.history]
        super().__init__("; ".join([f"{life.kind} {life.key}: no event {event} in the state {life.state}", *past]))


class Table:
    """A state machine. `rows` gives the next state for each pair of event and present state."""

    __slots__ = ("initial", "kind", "rows", "states")

    def __init__(self, kind: str, initial: str, rows: Iterable[tuple[str, str, str]]) -> None:
        """`rows`: event, the present states separated by blanks, and the next state; an empty next state: the present
        state stays. Raises ValueError if two rows have the same event and present state."""
        self.kind, self.initial = kind, initial
        table: dict[tuple[str, str], str] = {}
        for event, befores, after in rows:
            for before in befores.split():
                if (event, before) in table:
                    raise ValueError(f"{kind}: two rows for the event {event} in the state {before}")
                table[event, before] = after or before
        self.rows: Mapping[tuple[str, str], str] = table
        self.states = frozenset({initial, *(before for _, before in table), *table.values()})

    def born(self, key: str) -> Life:
        """The life of a new object."""
        return Life(self.kind, key, self.initial)

    def allows(self, life: Life, event: str) -> bool:
        """True if the event is legal in the present state."""
        return (event, life.state) in self.rows

    def after(self, life: Life, event: str, at: float) -> Life:
        """The life after an event; `at` in Unix seconds. Raises IllegalEvent."""
        following = self.rows.get((event, life.state))
        if following is None:
            raise IllegalEvent(life, event)
        history = (*life.history, Change(at, event, life.state, following))[-HISTORY_LINES:]
        return Life(life.kind, life.key, following, history)
