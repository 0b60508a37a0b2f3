"""`bcs` with namespaces, admission webhooks and custom resources, against the real API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bcs_scheduler.cli.habits import DOCUMENTS
from bcs_scheduler.cli.main import run
from tests.component.apiserver import serving
from tests.component.cli.conftest import Result
from tests.unit.api_support import CoreGateway, document

LOGGED = re.compile(r"(\x1b\[\d*m)?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ")
EXAMPLES = Path(__file__).parents[3] / "conf" / "examples"


@pytest.fixture
def gateway() -> CoreGateway:
    return CoreGateway()


@pytest.fixture
def bcs(gateway: CoreGateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("BCS_NAMESPACE", "shop")
    monkeypatch.setenv("BCS_OUTPUT", "json")
    with serving(gateway) as api:
        monkeypatch.setenv("BCS_SERVER", api.url)

        def call(*arguments: str) -> Result:
            code = run(arguments)
            captured = capsys.readouterr()
            assert "Traceback" not in captured.err
            # The server runs in this process, and logs.
            out = "".join(line for line in captured.out.splitlines(True) if not LOGGED.match(line))
            return Result(code, out, captured.err)

        yield call


def done(result: Result) -> list[tuple[str, str, str]]:
    assert result.code == 0, result.err
    return [(each["kind"], each["name"], each["done"]) for each in json.loads(result.out)]


def write(folder: Path, *documents: dict[str, Any]) -> str:
    path = folder / "documents.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


KIND = {"kind": "crr", "spec": {"names": {"kind": "Database"}}}
MAIN = {"apiVersion": "x/v1", "kind": "Database", "metadata": {"name": "main"}, "spec": {"size": 1}}


def test_settings_of_a_namespace_are_changed_one_by_one(bcs: Any) -> None:
    assert bcs("set", "namespace", "shop", "--max-priority", "10").code == 0, "a namespace without settings gets them"
    assert bcs("set", "namespace", "shop", "--objects", "5", "--object-storage", "1Gi", "--label", "a=b").code == 0
    assert bcs("set", "namespace", "shop", "--priority-class", "online", "--priority-class", "batch").code == 0
    assert bcs("set", "namespace", "shop", "--priority-class", "batch-", "--cpus", "2").code == 0
    shown = json.loads(bcs("get", "namespace", "shop", "-o", "json").out)
    assert shown["metadata"]["labels"] == {"a": "b"}
    assert shown["spec"] == {
        "quota": {"cpus": 2.0, "objects": 5, "objectStorage": 1024.0},
        "maxPriority": 10,
        "priorityClasses": ["online"],
    }
    said = bcs("describe", "namespace", "shop").out
    assert "0/5" in said and "0/1024" in said and "online" in said
    assert bcs("set", "namespace", "shop", "--cpus", "none", "--max-priority", "none", "--objects", "none").code == 0
    assert json.loads(bcs("get", "namespace", "shop", "-o", "json").out)["spec"] == {
        "quota": {"objectStorage": 1024.0},
        "priorityClasses": ["online"],
    }
    assert "give a setting" in bcs("set", "namespace", "shop").err
    assert "neither a number nor none" in bcs("set", "namespace", "shop", "--max-priority", "much").err


def test_a_namespace_is_made_shown_and_bounded(bcs: Any, gateway: CoreGateway, tmp_path: Path) -> None:
    made = bcs("create", "namespace", "shop", "--cpus", "500m", "--mem", "1Gi", "--label", "tier=x")
    assert done(made) == [("namespace", "shop", "created")]
    assert bcs("create", "namespace", "shop", "--cpus", "1").code != 0
    assert done(bcs("create", "namespace", "shop", "--cpus", "500m", "--replace")) == [("namespace", "shop", "updated")]
    refused = bcs("apply", "-f", write(tmp_path, document(instance=9)))
    assert refused.code != 0 and "cpus: quota 0.5 cores, used 0, 0.9 more asked for" in refused.err
    assert bcs("apply", "-f", write(tmp_path, document(instance=3))).code == 0
    table = bcs("get", "ns", "-o", "table").out.splitlines()
    assert table[-1].split()[:4] == ["shop", "0.3/0.5", "288", "3"]
    described = bcs("describe", "namespace", "shop").out
    assert "0.3/0.5" in described and "1 application\n" in described
    busy = bcs("delete", "namespace", "shop")
    assert busy.code != 0 and "is not empty" in busy.err
    bcs("create", "namespace", "spare")
    assert done(bcs("delete", "ns", "spare")) == [("namespace", "spare", "deleted")]


def test_a_namespace_is_applied_whatever_namespace_the_command_line_names(bcs: Any, tmp_path: Path) -> None:
    path = write(tmp_path, {"kind": "namespace", "metadata": {"name": "shop"}, "spec": {"quota": {"cpus": 2}}})
    assert done(bcs("apply", "-n", "other", "-f", path)) == [("namespace", "shop", "created")]
    assert done(bcs("apply", "-f", path)) == [("namespace", "shop", "unchanged")]
    assert done(bcs("delete", "-f", path)) == [("namespace", "shop", "deleted")]


def test_custom_resources_from_registration_to_removal(bcs: Any, gateway: CoreGateway, tmp_path: Path) -> None:
    path = write(tmp_path, MAIN, KIND)
    assert done(bcs("apply", "-f", path)) == [("kind", "Database", "registered"), ("Database", "main", "stored")]
    assert "shop/main" in next(iter(gateway.core.state.custom_objects))
    for word in ("Database", "database", "databases"):
        assert [found["spec"] for found in json.loads(bcs("get", word).out)] == [{"size": 1}]
    assert json.loads(bcs("get", "Database", "main").out)["apiVersion"] == "x/v1"
    assert "main" in bcs("get", "Database", "-A", "-o", "table").out
    assert [found["spec"]["names"]["kind"] for found in json.loads(bcs("get", "kinds").out)] == ["Database"]
    assert bcs("delete", "kind", "Database").code != 0
    assert done(bcs("delete", "database", "main")) == [("Database", "main", "deleted")]
    assert done(bcs("delete", "kind", "Database")) == [("kind", "Database", "deleted")]


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        ("Deployment", "documents of Kubernetes have another form: `bcs create deployment NAME --image IMAGE"),
        ("Service", "documents of Kubernetes have another form: `bcs create service NAME --port PORT"),
        ("ConfigMap", "documents of Kubernetes have another form: `bcs create configmap NAME"),
        ("Pod", "documents of Kubernetes have another form: `bcs run IMAGE"),
        ("Job", "there is no kind 'Job': a job is an application"),
        ("StatefulSet", "there is no kind 'StatefulSet': taskgroups of applications keep"),
    ],
)
def test_a_document_of_kubernetes_is_answered_with_the_way_here(bcs: Any, tmp_path: Path, kind: str, way: str) -> None:
    path = tmp_path / "nginx.yaml"
    path.write_text(f"apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: nginx}}\n")
    result = bcs("apply", "-f", str(path))
    assert result.code == 2 and way in " ".join(result.err.split())


@pytest.mark.parametrize("way", sorted(set(DOCUMENTS.values())))
def test_the_way_here_works(bcs: Any, way: str) -> None:
    """What the sentence tells prints something."""
    command = way.split("`")[1].replace("NAME", "one").replace("IMAGE", "nginx").replace("PORT", "80")
    assert bcs(*command.replace("FILE", __file__).split()[1:]).code == 0, command


def test_an_unknown_kind_stops_everything_before_it_begins(bcs: Any, gateway: CoreGateway, tmp_path: Path) -> None:
    path = write(tmp_path, {"kind": "configmap", "metadata": {"name": "a"}}, {**MAIN, "kind": "Databse"})
    refused = bcs("apply", "-f", path)
    assert refused.code == 2 and "kind: 'Databse' is not known" in refused.err
    assert not gateway.commands
    assert bcs("get", "Databse").code == 2


def test_all_problems_of_all_files_are_listed_before_a_request_is_sent(
    bcs: Any, gateway: CoreGateway, tmp_path: Path
) -> None:
    """kubectl lists all of them too, but applies the other documents."""
    folder = tmp_path / "documents"
    folder.mkdir()
    other = {"kind": "configmap", "metadata": {"name": "there", "namespace": "bank"}}
    documents = (
        {"kind": "configmap", "metadata": {"name": "good"}},
        {**MAIN, "kind": "Databse"},
        KIND,
        MAIN,
        {"kind": "application", "metadata": {}},
        other,
        {"kind": "Command", "spec": {"commandTargetRef": {"name": "web", "namespace": "bank"}}},
    )
    path = write(folder, *documents)
    (folder / "a.json").write_text("{")
    (folder / "b.json").write_text(json.dumps({**MAIN, "kind": "Servce"}))
    (folder / "c.json").write_text("3")
    (folder / "d.json").write_text("[]")
    empty = tmp_path / "empty"
    empty.mkdir()
    refused = bcs("apply", "-n", "shop", "-f", str(folder), "-f", str(empty), "-f", str(tmp_path / "none.json"))
    assert refused.code == 2
    first, *rest = refused.err.splitlines()
    assert first == "error: the documents have 9 problems; nothing was sent"
    for begin in (
        f"{empty}: the directory contains no ",
        f"{folder}/a.json: not JSON: ",
        f"{tmp_path}/none.json: no such file",
        f"{folder}/c.json: is not an object",
        f"{path} (document 5): metadata.name: is missing",
        f"{path} (document 6): configmap/there: metadata.namespace: is 'bank', but -n is 'shop'",
        f"{path} (document 7): command/web: spec.commandTargetRef.namespace: is 'bank', but -n is 'shop'",
        f"{path} (document 2): databse/main: kind: 'Databse' is not known; known: ",
        f"{folder}/b.json: servce/main: kind: 'Servce' is not known; known: ",
    ):
        assert [line for line in rest if line.startswith(f"  {begin}")], (begin, rest)
    assert len(rest) == 9 and not gateway.commands


def test_problems_of_files_are_listed_although_no_server_answers(
    bcs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, {**MAIN, "kind": "Databse"}, {"kind": "application"})
    monkeypatch.setenv("BCS_SERVER", "http://127.0.0.1:1")
    refused = bcs("apply", "-f", path)
    assert refused.code == 2
    assert "(document 2): metadata.name: is missing" in refused.err
    assert "the registered kinds are not known: " in refused.err


def test_the_example_of_a_webhook_blocks_no_later_example() -> None:
    """Nothing listens at its address."""
    raw = json.loads((EXAMPLES / "admissionwebhook.json").read_text())
    assert [hook["failurePolicy"] for hook in raw["admissionWebhooks"]] == ["Ignore"]


def test_webhooks(bcs: Any, gateway: CoreGateway, tmp_path: Path) -> None:
    path = str(EXAMPLES / "admissionwebhook.json")
    assert done(bcs("apply", "-f", path))[0][2] == "created"
    assert done(bcs("apply", "-f", path))[0][2] == "unchanged"
    other = tmp_path / "webhook.json"
    other.write_text(json.dumps({**json.loads(Path(path).read_text()), "validating": True}))
    assert done(bcs("apply", "-f", str(other)))[0][2] == "updated"
    name = json.loads(Path(path).read_text())["metadata"]["name"]
    assert name in bcs("get", "webhooks", "-A", "-o", "table").out
    namespace = next(iter(gateway.core.state.webhooks.values())).namespace
    assert "on failure" in bcs("describe", "webhook", name, "-n", namespace).out
    assert done(bcs("delete", "webhook", name, "-n", namespace))[0][2] == "deleted"


@pytest.mark.parametrize("kind", ["namespace", "configmap", "webhook", "Database", "service"])
def test_what_get_prints_is_applied_unless_somebody_was_faster(bcs: Any, tmp_path: Path, kind: str) -> None:
    config_map = {"kind": "configmap", "metadata": {"name": "main"}, "datas": {"a": {"content": "YQ=="}}}
    service = {"kind": "service", "metadata": {"name": "main"}, "spec": {"selector": {"app": "web"}}}
    webhook = json.loads((EXAMPLES / "admissionwebhook.json").read_text())
    webhook["metadata"]["name"] = "main"
    namespace = {"kind": "namespace", "metadata": {"name": "main"}}
    assert bcs("apply", "-f", write(tmp_path, namespace, KIND, MAIN, config_map, service, webhook)).code == 0
    read = yaml.safe_load(bcs("get", kind, "main", "-o", "yaml").out)
    (unchanged,) = done(bcs("apply", "-f", write(tmp_path, read), "-o", "json"))
    assert unchanged[2] == "unchanged"
    read["metadata"]["labels"] = {"edited": "first"}
    assert bcs("apply", "-f", write(tmp_path, read)).code == 0
    read["metadata"]["labels"] = {"edited": "second"}
    late = bcs("apply", "-f", write(tmp_path, read))
    assert late.code != 0 and "has been changed: its resourceVersion is" in late.err
    differs = bcs("diff", "-f", write(tmp_path, read))
    assert (differs.code, differs.err) == (1, "") and "resourceVersion" not in differs.out
    assert "-    edited: first" in differs.out and "+    edited: second" in differs.out
    read["metadata"]["labels"] = {"edited": "first"}
    assert bcs("diff", "-f", write(tmp_path, read)) == (0, "", ""), "compared as it is, whatever was read"
