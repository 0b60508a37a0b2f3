"""The stored tree of the policy `hierarchical`: revisions, roll back, halted queues, dry trials, users, new leaders."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import effects, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.engines.hierarchical import Hierarchical
from bcs_scheduler.core.placement.hierarchy.trees import Trees
from bcs_scheduler.core.placement.revisions import KEPT
from bcs_scheduler.core.scheduler import Core
from offers.policy.hierarchy.configuration.document import canonical, partition_of
from store.records import Namespace, QueueTree
from tests.unit.core.placement.engines.test_hierarchical import agents, arrive, groups, run
from tests.unit.lab import Lab, version

TREE: dict[str, Any] = {
    "queues": [
        {"name": "default"},
        {"name": "one", "resources": {"max": {"cpus": 0.3}}},
        {"name": "two"},
        {"name": "teams", "parent": True},
    ],
    "placementrules": [
        {"name": "tag", "value": "namespace"},
        {"name": "user", "create": True, "parent": {"name": "fixed", "value": "teams"}},
    ],
}


def options(document: dict[str, Any] | None = None) -> CoreOptions:
    found = TREE if document is None else document
    return CoreOptions(
        strict=True,
        hierarchy=partition_of(found, ("cpus", "mem")),
        hierarchy_document=canonical(found),
        session_period=0.5,
        validate=True,
    )


def changed(name: str, **fields: Any) -> str:
    """The tree with other fields of one queue; None removes a field."""
    document = json.loads(json.dumps(TREE))
    for queue in document["queues"]:
        if queue["name"] == name:
            queue.update({key: value for key, value in fields.items() if value is not None})
            for key in (key for key, value in fields.items() if value is None):
                queue.pop(key, None)
    return json.dumps(document)


def without(name: str) -> str:
    return json.dumps({**TREE, "queues": [queue for queue in TREE["queues"] if queue["name"] != name]})


def create(lab: Lab, namespace: str, instances: int, name: str = "web", user: str = "", **fields: Any) -> effects.Reply:
    wanted = msgspec.structs.replace(version(instances, **fields), namespace=namespace, application=name)
    groups_of_user = (f"group-of-{user}",) if user else ()
    return lab.ask(requests.CreateApplication(version=wanted, user=user, user_groups=groups_of_user))


def put(lab: Lab, document: str, **fields: Any) -> effects.Reply:
    lab.turn(requests.PutQueueTree(token=77, document=document, author="ann", **fields))
    replies = lab.sent(effects.Reply)
    if not replies:  # a dry run waits for offers
        lab.wait(4.0)
        replies = lab.sent(effects.Reply)
    (reply,) = replies
    return reply


def trees(lab: Lab) -> Trees:
    return placing(lab).trees


def placing(lab: Lab) -> Hierarchical:
    found = lab.core._offer_manager.placing.loops[0].engine
    assert isinstance(found, Hierarchical)
    return found


def takeover(lab: Lab, given: CoreOptions) -> Lab:
    """Another leader over the same records."""
    return Lab(given, lab.core.state.records(), lab.now)


def revisions(lab: Lab) -> list[int]:
    return sorted(tree.number for tree in lab.core.state.queue_trees.values())


def test_the_file_becomes_the_first_revision() -> None:
    lab = Lab(options())
    (tree,) = lab.core.state.queue_trees.values()
    assert (tree.number, json.loads(tree.document)) == (1, TREE)


def test_without_a_file_nothing_is_stored_until_a_change() -> None:
    lab = Lab(replace(options({"queues": [{"name": "default"}]}), hierarchy_document=""))
    assert not lab.core.state.queue_trees
    assert put(lab, json.dumps(TREE)).data == {"revision": 1}
    assert "root.one" in dict.fromkeys(trees(lab).of("*").tree.queues)


def test_a_higher_maximum_takes_effect_without_a_restart() -> None:
    lab = Lab(options())
    create(lab, "one", 5)
    arrive(lab, *agents(6))
    assert len(groups(lab, "one")) == 3
    answer = put(lab, changed("one", resources={"max": {"cpus": 0.5}}))
    assert answer.data == {"revision": 2}
    lab.wait(1.0)
    assert len(groups(lab, "one")) == 5


def test_every_problem_is_named_and_the_old_tree_stays() -> None:
    lab = Lab(options())
    bad = {"queues": [{"name": "a.b"}, {"name": "c", "resources": {"max": {"pods": 1}, "guaranteed": {"cpus": -1}}}]}
    answer = put(lab, json.dumps(bad))
    assert answer.error == "invalid"
    assert {problem.path for problem in answer.problems} == {
        "$.queues[0].name",
        "$.queues[1].resources.max.pods",
        "$.queues[1].resources.guaranteed.cpus",
    }
    assert put(lab, "{").problems[0].path == "$"
    assert revisions(lab) == [1]
    create(lab, "one", 5)
    arrive(lab, *agents(6))
    assert len(groups(lab, "one")) == 3


def test_a_change_of_another_revision_than_expected_is_refused() -> None:
    lab = Lab(options())
    put(lab, without("two"))
    answer = put(lab, json.dumps(TREE), expected=1)
    assert answer.error == "conflict" and "revision is 2" in answer.message
    assert not put(lab, json.dumps(TREE), expected=2).error


def test_the_same_document_makes_no_revision() -> None:
    lab = Lab(options())
    assert put(lab, json.dumps(TREE)).data == {"revision": 1, "unchanged": True}
    assert revisions(lab) == [1]


def test_a_roll_back_is_a_new_revision() -> None:
    lab = Lab(options())
    put(lab, without("two"))
    put(lab, changed("one", resources=None))
    assert lab.ask(requests.RollbackQueueTree(revision=1)).data == {"revision": 4}
    newest = lab.core.state.queue_trees["4"]
    assert json.loads(newest.document) == TREE and newest.why == "rolled back to revision 1"
    assert "root.two" in trees(lab).of("*").tree.queues
    assert lab.ask(requests.RollbackQueueTree(revision=4)).error == "conflict"
    assert lab.ask(requests.RollbackQueueTree(revision=9)).error == "not_found"


def test_the_number_of_revisions_is_bounded() -> None:
    lab = Lab(options())
    for number in range(KEPT + 5):
        put(lab, changed("two", maxapplications=number + 1))
    assert revisions(lab) == list(range(7, KEPT + 7))


def test_queues_with_applications_do_not_become_parents() -> None:
    lab = Lab(options())
    create(lab, "one", 1)
    arrive(lab, "agent-1")
    answer = put(lab, changed("one", parent=True, queues=[{"name": "below"}]))
    assert answer.error == "conflict"
    assert answer.problems[0].path == "$.root.one"
    assert revisions(lab) == [1]


def test_a_queue_that_leaves_the_configuration_drains() -> None:
    lab = Lab(options())
    create(lab, "two", 2)
    arrive(lab, *agents(2))
    run(lab)
    put(lab, without("two"))
    lab.wait(1.0)
    assert len(groups(lab, "two")) == 2
    queue = trees(lab).of("*").tree.queues["root.two"]
    assert (queue.state, queue.is_temporary, queue.allocated["cpus"]) == ("Draining", True, 200)


# --- dry trials -------------------------------------------------------------------------------------------------


def test_a_trial_names_those_who_would_wait_and_changes_nothing() -> None:
    lab = Lab(options())
    create(lab, "two", 2)
    arrive(lab, *agents(1))
    lab.wait(10.0)
    answer = put(lab, changed("two", resources={"max": {"cpus": 0.1}}), dry_run=True)
    trial = answer.data["trial"]
    assert answer.data["dryRun"] and answer.data["revision"] == 2
    assert (trial["waiting"], trial["preempting"]) == (0, 0)
    assert revisions(lab) == [1]
    arrive(lab, *agents(3))
    assert len(groups(lab, "two")) == 2


def test_a_trial_of_a_lower_maximum_names_victims_within_the_budget() -> None:
    lab = Lab(options())
    create(lab, "two", 4, max_unavailable=2)
    arrive(lab, *agents(4))
    run(lab)
    lower = {"resources": {"max": {"cpus": 0.1}}, "properties": {"quota.preemption.delay": "1s"}}
    trial = put(lab, changed("two", **lower), dry_run=True).data["trial"]
    assert trial["preempting"] == 2
    assert {one["application"] for one in trial["preempted"]} == {"two/web"}
    assert {one["beneficiary"] for one in trial["preempted"]} == {""}
    assert not any(group.killing_since for group in groups(lab, "two"))


def test_a_trial_names_the_queue_that_would_hold_applications_back() -> None:
    lab = Lab(options())
    create(lab, "two", 3)
    lab.turn()
    # The room is there, and the maximum that the trial has keeps it from two of them.
    document = changed("two", resources={"max": {"cpus": 0.1}})
    lab.core._offer_manager.placing.loops[0]._next = lab.now + 1000.0
    lab.turn()
    arrive(lab, *agents(3))
    assert not groups(lab, "two")
    trial = put(lab, document, dry_run=True).data["trial"]
    (wait,) = trial["waits"]
    assert (wait["application"], wait["taskgroups"], wait["before"]) == ("two/web", 2, 0)
    assert (wait["reason"], wait["queue"]) == ("QueueMaximum", "root.two")
    assert "maximum: cpus 0.1" in wait["message"]


# --- quota preemption ---------------------------------------------------------------------------------------------


def test_a_queue_above_a_lowered_maximum_gives_back_although_nothing_waits() -> None:
    lab = Lab(options())
    create(lab, "two", 4, max_unavailable=4)
    arrive(lab, *agents(4))
    run(lab)
    assert not lab.core.turn_context.engine.demands
    lower = {"resources": {"max": {"cpus": 0.2}}, "properties": {"quota.preemption.delay": "10s"}}
    put(lab, changed("two", **lower))
    lab.wait(5.0)
    assert not any(group.killing_since for group in groups(lab, "two"))
    for _ in range(4):
        lab.wait(5.0)
    assert sum(bool(group.killing_since) for group in groups(lab, "two")) == 2


# --- halted queues ------------------------------------------------------------------------------------------------


def test_a_stopped_queue_places_nothing_until_it_is_started() -> None:
    lab = Lab(options())
    create(lab, "two", 2)
    lab.wait(1.0)
    assert not lab.ask(requests.SetQueueState(queue="root.two", state="Stopped", author="ann")).error
    create(lab, "one", 1)
    arrive(lab, *agents(4))
    assert not groups(lab, "two")
    assert len(groups(lab, "one")) == 1
    assert not lab.ask(requests.SetQueueState(queue="root.two", state="Active")).error
    lab.wait(1.0)
    assert len(groups(lab, "two")) == 2


def test_a_draining_queue_serves_those_that_it_has() -> None:
    lab = Lab(options())
    create(lab, "two", 2)
    arrive(lab, "agent-1")
    assert len(groups(lab, "two")) == 1
    lab.wait(1.0)
    lab.ask(requests.SetQueueState(queue="root.two", state="Draining"))
    create(lab, "two", 1, "late")
    arrive(lab, *agents(5)[2:])
    assert len(groups(lab, "two")) == 2
    tree = trees(lab).of("*").tree
    assert tree.applications["two/web"].queue == "root.two"
    assert tree.applications["two/late"].queue != "root.two"


def test_an_application_that_is_created_anew_is_another_one_for_a_draining_queue() -> None:
    lab = Lab(options({"queues": [{"name": "two"}], "placementrules": TREE["placementrules"][:1]}))
    create(lab, "two", 1)
    arrive(lab, "agent-1")
    run(lab)
    assert not lab.ask(requests.SetQueueState(queue="root.two", state="Draining")).error
    lab.wait(1.0)
    lab.turn(requests.DeleteApplication(namespace="two", name="web"))
    (group,) = groups(lab, "two")
    lab.report(group, "KILLED")
    assert "two/web" not in lab.core.state.applications
    create(lab, "two", 1)
    arrive(lab, "agent-1")
    assert groups(lab, "two") == []
    lab.ask(requests.SetQueueState(queue="root.two", state="Active"))
    arrive(lab, "agent-1")
    assert len(groups(lab, "two")) == 1


def test_only_configured_queues_are_halted() -> None:
    lab = Lab(options())
    create(lab, "elsewhere", 1, user="bea")
    arrive(lab, "agent-1")
    assert trees(lab).of("*").tree.applications["elsewhere/web"].queue == "root.teams.bea"
    created = lab.ask(requests.SetQueueState(queue="root.teams.bea", state="Stopped"))
    assert created.error == "not_found" and "placement rule has created it" in created.message
    assert lab.ask(requests.SetQueueState(queue="root.none", state="Stopped")).error == "not_found"
    assert lab.ask(requests.SetQueueState(queue="root", state="Draining")).error == "invalid"


def test_a_halt_outlives_revisions_and_roll_backs() -> None:
    lab = Lab(options())
    lab.ask(requests.SetQueueState(queue="root.two", state="Stopped"))
    put(lab, changed("one", resources=None))
    lab.ask(requests.RollbackQueueTree())
    assert trees(lab).of("*").tree.queues["root.two"].state == "Stopped"
    put(lab, without("two"))
    put(lab, json.dumps(TREE))
    assert trees(lab).of("*").tree.queues["root.two"].state == "Active"


# --- users --------------------------------------------------------------------------------------------------------


def limited(**limit: Any) -> CoreOptions:
    document = {
        "queues": [{"name": "default"}, {"name": "shared", "limits": [limit]}],
        "placementrules": [{"name": "fixed", "value": "shared"}],
    }
    return options(document)


def test_a_limit_of_users_holds_for_each_user() -> None:
    lab = Lab(limited(users=["*"], maxresources={"cpus": 0.2}))
    create(lab, "one", 3, user="ann")
    create(lab, "two", 3, user="bea")
    arrive(lab, *agents(6))
    assert len(groups(lab, "one")) == len(groups(lab, "two")) == 2
    held = [one.held_back for one in lab.core.turn_context.engine.diagnoses.values() if one.held_back is not None]
    assert held
    assert {(one.code, one.whose) for one in held} <= {("LimitResources", "user ann"), ("LimitResources", "user bea")}


def test_a_limit_of_a_group_holds_for_its_users_together() -> None:
    lab = Lab(limited(groups=["group-of-ann"], maxapplications=1))
    create(lab, "one", 1, user="ann")
    create(lab, "two", 1, user="ann")
    create(lab, "three", 1, user="bea")
    arrive(lab, *agents(6))
    assert len(groups(lab, "one")) + len(groups(lab, "two")) == 1
    assert len(groups(lab, "three")) == 1


def test_applications_without_a_creator_belong_to_nobody() -> None:
    lab = Lab(limited(users=["nobody"], maxapplications=1))
    create(lab, "one", 1)
    create(lab, "two", 1)
    create(lab, "three", 1, user="ann")
    arrive(lab, *agents(6))
    assert len(groups(lab, "one")) + len(groups(lab, "two")) == 1
    assert len(groups(lab, "three")) == 1


# --- new leaders --------------------------------------------------------------------------------------------------


def test_a_new_leader_has_the_stored_tree_and_warns_of_another_file() -> None:
    lab = Lab(options())
    put(lab, changed("two", maxapplications=7))
    lab.ask(requests.SetQueueState(queue="root.one", state="Draining"))
    lab.turn()
    new = takeover(lab, options())
    tree = trees(new).of("*").tree
    assert tree.queues["root.two"].config.max_applications == 7
    assert tree.queues["root.one"].state == "Draining"
    reasons = [event.reason for log in new.core.state.event_logs.values() for event in log.events]
    assert "QueueTreeFileIgnored" in reasons
    assert revisions(new) == [1, 2]


def test_created_queues_and_those_that_drain_come_back_with_their_applications() -> None:
    lab = Lab(options())
    create(lab, "elsewhere", 1, user="bea")
    create(lab, "two", 1)
    arrive(lab, *agents(2))
    run(lab)
    lab.wait(1.0)
    lab.ask(requests.SetQueueState(queue="root.two", state="Stopped"))
    new = takeover(lab, options())
    new.wait(1.0)
    tree = trees(new).of("*").tree
    assert tree.applications["elsewhere/web"].queue == "root.teams.bea"
    assert tree.queues["root.teams.bea"].allocated["cpus"] == 100
    assert tree.applications["two/web"].queue == "root.two"
    assert tree.queues["root.two"].state == "Stopped"


def test_a_revision_that_cannot_be_read_gives_way_to_the_one_before() -> None:
    lab = Lab(options())
    records = [*lab.core.state.records(), QueueTree(number=2, document='{"queues":[{"name":"a.b"}]}')]
    core = Core(records, options(), lab.now)
    found = core._offer_manager.placing.loops[0].engine
    assert isinstance(found, Hierarchical) and "root.one" in found.trees.of("*").tree.queues
    core.turn([], lab.now)
    reasons = [event.reason for log in core.state.event_logs.values() for event in log.events]
    assert "QueueTreeUnreadable" in reasons


@pytest.mark.parametrize(
    "command",
    [
        requests.PutQueueTree(document="{}"),
        requests.RollbackQueueTree(),
        requests.SetQueueState(queue="root", state="Stopped"),
    ],
)
def test_other_policies_have_no_tree(command: requests.Request) -> None:
    answer = Lab(CoreOptions(strict=True)).ask(command)
    assert answer.error == "conflict" and "scheduler.policy is not hierarchical" in answer.message


def test_a_namespace_may_name_a_queue_of_the_tree() -> None:
    document = {"queues": [{"name": "default"}, {"name": "two"}], "placementrules": [{"name": "provided"}]}
    lab = Lab(options(document))
    assert not lab.ask(requests.PutNamespace(namespace=Namespace(name="shop", queue="two"))).error
    assert not lab.ask(requests.PutNamespace(namespace=Namespace(name="mall", queue="root.two"))).error
    assert lab.ask(requests.PutNamespace(namespace=Namespace(name="club", queue="three"))).error == "invalid"
    create(lab, "shop", 1)
    create(lab, "mall", 1)
    arrive(lab, *agents(2))
    assert trees(lab).of("*").tree.queues["root.two"].allocated["cpus"] == 200


def test_created_queues_get_the_child_template_of_the_present_revision() -> None:
    def tree(most: float | None) -> dict[str, Any]:
        template = {"childtemplate": {"resources": {"max": {"cpus": most}}}} if most is not None else {}
        teams = {"name": "teams", "parent": True, **template}
        return {"queues": [{"name": "default"}, teams], "placementrules": [TREE["placementrules"][1]]}

    lab = Lab(options(tree(0.1)))
    create(lab, "elsewhere", 3, user="bea")
    arrive(lab, *agents(3))
    assert len(groups(lab, "elsewhere")) == 1
    put(lab, json.dumps(tree(0.2)))
    lab.wait(1.0)
    assert len(groups(lab, "elsewhere")) == 2
    put(lab, json.dumps(tree(None)))
    lab.wait(1.0)
    assert len(groups(lab, "elsewhere")) == 3
