"""A newer document during an update: the deployment rolls forward from wherever the update stands, with several
applications on the leaving side."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.rollout import update_records
from store.records import Canary, Namespace, Quota, Strategy
from tests.unit.rollinglab import NEVER, NEW, WEB, RollingLab, deployed
from transactions.rules.deployment_status import summarize

STRATEGIES = (
    Strategy(max_surge=1, max_unavailable=0),
    Strategy(max_surge=0, max_unavailable=1),
    Strategy(max_surge=2, max_unavailable=1, order="DeleteFirst"),
    Strategy(max_surge=3, max_unavailable=2, min_ready=2.0),
)


def labelled(number: int) -> dict[str, Any]:
    return {"labels": {"revision": str(number)}}


def half_way(instances: int = 4, strategy: Strategy = STRATEGIES[0], new: int = 2) -> RollingLab:
    lab = deployed(instances, strategy)
    lab.renew(instances, **NEW)
    lab.run_until(lambda: sum(group.started for group in lab.new) >= new)
    assert lab.deployment.updating
    lab.measure()
    return lab


def newer(lab: RollingLab, instances: int, number: int, **fields: Any) -> Any:
    reply = lab.renew(instances, on_conflict="supersede", **labelled(number), **fields)
    assert reply.error == "", reply.message
    return reply


def finished(lab: RollingLab, revision: int, instances: int) -> None:
    """With the time that minReadySeconds needs."""
    for _ in range(30):
        lab.run()
        if lab.deployment.status == "Running" and len(lab.core.state.applications) == 1:
            break
        lab.wait(3)
    deployment = lab.deployment
    assert (deployment.status, deployment.revision, deployment.retiring) == ("Running", revision, ())
    assert list(lab.core.state.applications) == [f"default/{deployment.application}"]
    assert (len(lab.groups), lab.ready) == (instances, instances)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("between", [0, 1, 2, 5])
def test_bounds_hold_while_document_after_document_comes(strategy: Strategy, between: int) -> None:
    lab = deployed(5, strategy)
    lab.renew(5, **NEW)
    for number in range(3, 7):
        for _ in range(between):
            lab.once()
            lab.wait(1)
        newer(lab, 5, number)
    finished(lab, 6, 5)
    lab.hold_bounds()
    assert sorted(lab.core.state.revisions_of(WEB)) == [1, 2, 3, 4, 5, 6]


def test_nothing_goes_back_first() -> None:
    lab = half_way()
    old, middle = {group.id for group in lab.old}, lab.deployment.successor
    newer(lab, 4, 3)
    deployment = lab.deployment
    assert (deployment.rolling_back, deployment.previous, deployment.retiring) == (False, 1, (middle,))
    seen: set[str] = set()
    while lab.deployment.updating:
        lab.once()
        seen |= {group.id for group in lab.groups if group.application == deployment.application}
    assert seen <= old, "no old taskgroup comes back"
    finished(lab, 3, 4)
    lab.hold_bounds()


def test_superseded_taskgroups_go_before_the_old_ones() -> None:
    lab = half_way(4, Strategy(max_surge=0, max_unavailable=1))
    middle = lab.deployment.successor
    there = len(lab.new)
    before = {group.id for group in lab.groups if group.killing_since}
    newer(lab, 4, 3)
    lab.run_until(lambda: any(g.killing_since and g.id not in before for g in lab.groups))
    going = {group.application for group in lab.groups if group.killing_since and group.id not in before}
    assert there and going == {middle}
    finished(lab, 3, 4)


def test_an_application_without_taskgroups_does_not_retire() -> None:
    lab = deployed(3, STRATEGIES[0])
    lab.renew(3, **NEVER, **NEW)
    lab.offer()
    lab.report(lab.new[0], "FAILED", message="boom")
    before = lab.deployment.successor
    newer(lab, 3, 3)
    lab.run_until(lambda: f"default/{before}" not in lab.core.state.applications)
    finished(lab, 3, 3)


@pytest.mark.parametrize("strategy", STRATEGIES[:3])
def test_a_cancelled_update_goes_back_to_where_the_first_one_began(strategy: Strategy) -> None:
    lab = half_way(4, strategy, 1)
    newer(lab, 4, 3)
    lab.once()
    lab.control("cancel")
    assert (lab.deployment.rolling_back, lab.deployment.previous) == (True, 1)
    finished(lab, 1, 4)
    lab.hold_bounds()


def test_an_update_that_is_being_undone_is_superseded_forward() -> None:
    lab = half_way()
    lab.control("cancel")
    lab.once()
    assert lab.deployment.rolling_back
    newer(lab, 4, 3)
    assert not lab.deployment.rolling_back
    finished(lab, 3, 4)
    lab.hold_bounds()


def test_back_to_the_definition_before_the_update_is_the_way_back() -> None:
    lab = half_way()
    kept = {group.id for group in lab.old if not group.killing_since}
    assert kept and lab.renew(4, on_conflict="supersede").error == ""
    assert lab.deployment.rolling_back
    finished(lab, 1, 4)
    assert kept <= {group.id for group in lab.groups}


def test_number_strategy_canary_and_pauses_are_those_of_the_newer_document() -> None:
    lab = half_way()
    canary = Strategy(max_surge=2, max_unavailable=1, canary=Canary(instances=1, manual=True))
    newer(lab, 6, 3, strategy=canary)
    lab.run()
    assert (lab.deployment.status, len(lab.new)) == ("UpdatePaused", 1)
    lab.control("resume")
    lab.once()
    lab.control("pause")
    lab.run()
    assert lab.deployment.status in ("UpdatePaused", "Running")
    if lab.deployment.status == "UpdatePaused":
        lab.control("resume")
    finished(lab, 3, 6)


def test_a_scale_changes_an_update_with_three_sides() -> None:
    lab = half_way()
    newer(lab, 4, 3)
    lab.once()
    lab.resize(7, "supersede")
    finished(lab, 3, 7)
    lab.measure()


@pytest.mark.parametrize("turns", range(6))
def test_the_next_leader_goes_on(turns: int) -> None:
    lab = half_way(4, STRATEGIES[2], 1)
    newer(lab, 4, 3)
    for _ in range(turns):
        lab.once()
    lab = lab.succeed()
    lab.offer()
    finished(lab, 3, 4)


def test_a_failing_newer_document_goes_back_by_itself() -> None:
    lab = half_way(3, Strategy(max_surge=1, max_unavailable=0, on_failure="rollback"), 1)
    newer(lab, 3, 3, **NEVER)
    lab.run_until(lambda: any(not group.started for group in lab.new))
    lab.report(next(group for group in lab.new if not group.started), "FAILED", message="boom")
    assert lab.deployment.rolling_back
    finished(lab, 1, 3)
    lab.hold_bounds()


def test_superseded_revisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_records, "MOST_RETIRING", 1)
    lab = half_way(6, STRATEGIES[0], 2)
    newer(lab, 6, 3)
    lab.run_until(lambda: bool([group for group in lab.new if group.started]))
    refused = lab.renew(6, on_conflict="supersede", **labelled(4))
    assert refused.error == "conflict" and "superseded revisions" in refused.message
    assert (lab.deployment.revision, sorted(lab.core.state.revisions_of(WEB))) == (3, [1, 2, 3])
    finished(lab, 3, 6)


def test_the_counts_and_the_quota_see_all_sides() -> None:
    lab = half_way(4, STRATEGIES[0], 2)
    before = len(lab.groups)
    newer(lab, 4, 3)
    found = summarize(lab.core.state, lab.deployment, lab.now)
    assert (found.old + found.new, found.done) == (before, 0) and found.old >= 4
    lab.ask(requests.PutNamespace(namespace=Namespace(name="default", quota=Quota(taskgroups=5))))
    assert lab.renew(5, on_conflict="supersede", **labelled(4)).error == "quota_exceeded"
    finished(lab, 3, 4)


def test_a_deletion_takes_all_sides() -> None:
    lab = half_way()
    newer(lab, 4, 3)
    lab.remove()
    lab.run()
    assert not lab.core.state.deployments and not lab.core.state.applications
