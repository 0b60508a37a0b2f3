"""Pod groups as a kind of `bcs`, against the real API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.component.cli.test_extensions import bcs as bcs
from tests.component.cli.test_extensions import done, write
from tests.component.cli.test_extensions import gateway as gateway
from tests.unit.api_support import document

GROUP = {"kind": "PodGroup", "metadata": {"name": "train"}, "spec": {"minMember": 4, "minTaskMember": {"web": 2}}}


def test_groups_are_applied_before_their_members_listed_and_explained(bcs: Any, tmp_path: Path) -> None:
    web = document()
    web["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "train"}
    assert done(bcs("apply", "-f", write(tmp_path, web, GROUP)))[0] == ("PodGroup", "train", "created")
    assert bcs("diff", "-f", write(tmp_path, GROUP)).code == 0
    for kind in ("podgroups", "pg"):
        rows = [line.split() for line in bcs("get", kind, "-o", "table").out.splitlines()]
        assert rows[1][:5] == ["train", "Pending", "4", "0", "web=2"]
    configmap = {"kind": "configmap", "metadata": {"name": "site"}, "datas": {"a": {"type": "file", "content": "eA=="}}}
    done(bcs("apply", "-f", write(tmp_path, configmap)))
    for kind, name in (("podgroups", "train"), ("configmaps", "site")):
        rows = [line.split() for line in bcs("get", kind, "-A", "-n", "other", "-o", "table").out.splitlines()]
        assert rows[0][:2] == ["NAMESPACE", "NAME"] and rows[1][:2] == ["shop", name]
    assert "web 0/2" in bcs("describe", "podgroup", "train").out
    refused = bcs("delete", "pg", "train")
    assert refused.code != 0 and "has 1 application: shop/web" in refused.err
