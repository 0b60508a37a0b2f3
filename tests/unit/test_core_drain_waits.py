"""A drain that waits asks for places when something changes that can help it, and costs next to nothing meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from bcs_scheduler.api.views.drains import show_drain
from bcs_scheduler.core.controllers.cluster.drain_waits import ASKED_ANEW, LONGEST_PAUSE, PERIOD
from bcs_scheduler.core.controllers.cluster.drains import Drains
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.interface.leased import OffersArrived
from bcs_scheduler.core.options import CoreOptions
from offers.policy.session.configuration import default_policy
from store.records import GROUP_ANNOTATION, AgentSetting, Drain, Limits, Namespace, PodGroup, Queue, Transaction
from store.records.definition import Amounts, Constraint, Container
from store.state import State
from tests.counting import lines
from tests.unit.agentlab import Cluster
from tests.unit.rollinglab import named
from tests.unit.test_core_drains import drain, loaded, of, on
from transactions.rules.disruptions import WAITED

PROMPT = PERIOD + 0.1
"""Seconds within which a drain reacts."""


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The taskgroups for which drains have asked for a place."""
    asked: list[str] = []
    no_place = Drains._no_place

    def noted(drains: Drains, demand: Any, wanted: Any) -> str:
        asked.append(wanted.group.id)
        return no_place(drains, demand, wanted)

    monkeypatch.setattr(Drains, "_no_place", noted)
    return asked


def begun(lab: Cluster) -> int:
    return sum(bool(group.killing_since) for group in on(lab))


def offer_renewed(lab: Cluster, seconds: float, cpus: int = 50) -> None:
    """Other agents offer the same little room again and again."""
    for _ in range(int(seconds)):
        for agent in lab.listed.keys() - {"a0"}:
            lab.core.turn_context.pool.hand.remove_agent(agent)
            lab.offer(agent, cpus=cpus)
        lab.wait(1)


def test_nothing_is_asked_again_while_nothing_changes(questions: list[str]) -> None:
    lab = loaded(3)
    offer_renewed(lab, 1)
    drain(lab, at_once=3)
    lab.wait(2)
    assert "no other agent has room" in of(lab).message
    questions.clear()
    offer_renewed(lab, ASKED_ANEW - 5)
    assert questions == []
    offer_renewed(lab, 10)
    assert len(questions) == 1, "three of one kind have one answer"


def test_changes_elsewhere_wake_no_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = loaded(2)
    lab.core.turn_context.pool.hand.remove_agent("a0")
    assert not lab.ask(requests.CreateApplication(version=named(3, "other"))).error
    others = list(lab.core.state.groups_on("a1").values())
    assert others
    offer_renewed(lab, 1)
    drain(lab)
    lab.wait(12)
    looks: list[str] = []
    go_on = Drains._go_on

    def noted(drains: Drains, key: str) -> None:
        looks.append(key)
        go_on(drains, key)

    monkeypatch.setattr(Drains, "_go_on", noted)
    for state in ("RUNNING", "UNREACHABLE", "RUNNING"):
        for group in others:
            lab.report(lab.core.state.taskgroups[group.id], state)
        lab.wait(1)
    assert looks == []


def room_comes(lab: Cluster) -> None:
    lab.core.turn_context.pool.hand.remove_agent("a1")
    lab.offer("a1", cpus=100)


def agent_joins(lab: Cluster) -> None:
    lab.join("a2")
    lab.offer("a2")


def by_sessions(explained: int = 256) -> Cluster:
    """Two taskgroups on a0, and a1 with room, with the policy of sessions. `explained`: see `CoreOptions`."""
    options = CoreOptions(strict=True, session_period=0.5, policy=default_policy(), explained=explained)
    lab = Cluster(2, options=options)
    lab.create(2)
    lab.offer("a0")
    lab.wait(2)
    for group in lab.groups:
        lab.report(group, "RUNNING")
    lab.offers()
    return lab


@pytest.mark.parametrize("helps", [room_comes, agent_joins])
def test_room_wakes_it(helps: Callable[[Cluster], None]) -> None:
    lab = loaded(2)
    offer_renewed(lab, 1)
    drain(lab)
    lab.wait(15)
    assert not begun(lab)
    helps(lab)
    lab.wait(PROMPT)
    assert begun(lab) == 1


def test_no_turn_is_due_while_a_drain_rests_after_a_look() -> None:
    """Such a turn could look at nothing, and other decisions would follow it."""
    lab = loaded(1)
    offer_renewed(lab, 1)
    drain(lab)
    lab.wait(PROMPT)
    room_comes(lab)
    due = lab.core.next_wakeup(lab.now)
    assert lab.now < due <= lab.now + PERIOD
    for _ in range(3):
        assert not lab.core.turn((), lab.now) and lab.core.next_wakeup(lab.now) == due
    lab.wait(PROMPT)
    assert begun(lab) == 1


