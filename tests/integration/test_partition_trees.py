"""Two partitions of roles with a tree of queues each, as operators use them: the settings, `bcs queue`, a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commandblocks import ROOT
from tests.integration.devprocess import Dev
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

PATIENCE = 60.0
SETTINGS = {"BCS_SCHEDULER_POLICIES_FILE": str(ROOT / "conf" / "policies.yaml"), "BCS_MESOS_ROLES": "*,prod,web,batch"}
"""The example of docs/policies.md. The queue root.night of the partition batch has at most 4 cores."""


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    dev = Dev(tmp_path, **SETTINGS)
    try:
        yield dev
    finally:
        dev.stop()


def read(dev: Dev, *words: str) -> Any:
    return json.loads(dev.done(*words, "-o", "json"))


def queues(dev: Dev, *words: str) -> dict[tuple[str, str], Any]:
    return {(one["partition"], one["name"]): one for one in read(dev, "queue", "list", *words)}


def run(dev: Dev, name: str, role: str) -> None:
    """Eight taskgroups of a core."""
    words = ("run", "--name", name, "--instances", "8", "--cpu", "1", "--memory", "16", "--dry-run", "-o", "json")
    made = json.loads(dev.done(*words, "--", "sleep", "3600"))
    made["spec"]["template"]["spec"]["role"] = role
    dev.done("apply", "-f", "-", given=json.dumps(made).encode())


def uses(dev: Dev, partition: str, queue: str, cores: float) -> bool:
    return bool(queues(dev)[partition, queue]["status"]["used"].get("cpus", 0) == cores)


def test_two_trees_decide_about_their_own_roles_and_survive_a_restart(dev: Dev, tmp_path: Path) -> None:
    found = {one["name"]: (one["policy"], one["roles"]) for one in read(dev, "queue", "partitions")}
    assert found == {
        "": ("session", ["prod", "web"]),
        "batch": ("hierarchical", ["batch"]),
        "default": ("hierarchical", ["*"]),
    }
    run(dev, "report", "batch")
    wait_for(lambda: uses(dev, "batch", "root.night", 4.0), PATIENCE, "the maximum of the queue")
    wait_for(
        lambda: queues(dev)["batch", "root.night"]["status"]["pending"] == {"queue_limit": 4},
        PATIENCE,
        "the others wait",
    )
    assert all(not one["status"]["taskgroups"] for (part, _), one in queues(dev).items() if part == "default")

    def trial() -> Any:
        return read(dev, "queue", "set", "night", "--max", "cpus=6", "-P", "batch", "--dry-run")[0]["trial"]

    assert trial()["partition"]["name"] == "batch"
    # Only agents that are offered to the role have room, and offers go to one role after the other.
    wait_for(lambda: trial()["movedOn"] == ["default/report"], PATIENCE, "a trial with room for more")
    dev.done("queue", "set", "night", "--max", "cpus=6", "-P", "batch")
    wait_for(lambda: uses(dev, "batch", "root.night", 6.0), PATIENCE, "the higher maximum")
    dev.done("queue", "create", "root.night", "--max", "cpus=1")
    assert queues(dev)["default", "root.night"]["spec"]["max"] == {"cpus": 1.0}
    assert queues(dev)["batch", "root.night"]["spec"]["max"] == {"cpus": 6.0}

    refused = dev.bcs("queue", "list", "-P", "none")
    assert refused.returncode == 3 and b"partitions with a tree: batch, default" in refused.stderr

    dev.stop()
    again = Dev(tmp_path, **SETTINGS)
    try:
        revisions = {one["name"]: one["revision"] for one in read(again, "queue", "partitions")}
        assert revisions == {"": None, "batch": 2, "default": 2}
        assert list(queues(again, "-P", "batch")) == [("batch", "root"), ("batch", "root.night")]
        again.done("queue", "rollback", "-P", "batch")
        assert queues(again)["batch", "root.night"]["spec"]["max"] == {"cpus": 4.0}
        assert queues(again)["default", "root.night"]["spec"]["max"] == {"cpus": 1.0}
    finally:
        again.stop()
