"""Partitions of roles in the core: each role is placed by its policy, beside the others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bcs_scheduler.api.views.explain import explain_application
from bcs_scheduler.core.interface import effects, leased, requests
from bcs_scheduler.core.options import CoreOptions, RolePartition
from bcs_scheduler.core.placement.revisions import read_tree
from offers.policy.hierarchy.configuration.document import canonical
from offers.policy.session.configuration import default_policy
from store.records import Namespace, PodGroup, Queue
from tests.unit.lab import Lab, version

TREE = canonical({"queues": [{"name": "default", "resources": {"max": {"cpus": 0.2}}}]})
SESSION = RolePartition(("web",), policy=default_policy())
SIMPLE = RolePartition(("*",))
HIERARCHICAL = RolePartition(("batch",), hierarchy=read_tree(TREE), hierarchy_document=TREE)
OPTIONS = CoreOptions(strict=True, validate=True, partitions=(SESSION, HIERARCHICAL, SIMPLE))
ONE = 100
"""Thousandths of a core of one taskgroup."""


def create(lab: Lab, namespace: str, instances: int, role: str, **fields: Any) -> None:
    wanted = msgspec.structs.replace(version(instances, **fields), namespace=namespace, role=role)
    assert lab.ask(requests.CreateApplication(version=wanted, token=1)).error == ""


def arrive(lab: Lab, number: int, role: str) -> None:
    """Offers to a role of agents with room for one taskgroup each."""
    made = [lab.make_offer(f"{role}-{index}", cpus=ONE + 50) for index in range(number)]
    lab.turn(leased.OffersArrived(offers=tuple(offer._replace(role=role) for offer in made)))


def count(lab: Lab, namespace: str) -> int:
    return len(lab.core.state.groups_of(f"{namespace}/web"))


def test_each_role_is_placed_by_the_rules_of_its_policy() -> None:
    lab = Lab(OPTIONS)
    for namespace, role in (("low", "web"), ("high", "web"), ("first", "*"), ("second", "*"), ("night", "batch")):
        create(lab, namespace, 4, role, priority=10 if namespace in ("high", "second") else 0)
    lab.wait(2.0)
    for role in ("web", "*", "batch"):
        arrive(lab, 4, role)
    lab.wait(2.0)
    assert (count(lab, "high"), count(lab, "low")) == (4, 0), "sessions serve the higher priority"
    assert (count(lab, "first"), count(lab, "second")) == (4, 0), "priorities have no meaning for the others"
    assert count(lab, "night") == 2, "the queue of the tree has its maximum"


def test_an_explanation_names_the_policy_of_the_role() -> None:
    lab = Lab(OPTIONS)
    for role in ("web", "*", "batch"):
        create(lab, f"of-{len(role)}", 1, role)
    lab.offer("small", cpus=1)
    lab.wait(2.0)
    found = {}
    for application in lab.core.state.applications.values():
        told = explain_application(lab.core.state, application, lab.core.diagnosis, lab.now)
        placing = told.transactions[0].placing
        if placing is not None and placing.partition is not None:
            found[application.namespace] = (placing.partition.policy, placing.partition.roles)
            words = f"the policy {placing.partition.policy} decides about the roles {placing.partition.roles[0]}"
            assert words in told.text
    assert found == {"of-3": ("session", ["web"]), "of-1": ("simple", ["*"]), "of-5": ("hierarchical", ["batch"])}


def test_a_dry_run_asks_the_policy_of_the_role() -> None:
    lab = Lab(OPTIONS)
    create(lab, "low", 4, "web")
    lab.wait(2.0)
    for role in ("web", "batch", "*"):
        arrive(lab, 4, role)
    lab.wait(2.0)

    def unplaced(role: str) -> int:
        wanted = msgspec.structs.replace(version(4), namespace="trial", role=role)
        reply = lab.ask(requests.CreateApplication(version=wanted, token=1, dry_run=True))
        assert reply.data is not None
        return int(reply.data["unplaced"])

    assert {role: unplaced(role) for role in ("web", "batch", "*")} == {"web": 4, "batch": 2, "*": 0}


def test_trials_name_the_partition() -> None:
    lab = Lab(OPTIONS)
    arrive(lab, 1, "batch")
    wanted = msgspec.structs.replace(version(4), namespace="trial", role="batch")
    create_it = requests.CreateApplication(version=wanted, token=1, dry_run=True)
    named = {"policy": "hierarchical", "roles": ["batch"], "name": "default"}
    reply = lab.ask(create_it)
    assert reply.data is not None and reply.data["partition"] == named
    reply = lab.ask(requests.PlanRequests(requests=(create_it,)))
    assert reply.data is not None and reply.data["requests"][0]["partition"] == named
    create(lab, "night", 4, "batch")
    reply = lab.ask(requests.AskWhatIf(namespace="night", name="web"))
    assert reply.data is not None and reply.data["partition"] == named
    arrive(lab, 1, "web")
    reply = lab.ask(requests.PutQueueTree(document=TREE.replace("0.2", "0.3"), token=1, dry_run=True))
    assert reply.data is not None and reply.data["trial"]["partition"] == named
    lab = Lab(CoreOptions(strict=True))
    lab.offer("any")
    reply = lab.ask(create_it)
    assert reply.data is not None and "partition" not in reply.data, "all roles have one policy"


def test_the_tree_of_one_partition_changes_and_leaves_the_others_alone() -> None:
    lab = Lab(OPTIONS)
    create(lab, "night", 4, "batch")
    create(lab, "first", 1, "*")
    arrive(lab, 4, "batch")
    lab.wait(2.0)
    assert count(lab, "night") == 2
    assert lab.ask(requests.PutQueueTree(document='{"queues": [{"name": "default"}]}', token=1)).error == ""
    lab.wait(2.0)
    assert count(lab, "night") == 4
    tree = lab.core.turn_context.queues.tree("default")
    assert tree is not None and {role for queue in tree.queues for role in queue.used} == {"batch"}


def test_figures_of_queues_count_the_roles_of_sessions() -> None:
    lab = Lab(OPTIONS)
    assert lab.ask(requests.PutQueue(queue=Queue(name="online"), create=True)).error == ""
    assert lab.ask(requests.PutNamespace(namespace=Namespace(name="shop", queue="online"))).error == ""
    create(lab, "shop", 2, "web")
    create(lab, "other", 2, "*")
    create(lab, "night", 3, "batch")
    lab.wait(2.0)
    for role in ("web", "*", "batch"):
        arrive(lab, 4, role)
    lab.wait(7.0)
    figures = {each.queue.name: each for each in lab.core.turn_context.queues.figures()}
    assert figures["online"].taskgroups == 2 and set(figures["online"].used) == {"web"}
    assert figures["default"].taskgroups == 0, "the other roles have no queues of sessions"
    tree = lab.core.turn_context.queues.tree("default")
    assert tree is not None
    leaf = next(queue for queue in tree.queues if queue.name == "root.default")
    assert (leaf.taskgroups, dict(leaf.pending)) == (2, {"queue_limit": 1})


def member(lab: Lab, name: str, role: str) -> effects.Reply:
    """The answer to an application of the group pair/both."""
    wanted = msgspec.structs.replace(version(1), namespace="pair", application=name, role=role)
    wanted = msgspec.structs.replace(wanted, annotations={"scheduling.k8s.io/group-name": "both"})
    return lab.ask(requests.CreateApplication(version=wanted, token=1))


def paired(lab: Lab) -> Lab:
    group = PodGroup(namespace="pair", name="both", min_member=2)
    assert lab.ask(requests.PutPodGroup(pod_group=group, create=True)).error == ""
    return lab


def test_a_member_of_another_partition_is_refused() -> None:
    lab = paired(Lab(OPTIONS))
    assert member(lab, "one", "web").error == ""
    refused = member(lab, "two", "batch")
    assert (refused.error, refused.problems[0].path) == ("invalid", "$.spec.template.spec.role")
    for words in (
        "the policy hierarchical (roles batch)",
        "the policy session (roles web) about one",
        "pod group both",
    ):
        assert words in refused.message
    refused = member(lab, "two", "")
    assert refused.problems[0].path == '$.metadata.annotations["scheduling.k8s.io/group-name"]'
    assert member(lab, "two", "web").error == ""
    changed = msgspec.structs.replace(version(1), namespace="pair", application="two", role="batch")
    changed = msgspec.structs.replace(changed, annotations={"scheduling.k8s.io/group-name": "both"})
    assert lab.ask(requests.UpdateApplication(version=changed, token=1)).error == "invalid"


def test_a_group_that_is_in_two_partitions_already_says_so() -> None:
    """The members were created before each role had a policy of its own."""
    lab = paired(Lab(CoreOptions(strict=True)))
    for name, role in (("one", "web"), ("two", "*")):
        assert member(lab, name, role).error == ""
    lab = Lab(OPTIONS, lab.records(), lab.now)
    for role in ("web", "*"):
        arrive(lab, 2, role)
    lab.wait(3.0)
    assert not lab.core.state.taskgroups, "each partition sees one of two members"
    for name in ("one", "two"):
        told = explain_application(
            lab.core.state, lab.core.state.applications[f"pair/{name}"], lab.core.diagnosis, lab.now
        )
        placing = told.transactions[0].placing
        assert placing is not None and placing.group is not None
        assert placing.group.reason == "membersApart"
        assert sorted(part.policy for part in placing.group.partitions) == ["session", "simple"]
        assert "never start together" in placing.message
    assert member(lab, "three", "web").error == "invalid", "one of the others is in another partition"


def test_offers_that_are_gone_void_the_plans_of_all_partitions() -> None:
    lab = Lab(OPTIONS)
    placing = lab.core._offer_manager.placing
    create(lab, "low", 2, "web")
    lab.wait(2.0)
    placing.void()
    assert not placing.planning and not placing.busy


@pytest.mark.parametrize("role", ["web", "*", "batch"])
def test_a_new_leader_places_what_waits(role: str) -> None:
    lab = Lab(OPTIONS)
    create(lab, "later", 2, role)
    lab = lab.succeed()
    arrive(lab, 2, role)
    lab.wait(3.0)
    assert count(lab, "later") == 2


def test_replies_name_a_missing_tree() -> None:
    lab = Lab(CoreOptions(strict=True, partitions=(SESSION, SIMPLE)))
    reply: effects.Reply = lab.ask(requests.PutQueueTree(document=TREE, token=1))
    assert reply.error == "conflict"
