"""Room that is promised to tasks, and demands that are closed before it is there."""

from __future__ import annotations

from types import SimpleNamespace

from bcs_scheduler.core.placement.promises import PartitionHolds
from offers.ledger.coming import ComingRoom
from offers.model import Demand, ResourceRequest
from offers.policy.session.model import Nomination
from offers.rules.constraints import Rules
from transactions.base import Slot

NOW = 1000.0
KEPT = Nomination("a", NOW + 60.0)


class World:
    def __init__(self, *demands: Demand[Slot]) -> None:
        coming = ComingRoom(lambda agent: None)
        self.engine = SimpleNamespace(demands={demand.id: demand for demand in demands})
        self.pool = SimpleNamespace(hand=SimpleNamespace(coming=coming))
        self.source = SimpleNamespace(leaving_on=lambda agent: {})
        self.now = NOW
        self.holds = PartitionHolds(self, 60.0)  # type: ignore[arg-type]

    def becomes(self, *demands: Demand[Slot]) -> dict[tuple[str, str], Nomination]:
        """These are the open demands now. Returns the promises of the next turn."""
        self.engine.demands = {demand.id: demand for demand in demands}
        self.is_changed = self.holds.expire()
        return dict(self.holds.nominations)


def demand(identity: str, cpus: int, *, slots: int = 1, application: str = "shop/web") -> Demand[Slot]:
    places = tuple(Slot(index) for index in range(slots))
    return Demand(identity, application, places, ResourceRequest(cpus=cpus), Rules())


def promised(demand: Demand[Slot]) -> World:
    """A world in which the first task of a demand has a promise."""
    world = World(demand)
    world.holds.keep({(demand.application, f"{demand.id}/0"): KEPT})
    return world


def test_a_promise_lasts_while_its_demand_is_open() -> None:
    one = demand("one", 1000)
    world = promised(one)
    assert world.becomes(one) == {("shop/web", "one/0"): KEPT} and not world.is_changed


def test_the_room_of_a_demand_that_is_closed_is_for_the_next_one_of_the_application() -> None:
    world = promised(demand("one", 1000))
    assert world.becomes(demand("two", 1000, slots=2)) == {("shop/web", "two/0"): KEPT}
    assert world.is_changed
    assert world.becomes(demand("three", 1000)) == {("shop/web", "three/0"): KEPT}


def test_smaller_taskgroups_share_the_room() -> None:
    world = promised(demand("one", 2000))
    assert world.becomes(demand("two", 900, slots=3)) == {("shop/web", f"two/{index}"): KEPT for index in range(2)}


def test_greater_taskgroups_and_others_do_not_get_the_room() -> None:
    world = promised(demand("one", 1000))
    assert world.becomes(demand("two", 2000), demand("three", 1000, application="shop/other")) == {}
    assert world.is_changed


def test_a_promise_to_a_demand_that_is_closed_already_is_not_kept() -> None:
    world = World()
    world.holds.keep({("shop/web", "one/0"): KEPT})
    assert world.holds.nominations == {} and not world.holds.expire()