def test_a_cordon_that_ends_wakes_it() -> None:
    lab = loaded(2)
    lab.set_agent("a1", disabled=True)
    drain(lab)
    offer_renewed(lab, 20, cpus=16_000)
    assert not begun(lab)
    lab.set_agent("a1", disabled=False)
    lab.wait(PROMPT)
    assert begun(lab) == 1


def test_limits_wake_it() -> None:
    lab = by_sessions()
    limit = Queue(name="default", capability=Limits(cpus=100))
    assert not lab.ask(requests.PutQueue(queue=limit)).error
    drain(lab)
    offer_renewed(lab, 20, cpus=16_000)
    assert "the policy has no place" in of(lab).message
    assert not lab.ask(requests.PutQueue(queue=Queue(name="default"))).error
    lab.wait(PROMPT)
    assert begun(lab) == 1


def test_work_before_it_that_leaves_wakes_it() -> None:
    lab = loaded(1)
    lab.core.turn_context.pool.hand.remove_agent("a1")
    lab.offer("a1", cpus=1000)
    large = Container(command="serve", requests=Amounts(cpus=950, mem=32_000))
    big = named(1, "big", containers=(large,), annotations={GROUP_ANNOTATION: "g"})
    assert not lab.ask(requests.PutPodGroup(pod_group=PodGroup(namespace="default", name="g", min_member=2))).error
    assert not lab.ask(requests.CreateApplication(version=big)).error
    drain(lab)
    lab.wait(2)
    assert not begun(lab), "the room is that of work which waits before it"
    assert not lab.ask(requests.DeleteApplication(namespace="default", name="big")).error
    lab.wait(PROMPT)
    assert begun(lab) == 1


@pytest.mark.parametrize("explained", [256, 0])
def test_work_that_its_queue_holds_back_keeps_no_room_from_it(explained: int) -> None:
    """Whether the reason of the work is known or not."""
    lab = by_sessions(explained)
    assert not lab.ask(requests.PutQueue(queue=Queue(name="small", capability=Limits(cpus=50)))).error
    assert not lab.ask(requests.PutNamespace(namespace=Namespace(name="other", queue="small"))).error
    lab.core.turn_context.pool.hand.remove_agent("a1")
    lab.offer("a1", cpus=100)
    held = msgspec.structs.replace(named(1, "big"), namespace="other")
    assert not lab.ask(requests.CreateApplication(version=held)).error
    lab.wait(2)
    drain(lab)
    assert begun(lab) == 1


def test_the_moment_at_which_a_budget_grows_wakes_it() -> None:
    """A taskgroup whose successor has waited for room for long spends no budget any more."""
    lab = Cluster(2)
    lab.create(2, max_unavailable=1, constraints=((Constraint(name="InnerIP", operator="UNIQUE"),),))
    lab.offers()
    for group in lab.groups:
        lab.report(group, "RUNNING")
    (gone,) = lab.core.state.groups_on("a1").values()
    lab.set_agent("a1", disabled=True)
    lab.report(gone, "FAILED")
    lab.join("a2")
    lab.offer("a2", cpus=50)
    drain(lab)
    lab.wait(WAITED - 10)
    assert not begun(lab)
    assert "must stay so" in of(lab).message
    lab.wait(10 + PROMPT)
    assert "must stay so" not in of(lab).message


def test_readiness_wakes_it() -> None:
    lab = loaded(3, max_unavailable=1)
    lab.report(lab.group(2), "UNREACHABLE")
    lab.offers()
    drain(lab)
    lab.wait(2)
    assert not begun(lab)
    lab.report(lab.group(2), "RUNNING")
    lab.wait(PROMPT)
    assert begun(lab) == 1


def test_room_of_no_use_is_asked_about_after_growing_pauses(questions: list[str]) -> None:
    """Large offers that no constraint admits come all the time."""
    constraint = Constraint(name="InnerIP", operator="CLUSTER", items=("a0",))
    lab = loaded(1, constraints=((constraint,),))
    drain(lab)
    lab.wait(5)
    questions.clear()
    offer_renewed(lab, 60, cpus=16_000)
    assert 60 / LONGEST_PAUSE / 2 <= len(questions) <= 60 / LONGEST_PAUSE + 6


class UsedUp:
    """The time of every turn is used up from the beginning."""

    def spent(self) -> float:
        return 0.9

    def is_congested(self) -> bool:
        return False


