"""`--on-conflict`, superseded transactions, and workloads that are scaled to 0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.api.routes.applications import ON_CONFLICT
from bcs_scheduler.cli.main import bcs as program
from bcs_scheduler.cli.options import ON_CONFLICT as CHOICES
from tests.component.cli.standin import (
    ACCEPTED,
    APPS,
    DOCUMENT,
    MISSING,
    StandIn,
    application,
    failed,
    ok,
    transaction,
    write,
)

DEPLOYMENTS = "/namespaces/defaultGroup/deployments"
RUNNING = "/transactions/defaultGroup/application-1"
COMMANDS = ("apply", "update", "scale", "rollback", "edit", "patch", "label")
SENDING = ("apply", "update", "diff", "edit", "patch", "label", "run")


@pytest.mark.parametrize("how", CHOICES)
@pytest.mark.parametrize(
    "words", [("apply", "-f", "{file}"), ("update", "-f", "{file}"), ("scale", "app/web", "3"), ("rollback", "app/web")]
)
def test_the_flag_becomes_the_query_parameter(
    server: StandIn, bcs: Any, tmp_path: Path, words: tuple[str, ...], how: str
) -> None:
    server.on("GET", f"{APPS}/web", ok(application()))
    for path in (APPS, f"{APPS}/web/scale/3", f"{APPS}/web/rollback"):
        server.on("PUT", path, ok(ACCEPTED, 202))
    line = [word.format(file=write(tmp_path, DOCUMENT)) for word in words]
    assert bcs(*line, "--on-conflict", how).code == 0
    assert bcs(*line).code == 0
    assert [request.query.get("onConflict") for request in server.requests("PUT")] == [how, None]


def test_a_new_object_meets_no_operation(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("GET", f"{APPS}/web", MISSING)
    server.on("POST", APPS, ok(ACCEPTED, 202))
    assert bcs("apply", "-f", write(tmp_path, DOCUMENT), "--on-conflict", "fail").code == 0
    assert "onConflict" not in server.requests("POST")[0].query


def test_the_choices_are_those_of_the_api(bcs: Any) -> None:
    assert set(ON_CONFLICT.choices) == set(CHOICES)
    result = bcs("scale", "web", "3", "--on-conflict", "wait")
    assert result.code == 2 and all(choice in result.err for choice in CHOICES)


def test_a_refused_conflict_has_its_exit_code(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("PUT", APPS, failed(409, "application defaultGroup/web cannot be updated now", "conflict"))
    result = bcs("apply", "-f", write(tmp_path, DOCUMENT), "--on-conflict", "fail")
    assert result.code == 6 and "application/web: application defaultGroup/web cannot be updated now" in result.err


def test_a_wait_ends_when_another_operation_supersedes_the_transaction(
    server: StandIn, bcs: Any, tmp_path: Path
) -> None:
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("PUT", APPS, ok(ACCEPTED, 202))
    ended = transaction("SUPERSEDED", message="superseded by transaction application-2")
    server.on("GET", f"{APPS}/web/taskgroups", ok([]))
    server.on("GET", RUNNING, ok(transaction()), ok(ended))
    result = bcs("apply", "-f", write(tmp_path, DOCUMENT), "--wait", "--timeout", "60s")
    assert result.code == 6
    assert "transaction application-1 ended: superseded by transaction application-2" in result.err


def test_a_superseded_transaction_has_no_time_left(server: StandIn, bcs: Any) -> None:
    server.on("GET", "/transactions/defaultGroup", ok([transaction("SUPERSEDED", deadline="2999-01-01T00:00:00Z")]))
    words = ("-o", "custom-columns=STATUS:.status", "--no-headers")
    assert bcs("get", "tx", *words).out == "SUPERSEDED\n"
    titles, row = bcs("get", "tx", "-o", "table").out.splitlines()
    assert "superseded" in row
    left = titles.index("LEFT") + len("LEFT")
    assert row[:left].endswith(" -")


@pytest.mark.parametrize("name", ["app/web", "deploy/web"])
def test_a_workload_can_be_scaled_to_0(server: StandIn, bcs: Any, name: str) -> None:
    server.on("PUT", f"{APPS}/web/scale/0", ok(ACCEPTED, 202))
    server.on("PUT", f"{DEPLOYMENTS}/web/scale/0", ok(ACCEPTED, 202))
    assert bcs("scale", name, "0", "-o", "text").out.endswith("/web scaled to 0 (transaction application-1)\n")


def test_a_wait_for_0_taskgroups_ends_when_none_is_left(server: StandIn, bcs: Any) -> None:
    server.on("PUT", f"{APPS}/web/scale/0", ok(ACCEPTED, 202))
    server.on("GET", RUNNING, ok(transaction()), ok(transaction("FINISH")))
    stopped = application(wanted=0, running=0, Status="Stopped")
    server.on("GET", f"{APPS}/web", ok({**stopped, "Instances": 2, "Status": "Operating"}), ok(stopped))
    server.on("GET", f"{APPS}/web/taskgroups", ok([]))
    result = bcs("scale", "app/web", "0", "--wait", "--stable", "60s", "--timeout", "60s", "-o", "text")
    assert result.out.splitlines()[-1] == "application/web stopped", result.err


def test_a_workload_can_be_created_with_0(server: StandIn, bcs: Any) -> None:
    server.on("POST", APPS, ok(ACCEPTED, 202))
    assert bcs("run", "nginx", "--instances", "0").code == 0
    assert server.requests("POST")[0].body["spec"]["instance"] == 0


def options_of(*names: str) -> set[str]:
    command: Any = program
    for name in names:
        command = command.commands[name]
    return {option for parameter in command.params for option in parameter.opts}


def test_every_command_that_changes_workloads_has_the_flag() -> None:
    commands = [*((name,) for name in COMMANDS), ("rollout", "undo")]
    assert [names for names in commands if "--on-conflict" not in options_of(*names)] == []


def test_every_command_that_sends_a_document_has_validate() -> None:
    created: Any = program
    made = [("create", name) for name in created.commands["create"].commands]
    assert len(made) == 8
    assert [names for names in [*((name,) for name in SENDING), *made] if "--validate" not in options_of(*names)] == []


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (
            {"superseded": ["application-1700000000000123456", "application-1700000000000456789"]},
            "application/web scaled to 4 (transaction application-1, superseded 123456, 456789)",
        ),
        (
            {"superseded": ["application-1700000000001456789", "application-1700000000002456789"]},
            "application/web scaled to 4 (transaction application-1, superseded 1456789, 2456789)",
        ),
        (
            {"queuePosition": 2, "queuedBehind": "application-1700000000000456789"},
            "application/web queued behind 456789 (transaction application-1)",
        ),
        ({"queuePosition": 1}, "application/web queued at position 1 (transaction application-1)"),
        ({}, "application/web scaled to 4 (transaction application-1)"),
    ],
)
def test_what_gave_way_and_what_is_waited_for_is_named(server: StandIn, bcs: Any, more: Any, line: str) -> None:
    server.on("PUT", f"{APPS}/web/scale/4", ok({**ACCEPTED, **more}, 202))
    assert bcs("scale", "app/web", "4", "-o", "text").out == f"{line}\n"
    (reported,) = json.loads(bcs("scale", "app/web", "4", "-o", "json").out)
    assert {key: reported[key] for key in ("superseded", "queuePosition", "queuedBehind") if key in reported} == more
