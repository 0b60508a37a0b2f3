"""RESCHEDULE: restarts by policy, on request, with host retention; and how they are called off."""

from __future__ import annotations

import pytest

from bcs_scheduler.core.interface import cluster_manager, effects, requests
from store.records import TaskGroup
from store.records.definition import RestartPolicy, UnreachablePolicy
from tests.unit.lab import Lab, running
from transactions.kinds.reschedule import Reschedule

ALWAYS = RestartPolicy(policy="Always")


def reschedule(lab: Lab, group: TaskGroup, retain: float = 0.0) -> effects.Reply:
    return lab.ask(requests.RescheduleTaskGroup(taskgroup=group.id, host_retain=retain))


def test_what_failed_is_replaced_under_a_new_id_and_the_same_index() -> None:
    lab = running(2)
    failed = lab.group(1)
    lab.report(failed, "FAILED")
    lab.offer()
    replacement = lab.group(1)
    assert replacement.id != failed.id
    assert replacement.restarts == 1
    assert lab.transaction("RESCHEDULE").message == f"web-1 restarted on {replacement.hostname}"


def test_the_old_record_stays_until_its_replacement_has_a_place() -> None:
    lab = running(1)
    failed = lab.group()
    lab.core.turn_context.pool.hand.clear()
    lab.report(failed, "FAILED")
    lab.wait(60)
    assert lab.group().id == failed.id
    units = lab.core.turn([], lab.now)
    lab.offer()
    assert lab.group().id != failed.id
    assert not units or all(change.key != failed.id for unit in units for change in unit.changes)


def test_interval_and_backoff_are_applied() -> None:
    lab = running(1, restart_policy=RestartPolicy(policy="OnFailure", interval=20.0, backoff=5.0))
    for delay in (20.0, 25.0):
        failed = lab.group()
        lab.report(failed, "FAILED")
        lab.wait(delay - 1)
        lab.offer()
        assert lab.group().id == failed.id
        lab.wait(1.1)
        lab.offer()
        assert lab.group().id != failed.id
        lab.run()


def test_after_maxtimes_it_stays_failed() -> None:
    lab = running(1, restart_policy=RestartPolicy(policy="OnFailure", max_times=1))
    for _ in range(2):
        lab.report(lab.group(), "FAILED")
        lab.offer()
        lab.run()
    assert (lab.group().status, lab.application.status) == ("Failed", "Abnormal")
    lab.wait(120)
    lab.offer()
    assert lab.group().status == "Failed"


def test_a_successor_does_not_forget_how_often_it_was_restarted() -> None:
    lab = running(1, restart_policy=RestartPolicy(policy="OnFailure", max_times=1))
    lab.report(lab.group(), "FAILED")
    lab.offer()
    lab.run()
    successor = lab.succeed()
    successor.report(successor.group(), "FAILED")
    successor.offer()
    successor.wait(60)
    assert successor.group().status == "Failed"


def test_work_that_is_done_is_not_repeated_unless_always() -> None:
    lab = running(1)
    lab.report(lab.group(), "FINISHED")
    lab.offer()
    assert (lab.group().status, lab.application.status) == ("Finish", "Finish")
    lab = running(1, restart_policy=ALWAYS)
    done = lab.group()
    lab.report(done, "FINISHED")
    lab.offer()
    assert lab.group().id != done.id


@pytest.mark.parametrize(("policy", "restarted"), [("Never", False), ("OnFailure", True)])
def test_when_one_task_fails_the_others_are_ended_and_the_policy_decides(policy: str, restarted: bool) -> None:
    lab = running(1, tasks=2, restart_policy=RestartPolicy(policy=policy))  # type: ignore[arg-type]
    broken = lab.group()
    lab.report(broken, "FAILED", tasks=[0])
    assert lab.ended() == [broken.tasks[1].id]
    lab.report(broken, "KILLED", tasks=[1])
    lab.offer()
    assert (lab.group().id != broken.id) == restarted


def test_a_task_that_has_done_its_work_leaves_the_others_alone() -> None:
    lab = running(1, tasks=2)
    lab.report(lab.group(), "FINISHED", tasks=[0])
    assert not lab.ended()
    assert lab.group().status == "Running"


@pytest.mark.parametrize("state", ["DROPPED", "LOST"])
def test_a_launch_that_was_dropped_is_repeated_even_with_policy_never(state: str) -> None:
    lab = Lab()
    lab.create(1, restart_policy=RestartPolicy(policy="Never"))
    lab.offer()
    dropped = lab.group()
    lab.report(dropped, state)
    lab.offer()
    assert lab.group().id != dropped.id


@pytest.mark.parametrize("certain", [True, False])
def test_a_refused_accept_is_repeated_only_if_it_certainly_did_not_happen(certain: bool) -> None:
    lab = Lab()
    lab.create(1)
    lab.offer()
    refused = lab.group()
    lab.turn(cluster_manager.LaunchFailed(taskgroups=(refused.id,), reason="503", certain=certain))
    if not certain:
        assert lab.sent(cluster_manager.Reconcile)[0].tasks == ((refused.tasks[0].id, "agent-1"),)
    lab.offer()
    assert (lab.group().id != refused.id) == certain


def test_an_unreachable_taskgroup_is_replaced_after_its_wait() -> None:
    lab = running(1, unreachable_policy=UnreachablePolicy(replace_after=30.0))
    away = lab.group()
    lab.report(away, "UNREACHABLE")
    lab.offer()
    lab.wait(29)
    lab.offer()
    assert lab.group().id == away.id
    lab.wait(2)
    lab.offer()
    assert lab.group().id != away.id
    assert lab.ended() == [away.tasks[0].id]


