"""What counts for a deployment is what serves: taskgroups that have ended do not, and launches are never given up."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.interface import cluster_manager, inputs, requests
from store.records import Strategy
from store.records.definition import Container, Process
from tests.unit.lab import version
from tests.unit.rollinglab import NEVER, NEW, RollingLab, checked, deployed, healthy, wish
from transactions.rules.deployment_status import Condition, summarize
from transactions.rules.task_states import TaskState

NO_LOSS = Strategy(max_unavailable=0, max_surge=1, min_ready=30.0)


def progressing(lab: RollingLab) -> Condition:
    return summarize(lab.core.state, lab.deployment, lab.now).conditions[0]


def available(lab: RollingLab) -> Condition:
    return summarize(lab.core.state, lab.deployment, lab.now).conditions[1]


# --- finished ---------------------------------------------------------------------------------------------------------


def test_an_update_to_a_program_that_ends_well_is_no_success() -> None:
    lab = deployed(3, NO_LOSS)
    lab.renew(3, **NEW)
    lab.offer()
    lab.report(lab.new[0], "RUNNING")
    lab.report(lab.new[0], "FINISHED")
    assert lab.deployment.status == "UpdateSuspend"
    assert "ended for good: 1 taskgroup" in lab.deployment.message and "Finish" in lab.deployment.message
    assert (lab.ready, len(lab.old)) == (3, 3)


def test_it_is_undone_where_failures_are() -> None:
    lab = deployed(3, Strategy(max_unavailable=0, max_surge=1, on_failure="rollback"))
    lab.renew(3, **NEW)
    lab.offer()
    lab.report(lab.new[0], "FINISHED")
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision, lab.ready) == ("Running", 1, 3)
    lab.hold_bounds()


def test_old_ones_that_have_finished_go_first_and_count_for_nothing() -> None:
    lab = deployed(3, Strategy(max_unavailable=1, max_surge=0, order="DeleteFirst"))
    lab.report(lab.group_of(0), "FINISHED")
    lab.renew(3, **NEW)
    assert [group.killing_since for group in lab.old] == [0.0, 0.0], "the budget is used up"
    assert {group.index for group in lab.old} == {1, 2}
    lab.run()
    assert (lab.deployment.status, lab.ready) == ("Running", 3)


def test_at_rest_what_has_ended_for_good_is_said() -> None:
    lab = deployed(2)
    lab.report(lab.group_of(1), "FINISHED")
    assert progressing(lab).reason == "Ended"
    assert "1 taskgroup ended and not restarted: web-1" in progressing(lab).message
    lab.report(lab.group_of(0), "FINISHED")
    assert available(lab).reason == "TooFew"


def test_going_back_does_not_wait_for_what_had_finished_before() -> None:
    lab = deployed(3, Strategy(max_unavailable=2, max_surge=1))
    lab.report(lab.group_of(0), "FINISHED")
    lab.renew(3, **NEW)
    lab.run_until(lambda: len(lab.new) > 1)
    lab.control("cancel")
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision, lab.ready) == ("Running", 1, 3)


# --- in one turn ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["failure", "verdict"])
def test_what_fails_in_the_turn_in_which_others_are_chosen_holds_up_nothing(kind: str) -> None:
    fields = {**NEVER, **(checked() if kind == "verdict" else {})}
    lab = RollingLab()
    lab.offer()
    lab.deploy(4, strategy=Strategy(order="DeleteFirst"), **fields)
    lab.run_applications()
    for group in lab.groups:
        healthy(lab, group)
    assert lab.deployment.status == "Running" and lab.ready == 4
    lab.measure()
    group, task = lab.group_of(0), lab.group_of(0).tasks[0]
    event: inputs.Input = requests.ReportHealth(task_id=task.id, type="REMOTE_TCP", healthy=False, message="no")
    if kind == "failure":
        event = cluster_manager.StatusUpdate(
            task_id=task.id, state=TaskState.FAILED, agent_id=group.agent_id, uuid=b"1"
        )
    update = requests.UpdateDeployment(
        deployment=wish(4, strategy=Strategy(order="DeleteFirst")), version=version(4, **fields, **NEW)
    )
    lab.turn(update, event)
    began = lab.now
    while lab.deployment.updating and lab.now < began + 60:
        lab.wait(1)
        lab.once()
        for new in lab.new if lab.deployment.updating else []:
            healthy(lab, new)
    assert (lab.deployment.status, lab.ready) == ("Running", 4)
    assert lab.least >= 3


# --- launches ---------------------------------------------------------------------------------------------------------


def test_a_launch_that_ran_out_of_time_is_begun_again() -> None:
    lab = RollingLab()
    lab.deploy(3)
    lab.wait(1801)
    assert lab.deployment.status == "Running" and "launch timed out" in lab.deployment.message
    assert progressing(lab).reason == "LaunchFailed"
    lab.offer()
    lab.wait(58)
    assert not lab.groups
    lab.wait(2)
    assert lab.deployment.status == "Deploying"
    lab.run()
    assert (lab.deployment.status, lab.deployment.message, lab.ready) == ("Running", "", 3)
    assert progressing(lab).reason == "Complete"


def test_it_is_so_for_a_scale_and_for_the_next_leader() -> None:
    lab = deployed(2)
    lab.core.turn_context.pool.hand.clear()
    lab.resize(4)
    lab.wait(481)
    assert progressing(lab).reason == "LaunchFailed"
    lab = lab.succeed()
    lab.wait(61)
    lab.offer()
    lab.run()
    assert (lab.deployment.status, lab.ready) == ("Running", 4)


def test_a_scale_makes_way_for_itself_while_a_launch_waits() -> None:
    lab = RollingLab()
    lab.deploy(3)
    lab.wait(5)
    assert lab.deployment.status == "Deploying"
    assert lab.resize(1).error == ""
    lab.offer()
    lab.run()
    assert (lab.deployment.status, lab.deployment.instances, len(lab.groups)) == ("Running", 1, 1)


def test_a_scale_to_the_number_of_the_launch_that_waits_changes_nothing() -> None:
    lab = RollingLab()
    lab.deploy(3)
    lab.wait(5)
    active = [id for id, one in lab.core.state.transactions.items() if one.active]
    reply = lab.resize(3)
    assert (reply.error, reply.data["unchanged"]) == ("", True)
    assert [id for id, one in lab.core.state.transactions.items() if one.active] == active
    lab.offer()
    lab.run()
    assert (lab.deployment.status, len(lab.groups)) == ("Running", 3)


# --- documents and kinds ----------------------------------------------------------------------------------------------


def test_a_roll_back_brings_the_whole_document() -> None:
    lab = deployed(2, Strategy(max_surge=1))
    lab.renew(2, strategy=Strategy(max_surge=3, on_failure="rollback"), **NEW)
    lab.run()
    assert lab.undo(1).error == ""
    lab.run()
    assert (lab.deployment.strategy, lab.deployment.revision) == (Strategy(max_surge=1), 3)
    assert lab.deployment.raw == lab.core.state.revisions["default/web/1"].raw


def test_the_kind_of_an_application_is_that_of_what_it_runs() -> None:
    host: dict[str, Any] = {"containers": (Container(process=Process(start="serve")),)}
    lab = deployed(1, **host)
    assert lab.application.type == "process"
    lab.renew(1)
    lab.run()
    assert lab.application.type == "application"
    lab.undo(1)
    lab.run()
    assert lab.application.type == "process"


def test_a_rest_between_steps_says_so_and_a_resume_ends_it() -> None:
    lab = deployed(3, Strategy(pause=300.0, max_unavailable=0))
    lab.renew(3, **NEW)
    lab.run()
    assert "step 1 ended; the next one begins 5m later" in lab.deployment.message
    assert lab.control("resume").error == ""
    lab.run()
    assert len(lab.new) == 2
