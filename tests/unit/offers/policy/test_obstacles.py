"""Attempts to make room: counts of obstacles, their order, and the owners that they name."""

from __future__ import annotations

from offers.policy.obstacles import Met, Obstacle, Tally, in_vain


def test_obstacles_of_the_whole_attempt_come_first_then_units_by_number_and_agents_last() -> None:
    tally = Tally()
    assert not tally
    tally.count(Obstacle.APART, 9)
    tally.count(Obstacle.GANG, 2, "shop/gang")
    tally.count(Obstacle.BUDGET, 3, "shop/web")
    tally.count(Obstacle.BUDGET, 1, "shop/api")
    tally.count(Obstacle.PAUSED, 1, "shop/other", until=70.0)
    tally.count(Obstacle.NOT_OLD_ENOUGH, until=70.0)
    found = tally.attempt(10.0)
    assert tally and found.cause is Obstacle.NOT_OLD_ENOUGH
    assert found.met == (
        Met(Obstacle.NOT_OLD_ENOUGH, until=70.0),
        Met(Obstacle.BUDGET, 4, ("shop/web", "shop/api")),
        Met(Obstacle.GANG, 2, ("shop/gang",)),
        Met(Obstacle.PAUSED, 1, ("shop/other",), until=70.0),
        Met(Obstacle.APART, 9),
    )


def test_an_obstacle_names_few_owners_and_counts_the_others() -> None:
    tally, other = Tally(), Tally()
    for number in range(4):
        tally.count(Obstacle.RESERVED, 1, f"a/{number}", until=50.0 - number)
    other.count(Obstacle.RESERVED, 2, "a/4", until=60.0)
    tally.add(other)
    assert tally.met() == (Met(Obstacle.RESERVED, 6, ("a/4", "a/0", "a/1"), others=2, until=60.0),)
    assert in_vain(1.0, Obstacle.OWN_GUARANTEE, ["root.b", "root.a"]).met == (
        Met(Obstacle.OWN_GUARANTEE, 0, ("root.a", "root.b")),
    )
