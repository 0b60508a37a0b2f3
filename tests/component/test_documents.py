"""Documents as the documentation, the console and the templates of the original have them (tests/documents): each is
accepted, accepted with exactly these warnings, or refused for this reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.component.apiserver import Api
from tests.unit.api_support import CoreGateway
from tests.unit.test_documents_taken import SILENT

FOLDER = Path(__file__).parent.parent / "documents"
NAMES = sorted(file.name.removesuffix(".expected.json") for file in FOLDER.glob("*.expected.json"))


class Expected(msgspec.Struct, forbid_unknown_fields=True):
    """What stands beside a document. `needs`: documents that are applied before. `warnings`, `problems`: JSON paths;
    `reason`: of a refusal."""

    verdict: str
    method: str
    path: str
    needs: tuple[str, ...]
    status: int
    warnings: tuple[str, ...]
    problems: tuple[str, ...]
    reason: str


def expected(name: str) -> Expected:
    return msgspec.json.decode((FOLDER / f"{name}.expected.json").read_bytes(), type=Expected)


def prepare(api: Api, gateway: CoreGateway, name: str) -> None:
    """Applies what the document needs; taskgroups of applications run then."""
    needs = expected(name).needs
    if needs:
        gateway.connect()
    for needed in needs:
        assert apply(api, needed).status_code in (200, 202)
    for application in list(gateway.core.state.applications):
        gateway.offer(cpus=32, mem=65536)
        gateway.report("RUNNING", application)


def apply(api: Api, name: str, **query: str) -> Any:
    said = expected(name)
    body = (FOLDER / f"{name}.json").read_bytes()
    headers = {"Content-Type": "application/json"}
    return api.call(said.method, said.path, data=body, params=query, headers=headers)


@pytest.mark.parametrize("name", NAMES)
def test_a_document_is_taken_as_expected(api: Api, gateway: CoreGateway, name: str) -> None:
    said = expected(name)
    prepare(api, gateway, name)
    before = len(gateway.commands)
    response = apply(api, name, fieldValidation="Original")
    answer = response.json()
    assert response.status_code == said.status, response.text
    assert tuple(warning["path"] for warning in answer.get("warnings", ())) == said.warnings
    if said.verdict == "refused":
        assert answer["data"]["reason"] == said.reason
        assert tuple(problem["path"] for problem in answer["data"]["problems"]) == said.problems
        return
    assert bool(said.warnings) is (said.verdict == "warned")
    assert len(gateway.commands) > before
    assert "warnings" not in apply(api, name, fieldValidation="Ignore").json()


@pytest.mark.parametrize("name", NAMES)
def test_strict_refuses_what_warn_names_and_nothing_else(api: Api, gateway: CoreGateway, name: str) -> None:
    said = expected(name)
    prepare(api, gateway, name)
    before = len(gateway.commands)
    strict = apply(api, name, fieldValidation="Strict")
    if said.status not in (200, 202, 422):
        assert strict.status_code == said.status
        return
    changed = len(gateway.commands) > before
    answer = apply(api, name).json()  # a refusal has warnings too
    named = answer.get("warnings", ())
    assert {each["path"] for each in named} <= set(said.warnings)
    assert not any("the original" in each["message"] for each in named), "written by a user of this program"
    if not named and not said.problems:
        assert strict.status_code == said.status, strict.text
    else:
        assert strict.status_code == 422 and not (named and changed), strict.text
        problems = {problem["path"]: problem["message"] for problem in strict.json()["data"]["problems"]}
        assert "warnings" not in strict.json()
        warned = {each["path"]: "; ".join(filter(None, (each["message"], each["hint"]))) for each in named}
        refused = {} if answer["result"] else {each["path"]: each["message"] for each in answer["data"]["problems"]}
        assert problems == {**warned, **refused}


TAKEN = {
    "ports[].id": ("application-of-the-console", "ports[0].id"),
    "metricPolicy": ("application-metric-policy", "metricPolicy"),
    "logPathList": ("application-of-the-console", "logPathList"),
    "isAddImageSecrets": ("application-of-the-console", "isAddImageSecrets"),
    "isImageCustomed": ("application-of-the-console", "isImageCustomed"),
    "operator of configmaps": ("configmap-operator", "operator"),
    "an empty part beside the own of a check": ("application-of-the-console", "healthChecks[0].http"),
    "an unused part beside the own of a check": ("application-unused-check-parts", "healthChecks[0].command"),
    "dataKeyAlias equal to dataKey": ("application-alias-and-sub-path", ""),
    "networkType: BRIDGE": ("application-network-type-bridge", "networktype"),
    "path of secrets": ("secret-of-kubernetes", "path"),
    "uris[].pullPolicy": ("process-of-the-documentation", "uris[0].pullPolicy"),
    "hostname with HOST": ("application-host-name-in-host-network", "hostname"),
    "updatePolicy of applications": ("application-of-the-console", "updatePolicy.action"),
    "updatePolicy of deployments": ("deployment-of-the-console", "updatePolicy"),
    "spec.selector of applications": ("application-of-the-console", "spec.selector"),
    "netLimit of zero": ("application-net-limit-of-zero", ""),
    "containerPort of services": ("service-of-the-console", "ports[0].containerPort"),
    "id of services": ("service-of-the-console", "ports[0].id"),
    "weight of services": ("service-of-the-console", "weight"),
    "autoUpgrade of services": ("service-of-the-console", "autoUpgrade"),
    "constraint.selector": ("application-node-selector", "constraint.selector"),
    "clusterIP as a text": ("service-of-the-console", "clusterIP"),
    "repeated items of a set": ("application-repeated-set-items", "item[2]"),
    "parameter net": ("application-unknown-parameter", "parameters[1].key"),
    "parameter net of the console": ("application-of-the-console", "parameters[0].key"),
}
"""What the console, the templates and the documentation of the original write, the document that has it, and the end of
the path of its warning; empty: no warning is due."""


@pytest.mark.parametrize("what", TAKEN)
def test_what_the_original_writes_is_taken(what: str) -> None:
    name, path = TAKEN[what]
    said = expected(name)
    assert said.verdict == ("warned" if path else "accepted")
    if path:
        assert [warning for warning in said.warnings if warning.endswith(path)], said.warnings


BUILT = {
    "dataKeyAlias and subPath of configmaps": "application-alias-and-sub-path",
    "alias of secrets": "application-alias-of-secrets",
    "netLimit": "application-net-limit",
    "reserved addresses by labels": "application-reserved-addresses",
    "reserved addresses by annotations": "application-reserved-by-annotations",
    "every variable of tasks": "application-every-variable",
    "old health checks": "application-old-health-checks",
    "old command checks": "application-old-command-check",
    "regular expressions": "application-regular-expressions",
    "every operator of constraints": "application-every-operator",
    "every command of processes": "process-every-command",
}
"""What has an effect here because the original has it, and a document that has it."""


@pytest.mark.parametrize("what", BUILT)
def test_what_the_original_honours_has_an_effect(what: str) -> None:
    """tests/unit/test_documents_taken.py has the effects."""
    said = expected(BUILT[what])
    assert (said.verdict, said.warnings) == ("accepted", ())


NAMES_OF_THE_ORIGINAL = ("Front_End", "0web", "_x", "a" * 100)
COLLECTIONS = {
    "application-small": "applications",
    "process-small": "processes",
    "deployment-small": "deployments",
    "daemonset-small": "daemonsets",
    "configmap-settings": "configmaps",
    "secret-keys": "secrets",
    "service-small": "services",
}


@pytest.mark.parametrize("name", NAMES_OF_THE_ORIGINAL)
@pytest.mark.parametrize("document", COLLECTIONS)
def test_names_of_the_original_are_taken_for_every_kind(api: Api, document: str, name: str) -> None:
    raw = msgspec.json.decode((FOLDER / f"{document}.json").read_bytes())
    raw["metadata"]["name"] = name
    path = f"/namespaces/sandbox/{COLLECTIONS[document]}"
    answer = api.call("POST", path, json=raw)
    assert answer.status_code in (200, 202), answer.text
    assert [warning["path"] for warning in answer.json()["warnings"]] == ["$.metadata.name"]
    assert api.call("GET", f"{path}/{name}").status_code == 200
    raw["metadata"]["name"] = f"{name}.x"
    assert api.call("POST", path, json=raw).status_code == 422, "a dot parts the ids"


def named_in(anchor: str, end: str) -> set[str]:
    """Documents in the last column of a table of docs/original.md."""
    page = (FOLDER.parent.parent / "docs" / "original.md").read_text()
    table = page.partition(f'<a id="{anchor}">')[2].partition(end)[0]
    return set(re.findall(r"`([a-z]+-[a-z-]+)`", "".join(line.rsplit(" | ", 1)[-1] for line in table.splitlines())))


def test_the_table_of_differences_names_every_document_with_warnings() -> None:
    named = named_in("differences", '<a id="silent-differences">')
    assert named == {name for name in NAMES if expected(name).verdict == "warned"}


def test_differences_without_a_warning_have_documents_without_warnings() -> None:
    named = named_in("silent-differences", "### ")
    assert named == set(SILENT)
    assert {expected(name).verdict for name in named} == {"accepted"}


def test_every_document_has_an_expected_result_and_every_verdict_is_there() -> None:
    documents = {file.stem for file in FOLDER.glob("*.json") if not file.name.endswith(".expected.json")}
    assert documents == set(NAMES)
    assert len(documents) >= 170
    verdicts = {expected(name).verdict for name in NAMES}
    assert verdicts == {"accepted", "warned", "refused"}
