"""`bcs apply --wait` of deployments and daemonsets on the embedded cluster, with real programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.devprocess import AGENTS, Dev

pytestmark = pytest.mark.slow

CRASHES = ["-c", "sleep 1; exit 3"]
RUNS = ["-c", "exec sleep 86400"]


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    made = Dev(tmp_path_factory.mktemp("waits"))
    yield made
    made.stop()


def document(folder: Path, kind: str, name: str, arguments: list[str], cpus: str = "0.1") -> str:
    """A document with one process, `/bin/sh` with the arguments."""
    resources = {"limits": {"cpu": cpus, "memory": "16"}}
    process: dict[str, Any] = {"type": "process", "command": "/bin/sh", "args": arguments, "resources": resources}
    spec: dict[str, Any] = {"template": {"spec": {"containers": [process]}}}
    if kind == "deployment":
        spec |= {"instance": 1, "selector": {"app": name}}
        spec["strategy"] = {"type": "RollingUpdate", "rollingupdate": {"maxSurge": 1, "maxUnavailable": 0}}
    body = {"apiVersion": "v4", "kind": kind, "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}
    path = folder / f"{name}.json"
    path.write_text(json.dumps({**body, "restartPolicy": {"policy": "Always", "interval": 1}}))
    return str(path)


@pytest.mark.parametrize("kind", ["deployment", pytest.param("daemonset", marks=pytest.mark.rotating)])
def test_waits_end_with_what_happened(dev: Dev, tmp_path: Path, kind: str) -> None:
    name = f"{kind}-runs"
    done = dev.done("apply", "-f", document(tmp_path, kind, name, RUNS), "--wait", "--stable", "1s", "-o", "text")
    assert done.decode().splitlines()[-1].startswith(f"{kind}/{name} running (")
    assert len(dev.data("get", "tg", f"{kind}/{name}")) == (1 if kind == "deployment" else AGENTS)

    name = f"{kind}-crashes"
    file = document(tmp_path, kind, name, CRASHES)
    crashed = dev.bcs("apply", "-f", file, "--wait", "--stable", "30s", "--timeout", "55s")
    assert crashed.returncode == 1
    assert "failed" in crashed.stderr.decode() and "exit code 3" in crashed.stderr.decode(), crashed.stderr

    name = f"{kind}-large"
    late = dev.bcs("apply", "-f", document(tmp_path, kind, name, RUNS, cpus="64"), "--wait", "--timeout", "3s")
    said = late.stderr.decode()
    assert late.returncode == 4 and "not done after 3s" in said, said
