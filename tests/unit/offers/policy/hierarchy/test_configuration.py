"""The configuration of a partition of queues: what is read, and how mistakes are refused with their paths."""

from __future__ import annotations

from typing import Any

import pytest

from offers.policy.hierarchy.configuration.document import MOST_LEVELS, MOST_QUEUES, partition_of
from offers.policy.hierarchy.configuration.fields import BadQueues
from offers.policy.hierarchy.configuration.partition import Fencing, NodeOrder, PreemptionPolicy, SortPolicy

RESOURCES = frozenset({"cpus", "mem"})


def problems(document: Any) -> dict[str, str]:
    with pytest.raises(BadQueues) as refused:
        partition_of(document, RESOURCES)
    return {problem.path: problem.text for problem in refused.value.problems}


def queues(*entries: Any) -> dict[str, Any]:
    return {"queues": list(entries)}


def test_a_document_is_read_in_full() -> None:
    partition = partition_of(
        {
            "queues": [
                {
                    "name": "Batch",
                    "parent": True,
                    "maxapplications": 20,
                    "resources": {"guaranteed": {"cpus": 10}, "max": {"cpus": 40, "mem": 0}},
                    "properties": {
                        "application.sort.policy": "fair",
                        "application.sort.priority": "disabled",
                        "priority.policy": "fence",
                        "priority.offset": -5,
                        "preemption.policy": "disabled",
                        "preemption.delay": "1m",
                    },
                    "limits": [{"users": ["*"], "maxapplications": 3, "maxresources": {"cpus": 8}}],
                    "childtemplate": {"resources": {"max": {"cpus": 4}}, "maxapplications": 2},
                    "submitacl": "alice,bob ops",
                    "queues": [{"name": "night"}],
                }
            ],
            "placementrules": [
                {"name": "user", "create": True, "parent": {"name": "fixed", "value": "batch"}},
                {"name": "provided", "filter": {"type": "deny", "users": ["eve"]}},
            ],
            "nodesortpolicy": {"type": "binpacking"},
            "preemption": {"enabled": False},
        },
        RESOURCES,
    )
    batch = partition.root.queues[0]
    assert (batch.name, batch.is_parent, batch.max_applications) == ("batch", True, 20)
    assert batch.guaranteed == {"cpus": 10_000}
    assert batch.max == {"cpus": 40_000, "mem": 0}
    found = batch.properties
    assert (found.sort_policy, found.sort_priority) == (SortPolicy.FAIR, False)
    assert (found.priority_policy, found.priority_offset) == (Fencing.FENCE, -5)
    assert (found.preemption_policy, found.preemption_delay) == (PreemptionPolicy.DISABLED, 60.0)
    assert batch.limits[0].max_resources == {"cpus": 8000}
    assert batch.template is not None
    assert batch.template.max == {"cpus": 4000}
    assert batch.submit.admits("bob", ())
    assert batch.submit.admits("eve", ("ops",))
    assert not batch.submit.admits("eve", ())
    assert [child.name for child in batch.queues] == ["night"]
    assert partition.rules[0].parent is not None
    assert not partition.rules[1].filter.admits("eve", ())
    assert (partition.node_order, partition.preemption) == (NodeOrder.BINPACKING, False)


def test_every_mistake_is_reported_at_once_with_its_path() -> None:
    found = problems(
        {
            "queues": [
                {"name": "a.b"},
                {
                    "name": "p",
                    "resources": {"max": {"cpus": 4}},
                    "queues": [{"name": "c", "resources": {"max": {"cpus": 5}}}],
                },
                {"name": "n", "resources": {"guaranteed": {"cpus": -1}, "max": {"pods": 1}}},
                {"name": "n"},
                {"name": "x", "surprise": 1, "properties": {"priority.offset": "high", "colour": "red"}},
            ],
            "placementrules": [{"name": "fixed", "value": "nowhere"}, {"name": "magic"}],
        }
    )
    assert set(found) == {
        "queues[0].name",
        "queues[1].queues[0].resources.max.cpus",
        "queues[2].resources.guaranteed.cpus",
        "queues[2].resources.max.pods",
        "queues[3].name",
        "queues[4].surprise",
        "queues[4].properties.priority.offset",
        "queues[4].properties.colour",
        "placementrules[0].value",
        "placementrules[1].name",
    }


