"""`fieldValidation` of every route that takes a document, and the warnings in its answers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bcs_scheduler.api.http.operation import Operation
from bcs_scheduler.api.routes import operations
from tests.component.apiserver import Api, paths
from tests.unit.api_support import CoreGateway

CONFIGMAPS = "/namespaces/shop/configmaps"
BODY = {"kind": "configmap", "metadata": {"name": "conf"}, "datas": {}, "colour": "blue"}
WARNING = {"path": "$.colour", "message": "unknown field", "hint": ""}


def send(api: Api, body: dict[str, Any], mode: str | None = None) -> Any:
    return api.call("POST", CONFIGMAPS, json=body, params={"fieldValidation": mode} if mode else {})


@pytest.mark.parametrize("mode", [None, "Warn"])
def test_warnings_are_part_of_the_envelope_and_warn_is_the_default(
    gateway: CoreGateway, api: Api, mode: str | None
) -> None:
    response = send(api, BODY, mode)
    assert response.status_code == 200
    assert response.json()["warnings"] == [WARNING]
    assert "shop/conf" in gateway.core.state.config_maps


def test_ignore_answers_without_warnings(gateway: CoreGateway, api: Api) -> None:
    response = send(api, BODY, "Ignore")
    assert response.status_code == 200 and "warnings" not in response.json()
    assert "shop/conf" in gateway.core.state.config_maps


def test_strict_refuses_and_changes_nothing(gateway: CoreGateway, api: Api) -> None:
    response = send(api, BODY, "Strict")
    assert response.status_code == 422 and paths(response) == {"$.colour"}
    assert gateway.commands == []


def test_a_document_without_such_fields_has_no_warnings(api: Api) -> None:
    body = {key: value for key, value in BODY.items() if key != "colour"}
    assert "warnings" not in send(api, body, "Warn").json()


def test_a_refused_document_is_answered_with_its_warnings_too(api: Api) -> None:
    response = send(api, {**BODY, "datas": []})
    assert response.status_code == 422 and paths(response) == {"$.datas"}
    assert response.json()["warnings"] == [WARNING]


def test_another_word_is_refused(api: Api) -> None:
    response = send(api, BODY, "Loose")
    assert response.status_code == 400 and paths(response) == {"?fieldValidation"}


def test_every_route_that_takes_a_document_has_the_parameter_and_no_other_route() -> None:
    for operation in operations():
        named = [param.name for param in operation.query]
        assert ("fieldValidation" in named) is (operation.body is not None), (operation.method, operation.path)


DOCUMENTS = [
    operation
    for operation in operations()
    if operation.body not in (None, dict[str, Any])
    and operation.enveloped
    and operation.path != "/v4/scheduler/mesos/plans"
]
"""Operations that take a document. The tree of queues has a format of its own, where an unknown field is a mistake, and
a plan of several documents names the problems of each document (tests.component.test_api_plans). Answers in the form of
Kubernetes have no envelope, and so no warnings."""


@pytest.mark.parametrize("operation", DOCUMENTS, ids=lambda operation: f"{operation.method} {operation.path}")
def test_strict_refuses_on_every_route_what_warn_names(gateway: CoreGateway, api: Api, operation: Operation) -> None:
    unknown: dict[str, Any] = {"zzz": {"colour": 1}}
    listed = operation.body is not None and not isinstance(operation.body, type)
    path, body = ("$[0].zzz", [unknown]) if listed else ("$.zzz", unknown)
    target = operation.path
    for name in re.findall(r"{(\w+)}", target):
        target = target.replace(f"{{{name}}}", "shop")

    def answered(mode: str) -> Any:
        return api.call(operation.method, target, base="", json=body, params={"fieldValidation": mode})

    named = {each["path"]: each["message"] for each in answered("Warn").json()["warnings"]}
    strict = answered("Strict")
    problems = {each["path"]: each["message"] for each in strict.json()["data"]["problems"]}
    assert strict.status_code == 422 and named == {path: "unknown field"}
    assert problems[path] == named[path] and "warnings" not in strict.json()
    assert not gateway.commands
