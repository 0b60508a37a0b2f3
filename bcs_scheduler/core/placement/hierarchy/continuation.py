"""The rest of a decision that continues in the next turn."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bcs_scheduler.core.placement.snapshots.held import request_of
from bcs_scheduler.core.placement.snapshots.pending import demand_of
from bcs_scheduler.core.placement.snapshots.role import RoleInput
from bcs_scheduler.core.placement.snapshots.snapshots import Snapshots
from offers.model import Demand, Placement
from offers.policy.session.columns import Array
from offers.policy.session.decisions import Bind
from transactions.base import Slot


class Continuation(NamedTuple):
    """The rest of a decision about one role that continues in the next turn, while nothing but its own placements has
    changed. These are allocations of the tree already, so that neither the snapshot nor the tree follows the records
    between two portions."""

    inputs: RoleInput
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

    def after(
        self,
        demands: Mapping[str, Demand[Slot]],
        binds: Sequence[Bind],
        placements: Sequence[Placement[Slot]],
        left: Sequence[Demand[Slot]],
    ) -> Continuation | None:
        """The rest after one more portion; None if the placements are not those that were chosen, or if constraints
        count them. `demands`: those that took part, by id; `left`: those that are left."""
        if any(demand.rules.live for demand in demands.values()):
            return None
        planned = Counter((demand_of(bind.task), bind.agent) for bind in binds)
        if planned != Counter((placement.demand, placement.agent_id) for placement in placements):
            return None
        inputs, placed, ranks = self.inputs, {bind.job for bind in binds}, defaultdict[str, list[int]](list)
        taken = list(self.taken) or [
            np.zeros(len(inputs.snapshot.agents), np.int64) for _ in inputs.snapshot.dimensions
        ]
        for placement in placements:
            ranks[placement.demand].append(inputs.snapshot.rank[placement.agent_id])
        for identity, of_demand in ranks.items():
            request = demands[identity].request
            for name, amount in request_of(request, request.extended):
                np.add.at(taken[inputs.snapshot.index[name]], of_demand, amount)
        missing = {name: number for name, number in inputs.missing.items() if name not in placed}
        return Continuation(inputs._replace(missing=missing), left, taken)
