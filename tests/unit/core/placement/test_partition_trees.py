"""Partitions of roles with a tree of queues each: changes, revisions, figures, and stores of earlier versions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from bcs_scheduler.api.views.explain import explain_application
from bcs_scheduler.core.interface import effects, inputs, requests
from bcs_scheduler.core.options import CoreOptions, RolePartition
from bcs_scheduler.core.placement.engines import hierarchical
from bcs_scheduler.core.placement.hierarchy.figures import TreeQueueFigures
from bcs_scheduler.core.placement.revisions import KEPT, read_tree
from bcs_scheduler.observability.metrics import Metrics
from offers.policy.hierarchy.configuration.document import canonical
from offers.policy.hierarchy.maintenance import Maintenance
from offers.policy.session.configuration import default_policy
from store.encoding.codec import Stored, decode, encode
from store.records import Namespace, QueueTree
from tests.unit.core.placement.test_partitions import arrive, count, create
from tests.unit.core.placement.test_queue_accounts import observed
from tests.unit.lab import Lab
from tests.unit.metrics_support import leading, samples
from transactions.base import Refused
from transactions.rules.queues import chosen_tree


class SeeingLab(Lab):
    """Keeps all effects, those of the first turn as well."""

    def __init__(self, *arguments: Any) -> None:
        self.seen: list[effects.Effect] = []
        super().__init__(*arguments)

    def turn(self, *batch: inputs.Input) -> list[effects.Effect]:
        found = super().turn(*batch)
        self.seen += found
        return found

    def lines(self, reason: str) -> list[effects.LogLine]:
        return [one for one in self.seen if isinstance(one, effects.LogLine) and one.reason == reason]


def document(cpus: float, *more: str) -> str:
    """A tree whose queue `default` has a maximum."""
    queues = [{"name": "default", "resources": {"max": {"cpus": cpus}}}, *({"name": name} for name in more)]
    return canonical({"queues": queues})


def part(role: str, text: str, name: str = "") -> RolePartition:
    return RolePartition((role,), hierarchy=read_tree(text), hierarchy_document=text, name=name)


SMALL, LARGE = document(0.2, "night"), document(0.3, "shop")
NIGHT, OTHERS = part("batch", SMALL, "night"), part("*", LARGE)
OPTIONS = CoreOptions(strict=True, validate=True, partitions=(NIGHT, OTHERS))


def put(lab: SeeingLab, text: str, partition: str = "", **fields: Any) -> effects.Reply:
    return lab.ask(requests.PutQueueTree(document=text, partition=partition, token=1, **fields))


def revisions(lab: SeeingLab) -> dict[str, str]:
    """The stored documents by key."""
    return {key: tree.document for key, tree in lab.core.state.queue_trees.items()}


def queues(lab: SeeingLab, partition: str) -> Mapping[str, TreeQueueFigures]:
    tree = lab.core.turn_context.queues.tree(partition)
    assert tree is not None
    return {queue.name: queue for queue in tree.queues}


def test_the_file_of_each_partition_becomes_its_first_revision() -> None:
    lab = SeeingLab(OPTIONS)
    assert revisions(lab) == {"night/1": SMALL, "1": LARGE}
    events = {one.key: one.message for one in lab.lines("QueueTreeUpdated")}
    assert events == dict.fromkeys(("night/1", "1"), "revision 1, from scheduler.policies_file")


def test_queues_of_the_same_name_have_the_limits_of_their_own_tree() -> None:
    lab = SeeingLab(OPTIONS)
    for namespace, role in (("a", "batch"), ("b", "*")):
        create(lab, namespace, 5, role)
        arrive(lab, 5, role)
    lab.wait(7.0)
    assert (count(lab, "a"), count(lab, "b")) == (2, 3)
    night, others = queues(lab, "night")["root.default"], queues(lab, "default")["root.default"]
    assert (night.taskgroups, dict(night.pending)) == (2, {"queue_limit": 3})
    assert (others.taskgroups, dict(others.pending)) == (3, {"queue_limit": 2})
    assert (set(night.used), set(others.used)) == ({"batch"}, {"*"})
    assert put(lab, document(0.4), "night").data == {"revision": 2, "partition": "night"}
    for role in ("batch", "*"):
        arrive(lab, 5, role)
    lab.wait(2.0)
    assert (count(lab, "a"), count(lab, "b")) == (4, 3), "the other tree has not changed"


def test_changes_and_roll_backs_concern_one_tree() -> None:
    lab = SeeingLab(OPTIONS)
    assert put(lab, document(1.0), "night", expected=1).data == {"revision": 2, "partition": "night"}
    assert put(lab, document(2.0), "night", expected=2).data == {"revision": 3, "partition": "night"}
    assert put(lab, document(3.0), expected=1).data == {"revision": 2, "partition": "default"}
    refused = put(lab, document(4.0), "night", expected=2)
    assert refused.error == "conflict" and "revision is 3" in refused.message
    back = requests.RollbackQueueTree(revision=1, partition="night", token=1)
    assert lab.ask(back).data == {"revision": 4, "partition": "night"}
    assert revisions(lab)["night/4"] == SMALL and revisions(lab)["2"] == document(3.0)
    missing = lab.ask(requests.RollbackQueueTree(revision=4, token=1))
    assert missing.error == "not_found" and "kept beside the present: 1" in missing.message


def test_each_tree_keeps_its_newest_revisions() -> None:
    lab = SeeingLab(OPTIONS)
    for number in range(KEPT + 3):
        put(lab, document(number + 1), "night")
    assert len(revisions(lab)) == KEPT + 1 and "1" in revisions(lab)
    assert "night/4" not in revisions(lab) and f"night/{KEPT + 4}" in revisions(lab)


def test_halted_queues_belong_to_one_tree() -> None:
    lab = SeeingLab(OPTIONS)
    stop = requests.SetQueueState(queue="root.default", state="Stopped", partition="night", token=1)
    assert lab.ask(stop).data == {"queue": "root.default", "state": "Stopped", "partition": "night"}
    for namespace, role in (("a", "batch"), ("b", "*")):
        create(lab, namespace, 1, role)
        arrive(lab, 1, role)
    lab.wait(2.0)
    assert (count(lab, "a"), count(lab, "b")) == (0, 1)
    lab = SeeingLab(OPTIONS, lab.records(), lab.now)
    assert {name: one.trees.halts for name, one in lab.core._offer_manager.placing.trees().items() if one.trees.halts}
    assert queues(lab, "default")["root.default"].state == "Active"


def test_a_dry_run_tries_the_tree_that_it_names() -> None:
    lab = SeeingLab(OPTIONS)
    for namespace, role in (("a", "batch"), ("b", "*")):
        create(lab, namespace, 4, role)
        arrive(lab, 6, role)
    lab.wait(2.0)
    reply = put(lab, document(1.0), "night", dry_run=True)
    assert reply.data is not None and reply.data["partition"] == "night"
    trial = reply.data["trial"]
    assert trial["partition"] == {"policy": "hierarchical", "roles": ["batch"], "name": "night"}
    assert trial["movedOn"] == ["a/web"]
    assert revisions(lab) == {"night/1": SMALL, "1": LARGE}


def test_an_explanation_names_the_partition_and_the_limit_of_its_tree() -> None:
    lab = SeeingLab(OPTIONS)
    create(lab, "a", 4, "batch")
    arrive(lab, 5, "batch")
    arrive(lab, 5, "*")
    lab.wait(2.0)
    told = explain_application(lab.core.state, lab.core.state.applications["a/web"], lab.core.diagnosis, lab.now)
    placing = told.transactions[0].placing
    assert placing is not None and placing.partition is not None and placing.queue is not None
    assert (placing.partition.name, placing.queue.name) == ("night", "root.default")
    assert "0.2" in placing.message
    reply = lab.ask(requests.AskWhatIf(namespace="a", name="web"))
    assert reply.data is not None and reply.data["partition"]["name"] == "night"


def test_other_work_in_a_queue_of_the_same_name_does_not_count_for_a_limit() -> None:
    """A what-if raises the limit by the work of the own role only."""

    def raised(lab: SeeingLab) -> list[dict[str, Any]]:
        reply = lab.ask(requests.AskWhatIf(namespace="a", name="web"))
        assert reply.data is not None
        return [change for found in reply.data["solutions"] for change in found["changes"]]

    labs = [SeeingLab(OPTIONS), SeeingLab(OPTIONS)]
    for lab in labs:
        create(lab, "a", 4, "batch")
        arrive(lab, 5, "batch")
        lab.wait(2.0)
    create(labs[1], "b", 9, "*")
    labs[1].wait(2.0)
    assert raised(labs[0]) == raised(labs[1]) != []
    (change,) = raised(labs[0])
    assert (change["kind"], change["queue"], change["partition"]) == ("raiseQueueLimit", "root.default", "night")


def test_a_namespace_names_a_queue_of_any_tree() -> None:
    lab = SeeingLab(OPTIONS)
    for queue in ("night", "root.shop"):
        assert lab.ask(requests.PutNamespace(namespace=Namespace(name="a", queue=queue))).error == ""
    assert lab.ask(requests.PutNamespace(namespace=Namespace(name="a", queue="none"))).error == "invalid"
    create(lab, "a", 1, "batch")
    assert lab.ask(requests.PutNamespace(namespace=Namespace(name="b", queue="root.shop"))).error == ""
    create(lab, "b", 1, "*")
    lab.wait(7.0)
    assert dict(queues(lab, "default")["root.shop"].pending) == {"no_room": 1}
    assert dict(queues(lab, "night")["root.default"].pending) == {"no_room": 1}, "the tree night has no queue shop"


@pytest.mark.parametrize(
    ("names", "wanted", "found"),
    [
        (("default",), "", "default"),
        (("night",), "", "night"),
        (("night", "default"), "", "default"),
        (("night", "default"), "night", "night"),
    ],
)
def test_the_partition_of_a_request(names: tuple[str, ...], wanted: str, found: str) -> None:
    assert chosen_tree(names, wanted) == found


@pytest.mark.parametrize(("wanted", "reason"), [("", "invalid"), ("week", "not_found")])
def test_a_request_without_a_clear_partition_is_refused(wanted: str, reason: str) -> None:
    with pytest.raises(Refused) as refused:
        chosen_tree(("day", "night"), wanted)
    assert refused.value.reason == reason and "day, night" in refused.value.message
    lab = SeeingLab(CoreOptions(strict=True, partitions=(part("batch", SMALL, "night"), part("*", LARGE, "day"))))
    assert put(lab, document(5.0), wanted).error == reason


def test_a_store_of_an_earlier_version_has_the_tree_of_the_default_partition() -> None:
    lab = SeeingLab(CoreOptions(strict=True, hierarchy=read_tree(LARGE), hierarchy_document=LARGE))
    put(lab, document(1.0))
    earlier = [encode(one) for one in lab.records() if isinstance(one, QueueTree)]
    assert len(earlier) == 2 and not any(b"partition" in text for text in earlier), "the record is the same as before"
    later = SeeingLab(OPTIONS, lab.records(), lab.now)
    assert revisions(later) == {"1": LARGE, "2": document(1.0), "night/1": SMALL}
    trees = {name: one.trees.document for name, one in later.core._offer_manager.placing.trees().items()}
    assert trees == {"night": SMALL, "default": document(1.0)}


def test_a_record_of_another_partition_has_its_name_in_the_key() -> None:
    tree = QueueTree(number=3, partition="night", document=SMALL)
    read = decode(Stored("queuetree", tree.key, encode(tree)))
    assert read == tree and tree.key == "night/3"


def test_a_partition_that_leaves_the_settings_leaves_its_tree_in_the_store() -> None:
    lab = SeeingLab(OPTIONS)
    put(lab, document(1.0), "night")
    without = CoreOptions(strict=True, validate=True, partitions=(OTHERS, RolePartition(("batch",))))
    lab = SeeingLab(without, lab.records(), lab.now)
    put(lab, document(7.0))
    assert revisions(lab) == {"1": LARGE, "2": document(7.0), "night/1": SMALL, "night/2": document(1.0)}
    assert put(lab, SMALL, "night").error == "not_found"
    lab = SeeingLab(OPTIONS, lab.records(), lab.now)
    assert lab.core._offer_manager.placing.trees()["night"].trees.document == document(1.0)


def test_an_unreadable_revision_concerns_its_own_partition() -> None:
    lab = SeeingLab(OPTIONS)
    records = [one for one in lab.records() if not isinstance(one, QueueTree)]
    bad = QueueTree(number=1, partition="night", document=json.dumps({"queues": [{"name": "a.b"}]}))
    lab = SeeingLab(OPTIONS, [*records, bad], lab.now)
    trees = {name: one.trees.document for name, one in lab.core._offer_manager.placing.trees().items()}
    assert trees == {"night": SMALL, "default": LARGE}
    assert [one.key for one in lab.lines("QueueTreeUnreadable")] == ["night/1"]


def test_series_have_the_label_of_the_partition_only_if_there_are_several_trees() -> None:
    session = RolePartition(("web",), policy=default_policy())
    lab = SeeingLab(CoreOptions(strict=True, partitions=(NIGHT, session, OTHERS)))
    metrics = Metrics()
    metrics.lead(leading(lab.core))
    for namespace, role in (("a", "batch"), ("b", "*"), ("c", "web")):
        create(lab, namespace, 5, role)
        arrive(lab, 5, role)
    lab.wait(2.0)
    counted = observed(lab.seen)
    assert counted["policy_decisions", "root.default", "launch", "night"] == 2
    assert counted["policy_decisions", "root.default", "launch", "default"] == 3
    assert counted["policy_decisions", "default", "launch", ""] == 5
    for one in lab.seen:
        if isinstance(one, effects.Observed):
            metrics.observe(one)
    lab.wait(6.0)
    found = {
        (name, dict(labels).get("partition"), dict(labels).get("queue")): value
        for (name, labels), value in samples(metrics).items()
    }
    assert found["queue_taskgroups", "night", "root.default"] == 2
    assert found["queue_taskgroups", "default", "root.default"] == 3
    assert found["queue_taskgroups", None, "default"] == 5
    assert found["queue_tree_revision", "night", None] == found["queue_tree_revision", "default", None] == 1
    assert found["policy_decisions_total", "night", "root.default"] == 2
    lab, metrics = SeeingLab(CoreOptions(strict=True, partitions=(NIGHT, RolePartition()))), Metrics()
    metrics.lead(leading(lab.core))
    assert not any("partition" in dict(labels) for _, labels in samples(metrics))


def test_the_next_maintenance_is_the_soonest_that_a_role_of_the_partition_wants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first of two roles has room for work that may use a reserved node; the second has no news."""
    both = RolePartition(("batch", "*"), hierarchy=read_tree(LARGE), hierarchy_document=LARGE)
    lab = SeeingLab(CoreOptions(strict=True, validate=True, partitions=(both,)))
    maintained: list[bool] = []

    def again_for_the_first(*arguments: Any) -> Maintenance:
        maintained.append(not maintained)
        return Maintenance((), (), (), again=maintained[-1])

    monkeypatch.setattr(hierarchical, "maintain", again_for_the_first)
    for namespace, role in (("a", "batch"), ("b", "*")):
        create(lab, namespace, 9, role)
        arrive(lab, 1, role)
    maintained.clear()
    (placing,) = lab.core._offer_manager.placing.loops
    placing._waiting = True
    lab.wait(1.0)
    assert len(maintained) > 2
