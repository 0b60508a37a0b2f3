"""Plans (dry runs): they say what would happen, and nothing does."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.interface import cluster_manager, effects, leased, requests
from bcs_scheduler.core.options import CoreOptions
from tests.unit.lab import KEY, Lab, running, version


def plan(lab: Lab, command: requests.Request) -> dict[str, Any]:
    before = {record.key: record for record in lab.records()}
    units = lab.core.turn([command], lab.now)
    assert [change for unit in units for change in unit.changes] == []
    assert {record.key: record for record in lab.records()} == before
    (reply,) = [e for unit in units for e in unit.effects if isinstance(e, effects.Reply)]
    assert not reply.error
    assert reply.data["dryRun"]
    data: dict[str, Any] = reply.data
    return data


def named(kind: type[requests.Request], **fields: Any) -> requests.Request:
    return kind(dry_run=True, namespace="default", name="web", **fields)  # type: ignore[call-arg]


def test_a_creation_says_where_it_would_go() -> None:
    lab = Lab()
    lab.offer(cpus=250)
    data = plan(lab, requests.CreateApplication(version=version(3), dry_run=True))
    assert [place["index"] for place in data["place"]] == [0, 1]
    assert data["unplaced"] == 1
    assert data["reasons"] == {"cpus": 1}


def test_an_update_says_what_it_would_end_first() -> None:
    lab = running(4)
    data = plan(lab, requests.UpdateApplication(version=version(4, labels={"revision": "2"}), dry_run=True))
    assert len(data["end"]) == 1
    assert data["maxUnavailable"] == 1


@pytest.mark.parametrize("unit_changes", [1, 200])
def test_planning_a_big_delete_ends_nothing(unit_changes: int) -> None:
    lab = running(5, CoreOptions(strict=True, unit_changes=unit_changes))
    data = plan(lab, named(requests.DeleteApplication))
    assert len(data["end"]) == 5
    plan(lab, named(requests.DeleteApplication, enforce=True))
    assert not [kill for kill in lab.wait(30) if isinstance(kill, cluster_manager.End)]
    assert len(lab.groups) == 5


def test_planning_an_enforced_delete_does_not_stop_what_is_being_killed() -> None:
    lab = running(2)
    lab.scale(1)
    plan(lab, named(requests.DeleteApplication, enforce=True))
    assert [effect for effect in lab.wait(30) if isinstance(effect, cluster_manager.End)]


def test_planning_to_cancel_leaves_the_transaction_at_work() -> None:
    lab = Lab()
    lab.create(2)
    lab.offer(cpus=150)
    lab.turn(requests.CancelTransaction(id=lab.transaction("LAUNCH").id, dry_run=True))
    lab.wait(4)
    assert lab.sent(effects.Reply)[0].data["dryRun"]
    lab.offer()
    assert len(lab.groups) == 2
    assert lab.transaction("LAUNCH").status == "FINISH"


def test_a_plan_waits_a_moment_for_offers() -> None:
    lab = Lab()
    lab.wait(10)
    lab.turn(named(requests.ScaleApplication, instances=3))
    assert not lab.sent(effects.Reply)
    assert lab.sent(leased.Revive)
    lab.wait(4)
    (reply,) = lab.sent(effects.Reply)
    assert reply.error == "not_found"


def test_what_is_planned_is_not_promised_to_anybody() -> None:
    lab = running(1)
    lab.core.turn_context.pool.hand.clear()
    lab.offer("agent-2", cpus=1000)
    for _ in range(5):
        data = plan(lab, named(requests.ScaleApplication, instances=8))
        assert len(data["place"]) == 7
    lab.scale(8)
    assert len(lab.core.state.groups_of(KEY)) == 8
