"""Command lines that users know from kubectl, docker and nomad."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.cli.habits.commands import INSTEAD, rewritten
from bcs_scheduler.cli.habits.kinds import KINDS
from bcs_scheduler.cli.habits.options import RUN
from bcs_scheduler.cli.kinds.base import ALIASES
from bcs_scheduler.cli.kinds.registry import COLUMNS, DELETABLE
from bcs_scheduler.cli.main import COMMANDS
from tests.component.cli.standin import ACCEPTED, APPS, StandIn, application, ok, taskgroup, write


@pytest.fixture(autouse=True)
def tables(bcs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BCS_OUTPUT", raising=False)


@pytest.mark.parametrize(
    "words",
    [
        ("scale", "app/web", "3"),
        ("scale", "app", "web", "3"),
        ("scale", "app/web", "--replicas=3"),
        ("scale", "--replicas=3", "application", "web"),
    ],
)
def test_the_name_may_be_two_words_and_the_number_an_option(server: StandIn, bcs: Any, words: tuple[str, ...]) -> None:
    server.on("PUT", f"{APPS}/web/scale/3", ok(ACCEPTED))
    server.on("GET", f"{APPS}/web", ok(application()))
    assert bcs(*words).out.startswith("application/web scaled to 3")


def test_what_is_no_name_is_refused(bcs: Any) -> None:
    for words in (
        ("scale", "app/web"),
        ("scale", "web", "many"),
        ("rollout", "status", "a", "b"),
        ("explain", "a", "b"),
    ):
        assert bcs(*words).code == 2, words


def test_dry_run_takes_the_values_of_kubectl() -> None:
    assert rewritten(["apply", "--dry-run=client", "-f", "x"]) == ["apply", "--dry-run", "-f", "x"]
    assert rewritten(["apply", "--dry-run=server", "--dry-run=none"]) == ["apply", "--dry-run"]
    assert rewritten(["exec", "web-0", "--", "x", "--dry-run=none"]) == ["exec", "web-0", "--", "x", "--dry-run=none"]


def test_commands_of_others_are_answered_with_the_way_here(bcs: Any) -> None:
    known = {name for section in COMMANDS.values() for name in section}
    assert not known & set(INSTEAD)
    for word, way in INSTEAD.items():
        result = bcs(*word.split(), "x")
        assert result.code == 2 and way.split("`")[0] in result.err.replace("\n", " "), word
    assert "bcs reschedule web-1" in bcs("delete", "pod", "web-1").err
    assert "bcs reschedule web-1" in bcs("delete", "pod/web-1").err
    assert "kubectl kustomize folder | bcs apply -f -" in bcs("apply", "-k", "folder").err


WORDS = sorted(word for words in KINDS for word in words)


@pytest.mark.parametrize("word", ["jobs", "cronjobs", "hpa", "ingress", "rs", "sts", "pvc", "roles", "crd"])
def test_kinds_of_others_are_answered_in_one_sentence(server: StandIn, bcs: Any, tmp_path: Path, word: str) -> None:
    server.on("GET", "/crr", ok([]))
    document = write(tmp_path, {"kind": word.capitalize(), "metadata": {"name": "x"}})
    for command in (
        ("get", word),
        ("get", f"{word}.batch/x"),
        ("get", f"deployments,{word}"),
        ("describe", word, "x"),
        ("delete", word, "x"),
        ("delete", f"{word}/x"),
        ("logs", f"{word}/x"),
        ("wait", f"{word}/x", "--for=condition=complete"),
        ("wait", word, "x"),
        ("rollout", "restart", word, "x"),
        ("scale", word, "x", "--replicas=3"),
        ("set", "image", f"{word}/x", "c=i"),
        ("top", word),
        ("events", "--for", f"{word}/x"),
        ("apply", "-f", document),
    ):
        result = bcs(*command)
        assert result.code == 2 and not result.out, command
        assert re.search(rf"there is no kind '{word}(\.batch)?': \S", result.err, re.IGNORECASE), result.err
    assert not [request for request in server.seen if request.method != "GET"]


def test_no_kind_is_known_and_answered() -> None:
    assert not set(WORDS) & {*ALIASES, *COLUMNS, *DELETABLE}
    assert len(WORDS) == len(set(WORDS))


def test_a_registered_kind_wins_over_the_answer(server: StandIn, bcs: Any) -> None:
    server.on("GET", "/crr", ok([{"spec": {"names": {"kind": "Ingress"}}}]))
    server.on("GET", "/crd/namespaces/defaultGroup/Ingress", ok([]))
    assert bcs("get", "ingress", "-o", "json").out == "[]\n"


def test_wait_takes_the_conditions_of_kubectl(server: StandIn, bcs: Any) -> None:
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("GET", f"{APPS}/web/taskgroups", ok([taskgroup()]))
    assert bcs("wait", "--for=condition=Available", "app", "web").out == "application/web running\n"
    result = bcs("wait", "--for=condition=Progressing", "app/web")
    assert result.code == 2 and "known are running, finished, deleted" in result.err


def test_run_takes_name_and_image_as_kubectl(server: StandIn, bcs: Any) -> None:
    server.on("POST", APPS, ok(ACCEPTED))
    result = bcs("run", "front", "--image=nginx:1", "--replicas=2")
    assert result.out.startswith("application/front created"), result.err
    sent = server.requests("POST")[0].body
    assert sent["spec"]["instance"] == 2
    assert sent["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:1"


def test_run_takes_options_of_docker_or_names_the_way(server: StandIn, bcs: Any) -> None:
    server.on("POST", APPS, ok(ACCEPTED))
    result = bcs(
        "run", "-d", "--name", "front", "--cpus", "2", "-m", "128", "-e", "A=b", "nginx", "--", "sh", "-p", "1"
    )
    assert result.out.startswith("application/front created"), result.err
    (container,) = server.requests("POST")[0].body["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "128"}
    assert container["args"] == ["-p", "1"]
    for names, way in RUN.items():
        for name in names:
            refused = bcs("run", name, "80:80", "nginx")
            said = " ".join(refused.err.split())
            assert refused.code == 2 and way.split("`")[1] in said and f"{name} is not an option of `bcs run`" in said
    refused = bcs("create", "service", "externalname", "s2", "--external-name", "x.y")
    assert "--external-name is not an option of `bcs create service`" in refused.err
    assert len(server.requests("POST")) == 1
