"""A real master that asks frameworks and operators who they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.waiting import wait_for

pytestmark = [pytest.mark.mesos, pytest.mark.slow, pytest.mark.rotating]
PRINCIPAL, PASSWORD = "bcs", "correct horse"


@pytest.fixture(scope="module")
def guarded_mesos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMesos]:
    folder = tmp_path_factory.mktemp("guarded-mesos")
    credentials = folder / "credentials.json"
    credentials.write_text(json.dumps({"credentials": [{"principal": PRINCIPAL, "secret": PASSWORD}]}))
    # Frameworks, and operators: their calls list agents.
    flags = "--authenticate_http_frameworks --http_framework_authenticators=basic --authenticate_http_readwrite"
    cluster = RealMesos(folder / "run", environment={"REALMESOS_MASTER_FLAGS": f"{flags} --credentials={credentials}"})
    try:
        cluster.start().wait_for_agents()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(PASSWORD + "\n")
    return path


def test_the_master_lets_nobody_in_without_them(guarded_mesos: RealMesos) -> None:
    address = guarded_mesos.masters["solo"]
    for path in ("/api/v1/scheduler", "/api/v1"):
        assert requests.post(f"http://{address}{path}", data=b"{}", timeout=60).status_code == 401


def test_taskgroups_run_on_a_master_that_knows_us(guarded_mesos: RealMesos, tmp_path: Path, secret_file: Path) -> None:
    scheduler = SchedulerProcess(
        tmp_path,
        f"sqlite:///{tmp_path}/state.db",
        guarded_mesos.url,
        mesos__principal=PRINCIPAL,
        mesos__secret_file=str(secret_file),
    )
    try:
        scheduler.start().wait_ready()
        scheduler.call("POST", "/namespaces/default/applications", document("web", 2, ["sleep", "1000"]))
        scheduler.wait_running("web", 2)
        wait_for(lambda: len(scheduler.call("GET", "/agents")) == 3, 60, "the list of agents, an operator call")
        frameworks = guarded_mesos.state()["frameworks"]
        assert PRINCIPAL in [framework.get("principal") for framework in frameworks]
        scheduler.kill()
        scheduler.start().wait_ready()  # the same framework, subscribed again
        assert len(scheduler.wait_running("web", 2)) == 2
        started = scheduler.call("DELETE", "/namespaces/default/applications/web")
        assert scheduler.wait_transaction(started["transactionID"])["status"] == "FINISH"
        assert PASSWORD not in "".join(path.read_text() for path in tmp_path.glob("scheduler-*.log"))
    finally:
        scheduler.stop()


@pytest.mark.parametrize(("principal", "password"), [("", ""), (PRINCIPAL, "wrong"), ("other", PASSWORD)])
def test_the_log_and_readiness_say_that_the_master_refuses_us(
    guarded_mesos: RealMesos, tmp_path: Path, principal: str, password: str
) -> None:
    (tmp_path / "secret").write_text(password)
    settings = {"mesos__principal": principal, "mesos__secret_file": str(tmp_path / "secret")} if principal else {}
    scheduler = SchedulerProcess(tmp_path, "memory:", guarded_mesos.url, **settings)
    try:
        scheduler.start()

        def told() -> bool:
            answer = scheduler.session.get(scheduler.url + "/readyz", timeout=60)
            checks = {check["name"]: check["message"] for check in answer.json()["checks"]}
            return answer.status_code == 503 and "401" in checks.get("mesos", "")

        wait_for(told, 60, lambda: f"the refusal in the readiness; {scheduler.log()[-1000:]}")
        assert scheduler.stop() == 0
    finally:
        scheduler.stop()
