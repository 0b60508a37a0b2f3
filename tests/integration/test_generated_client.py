"""A client that openapi-python-client generates from /openapi.json works with the scheduler that has given it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

PACKAGE = "generated_bcs_client"
SLEEP = ["/bin/sleep", "1000"]
KNOWN_WARNING = "Unsupported content_type application/zip"
"""The program of the executor, which is not for clients of this kind."""


@pytest.fixture(scope="module")
def scheduler(embedded_mesos: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchedulerProcess]:
    folder = tmp_path_factory.mktemp("scheduler")
    process = SchedulerProcess(folder, "memory:", f"http://{embedded_mesos}")
    try:
        yield process.start().wait_ready()
    finally:
        process.stop()


class Generated:
    """The package, and a client of the scheduler. Endpoints are modules, named by tag and operation."""

    def __init__(self, base_url: str) -> None:
        package = importlib.import_module(f"{PACKAGE}.client")
        self.client = package.Client(base_url=base_url, raise_on_unexpected_status=True, timeout=60.0)

    def body(self, name: str, content: dict[str, Any]) -> Any:
        model = getattr(importlib.import_module(f"{PACKAGE}.models"), name).from_dict(content)
        assert model.to_dict() == content
        return model

    def call(self, endpoint: str, **arguments: Any) -> Any:
        """`data` of the answer, which is a success that the description declares."""
        module = importlib.import_module(f"{PACKAGE}.api.{endpoint}")
        answer = module.sync_detailed(client=self.client, **arguments)
        assert answer.parsed is not None and answer.parsed.result is True, (endpoint, answer.content)
        return answer.parsed.data


@pytest.fixture(scope="module")
def generated(scheduler: SchedulerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generated]:
    folder = tmp_path_factory.mktemp("generated")
    description, config = folder / "openapi.json", folder / "config.yaml"
    description.write_bytes(scheduler.session.get(f"{scheduler.url}/openapi.json", timeout=30).content)
    config.write_text("post_hooks: []\n")
    command = [str(Path(sys.executable).with_name("openapi-python-client")), "generate", "--meta", "none"]
    command += ["--path", str(description), "--config", str(config), "--output-path", str(folder / PACKAGE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert said.count("WARNING") == said.count(KNOWN_WARNING) == 1, said
    sys.path.insert(0, str(folder))
    try:
        yield Generated(scheduler.url)
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]


def test_an_application_is_created_scaled_and_deleted(generated: Generated) -> None:
    body = generated.body("ApplicationDocument", document("generated", 1, SLEEP))
    accepted = generated.call("applications.create_application", ns="default", body=body)
    assert accepted.transaction_id

    def running(count: int) -> bool:
        view = generated.call("applications.get_application", ns="default", name="generated")
        return (view.status, view.running_instances, view.instances) == ("Running", count, count)

    wait_for(lambda: running(1), 60, "one taskgroup")
    generated.call("applications.scale_application", ns="default", name="generated", instances=3)
    wait_for(lambda: running(3), 60, "three taskgroups")
    listed = generated.call("applications.list_applications", ns="default")
    assert [view.name for view in listed] == ["generated"]
    generated.call("applications.delete_application", ns="default", name="generated")
    wait_for(lambda: not generated.call("applications.list_applications", ns="default"), 60, "the end of it")


def test_deployments_are_listed(generated: Generated) -> None:
    application = document("served", 2, SLEEP)
    spec = application["spec"]
    content = {
        "apiVersion": "v4",
        "kind": "deployment",
        "metadata": {"name": "served", "namespace": "default"},
        "spec": {
            "instance": spec["instance"],
            "strategy": {"type": "RollingUpdate", "rollingupdate": {"maxSurge": 1, "maxUnavailable": 1}},
            "template": spec["template"],
        },
    }
    generated.call("deployments.create_deployment", ns="default", body=generated.body("DeploymentDocument", content))

    def listed() -> list[tuple[str, int]]:
        views = generated.call("deployments.list_deployments", ns="default")
        return [(view.name, view.counts.ready) for view in views]

    wait_for(lambda: listed() == [("served", 2)], 60, lambda: f"two ready taskgroups: {listed()}")
    generated.call("deployments.delete_deployment", ns="default", name="served")
    wait_for(lambda: listed() == [], 60, "the end of the deployment")


def test_a_refusal_is_read_as_declared(generated: Generated) -> None:
    endpoint = importlib.import_module(f"{PACKAGE}.api.deployments.get_deployment")
    answer = endpoint.sync_detailed(client=generated.client, ns="default", name="nothing")
    assert (answer.status_code, answer.parsed.data.reason) == (404, "not_found")
