"""What conf/ ships fits what the code knows: example documents, alerting rules."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from bcs_scheduler.api.documents.commands import read_command, read_message
from bcs_scheduler.api.documents.convert import to_version
from bcs_scheduler.api.documents.daemonset import read_daemonset
from bcs_scheduler.api.documents.deployment import read_deployment
from bcs_scheduler.api.documents.validate import read_application
from bcs_scheduler.api.objects.configuration import read_config_map, read_secret
from bcs_scheduler.api.objects.custom import read_custom_kind, read_custom_object
from bcs_scheduler.api.objects.groups import read_pod_group
from bcs_scheduler.api.objects.namespaces import read_namespace
from bcs_scheduler.api.objects.services import read_service
from bcs_scheduler.api.objects.webhooks import read_webhook
from bcs_scheduler.cli.document_files import load_documents
from bcs_scheduler.wire.problems import Problems

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path for path in (ROOT / "conf" / "examples").iterdir() if path.is_file())
REQUESTS = sorted((ROOT / "conf" / "examples" / "requests").iterdir())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_document_is_accepted_without_a_warning(path: Path) -> None:
    problems = Problems("Warn")
    for body in yaml.safe_load_all(path.read_text()):
        head = body.get("metadata", {})
        name, namespace = head.get("name", ""), head.get("namespace", "default")
        match body["kind"]:
            case "PodGroup":
                assert read_pod_group(body, namespace, name, problems).key == f"{namespace}/{name}"
            case "namespace":
                assert read_namespace(body, problems=problems).key == name
            case "admissionwebhook":
                assert read_webhook(body, namespace, problems=problems).key == f"{namespace}/{name}"
            case "crr":
                assert read_custom_kind(body, problems).name == body["spec"]["names"]["kind"]
            case "Database":
                assert read_custom_object(body, "Database", namespace, problems=problems).name == name
            case "configmap":
                assert read_config_map(body, namespace, problems=problems).key == f"{namespace}/{name}"
            case "service":
                assert read_service(body, namespace, problems=problems).key == f"{namespace}/{name}"
            case "deployment":
                assert read_deployment(body, namespace=namespace, problems=problems).metadata.name == name
            case "daemonset":
                assert read_daemonset(body, namespace=namespace, problems=problems).metadata.name == name
            case "secret":
                assert read_secret(body, namespace, problems=problems).key == f"{namespace}/{name}"
            case _:
                read = read_application(body, namespace=namespace, creating=True, problems=problems)
                version = to_version(read, 0)
                assert (version.application, version.instances) == (name, body["spec"]["instance"])
    assert problems.warnings() == ()


def test_the_examples_show_every_kind_of_task() -> None:
    read = [
        to_version(read_application(body, namespace=body["metadata"].get("namespace", "default"), creating=True), 0)
        for path in EXAMPLES
        for body in yaml.safe_load_all(path.read_text())
        if body["kind"] in ("application", "process")
    ]
    containers = [container for version in read for container in version.containers]
    assert any(container.process and container.process.pid_file for container in containers)
    assert any(container.process and not container.process.pid_file for container in containers)
    assert any(container.image for container in containers) and any(not container.image for container in containers)
    assert any(container.configmaps and container.secrets for container in containers)
    assert {"HTTP", "TCP", "COMMAND", "REMOTE_HTTP"} <= {c.type for item in containers for c in item.health_checks}
    assert {version.executor for version in read} == {"", "mesos"}


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.name)
def test_every_example_request_is_accepted(path: Path) -> None:
    body = json.loads(path.read_text())
    if body.get("kind") == "Command":
        assert read_command(body, "default", "web").command
    else:
        assert read_message(body, "default", "web").body


def test_the_second_version_of_the_example_differs_in_version_and_number_only() -> None:
    first, second = (
        load_documents([str(ROOT / f"conf/examples/web{v}.json")], "d").documents[0].body for v in ("", "-v2")
    )

    def parts(body: dict[str, Any]) -> tuple[int, str]:
        return body["spec"].pop("instance"), body["spec"]["template"]["spec"]["containers"][0]["env"].pop(0)["value"]

    assert (parts(first), parts(second)) == ((5, "v1"), (8, "v2"))
    assert first == second


def test_alerting_rules_name_metrics_that_exist() -> None:
    rules = yaml.safe_load((ROOT / "conf/prometheus-rules.yaml").read_text())["groups"][0]["rules"]
    sources = "".join(
        (ROOT / f"bcs_scheduler/observability/{name}.py").read_text()
        for name in ("metrics", "gauges", "series", "queues", "queuetrees")
    )
    assert len({rule["alert"] for rule in rules}) == len(rules) > 0
    for rule in rules:
        names = re.findall(r"bkbcs_scheduler_(\w+)", rule["expr"])
        assert names, rule["alert"]
        for name in names:
            plain = re.sub(r"_(total|bucket)$", "", name) if not name.startswith("cluster_") else "cluster_"
            assert f'"{plain}"' in sources or f'"{plain}{{' in sources or f'f"{plain}' in sources, name
