"""Deployments with the real `bcs` on the embedded cluster: rolled out, halted, undone, taken back by themselves."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.integration.devprocess import Dev
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

EXAMPLES = Path(__file__).parents[2] / "conf" / "examples"
SERVES = "trap 'exit 0' TERM; echo version {}; while true; do sleep 0.05; done"
FAILS = "exit 3"


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    running = Dev(tmp_path_factory.mktemp("dev"))
    try:
        yield running
    finally:
        running.stop()


def document(line: str, *, instance: int = 3, **rolling: Any) -> bytes:
    """Deployment `front` that runs a line for the shell."""
    container = {"command": "sh", "args": ["-c", line], "resources": {"limits": {"cpu": "0.1", "memory": "16"}}}
    spec = {
        "instance": instance,
        "selector": {"app": "front"},
        "strategy": {"type": "RollingUpdate", "rollingupdate": {"maxUnavailable": 0, "maxSurge": 1, **rolling}},
        "template": {"spec": {"containers": [container]}},
    }
    head = {"metadata": {"name": "front", "labels": {"app": "front"}}, "restartPolicy": {"policy": "Never"}}
    return json.dumps({"apiVersion": "v4", "kind": "deployment", **head, "spec": spec}).encode()


def version(number: int, **more: Any) -> bytes:
    return document(SERVES.format(number), **more)


def printed(dev: Dev, name: str = "front") -> set[bytes]:
    """What its taskgroups have printed, without their names."""
    return {line.rpartition(b"| ")[2] for line in dev.done("logs", name).splitlines()}


def shown(dev: Dev, name: str = "front") -> dict[str, Any]:
    found: dict[str, Any] = dev.data("get", "deployment", name)["status"]
    return found


def test_the_life_of_a_deployment(dev: Dev) -> None:
    assert dev.bcs("diff", "-f", "-", given=version(1)).returncode == 1
    dev.done("apply", "-f", "-", "--wait", given=version(1))
    assert printed(dev) == {b"version 1"} and dev.bcs("diff", "-f", "-", given=version(1)).returncode == 0
    difference = dev.bcs("diff", "-f", "-", given=version(2))
    assert difference.returncode == 1 and b"version 2" in difference.stdout

    dev.done("apply", "-f", "-", given=version(2))
    report = json.loads(dev.done("rollout", "status", "front", "--timeout", "60s"))
    assert report[0]["done"] == "rolled out" and printed(dev) == {b"version 2"}
    assert json.loads(dev.done("apply", "-f", "-", given=version(2)))[0]["done"] == "unchanged"

    dev.done("rollout", "undo", "front", "--wait")
    assert printed(dev) == {b"version 1"}
    assert [r["revision"] for r in dev.data("rollout", "history", "front")] == [1, 2, 3]
    dev.done("rollout", "undo", "front", "--to-revision", "2", "--wait")
    assert printed(dev) == {b"version 2"}

    before = {group["ID"] for group in dev.data("get", "tg", "front")}
    dev.done("rollout", "restart", "front", "--wait")
    assert before.isdisjoint(group["ID"] for group in dev.data("get", "tg", "front"))
    dev.done("scale", "front", "2", "--wait")
    assert len(dev.data("get", "tg", "front")) == 2
    answers = json.loads(dev.done("exec", "front", "-o", "json", "--", "echo", "here"))
    assert [answer["stdout"] for answer in answers] == ["here\n", "here\n"]

    dev.done("delete", "front", "--wait")
    assert dev.bcs("get", "deployment", "front").returncode == 3
    assert dev.data("get", "app") == []


def test_the_end_of_taskgroups_that_are_not_wanted_is_waited_for(dev: Dev) -> None:
    dev.done("apply", "-f", "-", "--wait", given=document("trap 'sleep 0.7; exit' TERM; while :; do sleep 0.1; done"))
    dev.done("scale", "front", "1", "--wait")
    assert len(dev.data("get", "tg", "front")) == 1
    dev.done("delete", "front", "--wait")


def test_an_update_is_halted_continued_and_cancelled(dev: Dev) -> None:
    dev.done("apply", "-f", "-", "--wait", given=version(1))
    dev.done("apply", "-f", "-", given=version(2, rollingManually=True))
    wait_for(lambda: shown(dev)["status"] == "UpdatePaused", 60, "the halt after the first step")
    paused = dev.bcs("rollout", "status", "front")
    assert paused.returncode == 6 and b"bcs rollout resume front" in paused.stderr
    for arguments in (("rollout", "restart", "front"), ("rollout", "pause", "front")):
        assert dev.bcs(*arguments).returncode == 6, arguments
    for number in (5, 3):
        dev.done("scale", "front", str(number))
        assert (shown(dev)["status"], shown(dev)["instances"]) == ("UpdatePaused", number)
    before = shown(dev)
    same = dev.bcs("apply", "-f", "-", "--wait", given=version(2, rollingManually=True))
    assert same.returncode == 6 and b"paused" in same.stderr and shown(dev)["revision"] == before["revision"]
    application = shown(dev)["application_ext"]["name"]
    owned = dev.bcs("scale", f"application/{application}", "5")
    assert owned.returncode == 6 and b"deployment default/front" in owned.stderr

    dev.done("rollout", "resume", "front")
    wait_for(lambda: shown(dev)["status"] == "UpdatePaused", 60, "the halt after the second step")
    assert printed(dev) == {b"version 1", b"version 2"}, "both applications are heard"
    dev.done("rollout", "cancel", "front", "--wait")
    assert printed(dev) == {b"version 1"} and shown(dev)["revision"] == 1
    undone = dev.bcs("rollout", "status", "front")
    assert undone.returncode == 0, "a user has asked for it, so it is no failure"
    dev.done("delete", "deployment", "front", "--wait")


def test_a_newer_document_rolls_forward_and_a_queued_scale_follows(dev: Dev) -> None:
    dev.done("apply", "-f", "-", "--wait", given=version(1))
    dev.done("apply", "-f", "-", given=version(2, minReadySeconds=2))
    wait_for(lambda: shown(dev)["counts"]["newReady"] >= 1, 60, "a taskgroup of the second version")
    dev.done("apply", "-f", "-", given=version(3))
    superseding = shown(dev)
    assert (superseding["revision"], superseding["previousRevision"], superseding["rollingBack"]) == (3, 1, False)
    assert superseding["counts"]["ready"] >= 3
    url = f"{dev.url}/v4/scheduler/mesos/namespaces/default/deployments/front/scale/2"
    queued = requests.put(url, params={"onConflict": "queue"}, timeout=30)
    assert (queued.status_code, queued.json()["data"]["queuePosition"]) == (202, 1)
    dev.done("rollout", "status", "front", "--timeout", "90s")
    wait_for(lambda: (shown(dev)["instances"], shown(dev)["counts"]["present"]) == (2, 2), 60, "the queued scale")
    assert printed(dev) == {b"version 3"} and len(dev.data("get", "app")) == 1
    assert [r["revision"] for r in dev.data("rollout", "history", "front")] == [1, 2, 3]
    dev.done("delete", "front", "--wait")


def test_a_failing_update_goes_back_by_itself_or_waits_for_somebody(dev: Dev) -> None:
    dev.done("apply", "-f", "-", "--wait", given=version(1))
    failed = dev.bcs("apply", "-f", "-", "--wait", given=document(FAILS, onFailure="rollback", minReadySeconds=1))
    assert failed.returncode == 1 and b"rolled back" in failed.stderr and b"exit code 3" in failed.stderr
    assert printed(dev) == {b"version 1"} and len(dev.data("get", "tg", "front")) == 3

    dev.done("apply", "-f", "-", given=document(FAILS, minReadySeconds=1))
    halted = dev.bcs("rollout", "status", "front")
    assert halted.returncode == 1 and b"suspended" in halted.stderr and b"exit code 3" in halted.stderr
    found = shown(dev)
    assert found["counts"]["ready"] == 3
    assert found["conditions"][0]["reason"] == "StepFailed" and found["conditions"][1]["status"] == "True"
    assert b"exit code 3" in dev.done("explain", "front", "-o", "table")
    dev.done("rollout", "undo", "front", "--wait")
    assert shown(dev)["revision"] == 1

    ended = dev.bcs("apply", "-f", "-", "--wait", given=document("true"))
    assert ended.returncode == 1 and b"suspended: ended for good" in ended.stderr and b"Finish" in ended.stderr
    dev.done("apply", "-f", "-", "--wait", given=version(2))
    assert printed(dev) == {b"version 2"} and shown(dev)["status"] == "Running"
    dev.done("delete", "front", "--wait")


def test_a_terminal_shows_the_progress(dev: Dev) -> None:
    dev.done("apply", "-f", "-", "--wait", given=version(1))
    # Long enough for a slow machine to start the command that follows it.
    dev.done("apply", "-f", "-", given=version(2, minReadySeconds=4))
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-m", "bcs_scheduler.cli.main", "rollout", "status", "front"]
        environ = {**os.environ, "BCS_SERVER": dev.url, "BCS_NAMESPACE": "default", "TERM": "xterm", "COLUMNS": "150"}
        following = subprocess.Popen(command, env=environ, stdin=theirs, stdout=theirs, stderr=theirs)
        screen = b""
        while b"rolled out" not in screen:
            screen += os.read(ours, 65536)
        assert following.wait(60) == 0
    finally:
        os.close(ours)
        os.close(theirs)
    assert re.search(rb"[012]/3", screen) and b"of 3 ready" in screen and b"Traceback" not in screen
    dev.done("delete", "front", "--wait")


# --- the examples -------------------------------------------------------------------------------------------------


def pages(dev: Dev, name: str) -> list[str]:
    """First lines of what the taskgroups of a deployment serve."""
    found = []
    for group in dev.data("get", "tg", f"deployment/{name}"):
        task = group["Taskgroup"][0]
        url = f"http://{task['AgentIPAddress']}:{task['PortMappings'][0]['HostPort']}/"
        found.append(requests.get(url, timeout=30).text)
    return found


def test_the_example_of_a_deployment_rolls(dev: Dev) -> None:
    text = (EXAMPLES / "deployment.json").read_text()
    dev.done("apply", "-f", "-", "--wait", given=text.encode())
    assert len(pages(dev, "gallery")) == 4 and all(page.startswith("gallery v1") for page in pages(dev, "gallery"))
    dev.done("apply", "-f", "-", "--wait", given=text.replace('"v1"', '"v2"').encode())
    assert all(page.startswith("gallery v2") for page in pages(dev, "gallery"))
    dev.done("delete", "-f", str(EXAMPLES / "deployment.json"), "--wait")


def test_the_example_of_a_canary_waits_to_be_resumed(dev: Dev) -> None:
    text = (EXAMPLES / "deployment-canary.json").read_text()
    dev.done("apply", "-f", "-", "--wait", given=text.encode())
    dev.done("apply", "-f", "-", given=text.replace('"v1"', '"v2"').encode())

    def halted() -> bool:
        return bool(shown(dev, "lobby")["status"] == "UpdatePaused")

    wait_for(halted, 60, "the halt for the canary")
    versions = sorted(page.split()[1] for page in pages(dev, "lobby"))
    assert versions.count("v2") == 1 and versions.count("v1") >= 2
    dev.done("rollout", "resume", "lobby", "--wait")
    assert {page.split()[1] for page in pages(dev, "lobby")} == {"v2"}
    dev.done("delete", "lobby", "--wait")


def test_the_example_of_an_adoption_takes_what_runs(dev: Dev) -> None:
    dev.done("apply", "-f", str(EXAMPLES / "web.json"), "--wait")
    before = {group["ID"] for group in dev.data("get", "tg", "web")}
    dev.done("apply", "-f", str(EXAMPLES / "deployment-adopt.json"), "--wait")
    assert {group["ID"] for group in dev.data("get", "tg", "deployment/storefront")} == before
    assert json.loads(dev.done("apply", "-f", str(EXAMPLES / "deployment-adopt.json")))[0]["done"] == "unchanged"
    dev.done("rollout", "restart", "storefront", "--wait")
    after = {group["ID"] for group in dev.data("get", "tg", "deployment/storefront")}
    assert len(after) == 5 and before.isdisjoint(after)
    dev.done("delete", "storefront", "--wait")


def test_the_example_of_processes_goes_step_by_step(dev: Dev) -> None:
    text = (EXAMPLES / "deployment-process.json").read_text()
    dev.done("apply", "-f", "-", "--wait", given=text.encode())
    dev.done("rollout", "restart", "beacons")
    wait_for(
        lambda: shown(dev, "beacons")["status"] == "UpdatePaused",
        60,
        "the halt after a step",
    )
    dev.done("rollout", "resume", "beacons")
    wait_for(lambda: shown(dev, "beacons")["status"] != "Update", 60, "the second step")
    assert dev.bcs("rollout", "resume", "beacons").returncode in (0, 6)
    wait_for(lambda: shown(dev, "beacons")["status"] == "Running", 60, "the end of the update")
    assert {group["Kind"] for group in dev.data("get", "tg", "deployment/beacons")} == {"process"}
    dev.done("delete", "beacons", "--wait")
