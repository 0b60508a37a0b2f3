"""Rolling updates that fail: suspended, resumed, undone within their bounds."""

from __future__ import annotations

import pytest

from bcs_scheduler.core.interface import requests
from store.records import ConfigItem, ConfigMap, Strategy, TaskGroup
from store.records.definition import Container, Item, Reference, UnreachablePolicy
from tests.unit.rollinglab import NEVER, NEW, RollingLab, checked, deployed, healthy

# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_step_beyond_its_life_suspends_and_says_what_was_missing() -> None:
    lab = deployed(2)
    lab.renew(2, **checked(), **NEW)
    lab.run()
    healthy(lab, lab.new[0], False, "refused")
    lab.wait(299)
    assert lab.deployment.status == "Update"
    lab.wait(2)
    assert lab.deployment.status == "UpdateSuspend"
    assert "refused" in lab.deployment.message
    assert (lab.ready, lab.present) == (2, 3)
    lab.control("resume")
    healthy(lab, lab.new[0])
    lab.run()
    assert (len(lab.new), lab.deployment.status) == (2, "Update")


def test_a_step_without_room_suspends_and_says_so() -> None:
    lab = deployed(2, Strategy(step_timeout=50.0))
    lab.core.turn_context.pool.hand.clear()
    lab.renew(2, **NEW)
    lab.wait(51)
    assert lab.deployment.status == "UpdateSuspend"
    assert "not placed" in lab.deployment.message or "no offers" in lab.deployment.message
    assert not [t for t in lab.core.state.active_transactions() if t.type == "INNERSCALE"]
    assert lab.successor.instances == 0
    lab.control("resume")
    lab.run()
    assert lab.deployment.status == "Running"


def test_a_new_taskgroup_that_fails_for_good_suspends_at_once_and_a_resume_tries_anew() -> None:
    lab = deployed(3)
    lab.renew(3, **NEVER, **NEW)
    lab.offer()
    (new,) = lab.new
    lab.report(new, "FAILED", message="boom")
    assert lab.deployment.status == "UpdateSuspend"
    assert "boom" in lab.deployment.message
    lab.control("resume")
    lab.run()
    assert lab.deployment.status == "Running"
    assert new.id not in {group.id for group in lab.groups}
    lab.hold_bounds()


def test_a_taskgroup_of_either_side_is_restarted_by_its_policy() -> None:
    lab = deployed(4, Strategy(max_surge=1, max_unavailable=0))
    lab.renew(4, **NEW)
    lab.until("DELETE")
    keeps = next(g for g in lab.old if not g.killing_since)
    lab.report(keeps, "FAILED")
    lab.report(lab.new[0], "FAILED")
    lab.run()
    assert (lab.deployment.status, len(lab.groups)) == ("Running", 4)


def test_old_ones_that_are_chosen_are_not_restarted() -> None:
    lab = deployed(3)
    lab.renew(3, **NEW)
    lab.until("DELETE")
    going = next(g for g in lab.old if g.killing_since)
    lab.report(going, "FAILED")
    assert going.id not in lab.core.state.taskgroups
    assert not [t for t in lab.core.state.active_transactions() if t.type == "RESCHEDULE"]


def test_an_end_that_does_not_come_suspends() -> None:
    lab = deployed(1, unreachable_policy=UnreachablePolicy(replace_after=-1.0))
    lab.renew(1, **NEW)
    lab.until("DELETE")
    going = next(g for g in lab.old if g.killing_since)
    lab.report(going, "UNREACHABLE")
    lab.run()
    lab.wait(lab.options.transactions.periods.rolling_down + 1)
    assert lab.deployment.status == "UpdateSuspend"
    assert f"{going.name} (" in lab.deployment.message
    lab.report(going, "RUNNING")
    lab.control("resume")
    lab.run()
    assert lab.deployment.status == "Running"


def lost_on_its_way(order: str = "CreateFirst") -> tuple[RollingLab, TaskGroup]:
    """An update of 6 taskgroups, and one of those that are to go, which cannot be ended: its agent is unreachable."""
    lab = deployed(
        6,
        Strategy(max_surge=1, max_unavailable=1, order=order),  # type: ignore[arg-type]
        unreachable_policy=UnreachablePolicy(replace_after=-1.0),
    )
    lab.renew(6, **NEW)
    lab.until("DELETE")
    lost = next(g for g in lab.old if g.killing_since)
    lab.report(lost, "UNREACHABLE")
    return lab, lost


