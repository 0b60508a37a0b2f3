"""The rest of a decision that continues in the next turn, while nothing but its own placements has changed.

The placements of a portion are allocations of the tree already. As long as nothing else has changed, neither the
snapshot nor the tree follows the records between two portions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bcs_scheduler.core.placement.sessions.chosen import Chosen
from bcs_scheduler.core.placement.sessions.held import request_of
from bcs_scheduler.core.placement.sessions.pending import demand_of
from bcs_scheduler.core.placement.sessions.role import SessionInput
from bcs_scheduler.core.placement.sessions.snapshots import Snapshots
from offers.model import Demand, Placement
from offers.policy.session.columns import Array
from transactions.base import Slot


class Continuation(NamedTuple):
    """The rest of a decision about one role."""

    found: SessionInput
    """The input of the first portion; the gangs that have found their places since then lack nothing."""
    demands: Sequence[Demand[Slot]]
    """The demands that are left, as they were after the latest portion."""
    taken: Sequence[Array]
    """Amounts of the placements of this decision, by dimension and rank of the agent."""

    def holds(self, role: str, demands: Sequence[Demand[Slot]], snapshots: Snapshots) -> bool:
        """True if the demands are the same, and nothing has changed but the placements of this decision."""
        if len(demands) != len(self.demands):
            return False
        if any(now is not before for now, before in zip(demands, self.demands, strict=True)):
            return False
        return snapshots.unchanged(role)


def continuation(
    before: Continuation | None, chosen: Chosen, placements: Sequence[Placement[Slot]], left: Sequence[Demand[Slot]]
) -> Continuation | None:
    """The rest of a decision after a portion; None if the placements are not those that were chosen, or if constraints
    count them. `before`: the same after the portion before; None after the first one. `left`: the demands that are
    left."""
    if any(demand.rules.live for demand in chosen.demands.values()):
        return None
    found, binds = chosen.found, chosen.decisions.binds
    wanted = Counter((demand_of(bind.task), bind.agent) for bind in binds)
    if wanted != Counter((placement.demand, placement.agent_id) for placement in placements):
        return None
    placed = {bind.job for bind in binds}
    missing = {name: number for name, number in found.missing.items() if name not in placed}
    if before is None:
        taken = [np.zeros(len(found.snapshot.agents), dtype=np.int64) for _ in found.snapshot.dimensions]
    else:
        taken = list(before.taken)
    _take(taken, chosen, placements)
    return Continuation(found._replace(missing=missing), left, taken)


def _take(taken: Sequence[Array], chosen: Chosen, placements: Iterable[Placement[Slot]]) -> None:
    """Adds the amounts of placements."""
    snapshot = chosen.found.snapshot
    ranks: dict[str, list[int]] = defaultdict(list)
    for placement in placements:
        ranks[placement.demand].append(snapshot.rank[placement.agent_id])
    for identity, of_demand in ranks.items():
        request = chosen.demands[identity].request
        for name, amount in request_of(request, request.extended):
            np.add.at(taken[snapshot.index[name]], of_demand, amount)
