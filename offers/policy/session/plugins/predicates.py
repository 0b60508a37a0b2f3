"""The plug-in predicates: the conditions of a task for an agent, apart from room. Cheap tests come first.

Arguments of the form ``predicate.MemoryPressureEnable`` turn on the refusal of agents that run short of something.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from offers.policy.session.columns import Array
from offers.policy.session.model import Agent, Template
from offers.policy.session.plugins.affinity import Neighbours
from offers.policy.session.plugins.interface import Argument, Feasibility, Functions
from offers.policy.session.state.templates import Need
from offers.rules.taints import untolerated
from offers.rules.terms import NAME, hold

if TYPE_CHECKING:
    from offers.policy.session.session import Session

name = "predicates"
arguments: Mapping[str, Argument] = {
    "predicate.MemoryPressureEnable": Argument("boolean", False),
    "predicate.DiskPressureEnable": Argument("boolean", False),
    "predicate.PIDPressureEnable": Argument("boolean", False),
}
_PRESSURES = {
    "memory": ("predicate.MemoryPressureEnable", "MemoryPressure"),
    "disk": ("predicate.DiskPressureEnable", "DiskPressure"),
    "pid": ("predicate.PIDPressureEnable", "PIDPressure"),
}

TOO_MANY_TASKS, NOT_READY, UNSCHEDULABLE = "TooManyTasks", "NotReady", "Unschedulable"
SELECTOR, TAINT, PORTS = "SelectorMismatch", "TaintNotTolerated", "PortInUse"
AFFINITY = "AffinityMismatch"


def open(session: Session, arguments: Mapping[str, Any]) -> Functions:
    """See `Plugin.open`."""
    checked = {pressure: reason for pressure, (argument, reason) in _PRESSURES.items() if arguments[argument]}
    return Functions(feasibility=Predicates(session, checked).feasibility)


class Predicates:
    """The tests of one session."""

    def __init__(self, session: Session, pressures: Mapping[str, str]) -> None:
        self._session = session
        self._table = session.agents
        self._pressures = pressures
        self._masks: dict[object, Array] = {}
        self._special = session.snapshot.columns.special

    def feasibility(self, need: Need) -> Feasibility:
        """The tests for one template."""
        template, table = need.template, self._table
        static = self._static(template)
        tests: list[Callable[[int], bool]] = []
        limits, count = table.max_tasks, table.count
        if table.limited:
            tests.append(lambda rank: count[rank] < limits[rank])
        if need.ports:
            tests.append(lambda rank: table.ports_free(rank, need.ports))
        neighbours = Neighbours.required(self._session, template)
        if neighbours is not None:
            tests.append(neighbours.accepts)

        def why(rank: int) -> str | None:
            if count[rank] >= limits[rank]:
                return TOO_MANY_TASKS
            reason = self._refusal(template, table.agents[rank])
            if reason is not None:
                return reason
            if need.ports and not table.ports_free(rank, need.ports):
                return PORTS
            return AFFINITY if neighbours is not None and not neighbours.accepts(rank) else None

        if not tests:
            return Feasibility(static, why)
        dynamic = tests[0] if len(tests) == 1 else lambda rank: all(test(rank) for test in tests)
        if tests == tests[:1] and table.limited:
            return Feasibility(
                static, why, dynamic, lambda: table.arrays().count < table.snapshot.columns.max_tasks_array
            )
        ranks = range(len(table))
        return Feasibility(
            static,
            why,
            dynamic,
            lambda: np.fromiter((dynamic(rank) for rank in ranks), dtype=bool, count=len(ranks)),
            volatile=neighbours is not None,
        )

    def _static(self, template: Template) -> Array:
        key = (template.selector, template.tolerations if self._special else ())
        mask = self._masks.get(key)
        if mask is None:
            agents, rank = self._table.agents, self._session.snapshot.rank
            mask = np.ones(len(agents), dtype=bool)
            for judged in range(len(agents)) if template.selector else map(rank.__getitem__, self._special):
                mask[judged] = self._refusal(template, agents[judged]) is None
            self._masks[key] = mask
        return mask

    def _refusal(self, template: Template, agent: Agent) -> str | None:
        if not agent.ready:
            return NOT_READY
        if not agent.schedulable:
            return UNSCHEDULABLE
        if template.selector and not hold(template.selector, {NAME: agent.name, **agent.attributes}):
            return SELECTOR
        if agent.taints and untolerated(agent.taints, template.tolerations) is not None:
            return TAINT
        if self._pressures and agent.pressure:
            for pressure, reason in self._pressures.items():
                if pressure in agent.pressure:
                    return reason
        return None
