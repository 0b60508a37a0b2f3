"""`bcs edit`, `patch`, `label`, `set image` and `run`: which documents they send."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.cli.commands.changing.editing import merged
from bcs_scheduler.cli.commands.changing.running import name_from
from bcs_scheduler.cli.errors import UsageError
from tests.component.cli.standin import ACCEPTED, APPS, StandIn, application, failed, ok

STORED: dict[str, Any] = {
    "apiVersion": "v4",
    "kind": "application",
    "metadata": {"name": "web", "namespace": "defaultGroup", "labels": {"app": "web"}},
    "spec": {"instance": 2, "template": {"spec": {"containers": [{"name": "c", "command": "sleep"}]}}},
}


@pytest.fixture
def stored(server: StandIn) -> StandIn:
    server.on("GET", "/definition/application/defaultGroup/web", ok(STORED))
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("PUT", APPS, ok(ACCEPTED))
    server.on("POST", APPS, ok(ACCEPTED))
    return server


def sent(server: StandIn, method: str = "PUT") -> Any:
    return server.requests(method)[-1].body


def test_a_patch_is_merged_into_the_stored_document(stored: StandIn, bcs: Any) -> None:
    change = '{"metadata": {"labels": {"tier": "front", "app": null}}}'
    assert bcs("patch", "app/web", "-p", change).code == 0
    assert sent(stored) == {**STORED, "metadata": {**STORED["metadata"], "labels": {"tier": "front"}}}
    assert bcs("patch", "app", "web", "-p", "metadata: {labels: {x: y}}", "--dry-run").code == 0
    assert stored.requests("PUT")[-1].query["dryRun"] == "true"


@pytest.mark.parametrize(
    "words",
    [
        ("app/web",),
        ("app/web", "-p", "[1]"),
        ("app/web", "-p", "a: ["),
        ("app/web", "-p", "kind: process"),
        ("app/web", "-p", "metadata: {name: other}"),
        ("app", "web", "shop", "-p", "a: 1"),
        ("tg/web-0", "-p", "a: 1"),
    ],
)
def test_patches_that_are_refused(stored: StandIn, bcs: Any, words: tuple[str, ...]) -> None:
    assert bcs("patch", *words).code == 2
    assert not stored.requests("PUT")


def test_merge_patches_of_the_standard() -> None:
    """Examples of the rules of RFC 7386."""
    assert merged({"a": {"b": "c", "d": 1}}, {"a": {"b": None, "e": [1]}}) == {"a": {"d": 1, "e": [1]}}
    assert merged({"a": [1, 2]}, {"a": [3]}) == {"a": [3]}
    assert merged({"a": "text"}, {"a": {"b": {"c": None}}}) == {"a": {"b": {}}}


def test_labels_are_set_and_removed(stored: StandIn, bcs: Any) -> None:
    assert bcs("label", "app/web", "tier=front", "app-").code == 0
    assert sent(stored)["metadata"]["labels"] == {"tier": "front"}
    refused = bcs("label", "app", "web", "app=other")
    assert refused.code == 2 and "application/web has the label app=web; --overwrite changes it" in refused.err
    assert bcs("label", "app", "web", "app=other", "--overwrite").code == 0
    assert sent(stored)["metadata"]["labels"] == {"app": "other"}
    assert bcs("label", "app/web").code == bcs("label", "tier=front").code == 2


def test_labels_of_the_template_of_an_application_follow(server: StandIn, bcs: Any) -> None:
    """An application has the labels of both places, and those of the template count."""
    spec = {"template": {"metadata": {"labels": {"app": "web", "own": "1"}}, "spec": {"containers": [{"name": "c"}]}}}
    server.on("GET", "/definition/application/defaultGroup/web", ok({**STORED, "spec": spec}))
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("PUT", APPS, ok(ACCEPTED))
    assert bcs("label", "app/web", "app=other", "tier=front", "--overwrite").code == 0
    body = sent(server)
    assert body["metadata"]["labels"] == {"app": "other", "tier": "front"}
    assert body["spec"]["template"]["metadata"]["labels"] == {"app": "other", "own": "1"}
    assert bcs("label", "app/web", "app-").code == 0
    assert sent(server)["spec"]["template"]["metadata"]["labels"] == {"own": "1"}


def test_marks_of_hidden_passwords_are_sent_back_and_stand_for_the_stored_ones(server: StandIn, bcs: Any) -> None:
    spec = {"template": {"spec": {"containers": [{"name": "c", "imagePullPasswd": "***"}]}}}
    server.on("GET", "/definition/application/defaultGroup/web", ok({**STORED, "spec": spec}))
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("PUT", APPS, ok(ACCEPTED))
    assert bcs("label", "app/web", "tier=front").code == 0
    assert sent(server)["spec"] == spec


def with_containers(*containers: dict[str, Any], **spec: Any) -> Any:
    """The answer about the definition of web."""
    return ok({**STORED, "spec": {"instance": 2, **spec, "template": {"spec": {"containers": [*containers]}}}})


DEFINITION = "/definition/application/defaultGroup/web"
PAIR = ({"name": "c", "type": "DOCKER", "image": "old:1"}, {"name": "side", "image": "side:1"}, {"name": "own"})


@pytest.mark.parametrize("words", [("app/web",), ("app", "web"), ("web",)])
def test_images_are_set_and_the_number_of_taskgroups_remains(stored: StandIn, bcs: Any, words: tuple[str, ...]) -> None:
    stored.on("GET", DEFINITION, with_containers(*PAIR))
    result = bcs("set", "image", *words, "c=registry:5000/new:2", "--dry-run")
    assert result.code == 0 and stored.requests("PUT")[-1].query["dryRun"] == "true", result.err
    assert bcs("set", "image", *words, "*=all:3", "c=registry:5000/new:2").code == 0
    spec = sent(stored)["spec"]
    assert "instance" not in spec
    images = [container.get("image") for container in spec["template"]["spec"]["containers"]]
    assert images == ["registry:5000/new:2", "all:3", None]


def test_images_that_cannot_be_set_are_refused_before_any_change(stored: StandIn, bcs: Any) -> None:
    stored.on("GET", DEFINITION, with_containers(*PAIR))
    stored.on("GET", DEFINITION.replace("web", "plain"), ok({**STORED, "metadata": {"name": "plain"}}))
    for words, message in (
        (("app/web",), "then images"),
        (("c=new",), "give a workload"),
        (("app/web", "c="), "is not CONTAINER=IMAGE"),
        (("app/web", "own=new"), "no container 'own' with an image; known: c, side"),
        (("app/web", "app/plain", "*=new"), "application/plain has no container with an image"),
        (("tg/web-0", "c=new"), "have no document"),
    ):
        result = bcs("set", "image", *words)
        assert result.code in (2, 3) and message in result.err, result.err
    assert not stored.requests("PUT")


def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = tmp_path / "editor"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", str(program))


def test_an_edited_document_is_applied(
    stored: StandIn, bcs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(tmp_path, monkeypatch, 'sed -i "s/command: sleep/command: tail/" "$1"')
    assert bcs("edit", "app/web").code == 0
    assert sent(stored)["spec"]["template"]["spec"]["containers"][0]["command"] == "tail"
    editor(tmp_path, monkeypatch, "true")
    count = len(stored.requests("PUT"))
    assert bcs("edit", "app/web", "-o", "text").out == "application/web not changed\n"
    assert len(stored.requests("PUT")) == count


def test_a_refused_document_is_kept(stored: StandIn, bcs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored.on("PUT", APPS, failed(400, "$.spec.instance: must be a number", "invalid"))
    editor(tmp_path, monkeypatch, 'sed -i "s/sleep/many/" "$1"')
    result = bcs("edit", "app/web")
    assert result.code == 1 and "must be a number; the edited document is in " in result.err
    kept = Path(result.err.strip().rpartition(" ")[2])
    assert "many" in kept.read_text()
    kept.unlink()


def test_run_makes_an_application(stored: StandIn, bcs: Any) -> None:
    assert bcs("run", "registry:5000/team/nginx:1.2", "--instances", "2", "--port", "http:80").code == 0
    body = sent(stored, "POST")
    (container,) = body["spec"]["template"]["spec"]["containers"]
    assert (body["kind"], body["metadata"]["name"], body["spec"]["instance"]) == ("application", "nginx", 2)
    assert container["image"] == "registry:5000/team/nginx:1.2" and "command" not in container
    assert bcs("run", "--", "python3", "-m", "http.server", "--bind", "::").code == 0
    (container,) = sent(stored, "POST")["spec"]["template"]["spec"]["containers"]
    assert container["command"] == "python3" and container["args"] == ["-m", "http.server", "--bind", "::"]
    assert sent(stored, "POST")["metadata"]["name"] == "python3"
    assert bcs("run", "redis", "--name", "cache", "--", "redis-server").code == 0
    (container,) = sent(stored, "POST")["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["command"]) == ("redis", "redis-server")
    assert bcs("run").code == 2
    for wrong in (
        ("-t",), ("-it",), ("--rm",), ("-i", "--rm", "--detach"), ("-i", "--instances", "2"),
        ("-i", "--detach-keys", "ctrl-1"),
    ):  # fmt: skip
        assert bcs("run", *wrong, "nginx").code == 2, wrong
    open_input = json.loads(bcs("run", "-it", "nginx", "--dry-run", "-e", "TERM=dumb").out)
    assert open_input["restartPolicy"] == {"policy": "Never"}
    container = open_input["spec"]["template"]["spec"]["containers"][0]
    assert (container["stdin"], container["tty"]) == (True, True)
    assert container["env"] == [{"name": "TERM", "value": "dumb"}]
    shown = bcs("run", "nginx", "--dry-run")
    assert json.loads(shown.out)["metadata"]["name"] == "nginx"


def test_names_from_images_and_programs() -> None:
    assert name_from("registry:5000/team/My_App:1.2@sha256:abc") == "my-app"
    assert name_from("/usr/bin/python3") == "python3"
    with pytest.raises(UsageError, match="--name"):
        name_from("./7zip")
