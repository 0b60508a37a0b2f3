"""Room that no unit has any more, and that no offer shows yet."""

from __future__ import annotations

from math import inf

from offers.ledger.coming import NOTHING, ComingRoom
from offers.ledger.holds import RETURN_SECONDS, UNOFFERED_SECONDS
from offers.resources import SCALARS

NOW = 1000.0
SITE = ("a", "*")
OTHER = ("b", "*")


def room(cpus: int = 0, mem: int = 0) -> list[int]:
    return [{"cpus": cpus, "mem": mem}.get(name, 0) for name in SCALARS]


class World:
    def __init__(self) -> None:
        self.touched: list[str] = []
        self.coming = ComingRoom(self.touched.append)

    def freed(self, cpus: int = 1000) -> None:
        """A unit has ended, and a turn has begun."""
        self.coming.more(SITE, room(cpus))
        self.coming.tick(NOW)


def test_the_first_offer_may_show_a_part() -> None:
    world = World()
    coming = world.coming
    coming.more(SITE, room(1000, 64))
    coming.more(SITE, room(500))
    assert (list(coming.on(SITE)), coming.is_awaited(SITE)) == (room(1500, 64), True)
    coming.offered(SITE, room(1000))
    assert (list(coming.on(SITE)), coming.is_awaited(SITE)) == (room(500, 64), False)
    coming.offered(SITE, room(9000, 9000))
    assert not coming.is_expected(SITE)
    assert set(world.touched) == {"a"}


def test_no_amount_is_no_room() -> None:
    coming = World().coming
    coming.more(SITE, room())
    coming.offered(SITE, room(1000))
    coming.keep(SITE)
    coming.drop(SITE)
    assert (coming.on(SITE), coming.is_expected(SITE), coming.is_awaited(SITE)) == (NOTHING, False, False)


def test_the_time_begins_with_the_turn_and_again_with_the_first_offer() -> None:
    world = World()
    coming = world.coming
    coming.more(SITE, room(1000))
    assert coming.until() == inf
    coming.tick(NOW)
    assert coming.until() == NOW + RETURN_SECONDS
    coming.tick(NOW + 3.0)
    assert coming.until() == NOW + RETURN_SECONDS
    coming.offered(SITE, room(100))
    coming.tick(NOW + 4.0)
    coming.offered(SITE, room(100))
    coming.tick(NOW + 4.5)
    assert coming.until() == NOW + 4.0 + RETURN_SECONDS
    world.touched.clear()
    coming.tick(NOW + 4.0 + RETURN_SECONDS)
    assert not coming.is_expected(SITE)
    assert (world.touched, coming.until()) == (["a"], inf)


def test_promised_room_is_expected_for_longer_until_an_offer_has_come() -> None:
    world = World()
    world.freed()
    coming = world.coming
    coming.keep(SITE)
    assert coming.until() == NOW + UNOFFERED_SECONDS
    coming.tick(NOW + UNOFFERED_SECONDS - 1.0)
    assert coming.is_awaited(SITE)
    coming.offered(SITE, room(100))
    coming.tick(NOW + UNOFFERED_SECONDS)
    coming.keep(SITE)
    assert coming.until() == NOW + UNOFFERED_SECONDS + RETURN_SECONDS


def test_offers_that_show_room_for_the_first_time_are_those_of_a_turn() -> None:
    world = World()
    world.freed()
    coming = world.coming
    coming.offered(OTHER, room(100))
    coming.offered(SITE, room(100))
    assert list(coming.shown) == [SITE]
    coming.tick(NOW + 1.0)
    coming.offered(SITE, room(100))
    assert not coming.shown


def test_all_room_is_forgotten() -> None:
    world = World()
    world.freed()
    coming = world.coming
    coming.more(OTHER, room(100))
    coming.clear()
    coming.tick(NOW + 1.0)
    assert (coming.is_expected(SITE), coming.is_expected(OTHER), coming.until()) == (False, False, inf)
    assert set(world.touched) == {"a", "b"}


def test_a_turn_ends_a_part_of_the_room_and_the_next_one_the_rest() -> None:
    coming = ComingRoom(lambda agent: None)
    sites = [(f"agent-{number}", "*") for number in range(2500)]
    for site in sites:
        coming.more(site, room(100))
    coming.tick(NOW)
    left = []
    for _ in range(3):
        coming.tick(NOW + RETURN_SECONDS)
        left.append(sum(map(coming.is_expected, sites)))
    assert left == [1500, 500, 0]
