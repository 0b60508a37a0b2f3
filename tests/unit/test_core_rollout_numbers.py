"""The number of taskgroups, the strategy and the document change while an update runs, and the update goes on."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.interface import leased, requests
from store.records import Canary, Namespace, Quota, Strategy
from tests.unit.rollinglab import NEVER, NEW, RollingLab, deployed
from transactions.rules.deployment_status import summarize

NEWEST: dict[str, Any] = {"labels": {"revision": "3"}}
ONE_BY_ONE = Strategy(max_surge=1, max_unavailable=0)


def half_way(instances: int = 4, strategy: Strategy = ONE_BY_ONE, new: int = 2) -> RollingLab:
    """So many of the new taskgroups run, the others are old."""
    lab = deployed(instances, strategy)
    lab.renew(instances, **NEW)
    lab.run_until(lambda: sum(group.started for group in lab.new) == new)
    lab.measure()
    return lab


def finished(lab: RollingLab, revision: int, instances: int) -> None:
    lab.run()
    deployment = lab.deployment
    assert (deployment.status, deployment.revision, deployment.instances) == ("Running", revision, instances)
    assert (lab.application.instances, len(lab.groups), lab.ready) == (instances, instances, instances)


@pytest.mark.parametrize("instances", [0, 1, 3, 5, 9])
def test_a_scale_during_an_update_is_taken_and_the_update_goes_on(instances: int) -> None:
    lab = half_way()
    assert lab.resize(instances, "supersede").error == ""
    deployment = lab.deployment
    assert (deployment.status, deployment.instances, deployment.rolling_back) == ("Update", instances, False)
    finished(lab, 2, instances)
    assert lab.least >= min(4, instances) and lab.most <= max(5, instances + 1)


def test_taskgroups_that_the_new_number_has_no_room_for_are_not_launched_any_more() -> None:
    lab = deployed(3, Strategy(max_surge=3, max_unavailable=0))
    lab.turn(*(leased.OfferRescinded(offer_id=offer.id) for offer in lab.core.offers()))
    lab.renew(3, **NEW)
    assert lab.deployment.up_target == 3 and not lab.new
    lab.resize(1, "supersede")
    (adding,) = lab.core.state.active_of(lab.successor.key).values()
    assert (adding.target, lab.deployment.up_target) == (1, 1)
    finished(lab, 2, 1)
    assert lab.most <= 4


def test_going_back_keeps_the_number_that_was_asked_for_meanwhile() -> None:
    lab = half_way()
    lab.resize(6, "supersede")
    lab.control("cancel")
    finished(lab, 1, 6)


def test_going_back_keeps_the_number_of_the_update_if_it_was_asked_for_meanwhile() -> None:
    """The document of the update had brought the number; the scale confirms it, whatever becomes of the update."""
    lab = deployed(1, ONE_BY_ONE)
    lab.renew(4, **NEW)
    lab.run_until(lambda: any(group.started for group in lab.new))
    assert "unchanged" not in lab.resize(4, "supersede").data
    assert lab.resize(4, "supersede").data["unchanged"]
    lab.control("cancel")
    finished(lab, 1, 4)


def test_a_rollback_keeps_the_number_that_a_user_has_set_last_and_a_cancel_restores_the_one_before() -> None:
    for undo, number in (("rollback", 6), ("cancel", 4)):
        lab = deployed(4, ONE_BY_ONE)
        lab.renew(6, **NEW)
        lab.run_until(lambda lab=lab: any(group.started for group in lab.new))  # type: ignore[misc]
        assert not (lab.undo() if undo == "rollback" else lab.control("cancel")).error
        finished(lab, 1, number)
        assert lab.deployment.rollback_requested
        found = summarize(lab.core.state, lab.deployment, lab.now)
        assert [(c.status, c.reason) for c in found.conditions] == [("True", "Complete"), ("True", "Enough")]


def test_one_taskgroup_that_never_ran_is_not_available() -> None:
    lab = RollingLab()
    lab.deploy(1)
    found = summarize(lab.core.state, lab.deployment, lab.now).conditions[1]
    assert (found.status, found.message) == ("False", "0 taskgroups available, 1 needed")
    lab.offer()
    lab.run()
    assert summarize(lab.core.state, lab.deployment, lab.now).conditions[1].status == "True"


def test_the_way_back_takes_another_number_as_well() -> None:
    lab = half_way()
    lab.control("cancel")
    assert lab.deployment.rolling_back
    lab.resize(2, "supersede")
    finished(lab, 1, 2)
    assert lab.least >= 2


def test_a_paused_update_takes_the_number_and_stays_paused() -> None:
    lab = deployed(2, Strategy(manual=True))
    lab.renew(2, **NEW)
    lab.run()
    assert lab.deployment.status == "UpdatePaused"
    lab.resize(4, "supersede")
    lab.run()
    assert (lab.deployment.status, lab.deployment.instances) == ("UpdatePaused", 4)
    for _ in range(4):
        if lab.deployment.status == "UpdatePaused":
            lab.control("resume")
            lab.run()
    finished(lab, 2, 4)


def test_a_canary_stays_a_canary() -> None:
    lab = deployed(4, Strategy(max_surge=2, max_unavailable=1, canary=Canary(instances=1, manual=True)))
    lab.renew(4, **NEW)
    lab.resize(8, "supersede")
    lab.run()
    assert (lab.deployment.status, len(lab.new)) == ("UpdatePaused", 1)
    lab.control("resume")
    finished(lab, 2, 8)


def test_the_removing_half_keeps_what_the_greater_number_needs() -> None:
    lab = deployed(6, Strategy(max_surge=0, max_unavailable=3, order="DeleteFirst"))
    lab.renew(6, **NEW)
    lab.resize(9, "supersede")
    lab.measure()
    finished(lab, 2, 9)
    assert lab.least >= 3


def test_the_same_number_is_unchanged_and_on_request_it_is_refused() -> None:
    lab = half_way()
    before = lab.deployment
    assert lab.resize(4, "supersede").data["unchanged"] and lab.deployment == before
    refused = lab.resize(5)
    assert refused.error == "conflict" and "it is being updated" in refused.message
    assert lab.resize(-1, "supersede").error == "invalid"


def test_the_document_of_the_update_with_another_number_and_strategy() -> None:
    lab = half_way()
    faster = Strategy(max_surge=3, max_unavailable=2)
    assert lab.renew(7, strategy=faster, on_conflict="supersede", **NEW).error == ""
    deployment = lab.deployment
    assert (deployment.status, deployment.instances, deployment.strategy) == ("Update", 7, faster)
    finished(lab, 2, 7)
    revision = lab.core.state.revisions[lab.deployment.revision_key]
    assert (revision.strategy, revision.raw) == (faster, '{"instance":7}')


def test_the_next_leader_goes_on_with_the_new_number() -> None:
    lab = half_way()
    lab.resize(6, "supersede")
    lab = lab.succeed()
    lab.offer()
    finished(lab, 2, 6)


def test_the_quota_holds() -> None:
    lab = half_way()
    lab.ask(requests.PutNamespace(namespace=Namespace(name="default", quota=Quota(taskgroups=6))))
    assert lab.resize(9, "supersede").error == "quota_exceeded" and lab.deployment.instances == 4
    assert lab.resize(5, "supersede").error == ""
    finished(lab, 2, 5)


def test_a_suspended_update_takes_the_number_for_when_it_goes_on() -> None:
    lab = deployed(3, ONE_BY_ONE)
    lab.renew(3, **NEVER, **NEW)
    lab.run_until(lambda: bool(lab.new))
    lab.report(lab.new[0], "FAILED", message="boom")
    assert lab.deployment.status == "UpdateSuspend"
    lab.resize(5, "supersede")
    assert lab.deployment.status == "UpdateSuspend"
    lab.control("resume")
    finished(lab, 2, 5)


# --- updates that wait ------------------------------------------------------------------------------------------------


def waiting(kind: str) -> RollingLab:
    """An update of 4 taskgroups that makes no step now, with one new taskgroup beside the old ones."""
    if kind == "suspended":
        lab = deployed(4, Strategy(max_surge=1, max_unavailable=1))
        lab.renew(4, **NEVER, **NEW)
        lab.run_until(lambda: bool(lab.new))
        lab.report(lab.new[0], "FAILED", message="boom")
    else:
        canary = Canary(instances=1, manual=kind == "paused", hold=1000.0)
        lab = deployed(4, Strategy(max_surge=1, max_unavailable=1, canary=canary))
        lab.renew(4, **NEW)
    lab.run()
    assert lab.deployment.status == {"paused": "UpdatePaused", "suspended": "UpdateSuspend"}.get(kind, "Update")
    assert len(lab.new) == 1
    lab.measure()
    return lab


KINDS = ["paused", "suspended", "held"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_that_waits_grows_on_the_side_that_serves(kind: str) -> None:
    """The number is reached at once, although no step is made; the canary stays as small as it is."""
    lab = waiting(kind)
    status = lab.deployment.status
    assert lab.resize(9, "supersede").error == ""
    lab.run()
    assert (lab.deployment.status, len(lab.new), len(lab.groups)) == (status, 1, 9)
    assert all(map(lab.is_ready, lab.old))
    lab.measure()
    if kind == "held":
        lab.wait(1001)
    else:
        lab = lab.succeed()
        lab.offer()
        lab.control("resume")
    finished(lab, 2, 9)
    lab.hold_bounds()


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_that_waits_shrinks_on_the_larger_side(kind: str) -> None:
    lab = waiting(kind)
    assert lab.resize(2, "supersede").error == ""
    lab.run()
    assert len(lab.groups) <= 3 and lab.ready >= 1
    assert len(lab.new) == (0 if kind == "suspended" else 1) or len(lab.old) >= len(lab.new)
    lab.control("resume")
    if kind == "held":
        lab.wait(1001)
    finished(lab, 2, 2)


def test_an_update_that_waits_and_lacks_room_grows_when_there_is_some_and_may_be_undone() -> None:
    lab = waiting("paused")
    lab.turn(*(leased.OfferRescinded(offer_id=offer.id) for offer in lab.core.offers()))
    lab.resize(6, "supersede")
    lab.wait(600)
    assert len(lab.groups) == 4
    lab.resize(8, "supersede")
    lab.resize(7, "supersede")
    lab.offer()
    for group in lab.groups:
        lab.report(group, "RUNNING")
    lab.run()
    assert (len(lab.groups), len(lab.new)) == (7, 1)
    lab.control("cancel")
    finished(lab, 1, 7)


def test_an_update_that_is_nearly_done_grows_on_its_new_side() -> None:
    lab = deployed(4, Strategy(max_surge=1, max_unavailable=1, manual=True))
    lab.renew(4, **NEW)
    for _ in range(2):
        lab.run()
        lab.control("resume")
    lab.run()
    old = len(lab.old)
    assert lab.deployment.status == "UpdatePaused" and len(lab.new) > old
    lab.resize(8, "supersede")
    lab.run()
    assert (len(lab.old), len(lab.new), lab.ready) == (old, 8 - old, 8)
    lab.control("resume")
    finished(lab, 2, 8)


def test_a_number_that_came_before_the_pause_is_reached_in_it() -> None:
    lab = deployed(4, Strategy(max_surge=1, max_unavailable=1, canary=Canary(instances=1, manual=True)))
    lab.renew(4, **NEW)
    lab.resize(8, "supersede")
    lab.run()
    assert (lab.deployment.status, len(lab.new), lab.ready) == ("UpdatePaused", 1, 8)


def test_an_update_that_waits_counts_the_launches_of_one_of_several_old_applications() -> None:
    """The bound application grows beside a superseded one; both are on the side that is to go."""
    lab = half_way()
    lab.renew(4, strategy=Strategy(max_surge=1, max_unavailable=0, manual=True), on_conflict="supersede", **NEWEST)
    lab.run()
    assert lab.deployment.status == "UpdatePaused" and lab.deployment.retiring
    lab.turn(*(leased.OfferRescinded(offer_id=offer.id) for offer in lab.core.offers()))
    others = len(lab.groups) - len(lab.old)
    for instances in (7, 8, 9):
        lab.resize(instances, "supersede")
        (adding,) = lab.core.state.active_of(lab.application.key).values()
        assert adding.target == instances - others
    lab.offer()
    lab.wait(10)
    lab.run()
    assert (lab.deployment.status, len(lab.groups), lab.ready) == ("UpdatePaused", 9, 9)
