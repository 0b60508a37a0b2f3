"""Which agents may run a version at all: everything about it that does not change from taskgroup to taskgroup."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import numpy as np

from offers.constraints import COUNTING, FIXED, Item, Rule, Rules
from offers.table import Column, Mask, Row, Table


class Counted(NamedTuple):
    """A rule that counts: the column it counts over, and the rows whose value it admits at all."""

    rule: Rule
    column: Column
    admitted: Mask


class LiveItem(NamedTuple):
    """An item of the constraints whose truth depends on what runs."""

    position: int
    always: Mask | None
    """Rows on which a rule that asks only for the agent holds already; None = there is no such rule."""
    counted: tuple[Counted, ...]
    excluding: tuple[Rule, ...]
    elastic: bool
    """It may hold again after it has failed, because GROUPBY admits more as the application grows."""


class Eligibility:
    """The fixed tests of one (rules, role), evaluated for all rows; valid while `statics` is the table's."""

    def __init__(self, table: Table, rules: Rules, role: str) -> None:
        self.statics = table.statics
        self.rules = rules
        self.role = _role_mask(table, role)
        self.enabled = ~_flagged(table, "disabled", lambda row: row.decoration.disabled or None)
        self.available = ~_flagged(table, "maintenance", lambda row: row.unavailable or None)
        self.taints = table.column("taints", lambda row: row.taints)
        self.tolerated = self.taints.where(lambda taints: rules.untolerated(taints) is None)
        self.fixed = {i: _fixed_mask(table, rules.items[i]) for i in rules.fixed}
        self.live = tuple(_live_item(table, i, rules.items[i]) for i in rules.live)
        tests = (self.enabled, self.available, self.tolerated, *self.fixed.values())
        self.ok = reduce(np.logical_and, tests, self.role)


def _role_mask(table: Table, role: str) -> Mask:
    return table.column("role", lambda row: row.role).where(lambda value: bool(value == role))


def _flagged(table: Table, title: str, value_of: Callable[[Row], bool | None]) -> Mask:
    return table.column(title, value_of).where(lambda _: True)


def _fixed_mask(table: Table, item: Item) -> Mask:
    """Rows on which one of the rules that ask only for the agent holds."""
    masks = [table.attribute(rule.name).admitted(rule) for rule in item if rule.operator in FIXED]
    return reduce(np.logical_or, masks, np.zeros(len(table.rows), dtype=np.bool_))


def _live_item(table: Table, position: int, item: Item) -> LiveItem:
    counted = []
    for rule in item:
        if rule.operator in COUNTING:
            column = table.attribute(rule.name)
            counted.append(Counted(rule, column, column.admitted(rule)))
    always = _fixed_mask(table, item) if any(rule.operator in FIXED for rule in item) else None
    excluding = tuple(rule for rule in item if rule.operator == "EXCLUDE")
    return LiveItem(position, always, tuple(counted), excluding, any(rule.operator == "GROUPBY" for rule in item))
