"""Launches that did not happen: repeated whatever the restart policy says, and not counted as restarts."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.interface import cluster_manager, effects, requests
from store.records.definition import RestartPolicy
from tests.unit.lab import Lab
from transactions.rules.relaunch import FETCH_ATTEMPTS

RECONCILIATION = "REASON_RECONCILIATION"
UNFETCHED: dict[str, Any] = {"reason": "REASON_CONTAINER_LAUNCH_FAILED", "unfetched": True}


def placed(policy: str = "Never", *, tasks: int = 1, **fields: Any) -> Lab:
    """One taskgroup, launched; nothing has been heard of it."""
    lab = Lab()
    lab.create(tasks=tasks, restart_policy=RestartPolicy(policy=policy, **fields))  # type: ignore[arg-type]
    lab.offer()
    assert lab.group().status == "Staging"
    return lab


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("GONE", RECONCILIATION),
        ("LOST", RECONCILIATION),
        ("DROPPED", RECONCILIATION),
        ("GONE_BY_OPERATOR", RECONCILIATION),
        ("DROPPED", "REASON_INVALID_OFFERS"),
        ("LOST", "REASON_INVALID_OFFERS"),
        ("DROPPED", "REASON_SLAVE_REMOVED"),
        ("DROPPED", "REASON_SLAVE_DISCONNECTED"),
    ],
)
@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
@pytest.mark.parametrize("tasks", [1, 2])
def test_a_lost_launch_is_repeated_and_no_restart(policy: str, state: str, reason: str, tasks: int) -> None:
    lab = placed(policy, tasks=tasks, max_times=1)
    lost = lab.group()
    lab.report(lost, state, reason=reason, answer=reason == RECONCILIATION)
    lab.offer()
    again = lab.group()
    assert again.id != lost.id and again.status == "Staging"
    assert (again.restarts, again.last_restart_at, again.relaunches) == (0, 0.0, 1)
    told = {(line.reason, line.key) for line in lab.sent(effects.LogLine) if line.kind == "taskgroup"}
    assert ("TaskGroupRelaunched", again.id) in told and not any(reason == "TaskGroupRestarted" for reason, _ in told)
    assert {o.labels[3] for o in lab.sent(effects.Observed) if o.name == "schedule_taskgroup"} == {"relaunch"}


def test_a_successor_launches_again_what_its_leader_had_only_recorded() -> None:
    successor = placed("Never").succeed()
    recorded = successor.group()
    successor.wait(10.0)
    assert (recorded.tasks[0].id, recorded.agent_id) in {
        task for ask in successor.sent(cluster_manager.Reconcile) for task in ask.tasks
    }
    successor.report(recorded, "GONE", answer=True)
    successor.offer()
    assert successor.group().id != recorded.id and successor.group().restarts == 0


@pytest.mark.parametrize("state", ["UNKNOWN", "UNREACHABLE"])
def test_what_an_agent_out_of_reach_may_have_started_is_not_launched_again(state: str) -> None:
    lab = placed("Never")
    group = lab.group()
    lab.report(group, state, answer=True)
    lab.wait(3600.0)
    lab.offer()
    assert lab.group().id == group.id and not lab.group().ended


def test_a_task_that_ran_and_is_gone_has_failed() -> None:
    lab = placed("Never")
    lab.report(lab.group(), "STARTING")
    lab.report(lab.group(), "GONE", answer=True)
    lab.offer()
    assert (lab.group().status, lab.group().ended) == ("Failed", True)


def test_a_task_that_its_agent_ended_has_failed_although_its_start_was_not_heard_of() -> None:
    lab = placed("Never")
    lab.report(lab.group(), "GONE", reason="REASON_EXECUTOR_TERMINATED")
    lab.offer()
    assert (lab.group().status, lab.group().ended) == ("Failed", True)


def test_lost_launches_leave_the_restart_budget_to_failures() -> None:
    lab = placed("OnFailure", max_times=1)
    for _ in range(3):
        lab.report(lab.group(), "DROPPED", reason="REASON_INVALID_OFFERS")
        lab.offer()
    lab.report(lab.group(), "RUNNING")
    failed = lab.group()
    lab.report(failed, "FAILED")
    lab.offer()
    assert lab.group().id != failed.id
    assert (lab.group().restarts, lab.group().relaunches) == (1, 0)
    lab.report(lab.group(), "GONE", answer=True)
    lab.offer()
    assert (lab.group().restarts, lab.group().relaunches) == (1, 1), "restarts before it still count"
    lab.report(lab.group(), "RUNNING")
    lab.report(lab.group(), "FAILED")
    lab.offer()
    assert lab.group().status == "Failed"


def test_launches_that_are_lost_again_and_again_are_held_back() -> None:
    lab = placed("Never")
    pauses = []
    for _ in range(6):
        lost = lab.group()
        lab.report(lost, "DROPPED", reason="REASON_INVALID_OFFERS")
        before = lab.now
        while lab.group().id == lost.id:
            lab.offer()
            if lab.group().id == lost.id:
                lab.wait(0.5)
        pauses.append(lab.now - before)
    assert pauses == [0.0, 0.0, 0.0, 1.0, 2.0, 4.0]


def test_an_executor_that_cannot_be_fetched_is_tried_again_so_often_and_no_more() -> None:
    lab = placed("Never")
    launched = []
    while not lab.group().ended:
        group = lab.group()
        launched.append(group.id)
        lab.report(group, "FAILED", message="Failed to launch container: Failed to fetch", **UNFETCHED)
        assert lab.group().id == group.id, "the fetch is not tried again at once"
        lab.wait(20.0)
        lab.offer()
    assert len(launched) == FETCH_ATTEMPTS
    assert lab.group().status == "Failed" and lab.group().restarts == 0
    assert "Failed to fetch" in lab.group().message
    lab.wait(3600.0)
    lab.offer()
    assert lab.group().id == launched[-1]


def test_a_fetch_that_goes_well_at_last_is_no_restart() -> None:
    lab = placed("OnFailure", max_times=1)
    lab.report(lab.group(), "FAILED", **UNFETCHED)
    lab.wait(2.0)
    lab.offer()
    lab.report(lab.group(), "RUNNING")
    assert (lab.group().status, lab.group().restarts, lab.group().unfetched) == ("Running", 0, 1)


def test_an_answer_before_the_report_of_the_agent_does_not_hide_that_the_fetch_failed() -> None:
    """Answers have no reason. With the policy Never, the taskgroup would stay Failed although it has never run."""
    lab = placed("Never")
    first = lab.group()
    lab.report(first, "FAILED", reason=RECONCILIATION, answer=True)
    assert lab.group().status == "Staging"
    lab.report(first, "FAILED", **UNFETCHED)
    assert (lab.group().status, lab.group().ended) == ("Lost", True)
    lab.wait(2.0)
    lab.offer()
    assert lab.group().id != first.id


def test_an_answer_ends_a_task_that_has_been_seen_to_run() -> None:
    lab = placed("Never")
    lab.report(lab.group(), "RUNNING")
    lab.report(lab.group(), "FAILED", reason=RECONCILIATION, answer=True)
    assert (lab.group().status, lab.group().ended) == ("Failed", True)


def test_what_a_user_reschedules_counts_although_it_was_never_launched() -> None:
    lab = placed("Never")
    group = lab.group()
    lab.ask(requests.RescheduleTaskGroup(taskgroup=group.id))
    lab.report(group, "GONE", answer=True)
    lab.offer()
    assert lab.group().id != group.id and lab.group().restarts == 1


def test_an_answer_about_another_task_of_an_executor_that_was_not_fetched_is_no_failure() -> None:
    """The leader changes between the reports of the two tasks."""
    before = placed("Never", tasks=2)
    before.report(before.group(), "FAILED", tasks=[0], **UNFETCHED)
    lab = before.succeed()
    lost = lab.group()
    assert lost.killing_since and not lost.ended
    lab.report(lost, "FAILED", tasks=[0, 1], reason=RECONCILIATION, answer=True)
    lab.wait(5.0)
    lab.offer()
    again = lab.group()
    assert again.id != lost.id and (again.status, again.restarts, again.unfetched) == ("Staging", 0, 1)
