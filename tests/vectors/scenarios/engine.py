"""A policy engine with one queue that sorts by submission, over nodes with room: the reference engine of gangs.

Asks and allocations are those of the records of the gang. The figures of queue and nodes are their sums: no node gives
more than it has, and the queue stays within its maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from offers.dimensions import Amounts
from offers.policy.amounts import Vector, fits_limit
from offers.policy.applications.gang import Gang
from offers.policy.applications.records import Engine, GangRecord, MemberRecord, PlaceholderRecord, Record, Traits, Way
from offers.policy.applications.tables import PlaceholderState, TaskState

HOLDS = (PlaceholderState.ALLOCATED, PlaceholderState.BOUND, PlaceholderState.RELEASING)
"""States of placeholders with a node."""
HAS_ROOM = (TaskState.ALLOCATED, TaskState.BOUND, TaskState.KILLING)
"""States of tasks with a node."""


class OneQueue:
    """The engine. `most`: the maximum of the queue; a resource that it does not name is not limited."""

    gang: Gang
    """The gang whose asks and allocations count."""

    def __init__(
        self,
        nodes: Mapping[str, Vector],
        most: Vector | None = None,
        by_submission: bool = True,
        suits: Callable[[str, str], bool] | None = None,
    ) -> None:
        self.totals = {name: dict(total) for name, total in nodes.items()}
        self.most, self.by_submission = dict(most or {}), by_submission
        self._suits = suits or (lambda task, node: True)

    def refusal(self, application: str, queue: str, placeholder_ask: Vector) -> str | None:
        if not self.by_submission:
            return f"the queue {queue} does not sort by submission"
        return None if fits_limit(placeholder_ask, self.most) else f"the maximum of {queue} is smaller than the gang"

    def suits(self, application: str, name: str, node: str) -> bool:
        return self._suits(name, node)

    @property
    def pending(self) -> dict[str, tuple[float, Amounts]]:
        """The asks, with their time."""
        gang = self.gang
        asked = [one for one in gang.placeholders.values() if one.life.state == PlaceholderState.ASKED]
        ordinary = [
            one for one in gang.members.values() if one.life.state == TaskState.SCHEDULING and one.way is Way.ORDINARY
        ]
        created = gang.record.metadata.created
        return {one.key: (created, one.request) for one in asked} | {
            one.key: (one.created, one.request) for one in ordinary
        }

    @property
    def allocations(self) -> dict[str, tuple[Amounts, str]]:
        """What has room, with its node."""
        gang = self.gang
        held = {one.key: (one.request, one.node) for one in gang.placeholders.values() if one.life.state in HOLDS}
        placed = [one for one in gang.members.values() if one.life.state in HAS_ROOM and one.node]
        return held | {one.key: (one.request, one.node) for one in placed}

    @property
    def used(self) -> dict[str, int]:
        """The usage of the queue; 0 for a resource of the nodes that is not used."""
        used = {name: 0 for total in self.totals.values() for name in total}
        for request, _ in self.allocations.values():
            for key, amount in request:
                used[key] = used.get(key, 0) + amount
        return used

    @property
    def free(self) -> dict[str, dict[str, int]]:
        """The free room of the nodes."""
        free = {name: dict(total) for name, total in self.totals.items()}
        for request, node in self.allocations.values():
            for key, amount in request:
                free[node][key] = free[node].get(key, 0) - amount
        return free

    def cycle(self, now: float, limit: int | None = None) -> int:
        """Allocates what fits, the oldest ask first, at most `limit` times (None: without limit). Returns how many."""
        done, free, used = 0, self.free, self.used
        for name, (_, request) in sorted(self.pending.items(), key=lambda one: (one[1][0], one[0])):
            room = {key: most - used.get(key, 0) for key, most in self.most.items()}
            suitable = (node for node in sorted(free) if self._suits(name, node))
            node = next((node for node in suitable if all(free[node].get(key, 0) >= n for key, n in request)), None)
            if node is None or not fits_limit(dict(request), room) or done == limit:
                continue
            for key, amount in request:
                free[node][key] = free[node].get(key, 0) - amount
                used[key] = used.get(key, 0) + amount
            assert self.gang.allocated(name, node, now)
            done += 1
        self.check()
        return done

    def check(self) -> None:
        """No node gives more than it has, and the queue not more than its maximum."""
        assert min((amount for node in self.free.values() for amount in node.values()), default=0) >= 0
        assert fits_limit(self.used, self.most)


def records_of(gang: Gang) -> list[Record]:
    """Every record of a gang."""
    return [gang.record, *gang.placeholders.values(), *gang.members.values()]


def restored(records: Iterable[Record], engine: Engine, traits: Traits) -> Gang:
    """The gang of these records."""
    found = list(records)
    (record,) = (one for one in found if isinstance(one, GangRecord))
    holders = [one for one in found if isinstance(one, PlaceholderRecord)]
    members = [one for one in found if isinstance(one, MemberRecord)]
    return Gang(record, engine, traits, holders, members)
