"""Something else is wanted than an update that stands still, or is being undone, was for."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.core.interface import requests
from store.records import ConfigItem, ConfigMap, Namespace, Quota, Strategy
from store.records.definition import Container, Item, Reference
from tests.unit.rollinglab import NEVER, NEW, WEB, RollingLab, deployed

BETTER: dict[str, Any] = {"labels": {"revision": "better"}}
BEST: dict[str, Any] = {"labels": {"revision": "best"}}
AND_BACK = Strategy(max_surge=1, max_unavailable=0)


def suspended(instances: int = 3) -> RollingLab:
    """One taskgroup of revision 2 runs, in place of an old one; the second has failed for good."""
    lab = deployed(instances, AND_BACK)
    lab.renew(instances, **NEVER, **NEW)
    lab.run_until(lambda: len(lab.new) == 2)
    lab.report(next(group for group in lab.new if not group.started), "FAILED", message="boom")
    assert lab.deployment.status == "UpdateSuspend"
    lab.measure()
    return lab


def numbers(lab: RollingLab) -> list[int]:
    return sorted(lab.core.state.revisions_of(WEB))


def test_a_corrected_document_takes_the_place_of_a_suspended_update() -> None:
    lab = suspended()
    reply = lab.renew(3, **BETTER)
    assert (reply.error, reply.data["revision"]) == ("", 3)
    middle = lab.deployment.retiring
    assert (lab.deployment.rolling_back, lab.deployment.next_revision, len(middle)) == (False, 0, 1)
    assert lab.deployment.successor not in middle and lab.deployment.previous == 1
    lab.run()
    deployment = lab.deployment
    assert (deployment.status, deployment.revision, deployment.next_revision) == ("Running", 3, 0)
    assert lab.core.state.revisions[deployment.revision_key].version.labels == BETTER["labels"]
    assert numbers(lab) == [1, 2, 3]
    assert len(lab.groups) == 3 and lab.ready == 3
    assert lab.least >= 3 and lab.most <= 4


def test_where_nothing_has_to_be_undone_it_begins_at_once() -> None:
    lab = deployed(3, AND_BACK)
    lab.renew(3, **NEVER, **NEW)
    lab.offer()
    lab.report(lab.new[0], "FAILED")
    assert lab.renew(3, **BETTER).data["revision"] == 3
    assert (lab.deployment.status, lab.deployment.revision, lab.deployment.rolling_back) == ("Update", 3, False)
    lab.run()
    assert (lab.deployment.status, len(lab.groups), lab.most) == ("Running", 3, 4)


def test_its_number_and_its_strategy_are_those_of_the_new_document() -> None:
    lab = suspended(3)
    strategy = Strategy(max_surge=2, max_unavailable=1, order="DeleteFirst")
    lab.renew(5, strategy=strategy, **BETTER)
    assert (lab.deployment.instances, lab.deployment.strategy) == (5, strategy)
    lab.run()
    assert (lab.deployment.instances, lab.deployment.strategy) == (5, strategy)
    assert (len(lab.groups), lab.deployment.raw) == (5, '{"instance":5}')


def test_without_a_number_it_has_that_of_the_update_in_whose_place_it_comes() -> None:
    lab = deployed(2, AND_BACK)
    lab.renew(3, **NEVER, **NEW)
    lab.run_until(lambda: bool(lab.new))
    lab.report(lab.new[0], "FAILED", message="boom")
    assert (lab.deployment.status, lab.deployment.instances) == ("UpdateSuspend", 3)
    assert lab.renew(0, **BETTER).error == ""
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision, len(lab.groups)) == ("Running", 3, 3)


def test_a_paused_update_gives_way_as_well() -> None:
    lab = deployed(2, Strategy(manual=True))
    lab.renew(2, **NEW)
    lab.run()
    assert lab.deployment.status == "UpdatePaused"
    assert lab.renew(2, strategy=Strategy(), **BETTER).data["revision"] == 3
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision) == ("Running", 3)
    lab.hold_bounds()


def test_so_does_one_that_is_being_undone_already() -> None:
    lab = suspended()
    lab.control("cancel")
    assert lab.deployment.next_revision == 0
    assert lab.renew(3, **BETTER).error == ""
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision) == ("Running", 3)


def test_one_that_goes_forward_is_superseded_on_request() -> None:
    lab = deployed(4, Strategy(max_surge=1, max_unavailable=1))
    lab.renew(4, **NEW)
    lab.offer()
    for group in lab.new:
        lab.report(group, "RUNNING")
    assert lab.deployment.status == "Update" and lab.new and lab.new[0].started
    lab.measure()
    reply = lab.renew(4, on_conflict="supersede", **BETTER)
    assert (reply.error, reply.data["revision"]) == ("", 3)
    assert (lab.deployment.rolling_back, len(lab.deployment.retiring)) == (False, 1)
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision, lab.deployment.retiring) == ("Running", 3, ())
    assert len(lab.groups) == 4 and lab.least >= 3 and lab.most <= 5


def test_the_document_of_the_running_update_changes_nothing() -> None:
    lab = deployed(3)
    lab.renew(3, **NEW)
    before = lab.deployment
    assert lab.renew(3, on_conflict="supersede", **NEW).data["unchanged"] and lab.deployment == before


def test_the_document_of_a_suspended_update_changes_nothing() -> None:
    lab = suspended()
    assert lab.renew(3, on_conflict="supersede", **NEVER, **NEW).data["unchanged"]
    assert lab.deployment.status == "UpdateSuspend" and numbers(lab) == [1, 2]


def test_one_that_goes_forward_does_not_without_that() -> None:
    lab = deployed(3)
    lab.renew(3, **NEW)
    reply = lab.renew(3, **BETTER)
    assert reply.error == "conflict"
    assert "it is being updated; wait for the end, or cancel the update" in reply.message


def test_the_same_again_is_no_correction() -> None:
    lab = suspended()
    reply = lab.renew(3, **NEVER, **NEW)
    assert reply.error == "conflict"
    assert "suspended; resume or cancel it" in reply.message
    assert numbers(lab) == [1, 2]


def test_what_waits_already_is_said_to_be_so() -> None:
    lab = suspended()
    lab.renew(4)
    before = lab.deployment
    assert (before.rolling_back, before.next_revision) == (True, 3)
    reply = lab.renew(4)
    assert (reply.data["unchanged"], reply.data["revision"]) == (True, 3)
    assert lab.deployment == before


def test_the_last_word_counts() -> None:
    lab = suspended()
    lab.renew(3, **BETTER)
    assert lab.renew(4, on_conflict="supersede", **BEST).data["revision"] == 4
    lab.run()
    assert lab.core.state.revisions[lab.deployment.revision_key].version.labels == BEST["labels"]
    assert (numbers(lab), len(lab.groups)) == ([1, 2, 3, 4], 4)


def test_a_cancel_only_takes_back_what_was_to_follow() -> None:
    lab = suspended()
    lab.renew(4)
    assert lab.control("cancel").error == ""
    assert (lab.deployment.next_revision, numbers(lab)) == (0, [1, 2])
    assert lab.control("cancel").error == "conflict"
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision) == ("Running", 1)


def test_what_ran_before_needs_no_update_but_its_number_and_document_count() -> None:
    lab = suspended()
    lab.renew(4)
    lab.run()
    deployment = lab.deployment
    assert (deployment.status, deployment.revision, deployment.instances) == ("Running", 1, 4)
    assert (numbers(lab), len(lab.groups), deployment.raw) == ([1, 2], 4, '{"instance":4}')


def test_the_next_leader_takes_it_up() -> None:
    lab = suspended()
    lab.renew(3, **BETTER)
    lab = lab.succeed()
    lab.offer()
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision) == ("Running", 3)


def test_going_back_that_is_suspended_goes_on_with_it() -> None:
    lab = deployed(2, Strategy(max_surge=0, max_unavailable=1, order="DeleteFirst"), **NEVER)
    lab.renew(2, **NEVER, **NEW)
    lab.run_until(lambda: len(lab.new) == 2)
    lab.control("cancel")
    lab.run_until(lambda: any(not group.started for group in lab.old))
    lab.report(next(group for group in lab.old if not group.started), "FAILED")
    assert (lab.deployment.status, lab.deployment.rolling_back) == ("UpdateSuspend", True)
    lab.renew(2, **BETTER)
    assert lab.deployment.status == "Update"
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision) == ("Running", 3)


def test_a_deletion_forgets_what_was_to_follow() -> None:
    lab = suspended()
    lab.renew(3, **BETTER)
    lab.remove()
    assert lab.renew(3, **BEST).error == "conflict"
    lab.run()
    assert not lab.core.state.deployments and not lab.core.state.revisions


def test_missing_configuration_is_refused_at_once() -> None:
    item = Item(type="env", key="a", target="A")
    needy: dict[str, Any] = {
        "containers": (Container(command="serve", configmaps=(Reference(name="settings", items=(item,)),)),)
    }
    lab = suspended()
    assert "settings" in lab.renew(3, **needy).message
    assert lab.deployment.status == "UpdateSuspend"
    content = ConfigItem(type="file", content="aGk=")
    settings = ConfigMap(namespace="default", name="settings", items={"a": content})
    lab.ask(requests.PutConfigMap(config_map=settings, create=True))
    assert lab.renew(3, **needy).error == ""
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision) == ("Running", 3)


def test_the_quota_counts_what_is_to_follow() -> None:
    lab = suspended(3)
    lab.ask(requests.PutNamespace(namespace=Namespace(name="default", quota=Quota(taskgroups=6))))
    assert lab.renew(6, **BETTER).error == "quota_exceeded"
    assert (lab.deployment.status, lab.deployment.next_revision) == ("UpdateSuspend", 0)
    assert lab.renew(5, **BETTER).error == ""
    lab.run()
    assert (lab.deployment.revision, len(lab.groups)) == (3, 5)


def large(letter: str, characters: int) -> dict[str, Any]:
    return {"annotations": {"notes": letter * characters}}


def test_a_large_document_supersedes_an_update_to_a_large_document() -> None:
    lab = suspended()
    assert lab.renew(3, **BETTER, **large("b", 150_000)).error == ""
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision) == ("Running", 3)
    lab.renew(3, **NEVER, **large("c", 150_000))
    lab.run_until(lambda: bool(lab.new))
    lab.report(next(group for group in lab.new if not group.started), "FAILED", message="boom")
    assert lab.renew(3, **BEST, **large("d", 100_000)).error == ""
    lab.run()
    assert (lab.deployment.status, lab.deployment.next_revision) == ("Running", 0)
    assert lab.deployment.revision == max(numbers(lab))


def test_a_document_that_no_store_takes_is_refused_at_once() -> None:
    lab = suspended()
    before = lab.deployment
    assert lab.renew(3, **BETTER, **large("b", 348_000)).error == "invalid"
    assert lab.deployment == before and numbers(lab) == [1, 2]
