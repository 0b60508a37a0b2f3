"""Gangs: applications with `min_available` start together or not at all, and the explanation says so."""

from __future__ import annotations

import msgspec
import pytest

from bcs_scheduler.core.interface import cluster_manager, leased, requests
from store.records import Strategy
from store.records.definition import RestartPolicy
from tests.unit.lab import Lab, version
from tests.unit.rollinglab import RollingLab
from transactions import explain

WHOLE = 150
"""Thousandths of a core of an agent with room for one taskgroup and not for two."""


def test_a_gang_waits_until_all_its_members_fit_and_then_starts_at_once() -> None:
    lab = Lab()
    lab.create(4, min_available=3)
    for agent in ("a", "b"):
        lab.offer(agent, cpus=WHOLE)
        assert lab.groups == []
    lab.offer("c", cpus=WHOLE)
    assert len(lab.groups) == 3, "the minimum in one turn"
    assert len(lab.sent(cluster_manager.LaunchOnAgent)) == 3
    lab.offer("d", cpus=WHOLE)
    assert len(lab.groups) == 4, "what exceeds the minimum counts by itself"


def test_the_explanation_names_the_gang() -> None:
    lab = Lab()
    lab.create(3, min_available=3)
    lab.offer("a", cpus=WHOLE)
    lab.offer("b", cpus=WHOLE)
    diagnosis = lab.core.diagnosis(lab.transaction("LAUNCH").id)
    assert diagnosis is not None
    assert (diagnosis.min_members, diagnosis.reached, diagnosis.placed) == (3, 2, 0)
    assert explain.reasons(diagnosis).startswith("gang: 3 places needed at the same time, 2 found; ")


def test_a_gang_leaves_its_room_to_others_while_it_waits() -> None:
    lab = Lab()
    lab.create(3, min_available=3)
    small = msgspec.structs.replace(version(1), application="small")
    lab.ask(requests.CreateApplication(version=small))
    lab.offer("a", cpus=WHOLE)
    assert lab.groups == []
    assert len(lab.core.state.groups_of("default/small")) == 1


def test_members_that_run_count_for_the_minimum() -> None:
    lab = Lab()
    lab.create(2, min_available=2)
    for agent in ("a", "b"):
        lab.offer(agent, cpus=WHOLE)
    lab.run()
    lab.scale(3)
    lab.offer("c", cpus=WHOLE)
    assert len(lab.groups) == 3


def test_members_that_end_meanwhile_do_not_count_for_the_minimum() -> None:
    lab = Lab()
    lab.create(2, min_available=2, restart_policy=RestartPolicy(policy="Never"))
    lab.offer("a", cpus=2 * WHOLE)
    for group in lab.groups:
        lab.report(group, "RUNNING")
    lab.scale(4)
    for group in lab.groups:
        lab.report(group, "FAILED")
    lab.offer("c", cpus=WHOLE)
    lab.wait(1.0)
    assert len(lab.groups) == 2, "nothing runs, and one member does not start alone"
    lab.offer("d", cpus=WHOLE)
    assert len(lab.groups) == 4


def test_offers_of_agents_out_of_phase_come_together_for_a_gang() -> None:
    """Each offer is declined after a while. Without a revive, agents that are offered at different times would never be
    held at the same time."""
    lab = Lab()
    lab.create(2, min_available=2)
    held: dict[str, float] = {}
    refused_until = {"a": lab.now, "b": lab.now + 7.0}
    end = lab.now + 120.0
    while lab.now < end and not lab.groups:
        for agent, until in refused_until.items():
            if agent not in held and lab.now >= until:
                offer = lab.make_offer(agent, cpus=WHOLE)
                held[agent] = lab.now
                lab.turn(leased.OffersArrived(offers=(offer,)))
                _take_effects(lab, held, refused_until)
        lab.wait(1.0)
        _take_effects(lab, held, refused_until)
    assert len(lab.groups) == 2


def _take_effects(lab: Lab, held: dict[str, float], refused_until: dict[str, float]) -> None:
    """The part of the master: a declined offer is made again when the filter has ended, or after REVIVE."""
    pool = lab.core.turn_context.pool
    there = {offer.agent_id for offer in pool.hand.all()}
    for effect in lab.out:
        if isinstance(effect, leased.Revive):
            refused_until.update(dict.fromkeys(refused_until, lab.now))
    for agent in [agent for agent in held if agent not in there]:
        del held[agent]
        refused_until[agent] = lab.now + lab.options.refuse_unfit


@pytest.mark.parametrize(("instances", "least", "room", "launched"), [(5, 0, 2, 2), (5, 1, 2, 2), (5, 5, 4, 0)])
def test_only_a_minimum_of_two_or_more_makes_a_gang(instances: int, least: int, room: int, launched: int) -> None:
    lab = Lab()
    lab.create(instances, min_available=least)
    for number in range(room):
        lab.offer(f"agent-{number}", cpus=WHOLE)
    assert len(lab.groups) == launched


def test_a_dry_run_says_that_a_gang_would_wait() -> None:
    lab = Lab()
    lab.offer("a", cpus=WHOLE)
    lab.offer("b", cpus=WHOLE)
    answer = lab.ask(requests.CreateApplication(version=version(3, min_available=3), dry_run=True))
    assert isinstance(answer.data, dict)
    assert (answer.data["place"], answer.data["unplaced"]) == ([], 3)
    assert answer.data["message"].startswith("gang: 3 places needed at the same time, 2 found; ")


def test_a_deployment_starts_whole_and_each_step_of_its_update_too() -> None:
    lab = RollingLab()
    strategy = Strategy(max_unavailable=2, max_surge=2)
    lab.deploy(4, strategy=strategy, min_available=4)
    for number in range(3):
        lab.offer(f"old-{number}", cpus=WHOLE)
        assert not lab.core.state.taskgroups
    lab.offer("old-3", cpus=WHOLE)
    assert len(lab.core.state.taskgroups) == 4
    for group in list(lab.core.state.taskgroups.values()):
        lab.report(group, "RUNNING")
    lab.wait(1.0)
    assert lab.renew(4, strategy=strategy, min_available=4, labels={"revision": "2"}).error == ""
    successor = lab.deployment.successor
    lab.offer("new-0", cpus=WHOLE)
    assert not lab.core.state.groups_of(f"default/{successor}"), "a step of two has room for one only"
    lab.offer("new-1", cpus=WHOLE)
    assert len(lab.core.state.groups_of(f"default/{successor}")) == 2
