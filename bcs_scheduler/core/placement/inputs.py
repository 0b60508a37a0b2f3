"""The state of the roles of one partition, as its engine sees it: the kept snapshots, with planned launches and
promises."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from bcs_scheduler.core.placement.launcher import Launcher
from bcs_scheduler.core.placement.placer import SLICE, Mode
from bcs_scheduler.core.placement.promises import PartitionHolds
from bcs_scheduler.core.placement.snapshots.role import RoleInput
from bcs_scheduler.core.placement.snapshots.snapshots import Snapshots
from bcs_scheduler.core.placement.turn import Turn
from offers.model import Demand
from transactions.base import Slot


class Inputs:
    """Makes the inputs of decisions."""

    def __init__(
        self,
        turn: Turn,
        snapshots: Snapshots,
        launcher: Launcher,
        promises: PartitionHolds,
        covers: Callable[[str], bool],
        *,
        plain: bool,
    ) -> None:
        """`snapshots`: shared by all partitions, since offers have one reader. `covers`: the roles of the partition.
        `plain`: the engine has its own figures of applications."""
        self._turn, self._launcher, self._covers, self.plain = turn, launcher, covers, plain
        self.snapshots, self.promises = snapshots, promises

    def of_role(self, role: str, demands: list[Demand[Slot]], caps: Mapping[str, int]) -> RoleInput:
        """The present state of a role. `caps`: number of slots that take part, by demand, where not all do."""
        most = {demand.id: self._most(demand) for demand in demands if demand.rules.live}
        most.update((identity, min(most.get(identity, cap), cap)) for identity, cap in caps.items())
        moving = (self._launcher.placements(), self.promises.nominations)
        return self.snapshots.of_role(role, demands, most, *moving, self._turn.now, plain=self.plain)

    def _most(self, demand: Demand[Slot]) -> int:
        """Number of slots that the matcher would place at most now. Constraints that count taskgroups are not known to
        engines, and room must not be given to slots that cannot use it."""
        part = demand._replace(slots=demand.slots[:SLICE], min_members=0)
        return len(self._turn.placer.plan([part], Mode.DRY_RUN).placements)

    def catch_up(self, role: str, left: int | None = None) -> bool:
        """Takes over a part of the changes of a role, if there are many. False: the next input costs little. `left`:
        see `RoleSnapshot.catch_up`."""
        return self.snapshots.catch_up(role, self._turn.now, plain=self.plain, left=left)

    def roles(self) -> list[str]:
        """The roles of the partition with a snapshot, and that of the options."""
        return list(filter(self._covers, self.snapshots.roles(self._turn.options.transactions.role)))

    def planned(self) -> Iterable[Demand[Slot]]:
        """The demand of each placement that is not launched yet."""
        return (demand for demand, _ in self._launcher.placements())
