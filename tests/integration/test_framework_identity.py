"""The framework on a real Mesos: removed in each way that there is, its record lost or unreadable; and everything that
docs/operations.md tells an operator to do then."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from bcs_scheduler.core.controllers.cluster.unknown_tasks import QUIET
from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.waiting import wait_for

pytestmark = [pytest.mark.mesos, pytest.mark.slow, pytest.mark.rotating]
APPS = "/namespaces/default/applications"
SECONDS = 90.0


class Site:
    """One store, a scheduler on it, and the real master."""

    def __init__(self, folder: Path, mesos: RealMesos) -> None:
        self.mesos = mesos
        self.file = folder / "state.db"
        self.store = f"sqlite:///{self.file}"
        self.name = f"identity-{folder.name}"
        self._folder = folder
        self.schedulers: list[SchedulerProcess] = []

    def start(self, **settings: str) -> SchedulerProcess:
        folder = self._folder / str(len(self.schedulers))
        folder.mkdir()
        settings = {"mesos__framework_name": self.name, **settings}
        self.schedulers.append(SchedulerProcess(folder, self.store, self.mesos.url, **settings))
        return self.schedulers[-1].start()

    def frameworks(self, kind: str = "frameworks") -> list[str]:
        """Ids of ours as the master lists them; `kind`: ``frameworks`` or ``completed_frameworks``."""
        return [found["id"] for found in self.mesos.state()[kind] if found["name"] == self.name]

    def running(self) -> set[str]:
        """Ids of our tasks that the master holds as running."""
        ours = [found for found in self.mesos.state()["frameworks"] if found["name"] == self.name]
        return {task["id"] for found in ours for task in found["tasks"] if task["state"] == "TASK_RUNNING"}

    def remove(self, framework: str) -> None:
        """As an operator tears a framework down."""
        address = self.mesos.masters["solo"]
        answer = requests.post(f"http://{address}/master/teardown", data={"frameworkId": framework}, timeout=60)
        assert answer.status_code == 200, answer.text

    def command(self, *arguments: str) -> tuple[int, str]:
        """Exit code and output of a command for operators on this store."""
        line = [sys.executable, "-m", "bcs_scheduler.main", *arguments, f"--store={self.store}"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def decide(self, scheduler: SchedulerProcess, *arguments: str) -> dict[str, Any]:
        """The answer of a command of `bcs-scheduler framework` that asks the running leader."""
        line = [sys.executable, "-m", "bcs_scheduler.main", "framework", *arguments, "-o", "json"]
        done = subprocess.run([*line, f"--server={scheduler.url}"], capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        return dict(found[0] if isinstance(found, list) else found)

    def replace_store(self, copy: Path | None) -> None:
        """Puts a copy of the records in the place of the store; None: nothing. No scheduler runs."""
        for file in self.file.parent.glob(self.file.name + "*"):
            file.unlink()
        if copy is not None:
            shutil.copy(copy, self.file)

    def write(self, statement: str, *values: object) -> None:
        with sqlite3.connect(self.file) as connection:
            connection.execute(statement, values)
        connection.close()

    def launch(self, scheduler: SchedulerProcess, policy: str, name: str, instances: int) -> None:
        app = document(name, instances, ["sleep", "1000"], restartPolicy={"policy": policy, "interval": 1})
        scheduler.call("POST", APPS, app)
        scheduler.wait_running(name, instances)


@pytest.fixture
def site(tmp_path: Path, real_mesos: RealMesos) -> Iterator[Site]:
    made = Site(tmp_path, real_mesos)
    try:
        yield made
    finally:
        for scheduler in made.schedulers:
            scheduler.stop()
        for framework in made.frameworks():
            made.remove(framework)


def check(scheduler: SchedulerProcess, name: str) -> dict[str, Any] | None:
    checks = scheduler.session.get(scheduler.url + "/readyz", timeout=60).json()["checks"]
    return next((found for found in checks if found["name"] == name), None)


def removed(scheduler: SchedulerProcess) -> bool:
    found = check(scheduler, "mesos")
    return found is not None and not found["ok"] and "the framework was removed" in found["message"]


# --- the framework was removed ------------------------------------------------------------------------------------


def while_leading(site: Site, scheduler: SchedulerProcess) -> SchedulerProcess:
    site.remove(site.frameworks()[0])
    return scheduler


def while_nobody_leads(site: Site, scheduler: SchedulerProcess) -> SchedulerProcess:
    scheduler.stop()
    site.remove(site.frameworks()[0])
    return site.start()


def after_the_failover_timeout(site: Site, scheduler: SchedulerProcess) -> SchedulerProcess:
    scheduler.kill()
    wait_for(lambda: not site.frameworks(), SECONDS, "the end of the framework")
    return site.start()


@pytest.mark.parametrize("removal", [while_leading, while_nobody_leads, after_the_failover_timeout])
def test_a_removed_framework_is_forgotten_and_everything_is_launched_anew(
    site: Site, removal: Callable[[Site, SchedulerProcess], SchedulerProcess]
) -> None:
    timeout = "2" if removal is after_the_failover_timeout else "604800"
    scheduler = site.start(mesos__failover_timeout=timeout).wait_ready()
    site.launch(scheduler, "OnFailure", "web", 2)
    site.launch(scheduler, "Never", "once", 1)
    (before,) = site.frameworks()
    tasks = site.running()

    scheduler = removal(site, scheduler)
    wait_for(lambda: removed(scheduler), SECONDS, "the word of the removal")
    assert scheduler.session.get(scheduler.url + "/readyz", timeout=60).status_code == 503
    assert "bkbcs_scheduler_framework_removed 1.0" in scheduler.session.get(scheduler.url + "/metrics", timeout=60).text
    assert site.frameworks() == [], "no new framework is registered unasked"

    code, words = site.command("forget-framework", "--force")
    assert code != 0 and "stop every scheduler first" in words
    scheduler.stop()
    code, words = site.command("forget-framework")
    assert code != 0 and "--force" in words and before in words
    code, words = site.command("forget-framework", "--force")
    assert code == 0
    assert words.startswith(f"framework {before} was removed from the store; the next leader registers a new framework")

    scheduler = site.start().wait_ready()
    scheduler.wait_running("web", 2, SECONDS)
    (after,) = site.frameworks()
    assert after != before and before in site.frameworks("completed_frameworks")
    wait_for(lambda: len(site.running()) == 2, 30, "the tasks of the new framework")
    assert not site.running() & tasks
    wait_for(lambda: _ended(scheduler, "once"), SECONDS, lambda: f"the end of {scheduler.taskgroups('once')}")
    assert not [task for task in site.running() if ".once." in task], "policy Never: not launched anew by itself"
    updated = document("once", 1, ["sleep", "1001"], restartPolicy={"policy": "Never"})
    scheduler.call("PUT", APPS, updated)
    scheduler.wait_running("once", 1, SECONDS)

    # The new framework outlives a change of leaders like any other.
    scheduler.kill()
    scheduler = site.start().wait_ready()
    assert site.frameworks() == [after]
    scheduler.wait_running("web", 2)


def _ended(scheduler: SchedulerProcess, name: str) -> bool:
    return all(group["Status"] in ("Failed", "Lost", "Error") for group in scheduler.taskgroups(name))


# --- the record was lost ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        ("UPDATE records SET data = '{' WHERE kind = 'framework'", "framework_unreadable"),
        ("DELETE FROM records WHERE kind = 'framework'", "framework_missing"),
    ],
)
def test_without_its_record_no_second_framework_is_registered(site: Site, damage: str, code: str) -> None:
    scheduler = site.start().wait_ready()
    site.launch(scheduler, "OnFailure", "web", 2)
    (framework,) = site.frameworks()
    tasks = site.running()
    scheduler.kill()
    site.write(damage)
    first, second = site.start(), site.start()
    for candidate in (first, second):
        found = wait_for(lambda c=candidate: check(c, "records"), SECONDS, "the refusal")  # type: ignore[misc]
        assert (found["ok"], found["code"]) == (False, code)
        assert "set-framework" in found["message"]
        assert candidate.session.get(candidate.url + "/readyz", timeout=60).status_code == 503
        wait_for(lambda c=candidate: c.log().count("refusing to lead") >= 2, SECONDS, "another candidacy")  # type: ignore[misc]
    assert site.frameworks() == [framework]
    assert site.frameworks("completed_frameworks") == []
    assert site.running() == tasks
    assert "mesos.subscribed" not in first.log() + second.log()

    for candidate in (first, second):
        candidate.stop()
    assert site.command("set-framework", framework)[0] == 0
    scheduler = site.start().wait_ready()
    assert check(scheduler, "records") is None
    groups = scheduler.wait_running("web", 2)
    assert len(groups) == 2
    assert site.frameworks() == [framework]
    scheduler.call("PUT", f"{APPS}/web/scale/3")
    scheduler.wait_running("web", 3)
    wait_for(lambda: len(site.running()) == 3, 30, "the third task")
    assert tasks < site.running(), "tasks that ran go on"


# --- the store does not know its tasks ----------------------------------------------------------------------------


def halts(site: Site, scheduler: SchedulerProcess, tasks: set[str]) -> None:
    """The leader has found the unknown tasks, says so, and has ended none of them when the time is over after which a
    few would be ended."""
    found = wait_for(lambda: check(scheduler, "tasks"), SECONDS, "the halt")
    assert (found["ok"], found["code"]) == (False, "unknown_tasks")
    assert scheduler.session.get(scheduler.url + "/readyz", timeout=60).status_code == 503
    metrics = scheduler.session.get(scheduler.url + "/metrics", timeout=60).text
    assert "bkbcs_scheduler_unknown_tasks_halted 1.0" in metrics
    began = time.monotonic()
    wait_for(lambda: time.monotonic() > began + 3 * QUIET, SECONDS, "the end of the time for answers")
    assert tasks <= site.running()


@pytest.mark.parametrize("decision", ["adopt", "end"])
def test_on_an_empty_store_tasks_wait_for_an_operator(site: Site, decision: str) -> None:
    scheduler = site.start().wait_ready()
    site.launch(scheduler, "OnFailure", "web", 4)
    (framework,) = site.frameworks()
    tasks = site.running()
    scheduler.kill()
    site.replace_store(None)
    code, words = site.command("framework", "set", framework)
    assert code == 0, words

    scheduler = site.start()
    halts(site, scheduler, tasks)
    shown = site.decide(scheduler, "show")
    assert (shown["halted"], shown["undecided"], shown["adopted"]) == (True, 4, 0)
    assert {one["application"] for one in shown["taskgroups"]} == {"web"}
    scheduler.call("POST", APPS, document("db", 1, ["sleep", "1000"]))

    scheduler.kill()  # the halt outlives its leader
    scheduler = site.start()
    halts(site, scheduler, tasks)
    assert scheduler.taskgroups("db") == [], "nothing is launched during the halt"
    done = site.decide(scheduler, decision)
    assert (done["taskgroups"], done["halted"]) == (4, False)
    scheduler.wait_ready()
    scheduler.wait_running("db", 1)
    if decision == "adopt":
        scheduler.kill()
        scheduler = site.start().wait_ready()
        assert tasks < site.running(), "adopted tasks stay under the next leader"
        assert site.decide(scheduler, "show")["adopted"] == 4
        assert site.decide(scheduler, "end", "--adopted", "default/web")["taskgroups"] == 4
    wait_for(lambda: not tasks & site.running(), SECONDS, "the end of the tasks")
    wait_for(lambda: site.decide(scheduler, "show")["taskgroups"] == [], SECONDS, "the end of the records")


def test_on_a_store_restored_from_an_old_copy_newer_tasks_wait(site: Site, tmp_path: Path) -> None:
    scheduler = site.start().wait_ready()
    site.launch(scheduler, "OnFailure", "web", 1)
    scheduler.stop()
    copy = Path(shutil.copy(site.file, tmp_path / "copy.db"))
    scheduler = site.start().wait_ready()
    scheduler.call("PUT", f"{APPS}/web/scale/2")
    scheduler.wait_running("web", 2)
    tasks = site.running()
    scheduler.stop()
    newest = Path(shutil.copy(site.file, tmp_path / "newest.db"))
    site.replace_store(copy)

    scheduler = site.start()
    halts(site, scheduler, tasks)
    (unknown,) = site.decide(scheduler, "show")["taskgroups"]
    assert unknown["newer"]
    scheduler.stop()
    site.replace_store(newest)  # the best repair: all tasks have their records again
    scheduler = site.start().wait_ready()
    scheduler.wait_running("web", 2)
    assert site.running() == tasks
