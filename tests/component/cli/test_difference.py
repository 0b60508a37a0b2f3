"""`bcs diff`: what differs, in words and for programs, without telling what is confidential."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.cli.client.kinds import BY_DOCUMENT
from bcs_scheduler.cli.commands.changing.diff import STORED, WORKLOADS
from bcs_scheduler.cli.documents import APPLY_ORDER
from bcs_scheduler.wire.normal import SHAPES
from tests.component.cli.standin import MISSING, StandIn, failed, ok, write
from tests.unit.api_support import document
from tests.unit.deployment_support import deployment

WEB = "/definition/application/shop/web"
FRONT = "/definition/deployment/shop/front"


def test_the_same_document_written_otherwise_is_the_same(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    stored = document()
    stored["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "100m", "memory": 32}}
    stored["killPolicy"] = {"gracePeriod": 1}
    server.on("GET", WEB, ok(stored))
    assert bcs("diff", "-f", write(tmp_path, document())) == (0, "", "")
    without = document()
    del without["spec"]["instance"]
    assert bcs("diff", "-f", write(tmp_path, without)).code == 0, "what is left out stays"


def test_a_change_is_shown_and_has_an_exit_code(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("GET", FRONT, ok(deployment()))
    given = write(tmp_path, deployment(instance=5, maxSurge=3))
    result = bcs("diff", "-f", given)
    assert result.code == 1
    lines = result.out.splitlines()
    assert {"-  instance: 2", "+  instance: 5", "-      maxSurge: 1", "+      maxSurge: 3"} <= set(lines)
    (found,) = json.loads(bcs("diff", "-f", given, "-o", "json").out)
    assert found["state"] == "changed"
    assert {field["path"]: (field["stored"], field["given"]) for field in found["fields"]} == {
        "$.spec.instance": (2, 5),
        "$.spec.strategy.rollingupdate.maxSurge": (1, 3),
    }
    assert server.requests("PUT") == server.requests("POST") == []


def test_a_change_has_the_colours_of_a_terminal(
    server: StandIn, bcs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    server.on("GET", FRONT, ok(deployment()))
    result = bcs("diff", "-f", write(tmp_path, deployment(instance=5)))
    assert result.code == 1
    for colour, begin in (("31", "-  instance: 2"), ("32", "+  instance: 5"), ("36", "@@ ")):
        assert f"\x1b[{colour}m{begin}" in result.out


def test_what_does_not_exist_is_all_new(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("GET", WEB, MISSING)
    result = bcs("diff", "-f", write(tmp_path, document()))
    assert result.code == 1 and "+kind: application" in result.out
    assert "healthChecks" not in result.out, "as it was written, without defaults"


def test_a_document_that_cannot_be_taken_is_an_error(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    raw = document(imagee="x")
    result = bcs("diff", "-f", write(tmp_path, raw))
    assert result.code == 2 and "imagee" in result.err
    server.on("GET", WEB, failed(500, "a fault", "internal"))
    assert bcs("diff", "-f", write(tmp_path, document())).code == 2, "1 would say that it differs"


def test_passwords_are_not_shown(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    given = document(image="x", imagePullUser="u", imagePullPasswd="hush")
    server.on("GET", WEB, MISSING)
    result = bcs("diff", "-f", write(tmp_path, given))
    assert result.code == 1 and "hush" not in result.out


@pytest.mark.parametrize("unchanged", [True, False])
def test_a_password_that_differs_is_named_without_its_value(
    server: StandIn, bcs: Any, tmp_path: Path, unchanged: bool
) -> None:
    """The server alone can compare it: 0 if nothing differs, 1 if the password does."""
    given = document(image="x", imagePullUser="u", imagePullPasswd="hush")
    server.on("GET", WEB, ok(document(image="x", imagePullUser="u", imagePullPasswd="***")))
    server.on("GET", "/namespaces/shop/applications/web", ok({"DefineInstances": 1}))
    server.on("PUT", "/namespaces/shop/applications", ok({"unchanged": unchanged}))
    result = bcs("diff", "-f", write(tmp_path, given))
    assert result.code == int(not unchanged) and "hush" not in result.out
    assert ("$.spec.template.spec.containers[0].imagePullPasswd" in result.out) is not unchanged
    assert server.requests("PUT")[0].query["dryRun"] == "true"


@pytest.mark.parametrize("unchanged", [True, False])
def test_of_secrets_only_the_server_knows(server: StandIn, bcs: Any, tmp_path: Path, unchanged: bool) -> None:
    path = "/namespaces/shop/secrets"
    stored = {"metadata": {"name": "key", "namespace": "shop"}, "datas": {"a": {"digest": "d", "size": 4}}}
    server.on("GET", f"{path}/key", ok({**stored, "kind": "secret"}))
    server.on("PUT", path, ok({"unchanged": True} if unchanged else {"differs": ["b", "a"]}))
    secret = {
        "kind": "secret",
        "metadata": {"name": "key", "namespace": "shop"},
        "datas": {"a": {"content": "aHVzaA=="}},
    }
    result = bcs("diff", "-f", write(tmp_path, secret))
    assert result.code == int(not unchanged) and "aHVzaA" not in result.out
    assert server.requests("PUT")[0].query == {"dryRun": "true"}
    assert ("$.datas.a (a confidential field that differs)" in result.out) is not unchanged


def test_several_documents_have_one_exit_code(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("GET", WEB, ok(document()))
    server.on("GET", FRONT, ok(deployment(maxSurge=2)))
    result = bcs("diff", "-f", write(tmp_path, document(), deployment(), name="all.yaml"))
    assert result.code == 1 and "deployment/shop/front" in result.out and "application/shop/web" not in result.out


def test_every_kind_that_is_applied_can_be_compared() -> None:
    assert {*STORED, "Command"} == {*APPLY_ORDER} == {*BY_DOCUMENT} - {"agent"}, "agents have no document"
    assert {*WORKLOADS} <= {*SHAPES}
