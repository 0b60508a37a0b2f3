"""DELETE: waiting for every end, enforced without waiting, out of time, cancelled."""

from __future__ import annotations

import itertools

import pytest

from bcs_scheduler.core.options import CoreOptions
from tests.unit.lab import KEY, running


def test_an_application_is_gone_when_all_its_taskgroups_have_ended() -> None:
    lab = running(3)
    lab.delete()
    assert len(lab.ended()) == 3
    assert KEY in lab.core.state.applications
    for group in lab.groups:
        lab.report(group, "KILLED")
    assert KEY not in lab.core.state.applications
    assert not lab.core.state.versions_of(KEY)
    assert lab.transaction("DELETE").status == "FINISH"


@pytest.mark.parametrize("unit_changes", [1, 200])
def test_enforced_it_is_gone_at_once_and_what_may_run_is_killed(unit_changes: int) -> None:
    lab = running(3, CoreOptions(strict=True, unit_changes=unit_changes))
    tasks = {task.id for group in lab.groups for task in group.tasks}
    lab.delete(enforce=True)
    assert KEY not in lab.core.state.applications
    assert set(lab.ended()) == tasks


def test_a_delete_overrules_what_runs() -> None:
    lab = running(1)
    lab.scale(2)
    lab.delete()
    assert lab.transaction("SCALE").status in ("CANCEL", "FINISH")
    assert not [t for t in lab.core.state.active_of(KEY).values() if t.type != "DELETE"]


def test_a_delete_is_sharpened_by_an_enforced_one() -> None:
    lab = running(1)
    lab.delete()
    first = lab.transaction("DELETE")
    assert lab.delete().data["transactionID"] == first.id
    lab.delete(enforce=True)
    assert lab.core.state.transactions[first.id].status == "CANCEL"
    assert KEY not in lab.core.state.applications


def test_out_of_time_it_says_what_is_in_the_way_and_nothing_is_started_again() -> None:
    lab = running(2)
    lab.report(lab.group(0), "UNREACHABLE")
    lab.delete()
    lab.report(lab.group(1), "KILLED")
    lab.now += 7501
    lab.turn()
    transaction = lab.transaction("DELETE")
    assert (transaction.status, transaction.progress) == ("TIMEOUT", 1)
    assert "1 of them on unreachable agents" in transaction.message
    lab.report(lab.group(0), "KILLED")
    lab.offer()
    assert not lab.groups
    assert lab.application.status == "Stopped"


def test_after_a_cancelled_delete_the_application_can_be_scaled_up_again() -> None:
    lab = running(2)
    lab.delete()
    lab.cancel(lab.transaction("DELETE"))
    lab.run()
    assert not lab.groups
    assert lab.application.instances == 0
    lab.scale(2)
    lab.offer()
    lab.run()
    assert lab.application.status == "Running"


def test_a_lost_kill_is_repeated_with_growing_pauses() -> None:
    lab = running(1)
    lab.delete()
    moments = []
    began = lab.now
    for _ in range(120):
        lab.wait(1.0)
        moments += [lab.now - began] * bool(lab.ended())
    pauses = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert len(moments) >= 3
    assert pauses == sorted(pauses)
    assert max(pauses) <= 62


def test_an_unknown_application_cannot_be_deleted() -> None:
    lab = running(1)
    lab.delete(enforce=True)
    assert lab.delete().error == "not_found"