@pytest.mark.parametrize("order", ["CreateFirst", "DeleteFirst"])
def test_a_step_goes_on_without_those_that_cannot_be_ended(order: str) -> None:
    """All others are replaced, within the bounds; the update says what is left. When the agent returns it ends."""
    lab, lost = lost_on_its_way(order)
    lab.run()
    assert [g.id for g in lab.old] == [lost.id] and lab.deployment.status == "Update"
    assert sum(map(lab.is_ready, lab.new)) == 6
    assert f"1 taskgroup cannot be ended: {lost.name} (its agent is unreachable)" in lab.deployment.message
    lab.hold_bounds()
    assert lab.control("resume").error == ""
    lab.report(lost, "RUNNING")
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision, len(lab.groups)) == ("Running", 2, 6)


def test_a_suspended_update_is_resumed_beside_those_that_cannot_be_ended() -> None:
    lab, lost = lost_on_its_way()
    failed = next(g for g in lab.new)
    lab.report(failed, "UNREACHABLE")
    lab.run()
    lab.wait(lab.options.transactions.periods.rolling_down + 1)
    assert lab.deployment.status == "UpdateSuspend"
    lab.report(failed, "RUNNING")
    for group in [g for g in lab.groups if g.id != lost.id]:
        lab.report(group, "RUNNING")
    lab.control("resume")
    lab.run()
    assert [g.id for g in lab.old] == [lost.id]


@pytest.mark.parametrize("order", ["CreateFirst", "DeleteFirst"])
def test_an_update_is_cancelled_beside_those_that_cannot_be_ended(order: str) -> None:
    lab, lost = lost_on_its_way(order)
    lab.run()
    assert lab.control("cancel").error == ""
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision, len(lab.groups)) == ("Running", 1, 6)
    assert lost.id in {g.id for g in lab.groups}
    lab.report(lost, "RUNNING")
    lab.run()
    assert lost.id not in {g.id for g in lab.groups} and (len(lab.groups), lab.ready) == (6, 6)


@pytest.mark.parametrize("back", [False, True])
def test_a_reschedule_gives_up_those_that_cannot_be_ended(back: bool) -> None:
    lab, lost = lost_on_its_way()
    assert lab.ask(requests.RescheduleTaskGroup(taskgroup=lost.id)).error == ""
    assert lost.id not in lab.core.state.taskgroups
    if back:
        lab.control("cancel")
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision) == ("Running", 1 if back else 2)
    assert (len(lab.groups), lab.ready) == (6, 6)


def test_one_that_cannot_be_ended_is_taken_up_when_its_policy_allows() -> None:
    lab = deployed(4, unreachable_policy=UnreachablePolicy(replace_after=60.0))
    lab.renew(4, **NEW)
    lab.until("DELETE")
    lost = next(g for g in lab.old if g.killing_since)
    lab.report(lost, "UNREACHABLE")
    lab.run()
    assert [g.id for g in lab.old] == [lost.id]
    lab.wait(61)
    lab.run()
    assert lab.deployment.status == "Running" and lost.id not in lab.core.state.taskgroups


def test_an_update_waits_for_configuration_that_vanishes_and_says_so() -> None:
    lab = deployed(2, Strategy(step_timeout=50.0))
    item = ConfigItem(type="file", content="aGk=")
    lab.ask(requests.PutConfigMap(config_map=ConfigMap(namespace="default", name="conf", items={"k": item})))
    uses = Reference(name="conf", items=(Item(key="k", type="env", target="K"),))
    lab.core.turn_context.pool.hand.clear()
    reply = lab.renew(2, containers=(Container(command="serve", configmaps=(uses,)),))
    assert not reply.error
    lab.ask(requests.DeleteConfigMap(namespace="default", name="conf"))
    lab.offer()
    assert not lab.new
    lab.wait(51)
    assert lab.deployment.status == "UpdateSuspend"
    assert "conf" in lab.deployment.message


