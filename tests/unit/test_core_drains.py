"""Drains: agents are emptied within the bounds of what runs on them, and nothing is lost for it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bcs_scheduler.core.controllers.cluster.drain_waits import PERIOD
from bcs_scheduler.core.interface import cluster_manager, effects, leased, requests
from store.records import Drain, Strategy, TaskGroup
from store.records.definition import Constraint, Container, HealthCheck
from tests.unit.agentlab import Cluster
from tests.unit.lab import KEY, version
from tests.unit.rollinglab import named, wish
from transactions.explain import UNTRIED_WORDS
from transactions.rules.disruptions import WAITED, Disruptions
from transactions.rules.draining import HELD
from transactions.rules.lifecycle import is_ready_or_finished


def drain(lab: Cluster, agent: str = "a0", **fields: Any) -> effects.Reply:
    reply = lab.ask(requests.DrainAgent(agent=agent, **fields))
    lab.turn()
    return reply


def of(lab: Cluster, agent: str = "a0") -> Drain:
    found = lab.core.state.agent_settings[agent].drain
    assert found is not None
    return found


def on(lab: Cluster, agent: str = "a0") -> list[TaskGroup]:
    return [group for group in lab.groups if group.agent_id == agent and not group.ended]


def loaded(instances: int = 4, agents: int = 2, **fields: Any) -> Cluster:
    """An application that runs all on a0, and agents with room."""
    lab = Cluster(agents)
    lab.create(instances, **fields)
    lab.offer("a0")
    for group in lab.groups:
        lab.report(group, "RUNNING")
    assert len(on(lab)) == instances
    lab.offers()
    return lab


def ready(lab: Cluster) -> int:
    return sum(map(is_ready_or_finished, lab.groups))


def finish(lab: Cluster, agent: str = "a0") -> int:
    """Plays the agents until the drain has ended; the fewest that were ready at any moment."""
    fewest = ready(lab)
    for _ in range(200):
        if of(lab, agent).done_at:
            return fewest
        for group in lab.groups:
            if group.killing_since and not group.ended:
                lab.report(group, "KILLED")
            elif not group.started and not group.ended:
                lab.report(group, "RUNNING")
            fewest = min(fewest, ready(lab))
        lab.offers()
        lab.wait(0.6)
        fewest = min(fewest, ready(lab))
    raise AssertionError(f"does not end: {of(lab, agent).message}")


@pytest.mark.parametrize(("bound", "at_once", "fewest"), [(1, 5, 3), (2, 5, 2), (3, 2, 2), (0, 4, 3)])
def test_the_bounds_of_application_and_drain_hold(bound: int, at_once: int, fewest: int) -> None:
    lab = loaded(4, max_unavailable=bound)
    assert not drain(lab, at_once=at_once).error
    assert finish(lab) == fewest
    assert not on(lab)
    assert ready(lab) == 4
    assert of(lab).message == "no taskgroups are left"
    assert of(lab).phase != "Failed"


def test_no_taskgroup_is_placed_on_it_any_more() -> None:
    lab = loaded(1)
    drain(lab)
    finish(lab)
    assert lab.core.state.agent_settings["a0"].disabled
    lab.scale(6)
    lab.offers()
    assert not on(lab)


def test_nothing_is_ended_that_has_no_place_elsewhere() -> None:
    lab = loaded(2, agents=1)
    drain(lab)
    lab.wait(30)
    lab.offers()
    lab.wait(30)
    assert ready(lab) == 2
    assert "no other agent has room" in of(lab).message
    assert not of(lab).done_at
    lab.join("a1")
    lab.offers()
    assert finish(lab) == 1
    assert not on(lab)


def test_a_look_at_a_drain_counts_the_taskgroups_of_an_application_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = loaded(8, agents=1, max_unavailable=1)
    drain(lab)
    lab.wait(10)
    counts: list[str] = []
    budget = Disruptions._budget

    def counted(rules: Disruptions, application: Any) -> Any:
        counts.append(application.key)
        return budget(rules, application)

    monkeypatch.setattr(Disruptions, "_budget", counted)
    lab.wait(PERIOD)
    assert counts == [KEY]
    lab.join("a1")
    lab.offers()
    lab.wait(PERIOD)
    assert sum(bool(group.killing_since) for group in lab.groups) == 1


@pytest.mark.parametrize("agents", [1, 2])
def test_before_the_offers_have_come_it_says_that_no_place_was_looked_for(agents: int) -> None:
    lab = loaded(2, agents=agents)
    lab.wait(300)  # all offers are declined
    assert not lab.core.offers()
    drain(lab)
    assert of(lab).message == f"2 taskgroups left, 0 on the way; {UNTRIED_WORDS}"
    lab.offers()
    lab.wait(1.6)
    assert ("no other agent has room" in of(lab).message) == (agents == 1)
    assert UNTRIED_WORDS not in of(lab).message


def test_without_offers_it_says_that_no_agent_offers_resources() -> None:
    lab = loaded(1)
    lab.wait(300)
    drain(lab)
    lab.wait(1.6)
    assert "no other agent has room for default/web-0 (no agent offers resources at the moment)" in of(lab).message


def test_two_at_once_do_not_count_on_the_same_room() -> None:
    lab = loaded(4, max_unavailable=4)
    for agent in ("a0", "a1"):
        lab.core.turn_context.pool.hand.remove_agent(agent)
    lab.offer("a1", cpus=150)
    drain(lab, at_once=4)
    assert sum(bool(group.killing_since) for group in lab.groups) == 1


def test_offers_are_asked_for_to_see_where_there_is_room() -> None:
    lab = loaded(1)
    suppressed = [e for e in lab.wait(20) if isinstance(e, leased.Suppress)]
    assert suppressed
    assert not lab.core.offers()
    drain(lab)
    lab.wait(1)
    assert ready(lab) == 1
    lab.offers()
    finish(lab)


def test_asks_for_offers_again_when_suppressed() -> None:
    lab = loaded(1)
    lab.wait(20)
    drain(lab)
    assert lab.sent(leased.Revive)


def test_a_place_is_judged_as_if_the_taskgroup_had_left() -> None:
    """Both agents are of one zone, of which the application may have one: its own place is the one it gives up."""
    lab = Cluster()
    lab.join("a0", zone="z1")
    lab.join("a1", zone="z1")
    lab.create(1, constraints=((Constraint(name="zone", operator="MAXPER", limit=1),),))
    lab.offer("a0")
    lab.report(lab.group(), "RUNNING")
    lab.offers()
    drain(lab)
    finish(lab)
    assert lab.group().agent_id == "a1"


def test_the_replacement_must_be_healthy_before_the_next() -> None:
    check = HealthCheck(type="TCP", port=80)
    lab = loaded(2, containers=(Container(command="serve", health_checks=(check,)),), max_unavailable=1)
    healthy(lab)
    drain(lab, at_once=5)
    (first,) = [group for group in lab.groups if group.killing_since]
    lab.report(first, "KILLED")
    lab.report(lab.group(first.index), "RUNNING")
    lab.offers()
    lab.wait(10)
    assert len(on(lab)) == 1
    assert not [group for group in lab.groups if group.killing_since]
    healthy(lab)
    lab.wait(1)
    assert lab.core.next_wakeup(lab.now) <= lab.now + 0.5
    lab.offers()
    lab.wait(1)
    assert [group for group in lab.groups if group.killing_since] == on(lab)


def healthy(lab: Cluster) -> None:
    for group in lab.groups:
        task = cluster_manager.TaskDetail(checks=(cluster_manager.CheckReport(type="TCP", healthy=True),))
        lab.report(group, "RUNNING", detail=task)


def test_agents_that_are_drained_together_share_the_bound() -> None:
    lab = Cluster(3)
    lab.create(4, max_unavailable=1, constraints=((Constraint(name="InnerIP", operator="MAXPER", limit=2),),))
    lab.offers()
    lab.offer("a0")
    lab.offer("a1")
    for group in lab.groups:
        lab.report(group, "RUNNING")
    lab.offers()
    for agent in ("a0", "a1"):
        drain(lab, agent, at_once=3)
    assert sum(bool(group.killing_since) for group in lab.groups) == 1


def test_daemonsets_stay_unless_asked() -> None:
    lab = Cluster(2)
    lab.begin()
    lab.settle()
    drain(lab)
    lab.wait(1)
    assert of(lab).message == "no taskgroups are left but 1 of daemonsets"
    assert sorted(lab.places) == ["a0", "a1"]
    drain(lab, daemonsets=True)
    lab.wait(1)
    lab.settle()
    lab.wait(1)
    assert sorted(lab.places) == ["a1"]
    assert of(lab).message == "no taskgroups are left"
    assert lab.application.instances == 1
    lab.set_agent("a0", disabled=False)
    lab.settle()
    assert sorted(lab.places) == ["a0", "a1"]


def test_at_its_deadline_the_rest_stays() -> None:
    lab = loaded(2, agents=1)
    drain(lab, timeout=10.0)
    lab.wait(11)
    assert of(lab).phase == "Failed"
    assert of(lab).message.startswith("its time is over: 2 taskgroups left; no other agent has room")
    lab.join("a1")
    lab.offers()
    lab.wait(5)
    assert len(on(lab)) == 2


def test_enabling_the_agent_ends_it() -> None:
    lab = loaded(2, agents=1)
    drain(lab)
    lab.set_agent("a0", disabled=False)
    assert lab.core.state.agent_settings["a0"].drain is None
    lab.join("a1")
    lab.offers()
    lab.wait(5)
    assert len(on(lab)) == 2


def test_asked_for_again_it_changes_its_bounds() -> None:
    lab = loaded(4, max_unavailable=4)
    drain(lab)
    since = of(lab).since
    lab.wait(3)
    assert sum(bool(group.killing_since) for group in lab.groups) == 1
    drain(lab, at_once=3, timeout=60.0)
    assert of(lab).since == since
    assert of(lab).deadline == lab.now + 60
    lab.wait(1)
    assert sum(bool(group.killing_since) for group in lab.groups) == 3


def test_a_new_leader_goes_on_within_the_bounds() -> None:
    lab = loaded(3, max_unavailable=3)
    drain(lab, at_once=1)
    (moving,) = [group for group in lab.groups if group.killing_since]
    lab = lab.succeed()
    lab.wait(5)
    assert [group.id for group in lab.groups if group.killing_since] == [moving.id], "agents are not listed yet"
    lab.list()
    lab.offers()
    lab.wait(5)
    assert [group.id for group in lab.groups if group.killing_since] == [moving.id], "one is on its way already"
    lab.report(moving, "KILLED")
    lab.offers()
    lab = lab.succeed()
    lab.list()
    lab.offers()
    lab.wait(5)
    assert not [group for group in lab.groups if group.killing_since], "the replacement is not ready yet"
    finish(lab)
    assert not on(lab)


def test_waits_while_an_operation_works_on_the_application() -> None:
    lab = loaded(2)
    lab.update(2, labels={"revision": "2"})
    before = {group.id for group in lab.groups if group.killing_since}
    drain(lab, at_once=4)
    lab.wait(2)
    assert {group.id for group in lab.groups if group.killing_since} == before
    assert re.search(r"1 of 2 taskgroups of default/web is ready, .*; update \d{6} works on it", of(lab).message)


# --- deployments that may surge ---------------------------------------------------------------------------------


def deployed(instances: int = 3, strategy: Strategy | None = None, agents: int = 2, **fields: Any) -> Cluster:
    """A deployment that runs all on a0, and agents with room."""
    lab = Cluster(agents)
    wanted = wish(instances, strategy=strategy or Strategy(max_unavailable=0, max_surge=2))
    assert not lab.ask(requests.CreateDeployment(deployment=wanted, version=named(instances, "web", **fields))).error
    lab.offer("a0")
    for group in lab.groups:
        lab.report(group, "RUNNING")
    assert len(on(lab)) == instances and lab.core.state.deployments[KEY].status == "Running"
    lab.offers()
    return lab


def settle(lab: Cluster) -> int:
    """Plays the agents until nothing changes any more; the most that were there at any moment."""
    most = 0
    for _ in range(20):
        for group in list(lab.core.state.taskgroups.values()):
            if group.killing_since and not group.ended:
                lab.report(group, "KILLED")
            elif not group.started and not group.ended:
                lab.report(group, "RUNNING")
        most = max(most, sum(not group.ended for group in lab.core.state.taskgroups.values()))
        lab.offers()
        lab.wait(0.6)
    return most


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize(
    ("unavailable", "surge", "order", "least"),
    [(0, 2, "CreateFirst", 3), (0, 1, "CreateFirst", 3), (0, 1, "DeleteFirst", 3), (1, 1, "CreateFirst", 2)],
)
def test_a_deployment_that_may_surge_is_moved_with_stand_ins(
    unavailable: int, surge: int, order: Any, least: int, at_once: int
) -> None:
    lab = deployed(3, Strategy(max_unavailable=unavailable, max_surge=surge, order=order))
    assert not drain(lab, at_once=at_once).error
    lab.wait(1)
    (extra,) = {len(lab.groups) - 3}
    assert 1 <= extra <= surge and len(on(lab)) == 3, "new ones start first"
    assert not [group for group in on(lab) if group.killing_since]
    assert finish(lab) >= least
    settle(lab)
    assert not on(lab) and ready(lab) == 3 and {group.index for group in lab.groups} == {0, 1, 2}
    assert lab.application.instances == lab.core.state.deployments[KEY].instances == 3


@pytest.mark.parametrize("moment", range(6))
def test_a_new_leader_continues_with_the_stand_ins(moment: int) -> None:
    lab = deployed(2)
    assert not drain(lab).error
    for _ in range(moment):
        lab.wait(0.6)
        for group in lab.groups:
            if group.killing_since and not group.ended:
                lab.report(group, "KILLED")
            elif not group.started and not group.ended:
                lab.report(group, "RUNNING")
        lab.offers()
    lab = lab.succeed()
    lab.list()
    assert finish(lab) >= 2
    settle(lab)
    assert ready(lab) == 2 and {group.index for group in lab.groups} == {0, 1}


def test_stand_ins_end_with_a_drain_that_a_user_ends() -> None:
    lab = deployed(2)
    drain(lab)
    lab.wait(1)
    assert len(lab.groups) == 3
    assert not lab.ask(requests.SetAgent(agent="a0", disabled=False)).error
    settle(lab)
    assert len(lab.groups) == 2 and len(on(lab)) == 2 and lab.application.instances == 2


def test_a_taskgroup_that_has_finished_keeps_no_stand_in() -> None:
    lab = deployed(2)
    lab.report(lab.group(1), "FINISHED")
    drain(lab)
    lab.wait(1)
    (extra,) = [group for group in lab.groups if group.agent_id != "a0"]
    lab.report(extra, "RUNNING")
    assert lab.application.instances == 3
    assert not lab.ask(requests.SetAgent(agent="a0", disabled=False)).error
    settle(lab)
    assert lab.application.instances == 2 == len(lab.groups)


@pytest.mark.parametrize("instances", [1, 3, 5])
def test_requests_of_users_go_before_stand_ins(instances: int) -> None:
    lab = deployed(2)
    drain(lab)
    lab.wait(1)
    scaled = requests.ScaleDeployment(namespace="default", name="web", instances=instances)
    assert not lab.ask(scaled).error
    assert finish(lab) >= min(2, instances)
    settle(lab)
    assert ready(lab) == instances == lab.application.instances and not on(lab)


def test_a_deployment_without_room_for_a_stand_in_waits_and_says_so() -> None:
    lab = deployed(2, agents=1)
    drain(lab)
    lab.wait(2)
    assert "no other agent has room for a stand-in of default/web" in of(lab).message
    assert ready(lab) == 2 == len(lab.groups)


def test_a_stand_in_that_does_not_become_ready_is_named() -> None:
    lab = deployed(2)
    drain(lab)
    lab.wait(2)
    assert "1 stand-in of default/web is not ready yet" in of(lab).message
    assert ready(lab) == 2 and not of(lab).blocked
    lab.wait(15)
    assert of(lab).blocked
    lab.wait(200)
    assert ready(lab) == 2, "the deployment may not have one taskgroup less"


def test_a_stand_in_that_does_not_become_ready_is_not_waited_for_where_the_budget_admits_the_loss() -> None:
    lab = deployed(2, Strategy(max_unavailable=1, max_surge=1, order="CreateFirst"))
    drain(lab)
    lab.wait(WAITED - 5)
    (extra,) = [group for group in lab.groups if group.agent_id != "a0"]
    assert not extra.started and ready(lab) == 2 and of(lab).blocked
    assert "1 stand-in of default/web is not ready yet" in of(lab).message
    lab.wait(10)
    lab.offers()
    lab.wait(1)
    assert ready(lab) == 1, "one is moved"
    finish(lab)
    settle(lab)
    assert ready(lab) == 2 and not on(lab)


def with_room_for_one() -> Cluster:
    """A drain that wants two stand-ins, of which one finds a place."""
    lab = deployed(3, Strategy(max_unavailable=0, max_surge=2))
    lab.offers(cpus=150)
    assert not drain(lab, at_once=3).error
    lab.wait(1)
    (extra,) = [group for group in lab.groups if group.agent_id != "a0"]
    lab.report(extra, "RUNNING")
    assert lab.application.instances == 5
    return lab


def test_a_stand_in_that_finds_no_place_in_time_does_not_hold_up_the_drain_for_ever() -> None:
    lab = with_room_for_one()
    lab.wait(500)
    assert lab.application.instances == 4 and ready(lab) == 4
    assert finish(lab) >= 3
    settle(lab)
    assert ready(lab) == 3 == lab.application.instances and not on(lab)


def test_a_stand_in_that_waits_for_a_place_ends_with_the_drain() -> None:
    lab = with_room_for_one()
    lab.core.turn_context.pool.hand.clear()
    assert not lab.ask(requests.SetAgent(agent="a0", disabled=False)).error
    lab.wait(1)
    assert lab.application.instances == 3
    settle(lab)
    assert len(lab.groups) == 3 == len(on(lab))


def test_a_drain_without_movement_counts_as_blocked_until_it_moves() -> None:
    lab = deployed(2, agents=1)
    drain(lab)
    lab.wait(9)
    assert not of(lab).blocked
    lab.wait(2)
    assert of(lab).blocked
    lab.wait(5)
    lab = lab.succeed()
    lab.list()
    lab.wait(1)
    assert of(lab).blocked, "also for a new leader"
    logged = [h for log in lab.core.state.event_logs.values() for h in log.events if h.reason == "DrainBlocked"]
    (event,) = logged
    assert (event.object, event.key, event.level) == ("agent", "a0", "warning")
    assert "no other agent has room" in event.message and "helps" in event.message
    lab.join("a1")
    settle(lab)
    assert of(lab).done_at and not of(lab).blocked and not on(lab)


def test_a_halted_update_blocks_a_drain_and_the_way_on_is_named() -> None:
    lab = deployed(2, Strategy(max_unavailable=0, max_surge=1, manual=True))
    update = requests.UpdateDeployment(
        deployment=wish(2, strategy=Strategy(max_unavailable=0, max_surge=1, manual=True)),
        version=named(2, "web", labels={"revision": "2"}),
    )
    assert not lab.ask(update).error
    settle(lab)
    assert lab.core.state.deployments[KEY].status == "UpdatePaused"
    drain(lab)
    lab.wait(1)
    assert "the update of deployment default/web is halted; resume or cancel it" in of(lab).message


def test_a_paused_update_keeps_no_agent_within_the_bound_of_its_deployment() -> None:
    lab = deployed(3, Strategy(max_unavailable=1, max_surge=0, manual=True))
    update = requests.UpdateDeployment(
        deployment=wish(3, strategy=Strategy(max_unavailable=1, max_surge=0, manual=True)),
        version=named(3, "web", labels={"revision": "2"}),
    )
    assert not lab.ask(update).error
    settle(lab)
    assert lab.core.state.deployments[KEY].status == "UpdatePaused"
    drain(lab)
    settle(lab)
    assert of(lab).phase == "Done" and not on(lab)
    assert lab.core.state.deployments[KEY].status == "UpdatePaused"


def test_what_fails_by_itself_uses_up_the_bound() -> None:
    lab = loaded(4, max_unavailable=1)
    lab.report(lab.group(3), "FAILED")
    lab.report(lab.group(3), "STARTING")
    drain(lab, at_once=4)
    lab.wait(2)
    assert ready(lab) == 3
    assert "3 of 4 taskgroups of default/web are ready" in of(lab).message


def test_an_agent_out_of_reach_is_waited_for() -> None:
    lab = loaded(1)
    lab.report(lab.group(), "UNREACHABLE")
    drain(lab)
    lab.wait(2)
    assert "unreachable" in of(lab).message


def test_an_agent_nobody_knows() -> None:
    lab = loaded(1)
    assert drain(lab, "nowhere").error == "not_found"
    assert drain(lab, at_once=0).error == "invalid"
    assert drain(lab, timeout=-1.0).error == "invalid"


def test_a_plan_of_a_drain_changes_nothing() -> None:
    lab = loaded(1)
    assert not drain(lab, dry_run=True).error
    assert "a0" not in lab.core.state.agent_settings
    lab.wait(2)
    assert ready(lab) == 1


def test_an_empty_agent_is_drained_at_once() -> None:
    lab = Cluster(1)
    drain(lab)
    lab.wait(1)
    assert of(lab).done_at
    assert version().instances == 1


# --- taskgroups that are not ready ------------------------------------------------------------------------------


CHECKED = (Container(command="serve", health_checks=(HealthCheck(type="REMOTE_TCP", port=80),)),)
"""It is ready once its check has passed, and no one carries the check out."""


def with_broken(broken: int, healthy: int, **fields: Any) -> Cluster:
    """Two applications on a0: one that is never ready, and `default/good`."""
    lab = Cluster(2)
    lab.create(broken, containers=CHECKED, **fields)
    good = named(healthy, "good", max_unavailable=1)
    assert not lab.ask(requests.CreateApplication(version=good)).error
    lab.offer("a0")
    for group in list(lab.core.state.taskgroups.values()):
        lab.report(group, "RUNNING")
    lab.offers()
    return lab


def all_on(lab: Cluster, agent: str = "a0") -> list[TaskGroup]:
    return [group for group in lab.core.state.groups_on(agent).values() if not group.ended]


def test_a_broken_application_takes_no_place_of_a_drain_and_needs_no_budget() -> None:
    lab = with_broken(4, 3, max_unavailable=1)
    drain(lab, at_once=1)
    assert sum(group.killing_since > 0 for group in lab.groups) == 1, "one for each look"
    (good,) = [group for group in all_on(lab) if group.killing_since and group.application == "good"]
    lab.wait(2)
    assert all(group.killing_since for group in lab.groups), "bound and places are those of ready ones"
    settle(lab)
    assert of(lab).phase == "Done" and not all_on(lab) and lab.core.state.taskgroups.get(good.id) is None
    assert not any(map(is_ready_or_finished, lab.groups)), "it is not ready on its new agent either"


def test_what_is_stuck_leaves_without_another_place_and_what_starts_stays_for_a_minute() -> None:
    lab = Cluster(1)
    lab.create(1)
    lab.offer("a0")
    drain(lab)
    lab.wait(50)
    assert not lab.group().killing_since and "no other agent has room" in of(lab).message
    lab.wait(15)
    assert lab.group().killing_since
    lab.report(lab.group(), "KILLED")
    lab.wait(1)
    assert of(lab).phase == "Done"
    assert lab.transaction("RESCHEDULE").active, "its successor waits for room"


def test_a_successor_that_is_never_ready_holds_no_place_for_ever() -> None:
    lab = Cluster(2)
    lab.create(1, containers=CHECKED)
    good = named(1, "zeta")
    assert not lab.ask(requests.CreateApplication(version=good)).error
    lab.offer("a0")
    for group in list(lab.core.state.taskgroups.values()):
        lab.report(group, "RUNNING")
    (task,) = lab.group().tasks
    lab.ask(requests.ReportHealth(task_id=task.id, type="REMOTE_TCP", healthy=True))
    lab.offers()
    drain(lab, at_once=1)
    assert lab.group().killing_since, "the first in the order of ids"
    settle(lab)
    assert [group.application for group in all_on(lab)] == ["zeta"]
    lab.wait(HELD)
    settle(lab)
    assert not all_on(lab) and not of(lab).done_at
    assert "default/web-0 is not ready yet" in of(lab).message
    (task,) = lab.group().tasks
    lab.ask(requests.ReportHealth(task_id=task.id, type="REMOTE_TCP", healthy=True))
    lab.wait(1)
    assert of(lab).phase == "Done"


def test_a_gang_at_its_minimum_moves_as_a_whole() -> None:
    """Without one of its taskgroups it does no work."""
    lab = loaded(4, min_available=4, max_unavailable=1)
    drain(lab, at_once=1)
    lab.wait(1)
    assert all(group.killing_since for group in lab.groups)
    settle(lab)
    assert of(lab).phase == "Done" and ready(lab) == 4


def pass_checks(lab: Cluster, *indices: int) -> None:
    """These taskgroups become ready."""
    for index in indices:
        (task,) = lab.group(index).tasks
        lab.ask(requests.ReportHealth(task_id=task.id, type="REMOTE_TCP", healthy=True))


def leaving(lab: Cluster) -> list[int]:
    return sorted(group.index for group in lab.groups if group.killing_since)


def test_a_ready_taskgroup_of_a_gang_below_its_minimum_waits_for_a_stand_in() -> None:
    """The others leave at once. What the gang lacks is no reason to end the ready taskgroups of a deployment."""
    lab = deployed(4, Strategy(max_unavailable=0, max_surge=2), min_available=3, containers=CHECKED)
    pass_checks(lab, 0, 1)
    drain(lab, at_once=2)
    lab.wait(1)
    assert leaving(lab) == [2, 3] and lab.application.instances == 6
    lab.offers()
    lab.wait(1)
    for index in (4, 5):
        lab.report(lab.group(index), "RUNNING")
    lab.offers()
    lab.wait(100)
    assert leaving(lab) == [2, 3] and "2 stand-ins of default/web are not ready yet" in of(lab).message
    pass_checks(lab, 4, 5)
    lab.wait(2)
    assert leaving(lab) == [2, 3], "with the stand-ins, the gang works and has a budget again"
    settle(lab)
    pass_checks(lab, 2, 3)
    for _ in range(2):
        lab.offers()
        lab.wait(0.6)
    assert leaving(lab) == [0, 1]


def test_a_ready_taskgroup_of_a_gang_below_its_minimum_stays_while_an_operation_keeps_its_stand_in_away() -> None:
    lab = deployed(5, Strategy(max_unavailable=0, max_surge=2), min_available=3, containers=CHECKED)
    pass_checks(lab, 0, 1)
    scaled = requests.ScaleDeployment(namespace="default", name="web", instances=4)
    assert not lab.ask(scaled).error and lab.transaction("SCALE").active
    drain(lab, at_once=4)
    lab.wait(2)
    assert leaving(lab) == [2, 3, 4]
    assert re.search(r"scale \d{6} works on default/web, so no stand-in can be started", of(lab).message)


def test_a_ready_taskgroup_of_a_gang_below_its_minimum_leaves_only_for_a_place() -> None:
    """And the drain waits until its successor is ready."""
    lab = Cluster(1)
    lab.create(4, min_available=3, containers=CHECKED)
    lab.offer("a0")
    for group in lab.groups:
        lab.report(group, "RUNNING")
    pass_checks(lab, 0, 1)
    drain(lab, at_once=4)
    lab.wait(100)
    assert leaving(lab) == [2, 3] and "no other agent has room" in of(lab).message
    lab.join("a1")
    lab.offer("a1")
    lab.wait(1)
    assert leaving(lab) == [0, 1, 2, 3]
    settle(lab)
    assert not all_on(lab) and not of(lab).done_at
    assert "default/web-0 is not ready yet, default/web-1 is not ready yet" in of(lab).message.replace(";", ",")
    pass_checks(lab, 0, 1)
    lab.wait(1)
    assert of(lab).phase == "Done"


def test_a_launch_that_asks_for_more_than_fits_does_not_keep_an_agent() -> None:
    """The launch goes on, no place is lost, and none has two taskgroups."""
    lab = Cluster(2)
    lab.create(12, max_unavailable=2)
    lab.offer("a0", cpus=1000)
    for group in lab.groups:
        lab.report(group, "RUNNING")
    assert len(on(lab)) == 10 and lab.transaction("LAUNCH").active
    drain(lab, at_once=2)
    lab.offer("a1", cpus=1000)
    fewest = ready(lab)
    for _ in range(40):
        for group in lab.groups:
            if group.killing_since and not group.ended:
                lab.report(group, "KILLED")
            elif not group.started and not group.ended:
                lab.report(group, "RUNNING")
            fewest = min(fewest, ready(lab))
        lab.wait(0.6)
        if of(lab).done_at:
            break
    assert len({group.index for group in lab.groups}) == len(lab.groups)
    assert fewest >= 8
    lab.offers()
    settle(lab)
    assert of(lab).phase == "Done" and not on(lab)
    assert sorted(group.index for group in lab.groups) == list(range(12)) and ready(lab) == 12
    assert lab.transaction("LAUNCH").status == "FINISH"
