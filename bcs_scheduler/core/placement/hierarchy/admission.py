"""The tests of agents that the tree of a role asks for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

import numpy as np

from bcs_scheduler.core.placement.hierarchy.asks import Counted
from bcs_scheduler.core.placement.snapshots.agent_tests import AgentTests
from bcs_scheduler.core.placement.snapshots.role import RoleInput
from offers.matching.explain import Explainer
from offers.policy.session.columns import Array
from offers.policy.session.model import Template

Admits = Callable[[Template, str], bool]


class Admission:
    """The tests of agents, by the mask that a function makes for a template. Masks are kept."""

    def __init__(
        self,
        rank: Mapping[str, int],
        mask: Callable[[Template, Collection[str]], Array],
        counted: Callable[[], Collection[str]],
    ) -> None:
        """`rank`: index of an agent in the masks. `mask`: makes the mask of a template without the resources of some
        dimensions; without those that `counted` returns, for `__call__`."""
        self._rank, self._mask, self._counted = rank, mask, counted
        self._known: dict[Template, Array] = {}

    def __call__(self, template: Template, agent: str) -> bool:
        """True if the agent passes the tests of the template."""
        accepted = self._known.get(template)
        if accepted is None:
            accepted = self._known[template] = self._mask(template, self._counted())
        rank = self._rank.get(agent)
        return rank is not None and bool(accepted[rank])

    def names(self, template: Template, counted: Collection[str]) -> frozenset[str]:
        """The agents that pass the tests of the template. `counted`: the dimensions that are tested elsewhere."""
        mask = self._mask(template, counted)
        return frozenset(name for name, passed in zip(self._rank, mask.tolist(), strict=True) if passed)


def frozen(present: Callable[[], Admits | None], counted: Collection[str]) -> Callable[[Hashable, str], bool]:
    """Judges the conditions of templates for trials that outlive the present look at the snapshot. Each template is
    judged once, by the tests that `present` returns at that moment. `counted`: the dimensions that the tree of the
    trial counts."""
    known: dict[Template, frozenset[str] | None] = {}

    def admitted(constraint: Hashable, node: str) -> bool:
        if not isinstance(constraint, Template):
            return True
        if constraint not in known:
            admits = present()
            known[constraint] = admits.names(constraint, counted) if isinstance(admits, Admission) else None
        names = known[constraint]
        return names is None or node in names

    return admitted


def admission(
    inputs: RoleInput, explainer: Explainer, counted: Callable[[], Counted], taken: Sequence[Array] = ()
) -> Admission:
    """The tests of the matcher, and the resources that queues do not count. `counted`: returns those that they count.
    `taken`: amounts by dimension and rank that the snapshot has as idle and that are not; empty = there are none."""
    snapshot = inputs.snapshot
    tests = AgentTests(explainer, inputs.numbers, inputs.tests, lambda _: 0)

    def mask(template: Template, elsewhere: Collection[str]) -> Array:
        accepted = tests.accepted(template).copy()
        idle: Sequence[Array] = snapshot.columns.mirrors.idle
        total = snapshot.columns.total_arrays
        if taken:
            idle = [there - used for there, used in zip(idle, taken, strict=True)]
        full = (idle[0] <= 0) | (idle[1] <= 0)
        for name, amount in template.request:
            if name not in elsewhere and amount:
                d = snapshot.index[name]
                # Only victims make room on a full agent, and they free the other resources as well.
                accepted &= np.where(full, total[d] >= amount, idle[d] >= amount)
        return accepted

    return Admission(snapshot.rank, mask, lambda: counted().by_dimension.keys())
