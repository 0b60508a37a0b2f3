"""UPDATE: new versions within bounds, roll back, and what becomes of taskgroups that fail or vanish meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.interface import requests
from store.records.definition import RestartPolicy, UnreachablePolicy
from tests.unit.lab import Lab, running

NEW: dict[str, Any] = {"labels": {"revision": "2"}}


def not_ready(lab: Lab) -> int:
    ready = [g for g in lab.groups if g.status in ("Running", "Finish") and not g.killing_since]
    return lab.application.instances - len(ready)


@pytest.mark.parametrize(
    ("instances", "bound", "most"), [(8, None, 2), (8, 1, 1), (8, 3, 3), (3, None, 1), (1, None, 1)]
)
def test_never_more_are_unavailable_than_allowed(instances: int, bound: int | None, most: int) -> None:
    lab = running(instances)
    lab.update(instances, bound=bound, **NEW)
    worst = not_ready(lab)
    for _ in range(200):
        if lab.transaction("UPDATE").status != "INIT":
            break
        ending = [g for g in lab.groups if g.killing_since and not g.ended]
        staged = [g for g in lab.groups if not g.started and not g.ended]
        for group in ending[:1]:
            # The end is announced first: until it comes, the taskgroup must not count as available.
            lab.report(group, "KILLING")
            worst = max(worst, not_ready(lab))
            lab.report(group, "KILLED")
        for group in staged[:1]:
            lab.report(group, "RUNNING")
        worst = max(worst, not_ready(lab))
        lab.offer()
    assert lab.transaction("UPDATE").status == "FINISH"
    assert worst == most
    assert {group.version for group in lab.groups} == {lab.application.version}


def test_what_is_not_ready_by_itself_counts_against_the_bound() -> None:
    lab = running(4, restart_policy=RestartPolicy(policy="Never"))
    lab.report(lab.group(3), "FAILED")
    lab.core.turn_context.pool.hand.clear()
    lab.update(4, bound=1, **NEW)
    assert not [group for group in lab.groups if group.killing_since]


def test_an_update_takes_the_index_of_what_it_replaces() -> None:
    lab = running(2)
    before = {group.index: group.id for group in lab.groups}
    lab.update(2, **NEW)
    lab.run()
    after = {group.index: group.id for group in lab.groups}
    assert sorted(after) == sorted(before)
    assert not set(after.values()) & set(before.values())


def test_a_part_can_be_updated() -> None:
    lab = running(4)
    lab.update(4, part=2, **NEW)
    lab.run()
    assert lab.transaction("UPDATE").status == "FINISH"
    assert sum(group.version == lab.application.version for group in lab.groups) == 2
    assert lab.application.status == "Running"


def test_the_same_definition_is_no_update() -> None:
    lab = running(2)
    assert lab.update(2).data["unchanged"]


def test_another_number_with_the_same_definition_is_a_scale() -> None:
    lab = running(2)
    assert lab.update(3).data["opType"] == "SCALE"


def test_another_number_with_another_definition_is_an_update_that_scales() -> None:
    lab = running(2)
    assert lab.update(3, **NEW).data["opType"] == "UPDATE" and lab.transaction("UPDATE").target == 3
    lab.run()
    assert [group.version for group in lab.groups] == [lab.application.version] * 3


def test_a_roll_back_brings_the_earlier_definition_under_a_new_name() -> None:
    lab = running(1, labels={"revision": "1"})
    first = lab.application.version
    lab.update(1, **NEW)
    lab.run()
    lab.ask(requests.RollbackApplication(namespace="default", name="web"))
    lab.run()
    assert int(lab.application.version) > int(first)
    current = lab.core.state.version("default/web", lab.application.version)
    assert current is not None
    assert current.labels == {"revision": "1"}
    assert lab.group().version == current.name


def test_without_an_earlier_version_there_is_nothing_to_roll_back_to() -> None:
    lab = running(1)
    assert lab.ask(requests.RollbackApplication(namespace="default", name="web")).error == "conflict"


def test_an_update_waits_for_an_unreachable_taskgroup_as_its_policy_says() -> None:
    lab = running(1, unreachable_policy=UnreachablePolicy(replace_after=30.0))
    old = lab.group()
    lab.report(old, "UNREACHABLE")
    lab.offer()
    lab.update(1, unreachable_policy=UnreachablePolicy(replace_after=30.0), **NEW)
    assert lab.group().id == old.id
    lab.wait(31)
    lab.offer()
    assert lab.group().id != old.id


def test_an_update_never_replaces_what_must_not_be_doubled() -> None:
    lab = running(1, unreachable_policy=UnreachablePolicy(replace_after=-1.0))
    old = lab.group()
    lab.report(old, "UNREACHABLE")
    lab.update(1, **NEW)
    lab.offer()
    lab.wait(481)
    assert lab.group().id == old.id
    assert lab.transaction("UPDATE").status == "TIMEOUT"


def test_an_update_out_of_time_leaves_everything_running() -> None:
    lab = running(2, restart_policy=RestartPolicy(policy="Never"))
    lab.core.turn_context.pool.hand.clear()
    lab.update(2, restart_policy=RestartPolicy(policy="Never"), **NEW)
    (ending,) = [group for group in lab.groups if group.killing_since]
    lab.report(ending, "KILLED")
    lab.wait(481)
    transaction = lab.transaction("UPDATE")
    assert transaction.status == "TIMEOUT"
    assert "no agent offers resources" in transaction.message
    lab.offer()
    lab.run()
    # What the update had ended already comes back, whatever its policy: nobody wanted it to fail.
    assert [group.status for group in lab.groups] == ["Running", "Running"]
    assert ending.version in {group.version for group in lab.groups}


def test_a_cancelled_update_gives_back_what_it_had_ended() -> None:
    lab = running(2)
    lab.update(2, **NEW)
    lab.cancel(lab.transaction("UPDATE"))
    lab.run()
    assert [group.status for group in lab.groups] == ["Running", "Running"]
    assert lab.application.status == "Running"


def test_an_application_that_wants_nothing_gets_the_definition_only() -> None:
    lab = running(1)
    lab.scale(0)
    lab.run()
    first = lab.application.version
    assert not lab.update(0, **NEW).error
    assert (lab.application.instances, lab.groups) == (0, []) and lab.application.version != first
    assert (lab.transaction("UPDATE").status, lab.application.status) == ("FINISH", "Stopped")
    assert lab.update(0, **NEW).data["unchanged"]


def test_a_restart_that_waits_for_room_is_given_up_when_an_update_makes_the_application_smaller() -> None:
    lab = running(2, restart_policy=RestartPolicy(policy="Always"))
    lab.core.turn_context.pool.hand.clear()
    lab.report(lab.group(1), "FAILED")
    lab.wait(60)
    restart = lab.transaction("RESCHEDULE")
    assert restart.status == "INIT" and lab.group(1).ended
    lab.update(1, **NEW)
    assert [group.index for group in lab.groups] == [0]
    assert lab.core.state.transactions[restart.id].status == "FINISH"
