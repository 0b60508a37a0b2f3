"""What `bcs get KIND NAME -o yaml` and `-o json` print can be applied again: for every kind that can be applied."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from bcs_scheduler.cli.client.kinds import BY_DOCUMENT, DOCUMENT_KINDS, KINDS
from bcs_scheduler.cli.documents import APPLY_ORDER
from bcs_scheduler.cli.main import run
from bcs_scheduler.core.interface.managed import AddManagedApplication
from bcs_scheduler.core.interface.requests import CreateCommand
from bcs_scheduler.wire.redaction import HIDDEN
from store.records import ManagedApplication
from tests.component.apiserver import Api
from tests.unit.api_support import CoreGateway, document
from tests.unit.deployment_support import deployment

FORMS = ("yaml", "json")
WORKLOADS = ("applications", "deployments", "daemonsets")
LABELS = {"one": "x", "two": "x"}
PASSWORD = "hush"
CUSTOM = "Shelf"
"""A registered kind: it has no place in the tables."""


def head(**more: Any) -> dict[str, Any]:
    return {"name": "web", "namespace": "shop", "labels": dict(LABELS), **more}


def workload(made: dict[str, Any]) -> dict[str, Any]:
    """With a password, which is hidden, and in the spelling of the original."""
    made["metadata"]["labels"] = {**LABELS, "app": "web"}
    made["RestartPolicy"] = {"policy": "Always"}  # keys in any case, as the original takes them
    pod = made["spec"]["template"]["spec"]
    pod["containers"][0] |= {"image": "registry/web:1", "imagePullUser": "me", "imagePullPasswd": PASSWORD}
    check = {"type": "HTTP", "http": {"portName": "http", "path": "/", "headers": {"Authorization": PASSWORD}}}
    pod["containers"][0]["healthChecks"] = [check]
    return made


def daemonset() -> dict[str, Any]:
    made = workload(document())
    del made["spec"]["instance"]
    return {**made, "kind": "daemonset"}


def deployed() -> dict[str, Any]:
    made = workload(deployment("web"))
    made["spec"]["selector"] = {"adopts": "nothing"}
    made["spec"]["strategy"]["rollingupdate"] = {"maxUnavilable": 2}
    return made


SAMPLES: dict[str, Callable[[], dict[str, Any]]] = {
    "namespaces": lambda: {
        "kind": "namespace",
        "metadata": {"name": "web", "labels": LABELS},
        "spec": {"quota": {"cpu": "1500m", "memory": "2Gi", "taskgroups": 7}},
    },
    "queues": lambda: {
        "kind": "queue",
        "metadata": {"name": "web", "labels": LABELS},
        "spec": {"weight": 3, "guarantee": {"cpu": "1"}, "capability": {"memory": "4Gi"}},
    },
    "priorityclasses": lambda: {"kind": "PriorityClass", "metadata": {"name": "web", "labels": LABELS}, "value": 7},
    "podgroups": lambda: {"kind": "PodGroup", "metadata": head(), "spec": {"minMember": 3}},
    "kinds": lambda: {"kind": "crr", "spec": {"names": {"kind": "web"}}},
    "configmaps": lambda: {
        "kind": "configmap",
        "metadata": head(),
        "datas": {
            "a": {"type": "file", "content": "aGVsbG8="},
            "b": {"type": "http", "content": "http://files/b", "remoteUser": "me", "remotePasswd": PASSWORD},
        },
    },
    "secrets": lambda: {"kind": "secret", "metadata": head(), "datas": {"a": {"content": "aHVzaA=="}}},
    "services": lambda: {
        "kind": "service",
        "metadata": head(),
        "spec": {"selector": LABELS, "ports": [{"name": "http", "protocol": "http", "servicePort": 80}]},
    },
    "applications": lambda: workload(document()),
    "deployments": deployed,
    "daemonsets": daemonset,
    "webhooks": lambda: {
        "kind": "admissionwebhook",
        "metadata": head(),
        "resourcesRef": {"operation": "CREATE", "kind": "application"},
        "admissionWebhooks": [{"name": "a", "clientConfig": {"url": "http://127.0.0.1:9/"}, "failurePolicy": "Ignore"}],
    },
    CUSTOM: lambda: {
        "apiVersion": "shop/v1",
        "kind": CUSTOM,
        "metadata": head(),
        "spec": {"first": LABELS, "second": LABELS},
        "status": {"full": True},
    },
}
"""A document of each kind of `bcs get` that can be applied. A new kind needs one: `test_every_kind_has_a_sample`."""


class Bcs:
    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self._capsys, self._folder = capsys, folder
        self.said = ""
        """Standard error of the last command."""

    def __call__(self, *arguments: str, code: int = 0) -> str:
        found = run(arguments)
        captured = self._capsys.readouterr()
        self.said = captured.err
        assert found == code, captured.out + captured.err
        return captured.out

    def refused(self, *arguments: str) -> str:
        """What stands on standard error."""
        found = run(arguments)
        captured = self._capsys.readouterr()
        assert found == 2, captured.out + captured.err
        return captured.err

    def file(self, text: Any, form: str = "yaml") -> str:
        path = self._folder / f"saved.{form}"
        path.write_text(text if isinstance(text, str) else yaml.safe_dump(text))
        return str(path)

    def apply(self, text: Any, form: str = "yaml", *more: str) -> list[str]:
        """Lines of the result."""
        return self("apply", "--validate=strict", "-f", self.file(text, form), *more).splitlines()


@pytest.fixture
def bcs(
    gateway: CoreGateway, api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Bcs]:
    monkeypatch.setenv("BCS_SERVER", api.url)
    monkeypatch.setenv("BCS_NAMESPACE", "shop")
    monkeypatch.setenv("BCS_CONFIG", str(tmp_path / "no" / "bcs.toml"))
    monkeypatch.delenv("BCS_OUTPUT", raising=False)
    gateway.connect()
    gateway.offer(1, cpus=64, mem=65536)
    with capture_logs():  # the API shares our output
        yield Bcs(capsys, tmp_path)


def created(bcs: Bcs, gateway: CoreGateway, kind: str, name: str = "web") -> dict[str, Any]:
    if kind == CUSTOM:
        bcs("apply", "-f", bcs.file({"kind": "crr", "spec": {"names": {"kind": CUSTOM}}}))
    sample = SAMPLES[kind]()
    if kind in WORKLOADS:
        sample["metadata"]["name"] = name
    bcs("apply", "--validate=ignore", "-f", bcs.file(sample))
    if kind in WORKLOADS:
        gateway.report("RUNNING", f"shop/{name}")
    return sample


def fields(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from fields(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from fields(inner)


def test_every_kind_has_a_sample() -> None:
    assert {*DOCUMENT_KINDS} == {*SAMPLES} - {CUSTOM}
    # A process is an application. A Command that has run is a record: applied again, its program would run again.
    assert {*APPLY_ORDER} == {*DOCUMENT_KINDS.values(), "process", "Command"} <= {*BY_DOCUMENT}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", SAMPLES)
def test_what_is_printed_is_applied_without_a_change(bcs: Bcs, gateway: CoreGateway, kind: str, form: str) -> None:
    sample = created(bcs, gateway, kind)
    before = gateway.core.state.records()
    printed = bcs("get", kind, "web", "-o", form)
    assert PASSWORD not in printed and "&id" not in printed and "*id" not in printed
    body = yaml.safe_load(printed)
    assert body["kind"].lower() == sample["kind"].lower()
    assert not {"maxUnavilable", "LimitResoures", "ObjectMeta", "Document", "raw_json"} & {*fields(body)}
    assert bcs("diff", "--validate=strict", "-f", bcs.file(printed, form)) == ""
    (planned,) = bcs.apply(printed, form, "--dry-run")
    assert planned.endswith("unchanged (dry run)"), planned
    (applied,) = bcs.apply(printed, form)
    assert applied.endswith("unchanged"), applied
    assert gateway.core.state.records() == before


@pytest.mark.parametrize("kind", [kind for kind in SAMPLES if kind != "kinds"])
def test_one_field_is_edited(bcs: Bcs, gateway: CoreGateway, kind: str) -> None:
    created(bcs, gateway, kind)
    body = yaml.safe_load(bcs("get", kind, "web", "-o", "yaml"))
    body["metadata"]["labels"]["two"] = "changed"
    (applied,) = bcs.apply(body)
    assert "unchanged" not in applied
    again = yaml.safe_load(bcs("get", kind, "web", "-o", "yaml"))
    for one in (body, again):
        del one["metadata"]["creationTimestamp"]
        for key in ("updateTimestamp", "resourceVersion"):
            one["metadata"].pop(key, None)
        if kind != CUSTOM:
            one.pop("status", None)
    assert again == body


@pytest.mark.parametrize("form", FORMS)
def test_lists_are_applied(bcs: Bcs, gateway: CoreGateway, form: str) -> None:
    for kind in SAMPLES:
        created(bcs, gateway, kind, kind if kind in WORKLOADS else "web")
        gateway.offer(1, cpus=64, mem=65536)
    before = gateway.core.state.records()
    for kinds in (*SAMPLES, "deployments,services", "all"):
        lines = bcs.apply(bcs("get", kinds, "-o", form), form)
        assert lines and all(line.endswith("unchanged") for line in lines), (kinds, lines)
    listed = {"apiVersion": "v1", "kind": "List", "items": yaml.safe_load(bcs("get", "services", "-o", "yaml"))}
    assert bcs.apply(listed) == ["service/web unchanged"]
    assert gateway.core.state.records() == before


def test_objects_of_others_are_left_to_them(bcs: Bcs, gateway: CoreGateway) -> None:
    created(bcs, gateway, "deployments")
    printed = bcs("get", "applications", "web", "-o", "yaml")
    body = yaml.safe_load(printed)
    assert body["metadata"]["ownerReferences"] == [{"kind": "deployment", "name": "web"}]
    assert body["status"]["RunningInstances"] == 2
    assert bcs.apply(printed) == []


def test_a_hidden_value_is_kept_for_its_receiver_only(bcs: Bcs, gateway: CoreGateway) -> None:
    created(bcs, gateway, "applications")
    body = yaml.safe_load(bcs("get", "applications", "web", "-o", "yaml"))
    container = body["spec"]["template"]["spec"]["containers"][0]
    assert container["imagePullPasswd"] == container["healthChecks"][0]["http"]["headers"]["Authorization"] == HIDDEN
    container["env"] = [{"name": "COLOUR", "value": "blue"}]
    bcs.apply(body)
    state = gateway.core.state
    version = state.version("shop/web", state.applications["shop/web"].version)
    assert version is not None
    assert version.containers[0].image_pull_password == PASSWORD
    assert version.containers[0].health_checks[0].headers == {"Authorization": PASSWORD}
    newest = state.applications["shop/web"].version
    for part, field in (
        (container, "image"),
        (container, "imagePullUser"),
        (container, "command"),
        (container["healthChecks"][0]["http"], "portName"),
    ):
        before = part[field]
        part[field] = "elsewhere"
        assert bcs("apply", "-f", bcs.file(body), code=1) == "", field
        part[field] = before
    assert state.applications["shop/web"].version == newest


def test_documents_of_processes_and_of_adopted_applications(bcs: Bcs, gateway: CoreGateway) -> None:
    process = document("beacon")
    process["kind"] = "process"
    uris = [{"value": "http://files/a.tgz", "user": "me", "pwd": PASSWORD, "outputDir": "a"}]
    one = {"procName": "beacond", "startCmd": "./beacond", "uris": uris}
    process["spec"]["template"]["spec"] = {"processes": [one]}
    bcs("apply", "--validate=ignore", "-f", bcs.file(process))
    gateway.offer(1, cpus=64, mem=65536)
    adopted = document("web")
    bcs("apply", "-f", bcs.file(adopted))
    gateway.report("RUNNING", "shop/web")
    adopting = {"kind": "deployment", "metadata": {"name": "front"}, "spec": {"selector": {"app": "web"}}}
    bcs("apply", "-f", bcs.file(adopting))
    bcs("scale", "deployment/front", "3")
    before = gateway.core.state.records()
    for words in ("app/beacon", "deployment/front"):
        printed = bcs("get", words, "-o", "yaml")
        assert PASSWORD not in printed
        assert bcs.apply(printed)[-1].endswith("unchanged"), words
    assert gateway.core.state.records() == before


def test_a_hidden_value_without_a_stored_one_is_refused(bcs: Bcs, gateway: CoreGateway) -> None:
    made = {"kind": "secret", "metadata": head(), "datas": {"a": {"content": HIDDEN}}}
    bcs("apply", "-f", bcs.file(made), code=1)
    created(bcs, gateway, "secrets")
    made["datas"] = {"a": {"content": HIDDEN}, "b": {"content": HIDDEN}}
    bcs("apply", "-f", bcs.file(made), code=1)
    assert gateway.core.state.secrets["shop/web"].items == {"a": "aHVzaA=="}
    made["datas"] = {"a": {"content": HIDDEN}, "b": {"content": "bW9yZQ=="}}
    bcs("apply", "-f", bcs.file(made))
    assert gateway.core.state.secrets["shop/web"].items == {"a": "aHVzaA==", "b": "bW9yZQ=="}


def test_expressions_name_fields_of_documents_and_of_answers(bcs: Bcs, gateway: CoreGateway) -> None:
    created(bcs, gateway, "applications")
    path = "{.Name} {.metadata.name} {.spec.instance} {.status.RunningInstances} {.RunningInstances}"
    assert bcs("get", "applications", "web", "-o", f"jsonpath={path}").strip() == "web web 2 2 2"
    assert json.loads(bcs("get", "applications", "-o", "json"))[0]["spec"]["instance"] == 2


MADE_BY_OTHERS = sorted(KINDS.keys() - DOCUMENT_KINDS.keys() - {"cluster", "servers", "definition"})
"""A definition is a document; there is one cluster, and servers have no objects."""
OF_ONE = ("versions", "commands", "messages")
"""Kinds that are printed for one application."""


@pytest.mark.parametrize("kind", MADE_BY_OTHERS)
def test_objects_that_cannot_be_applied_are_refused_once(bcs: Bcs, gateway: CoreGateway, kind: str) -> None:
    created(bcs, gateway, "applications")
    created(bcs, gateway, "services")
    gateway.feed(
        CreateCommand(token=98, namespace="shop", name="web", type="command", body={"command": ["true"]}),
        AddManagedApplication(token=99, application=ManagedApplication(namespace="shop", name="job", manager="m")),
    )
    gateway.offer(1, cpus=64, mem=65536)
    name = ("web",) if kind in OF_ONE else ()
    objects = yaml.safe_load(bcs("get", kind, *name, "-o", "yaml"))
    assert objects, kind
    listed = objects if isinstance(objects, list) else [objects]
    said = bcs.refused("apply", "-f", bcs.file(json.dumps(listed * 3), "json"))
    (line,) = said.splitlines()
    number = f"{3 * len(listed)} {'managed applications' if kind == 'managed' else kind} cannot be applied: "
    assert number in line, line


def test_objects_without_a_kind_are_counted(bcs: Bcs) -> None:
    said = bcs.refused("apply", "-f", bcs.file([{"metadata": {"name": "web"}}] * 50))
    assert said.count("kind: is missing in 50 objects") == 1 and len(said.splitlines()) == 1


@pytest.mark.parametrize("kind", [["a"], {"a": "b"}, 5])
def test_a_kind_that_is_no_text_is_named_with_its_file(bcs: Bcs, kind: object) -> None:
    said = bcs.refused("apply", "-f", bcs.file({"kind": kind, "metadata": {"name": "web"}}))
    assert "kind" in said and "defect" not in said


def test_one_taskgroup_is_one_object(bcs: Bcs, gateway: CoreGateway) -> None:
    created(bcs, gateway, "applications")
    assert bcs("get", "pod", "web-0", "-o", "jsonpath={.metadata.name}").strip() == "web-0"
    assert isinstance(yaml.safe_load(bcs("get", "pod", "web-0", "-o", "yaml")), dict)
    assert len(yaml.safe_load(bcs("get", "pod", "web", "-o", "yaml"))) == 2


def test_a_label_that_the_template_hides_is_a_warning(bcs: Bcs, gateway: CoreGateway) -> None:
    created(bcs, gateway, "applications")
    made = yaml.safe_load(bcs("get", "application", "web", "-o", "yaml"))
    made["metadata"]["labels"] = {"app": "other"}
    made["spec"]["template"].setdefault("metadata", {})["labels"] = {"app": "web"}
    bcs("apply", "-f", bcs.file(made))
    assert bcs.said.count("$.metadata.labels.app: has no effect") == 1
