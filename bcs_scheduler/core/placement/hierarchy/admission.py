"""The tests of agents that the tree of a role asks for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from bcs_scheduler.core.placement.hierarchy.asks import COUNTED
from bcs_scheduler.core.placement.sessions.agent_tests import AgentTests
from bcs_scheduler.core.placement.sessions.role import SessionInput
from offers.matching.explain import Explainer
from offers.policy.session.columns import Array
from offers.policy.session.model import Template

Admits = Callable[[Template, str], bool]


class Admission:
    """The tests of agents, by the mask that a function makes for a template. Masks are kept."""

    def __init__(self, rank: Mapping[str, int], mask: Callable[[Template], Array]) -> None:
        """`rank`: index of an agent in the masks."""
        self._rank, self._mask = rank, mask
        self._known: dict[Template, Array] = {}

    def __call__(self, template: Template, agent: str) -> bool:
        """True if the agent passes the tests of the template."""
        accepted = self._known.get(template)
        if accepted is None:
            accepted = self._known[template] = self._mask(template)
        rank = self._rank.get(agent)
        return rank is not None and bool(accepted[rank])

    def names(self, template: Template) -> frozenset[str]:
        """The agents that pass the tests of the template."""
        return frozenset(name for name, passed in zip(self._rank, self._mask(template).tolist(), strict=True) if passed)


def frozen(present: Callable[[], Admits]) -> Callable[[Hashable, str], bool]:
    """Judges the conditions of templates for trials that outlive the present look at the snapshot. Each template is
    judged once, by the tests that `present` returns at that moment."""
    known: dict[Template, frozenset[str] | None] = {}

    def admitted(constraint: Hashable, node: str) -> bool:
        if not isinstance(constraint, Template):
            return True
        if constraint not in known:
            admits = present()
            known[constraint] = admits.names(constraint) if isinstance(admits, Admission) else None
        names = known[constraint]
        return names is None or node in names

    return admitted


def admission(found: SessionInput, explainer: Explainer, taken: Sequence[Array] = ()) -> Admission:
    """The tests of the matcher, and the resources that queues do not count. `taken`: amounts by dimension and rank that
    the snapshot has as idle and that are not; empty = there are none."""
    snapshot = found.snapshot
    tests = AgentTests(explainer, found.numbers, found.tests, lambda _: 0)

    def mask(template: Template) -> Array:
        accepted = tests.accepted(template).copy()
        idle: Sequence[Array] = snapshot.columns.mirrors.idle
        total = snapshot.columns.total_arrays
        if taken:
            idle = [there - used for there, used in zip(idle, taken, strict=True)]
        full = (idle[0] <= 0) | (idle[1] <= 0)
        for name, amount in template.request:
            if name not in COUNTED and amount:
                d = snapshot.index[name]
                # Only victims make room on a full agent, and they free the other resources as well.
                accepted &= np.where(full, total[d] >= amount, idle[d] >= amount)
        return accepted

    return Admission(snapshot.rank, mask)