def test_a_turn_without_time_asks_one_question_and_all_are_asked_in_the_end(questions: list[str]) -> None:
    lab = Cluster(2)
    for number in range(6):
        assert not lab.ask(requests.CreateApplication(version=named(1, f"w{number}"))).error
    lab.offer("a0")
    for group in list(lab.core.state.taskgroups.values()):
        lab.report(group, "RUNNING")
    lab.offer("a1", cpus=50)
    lab.core.turn((requests.DrainAgent(agent="a0", at_once=6),), lab.now, UsedUp())
    counts = [0, len(questions)]
    for number in range(40):
        lab.now = max(lab.core.next_wakeup(lab.now), lab.now + 0.001)
        lab.core.turn_context.pool.hand.remove_agent("a1")
        few = OffersArrived(offers=(lab.make_offer("a1", cpus=50),))
        changed = requests.SetAgent(agent="a1", strings={"zone": str(number)})  # no answer stays true
        lab.core.turn((changed, few), lab.now, UsedUp())
        counts.append(len(questions))
    assert max(after - before for before, after in pairwise(counts)) <= 1
    assert len(set(questions)) == 6


def test_a_turn_of_a_waiting_drain_costs_the_same_beside_more_work() -> None:
    """Fifty times as many taskgroups of the same and of another application run elsewhere."""
    costs = []
    for instances in (20, 1000):
        lab = loaded(2, agents=4)
        lab.core.turn_context.pool.hand.remove_agent("a0")
        lab.scale(instances)
        assert not lab.ask(requests.CreateApplication(version=named(instances, "other"))).error
        for _ in range(30):
            for agent in ("a1", "a2", "a3"):
                lab.core.turn_context.pool.hand.remove_agent(agent)
                lab.offer(agent, cpus=1_000_000)
        for group in list(lab.core.state.taskgroups.values()):
            lab.report(group, "RUNNING")
        assert len(lab.core.state.taskgroups) == 2 * instances
        offer_renewed(lab, 1)
        drain(lab)
        lab.wait(12)
        assert len(on(lab)) == 2 and not begun(lab)

        def look(lab: Cluster = lab) -> None:
            lab.ask(requests.DrainAgent(agent="a0", at_once=2))
            lab.wait(PROMPT)

        costs.append(lines(look))
    assert costs[1] <= 1.1 * costs[0]


def test_showing_a_drain_costs_the_same_beside_moves_for_other_reasons() -> None:
    setting = AgentSetting(agent="a0", drain=Drain(since=1.0))
    costs = []
    for others in (10, 1000):
        moves = [
            Transaction(
                id=f"application-{number:05d}",
                type="RESCHEDULE",
                namespace="default",
                application="web",
                created_at=2.0,
                due_at=2.0,
                deadline=60.0,
            )
            for number in range(others)
        ]
        show = partial(show_drain, State([setting, *moves]), setting, (), 3.0)
        assert show() is not None
        costs.append(lines(show))
    assert costs[0] == costs[1]


# --- another agent that is cordoned -----------------------------------------------------------------------------


def message_with_cordoned(lab: Cluster, cpus: int = 16_000) -> str:
    lab.set_agent("a1", disabled=True)
    lab.core.turn_context.pool.hand.remove_agent("a1")
    lab.offer("a1", cpus=cpus)
    drain(lab, at_once=2)
    lab.wait(PROMPT)
    assert not begun(lab)
    return of(lab).message


def test_an_agent_that_is_cordoned_and_has_room_is_proposed() -> None:
    lab = loaded(2)
    assert message_with_cordoned(lab).endswith("; `bcs uncordon a1` gives it a place there")
    assert lab.core.state.agent_settings["a1"].disabled
    lab.set_agent("a1", disabled=False)
    lab.wait(PROMPT)
    assert begun(lab) == 1


def test_with_a_policy_the_agent_is_proposed_only_if_the_policy_gives_the_place() -> None:
    assert "uncordon a1" in message_with_cordoned(by_sessions())
    lab = by_sessions()
    assert not lab.ask(requests.PutQueue(queue=Queue(name="default", capability=Limits(cpus=100)))).error
    assert "uncordon" not in message_with_cordoned(lab)


@pytest.mark.parametrize("why", ["too small", "being drained", "constraint"])
def test_an_agent_without_a_place_for_it_is_not_proposed(why: str) -> None:
    only = ((Constraint(name="InnerIP", operator="CLUSTER", items=("a0",)),),) if why == "constraint" else ()
    lab = loaded(2, constraints=only)
    if why == "being drained":
        lab.core.turn_context.pool.hand.remove_agent("a0")
        assert not lab.ask(requests.CreateApplication(version=named(1, "other"))).error
        lab.report(next(iter(lab.core.state.groups_on("a1").values())), "RUNNING")
        drain(lab, "a1")
    message = message_with_cordoned(lab, cpus=50 if why == "too small" else 16_000)
    assert "no other agent has room" in message and "uncordon" not in message