def test_a_queue_that_contains_itself_is_refused() -> None:
    queue: dict[str, Any] = {"name": "a", "parent": True}
    queue["queues"] = [{"name": "b", "queues": [queue]}]
    assert problems(queues(queue)) == {"queues[0].queues[0].queues[0]": "a queue contains itself"}
    root: dict[str, Any] = {"name": "root"}
    root["queues"] = [root]
    assert problems(queues(root)) == {"queues[0].queues[0]": "a queue contains itself"}


def test_a_rule_that_is_its_own_parent_is_refused() -> None:
    rule: dict[str, Any] = {"name": "user"}
    rule["parent"] = rule
    assert problems({"placementrules": [rule]}) == {"placementrules[0].parent": "a rule is its own parent"}


@pytest.mark.parametrize(
    ("queue", "path"),
    [
        ({"resources": {"guaranteed": {"cpus": 5}, "max": {"cpus": 4}}}, "resources.guaranteed.cpus"),
        (
            {
                "resources": {"guaranteed": {"cpus": 5}},
                "queues": [
                    {"name": "a", "resources": {"guaranteed": {"cpus": 3}}},
                    {"name": "b", "resources": {"guaranteed": {"cpus": 3}}},
                ],
            },
            "resources.guaranteed.cpus",
        ),
        ({"maxapplications": 2, "queues": [{"name": "a", "maxapplications": 3}]}, "queues[0].maxapplications"),
        ({"parent": False, "queues": [{"name": "a"}]}, "parent"),
        ({"childtemplate": {}}, "childtemplate"),
        ({"limits": [{"users": ["u"]}]}, "limits[0]"),
        ({"limits": [{"maxapplications": 1}]}, "limits[0]"),
        ({"limits": [{"users": ["u", "u"], "maxapplications": 1}]}, "limits[0].users"),
        (
            {"resources": {"max": {"cpus": 1}}, "limits": [{"users": ["u"], "maxresources": {"cpus": 2}}]},
            "limits[0].maxresources.cpus",
        ),
        ({"maxapplications": -1}, "maxapplications"),
        ({"resources": {"max": {"cpus": "1.2345"}}}, "resources.max.cpus"),
        ({"resources": {"max": {"cpus": 2**60}}}, "resources.max.cpus"),
        ({"properties": {"preemption.delay": "-1s"}}, "properties.preemption.delay"),
        ({"submitacl": "a b c"}, "submitacl"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_queue(queue: dict[str, Any], path: str) -> None:
    assert list(problems(queues({"name": "q", **queue}))) == [f"queues[0].{path}"]


def test_the_root_has_no_resources() -> None:
    assert list(problems(queues({"name": "root", "resources": {"max": {"cpus": 1}}}))) == ["queues[0].resources"]


@pytest.mark.parametrize("document", [None, [], "text", {"queues": {}}, {"queues": [1]}, {"placementrules": [None]}])
def test_what_is_no_document_is_refused(document: Any) -> None:
    assert problems(document)


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ({"name": "fixed", "value": "p"}, "placementrules[0].value"),
        ({"name": "fixed", "value": "leaf.below", "create": True}, "placementrules[0].value"),
        ({"name": "user", "parent": {"name": "fixed", "value": "leaf"}}, "placementrules[0].parent.value"),
        ({"name": "user", "parent": {"name": "fixed", "value": "none"}}, "placementrules[0].parent.value"),
    ],
)
def test_a_rule_that_can_never_give_a_leaf_is_refused(rule: dict[str, Any], path: str) -> None:
    assert list(problems({**queues({"name": "p", "parent": True}, {"name": "leaf"}), "placementrules": [rule]})) == [
        path
    ]
    for right in (
        {"name": "fixed", "value": "leaf"},
        {"name": "fixed", "value": "p.new", "create": True},
        {"name": "user", "parent": {"name": "fixed", "value": "p"}},
    ):
        partition_of({**queues({"name": "p", "parent": True}, {"name": "leaf"}), "placementrules": [right]})


def test_a_limit_above_the_one_of_a_parent_is_refused() -> None:
    inner = {"users": ["u"], "groups": ["g"], "maxapplications": 3, "maxresources": {"cpus": 2}}
    outer = {"users": ["u"], "maxapplications": 2, "maxresources": {"cpus": 1}}
    child = {"name": "c", "limits": [inner]}
    between = {"name": "b", "queues": [child]}
    assert list(problems(queues({"name": "a", "limits": [outer], "queues": [between]}))) == [
        "queues[0].queues[0].queues[0].limits[0].maxresources.cpus",
        "queues[0].queues[0].queues[0].limits[0].maxapplications",
    ]


@pytest.mark.parametrize("name", ["application.unschedasks.backoff", "application.unschedasks.backoff.delay"])
def test_the_backoff_of_applications_has_no_effect_and_is_refused(name: str) -> None:
    (found,) = problems(queues({"name": "q", "properties": {name: 3}})).items()
    assert found[0] == f"queues[0].properties.{name}" and "remove the setting" in found[1]
    partition_of(queues({"name": "q", "properties": {"application.unschedasks.backoff": 0}}), RESOURCES)


def test_problems_have_the_amounts_of_the_document() -> None:
    resources = {"max": {"cpus": 1.25}, "guaranteed": {"cpus": 6}}
    (text,) = problems(queues({"name": "a", "resources": resources})).values()
    assert text == "6 exceeds 1.25, the maximum"


def test_an_unknown_property_is_one_problem() -> None:
    found = problems(queues({"name": "a", "properties": {"colour": "red"}}))
    assert list(found) == ["queues[0].properties.colour"]
    with pytest.raises(BadQueues) as refused:
        partition_of(queues({"name": "a", "properties": {"colour": "red"}}), RESOURCES)
    assert len(refused.value.problems) == 1


DIGITS = "9" * 5000


@pytest.mark.parametrize("number", ["1e99999999", DIGITS, 10**400, float("nan"), float("inf"), "1_000", "1/3", "0x10"])
def test_numbers_of_any_size_are_refused_at_once(number: Any) -> None:
    properties = {"priority.offset": number, "preemption.delay": number, "quota.preemption.delay": f"{DIGITS}h"}
    limit = {"users": ["*"], "maxapplications": number, "maxresources": {"cpus": number}}
    queue = {"name": "a", "maxapplications": number, "properties": properties, "limits": [limit]}
    found = problems(queues({**queue, "resources": {"max": {"cpus": number, "mem": 1}, "guaranteed": {"mem": number}}}))
    assert set(found) == {
        "queues[0].maxapplications",
        "queues[0].properties.priority.offset",
        "queues[0].properties.preemption.delay",
        "queues[0].properties.quota.preemption.delay",
        "queues[0].limits[0].maxapplications",
        "queues[0].limits[0].maxresources.cpus",
        "queues[0].resources.max.cpus",
        "queues[0].resources.guaranteed.mem",
    }
    assert all(len(text) < 120 for text in found.values())


@pytest.mark.parametrize("number", [2**31, "1e300", -(2**40)])
def test_numbers_beyond_their_range_are_refused(number: Any) -> None:
    found = problems(queues({"name": "a", "properties": {"priority.offset": number, "preemption.delay": number}}))
    assert set(found) == {"queues[0].properties.priority.offset", "queues[0].properties.preemption.delay"}


def nested(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {"name": "leaf"}
    for level in range(levels - 1):
        found = {"name": f"q{level}", "queues": [found]}
    return queues(found)


def test_the_number_of_queues_and_of_levels_is_bounded() -> None:
    many = [{"name": f"q{position}"} for position in range(MOST_QUEUES)]
    assert len(partition_of(queues(*many), RESOURCES).root.queues) == MOST_QUEUES
    assert problems(queues(*many, {"name": "more"}, {"name": "again"})) == {"queues[1000]": "more than 1000 queues"}
    partition_of(nested(MOST_LEVELS), RESOURCES)
    for levels in (MOST_LEVELS + 1, 5000):
        (text,) = problems(nested(levels)).values()
        assert text == "more than 100 levels of queues"


def test_references_that_stand_for_endless_queues_are_refused_at_once() -> None:
    shared: list[Any] = [{"name": "leaf"}]
    for _ in range(40):
        shared = [{"name": "a", "queues": shared}, {"name": "b", "queues": shared}]
    assert "more than 1000 queues" in problems({"queues": shared}).values()
    itself: dict[str, Any] = {"name": "a"}
    itself["queues"] = [itself]
    assert problems(queues(itself)) == {"queues[0].queues[0]": "a queue contains itself"}


def test_parents_of_rules_are_bounded() -> None:
    rule: dict[str, Any] = {"name": "user"}
    for _ in range(5000):
        rule = {"name": "user", "parent": rule}
    (text,) = problems({"queues": [{"name": "a"}], "placementrules": [rule]}).values()
    assert text == "more than 100 parents of a rule"