def test_one_that_comes_back_after_it_was_replaced_is_killed() -> None:
    lab = running(1, unreachable_policy=UnreachablePolicy(replace_after=0.0))
    away = lab.group()
    lab.report(away, "UNREACHABLE")
    lab.offer()
    assert lab.group().id != away.id
    lab.report(away, "RUNNING")
    assert lab.ended() == [away.tasks[0].id]
    assert len(lab.sent(cluster_manager.Acknowledge)) == 1


def test_one_that_comes_back_in_time_is_simply_running_again() -> None:
    lab = running(1, unreachable_policy=UnreachablePolicy(replace_after=30.0))
    away = lab.group()
    lab.report(away, "UNREACHABLE")
    lab.wait(10)
    lab.report(away, "RUNNING")
    assert lab.transaction("RESCHEDULE").message == f"{away.name} recovered to running"
    assert lab.application.status == "Running"
    lab.wait(60)
    lab.offer()
    assert lab.group().id == away.id


def test_the_wait_counts_from_when_it_went_away_last() -> None:
    lab = running(1, unreachable_policy=UnreachablePolicy(replace_after=30.0))
    away = lab.group()
    for pause in (20, 29):
        lab.report(away, "UNREACHABLE")
        lab.wait(pause)
        lab.offer()
        assert lab.group().id == away.id
        lab.report(away, "RUNNING")


def test_a_task_mesos_has_forgotten_may_still_run() -> None:
    lab = running(1, unreachable_policy=UnreachablePolicy(replace_after=-1.0))
    forgotten = lab.group()
    lab.report(forgotten, "UNKNOWN")
    lab.offer()
    lab.wait(100)
    assert lab.group().id == forgotten.id
    assert not lab.group().ended


def test_on_request_the_old_one_is_ended_first() -> None:
    lab = running(2)
    old = lab.group(1)
    assert reschedule(lab, old).data["opType"] == "RESCHEDULE"
    assert lab.ended() == [old.tasks[0].id]
    lab.offer()
    assert lab.group(1).id == old.id
    lab.report(old, "KILLED")
    lab.offer()
    assert lab.group(1).id != old.id


def test_on_request_the_host_is_kept_for_a_while() -> None:
    lab = running(1)
    old = lab.group()
    lab.core.turn_context.pool.hand.clear()
    reschedule(lab, old, retain=20.0)
    lab.report(old, "KILLED")
    lab.offer("agent-2")
    assert lab.group().id == old.id
    lab.offer("agent-1")
    assert lab.group().hostname == old.hostname
    lab.run()
    lab.core.turn_context.pool.hand.clear()
    old = lab.group()
    reschedule(lab, old, retain=20.0)
    lab.report(old, "KILLED")
    lab.wait(21)
    lab.offer("agent-2")
    assert lab.group().hostname == "host-of-agent-2"


def test_a_second_request_for_the_same_taskgroup_is_refused() -> None:
    lab = running(1)
    reschedule(lab, lab.group())
    assert reschedule(lab, lab.group()).error == "conflict"


def test_a_cancelled_request_still_replaces_what_it_has_ended() -> None:
    lab = running(1, restart_policy=RestartPolicy(policy="Never"))
    old = lab.group()
    reschedule(lab, old)
    lab.cancel(lab.transaction("RESCHEDULE"))
    lab.report(old, "KILLED")
    lab.offer()
    assert lab.group().id != old.id


def test_a_cancelled_restart_stays_cancelled_for_a_successor_too() -> None:
    lab = running(1)
    failed = lab.group()
    lab.core.turn_context.pool.hand.clear()
    lab.report(failed, "FAILED")
    lab.cancel(lab.transaction("RESCHEDULE"))
    lab.offer()
    assert lab.group().id == failed.id
    successor = lab.succeed()
    successor.offer()
    successor.wait(30)
    assert successor.group().id == failed.id


def test_a_restart_out_of_time_is_begun_again() -> None:
    lab = running(1)
    failed = lab.group()
    lab.core.turn_context.pool.hand.clear()
    lab.report(failed, "FAILED")
    first = lab.transaction("RESCHEDULE")
    lab.now = first.deadline
    lab.turn()
    assert lab.core.state.transactions[first.id].status == "TIMEOUT"
    lab.offer()
    assert lab.group().id != failed.id


def waiting_and_updated() -> tuple[Lab, str]:
    """A restart waits for a place when an update of all taskgroups begins. Its id."""
    lab = running(1)
    lab.core.turn_context.pool.hand.clear()
    lab.report(lab.group(), "FAILED")
    restart = lab.transaction("RESCHEDULE").id
    lab.update(1, labels={"revision": "2"})
    return lab, restart


def test_a_restart_that_waits_asks_for_no_place_once_an_update_does() -> None:
    lab, restart = waiting_and_updated()
    assert list(lab.core.turn_context.engine.demands) == [lab.transaction("UPDATE").id]
    assert lab.core.state.transactions[restart].message.endswith("replaces it")
    lab.cancel(lab.transaction("UPDATE"))
    lab.wait(1)
    (again,) = lab.core.state.active_transactions()
    assert again.type == "RESCHEDULE" and list(lab.core.turn_context.engine.demands) == [again.id]


def test_two_demands_for_one_index_place_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:  # as if the restart had not been looked at since the update took over
        patch.setattr(Reschedule, "settled", lambda *_: None)
        lab, restart = waiting_and_updated()
    assert restart in lab.core.turn_context.engine.demands
    lab.offer()
    assert [group.index for group in lab.groups] == [0]
    assert len(lab.core.state.taskgroups) == 1
