"""`bcs queue` and queues as a kind of `bcs`, against the real API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from bcs_scheduler.cli.commands.bars import Bars
from tests.component.cli.test_extensions import bcs as bcs
from tests.component.cli.test_extensions import done, write
from tests.component.cli.test_extensions import gateway as gateway
from tests.unit.api_support import CoreGateway


def spec(bcs: Any, name: str) -> Any:
    return json.loads(bcs("queue", "describe", name, "-o", "json").out)["spec"]


def test_a_queue_is_created_set_and_deleted(bcs: Any) -> None:
    made = bcs("queue", "create", "batch", "--weight", "2", "--guarantee", "cpu=2", "--capability", "cpus=8")
    assert done(made) == [("queue", "batch", "created")]
    assert bcs("queue", "create", "batch").code != 0
    assert done(bcs("queue", "set", "batch", "--capability", "memory=1Gi", "--no-reclaimable")) == [
        ("queue", "batch", "updated")
    ]
    assert spec(bcs, "batch") == {
        "weight": 2, "guarantee": {"cpus": 2.0}, "capability": {"cpus": 8.0, "mem": 1024.0}, "reclaimable": False,
        "priority": 0,
    }  # fmt: skip
    bcs("queue", "set", "batch", "--guarantee", "cpus-", "--reclaimable", "--weight", "3", "--priority", "-5")
    assert spec(bcs, "batch") == {
        "weight": 3, "guarantee": {}, "capability": {"cpus": 8.0, "mem": 1024.0}, "reclaimable": True,
        "priority": -5,
    }  # fmt: skip
    assert done(bcs("queue", "set", "default", "--weight", "4")) == [("queue", "default", "updated")]
    assert done(bcs("create", "namespace", "shop", "--queue", "batch")) == [("namespace", "shop", "created")]
    refused = bcs("queue", "delete", "batch")
    assert refused.code != 0 and "queue batch has 1 namespace: shop" in refused.err
    bcs("delete", "namespace", "shop")
    assert done(bcs("queue", "delete", "batch")) == [("queue", "batch", "deleted")]


def test_queues_are_listed_and_described(bcs: Any) -> None:
    bcs("queue", "create", "batch", "--capability", "cpus=8")
    bcs("create", "namespace", "shop", "--queue", "batch")
    for command in (("queue", "list"), ("get", "queues"), ("get", "queue")):
        rows = [line.split() for line in bcs(*command, "-o", "table").out.splitlines()]
        assert rows[0][:3] == ["NAME", "WEIGHT", "GUARANTEE"]
        assert [(row[0], row[1]) for row in rows[1:]] == [("batch", "1"), ("default", "1")]
        assert rows[1][-1] == "shop" and "cpus=8" in rows[1]
    described = bcs("describe", "queue", "batch").out
    assert "cpus=8" in described and "shop" in described
    assert "all without a queue" in bcs("queue", "describe", "default").out


VOLCANO = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000000
globalDefault: false
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: train}
spec: {minMember: 3, priorityClassName: high}
---
apiVersion: scheduling.incubator.k8s.io/v1alpha1
kind: Queue
metadata: {name: batch}
spec: {weight: 2, reclaimable: false, priority: 3, capability: {cpu: 2, memory: 4Gi}}
"""


def test_documents_of_kubernetes_and_volcano_are_applied_without_warnings(bcs: Any, tmp_path: Path) -> None:
    path = tmp_path / "volcano.yaml"
    path.write_text(VOLCANO)
    for verb in ("created", "unchanged"):
        applied = bcs("apply", "-f", str(path), "--validate=strict")
        assert done(applied) == [
            ("queue", "batch", verb),
            ("PriorityClass", "high", verb),
            ("PodGroup", "train", verb),
        ], applied.err
    assert json.loads(bcs("get", "queue", "batch", "-o", "json").out)["spec"]["capability"] == {"cpus": 2, "mem": 4096}
    assert bcs("diff", "-f", str(path)).out == ""


def test_wrong_settings_are_refused(bcs: Any) -> None:
    assert "give a setting, such as --weight" in bcs("queue", "set", "default").err
    assert "unknown resource" in bcs("queue", "create", "batch", "--capability", "pods=1").err
    assert "takes RESOURCE=AMOUNT" in bcs("queue", "create", "batch", "--guarantee", "cpus").err
    refused = bcs("queue", "create", "batch", "--guarantee", "cpus=3", "--capability", "cpus=2")
    assert refused.code != 0 and "$.spec.guarantee.cpus" in refused.err
    assert bcs("queue", "set", "missing", "--weight", "2").code != 0


