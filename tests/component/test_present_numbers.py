"""The number of taskgroups after a scale: definitions show it, changes of other fields keep it, and plans say when it
changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from bcs_scheduler.cli.main import run
from tests.component.apiserver import Api
from tests.unit.api_support import CoreGateway, document
from tests.unit.deployment_support import deployment

KINDS = ("application", "deployment")


def of_kind(kind: str, name: str = "web", **more: Any) -> dict[str, Any]:
    made = deployment(name, **more) if kind == "deployment" else document(name, **more)
    made["spec"]["instance"] = 8
    return made


def number(gateway: CoreGateway, kind: str, name: str = "web") -> int:
    state = gateway.core.state
    table = state.deployments if kind == "deployment" else state.applications
    return table[f"shop/{name}"].instances


@pytest.fixture
def bcs(
    gateway: CoreGateway, api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Any]:
    monkeypatch.setenv("BCS_SERVER", api.url)
    monkeypatch.setenv("BCS_NAMESPACE", "shop")
    monkeypatch.setenv("BCS_CONFIG", str(tmp_path / "no" / "bcs.toml"))
    monkeypatch.delenv("BCS_OUTPUT", raising=False)
    gateway.connect()
    gateway.offer(1, cpus=64, mem=65536)

    def call(*arguments: str) -> str:
        code = run(arguments)
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return captured.out

    with capture_logs():  # the API shares our output
        yield call


def written(folder: Path, body: dict[str, Any]) -> str:
    file = folder / "web.yaml"
    file.write_text(yaml.safe_dump(body))
    return str(file)


def scaled(gateway: CoreGateway, bcs: Any, body: dict[str, Any], folder: Path) -> None:
    """The object is made with 8 taskgroups and then has 12, all of which run."""
    bcs("apply", "-f", written(folder, body))
    gateway.report("RUNNING", "shop/web")
    gateway.offer(1, cpus=64, mem=65536)
    bcs("scale", f"{body['kind']}/web", "12")
    gateway.report("RUNNING", "shop/web")
    gateway.offer(1, cpus=64, mem=65536)
    assert number(gateway, body["kind"]) == 12


@pytest.mark.parametrize("kind", KINDS)
def test_a_definition_that_is_applied_again_keeps_the_number(
    gateway: CoreGateway, bcs: Any, tmp_path: Path, kind: str
) -> None:
    scaled(gateway, bcs, of_kind(kind), tmp_path)
    file = tmp_path / "definition.yaml"
    file.write_text(bcs("get", "definition", f"{kind}/web", "-o", "yaml"))
    assert yaml.safe_load(file.read_text())["spec"]["instance"] == 12
    assert run(("diff", "-f", str(file))) == 0
    assert "unchanged" in bcs("apply", "-f", str(file), "--dry-run")
    assert "unchanged" in bcs("apply", "-f", str(file))
    bcs("label", f"{kind}/web", "tier=front")
    assert number(gateway, kind) == 12


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_as_the_console_makes_it_keeps_the_number(
    gateway: CoreGateway, api: Api, bcs: Any, tmp_path: Path, kind: str
) -> None:
    scaled(gateway, bcs, of_kind(kind), tmp_path)
    body = api.data(f"/definition/{kind}/shop/web")
    body["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "COLOUR", "value": "blue"}]
    path = f"/namespaces/shop/{kind}s/web"
    plan = api.call("PUT", f"{path}?dryRun=true", json=body).json()["data"]
    assert "instances" not in plan
    assert api.call("PUT", path, json=body).status_code == 202
    assert number(gateway, kind) == 12


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_of_a_document_counts_and_every_plan_says_so(
    gateway: CoreGateway, api: Api, bcs: Any, tmp_path: Path, kind: str
) -> None:
    """As with kubectl: a number that a document states is the wanted one, also if the document has stated it before."""
    body = of_kind(kind)
    scaled(gateway, bcs, body, tmp_path)
    file = written(tmp_path, body)
    said = "number of taskgroups: 12 -> 8"
    assert said in bcs("apply", "-f", file, "--dry-run")
    assert said in bcs("update", "-f", file, "--dry-run")
    assert said in bcs("scale", f"{kind}/web", "8", "--dry-run")
    assert run(("diff", "-f", file)) == 1
    together = tmp_path / "all.yaml"
    together.write_text(yaml.safe_dump_all([body, of_kind("application", "other")]))
    assert said in bcs("apply", "-f", str(together), "--dry-run")
    plan = api.call("POST", "/plans", json=[body]).json()["data"]["documents"][0]
    assert plan["instances"] == {"from": 12, "to": 8}
    changed = of_kind(kind, command="other") if kind == "application" else of_kind(kind, maxSurge=3)
    changed["spec"]["template"]["spec"]["containers"][0]["command"] = "other"
    assert said in bcs("apply", "-f", written(tmp_path, changed), "--dry-run"), "beside another change"
    del changed["spec"]["instance"]
    assert "->" not in bcs("apply", "-f", written(tmp_path, changed), "--dry-run"), "left out, the number stays"
    assert number(gateway, kind) == 12
    assert "scaled from 12 to 8" in bcs("apply", "-f", written(tmp_path, body))
    assert number(gateway, kind) == 8


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_image_is_an_update_that_keeps_the_number(
    gateway: CoreGateway, api: Api, bcs: Any, tmp_path: Path, kind: str
) -> None:
    body = of_kind(kind)
    (container,) = body["spec"]["template"]["spec"]["containers"]
    container |= {"name": "shop", "type": "DOCKER", "image": "shop:1"}
    scaled(gateway, bcs, body, tmp_path)
    before = api.data(f"/definition/{kind}/shop/web")
    assert "->" not in bcs("set", "image", f"{kind}/web", "shop=shop:2", "--dry-run")
    assert api.data(f"/definition/{kind}/shop/web") == before
    assert f"{kind}/web updated" in bcs("set", "image", f"{kind}/web", "shop=shop:2")
    after = api.data(f"/definition/{kind}/shop/web")
    assert after["spec"]["template"]["spec"]["containers"][0].pop("image") == "shop:2"
    assert before["spec"]["template"]["spec"]["containers"][0].pop("image") == "shop:1"
    assert after["spec"] == before["spec"]
    assert number(gateway, kind) == 12


def test_a_plan_names_the_number_that_a_cancelled_update_restores(
    gateway: CoreGateway, api: Api, bcs: Any, tmp_path: Path
) -> None:
    scaled(gateway, bcs, of_kind("deployment"), tmp_path)
    changed = of_kind("deployment")
    changed["spec"]["template"]["spec"]["containers"][0]["command"] = "other"
    bcs("apply", "-f", written(tmp_path, changed))
    plan = api.call("PUT", "/namespaces/shop/deployments/web/cancelupdate?dryRun=true").json()["data"]
    assert plan["instances"] == {"from": 8, "to": 12}


def test_an_adoption_says_how_the_number_changes(gateway: CoreGateway, api: Api, bcs: Any, tmp_path: Path) -> None:
    scaled(gateway, bcs, of_kind("application"), tmp_path)
    adopting = of_kind("deployment", "front")
    adopting["spec"]["selector"] = {"app": "web"}
    plan = api.call("POST", "/namespaces/shop/deployments?dryRun=true", json=adopting).json()["data"]
    assert plan["instances"] == {"from": 12, "to": 8}


@pytest.mark.parametrize("kind", KINDS)
def test_a_definition_of_a_smaller_number_than_its_gang_can_be_applied(
    gateway: CoreGateway, api: Api, bcs: Any, tmp_path: Path, kind: str
) -> None:
    body = of_kind(kind, canary={"instances": 6, "manual": True}) if kind == "deployment" else of_kind(kind)
    body["spec"]["minAvailable"] = 7
    scaled(gateway, bcs, body, tmp_path)
    bcs("scale", f"{kind}/web", "3")
    definition = json.loads(bcs("get", "definition", f"{kind}/web", "-o", "json"))
    assert (definition["spec"]["instance"], definition["spec"]["minAvailable"]) == (3, 7)
    assert "unchanged" in bcs("apply", "-f", written(tmp_path, definition))
    definition["spec"]["minAvailable"] = 5
    refused = api.call("PUT", f"/namespaces/shop/{kind}s/web", json=definition)
    assert refused.status_code == 422 and "minAvailable" in refused.text
