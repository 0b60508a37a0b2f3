"""Faults put into the tree of queues on purpose (tests.simulation.mutants); they are looked for in worlds with the
policy `hierarchical`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bcs_scheduler.core.placement.engines import hierarchical
from bcs_scheduler.core.placement.hierarchy import role_tree
from bcs_scheduler.core.placement.revisions import Revisions
from offers.policy.hierarchy import maintenance
from offers.policy.hierarchy.cluster import set_nodes
from offers.policy.hierarchy.configuration.partition import Partition
from offers.policy.hierarchy.gangs import Attempts
from offers.policy.hierarchy.preemption import preemption
from offers.policy.hierarchy.preemption.quota import give_back
from offers.policy.hierarchy.state.limits import Trackers
from offers.policy.hierarchy.state.model import Allocation
from offers.policy.hierarchy.state.queue import Queue
from offers.policy.hierarchy.tree import Tree
from offers.policy.session.decisions import Eviction
from offers.policy.session.model import Job
from store.records import QueueHalt
from tests.simulation import mutantsessions
from transactions.rules.queues import revisions_of


def exceed_maxima(patch: pytest.MonkeyPatch) -> None:
    """The maximum of a queue bounds nothing."""
    patch.setattr(Queue, "exceeded", lambda self, request: False)


def forget_limits(patch: pytest.MonkeyPatch) -> None:
    """No application has a limit of its user."""
    patch.setattr(Trackers, "of", lambda self, leaf, application: ())


def lose_applications(patch: pytest.MonkeyPatch) -> None:
    """A changed configuration makes the tree anew, without its applications, which stay lost."""
    honest = role_tree.RoleTree._set_job

    def hasty(self: role_tree.RoleTree, partition: Partition, halts: tuple[QueueHalt, ...]) -> None:
        self._halts, self._partition = halts, partition
        agents, given, nodes = self._agents, self._given, {node.name: node.total for node in self.tree.nodes}
        self.renew()
        set_nodes(self.tree, nodes)
        self._is_new, self._agents, self._given = False, agents, given

    def set_job(self: role_tree.RoleTree, name: str, job: Job | None) -> None:
        if name not in self._given or name in self.tree.applications:
            honest(self, name, job)

    patch.setattr(role_tree.RoleTree, "change", hasty)
    patch.setattr(role_tree.RoleTree, "_set_job", set_job)


def ignore_halts(patch: pytest.MonkeyPatch) -> None:
    """Halted queues work as others do."""
    patch.setattr(role_tree.RoleTree, "_set_states", lambda self: None)


def admit_the_young(patch: pytest.MonkeyPatch) -> None:
    """A halted queue takes every application."""
    honest = role_tree.RoleTree._as_before_halts

    @contextmanager
    def hasty(self: role_tree.RoleTree, created: float) -> Iterator[None]:
        del created
        with honest(self, 0.0):
            yield

    patch.setattr(role_tree.RoleTree, "_as_before_halts", hasty)


def keep_the_present_tree(patch: pytest.MonkeyPatch) -> None:
    """A leader does not take new revisions over."""
    patch.setattr(hierarchical.Hierarchical, "_change", lambda self: None)


def begin_with_the_oldest(patch: pytest.MonkeyPatch) -> None:
    """The oldest revision counts."""
    patch.setattr(Revisions, "readable", lambda self: next(iter(revisions_of(self._turn.state, self._partition)), None))


def give_guarantees_back(patch: pytest.MonkeyPatch) -> None:
    """A lowered maximum takes guaranteed amounts, too."""
    honest: Callable[[Tree, float], list[Allocation]] = give_back

    def hasty(tree: Tree, now: float) -> list[Allocation]:
        kept = {queue: queue.guaranteed for queue in tree.queues.values()}
        for queue in kept:
            queue.guaranteed = {}
        found = honest(tree, now)
        for queue, guaranteed in kept.items():
            queue.guaranteed = guaranteed
        return found

    patch.setattr(maintenance, "give_back", hasty)
    patch.setattr(hierarchical, "give_back", hasty)


def preempt_guarantees(patch: pytest.MonkeyPatch) -> None:
    """Preemption takes from queues that have no more than their guarantee."""
    honest = preemption._Source.of

    def hasty(*arguments: Any) -> Any:
        found = honest(*arguments)
        return found and found._replace(spares=[])

    patch.setattr(preemption._Source, "of", hasty)
    patch.setattr(preemption, "_leaves_enough", lambda request, spares: True)


def forget_the_sums(patch: pytest.MonkeyPatch) -> None:
    """Amounts of ended taskgroups stay in the figures of parents."""
    honest = Tree.release

    def hasty(self: Tree, application: str, name: str) -> Allocation:
        before = dict(self.root.allocated)
        found = honest(self, application, name)
        self.root.allocated = before
        return found

    patch.setattr(Tree, "release", hasty)


def preempt_for_a_part(patch: pytest.MonkeyPatch) -> None:
    """Each member of a gang preempts by itself."""
    patch.setattr(Attempts, "preempt", lambda *arguments: [])
    honest = Tree.begin
    patch.setattr(Tree, "begin", lambda self, terms: honest(self, terms._replace(lacking={})))


def drop_victims_afterwards(patch: pytest.MonkeyPatch) -> None:
    """The tree chooses victims; the first one is dropped, and the tree does not know it."""
    honest = hierarchical.Hierarchical._maintain

    def hasty(self: hierarchical.Hierarchical, *given: Any) -> tuple[list[Eviction], bool]:
        evictions, is_complete = honest(self, *given)
        return evictions[1:], is_complete

    patch.setattr(hierarchical.Hierarchical, "_maintain", hasty)


PLANTED: tuple[tuple[str, Any, tuple[str, ...], range], ...] = (
    ("exceed maxima", exceed_maxima, ("I52",), range(3, 43)),
    ("forget limits", forget_limits, ("I53",), range(3, 43)),
    ("lose applications", lose_applications, ("I55",), range(2, 42)),
    ("ignore halts", ignore_halts, ("I56",), range(4, 44)),
    ("admit the young", admit_the_young, ("I56",), range(4, 44)),
    ("keep the present tree", keep_the_present_tree, ("I57",), range(1, 41)),
    ("begin with the oldest", begin_with_the_oldest, ("I57",), range(1, 41)),
    ("ignore the budget of victims", mutantsessions.ignore_the_budget, ("I41",), range(53, 93)),
    ("forget the sums", forget_the_sums, ("I55",), range(1, 41)),
)
OF_GUARANTEES: tuple[tuple[str, Any, tuple[str, ...], range], ...] = (
    ("preempt guarantees", preempt_guarantees, ("I54",), range(3, 43)),
    ("preempt for a part", preempt_for_a_part, ("I73",), range(23, 63)),
    ("drop victims afterwards", drop_victims_afterwards, ("I74",), range(1, 41)),
)
"""Looked for in worlds with guarantees."""
