"""Names of Mesos clusters that are not single words: the name of the cluster is part of every id."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.executortraces import processes_of, wait_gone
from tests.integration.mesoscluster import RealMesos, get_json
from tests.integration.onetaskgroup import ask, create, outcome, remove, settled
from tests.integration.schedulerprocess import SchedulerProcess
from tests.waiting import wait_for

pytestmark = [pytest.mark.mesos, pytest.mark.rotating]

PUNCTUATION = './Köln 1: it\'s {"a\\b"}, 100%?&#'


def comparisons(mesos: RealMesos) -> int:
    """How often the scheduler has asked the master for the state of tasks."""
    return int(get_json(mesos.masters["solo"], "/metrics/snapshot")["master/messages_reconcile_tasks"])


@pytest.mark.parametrize(
    ("cluster", "part"),
    [("dc1.example.com", "dc1.example.com"), (PUNCTUATION, '._Köln_1__it\'s_{"a_b"},_100%?&#')],
    ids=["domain", "punctuation"],
)
def test_what_runs_in_a_cluster_of_any_name_stays_running(tmp_path: Path, cluster: str, part: str) -> None:
    mesos = RealMesos(tmp_path / "mesos", environment={"MESOS_CLUSTER": cluster})
    settings = {"executor__default": "bcs", "scheduler__reconcile_interval": "1"}
    scheduler = SchedulerProcess(tmp_path, f"sqlite:///{tmp_path}/state.db", mesos.url, **settings)
    try:
        mesos.start().wait_for_agents()
        scheduler.start().wait_ready()
        create(scheduler, "web", "sleep 100000")
        group = settled(scheduler, "web", "Running")
        assert group["ID"].startswith(f"0.web.default.{part}.")
        processes = set(processes_of(group["ID"]))
        assert outcome(scheduler, ask(scheduler, group, "true"))["Status"] == "success"

        scheduler.kill()
        scheduler.start().wait_leading()
        seen = comparisons(mesos)
        wait_for(lambda: comparisons(mesos) >= seen + 4, 30, "reconciliations by the successor")
        assert settled(scheduler, "web", "Running")["ID"] == group["ID"]
        assert set(processes_of(group["ID"])) == processes
        remove(scheduler, group)
        wait_gone(group)
    finally:
        scheduler.stop()
        mesos.stop()
