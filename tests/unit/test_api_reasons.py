"""Why a workload is not as it is defined, in one line of a list."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.api.views.applications import show_application
from bcs_scheduler.api.views.explain import explain_application
from bcs_scheduler.api.views.reasons import reason_of
from bcs_scheduler.api.views.taskgroups import Presenter
from bcs_scheduler.core.interface import inputs
from store.records.definition import Amounts, Container, HealthCheck, RestartPolicy
from store.records.running import LAST_FAILURE
from tests.counting import Calls
from tests.unit.lab import Lab, running
from transactions.explain import UNTRIED_WORDS

LATER = RestartPolicy(interval=60.0)


def reason(lab: Lab) -> str:
    return reason_of(lab.core.state, lab.application, lab.core.diagnosis)


def taskgroup(lab: Lab, index: int = 0) -> Any:
    return Presenter(lab.core.state).taskgroup(lab.group(index))


def test_what_is_as_defined_has_no_reason() -> None:
    lab = running(2)
    assert reason(lab) == ""
    assert show_application(lab.core.state, lab.application, lab.core.diagnosis).reason == ""


def test_taskgroups_without_a_place_name_the_tests_with_the_numbers_of_agents() -> None:
    lab = Lab()
    lab.create(3)
    assert reason(lab) == f"3 taskgroups without a place: {UNTRIED_WORDS}"
    lab.wait(1.1)
    assert reason(lab) == "3 taskgroups without a place: no agent offers resources at the moment"
    lab.offer(cpus=250)
    assert reason(lab).startswith("1 taskgroup without a place: 0 of 1 agent matches: 1 lacks CPUs; closest for CPUs")


def test_replacements_without_a_place_are_counted_together() -> None:
    """Each of them has a transaction of its own."""
    lab = running(3, restart_policy=RestartPolicy(policy="Always"))
    for index in range(3):
        lab.report(lab.group(index), "FAILED", message="exit code 3")
    assert not lab.group(0).ended, "the first one gets the room that is left"
    lab.wait(1.1)
    words = "2 taskgroups without a place: no agent offers resources at the moment"
    assert reason(lab).startswith(f"{words}; 2 taskgroups failed (web-1: exit code 3)")
    told = explain_application(lab.core.state, lab.application, lab.core.diagnosis, lab.now).text
    assert [line for line in told if "without a place" in line] == [words], "and no other number beside it"


def test_failed_taskgroups_are_counted_and_one_is_named_with_its_message() -> None:
    lab = running(3, restart_policy=LATER)
    lab.report(lab.group(1), "FAILED", message="exit code 3")
    lab.report(lab.group(2), "FAILED", message="exit code 4")
    assert reason(lab) == "2 taskgroups failed (web-1: exit code 3)"


def test_a_restarted_taskgroup_names_the_failure_before_it_until_it_runs() -> None:
    lab = running(2, restart_policy=RestartPolicy(policy="Always"))
    lab.report(lab.group(1), "FAILED", message="exit code 3 " + "x" * 1000)
    lab.offer()
    assert lab.group(1).restarts == 1 and len(lab.group(1).last_failure) == LAST_FAILURE
    assert reason(lab).startswith("starts again after a failure (web-1: exit code 3 xxx")
    assert taskgroup(lab, 1).last_failure == lab.group(1).last_failure
    lab.report(lab.group(1), "RUNNING")
    assert reason(lab) == "" and taskgroup(lab, 1).last_failure.startswith("exit code 3")
    assert taskgroup(lab, 0).last_failure == ""
    lab.report(lab.group(1), "FINISHED")
    lab.offer()
    assert lab.group(1).restarts == 2 and lab.group(1).last_failure == ""


def test_failing_checks_are_named() -> None:
    check = HealthCheck(type="REMOTE_TCP", port=80)
    container = Container(name="serve", command="serve", requests=Amounts(cpus=100, mem=32_000), health_checks=(check,))
    lab = running(1, containers=(container,))
    task = lab.group(0).tasks[0].id
    lab.turn(inputs.HealthReported(task_id=task, type="REMOTE_TCP", healthy=False, message="connection refused"))
    assert reason(lab) == "1 taskgroup is not healthy (web-0: serve REMOTE_TCP: connection refused)"


def test_a_taskgroup_says_when_it_starts_again_or_why_it_does_not() -> None:
    lab = running(1, restart_policy=RestartPolicy(policy="OnFailure", interval=30.0, max_times=1))
    assert (taskgroup(lab).next_start, taskgroup(lab).not_replaced) == (0, "")
    lab.report(lab.group(), "FAILED")
    assert (taskgroup(lab).next_start, taskgroup(lab).not_replaced) == (int(lab.now + 30), "")
    before = Presenter(lab.core.state).encoded(lab.group())
    lab.wait(31)
    lab.offer()
    lab.run()
    lab.report(lab.group(), "FAILED")
    assert (taskgroup(lab).next_start, taskgroup(lab).not_replaced) == (0, "restarts")
    assert Presenter(lab.core.state).encoded(lab.group()) != before


def test_the_policy_never_and_success_are_told_apart() -> None:
    lab = running(1, restart_policy=RestartPolicy(policy="Never"))
    lab.report(lab.group(), "FAILED")
    assert taskgroup(lab).not_replaced == "policy"
    lab = running(1)
    lab.report(lab.group(), "FINISHED")
    assert taskgroup(lab).not_replaced == "finished"


def test_the_encoded_view_follows_the_end_of_its_restart() -> None:
    lab = running(1, restart_policy=LATER)
    lab.report(lab.group(), "FAILED")
    group = lab.group()
    before = Presenter(lab.core.state).encoded(group)
    lab.cancel(lab.transaction("RESCHEDULE"))
    assert Presenter(lab.core.state).encoded(lab.group()) != before


def test_a_reason_costs_the_same_beside_many_taskgroups() -> None:
    costs = []
    for instances in (300, 900):
        lab = running(instances, restart_policy=LATER)
        lab.report(lab.group(0), "FAILED", message="exit code 3")
        with Calls() as calls:
            assert reason(lab) == "1 taskgroup failed (web-0: exit code 3)"
        costs.append(calls.number)
    assert costs[1] <= costs[0] + 5, costs
