"""Plug-ins of third parties in a real scheduler on the embedded cluster: one that never returns stops no term."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bcs_scheduler.local.cluster import LocalCluster
from bcs_scheduler.local.settings import ClusterSettings
from tests.integration.policyparts import application
from tests.integration.schedulerprocess import SchedulerProcess
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

PLUGINS = """
import time
from offers.policy.session.plugins.interface import Functions

class Plugin:
    arguments = {}

    def open(self, session, arguments):
        return Functions(predicate=self.predicate)

class Loops(Plugin):
    name = "loops"

    def predicate(self, template, view):
        while True:
            pass

class Sleeps(Plugin):
    name = "sleeps"

    def predicate(self, template, view):
        time.sleep(1000000)
"""
POINTS = "[bcs_scheduler.policy_plugins]\nloops = bcs_hanging_policy:Loops\nsleeps = bcs_hanging_policy:Sleeps\n"
POLICY = """
actions: "allocate, backfill"
tiers:
  - plugins: [{name: gang}, {name: loops}, {name: predicates}, {name: sleeps}]
session: {pluginSeconds: 0.5}
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installs the plug-ins, as pip does, in a folder on the path of the scheduler."""
    (tmp_path / "bcs_hanging_policy.py").write_text(PLUGINS)
    described = tmp_path / "bcs_hanging_policy-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: bcs-hanging-policy\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(POINTS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.fixture
def scheduler(tmp_path: Path, package: None) -> Iterator[SchedulerProcess]:
    (tmp_path / "policy.yaml").write_text(POLICY)
    settings = {"scheduler__policy": "session", "scheduler__policy_file": str(tmp_path / "policy.yaml")}
    with LocalCluster(ClusterSettings(agents=2, cpus=4.5, mem=4096, synthetic=True)) as cluster:
        process = SchedulerProcess(tmp_path, f"sqlite:///{tmp_path / 'state.db'}", cluster.url, **settings)
        try:
            yield process.start().wait_ready()
        finally:
            process.stop()


def test_plug_ins_that_never_return_are_named_and_the_term_goes_on(scheduler: SchedulerProcess) -> None:
    scheduler.call("POST", "/namespaces/default/applications", application("web", 3))
    scheduler.wait_running("web", 3)

    def named() -> set[str]:
        text = scheduler.session.get(f"{scheduler.url}/metrics", timeout=30).text
        lines = [line for line in text.splitlines() if "policy_plugin_faults_total{" in line and 'how="hung"' in line]
        return {name for name in ("loops", "sleeps") if any(f'plugin="{name}"' in line for line in lines)}

    wait_for(lambda: named() == {"loops", "sleeps"}, what="the metric of both plug-ins")
    log = scheduler.log()
    assert log.count("policy.plugin_hung") == 2
    assert log.count("elected, reading the latest changes") == 1, "the same term"
    for name in ("loops", "sleeps"):
        assert f"{name}: predicate: the call did not return within" in log
    scheduler.call("PUT", "/namespaces/default/applications/web/scale/6")
    scheduler.wait_running("web", 6)
