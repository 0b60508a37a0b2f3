"""Faults put into partitions of roles on purpose (tests.simulation.mutants); they are looked for in worlds in which
each role has a policy of its own."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.placement.loop import Covers, Loop
from bcs_scheduler.core.placement.partitions import Placing
from bcs_scheduler.core.placement.queue_accounts import QueueAccounts
from bcs_scheduler.core.placement.revisions import Revisions
from bcs_scheduler.core.requests.kinds import trees


def place_without_the_tree(patch: pytest.MonkeyPatch) -> None:
    """The policy `simple` decides about the roles of a tree of queues."""
    honest = Placing._consider

    def hasty(self: Placing, identities: list[str]) -> None:
        demands, kinds = self._turn.engine.demands, [part.kind for part in self._parts]
        taken = [
            one for one in identities if one in demands and kinds[self._number_of(demands[one].role)] == "hierarchical"
        ]
        if "simple" in kinds:
            self.loops[kinds.index("simple")].consider(taken)
            identities = [one for one in identities if one not in set(taken)]
        honest(self, identities)

    patch.setattr(Placing, "_consider", hasty)


def decide_about_every_role(patch: pytest.MonkeyPatch) -> None:
    """Sessions and trees decide about the roles of all partitions."""
    honest = Placing._covers

    def hasty(self: Placing, number: int) -> Covers:
        return honest(self, number) if self._parts[number].kind == "simple" else lambda role: True

    patch.setattr(Placing, "_covers", hasty)


def evict_in_every_role(patch: pytest.MonkeyPatch) -> None:
    """Sessions look at the demands of all roles, whatever their policy is."""
    patch.setattr(
        Loop,
        "_deciding",
        lambda self, role="": [
            demand
            for demand in self._turn.engine.demands.values()
            if not (demand.per_agent or demand.promised) and role in ("", demand.role)
        ],
    )


def change_the_other_tree(patch: pytest.MonkeyPatch) -> None:
    """A change of one tree is applied to the tree of the other partition."""
    patch.setattr(trees, "chosen_tree", lambda names, wanted: sorted(names)[0 if wanted != sorted(names)[0] else -1])


def count_work_of_other_trees(patch: pytest.MonkeyPatch) -> None:
    """The figures of a tree count the work that waits in all partitions."""
    honest = QueueAccounts._waiting
    patch.setattr(QueueAccounts, "_waiting", lambda self, covers: honest(self, lambda role: True))


def share_the_stored_tree(patch: pytest.MonkeyPatch) -> None:
    """The newest revision of any partition counts in all of them."""
    patch.setattr(
        Revisions,
        "readable",
        lambda self: max(self._turn.state.queue_trees.values(), key=lambda tree: tree.number, default=None),
    )


PLANTED: tuple[tuple[str, Any, tuple[str, ...], range], ...] = (
    ("place without the tree", place_without_the_tree, ("I52", "I53", "I56"), range(22, 73, 3)),
    ("decide about every role", decide_about_every_role, ("I65",), range(1, 41)),
    ("evict in every role", evict_in_every_role, ("I65",), range(1, 41)),
    ("change the other tree", change_the_other_tree, ("I57",), range(4, 44, 4)),
    ("count work of other trees", count_work_of_other_trees, ("I65",), range(4, 44, 4)),
    ("share the stored tree", share_the_stored_tree, ("I57",), range(4, 44, 4)),
)
