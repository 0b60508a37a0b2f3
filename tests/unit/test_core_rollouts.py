"""Rolling updates: bounds, orders, halts, failures, going back, and a leader that dies at any commit."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core import effects, events
from store.definition import Container, HealthCheck, Item, Reference, RestartPolicy, UnreachablePolicy
from store.records import Canary, ConfigItem, ConfigMap, Strategy, TaskGroup
from store.state import State
from tests.unit.rollinglab import NEW, WEB, RollingLab, deployed
from transactions import rolling
from transactions.lifecycle import is_ready

NEVER: dict[str, Any] = {"restart_policy": RestartPolicy(policy="Never")}
FAST = Strategy(max_surge=2, max_unavailable=1)


def checked(**fields: Any) -> dict[str, Any]:
    check = HealthCheck(type="REMOTE_TCP", **fields)  # type: ignore[arg-type]
    return {"containers": (Container(command="serve", health_checks=(check,)),)}


def healthy(lab: RollingLab, group: TaskGroup, verdict: bool = True, message: str = "") -> None:
    for task in group.tasks:
        lab.ask(events.ReportHealth(task_id=task.id, type="REMOTE_TCP", healthy=verdict, message=message))


def tell_of(lab: RollingLab, reason: str) -> list[str]:
    return [
        e.message for e in lab.seen if isinstance(e, effects.Story) and (e.kind, e.reason) == ("deployment", reason)
    ]


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
    assert (lab.deployment.status, lab.deployment.revision) == ("Running", 2)
    assert list(lab.core.state.applications) == [f"default/{lab.deployment.application}"]
    assert lab.deployment.application != before
    assert [group.index for group in lab.groups] == list(range(instances))
    assert (lab.application.status, lab.application.rolling) == ("Running", "")
    lab.hold_bounds()


def test_the_first_step_begins_with_the_answer_and_each_goes_as_far_as_it_may() -> None:
    lab = deployed(10, FAST)
    reply = lab.renew(10, **NEW)
    assert lab.core.state.transactions[reply.data["transactionID"]].target == 2
    steps = [len(lab.new)]
    while lab.deployment.updating:
        lab.once()
        if lab.deployment.updating and len(lab.new) != steps[-1]:
            steps.append(len(lab.new))
    assert steps == [2, 5, 8, 10]
    assert lab.deployment.step == 0
    lab.hold_bounds()


def test_another_number_of_taskgroups_comes_with_the_update() -> None:
    for before, after in ((6, 2), (2, 6)):
        lab = deployed(before, FAST)
        lab.renew(after, **NEW)
        lab.run()
        assert (lab.deployment.status, lab.deployment.instances, len(lab.groups)) == ("Running", after, after)
        assert lab.least >= min(before, after) - 1


def test_what_fails_by_itself_uses_up_the_room() -> None:
    lab = deployed(4, Strategy(max_surge=0, max_unavailable=1, order="DeleteFirst"))
    lab.core.desk.pool.clear()
    lab.report(lab.group_of(0), "TASK_FAILED")
    lab.renew(4, **NEW)
    assert [g.index for g in lab.old] == [1, 2, 3]
    assert not [g for g in lab.groups if g.killing_since]


def test_those_that_are_not_ready_go_first() -> None:
    lab = deployed(4, Strategy(max_surge=1, max_unavailable=0), **NEVER)
    lab.report(lab.group_of(1), "TASK_FAILED")
    lab.renew(4, **NEW)
    lab.once()
    assert [g.index for g in lab.old] == [0, 2, 3]
    lab.run()
    assert lab.deployment.status == "Running"


def test_a_lost_agent_does_not_hold_up_the_others() -> None:
    lab = deployed(4, FAST, unreachable_policy=UnreachablePolicy(replace_after=-1.0))
    lab.measure()
    lost = lab.group_of(2)
    lab.report(lost, "TASK_UNREACHABLE")
    lab.renew(4, **NEW)
    lab.run()
    assert [g.id for g in lab.old] == [lost.id]
    assert lab.deployment.half == "DELETE"
    lab.report(lost, "TASK_RUNNING")
    lab.run()
    assert (lab.deployment.status, len(lab.groups)) == ("Running", 4)


def test_a_taskgroup_that_is_chosen_to_go_is_given_up_when_its_policy_allows() -> None:
    lab = deployed(2, FAST, unreachable_policy=UnreachablePolicy(replace_after=30.0))
    lab.renew(2, **NEW)
    lab.until("DELETE")
    for group in lab.old:
        lab.report(group, "TASK_UNREACHABLE")
    lab.wait(29)
    assert lab.deployment.updating
    lab.wait(2)
    lab.run()
    assert lab.deployment.status == "Running"


# --- readiness --------------------------------------------------------------------------------------------------------


def test_a_step_waits_for_health_without_a_break() -> None:
    lab = deployed(2, Strategy(min_ready=10.0))
    lab.renew(2, **checked(), **NEW)
    lab.run()
    (new,) = lab.new
    assert (new.status, lab.deployment.half) == ("Running", "START")
    healthy(lab, new)
    lab.wait(6)
    healthy(lab, new, False)
    healthy(lab, new, True)
    lab.wait(9)
    assert lab.deployment.half == "START"
    # Other words for the same verdict are no break.
    healthy(lab, new, True, "200 in 3 ms")
    lab.wait(1.1)
    assert lab.deployment.half == "DELETE"


def test_a_step_goes_on_in_the_turn_in_which_its_taskgroups_are_ready() -> None:
    lab = deployed(3, Strategy(max_surge=3, max_unavailable=0))
    lab.renew(3, **NEW)
    for group in lab.new:
        assert lab.deployment.half == "START"
        lab.report(group, "TASK_RUNNING")
    assert lab.deployment.half == "DELETE"
    for group in lab.old:
        lab.report(group, "TASK_KILLED")
    assert lab.deployment.status == "Running"
    assert lab.now == lab.deployment.progress_at


def test_nothing_is_written_while_nothing_changes() -> None:
    lab = deployed(2)
    lab.renew(2, **NEW)
    lab.turn()
    before = lab.core.state.records()
    lab.wait(100)
    assert lab.core.state.records() == before


# --- halts ------------------------------------------------------------------------------------------------------------


def test_a_pause_lets_the_step_end_and_a_resume_goes_on() -> None:
    lab = deployed(4)
    lab.renew(4, **NEW)
    lab.control("pause")
    assert (lab.deployment.status, lab.deployment.pausing) == ("Update", True)
    lab.run()
    assert (lab.deployment.status, lab.deployment.half, len(lab.new)) == ("UpdatePaused", "", 1)
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
    assert (len(lab.new), lab.deployment.half) == (1, "")
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
    lab.report(lab.new[0], "TASK_FAILED")
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
    lab.report(lab.new[0], "TASK_FAILED")
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
    lab.core.desk.pool.clear()
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
    lab.report(new, "TASK_FAILED", message="boom")
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
    lab.report(keeps, "TASK_FAILED")
    lab.report(lab.new[0], "TASK_FAILED")
    lab.run()
    assert (lab.deployment.status, len(lab.groups)) == ("Running", 4)


def test_old_ones_that_are_chosen_are_not_restarted() -> None:
    lab = deployed(3)
    lab.renew(3, **NEW)
    lab.until("DELETE")
    going = next(g for g in lab.old if g.killing_since)
    lab.report(going, "TASK_FAILED")
    assert going.id not in lab.core.state.taskgroups
    assert not [t for t in lab.core.state.active_transactions() if t.type == "RESCHEDULE"]


def test_an_end_that_does_not_come_suspends() -> None:
    lab = deployed(2, unreachable_policy=UnreachablePolicy(replace_after=-1.0))
    lab.renew(2, **NEW)
    lab.until("DELETE")
    going = next(g for g in lab.old if g.killing_since)
    lab.report(going, "TASK_UNREACHABLE")
    lab.run()
    lab.wait(lab.options.transactions.periods.rolling_down + 1)
    assert lab.deployment.status == "UpdateSuspend"
    assert going.id in lab.deployment.message
    lab.report(going, "TASK_RUNNING")
    lab.control("resume")
    lab.run()
    assert lab.deployment.status == "Running"


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
    lab.core.desk.pool.clear()
    broken = lab.group_of(2)
    lab.renew(3, **NEW)
    lab.report(broken, "TASK_FAILED")
    lab.control("cancel")
    assert not lab.deployment.updating
    assert lab.deployment.status == "Running"


def test_on_failure_rollback_goes_back_by_itself() -> None:
    lab = deployed(4, Strategy(on_failure="rollback", max_surge=2))
    before = lab.application.name
    lab.renew(4, **NEVER, **NEW)
    lab.offer()
    lab.report(lab.new[0], "TASK_FAILED", message="boom")
    assert (lab.deployment.status, lab.deployment.back) == ("Update", True)
    lab.run()
    assert (lab.deployment.status, lab.deployment.application, len(lab.groups)) == ("Running", before, 4)
    assert "boom" in lab.deployment.message
    lab.hold_bounds()


def test_a_suspended_update_can_be_cancelled() -> None:
    lab = deployed(3)
    lab.renew(3, **NEVER, **NEW)
    lab.offer()
    lab.report(lab.new[0], "TASK_FAILED")
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


# --- leaders ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn_back", [False, True])
def test_a_new_leader_goes_on_with_the_same_step_after_any_commit(turn_back: bool) -> None:
    """Every unit of an update in turn is the last that its leader writes."""
    done = 0
    for last in range(200):
        lab = deployed(4, Strategy(max_surge=2, max_unavailable=1, on_failure="rollback"))
        fields = NEVER if turn_back else {}
        store = State(lab.records())
        lab, done = _until_unit(lab, store, last, fields)
        lab.measure()
        lab.offer()
        lab.run()
        wanted = 1 if turn_back or lab.deployment.revision == 1 else 2
        assert (lab.deployment.status, lab.deployment.revision, len(lab.groups)) == ("Running", wanted, 4)
        assert len(lab.core.state.applications) == 1
        lab.hold_bounds()
        if done < last:
            break
    assert done > 20


def _until_unit(lab: RollingLab, store: State, last: int, fields: dict) -> tuple[RollingLab, int]:  # type: ignore[type-arg]
    """Runs an update until so many units are durable (or it is over), and has another leader take over."""
    done = 0
    real = lab.core.turn

    def turn(batch, now):  # type: ignore[no-untyped-def]
        nonlocal done
        units = real(batch, now)
        for unit in units:
            done += 1
            if done <= last:
                for change in unit.changes:
                    store.apply(change.kind, change.key, change.record)
        return units

    lab.core.turn = turn  # type: ignore[method-assign]
    lab.renew(4, **fields, **NEW)
    failed = False
    for _ in range(60):
        if done >= last or not lab.deployment.updating:
            break
        if fields and len(lab.new) > 2 and not failed:
            lab.report(lab.new[-1], "TASK_FAILED")
            failed = True
        else:
            lab.once()
    successor = RollingLab(lab.options, store.records(), lab.now)
    successor._serial = 10_000
    if fields and successor.deployment.updating and not successor.deployment.back:
        successor.control("cancel")
    return successor, done


def test_followers_hear_of_every_change_of_the_record() -> None:
    lab = deployed(1)
    lab.renew(1, **NEW)
    lab.run()
    told = [e.record for e in lab.seen if isinstance(e, effects.Changed) and e.key == WEB]
    assert told[-1] == lab.deployment
    assert {record.status for record in told if record is not None} == {"Deploying", "Running", "Update"}  # type: ignore[attr-defined]
    assert tell_of(lab, "step")
    assert tell_of(lab, "updated")
    assert all(map(is_ready, lab.groups))


def test_how_many_go_at_once_is_bounded_by_what_a_record_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "MOST_AT_ONCE", 3)
    lab = deployed(8, Strategy(max_surge=0, max_unavailable=8, order="DeleteFirst"))
    lab.renew(8, **NEW)
    assert len(lab.transaction("INNERSCALE").victims) == 3
    lab.run()
    assert (lab.deployment.status, len(lab.groups)) == ("Running", 8)


def test_an_update_waits_for_configuration_that_vanishes_and_says_so() -> None:
    lab = deployed(2, Strategy(step_timeout=50.0))
    item = ConfigItem(type="file", content="aGk=")
    lab.ask(events.PutConfigMap(config_map=ConfigMap(namespace="default", name="conf", items={"k": item})))
    uses = Reference(name="conf", items=(Item(key="k", type="env", target="K"),))
    lab.core.desk.pool.clear()
    reply = lab.renew(2, containers=(Container(command="serve", configmaps=(uses,)),))
    assert not reply.error
    lab.ask(events.DeleteConfigMap(namespace="default", name="conf"))
    lab.offer()
    assert not lab.new
    lab.wait(51)
    assert lab.deployment.status == "UpdateSuspend"
    assert "conf" in lab.deployment.message
