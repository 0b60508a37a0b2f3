"""Worlds in which the two roles have policies of their own (`simulate(..., mixed=True)`).

I65  every role is decided about by the policy of its partition: no other pass knows the role, a role of the policy
     `simple` loses no taskgroup by eviction, an eviction makes room for work of the same partition, and the figures of
     a tree count the roles of its partition

In some of these worlds both roles have a tree of queues. Their operators change one tree at a time.

The rules of sessions and of trees (tests.simulation.sessions, queues, trees) hold for the roles of their policy.
"""

from __future__ import annotations

from dataclasses import replace

from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.options import CoreOptions, RolePartition
from bcs_scheduler.core.placement.engines.hierarchical import Hierarchical
from bcs_scheduler.core.placement.loop import Loop
from bcs_scheduler.core.placement.revisions import read_tree
from offers.model import Demand
from store.records import Record, TaskGroup, Version
from store.state.unit_of_work import Unit
from tests.simulation.driver import Term
from tests.simulation.queues import QueueOperators, beneficiary_of
from tests.simulation.sessions import POLICY
from tests.simulation.trees import TreeOperators, calm
from tests.simulation.violation import Violation
from tests.simulation.world import World
from transactions.base import Slot

Records = dict[tuple[str, str], Record]
KINDS = (("session", "hierarchical"), ("hierarchical", "simple"), ("simple", "session"))
"""Policies of the role `batch` and of the others, by the seed."""
TREES = ("hierarchical", "hierarchical")
EVERY_TREES = 4
"""Of so many seeds, one has two trees."""


def with_partitions(options: CoreOptions, seed: int) -> CoreOptions:
    """The options with the policies of a seed."""
    batch, others = TREES if seed % EVERY_TREES == 0 else KINDS[seed % len(KINDS)]
    name = "batch" if batch == others else ""
    return replace(options, partitions=(_part("batch", batch, name), _part("*", others)), session_period=0.5)


def _part(role: str, kind: str, name: str = "") -> RolePartition:
    if kind == "hierarchical":
        text = calm(name)
        return RolePartition((role,), hierarchy=read_tree(text), hierarchy_document=text, name=name)
    return RolePartition((role,), policy=POLICY if kind == "session" else None)


class MixedOperators(QueueOperators):
    """Operators of the queues of sessions and of the trees, as far as the policies have them."""

    def __init__(self, world: World, durable: Records, options: CoreOptions) -> None:
        super().__init__(world, durable)
        kinds = {part.kind for part in options.parts()}
        self._operators: list[QueueOperators] = []
        if "session" in kinds:
            self._operators.append(QueueOperators(world, durable))
        for part in options.parts():
            if part.kind == "hierarchical":
                self._operators.append(TreeOperators(world, durable, part.name))

    def ask(self, token: int, dry: bool) -> requests.Request:
        """One command at random."""
        return self.world.pick(self._operators).ask(token, dry)

    def repair(self, token: int) -> requests.Request | None:
        """The next change towards no limits; None if nothing is to be changed."""
        found = (operators.repair(token) for operators in self._operators)
        return next((command for command in found if command is not None), None)


class PartitionRules:
    """Looks at nothing in worlds with one partition."""

    def __init__(self, world: World, options: CoreOptions) -> None:
        self.world, self._options = world, options
        self._asked = len(options.parts()) > 1

    def decided(self, before: Records, unit: Unit) -> None:
        """Judges the evictions of one unit."""
        if not self._asked:
            return
        for change in unit.changes:
            old, new = before.get((change.kind, change.key)), change.record
            if not isinstance(new, TaskGroup) or new.end_cause != "Evicted" or new.ended:
                continue
            if isinstance(old, TaskGroup) and old.end_cause != "Evicted":
                fresh = {(one.kind, one.key): one.record for one in unit.changes if one.record is not None}
                self._evicted({**before, **fresh}, old)

    def _evicted(self, records: Records, group: TaskGroup) -> None:
        part = self._options.part_of(group.role or "*")
        self.world.count(f"taskgroups evicted by the policy {part.kind} of a partition")
        if part.kind == "simple":
            raise Violation("I65", f"{group.id} of role {group.role} is evicted, and its policy evicts none", group.id)
        beneficiary = beneficiary_of(records, group)
        wanted = _roles(records, beneficiary) if beneficiary else {group.role}
        if all(self._options.part_of(role or "*") is not part for role in wanted):
            words = f"{group.id} of role {group.role} is evicted for {beneficiary} of the roles {sorted(wanted)}"
            raise Violation("I65", words, group.id, beneficiary)

    def turned(self, term: Term) -> None:
        """Judges the roles that the passes know."""
        if not self._asked:
            return
        placing, options = term.core._offer_manager.placing, self._options
        for part, one in zip(options.parts(), placing.loops, strict=True):
            known: list[str] = []
            if isinstance(one.engine, Hierarchical):
                known += one.engine.trees.roles
            known += [demand.role for demand in term.core.turn_context.engine.demands.values() if _waits(one, demand)]
            foreign = [role for role in known if options.part_of(role) is not part]
            if foreign:
                raise Violation("I65", f"the policy {part.kind} of {part.roles} decides about role {foreign[0]}")
            if isinstance(one.engine, Hierarchical):
                self._figures_are_own(term, part)
            self.world.count(f"turns of a partition with the policy {part.kind}")
        if all(part.hierarchy is not None for part in options.parts()):
            self.world.count("turns with two trees")

    def _figures_are_own(self, term: Term, part: RolePartition) -> None:
        """The taskgroups that wait and those that hold room are those of the roles of the partition."""
        turn = term.core.turn_context
        tree = turn.queues.tree(part.title)
        root = next((queue for queue in tree.queues if queue.name == "root"), None) if tree is not None else None
        waiting = sum(number for (role, _), number in turn.engine.wanted.items() if self._options.part_of(role) is part)
        shown = sum(root.pending.values()) if root is not None else 0
        if root is not None and shown != waiting:
            raise Violation("I65", f"{shown} taskgroups wait in partition {part.title}, of its roles {waiting}")


def _waits(placing: Loop, demand: Demand[Slot]) -> bool:
    return placing._untried.holds(demand)


def _roles(records: Records, application: str) -> set[str]:
    """The roles of the versions and taskgroups of an application."""
    return {
        one.role
        for one in records.values()
        if isinstance(one, Version | TaskGroup) and one.application_key == application
    }
