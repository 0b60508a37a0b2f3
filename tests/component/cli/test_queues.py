"""`bcs queue` and queues as a kind of `bcs`, against the real API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.component.cli.test_extensions import bcs as bcs
from tests.component.cli.test_extensions import done, write
from tests.component.cli.test_extensions import gateway as gateway


def spec(bcs: Any, name: str) -> Any:
    return json.loads(bcs("queue", "describe", name, "-o", "json").out)["spec"]


def test_a_queue_is_created_set_and_deleted(bcs: Any) -> None:
    made = bcs("queue", "create", "batch", "--weight", "2", "--guarantee", "cpus=2", "--capability", "cpus=8")
    assert done(made) == [("queue", "batch", "created")]
    assert bcs("queue", "create", "batch").code != 0
    assert done(bcs("queue", "set", "batch", "--capability", "mem=1Gi", "--no-reclaimable")) == [
        ("queue", "batch", "updated")
    ]
    assert spec(bcs, "batch") == {
        "weight": 2, "guarantee": {"cpus": 2.0}, "capability": {"cpus": 8.0, "mem": 1024.0}, "reclaimable": False,
    }  # fmt: skip
    bcs("queue", "set", "batch", "--guarantee", "cpus-", "--reclaimable", "--weight", "3")
    assert spec(bcs, "batch") == {
        "weight": 3, "guarantee": {}, "capability": {"cpus": 8.0, "mem": 1024.0}, "reclaimable": True,
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


def test_wrong_settings_are_refused(bcs: Any) -> None:
    assert "give --weight" in bcs("queue", "set", "default").err
    assert "unknown resource 'pods'" in bcs("queue", "create", "batch", "--capability", "pods=1").err
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
