"""Something else is wanted than an update that stands still, or is being undone, was for."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.core import effects, events, orders
from store.definition import Container, Item, Reference
from store.records import ConfigItem, ConfigMap, Namespace, Quota, Strategy
from tests.unit.rollinglab import NEVER, NEW, WEB, RollingLab, deployed

BETTER: dict[str, Any] = {"labels": {"revision": "better"}}
BEST: dict[str, Any] = {"labels": {"revision": "best"}}
AND_BACK = Strategy(max_surge=1, max_unavailable=0)


def suspended(instances: int = 3) -> RollingLab:
    """One taskgroup of revision 2 runs, in place of an old one; the second has failed for good."""
    lab = deployed(instances, AND_BACK)
    lab.renew(instances, **NEVER, **NEW)
    lab.run_until(lambda: len(lab.new) == 2)
    lab.report(next(group for group in lab.new if not group.started), "TASK_FAILED", message="boom")
    assert lab.deployment.status == "UpdateSuspend"
    lab.measure()
    return lab


def numbers(lab: RollingLab) -> list[int]:
    return sorted(lab.core.state.revisions_of(WEB))


def refused_later(lab: RollingLab) -> list[str]:
    return [e.message for e in lab.seen if isinstance(e, effects.Story) and e.reason == "refused"]


def test_a_corrected_document_takes_the_place_of_a_suspended_update() -> None:
    lab = suspended()
    reply = lab.renew(3, **BETTER)
    assert (reply.error, reply.data["revision"]) == ("", 3)
    assert (lab.deployment.back, lab.deployment.following) == (True, 3)
    assert lab.deployment.message == "going back to revision 1: revision 3 follows instead"
    lab.run()
    deployment = lab.deployment
    assert (deployment.status, deployment.revision, deployment.following) == ("Running", 3, 0)
    assert lab.core.state.revisions[deployment.revision_key].version.labels == BETTER["labels"]
    assert numbers(lab) == [1, 2, 3]
    assert len(lab.groups) == 3 and lab.ready == 3
    assert lab.least >= 3 and lab.most <= 4


def test_where_nothing_has_to_be_undone_it_begins_at_once() -> None:
    lab = deployed(3, AND_BACK)
    lab.renew(3, **NEVER, **NEW)
    lab.offer()
    lab.report(lab.new[0], "TASK_FAILED")
    assert lab.renew(3, **BETTER).data["revision"] == 3
    assert (lab.deployment.status, lab.deployment.revision, lab.deployment.back) == ("Update", 3, False)
    lab.run()
    assert (lab.deployment.status, len(lab.groups), lab.most) == ("Running", 3, 4)


def test_its_number_and_its_strategy_are_those_of_the_new_document() -> None:
    lab = suspended(3)
    strategy = Strategy(max_surge=2, max_unavailable=1, order="DeleteFirst")
    lab.renew(5, strategy=strategy, **BETTER)
    assert (lab.deployment.instances, lab.deployment.strategy) == (3, AND_BACK)
    lab.run()
    assert (lab.deployment.instances, lab.deployment.strategy) == (5, strategy)
    assert (len(lab.groups), lab.deployment.raw) == (5, '{"instance":5}')


def test_without_a_number_it_has_that_of_the_update_in_whose_place_it_comes() -> None:
    lab = deployed(2, AND_BACK)
    lab.renew(3, **NEVER, **NEW)
    lab.run_until(lambda: bool(lab.new))
    lab.report(lab.new[0], "TASK_FAILED", message="boom")
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
    assert lab.deployment.following == 0
    assert lab.renew(3, **BETTER).error == ""
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision) == ("Running", 3)


def test_one_that_goes_forward_does_not() -> None:
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
    lab.renew(3, **BETTER)
    before = lab.deployment
    reply = lab.renew(3, **BETTER)
    assert (reply.data["unchanged"], reply.data["revision"]) == (True, 3)
    assert lab.deployment == before


def test_the_last_word_counts() -> None:
    lab = suspended()
    lab.renew(3, **BETTER)
    assert lab.renew(4, **BEST).data["revision"] == 3
    lab.run()
    assert lab.core.state.revisions[lab.deployment.revision_key].version.labels == BEST["labels"]
    assert (numbers(lab), len(lab.groups)) == ([1, 2, 3], 4)


def test_a_cancel_only_takes_back_what_was_to_follow() -> None:
    lab = suspended()
    lab.renew(3, **BETTER)
    assert lab.control("cancel").error == ""
    assert (lab.deployment.following, numbers(lab)) == (0, [1, 2])
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
    lab.report(next(group for group in lab.old if not group.started), "TASK_FAILED")
    assert (lab.deployment.status, lab.deployment.back) == ("UpdateSuspend", True)
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


def test_what_is_missing_is_refused_at_once_or_said_at_last() -> None:
    item = Item(type="env", key="a", target="A")
    needy = {"containers": (Container(command="serve", configmaps=(Reference(name="settings", items=(item,)),)),)}
    lab = suspended()
    assert "settings" in lab.renew(3, **needy).message
    assert lab.deployment.status == "UpdateSuspend"
    content = ConfigItem(type="file", content="aGk=")
    settings = ConfigMap(namespace="default", name="settings", items={"a": content})
    lab.ask(events.PutConfigMap(config_map=settings, create=True))
    assert lab.renew(3, **needy).error == ""
    lab.ask(events.DeleteConfigMap(namespace="default", name="settings"))
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision, lab.deployment.following) == ("Running", 1, 0)
    assert "revision 3 was to follow, and cannot" in lab.deployment.message
    assert "settings" in lab.deployment.message
    assert refused_later(lab) == [lab.deployment.message]
    assert numbers(lab) == [1, 2]


def test_the_quota_counts_what_is_to_follow() -> None:
    lab = suspended(3)
    lab.ask(orders.PutNamespace(namespace=Namespace(name="default", quota=Quota(taskgroups=6))))
    assert lab.renew(6, **BETTER).error == "quota_exceeded"
    assert (lab.deployment.status, lab.deployment.following) == ("UpdateSuspend", 0)
    assert lab.renew(5, **BETTER).error == ""
    lab.run()
    assert (lab.deployment.revision, len(lab.groups)) == (3, 5)