# --- going back -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["CreateFirst", "DeleteFirst"])
@pytest.mark.parametrize("half", ["START", "DELETE"])
def test_a_cancel_goes_back_within_the_bounds(order: str, half: str) -> None:
    lab = deployed(6, Strategy(max_surge=2, max_unavailable=1, order=order))  # type: ignore[arg-type]
    before = (lab.application.name, lab.deployment.raw, lab.deployment.strategy)
    lab.renew(6, strategy=Strategy(max_surge=1, max_unavailable=1, order=order, manual=True), **NEW)  # type: ignore[arg-type]
    for _ in range(4):
        lab.once()
        lab.control("resume")
    lab.until(half)
    lab.measure()
    assert not lab.control("cancel").error
    assert lab.control("cancel").error == "conflict"
    lab.run()
    deployment = lab.deployment
    assert (deployment.status, deployment.revision, len(lab.groups)) == ("Running", 1, 6)
    assert (deployment.application, deployment.raw, deployment.strategy) == before
    assert list(lab.core.state.applications) == [f"default/{before[0]}"]
    assert lab.least >= 5
    assert lab.most <= 7
    assert "cancelled on request" in deployment.message
    lab.renew(6, **NEW)
    assert lab.deployment.revision == 3


def test_a_roll_back_during_an_update_is_a_cancel() -> None:
    lab = deployed(3)
    lab.renew(3, **NEW)
    lab.once()
    assert lab.undo(7).error == "conflict"
    assert not lab.undo(1).error
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision) == ("Running", 1)


def test_the_way_back_does_not_wait_for_what_was_broken_before() -> None:
    lab = deployed(3, Strategy(max_surge=1, max_unavailable=1))
    lab.core.turn_context.pool.hand.clear()
    broken = lab.group_of(2)
    lab.renew(3, **NEW)
    lab.report(broken, "FAILED")
    lab.control("cancel")
    assert not lab.deployment.updating
    assert lab.deployment.status == "Running"


def test_on_failure_rollback_goes_back_by_itself() -> None:
    lab = deployed(4, Strategy(on_failure="rollback", max_surge=2))
    before = lab.application.name
    lab.renew(4, **NEVER, **NEW)
    lab.offer()
    lab.report(lab.new[0], "FAILED", message="boom")
    assert (lab.deployment.status, lab.deployment.rolling_back) == ("Update", True)
    lab.run()
    assert (lab.deployment.status, lab.deployment.application, len(lab.groups)) == ("Running", before, 4)
    assert "boom" in lab.deployment.message
    lab.hold_bounds()


def test_a_suspended_update_can_be_cancelled() -> None:
    lab = deployed(3)
    lab.renew(3, **NEVER, **NEW)
    lab.offer()
    lab.report(lab.new[0], "FAILED")
    lab.control("cancel")
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision) == ("Running", 1)


def test_an_update_of_what_is_still_being_launched_goes_from_what_exists() -> None:
    lab = RollingLab()
    lab.deploy(3)
    lab.renew(2, **NEW)
    assert lab.transaction("LAUNCH").status == "CANCEL"
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision, len(lab.groups)) == ("Running", 2, 2)


def test_an_update_during_an_update_is_refused_with_what_to_do() -> None:
    lab = deployed(2)
    lab.renew(2, **NEW)
    reply = lab.renew(2, labels={"revision": "3"})
    assert (reply.error, "cancel the update" in reply.message) == ("conflict", True)


def test_the_way_back_can_be_halted_too() -> None:
    lab = deployed(4, Strategy(max_surge=2, max_unavailable=1))
    lab.renew(4, **NEW)
    lab.run_until(lambda: len(lab.new) == 4)
    lab.control("cancel")
    lab.control("pause")
    lab.run()
    assert (lab.deployment.status, lab.deployment.rolling_back) == ("UpdatePaused", True)
    lab = lab.succeed()
    lab.control("resume")
    lab.offer()
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision, len(lab.groups)) == ("Running", 1, 4)
    assert lab.deployment.message == "went back to revision 1: cancelled on request", "whatever was said in between"
