"""The agents that may run a version at all: the tests of a version that do not change from taskgroup to taskgroup."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import reduce
from typing import NamedTuple

import numpy as np

from offers.ledger.table import Column, Mask, Row, Table
from offers.rules.constraints import COUNTING, FIXED, Item, Rule, Rules
from offers.rules.terms import Terms

DISABLED = "disabled"
"""Reason of an agent that is cordoned."""
TAINT = "taint"
_REMEMBERED = 512
"""Number of versions whose fixed tests are kept; each takes about 10 bytes per agent."""


class Counted(NamedTuple):
    """A rule that counts: the column it counts over, and the rows whose value it admits at all."""

    rule: Rule
    column: Column
    admitted: Mask


class LiveItem(NamedTuple):
    """An item of the constraints that depends on the present taskgroups."""

    position: int
    always: Mask | None
    """Rows on which a rule that asks only for the agent holds already; None = there is no such rule."""
    counted: tuple[Counted, ...]
    excluding: tuple[Rule, ...]
    elastic: bool
    """True if the item may hold again after it has failed, because GROUPBY admits more as the application grows."""


class Eligibility:
    """The fixed tests of one (rules, role), evaluated for all rows; valid while `statics` is the table's."""

    def __init__(self, table: Table, rules: Rules, role: str) -> None:
        self.statics = table.statics
        self.rules = rules
        self.role = _role_mask(table, role)
        self.enabled = ~_flagged(table, "disabled", lambda row: row.overrides.disabled or None)
        self.available = ~_flagged(table, "maintenance", lambda row: row.unavailable or None)
        self.taints = table.column("taints", lambda row: row.taints)
        self.tolerated = self.taints.where(lambda taints: rules.untolerated(taints) is None)
        self.fixed = {i: _fixed_mask(table, rules.items[i]) for i in rules.fixed}
        self.live = tuple(_live_item(table, i, rules.items[i]) for i in rules.live)
        self.terms = _terms_mask(table, rules.terms) if rules.terms else None
        """Rows on which the terms hold; None = there are none."""
        tests = [self.enabled, self.available, self.tolerated, *self.fixed.values()]
        if self.terms is not None:
            tests.append(self.terms)
        self.ok = reduce(np.logical_and, tests, self.role)
        self.policy: tuple[tuple[str, Mask], ...] = (
            (DISABLED, self.enabled),
            ("maintenance", self.available),
            (TAINT, self.tolerated),
        )
        """Tests of the agent alone, with the name each failure is counted under."""

    def also(self, title: str, ok: Mask) -> Eligibility:
        """These tests and one more, which comes before them."""
        one_more = copy(self)
        one_more.policy = ((title, ok), *self.policy)
        one_more.ok = self.ok & ok
        return one_more


class Eligibilities:
    """The fixed tests of versions, remembered while they stay true."""

    def __init__(self) -> None:
        self._known: dict[tuple[Rules, str], Eligibility] = {}

    def of(self, table: Table, rules: Rules, role: str) -> Eligibility:
        """The fixed tests of these rules for all rows; remembered until facts about agents change."""
        eligibility = self._known.get((rules, role))
        if eligibility is None or eligibility.statics != table.statics:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            eligibility = self._known[rules, role] = Eligibility(table, rules, role)
        return eligibility


def _role_mask(table: Table, role: str) -> Mask:
    return table.column("role", lambda row: row.role).where(lambda value: bool(value == role))


def _flagged(table: Table, title: str, value_of: Callable[[Row], bool | None]) -> Mask:
    return table.column(title, value_of).where(lambda _: True)


def _fixed_mask(table: Table, item: Item) -> Mask:
    """Rows on which one of the rules that ask only for the agent holds."""
    masks = [_read(table, rule).admitted(rule) for rule in item if rule.operator in FIXED]
    return reduce(np.logical_or, masks, np.zeros(len(table.rows), dtype=np.bool_))


def _read(table: Table, rule: Rule) -> Column:
    return table.measured(rule.name) if rule.operator == "GREATER" else table.attribute(rule.name)


def _terms_mask(table: Table, terms: Terms) -> Mask:
    """Rows on which one of the terms holds; a term without expressions never does."""
    mask = np.zeros(len(table.rows), dtype=np.bool_)
    for term in terms:
        if term:
            mask |= reduce(np.logical_and, (table.attribute(e.label).where(e.holds, e.holds(None)) for e in term))
    return mask


def _live_item(table: Table, position: int, item: Item) -> LiveItem:
    counted = []
    for rule in item:
        if rule.operator in COUNTING:
            column = table.attribute(rule.name)
            counted.append(Counted(rule, column, column.admitted(rule)))
    always = _fixed_mask(table, item) if any(rule.operator in FIXED for rule in item) else None
    excluding = tuple(rule for rule in item if rule.operator == "EXCLUDE")
    return LiveItem(position, always, tuple(counted), excluding, any(rule.operator == "GROUPBY" for rule in item))
