"""The status rules: reports -> tasks -> taskgroups -> applications, and when a taskgroup is restarted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.records import Task, TaskGroup
from store.records.definition import RestartPolicy, UnreachablePolicy
from transactions.rules.lifecycle import (
    RESTART_DELAY_MAX,
    STATES,
    Report,
    advance,
    application_status,
    reduce_task,
    restart_decision,
    taskgroup_status,
)
from transactions.rules.task_states import TaskState

NOW = 1_700_000_000.0
ENDED = [state for state, mapped in STATES.items() if mapped.ended]


def task(status: str = "Running", *, ended: bool = False, **fields: Any) -> Task:
    return Task(id="t", status=status, ended=ended, **fields)  # type: ignore[arg-type]


def group(*tasks: Task, **fields: Any) -> TaskGroup:
    bare = TaskGroup(id="g", namespace="n", application="a", index=0, version="1", tasks=tasks or (task(),))
    return msgspec.structs.replace(bare, **fields)


# --- tasks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "status", "ended"),
    [
        (TaskState.STAGING, "Staging", False),
        (TaskState.STARTING, "Starting", False),
        (TaskState.RUNNING, "Running", False),
        (TaskState.KILLING, "Killing", False),
        (TaskState.FINISHED, "Finish", True),
        (TaskState.FAILED, "Failed", True),
        (TaskState.GONE, "Failed", True),
        (TaskState.KILLED, "Killed", True),
        (TaskState.ERROR, "Error", True),
        (TaskState.LOST, "Lost", True),
        (TaskState.DROPPED, "Lost", True),
        (TaskState.GONE_BY_OPERATOR, "Lost", True),
        (TaskState.UNREACHABLE, "Lost", False),
        (TaskState.UNKNOWN, "Lost", False),
    ],
)
def test_every_state_of_mesos_has_a_status(state: TaskState, status: str, ended: bool) -> None:
    reduced = reduce_task(task("Staging"), Report(state), NOW)
    assert (reduced.status, reduced.ended) == (status, ended)


@pytest.mark.parametrize("first", ENDED)
@pytest.mark.parametrize("later", sorted(STATES))
def test_a_task_that_has_ended_never_changes(first: TaskState, later: TaskState) -> None:
    ended = reduce_task(task(), Report(first), NOW)
    assert reduce_task(ended, Report(later), NOW + 1) is ended


@pytest.mark.parametrize(
    ("status", "late"),
    [
        ("Starting", TaskState.STAGING),
        ("Running", TaskState.STARTING),
        ("Running", TaskState.STAGING),
        ("Killing", TaskState.RUNNING),
        ("Killing", TaskState.STARTING),
    ],
)
def test_a_late_report_does_not_move_a_task_backwards(status: str, late: TaskState) -> None:
    before = task(status)
    assert reduce_task(before, Report(late), NOW) is before


@pytest.mark.parametrize("state", [TaskState.STARTING, TaskState.RUNNING, TaskState.KILLING])
def test_a_task_comes_back_with_its_agent(state: TaskState) -> None:
    lost = reduce_task(task(), Report(TaskState.UNREACHABLE), NOW)
    assert reduce_task(lost, Report(state), NOW).status == STATES[state].status


def test_exit_with_zero_is_finish_not_failed() -> None:
    assert reduce_task(task(), Report(TaskState.FINISHED), NOW).status == "Finish"


def test_a_report_that_says_nothing_new_changes_nothing() -> None:
    before = task(message="up", container_ip="10.1.1.1")
    assert reduce_task(before, Report(TaskState.RUNNING), NOW) is before


def test_running_out_of_memory_is_remembered() -> None:
    killed = reduce_task(task(), Report(TaskState.FAILED, out_of_memory=True), NOW)
    assert killed.oom


def test_an_unknown_state_changes_nothing() -> None:
    before = task()
    assert reduce_task(before, Report("DANCING"), NOW) is before  # type: ignore[arg-type]


@given(st.lists(st.sampled_from(sorted(STATES)), max_size=12))
def test_whatever_is_reported_ends_are_final_and_no_report_is_repeated(states: list[TaskState]) -> None:
    current = task("Staging")
    for state in states:
        after = reduce_task(current, Report(state), NOW)
        if current.ended:
            assert after is current
        assert reduce_task(after, Report(state), NOW + 1) is after
        current = after


# --- taskgroups -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["Running", "Failed"], "Failed"),
        (["Failed", "Killing"], "Failed"),
        (["Running", "Killing"], "Killing"),
        (["Running", "Error"], "Error"),
        (["Finish", "Finish"], "Finish"),
        (["Killed", "Killed"], "Killed"),
        (["Killed", "Finish"], "Killed"),
        (["Running", "Lost"], "Lost"),
        (["Staging", "Staging"], "Staging"),
        (["Running", "Starting"], "Starting"),
        (["Running", "Restarting"], "Restarting"),
        (["Running", "Finish"], "Running"),
        (["Running", "Running"], "Running"),
        (["Staging", "Finish"], "Unknown"),
    ],
)
def test_the_first_rule_that_holds_names_the_taskgroup(statuses: list[str], expected: str) -> None:
    assert taskgroup_status([task(status) for status in statuses])[0] == expected


def test_only_a_task_that_may_still_run_makes_a_taskgroup_unreachable() -> None:
    away = advance(group(), (task("Lost"),), NOW)
    assert away.unreachable_since == NOW
    partly_ended = advance(group(), (task("Lost", ended=True), task()), NOW)
    assert not partly_ended.unreachable_since
    assert not advance(away, (task(),), NOW + 1).unreachable_since


def test_the_moments_of_a_life_are_kept() -> None:
    began = advance(group(task("Staging")), (task(),), NOW)
    assert (began.running_since, began.started) == (NOW, True)
    assert advance(began, (task(),), NOW + 5).running_since == NOW
    over = advance(began, (task("Failed", ended=True),), NOW + 9)
    assert (over.ended_at, over.running_since) == (NOW + 9, NOW)


def test_running_again_lifts_the_hold_of_a_cancelled_restart() -> None:
    held = group(task("Lost"), held=True)
    assert advance(held, (task("Lost"),), NOW).held
    assert not advance(held, (task(),), NOW).held


# --- applications -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "wanted", "expected"),
    [
        ({"Running": 3, "Error": 1}, 4, "Error"),
        ({"Running": 3, "Failed": 1}, 4, "Abnormal"),
        ({"Running": 3, "Killed": 1}, 4, "Abnormal"),
        ({"Running": 3, "Lost": 1}, 4, "Abnormal"),
        ({"Running": 3}, 4, "Pending"),
        ({}, 2, "Pending"),
        ({}, 0, "Stopped"),
        ({"Finish": 4}, 4, "Finish"),
        ({"Finish": 3, "Running": 1}, 4, "Abnormal"),
        ({"Running": 3, "Starting": 1}, 4, "Deploying"),
        ({"Staging": 4}, 4, "Deploying"),
        ({"Running": 4}, 4, "Running"),
        ({"Running": 3, "Restarting": 1}, 4, "Running"),
        ({"Running": 3, "Killing": 1}, 4, "Abnormal"),
    ],
)
def test_an_application_says_what_its_taskgroups_are(counts: dict[str, int], wanted: int, expected: str) -> None:
    assert application_status(counts, wanted)[0] == expected


# --- restarts ---------------------------------------------------------------------------------------------------


def decide(member: TaskGroup, policy: RestartPolicy, now: float = NOW, replace_after: float = 60.0) -> Any:
    return restart_decision(member, policy, UnreachablePolicy(replace_after=replace_after), 1800.0, now)


def over(status: str, **fields: Any) -> TaskGroup:
    return group(task(status, ended=True), **{"status": status, "started": True, "ended_at": NOW, **fields})


@pytest.mark.parametrize(
    ("policy", "status", "restarted"),
    [
        ("Never", "Failed", False),
        ("Never", "Finish", False),
        ("OnFailure", "Failed", True),
        ("OnFailure", "Error", True),
        ("OnFailure", "Killed", True),
        ("OnFailure", "Lost", True),
        ("OnFailure", "Finish", False),
        ("Always", "Finish", True),
        ("Always", "Failed", True),
    ],
)
def test_the_policy_says_what_is_restarted(policy: Any, status: str, restarted: bool) -> None:
    assert (decide(over(status), RestartPolicy(policy=policy)) is not None) == restarted


@pytest.mark.parametrize(("restarts", "delay"), [(0, 10.0), (1, 15.0), (4, 30.0)])
def test_interval_and_backoff_add_up(restarts: int, delay: float) -> None:
    policy = RestartPolicy(policy="Always", interval=10.0, backoff=5.0)
    member = over("Failed", restarts=restarts, last_restart_at=NOW - 60)
    assert decide(member, policy) == (NOW + delay, restarts, "Failed")


def test_the_delay_is_bounded() -> None:
    policy = RestartPolicy(policy="Always", interval=10.0, backoff=50_000.0)
    assert decide(over("Failed", restarts=9, last_restart_at=NOW - 1), policy).at == NOW + RESTART_DELAY_MAX


@pytest.mark.parametrize(("restarts", "hold"), [(0, 0.0), (2, 0.0), (3, 1.0), (5, 4.0), (30, 60.0)])
def test_a_crash_loop_is_held_back_even_without_a_policy(restarts: int, hold: float) -> None:
    member = over("Failed", restarts=restarts, last_restart_at=NOW - 1)
    assert decide(member, RestartPolicy(policy="Always")).at == NOW + hold


def test_maxtimes_ends_the_restarts() -> None:
    policy = RestartPolicy(policy="Always", max_times=2)
    assert decide(over("Failed", restarts=1, last_restart_at=NOW - 1), policy) is not None
    assert decide(over("Failed", restarts=2, last_restart_at=NOW - 1), policy) is None


def test_half_an_hour_of_running_makes_the_count_start_anew() -> None:
    policy = RestartPolicy(policy="Always", max_times=2)
    member = over("Failed", restarts=2, last_restart_at=NOW - 1801, running_since=NOW - 1800)
    assert decide(member, policy).restarts == 0
    short = over("Failed", restarts=2, last_restart_at=NOW - 1799, running_since=NOW - 1799)
    assert decide(short, policy) is None


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
def test_a_launch_that_did_not_happen_is_always_repeated(policy: Any) -> None:
    assert decide(over("Lost", started=False), RestartPolicy(policy=policy)).at == NOW


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
def test_what_an_operation_ended_and_left_is_always_replaced(policy: Any) -> None:
    member = over("Killed", killing_since=NOW - 3, end_cause="NewVersion")
    assert decide(member, RestartPolicy(policy=policy)).at == NOW


def test_the_rest_of_a_taskgroup_that_broke_is_no_operation() -> None:
    broken = over("Failed", killing_since=NOW - 3, end_cause="TaskEnded")
    assert decide(broken, RestartPolicy(policy="Never")) is None
    assert decide(broken, RestartPolicy(policy="OnFailure", interval=7.0)).at == NOW + 7.0


def test_an_unreachable_taskgroup_is_replaced_after_its_wait_or_never() -> None:
    away = group(task("Lost"), status="Lost", started=True, unreachable_since=NOW)
    assert decide(away, RestartPolicy(policy="OnFailure"), NOW + 1).at == NOW + 60
    assert decide(away, RestartPolicy(policy="OnFailure"), NOW + 1, replace_after=-1.0) is None
    assert decide(away, RestartPolicy(policy="Never"), NOW + 1) is None


def test_a_cancelled_restart_is_not_decided_again() -> None:
    assert decide(over("Failed", held=True), RestartPolicy(policy="Always")) is None


def test_a_running_taskgroup_is_left_alone() -> None:
    assert decide(group(status="Running", started=True), RestartPolicy(policy="Always")) is None
