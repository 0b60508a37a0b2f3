"""A newer request supersedes the operation that runs: nothing is doubled, and bounds hold."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.interface import effects, requests
from store.records import Transaction
from tests.unit.lab import Lab, running, version

PLACE: dict[str, Any] = {"namespace": "default", "name": "web"}
NEW: dict[str, Any] = {"labels": {"revision": "2"}}
NEWER: dict[str, Any] = {"labels": {"revision": "3"}}


def scale(lab: Lab, instances: int, **fields: Any) -> effects.Reply:
    return lab.ask(requests.ScaleApplication(instances=instances, on_conflict="supersede", **PLACE, **fields))


def update(
    lab: Lab, instances: int, *, part: int | None = None, bound: int | None = None, **fields: Any
) -> effects.Reply:
    wanted = version(instances, **fields)
    command = requests.UpdateApplication(version=wanted, instances=part, max_unavailable=bound, on_conflict="supersede")
    return lab.ask(command)


def active(lab: Lab) -> list[Transaction]:
    return [t for t in lab.core.state.transactions.values() if t.active]


def settle(lab: Lab) -> None:
    for _ in range(20):
        lab.offer()
        lab.run()
        if not active(lab):
            return
    raise AssertionError(f"still under way: {active(lab)}")


def begun(instances: int, placed: int) -> Lab:
    """An application whose launch has found room for some of its taskgroups only."""
    lab = Lab()
    lab.offer(cpus=100 * placed)
    lab.create(instances)
    assert len(lab.groups) == placed and lab.transaction("LAUNCH").active
    return lab


def test_an_update_supersedes_a_launch_and_launches_what_is_missing() -> None:
    lab = begun(5, 2)
    launch = lab.transaction("LAUNCH")
    reply = update(lab, 5, **NEW)
    assert reply.error == "" and reply.data["opType"] == "UPDATE"
    ended = lab.core.state.transactions[launch.id]
    assert (ended.status, ended.progress) == ("SUPERSEDED", 2)
    assert ended.message == f"superseded by update {reply.data['transactionID'][-6:]}"
    assert reply.data["superseded"] == [launch.id]
    assert [t.id for t in active(lab)] == [reply.data["transactionID"]] == [lab.application.operation]
    settle(lab)
    assert lab.transaction("UPDATE").status == "FINISH"
    assert [group.index for group in lab.groups] == [0, 1, 2, 3, 4]
    assert {group.version for group in lab.groups} == {lab.application.version}
    assert lab.application.status == "Running"


@pytest.mark.parametrize("target", [1, 3, 8])
def test_a_scale_supersedes_a_launch(target: int) -> None:
    lab = begun(5, 2)
    assert scale(lab, target).error == ""
    settle(lab)
    assert lab.transaction("LAUNCH").status == "SUPERSEDED" and lab.transaction("SCALE").status == "FINISH"
    assert [group.index for group in lab.groups] == list(range(target))


def test_an_update_supersedes_an_update_within_the_bound() -> None:
    lab = running(8)
    update(lab, 8, bound=2, **NEW)
    first = lab.transaction("UPDATE")
    for group in [g for g in lab.groups if g.killing_since]:
        lab.report(group, "KILLED")
    lab.now += 1
    assert update(lab, 8, bound=2, **NEWER).error == ""
    assert lab.core.state.transactions[first.id].status == "SUPERSEDED"
    worst = 0
    for _ in range(200):
        if not active(lab):
            break
        ready = sum(g.status == "Running" and not g.killing_since for g in lab.groups)
        worst = max(worst, 8 - ready)
        for group in [g for g in lab.groups if g.killing_since and not g.ended][:1]:
            lab.report(group, "KILLED")
        for group in [g for g in lab.groups if not g.started and not g.ended][:1]:
            lab.report(group, "RUNNING")
        lab.offer()
    assert worst == 2 and lab.transaction("UPDATE").status == "FINISH"
    assert {group.version for group in lab.groups} == {lab.application.version}
    assert len({group.index for group in lab.groups}) == len(lab.groups) == 8


@pytest.mark.parametrize("target", [3, 9])
def test_a_scale_supersedes_an_update_which_goes_on_with_the_new_number(target: int) -> None:
    lab = running(6)
    update(lab, 6, bound=1, **NEW)
    first, wanted = lab.transaction("UPDATE"), lab.application.version
    lab.now += 1
    reply = scale(lab, target)
    assert (reply.error, reply.data["opType"]) == ("", "UPDATE")
    assert lab.core.state.transactions[first.id].status == "SUPERSEDED"
    second = lab.transaction("UPDATE")
    assert (second.target, second.version) == (target, wanted) and lab.application.instances == target
    settle(lab)
    assert [group.index for group in lab.groups] == list(range(target))
    assert {group.version for group in lab.groups} == {wanted}


def test_a_part_of_an_update_stays_a_part() -> None:
    lab = running(6)
    update(lab, 6, part=2, bound=1, **NEW)
    assert scale(lab, 7).error == ""
    settle(lab)
    assert lab.transaction("UPDATE").target == 2 and len(lab.groups) == 7
    assert sum(group.version == lab.application.version for group in lab.groups) >= 2


def test_an_update_may_change_the_number_as_well() -> None:
    lab = running(6)
    assert lab.ask(requests.UpdateApplication(version=version(4, **NEW))).error == ""
    settle(lab)
    assert [group.index for group in lab.groups] == [0, 1, 2, 3]
    assert {group.version for group in lab.groups} == {lab.application.version}


def test_the_identical_document_changes_nothing_while_an_operation_runs() -> None:
    lab = begun(5, 2)
    assert update(lab, 5).data["unchanged"] and lab.transaction("LAUNCH").active
    lab.offer()
    lab.run()
    update(lab, 5, **NEW)
    running_now = [t.id for t in active(lab)]
    assert update(lab, 5, **NEW).data["unchanged"]
    assert scale(lab, 5).data["unchanged"] and [t.id for t in active(lab)] == running_now


def test_back_to_what_most_taskgroups_still_have_replaces_only_the_others() -> None:
    lab = running(6)
    kept = {group.id for group in lab.groups}
    update(lab, 6, bound=1, **NEW)
    gone = {group.id for group in lab.groups if group.killing_since}
    assert len(gone) == 1
    assert update(lab, 6, bound=1).error == ""
    settle(lab)
    assert kept - gone <= {group.id for group in lab.groups} and len(lab.groups) == 6
    assert {group.version for group in lab.groups} == {lab.application.version}


def test_a_scale_up_supersedes_a_scale_down_and_nothing_runs_twice() -> None:
    lab = running(6)
    scale(lab, 2)
    assert sum(bool(group.killing_since) for group in lab.groups) == 4
    scale(lab, 5)
    settle(lab)
    lab.wait(60)
    lab.offer()
    lab.run()
    assert [group.index for group in lab.groups] == [0, 1, 2, 3, 4]
    assert all(group.status == "Running" and not group.killing_since for group in lab.groups)


def test_what_a_superseded_scale_had_no_time_to_end_is_ended_by_the_update() -> None:
    lab = running(6)
    lab.core.turn([requests.ScaleApplication(instances=2, **PLACE)], lab.now)
    down = lab.transaction("SCALE")
    assert update(lab, 2, **NEW).error == ""
    settle(lab)
    assert lab.core.state.transactions[down.id].status in ("SUPERSEDED", "FINISH")
    assert [group.index for group in lab.groups] == [0, 1]
    assert {group.version for group in lab.groups} == {lab.application.version}


def test_a_deletion_gives_no_way() -> None:
    lab = running(2)
    lab.delete()
    for reply in (scale(lab, 3), update(lab, 2, **NEW)):
        assert reply.error == "conflict"


def test_who_asks_to_fail_is_refused_as_before() -> None:
    lab = begun(5, 2)
    assert lab.scale(3).error == "conflict" and lab.update(5, **NEW).error == "conflict"
    assert lab.transaction("LAUNCH").active


def test_a_plan_supersedes_nothing() -> None:
    lab = running(4)
    update(lab, 4, bound=1, **NEW)
    reply = scale(lab, 8, dry_run=True)
    assert (reply.error, reply.data["opType"], reply.data["dryRun"]) == ("", "UPDATE", True)
    assert lab.transaction("UPDATE").active and lab.application.instances == 4


def test_a_successor_goes_on_with_the_operation_that_superseded() -> None:
    lab = begun(5, 2)
    update(lab, 4, **NEW)
    successor = lab.succeed()
    settle(successor)
    assert [group.index for group in successor.groups] == [0, 1, 2, 3]
    assert {group.version for group in successor.groups} == {successor.application.version}


def test_an_answer_names_what_gave_way_and_only_that() -> None:
    lab = begun(5, 2)
    first = scale(lab, 6)
    assert first.data["superseded"] == [lab.transaction("LAUNCH").id]
    refused = lab.ask(requests.ScaleApplication(instances=7, on_conflict="fail", **PLACE))
    assert refused.error
    second = scale(lab, 4)
    assert second.data["superseded"] == [first.data["transactionID"]]
    assert scale(lab, 6).data["superseded"] == [second.data["transactionID"]]
    assert "superseded" not in scale(lab, 6).data
    settle(lab)
    assert "superseded" not in scale(lab, 7).data
