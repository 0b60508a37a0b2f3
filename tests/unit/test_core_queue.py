"""Requests that wait until the operation on their object has ended (`onConflict=queue`)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import effects, requests
from bcs_scheduler.core.options import CoreOptions
from store.encoding.codec import Stored, decode, encode
from store.records import Namespace, Quota, Strategy, Transaction
from store.records.definition import Container, Item, Reference
from tests.unit.lab import KEY, Lab, running, version
from tests.unit.rollinglab import NEW, WEB, RollingLab, deployed
from transactions.base import Options, Periods

PLACE: dict[str, Any] = {"namespace": "default", "name": "web"}
BETTER: dict[str, Any] = {"labels": {"revision": "better"}}


def scale(lab: Lab, instances: int, **fields: Any) -> effects.Reply:
    return lab.ask(requests.ScaleApplication(instances=instances, on_conflict="queue", **PLACE, **fields))


def update(lab: Lab, instances: int = 3, **fields: Any) -> effects.Reply:
    return lab.ask(requests.UpdateApplication(version=version(instances, **fields), on_conflict="queue"))


def waiting(lab: Lab, kind: str = "application", key: str = KEY) -> list[str]:
    return list(lab.core.state.queued_of(kind, key))


def known(lab: Lab, reply: effects.Reply) -> Transaction:
    return lab.core.state.transactions[reply.data["transactionID"]]


def launching(instances: int = 3, options: CoreOptions | None = None) -> Lab:
    """An application whose launch waits for offers."""
    lab = Lab(options)
    lab.create(instances)
    return lab


def settle(lab: Lab) -> None:
    for _ in range(10):
        lab.offer(f"agent-{lab._serial}")
        lab.run()
    assert not waiting(lab)


def test_without_a_running_operation_a_request_begins_at_once() -> None:
    lab = running(3)
    reply = scale(lab, 4)
    assert reply.error == "" and "queuePosition" not in reply.data
    assert known(lab, reply).status in ("INIT", "FINISH")


def test_a_request_that_cannot_be_checked_when_its_turn_comes_waits_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was accepted, so an error of the scheduler must not end it."""
    lab = launching(options=CoreOptions())
    reply = scale(lab, 4)
    with monkeypatch.context() as patch:
        patch.setattr(next(part for part in lab.core.parts if part.name == "quotas"), "_derive", lambda: 1 / 0)
        lab.core.turn_context.unsound["quotas"] = None
        lab.offer()
        for group in lab.groups:
            lab.report(group, "RUNNING")
        lab.wait(30.0)
        assert not lab.core.state.active_of(KEY) and waiting(lab) == [reply.data["transactionID"]]
    lab.wait(120.0)
    assert not waiting(lab)
    assert known(lab, reply).status in ("INIT", "FINISH") and lab.application.instances == 4


def test_requests_wait_and_begin_one_after_the_other() -> None:
    lab = launching()
    first, second = scale(lab, 5), update(lab, 4, **BETTER)
    assert [reply.data["queuePosition"] for reply in (first, second)] == [1, 2]
    ahead = [lab.transaction("LAUNCH").id, first.data["transactionID"]]
    assert [reply.data["queuedBehind"] for reply in (first, second)] == ahead
    assert update(lab, 4, **BETTER).data["queuedBehind"] == ahead[1]
    assert [known(lab, reply).status for reply in (first, second)] == ["QUEUED", "QUEUED"]
    assert lab.application.instances == 3 and waiting(lab) == [
        first.data["transactionID"],
        second.data["transactionID"],
    ]
    launch = lab.transaction("LAUNCH")
    settle(lab)
    ended = [launch.id, first.data["transactionID"], second.data["transactionID"]]
    found = [lab.core.state.transactions[identity] for identity in ended]
    assert [transaction.status for transaction in found] == ["FINISH", "FINISH", "FINISH"]
    assert found[0].finished_at <= found[1].due_at and found[1].finished_at <= found[2].due_at
    assert found[1].id == first.data["transactionID"] and found[1].queued is None
    assert len(lab.groups) == 4 and {g.version for g in lab.groups} == {lab.application.version}
    assert lab.core.state.version(KEY, lab.application.version).labels == BETTER["labels"]  # type: ignore[union-attr]


@pytest.mark.parametrize("verdict", ["CANCEL", "TIMEOUT"])
def test_the_verdict_of_the_running_operation_does_not_matter(verdict: str) -> None:
    lab = launching()
    reply = scale(lab, 2)
    if verdict == "CANCEL":
        lab.cancel(lab.transaction("LAUNCH"))
    else:
        lab.wait(1801)
    assert lab.transaction("LAUNCH").status == verdict
    assert known(lab, reply).status == "INIT" and lab.application.operation == reply.data["transactionID"]
    settle(lab)
    assert len(lab.groups) == 2


