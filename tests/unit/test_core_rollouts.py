"""Rolling updates: bounds, orders, readiness, halts."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.interface import cluster_manager, requests
from store.records import Canary, RollingPayload, Strategy
from store.records.definition import UnreachablePolicy
from tests.unit.lab import version
from tests.unit.rollinglab import FAST, NEVER, NEW, WEB, checked, deployed, healthy, wish
from transactions.rules import rolling
from transactions.rules.task_states import TaskState

# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["CreateFirst", "DeleteFirst"])
@pytest.mark.parametrize(("surge", "unavailable"), [(1, 1), (3, 0), (0, 2), (2, 3), (20, 0), (0, 20)])
@pytest.mark.parametrize("instances", [1, 5])
def test_an_update_keeps_its_bounds(instances: int, surge: int, unavailable: int, order: str) -> None:
    lab = deployed(instances, Strategy(max_surge=surge, max_unavailable=unavailable, order=order))  # type: ignore[arg-type]
    before = lab.application.name
    lab.renew(instances, **NEW)
    assert (lab.application.status, lab.application.rolling) == ("RollingUpdate", "down")
    assert (lab.successor.status, lab.successor.rolling) == ("RollingUpdate", "up")
    lab.run()
    lab.wait(1.0)  # taskgroups that would share an agent wait for further offers
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision) == ("Running", 2)
    assert list(lab.core.state.applications) == [f"default/{lab.deployment.application}"]
    assert lab.deployment.application != before
    assert [group.index for group in lab.groups] == list(range(instances))
    assert (lab.application.status, lab.application.rolling) == ("Running", "")
    lab.hold_bounds()


def test_the_first_step_begins_with_the_answer_and_each_adds_what_the_strategy_says() -> None:
    lab = deployed(10, FAST)
    reply = lab.renew(10, **NEW)
    assert lab.core.state.transactions[reply.data["transactionID"]].target == 2
    steps = [len(lab.new)]
    while lab.deployment.updating:
        lab.once()
        if lab.deployment.updating and len(lab.new) != steps[-1]:
            steps.append(len(lab.new))
    assert steps == [2, *range(3, 11)]
    assert lab.deployment.step == 0
    lab.hold_bounds()


def ones(old: int, new: int) -> list[tuple[int, int]]:
    """Steps of one taskgroup each until no old one is left."""
    return [(old - n, new + n) for n in range(old + 1)]


@pytest.mark.parametrize("manual", [True, False])
@pytest.mark.parametrize(
    ("instances", "unavailable", "surge", "order", "expected"),
    [
        (10, 3, 3, "CreateFirst", [(7, 3), (4, 6), (1, 9), (0, 10)]),
        (10, 3, 3, "DeleteFirst", [(7, 3), (4, 6), (1, 9), (0, 10)]),
        (10, 1, 1, "DeleteFirst", ones(9, 1)),
        (10, 1, 1, "CreateFirst", ones(9, 1)),
        (4, 4, 4, "CreateFirst", [(0, 4)]),
        (4, 4, 4, "DeleteFirst", [(0, 4)]),
        (3, 9, 9, "DeleteFirst", [(0, 3)]),
        (5, 2, 2, "DeleteFirst", [(3, 2), (1, 4), (0, 5)]),
        (1, 1, 1, "CreateFirst", [(0, 1)]),
        # A number of 0 is a bound only: the other number is the size of the step.
        (6, 0, 3, "CreateFirst", [(3, 3), (0, 6)]),
        (6, 3, 0, "DeleteFirst", [(3, 3), (0, 6)]),
        # Of two different numbers the bounds let the step be as small as the smaller one.
        (5, 1, 3, "CreateFirst", [(4, 3), (3, 4), (2, 5), (1, 5), (0, 5)]),
        (5, 3, 1, "DeleteFirst", [(2, 1), (1, 2), (0, 3), (0, 4), (0, 5)]),
    ],
)
def test_the_steps_are_those_that_were_written(
    instances: int, unavailable: int, surge: int, order: Any, expected: list[tuple[int, int]], manual: bool
) -> None:
    strategy = Strategy(max_unavailable=unavailable, max_surge=surge, order=order, manual=manual)
    lab = deployed(instances, strategy)
    lab.renew(instances, **NEW)
    steps, most = [], 0
    for _ in range(100):
        if not lab.deployment.updating:
            break
        if lab.deployment.status == "UpdatePaused":
            steps.append((len(lab.old), len(lab.new)))
            lab.control("resume")
        most = max(most, lab.deployment.step)
        lab.once()
    assert (lab.deployment.status, lab.deployment.revision, len(lab.groups)) == ("Running", 2, instances)
    assert most == len(expected)
    assert steps == (expected[:-1] if manual else [])
    lab.hold_bounds()


def test_the_way_back_is_limited_by_the_bounds_alone() -> None:
    lab = deployed(6, Strategy(manual=True))
    lab.renew(6, **NEW)
    while len(lab.new) < 4:
        lab.once()
        lab.control("resume")
    lab.control("cancel")
    before = lab.deployment.step
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision) == ("Running", 1)
    assert lab.deployment.step - before < 4
    lab.hold_bounds()


def test_another_number_of_taskgroups_comes_with_the_update() -> None:
    for before, after in ((6, 2), (2, 6)):
        lab = deployed(before, FAST)
        lab.renew(after, **NEW)
        lab.run()
        assert (lab.deployment.status, lab.deployment.instances, len(lab.groups)) == ("Running", after, after)
        assert lab.least >= min(before, after) - 1


def test_an_update_that_names_no_number_keeps_the_one_it_finds() -> None:
    lab = deployed(2, FAST)
    scaled = requests.ScaleDeployment(namespace="default", name="web", instances=4)
    wanted = wish(0, strategy=Strategy(max_surge=3), selector=lab.deployment.selector)
    lab.turn(scaled, requests.UpdateDeployment(deployment=wanted, version=version(0)))
    assert (lab.deployment.instances, lab.deployment.strategy.max_surge) == (4, 3)
    lab.resize(3)
    assert lab.renew(0, **NEW).error == ""
    assert lab.core.state.revisions_of(WEB)[2].instances == 3
    lab.run()
    assert (lab.deployment.status, lab.deployment.instances, len(lab.groups)) == ("Running", 3, 3)


def test_what_fails_by_itself_uses_up_the_room() -> None:
    lab = deployed(4, Strategy(max_surge=0, max_unavailable=1, order="DeleteFirst"))
    lab.core.turn_context.pool.hand.clear()
    lab.report(lab.group_of(0), "FAILED")
    lab.renew(4, **NEW)
    assert [g.index for g in lab.old] == [1, 2, 3]
    assert not [g for g in lab.groups if g.killing_since]


def test_what_fails_between_choice_and_end_spares_those_that_were_chosen() -> None:
    """The update and the failure arrive in one batch: victims are chosen before, and ended after it."""
    lab = deployed(3, Strategy(max_surge=0, max_unavailable=2, order="DeleteFirst"))
    lab.measure()
    lost = lab.group_of(0)
    failure = cluster_manager.StatusUpdate(
        task_id=lost.tasks[0].id, state=TaskState.FAILED, agent_id=lost.agent_id, uuid=b"failure"
    )
    wanted = wish(3, strategy=lab.deployment.strategy, selector={})
    lab.turn(requests.UpdateDeployment(deployment=wanted, version=version(3, **NEW)), failure)
    assert lab.ready == 1
    assert len(RollingPayload.of(lab.transaction("INNERSCALE")).victims) == 2
    lab.run()
    assert lab.least >= 1
    assert (lab.deployment.status, lab.deployment.revision, len(lab.groups)) == ("Running", 2, 3)


def test_those_that_are_not_ready_go_first() -> None:
    lab = deployed(4, Strategy(max_surge=1, max_unavailable=0), **NEVER)
    lab.report(lab.group_of(1), "FAILED")
    lab.renew(4, **NEW)
    lab.once()
    assert [g.index for g in lab.old] == [0, 2, 3]
    lab.run()
    assert lab.deployment.status == "Running"


def test_a_lost_agent_does_not_hold_up_the_others() -> None:
    lab = deployed(4, FAST, unreachable_policy=UnreachablePolicy(replace_after=-1.0))
    lab.measure()
    lost = lab.group_of(2)
    lab.report(lost, "UNREACHABLE")
    lab.renew(4, **NEW)
    lab.run()
    assert [g.id for g in lab.old] == [lost.id]
    assert (lab.deployment.status, lab.deployment.phase) == ("Update", "")
    lab.report(lost, "RUNNING")
    lab.run()
    assert (lab.deployment.status, len(lab.groups)) == ("Running", 4)


def test_a_taskgroup_that_is_chosen_to_go_is_given_up_when_its_policy_allows() -> None:
    lab = deployed(2, FAST, unreachable_policy=UnreachablePolicy(replace_after=30.0))
    lab.renew(2, **NEW)
    lab.until("DELETE")
    for group in lab.old:
        lab.report(group, "UNREACHABLE")
    lab.wait(29)
    assert lab.deployment.updating
    lab.wait(2)
    lab.run()
    assert lab.deployment.status == "Running"


def test_how_many_go_at_once_is_bounded_by_what_a_record_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "MOST_AT_ONCE", 3)
    lab = deployed(8, Strategy(max_surge=0, max_unavailable=8, order="DeleteFirst"))
    lab.renew(8, **NEW)
    assert len(RollingPayload.of(lab.transaction("INNERSCALE")).victims) == 3
    lab.run()
    assert (lab.deployment.status, len(lab.groups)) == ("Running", 8)


# --- readiness --------------------------------------------------------------------------------------------------------


def test_a_step_waits_for_health_without_a_break() -> None:
    lab = deployed(2, Strategy(min_ready=10.0))
    lab.renew(2, **checked(), **NEW)
    lab.run()
    (new,) = lab.new
    assert (new.status, lab.deployment.phase) == ("Running", "START")
    healthy(lab, new)
    lab.wait(6)
    healthy(lab, new, False)
    healthy(lab, new, True)
    lab.wait(9)
    assert lab.deployment.phase == "START"
    # Other words for the same verdict are no break.
    healthy(lab, new, True, "200 in 3 ms")
    lab.wait(1.1)
    assert lab.deployment.phase == "DELETE"


def test_a_step_goes_on_in_the_turn_in_which_its_taskgroups_are_ready() -> None:
    lab = deployed(3, Strategy(max_surge=3, max_unavailable=0))
    lab.renew(3, **NEW)
    for group in lab.new:
        assert lab.deployment.phase == "START"
        lab.report(group, "RUNNING")
    assert lab.deployment.phase == "DELETE"
    for group in lab.old:
        lab.report(group, "KILLED")
    assert lab.deployment.status == "Running"
    assert lab.now == lab.deployment.progress_at


def test_nothing_is_written_while_nothing_changes() -> None:
    lab = deployed(2)
    lab.renew(2, **NEW)
    lab.turn()
    before = [record for record in lab.core.state.records() if record.kind != "framework"]
    lab.wait(100)
    # The framework record says when a leader was last at work.
    assert [record for record in lab.core.state.records() if record.kind != "framework"] == before


# --- halts ------------------------------------------------------------------------------------------------------------


def test_a_pause_lets_the_step_end_and_a_resume_goes_on() -> None:
    lab = deployed(4)
    lab.renew(4, **NEW)
    lab.control("pause")
    assert (lab.deployment.status, lab.deployment.pausing) == ("Update", True)
    lab.run()
    assert (lab.deployment.status, lab.deployment.phase, len(lab.new)) == ("UpdatePaused", "", 1)
    assert lab.control("pause").error == "conflict"
    lab.wait(600)
    assert lab.deployment.status == "UpdatePaused"
    lab.control("resume")
    lab.run()
    assert lab.deployment.status == "Running"
    assert lab.control("resume").error == "conflict"
    lab.hold_bounds()


def test_a_pause_can_be_taken_back() -> None:
    lab = deployed(3)
    lab.renew(3, **NEW)
    lab.control("pause")
    lab.control("resume")
    lab.run()
    assert lab.deployment.status == "Running"


def test_manual_steps_wait_for_a_resume_each() -> None:
    lab = deployed(3, Strategy(manual=True, max_unavailable=0))
    lab.renew(3, **NEW)
    halts = 0
    for _ in range(10):
        lab.run()
        if not lab.deployment.updating:
            break
        assert lab.deployment.status == "UpdatePaused"
        halts += 1
        lab.control("resume")
    assert halts == 2


def test_between_two_steps_there_is_a_rest() -> None:
    lab = deployed(3, Strategy(pause=30.0, max_unavailable=0))
    lab.renew(3, **NEW)
    lab.run()
    assert (len(lab.new), lab.deployment.phase) == (1, "")
    lab.wait(29)
    assert len(lab.new) == 1
    lab.wait(1.1)
    lab.run()
    assert len(lab.new) == 2


def test_what_fails_in_a_long_rest_is_waited_for() -> None:
    lab = deployed(3, Strategy(pause=3600.0, max_unavailable=0))
    lab.renew(3, **NEW)
    lab.run()
    lab.wait(600)
    lab.report(lab.new[0], "FAILED")
    assert lab.deployment.status == "Update"
    lab.run()
    lab.wait(60)
    assert (lab.deployment.status, len(lab.new)) == ("Update", 1)


def test_a_pause_does_not_cut_the_hold_of_a_canary_short() -> None:
    lab = deployed(3, Strategy(canary=Canary(instances=1, hold=60.0)))
    lab.renew(3, **NEW)
    lab.run()
    lab.control("pause")
    assert lab.deployment.status == "UpdatePaused"
    lab.control("resume")
    lab.run()
    assert len(lab.new) == 1
    lab.wait(61)
    lab.run()
    assert lab.deployment.status == "Running"


def test_a_canary_is_held_before_the_rest_follows() -> None:
    lab = deployed(6, Strategy(max_surge=3, max_unavailable=2, canary=Canary(instances=2, hold=60.0)))
    lab.renew(6, **NEW)
    lab.run()
    assert (len(lab.new), len(lab.old)) == (2, 4)
    lab.wait(59)
    assert len(lab.new) == 2
    lab.wait(2)
    lab.run()
    assert (lab.deployment.status, len(lab.groups)) == ("Running", 6)
    lab.hold_bounds()


def test_a_canary_that_fails_in_its_hold_is_undone() -> None:
    strategy = Strategy(canary=Canary(instances=1, hold=60.0), on_failure="rollback")
    lab = deployed(3, strategy)
    before = lab.application.name
    lab.renew(3, **NEVER, **NEW)
    lab.run()
    lab.wait(30)
    lab.report(lab.new[0], "FAILED")
    lab.run()
    assert (lab.deployment.status, lab.deployment.application, len(lab.groups)) == ("Running", before, 3)


def test_a_manual_canary_waits_for_its_judge() -> None:
    lab = deployed(4, Strategy(canary=Canary(instances=1, manual=True)))
    lab.renew(4, **NEW)
    lab.run()
    assert (lab.deployment.status, len(lab.new)) == ("UpdatePaused", 1)
    assert "canary" in lab.deployment.message
    lab.control("resume")
    lab.run()
    assert (lab.deployment.status, len(lab.groups)) == ("Running", 4)
