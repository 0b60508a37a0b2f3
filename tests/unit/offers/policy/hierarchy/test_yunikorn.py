"""Queue files of YuniKorn as they are: partitions, units of Kubernetes, and the form in which the tree is stored."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from offers.policy.hierarchy.configuration.document import TAGS, canonical, partition_of
from offers.policy.hierarchy.configuration.fields import BadQueues
from offers.policy.hierarchy.configuration.partition import NodeOrder, Partition, SortPolicy
from offers.policy.hierarchy.configuration.yunikorn import duration, memory, vcore
from offers.resources import SCALARS

FILE: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[5] / "conf" / "yunikorn-queues.yaml").read_text(encoding="utf-8")
)


def read(document: Any) -> Partition:
    return partition_of(document, SCALARS, tags=TAGS)


def problems(document: Any) -> list[str]:
    with pytest.raises(BadQueues) as refused:
        read(document)
    return [str(problem) for problem in refused.value.problems]


def partition(**fields: Any) -> dict[str, Any]:
    return {"partitions": [{"name": "default", "queues": [{"name": "a"}], **fields}]}


def test_a_file_is_read_in_full() -> None:
    found = read(FILE)
    assert (found.node_order, found.weights) == (NodeOrder.BINPACKING, {"cpus": 1000, "mem": 1000})
    assert [queue.name for queue in found.root.queues] == ["default", "teams"]
    assert found.root.limits[0].max_applications == 20 and found.root.submit.admits("anyone", ())
    teams = found.root.queues[1]
    assert teams.guaranteed == {"cpus": 2500, "mem": 512 * 10**9 // 2**20}
    assert teams.max == {"cpus": 8000, "mem": 6 * 1024 * 1000, "nvidia.com/gpu": 8000}
    assert teams.properties.sort_policy is SortPolicy.FAIR and teams.properties.preemption_delay == 90.0
    assert teams.template is not None and teams.template.max == {"cpus": 4000, "mem": 2 * 10**12 // 2**20}
    assert teams.template.max_applications == 5
    assert teams.admin.admits("alice", ()) and teams.admin.admits("eve", ("ops",))
    assert [(rule.kind, rule.create) for rule in found.rules] == [("provided", False), ("tag", True)]


def test_the_stored_form_is_the_same_tree_and_stays_as_it_is() -> None:
    text = canonical(FILE)
    stored = json.loads(text)
    assert "partitions" not in stored and read(stored) == read(FILE)
    assert canonical(stored) == text
    assert stored["queues"][0]["queues"][1]["resources"]["max"] == {"cpus": 8, "mem": 6144, "nvidia.com/gpu": 8}


def test_limits_of_a_partition_without_root_are_those_of_root() -> None:
    document = partition(limits=[{"users": ["*"], "maxresources": {"vcore": 2}}], statedumpfilepath="dump.txt")
    found = read(document)
    assert found.root.limits[0].max_resources == {"cpus": 2000} and found.root.submit.admits("anyone", ())
    assert read(json.loads(canonical(document))) == found


def test_extended_resources_are_counted_by_their_names() -> None:
    amounts = {"nvidia.com/gpu": 8, "vendor/card": "2k", "memory": "1Gi"}
    document = partition(
        queues=[{"name": "a", "resources": {"max": amounts}}],
        limits=[{"users": ["*"], "maxresources": {"nvidia.com/gpu": "1.5"}}],
        nodesortpolicy={"type": "fair", "resourceweights": {"amd.com/gpu": 2}},
    )
    found = read(document)
    wanted = {"nvidia.com/gpu": 8000, "vendor/card": 2_000_000, "mem": 1_024_000}
    assert found.root.queues[0].max == wanted and found.root.limits[0].max_resources == {"nvidia.com/gpu": 1500}
    assert found.resources == {*wanted, "amd.com/gpu"}
    stored = json.loads(canonical(document))
    assert stored["queues"][0]["queues"][0]["resources"]["max"] == {
        "nvidia.com/gpu": 8,
        "vendor/card": 2000,
        "mem": 1024,
    }
    assert read(stored) == found and canonical(stored) == canonical(document)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("cpu", 1, "unknown resource: cores are named cpus, or vcore as in YuniKorn"),
        ("a card", 1, "unknown resource: a name has 1 to 253 characters, and no blank, comma or equals sign"),
        ("", 1, "unknown resource: a name has 1 to 253 characters, and no blank, comma or equals sign"),
        ("vendor/card", "1x", "unknown unit 'x'; known: k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei"),
        ("vendor/card", "many", "'many' is not a number such as 8 or 2k"),
        ("vendor/card", 0.0001, "more than three decimals: 0.0001"),
    ],
)
def test_wrong_amounts_of_extended_resources_are_refused(name: str, value: object, text: str) -> None:
    found = problems({"queues": [{"name": "a", "resources": {"max": {name: value}}}]})
    assert found == [f"queues[0].resources.max.{name}: {text}"]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"partitions": []}, ["partitions: has no partition"]),
        (
            {"partitions": [{"queues": []}, {"queues": []}]},
            ["partitions[1]: there is one tree of queues, so one partition"],
        ),
        (
            {"partitions": [{"queues": []}], "checksum": "x"},
            ["file.checksum: unknown field; known: partitions"],
        ),
        (
            partition(queues=[{"name": "a", "resources": {"max": {"memory": "1X", "vcore": "2k", "pods": 3}}}]),
            [
                "partitions[0].queues[0].resources.max.memory: unknown unit 'X'; known: k, M, G, T, P, E, Ki, Mi, Gi, "
                "Ti, Pi, Ei",
                "partitions[0].queues[0].resources.max.vcore: unknown unit 'k': cores are written 2 or 500m",
                "partitions[0].queues[0].resources.max.pods: unknown resource: queues count no taskgroups",
            ],
        ),
        (
            partition(queues=[{"name": "a", "resources": {"max": {"cpus": 1, "vcore": 2}}}]),
            ["partitions[0].queues[0].resources.max.vcore: is the same resource as cpus, which is given too"],
        ),
        (
            partition(queues=[{"name": "a", "properties": {"application.sort.policy": "stateaware"}}]),
            ["partitions[0].queues[0].properties.application.sort.policy: 'stateaware' is none of fifo, fair"],
        ),
        (
            partition(placementrules=[{"name": "tag", "value": "team"}]),
            ["partitions[0].placementrules[0].value: no application has the tag team; known: namespace"],
        ),
        (
            partition(placementrules=[{"name": "user", "filter": {"users": ["*", "^dev.*"]}}]),
            ["partitions[0].placementrules[0].filter.users[1]: ^dev.* is a pattern: give the names"],
        ),
        (
            partition(
                queues=[{"name": "root", "limits": [{"users": ["a"], "maxapplications": 1}]}],
                limits=[{"users": ["b"], "maxapplications": 1}],
            ),
            ["partitions[0].limits: the queue root has limits, too: give one of them"],
        ),
        (
            {"queues": [{"name": "a"}], "statedumpfilepath": "x"},
            [
                "partition.statedumpfilepath: unknown field; known: name, nodesortpolicy, placementrules, preemption, "
                "queues"
            ],
        ),
    ],
)
def test_mistakes_have_paths_from_the_top_of_the_file(document: Any, expected: list[str]) -> None:
    assert problems(document) == expected


def test_children_are_compared_with_their_parents_in_the_same_unit() -> None:
    document = copy.deepcopy(FILE)
    document["partitions"][0]["queues"][0]["queues"][1]["childtemplate"]["resources"]["max"]["memory"] = "7Gi"
    (problem,) = problems(document)
    assert problem.startswith("partitions[0].queues[0].queues[1].childtemplate.resources.max.mem: 7168 exceeds ")


@pytest.mark.parametrize(
    ("text", "cores"), [("500m", 500), (2, 2000), ("1.5", 1500), (0.25, 250), ("10", 10_000), (0, 0)]
)
def test_cores(text: Any, cores: int) -> None:
    assert vcore(text) == cores


@pytest.mark.parametrize(
    ("text", "amount"),
    [("1Mi", 1000), ("1Gi", 1_024_000), ("100G", 95_367_431), (1048576, 1000), ("512k", 488), ("1.5Gi", 1_536_000)],
)
def test_memory(text: Any, amount: int) -> None:
    assert memory(text) == amount


@pytest.mark.parametrize("text", ["", "-1", "1 G", "2cores", "0.0001", True, None, [], "1e3"])
def test_amounts_that_are_none(text: Any) -> None:
    with pytest.raises(ValueError, match=r"is not a number of cores|finer than"):
        vcore(text)


def test_durations() -> None:
    assert [duration(text) for text in ("30s", "1h30m", "500ms", "1.5m", "30", "soon")] == [
        30,
        5400,
        0.5,
        90,
        None,
        None,
    ]
