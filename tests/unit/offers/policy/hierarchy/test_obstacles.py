"""Obstacles of asks in trees of queues that no search for victims sees: pauses, reservations, victims that leave."""

from __future__ import annotations

from offers.ledger.holds import LONGEST
from offers.policy.hierarchy.cluster import occupy
from offers.policy.hierarchy.explanation import attempt_of
from offers.policy.hierarchy.preemption.preemption import preempt
from offers.policy.hierarchy.preemption.quota import give_back
from offers.policy.hierarchy.preemption.reservation import expire, reserve
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Ask
from offers.policy.hierarchy.tree import Tree
from offers.policy.obstacles import Attempt, Met, Obstacle
from tests.unit.offers.policy.hierarchy.test_limits import SOON, crowded
from tests.unit.offers.policy.hierarchy.test_preemption import pending, queue, running, tree


def owed(**properties: object) -> Tree:
    """A full node whose work belongs to another queue than the one with a guarantee."""
    state = tree([queue("busy"), queue("owed", 2, delay="10s")], {"n1": 4})
    running(state, "root.busy", "n1", 1, 1, 1, 1, **properties)
    (ask,) = pending(state, "root.owed", 1)
    assert list(state.run()) == [] and ask.created == 0.0
    return state


def test_an_ask_that_may_not_try_yet_has_the_moment_from_which_it_may() -> None:
    state = owed()
    assert attempt_of(state, "wait-root.owed", 4.0) == Attempt(4.0, (Met(Obstacle.NOT_OLD_ENOUGH, until=10.0),))


def test_victims_that_leave_are_the_result_until_the_ask_is_placed() -> None:
    state = owed()
    (found,) = preempt(state, 20.0)
    attempt = attempt_of(state, "wait-root.owed", 21.0)
    assert attempt is not None and (attempt.evicted, attempt.agent, attempt.met) == (1, "n1", ())
    (victim,) = found.victims
    state.release(victim.ask.application, victim.ask.name)
    assert len(list(state.run())) == 1
    assert attempt_of(state, "wait-root.owed", 22.0) is None


def test_an_ask_whose_promise_was_not_kept_makes_a_pause() -> None:
    state = owed()
    (found,) = preempt(state, 20.0)
    state.release(found.victims[0].ask.application, found.victims[0].ask.name)
    occupy(state, "n1", (), (("cpus", 1),))  # the room is taken from outside
    assert list(state.run()) == [] and expire(state, 20.0) == []
    assert len(expire(state, 20.0 + LONGEST)) == 1
    attempt = attempt_of(state, "wait-root.owed", 21.0 + LONGEST)
    assert attempt is not None and attempt.met == (Met(Obstacle.PAUSED, until=20.0 + 2 * LONGEST),)


def test_critical_work_is_spared_by_preemption_and_by_lowered_maxima() -> None:
    state = owed(critical=True)
    assert preempt(state, 20.0) == []
    attempt = attempt_of(state, "wait-root.owed", 20.0)
    assert attempt is not None and attempt.met[0] == Met(Obstacle.CRITICAL, 4)
    lowered = tree([queue("busy", None, 2, quota="1s")], {"n1": 4})
    running(lowered, "root.busy", "n1", 1, 1, 1, 1, critical=True)
    assert [*give_back(lowered, 10.0), *give_back(lowered, 20.0)] == []


def test_a_reservation_names_its_owner_and_its_end() -> None:
    state = crowded()
    assert len(reserve(state, 102.0, SOON)) == 1
    state.submit(Application("small", "root.q", 0))
    state.ask(Ask("small", "t", (("cpus", 2),), created=102.0))
    assert list(state.run()) == []
    assert attempt_of(state, "small", 103.0) == Attempt(
        103.0, (Met(Obstacle.RESERVED, 1, ("waits",), until=102.0 + LONGEST),)
    )
    assert attempt_of(state, "waits", 103.0) is None, "the queue has no guarantee"


def test_a_queue_that_has_its_guarantee_has_no_attempt() -> None:
    state = tree([queue("busy"), queue("owed", 1, delay="1s")], {"n1": 2})
    running(state, "root.busy", "n1", 1)
    running(state, "root.owed", "n1", 1)
    pending(state, "root.owed", 1)
    assert list(state.run()) == [] and preempt(state, 20.0) == []
    assert attempt_of(state, "wait-root.owed", 20.0) is None


def test_work_that_leaves_for_another_ask_is_no_victim_again() -> None:
    state = tree([queue("busy"), queue("owed", 2, delay="10s")], {"n1": 1})
    running(state, "root.busy", "n1", 1)
    pending(state, "root.owed", 1)
    state.submit(Application("second", "root.owed", 1))
    state.ask(Ask("second", "t0", (("cpus", 1),)))
    assert list(state.run()) == [] and len(preempt(state, 20.0)) == 1
    found = [one for name in ("second", "wait-root.owed") if (one := attempt_of(state, name, 21.0)) is not None]
    assert sorted(one.evicted for one in found) == [0, 1]
    assert [one.met[0] for one in found if not one.evicted] == [Met(Obstacle.LEAVING, 1)]
