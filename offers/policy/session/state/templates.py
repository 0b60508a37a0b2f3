"""The needs of templates in the form in which sessions compute."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from offers.policy.session.model import Template

if TYPE_CHECKING:
    from offers.policy.session.snapshot import Snapshot

MOST_SPARE, SPARE = 1024, 4
"""Equal templates that are other objects are known up to so many, and so many times the number of templates."""
FLOOR_CORES, FLOOR_MB = Fraction(1, 100), 32
"""Requests at or below these cores and this memory, without anything else, are best effort."""


class Need:
    """The room that one task of a template takes. `row`: pairs of dimension and amount above 0."""

    __slots__ = ("best_effort", "number", "ports", "row", "score_cpus", "score_mem", "template")

    def __init__(self, snapshot: Snapshot, template: Template, number: int, floor: Mapping[str, int]) -> None:
        """`floor`: the greatest amounts of a task of best effort, by dimension."""
        self.template, self.number = template, number
        self.row = [(snapshot.index[name], amount) for name, amount in template.request if amount > 0]
        self.score_cpus, self.score_mem = snapshot.scored.of(template.request)
        self.ports = template.ports
        self.best_effort = template.best_effort or all(
            amount <= floor.get(name, 0) for name, amount in template.request
        )


class Needs:
    """The needs of the templates of a snapshot, from session to session; made when they are first asked for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot, units, scored = snapshot, snapshot.units, snapshot.scored
        self._floor = {
            scored.cpu: units.at_most(scored.cpu, FLOOR_CORES),
            scored.memory: units.at_most(scored.memory, FLOOR_MB),
        }
        self._by_id: dict[int, tuple[Template, Need]] = {}
        """The needs by identity of a template, with this template, which so keeps its identity."""
        self._by_number: dict[int, Need] = {}

    def of(self, template: Template) -> Need:
        """The need of a template; one object for equal templates."""
        known = self._by_id.get(id(template))
        if known is not None and known[1].number in self._by_number:
            return known[1]
        templates = self._snapshot.templates
        number = templates[template]
        need = self._by_number.get(number)
        if need is None:
            need = self._by_number[number] = Need(self._snapshot, template, number, self._floor)
        if len(self._by_id) > MOST_SPARE + SPARE * len(templates):
            self._by_id.clear()
        self._by_id[id(template)] = (template, need)
        return need

    def forget(self, number: int) -> None:
        """The template of a number is not used any more."""
        self._by_number.pop(number, None)
