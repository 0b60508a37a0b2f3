"""Routes: which template a path belongs to."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bcs_scheduler.api.http.operation import BASE
from bcs_scheduler.api.http.routing import Routes
from bcs_scheduler.api.original.paths import DRIVER, SCHEDULER
from bcs_scheduler.api.original.paths import ROUTES as OF_THE_SCHEDULER
from bcs_scheduler.api.routes import operations
from tests.component.apiserver import Api, serving
from tests.unit.api_support import CoreGateway, document

ROUTES = Routes(
    {
        "/spaces/{ns}/apps": "list",
        "/spaces/{ns}/apps/undo": "undo",
        "/spaces/{ns}/apps/{name}": "one",
        "/spaces/{ns}/apps/{name}/undo": "undo one",
        "/spaces/all/{kind}/{name}": "any kind",
    }
)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/spaces/a/apps", [("list", {"ns": "a"})]),
        ("/spaces/a/apps/x", [("one", {"ns": "a", "name": "x"})]),
        ("/spaces/a/apps/undo", [("undo", {"ns": "a"}), ("one", {"ns": "a", "name": "undo"})]),
        ("/spaces/a/apps/undo/undo", [("undo one", {"ns": "a", "name": "undo"})]),
        ("/spaces/all/apps/x", [("any kind", {"kind": "apps", "name": "x"}), ("one", {"ns": "all", "name": "x"})]),
        ("/spaces//apps", []),
        ("/spaces/a/apps/", [("list", {"ns": "a"})]),
        ("/spaces/a/apps/x//", [("one", {"ns": "a", "name": "x"})]),
        ("/spaces/a", []),
        ("/spaces/a/apps/x/undo/more", []),
        ("", []),
        ("/spaces/{ns}/apps", [("list", {"ns": "{ns}"})]),
    ],
)
def test_a_path_finds_its_templates_fixed_words_first(path: str, found: list[object]) -> None:
    assert list(ROUTES.find(path)) == found


@pytest.mark.parametrize("template", ["/a/{name}.txt", "/a/x{name}"])
def test_a_parameter_is_a_whole_part(template: str) -> None:
    with pytest.raises(ValueError, match="whole part"):
        Routes({template: 1})


def test_two_templates_of_the_same_paths_are_refused() -> None:
    with pytest.raises(ValueError, match="the same paths"):
        Routes({"/a/{x}": 1, "/a/{y}": 2})


def test_an_object_may_have_the_name_of_an_operation() -> None:
    """The path of the operation has no GET: that of the object answers."""
    gateway = CoreGateway()
    gateway.connect()
    with serving(gateway) as api:
        path = "/namespaces/shop/applications"
        assert api.call("POST", path, json=document("rollback")).status_code == 202
        assert api.data(f"{path}/rollback")["Name"] == "rollback"
        assert api.call("HEAD", f"{path}/rollback").status_code == 200
        refused = api.call("PATCH", f"{path}/rollback")
        assert (refused.status_code, refused.headers["Allow"]) == (405, "DELETE, GET, HEAD, PUT")
        assert api.call("OPTIONS", path).headers["Allow"] == "GET, HEAD, POST, PUT"
        missing = api.get(f"{path}/a/b/c/d")
        assert missing.status_code == 404 and f"path {BASE}{path}/a/b/c/d does not exist" in missing.json()["message"]


METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"}
TEMPLATES = sorted({operation.path for operation in operations()})


def filled(template: str) -> str:
    return re.sub(r"{\w+}", "something", template)


def methods(path: str) -> set[str]:
    """Methods of all operations whose template the path fits."""
    found: set[str] = set()
    for operation in operations():
        if re.fullmatch(re.sub(r"{\w+}", "[^/]+", operation.path), path):
            found |= {"GET", "HEAD"} if operation.method == "GET" else {operation.method}
    return found


def check_refused(api: Api, path: str, known: set[str], refusal: int = 405) -> None:
    """Every method that the path does not have is answered with the methods that it has. `refusal`: the status."""
    for method in METHODS - known:
        response = api.call(method, path, base="")
        status = 405 if method == "HEAD" else refusal
        assert (response.status_code, response.headers["Allow"]) == (status, ", ".join(sorted(known))), (method, path)
        if method != "HEAD":
            envelope: dict[str, Any] = response.json()
            assert (envelope["result"], envelope["code"]) == (False, 1405007)
            assert envelope["data"] == {"reason": "method_not_allowed", "problems": []}
            assert envelope["message"].startswith(f"{path} does not take {method}, only ")


@pytest.mark.parametrize("prefix", [BASE, *DRIVER])
def test_a_known_path_names_its_methods_below_every_prefix(api: Api, prefix: str) -> None:
    """Slashes at the end have a meaning below our own prefix only."""
    below = [template for template in TEMPLATES if template.startswith(BASE)]
    assert len(below) > 100
    for template in below:
        path = filled(template)
        ours = prefix == BASE
        check_refused(api, path.replace(BASE, prefix, 1) + ("" if ours else "/"), methods(path), 405 if ours else 200)


def test_paths_outside_of_the_prefixes_name_their_methods(api: Api) -> None:
    outside = [template for template in TEMPLATES if not template.startswith(BASE)]
    assert "/healthz" in outside
    for template in outside:
        check_refused(api, filled(template), methods(filled(template)))


def test_paths_of_the_scheduler_of_the_original_have_its_methods(api: Api) -> None:
    for template, served in OF_THE_SCHEDULER.items():
        check_refused(api, filled(SCHEDULER + template), {*served, *(("HEAD",) if "GET" in served else ())}, 200)


def test_every_path_of_the_scheduler_of_the_original_leads_to_an_operation() -> None:
    known = {(operation.method, re.sub(r"{\w+}", "{}", operation.path)) for operation in operations()}
    for served in OF_THE_SCHEDULER.values():
        for method, path in served.values():
            for kind in ("applications", "processes") if "/{kind}/" in path and "/crd" not in path else ("{}",):
                shape = path.replace("/namespaces/{ns}/{kind}", f"/namespaces/{{ns}}/{kind}")
                assert (method, re.sub(r"{\w+}", "{}", BASE + shape)) in known, (method, path)


@pytest.mark.parametrize("method", sorted(METHODS - {"HEAD"}))
@pytest.mark.parametrize("prefix", ["", BASE, *DRIVER, SCHEDULER])
def test_an_unknown_path_has_no_method(api: Api, prefix: str, method: str) -> None:
    for path in (f"{prefix}/nothing", f"{prefix}/namespaces//applications", f"{prefix}/app"):
        response = api.call(method, path, base="")
        status = 404 if prefix in ("", BASE) else 200
        assert (response.status_code, response.json()["data"]["reason"]) == (status, "no_such_route"), path
        assert "Allow" not in response.headers and f"path {path} does not exist" in response.json()["message"]
