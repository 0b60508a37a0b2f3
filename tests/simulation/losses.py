"""What must hold after a large loss, and when a few tasks run that the store has forgotten.

I58  while a large loss stops replacements, no restart by policy replaces a lost taskgroup; a taskgroup that was never
     launched is not lost
I77  no leader takes a taskgroup that its store has launched for one that is newer than the store
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from store.base import Change
from store.records import Application, Framework, LossHalt, Record, TaskGroup, Transaction
from tests.simulation.violation import Violation
from tests.simulation.world import World

Records = Mapping[tuple[str, str], Record]


class Losses:
    """Follows the batches that become durable. A halt counts from the batch after the one that begins it: units become
    durable in the order in which they were decided."""

    def __init__(self, world: World, durable: Records) -> None:
        self._world, self._durable = world, durable

    def committing(self, changes: Sequence[Change]) -> None:
        """A batch is about to become durable."""
        framework = self._durable.get(("framework", "framework"))
        before = framework.halt if isinstance(framework, Framework) else None
        after = before
        for change in changes:
            if isinstance(change.record, Framework):
                after = change.record.halt
                self._nothing_is_newer(change.record)
        if before is None and after is not None:
            self._world.count("halts of replacements")
        if before is not None and after is not None:
            self._nothing_replaced(changes, after)

    def _nothing_is_newer(self, framework: Framework) -> None:
        if framework.unknown is not None:
            self._world.count("halts for unknown tasks")
            if framework.unknown.newer:
                raise Violation("I77", f"{framework.unknown} although the store is no copy", framework.id)

    def _nothing_replaced(self, changes: Sequence[Change], halt: LossHalt) -> None:
        placed = {
            (group.application_key, group.index)
            for group in (change.record for change in changes)
            if isinstance(group, TaskGroup) and ("taskgroup", group.id) not in self._durable
        }
        removed = {change.key for change in changes if change.kind == "taskgroup" and change.record is None}
        for change in changes:
            restart = change.record
            if not isinstance(restart, Transaction) or not restart.inner or restart.status != "FINISH":
                continue
            group = self._durable.get(("taskgroup", restart.taskgroup))
            if not isinstance(group, TaskGroup) or group.id not in removed:
                continue
            owner = self._durable.get(("application", group.application_key))
            if isinstance(owner, Application) and owner.type == "daemonset":
                continue
            lost = group.unreachable_since or (group.status == "Lost" and (group.started or not group.ended))
            if lost and (group.application_key, group.index) in placed:
                raise Violation("I58", f"{group.id} is replaced during the halt since {halt.since}", group.id)
