"""A large loss on the embedded cluster: replacements stop, and continue on request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from bcs_scheduler.local.cluster import LocalCluster
from bcs_scheduler.local.settings import ClusterSettings
from tests.component.test_alarms import receiving
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.waiting import wait_for

pytestmark = pytest.mark.rotating

AGENTS, LOST = 12, 6
PATIENCE = 60.0
ALARMS = {"large loss, replacements halted", "replacements resumed"}
APPLICATIONS = "/namespaces/default/applications"


def bcs(scheduler: SchedulerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "BCS_SERVER": scheduler.url, "BCS_NAMESPACE": "default"}
    command = [sys.executable, "-m", "bcs_scheduler.cli.main", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_half_of_the_agents_are_lost_and_an_operator_resumes(tmp_path: Path) -> None:
    settings = ClusterSettings(agents=AGENTS, cpus=4, mem=4096, synthetic=True)
    with LocalCluster(settings) as cluster, receiving() as receiver:
        store = f"sqlite:///{tmp_path / 'state.db'}"
        scheduler = SchedulerProcess(tmp_path, store, cluster.url, alarms__url=receiver.url)

        def alarms() -> set[str]:
            return {body["alarmName"] for body in receiver.bodies}

        try:
            scheduler.start().wait_ready()
            _lose_and_resume(scheduler, cluster)
            wait_for(lambda: alarms() >= ALARMS, PATIENCE, lambda: f"the alarms: {alarms()}")
        finally:
            scheduler.stop()


def _lose_and_resume(scheduler: SchedulerProcess, cluster: LocalCluster) -> None:
    made = document("web", AGENTS, ["/bin/sleep", "1000"])
    made["unreachablePolicy"] = {"replaceAfterSeconds": 1}
    made["constraint"] = {"intersectionItem": [{"unionData": [{"name": "hostname", "operate": "UNIQUE"}]}]}
    scheduler.call("POST", APPLICATIONS, made)
    scheduler.wait_running("web", AGENTS)
    before = {group["ID"] for group in scheduler.taskgroups("web")}
    assert scheduler.call("GET", "/cluster/halt")["halted"] is False
    for number in range(1, LOST + 1):
        answer = requests.post(f"{cluster.url}/control", json={"action": "kill_agent", "agent": f"agent-{number}"})
        assert answer.ok, answer.text
    halt = wait_for(lambda: _halt(scheduler), PATIENCE, lambda: f"the halt: {scheduler.taskgroups('web')}")
    assert halt["agents"] >= 5 and halt["total"] == AGENTS

    def explained() -> bool:
        waiting = json.dumps(scheduler.call("GET", f"{APPLICATIONS}/web/explain"))
        return "large loss" in waiting

    wait_for(explained, PATIENCE, "the explanation of the application")
    assert {group["ID"] for group in scheduler.taskgroups("web")} == before, "no taskgroup is replaced"
    reasons = [event["reason"] for event in scheduler.call("GET", "/events")]
    assert "ReplacementsHalted" in reasons
    assert "replacements_halted 1.0" in requests.get(f"{scheduler.url}/metrics", timeout=PATIENCE).text
    # A new leader finds the halt.
    scheduler.kill()
    scheduler.start().wait_leading()
    assert scheduler.call("GET", "/cluster/halt")["halted"] is True
    # The agents that are left have a taskgroup each; the definition asks for one on each agent.
    done = bcs(scheduler, "resume")
    assert done.returncode == 0, done.stderr
    assert "resumed" in done.stdout
    assert _halt(scheduler) == {}
    again = bcs(scheduler, "resume")
    assert again.returncode != 0 and "no halt" in again.stderr

    def searching() -> bool:
        waiting = json.dumps(scheduler.call("GET", f"{APPLICATIONS}/web/explain"))
        return "large loss" not in waiting and "hostname" in waiting

    wait_for(searching, PATIENCE, "the search for other agents, which the constraint excludes")


def _halt(scheduler: SchedulerProcess) -> dict[str, int]:
    found: dict[str, int] = scheduler.call("GET", "/cluster/halt")
    return found if found["halted"] else {}
