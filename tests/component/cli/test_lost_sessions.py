"""`bcs attach` when the session ends without an exit code: the record of the taskgroup has the code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bcs_scheduler.cli.client.client import Client
from bcs_scheduler.cli.client.session_line import STATUS, STDOUT, SessionLine
from bcs_scheduler.cli.commands.taskgroups import foreground
from tests.component.cli.standin import StandIn, ok, taskgroup

GROUP = taskgroup()["ID"]
PATH = f"/namespaces/defaultGroup/taskgroups/{GROUP}"
LOST = "the executor does not answer"

Loses = Callable[..., None]


class LostConnection:
    """Stands in for a WebSocket: gives these messages."""

    def __init__(self, *messages: bytes) -> None:
        self._messages = messages

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._messages)

    def send(self, message: str | bytes) -> None:
        """The messages of the client are not looked at."""

    def close(self) -> None:
        """The end has come before."""


@pytest.fixture
def loses(monkeypatch: pytest.MonkeyPatch) -> Loses:
    """Sessions print one line, and end with this reason or, if it is empty, in the middle."""

    def begin(reason: str) -> None:
        end = [bytes((STATUS,)) + json.dumps({"reason": reason, "message": LOST}).encode()] if reason else []
        connection: Any = LostConnection(bytes((STDOUT,)) + b"the last line\n", *end)
        monkeypatch.setattr(Client, "session", lambda *_, **__: SessionLine(connection, {}))

    begin("agent_error")
    return begin


def task(code: int | None, name: str = "main") -> dict[str, Any]:
    return {"ID": f"1.{name}", "Name": name, "Status": "Finish"} | ({} if code is None else {"ExitCode": code})


def ended(*tasks: dict[str, Any], status: str = "Failed") -> Any:
    return ok(taskgroup(Status=status, Taskgroup=list(tasks)))


@pytest.mark.parametrize(("recorded", "code"), [(0, 0), (3, 3), (-9, 137)])
def test_the_code_is_that_of_the_record(server: StandIn, bcs: Any, loses: Loses, recorded: int, code: int) -> None:
    server.on("GET", PATH, ok(taskgroup()), ended(task(recorded)))
    result = bcs("attach", GROUP)
    assert (result.code, result.out) == (code, "the last line\n")
    assert LOST in result.err


@pytest.mark.usefixtures("loses")
def test_the_record_is_read_until_the_taskgroup_has_ended(server: StandIn, bcs: Any) -> None:
    running = ok(taskgroup())
    server.on("GET", PATH, running, running, running, ended(task(4)))
    assert bcs("attach", GROUP).code == 4
    assert len([request for request in server.seen if request.path == PATH]) == 4


@pytest.mark.usefixtures("loses")
@pytest.mark.parametrize(("named", "code"), [("main", 4), ("log", 5), ("0", 4), ("1", 5)])
def test_the_code_is_that_of_the_task_that_was_named(server: StandIn, bcs: Any, named: str, code: int) -> None:
    server.on("GET", PATH, ok(taskgroup()), ended(task(4), task(5, "log")))
    assert bcs("attach", GROUP, "--task", named).code == code


@pytest.mark.usefixtures("loses")
@pytest.mark.parametrize(
    "tasks", [[task(4), task(5, "log")], [task(None)], []], ids=["one of several", "no code", "no task"]
)
def test_without_a_code_the_error_of_the_session_is_shown(server: StandIn, bcs: Any, tasks: Any) -> None:
    server.on("GET", PATH, ok(taskgroup()), ended(*tasks))
    result = bcs("attach", GROUP)
    assert result.code == 1
    assert f"error: {LOST}" in result.err


@pytest.mark.usefixtures("loses")
def test_a_taskgroup_that_runs_on_has_no_code(server: StandIn, bcs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreground, "END", 0.1)
    server.on("GET", PATH, ok(taskgroup()))
    result = bcs("attach", GROUP)
    assert result.code == 1
    assert f"error: {LOST}" in result.err
    assert "not done" not in result.err


@pytest.mark.parametrize(("reason", "code"), [("", 5), ("unavailable", 5), ("no_such_route", 1)])
def test_of_a_task_that_may_run_on_the_record_is_not_read(
    server: StandIn, bcs: Any, loses: Loses, reason: str, code: int
) -> None:
    loses(reason)
    server.on("GET", PATH, ok(taskgroup()), ended(task(0)))
    assert bcs("attach", GROUP).code == code
    assert len([request for request in server.seen if request.path == PATH]) == 1