def test_a_new_leader_finds_the_queue() -> None:
    lab = launching()
    replies = [scale(lab, number) for number in (5, 2, 4)]
    for record in lab.records():
        if isinstance(record, Transaction):
            again = decode(Stored("transaction", record.key, encode(record)))
            assert again == record
    lab = lab.succeed()
    assert waiting(lab) == [reply.data["transactionID"] for reply in replies]
    settle(lab)
    assert len(lab.groups) == 4


def test_a_superseding_request_supersedes_what_waits_as_well() -> None:
    lab = launching()
    replies = [scale(lab, 5), update(lab, **BETTER)]
    newer = lab.ask(requests.ScaleApplication(instances=2, on_conflict="supersede", **PLACE))
    assert [known(lab, reply).status for reply in replies] == ["SUPERSEDED", "SUPERSEDED"]
    gave_way = [lab.transaction("LAUNCH").id, *(reply.data["transactionID"] for reply in replies)]
    assert newer.data["superseded"] == gave_way
    assert [known(lab, reply).queued.body for reply in replies] == ["", ""]  # type: ignore[union-attr]
    settle(lab)
    assert len(lab.groups) == 2


def test_a_superseding_request_that_is_refused_leaves_the_queue_as_it_was() -> None:
    lab = launching()
    reply = scale(lab, 5)
    assert lab.ask(requests.ScaleApplication(instances=-1, on_conflict="supersede", **PLACE)).error == "invalid"
    assert waiting(lab) == [reply.data["transactionID"]]


def test_a_deletion_clears_the_queue() -> None:
    lab = launching()
    reply = scale(lab, 5)
    lab.delete()
    assert known(lab, reply).status == "CANCEL" and not waiting(lab)
    assert scale(lab, 4).error in ("conflict", "not_found")


def test_a_request_that_waits_is_cancelled() -> None:
    lab = launching()
    first, second = scale(lab, 5), scale(lab, 6)
    assert lab.cancel(known(lab, first)).error == ""
    assert known(lab, first).status == "CANCEL" and waiting(lab) == [second.data["transactionID"]]
    assert lab.cancel(known(lab, first)).error == "conflict"
    settle(lab)
    assert len(lab.groups) == 6


def test_what_is_wrong_is_refused_at_once() -> None:
    lab = launching()
    lab.ask(requests.PutNamespace(namespace=Namespace(name="default", quota=Quota(taskgroups=5))))
    assert scale(lab, 6).error == "quota_exceeded"
    assert scale(lab, -1).error == "invalid"
    item = Item(type="env", key="a", target="A")
    needy = (Container(command="serve", configmaps=(Reference(name="settings", items=(item,)),)),)
    assert "settings" in update(lab, containers=needy).message
    assert lab.ask(requests.ScaleApplication(namespace="default", name="other", instances=1, on_conflict="queue")).error
    assert not waiting(lab) and lab.application.instances == 3


def test_what_has_become_wrong_meanwhile_fails_and_the_next_one_begins() -> None:
    lab = launching()
    first, second = scale(lab, 9), scale(lab, 4)
    lab.ask(requests.PutNamespace(namespace=Namespace(name="default", quota=Quota(taskgroups=5))))
    settle(lab)
    assert known(lab, first).status == "FAIL" and "quota" in known(lab, first).message
    assert known(lab, second).status == "FINISH" and len(lab.groups) == 4


def test_number_and_time_are_bounded() -> None:
    assert Periods().queued == 86_400.0
    lab = launching(options=CoreOptions(transactions=Options(periods=Periods(queued=900.0)), strict=True))
    for number in range(CoreOptions().queue_requests):
        assert scale(lab, number + 4).error == ""
    full = scale(lab, 90)
    assert full.error == "too_many_open" and "at most 10 may" in full.message
    lab.wait(900 + 1)
    ended = [t.status for t in lab.core.state.transactions.values() if t.type == "SCALE"]
    assert not waiting(lab) and ended == ["TIMEOUT"] * CoreOptions().queue_requests


def test_number_size_and_time_are_settings() -> None:
    periods = Periods(queued=60.0)
    lab = launching(options=CoreOptions(queue_requests=2, transactions=Options(periods=periods), strict=True))
    first = scale(lab, 4)
    assert scale(lab, 5).error == "" and "at most 2 may" in scale(lab, 6).message
    lab.wait(61)
    assert known(lab, first).status == "TIMEOUT" and not waiting(lab)
    lab = launching(options=CoreOptions(queue_requests=0, strict=True))
    refused = scale(lab, 4)
    assert refused.error == "too_many_open" and "scheduler.queue_requests" in refused.message


