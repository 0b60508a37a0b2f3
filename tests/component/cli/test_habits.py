"""Command lines that users know from kubectl, docker and nomad."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.cli.habits.commands import INSTEAD, rewritten
from bcs_scheduler.cli.habits.options import RUN
from bcs_scheduler.cli.main import COMMANDS
from tests.component.cli.standin import ACCEPTED, APPS, StandIn, application, ok, taskgroup


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
        result = bcs(word, "x")
        assert result.code == 2 and way.split("`")[0] in result.err.replace("\n", " "), word
    assert "bcs reschedule web-1" in bcs("delete", "pod", "web-1").err
    assert "bcs reschedule web-1" in bcs("delete", "pod/web-1").err
    assert "kubectl kustomize folder | bcs apply -f -" in bcs("apply", "-k", "folder").err


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
            assert refused.code == 2 and way.split("`")[1] in " ".join(refused.err.split()), name
    assert len(server.requests("POST")) == 1
