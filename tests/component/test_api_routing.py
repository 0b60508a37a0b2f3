"""Routes: which template a path belongs to."""

from __future__ import annotations

import pytest

from bcs_scheduler.api.http.operation import BASE
from bcs_scheduler.api.http.routing import Routes
from tests.component.apiserver import serving
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
        ("/spaces/a/apps/", []),
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
        assert (refused.status_code, refused.headers["Allow"]) == (405, "PUT")
        assert api.call("OPTIONS", path).headers["Allow"] == "GET, HEAD, POST, PUT"
        missing = api.get(f"{path}/a/b/c/d")
        assert missing.status_code == 404 and f"path {BASE}{path}/a/b/c/d does not exist" in missing.json()["message"]
