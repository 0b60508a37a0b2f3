"""What an operation could not launch in its time stays wanted; applications of no taskgroups are kept."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.options import CoreOptions
from store.records import Transaction
from tests.unit.lab import Lab, running, version
from tests.unit.rollinglab import deployed
from transactions.base import Options, Periods

NEW: dict[str, Any] = {"labels": {"revision": "2"}}
LIFE = 20.0
"""Seconds that each operation has: less than the cluster has to answer a reconciliation."""
OPTIONS = CoreOptions(
    strict=True,
    transactions=Options(periods=Periods(default=LIFE, launch=LIFE, rolling_up=LIFE, inner_reschedule=LIFE)),
)


def active(lab: Lab) -> list[Transaction]:
    return [transaction for transaction in lab.core.state.transactions.values() if transaction.active]


def overdue(instances: int, placed: int) -> Lab:
    """The launch of an application has run out of time; `placed` of its taskgroups run."""
    lab = Lab(OPTIONS)
    if placed:
        lab.offer(cpus=100 * placed)
    lab.create(instances)
    for group in lab.groups:
        lab.report(group, "RUNNING")
    lab.wait(LIFE + 1)
    assert lab.transaction("LAUNCH").status == "TIMEOUT" and len(lab.groups) == placed
    return lab


def start(lab: Lab) -> None:
    for group in lab.groups:
        if not group.started:
            lab.report(group, "RUNNING")


def test_a_launch_that_ran_out_of_time_goes_on_when_there_is_room() -> None:
    lab = overdue(5, 2)
    assert lab.application.status == "Pending" and "timeout" in lab.application.message
    assert [transaction.type for transaction in active(lab)] == ["FILL"]
    lab.offer(cpus=200)
    assert len(lab.groups) == 4 and lab.application.status == "Pending"
    lab.offer()
    assert lab.transaction("FILL").status == "FINISH"
    start(lab)
    assert [group.index for group in lab.groups] == [0, 1, 2, 3, 4] and lab.application.status == "Running"


def test_an_application_that_found_no_place_at_all_waits_as_well() -> None:
    lab = overdue(3, 0)
    assert lab.application.status == "Pending"
    lab.wait(LIFE + 1)
    assert len(active(lab)) == 1, "another one follows"
    lab.offer()
    start(lab)
    assert (len(lab.groups), lab.application.status, active(lab)) == (3, "Running", [])


def test_a_scale_that_ran_out_of_time_is_filled_up() -> None:
    lab = running(1, OPTIONS)
    lab.core.turn_context.pool.hand.clear()
    lab.scale(3)
    lab.wait(LIFE + 1)
    assert lab.transaction("SCALE").status == "TIMEOUT" and lab.application.status == "Pending"
    lab.offer()
    start(lab)
    assert (len(lab.groups), lab.application.status) == (3, "Running")


def test_operations_of_users_take_the_place_of_a_fill() -> None:
    lab = overdue(5, 2)
    fill = lab.transaction("FILL")
    assert lab.scale(3).error == ""
    assert lab.core.state.transactions[fill.id].status == "SUPERSEDED"
    lab.offer()
    start(lab)
    assert [group.index for group in lab.groups] == [0, 1, 2] and active(lab) == []
    assert lab.application.status == "Running"


def test_a_newer_definition_is_what_is_filled_in() -> None:
    lab = overdue(4, 2)
    assert lab.update(4, **NEW).error == ""
    lab.offer()
    lab.run()
    assert {group.version for group in lab.groups} == {lab.application.version} and len(lab.groups) == 4


def test_a_cancelled_fill_leaves_what_is_there() -> None:
    lab = overdue(5, 2)
    assert lab.cancel(lab.transaction("FILL")).error == ""
    lab.offer()
    assert (lab.application.instances, len(lab.groups), active(lab)) == (2, 2, [])
    assert lab.application.status == "Running"


def test_a_cancelled_launch_of_nothing_is_stopped_and_begins_with_a_scale() -> None:
    lab = Lab()
    lab.create(3)
    assert lab.cancel(lab.transaction("LAUNCH")).error == ""
    lab.offer()
    assert (lab.application.instances, lab.application.status, lab.groups) == (0, "Stopped", [])
    assert lab.scale(2).error == ""
    start(lab)
    assert (len(lab.groups), lab.application.status) == (2, "Running")


def test_a_deletion_ends_the_fill() -> None:
    lab = overdue(3, 1)
    lab.delete()
    lab.run()
    assert "default/web" not in lab.core.state.applications and active(lab) == []


def test_a_successor_goes_on_filling() -> None:
    lab = overdue(3, 1).succeed()
    lab.offer()
    start(lab)
    assert (len(lab.groups), lab.application.status) == (3, "Running")


# --- applications of no taskgroups ------------------------------------------------------------------------------------


def test_an_application_is_stopped_by_a_scale_to_zero_and_kept() -> None:
    lab = running(3)
    assert lab.scale(0).error == ""
    lab.run()
    assert (lab.groups, lab.application.instances, lab.application.status) == ([], 0, "Stopped")
    assert lab.transaction("SCALE").status == "FINISH" and active(lab) == []
    assert lab.scale(2).error == ""
    lab.run()
    assert (len(lab.groups), lab.application.status) == (2, "Running")


def test_an_application_may_be_created_without_taskgroups() -> None:
    lab = Lab()
    lab.offer()
    assert lab.create(0).error == ""
    assert (lab.transaction("LAUNCH").status, lab.application.status) == ("FINISH", "Stopped")
    assert lab.scale(1).error == ""
    lab.run()
    assert lab.application.status == "Running"


def test_a_document_may_stop_an_application_and_start_it_again() -> None:
    lab = running(2)
    assert lab.ask(requests.UpdateApplication(version=version(0), size=0)).error == ""
    lab.run()
    assert lab.application.status == "Stopped"
    assert lab.ask(requests.UpdateApplication(version=version(0, **NEW), size=2)).error == ""
    lab.run()
    assert (len(lab.groups), lab.application.status) == (2, "Running")
    assert {group.version for group in lab.groups} == {lab.application.version}


def test_a_deployment_is_stopped_updated_and_started_again() -> None:
    lab = deployed(3)
    assert lab.resize(0).error == ""
    lab.run()
    assert (lab.groups, lab.deployment.status, lab.deployment.instances) == ([], "Running", 0)
    assert lab.renew(0, **NEW).error == ""
    lab.run()
    assert (lab.groups, lab.deployment.status, lab.deployment.revision) == ([], "Running", 2)
    assert lab.resize(2).error == ""
    lab.run()
    assert (len(lab.groups), lab.deployment.status) == (2, "Running")
    current = lab.core.state.version(f"default/{lab.deployment.application}", lab.groups[0].version)
    assert current is not None and current.labels == NEW["labels"]