def test_the_size_of_all_is_bounded() -> None:
    lab = launching(options=CoreOptions(queue_total=3, strict=True))
    assert update(lab, annotations={"notes": "x" * 2000}).error == ""
    assert update(lab, annotations={"notes": "y" * 2000}).error == "too_many_open"
    lab.cancel(lab.core.state.transactions[waiting(lab)[0]])
    assert update(lab, annotations={"notes": "y" * 2000}).error == "", "what has ended does not count"


def test_a_request_whose_turn_does_not_come_ends() -> None:
    options = msgspec.structs  # keep the name short
    del options
    lab = launching()
    waits = scale(lab, 5)
    record = known(lab, waits)
    lab.core.turn_context.uow.put(msgspec.structs.replace(record, deadline=lab.now + 30))
    lab.turn()
    lab.wait(31)
    assert known(lab, waits).status == "TIMEOUT" and lab.transaction("LAUNCH").status == "INIT"


def test_the_same_request_again_waits_once() -> None:
    lab = launching()
    first, again = scale(lab, 5), scale(lab, 5)
    assert again.data["unchanged"] and again.data["transactionID"] == first.data["transactionID"]
    assert len(waiting(lab)) == 1


def test_a_request_for_the_state_to_which_the_running_operation_leads_is_unchanged() -> None:
    lab = launching()
    assert scale(lab, 3).data["unchanged"] and not waiting(lab)


def test_a_request_that_gives_way_is_refused_while_others_wait() -> None:
    lab = launching()
    scale(lab, 5)
    refused = lab.ask(requests.ScaleApplication(instances=7, on_conflict="fail", **PLACE))
    assert refused.error == "conflict" and "came before" in refused.message


def test_a_plan_queues_nothing() -> None:
    lab = launching()
    lab.offer(cpus=0)
    lab.ask(requests.ScaleApplication(instances=5, on_conflict="queue", dry_run=True, **PLACE))
    assert not waiting(lab)


def test_limits_do_not_wait() -> None:
    lab = launching()
    asked = requests.UpdateApplication(version=version(3), resources_only=True, on_conflict="queue")
    assert lab.ask(asked).error == "conflict" and not waiting(lab)


# --- deployments ------------------------------------------------------------------------------------------------------


def updating() -> RollingLab:
    lab = deployed(3, Strategy(max_surge=1, max_unavailable=0))
    lab.renew(3, **NEW)
    lab.run_until(lambda: len(lab.new) == 1)
    return lab


def test_a_document_waits_for_the_end_of_an_update() -> None:
    lab = updating()
    reply = lab.renew(4, on_conflict="queue", **BETTER)
    assert (reply.error, reply.data["queuePosition"], reply.data["revision"]) == ("", 1, 2)
    assert lab.deployment.revision == 2 and waiting(lab, "deployment", WEB)
    lab.run()
    assert (lab.deployment.status, lab.deployment.revision, len(lab.groups)) == ("Running", 3, 4)
    ended = known(lab, reply)
    assert (ended.status, ended.message) == ("FINISH", "revision 3 has begun")


def test_a_scale_waits_for_the_end_of_an_update() -> None:
    lab = updating()
    reply = lab.resize(5, "queue")
    assert known(lab, reply).status == "QUEUED" and lab.deployment.instances == 3
    lab.run()
    assert (lab.deployment.revision, len(lab.groups), known(lab, reply).status) == (2, 5, "FINISH")
    scaled = known(lab, reply)
    places = [key for key in (WEB, lab.application.key) if scaled.id in lab.core.state.transactions_of(key)]
    assert places == [scaled.application_key] == [lab.application.key]


def test_a_queue_of_a_deployment_waits_while_its_update_is_halted_and_survives_a_new_leader() -> None:
    lab = deployed(2, Strategy(manual=True))
    lab.renew(2, **NEW)
    lab.run()
    lab.resize(4, "queue")
    lab.run()
    assert lab.deployment.status == "UpdatePaused" and len(waiting(lab, "deployment", WEB)) == 1
    lab = lab.succeed()
    lab.offer()
    lab.control("cancel")
    lab.run()
    assert (lab.deployment.revision, len(lab.groups)) == (1, 4) and not waiting(lab, "deployment", WEB)


def test_a_deleted_deployment_has_no_queue() -> None:
    lab = updating()
    reply = lab.resize(5, "queue")
    lab.remove()
    assert known(lab, reply).status == "CANCEL"
    assert lab.resize(6, "queue").error == "conflict"


def test_a_newer_document_supersedes_the_queue_of_a_deployment() -> None:
    lab = updating()
    reply = lab.resize(5, "queue")
    lab.renew(3, on_conflict="supersede", **BETTER)
    assert known(lab, reply).status == "SUPERSEDED"
    lab.run()
    assert (lab.deployment.revision, len(lab.groups)) == (3, 3)