def test_documents_of_queues_are_applied_before_their_namespaces(bcs: Any, tmp_path: Path) -> None:
    namespace = {"kind": "namespace", "metadata": {"name": "shop"}, "spec": {"queue": "batch"}}
    queue = {"kind": "queue", "metadata": {"name": "batch"}, "spec": {"weight": 2}}
    path = write(tmp_path, namespace, queue)
    assert done(bcs("apply", "-f", path)) == [("queue", "batch", "created"), ("namespace", "shop", "created")]
    assert bcs("diff", "-f", path).code == 0
    assert [row[2] for row in done(bcs("apply", "-f", path))] == ["unchanged", "unchanged"]
    queue["spec"] = {"weight": 3}
    changed = bcs("diff", "-f", write(tmp_path, queue))
    assert "weight" in changed.out
    shown = yaml.safe_load(bcs("get", "queue", "batch", "-o", "yaml").out)
    assert shown["spec"]["weight"] == 2


def usage(name: str, used: float, deserved: float | None, limit: float | None = None, **more: Any) -> dict[str, Any]:
    """One queue of a cluster of 12 cores."""
    rest = {"mem": 0.0, "disk": 0.0, "gpus": 0.0}
    return {
        "name": name, "weight": 1, "taskgroups": int(used), "used": {"cpus": used, **rest},
        "deserved": None if deserved is None else {"cpus": deserved, **rest}, "guarantee": {},
        "capability": {} if limit is None else {"cpus": limit}, "pending": {}, "total": {"cpus": 12.0, **rest}, **more,
    }  # fmt: skip


QUEUES = [
    usage("batch", 6.0, 4.0, 9.0, pending={"queue_overused": 3, "gang": 8}),
    usage("default", 0.0, None),
    usage("online", 2.0, 8.0),
]


AT_80 = """\
QUEUE                                          USED/DESERVED/CAPABILITY  WAITING
batch    cpus  [█████████▓▓▓▓▓       |      ]  6/4/9                     11
default  cpus  [                            ]  0/-/-
online   cpus  [█████░░░░░░░░░░░░░░         ]  2/8/-"""
AT_140 = """\
QUEUE                                                                          USED/DESERVED/CAPABILITY  WAITING
batch    cpus  [████████████████████▓▓▓▓▓▓▓▓▓▓               |              ]  6/4/9                     3 queue overused, 8 gang
default  cpus  [                                                            ]  0/-/-
online   cpus  [██████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░                    ]  2/8/-"""  # noqa: E501


@pytest.mark.parametrize(("width", "expected"), [(80, AT_80), (140, AT_140)])
def test_bars_show_the_parts_of_the_cluster(width: int, expected: str) -> None:
    assert "\n".join(drawn(QUEUES, width)) == expected


def drawn(queues: list[dict[str, Any]], width: int | None) -> list[str]:
    return [line.plain for line in Bars(queues).lines(width)]


@pytest.mark.parametrize("width", [20, 40, 80, 100, 140, 200])
def test_bars_fit_the_terminal(width: int) -> None:
    lines = drawn(QUEUES, width)
    assert max(map(len, lines)) <= width
    assert len({line.index("]") for line in lines[1:]}) == 1


def test_every_resource_that_matters_has_a_bar() -> None:
    queue = usage("batch", 6.0, 4.0)
    queue["capability"] = {"gpus": 0.0, "mem": 512.0}
    queue["total"]["mem"] = 1024.0
    lines = drawn([queue], 80)
    assert [line.split()[0] for line in lines[2:]] == ["mem"] and lines[1].split()[:2] == ["batch", "cpus"]
    assert lines[2].endswith("0/0/512") and "|" in lines[2]


def test_top_shows_the_queues_of_the_scheduler(bcs: Any, gateway: CoreGateway) -> None:
    gateway.connect()
    bcs("queue", "create", "batch", "--capability", "cpus=4", "--weight", "2")
    bcs("create", "namespace", "shop", "--queue", "batch")
    gateway.offer(1, cpus=8, mem=8192)
    assert bcs("run", "--name", "web", "--instances", "2", "--cpu", "1", "--", "sleep", "60").code == 0
    (batch, default) = json.loads(bcs("queue", "top").out)
    assert (batch["name"], batch["taskgroups"], batch["weight"], default["taskgroups"]) == ("batch", 2, 2, 0)
    assert batch["used"]["cpus"] >= 2 and batch["total"]["cpus"] == 8 and batch["capability"] == {"cpus": 4.0}
    drawing = bcs("queue", "top", "batch", "-o", "table").out
    assert "\x1b" not in drawing and drawing.splitlines()[1].startswith("batch  cpus") and "|" in drawing
    assert "default" not in drawing
    wide = bcs("queue", "top", "-o", "wide").out.splitlines()
    assert wide[0].split()[:3] == ["NAME", "WEIGHT", "TASKGROUPS"] and wide[1].split()[:3] == ["batch", "2", "2"]
    assert bcs("queue", "top", "missing").code == 3
    listed = bcs("queue", "list", "-o", "wide").out.splitlines()
    assert "USED" in listed[0] and "cpus=2" in listed[1]
    described = bcs("queue", "describe", "batch").out
    assert "cpus=2" in described and "Taskgroups" in described
