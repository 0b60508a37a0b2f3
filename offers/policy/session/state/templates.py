"""The needs of templates in the form in which sessions compute."""

from __future__ import annotations

from offers.policy.session.columns import LEAST_CPUS, LEAST_MEM
from offers.policy.session.model import Template
from offers.policy.session.snapshot import Snapshot

FLOOR = {"cpus": 10, "mem": 32_000}
"""Requests at or below 0.01 cores and 32 MB, without anything else, are best effort."""


class Need:
    """The room that one task of a template takes. `row`: pairs of dimension and amount above 0."""

    __slots__ = ("best_effort", "number", "ports", "row", "score_cpus", "score_mem", "template")

    def __init__(self, snapshot: Snapshot, template: Template, number: int) -> None:
        request = dict(template.request)
        self.template, self.number = template, number
        self.row = [(snapshot.index[name], amount) for name, amount in template.request if amount > 0]
        self.score_cpus = request.get("cpus") or LEAST_CPUS
        self.score_mem = request.get("mem") or LEAST_MEM
        self.ports = template.ports
        self.best_effort = template.best_effort or all(
            amount <= FLOOR.get(name, 0) for name, amount in template.request
        )


class Needs:
    """The needs of all templates of a snapshot; made when they are first asked for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._by_id: dict[int, Need] = {}
        self._by_number: dict[int, Need] = {}

    def of(self, template: Template) -> Need:
        """The need of a template; one object for equal templates."""
        need = self._by_id.get(id(template))
        if need is None:
            number = self._snapshot.templates[template]
            need = self._by_number.get(number)
            if need is None:
                need = self._by_number[number] = Need(self._snapshot, template, number)
            self._by_id[id(template)] = need
        return need
