"""Commands that reach into running taskgroups: exec, signal, cp, restart, logs; and the configuration they take in."""

from __future__ import annotations

import io
import json
import re
import time
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest

from tests.component.cli.standin import (
    APPS,
    MISSING,
    Answer,
    Request,
    StandIn,
    application,
    failed,
    ok,
    taskgroup,
    write,
)

COMMAND = "/command/application/defaultGroup/web"
TOLD = {"commandID": "Application-defaultGroup-web-17", "messages": [{"taskgroup": "g", "status": "staging"}]}
GROUP = str(taskgroup(0)["ID"])


def task_of(index: int) -> str:
    return str(taskgroup(index)["Taskgroup"][0]["ID"])


def group_of(index: int, name: str = "server") -> dict[str, Any]:
    group = taskgroup(index)
    return {**group, "Taskgroup": [{**group["Taskgroup"][0], "Name": name}]}


def outcome(index: int, status: str = "success", *, message: str = "", **output: Any) -> dict[str, Any]:
    """What became of a command in one taskgroup."""
    inspect = {"exitCode": 0, "stdout": "", "stderr": "", "truncated": False, **output} if output else None
    ended = {"success": "finish"}.get(status, status)
    task = {"taskId": task_of(index), "status": ended, "message": message, "commInspect": inspect}
    return {
        "taskgroupId": taskgroup(index)["ID"],
        "tasks": [task],
        "messageId": str(index),
        "status": status,
        "message": message,
    }


def record(*groups: dict[str, Any], **changes: Any) -> Answer:
    open_ones = any(group["status"] in ("staging", "running") for group in groups)
    base = {
        "id": TOLD["commandID"],
        "type": "command",
        "state": "running" if open_ones else "success",
        "createTime": 1700000000,
        "deadline": 1700000120,
        "keepUntil": 1700003600,
        "spec": {"command": ["ls"], "commandTargetRef": {"namespace": "defaultGroup", "name": "web"}},
        "body": {},
        "status": {"taskgroups": list(groups)},
    }
    return ok({**base, **changes})


@pytest.fixture
def web(server: StandIn) -> StandIn:
    """Application `web` with two taskgroups."""
    groups = [group_of(0), group_of(1)]
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("GET", f"{APPS}/web/taskgroups", ok(groups))
    for group in groups:
        server.on("GET", f"/namespaces/defaultGroup/taskgroups/{group['ID']}", ok(group))
    server.on("POST", COMMAND, ok(TOLD))
    return server


# --- exec ----------------------------------------------------------------------------------------------------------


def test_exec_in_one_taskgroup_is_like_the_command_itself(web: StandIn, bcs: Any) -> None:
    waiting = outcome(0, "running")
    web.on("GET", COMMAND, record(waiting), record(outcome(0, exitCode=3, stdout="out", stderr="err\n")))
    result = bcs("exec", "web-0", "-e", "A=1", "-u", "nobody", "-w", "/tmp", "--", "ls", "-l")
    assert result == (3, "out", "err\n")
    spec = web.requests("POST")[0].body["spec"]
    assert spec["taskgroups"] == [GROUP]
    assert (spec["command"], spec["env"], spec["user"], spec["workingDir"]) == (["ls", "-l"], ["A=1"], "nobody", "/tmp")
    assert spec["commandTargetRef"]["name"] == "web"


def test_exec_by_id_and_a_signal_as_shells_give_it(web: StandIn, bcs: Any) -> None:
    web.on("GET", COMMAND, record(outcome(0, exitCode=-9)))
    assert bcs("exec", GROUP, "--", "sleep", "9").code == 137


def test_exec_in_several_names_them_and_fails_if_one_does(web: StandIn, bcs: Any) -> None:
    web.on("GET", COMMAND, record(outcome(0, exitCode=0, stdout="a\nb\n"), outcome(1, exitCode=2, stderr="oh\n")))
    result = bcs("exec", "web", "--", "ls")
    assert result.code == 1
    assert result.out == "web-0 | a\nweb-0 | b\n"
    assert result.err == "web-1 | oh\nweb-1 | exit code 2\n"
    assert web.requests("POST")[0].body["spec"]["taskgroups"] == []


def test_exec_says_what_could_not_be_run(web: StandIn, bcs: Any) -> None:
    web.on("GET", COMMAND, record(outcome(0, "failed", message="no such program")))
    result = bcs("exec", "web-0", "--", "nothing")
    assert result == (1, "", "no such program\n")
    web.on("GET", COMMAND, record(outcome(0, exitCode=0, stdout="x", truncated=True)))
    assert bcs("exec", "web-0", "--", "yes") == (
        0,
        "x",
        "the output was truncated; write it to a file, and fetch the file with bcs cp\n",
    )


def test_exec_as_data(web: StandIn, bcs: Any) -> None:
    web.on("GET", COMMAND, record(outcome(0, exitCode=0, stdout="a"), outcome(1, exitCode=5)))
    result = bcs("exec", "web", "-o", "json", "--", "ls")
    found = json.loads(result.out)
    assert result.code == 1
    assert [(item["taskgroup"], item["exitCode"], item["stdout"]) for item in found] == [
        (taskgroup(0)["ID"], 0, "a"),
        (taskgroup(1)["ID"], 5, ""),
    ]


def test_exec_gives_up_waiting(web: StandIn, bcs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bcs_scheduler.cli.commands.taskgroups.execute.ANSWER", 0.0)
    web.on("GET", COMMAND, record(outcome(0, "running")))
    result = bcs("exec", "web-0", "--timeout", "10ms", "--", "sleep", "9")
    assert result.code == 4
    assert "0 of 1 taskgroup answered" in result.err
    assert web.requests("POST")[0].body["spec"]["timeout"] == 0.01


def test_only_what_runs_is_asked(web: StandIn, bcs: Any) -> None:
    web.on("GET", f"{APPS}/web/taskgroups", ok([group_of(0), {**group_of(1), "Status": "Failed"}]))
    web.on("GET", COMMAND, record(outcome(0, exitCode=0)))
    assert bcs("exec", "web", "--", "ls").code == 0
    assert web.requests("POST")[0].body["spec"]["taskgroups"] == [GROUP]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("exec", "web-0"), 2),
        (("exec", "web-0", "-e", "A", "--", "ls"), 2),
        (("exec", "web-7", "--", "ls"), 3),
        (("signal", "web-0", "NOTHING"), 2),
        (("signal", "web-0", "65"), 2),
        (("env", "web", "A"), 2),
        (("cp", "a", "b"), 2),
        (("cp", "web-0:a", "web-1:b"), 2),
        (("cp", "-", "web-0:"), 2),
        (("cp", "web:x", "y"), 2),
        (("commit", "web", "demo", "demo:2"), 2),
        (("logs", "web-0", "--stderr", "--file", "x"), 2),
        (("logs", "web-0", "--tail", "1", "--rotated"), 2),
        (("logs", "web-0", "--executor", "--timestamps"), 2),
        (("logs", "web-0", "--file", "x", "--since", "1m"), 2),
        (("create", "secret", "s"), 2),
        (("create", "secret", "s", "--from-literal", "=x"), 2),
        (("create", "secret", "s", "--from-literal", "a=1", "--from-literal", "a=2"), 2),
        (("get", "commands"), 2),
    ],
)
def test_wrong_calls(
    web: StandIn, bcs: Any, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int
) -> None:
    web.on("GET", f"{APPS}/web-7", MISSING)
    web.on("GET", f"{APPS}/web-0", MISSING)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x")))
    assert bcs(*arguments).code == code
    assert web.requests("POST") == []


# --- messages ------------------------------------------------------------------------------------------------------


def test_signal_by_name_and_number(web: StandIn, bcs: Any) -> None:
    web.on("POST", f"{APPS}/web/taskgroups/{GROUP}/message", ok(TOLD))
    web.on("POST", f"{APPS}/web/message", ok(TOLD))
    web.on("GET", COMMAND, record(outcome(0)))
    assert bcs("signal", "web-0", "hup", "-o", "text").out == "taskgroup/web-0 signalled with SIGHUP\n"
    assert bcs("signal", "web", "10", "--process", "worker").code == 0
    sent = [request.body["msgdata"] for request in web.requests("POST")]
    assert sent == [{"signal": 1, "processname": ""}, {"signal": 10, "processname": "worker"}]


def test_a_message_that_failed_somewhere(web: StandIn, bcs: Any) -> None:
    web.on("POST", f"{APPS}/web/message", ok(TOLD))
    web.on("GET", COMMAND, record(outcome(0), outcome(1, "failed", message="no such process")))
    result = bcs("signal", "web", "TERM")
    assert result.code == 1
    assert result.err.splitlines()[1:] == ["  web-1: no such process"]


def test_restart_reload_env_and_commit(web: StandIn, bcs: Any) -> None:
    web.on("GET", COMMAND, record(outcome(0)))
    web.on("POST", f"{APPS}/web/taskgroups/{GROUP}/restart", ok(TOLD))
    web.on("POST", "/apps/defaultGroup/web/message", ok(TOLD))
    web.on("POST", f"{APPS}/web/message", ok(TOLD))
    web.on("POST", f"/image/commit/{GROUP}", ok(TOLD))
    assert bcs("restart", "web-0", "-o", "text").out == "taskgroup/web-0 restarted\n"
    assert bcs("reload", "web", "-o", "text").out == "application/web reloaded\n"
    shown = bcs("env", "web", "TOKEN=geheim")
    assert shown.code == 0
    assert "geheim" not in shown.out + shown.err
    assert bcs("commit", "web-0", "demo:1", "demo:2").code == 0
    restart, reload, env, commit = web.requests("POST")
    assert restart.body is None
    assert reload.body == {"Type": 10}
    assert env.body == {"msgtype": "env-key", "msgdata": {"env-key": "TOKEN", "env-value": "geheim"}}
    assert commit.query == {"image": "demo:1", "url": "demo:2"}


def test_telling_without_waiting(web: StandIn, bcs: Any) -> None:
    web.on("POST", f"{APPS}/web/message", ok(TOLD))
    changes = json.loads(bcs("signal", "web", "HUP", "--no-wait").out)
    assert changes == [{"kind": "application", "name": "web", "done": "sent", "command": TOLD["commandID"]}]
    assert not [request for request in web.seen if request.path == COMMAND]


# --- cp ------------------------------------------------------------------------------------------------------------


def test_cp_into_a_taskgroup_takes_content_and_rights(web: StandIn, bcs: Any, tmp_path: Path) -> None:
    web.on("POST", f"{APPS}/web/taskgroups/{GROUP}/message", ok(TOLD))
    web.on("GET", COMMAND, record(outcome(0)))
    script = tmp_path / "run.sh"
    script.write_bytes(b"#!/bin/sh\n\xff")
    script.chmod(0o750)
    result = bcs("cp", str(script), "web-0:bin/", "--owner", "nobody", "-o", "text")
    assert result == (0, "taskgroup/web-0 bin/run.sh written\n", "")
    data = web.requests("POST")[0].body["msgdata"]
    assert (data["to"], data["mode"], data["user"]) == ("bin/run.sh", 0o750, "nobody")
    assert b64decode(data["ctx"]) == b"#!/bin/sh\n\xff"


def test_cp_of_what_is_too_big_for_a_message_needs_sessions(web: StandIn, bcs: Any, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(200 * 1024 + 1))
    for source in (tmp_path, tmp_path / "big"):
        result = bcs("cp", str(source), "web-0:big")
        assert result.code == 1
        assert "does not offer sessions" in result.err
        assert bcs("cp", str(source), "web-0:big", "--owner", "nobody").code == 2
    assert web.requests("POST") == []


def test_cp_out_of_a_sandbox(web: StandIn, bcs: Any, tmp_path: Path) -> None:
    content = bytes(range(256)) * 1000
    web.on("GET", f"/taskgroup/{GROUP}/file", Answer(200, content))
    assert bcs("cp", "web-0:out/core", str(tmp_path), "-o", "text").out == "file/core written (256000 bytes)\n"
    assert (tmp_path / "core").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["core"]
    request = next(request for request in web.seen if request.path.endswith("/file"))
    assert request.query == {"path": "out/core"}


def test_cp_of_what_is_not_there_leaves_nothing(web: StandIn, bcs: Any, tmp_path: Path) -> None:
    web.on("GET", f"/taskgroup/{GROUP}/file", failed(404, "core does not exist on agent", "not_found"))
    assert bcs("cp", "web-0:core", str(tmp_path / "x")).code == 3
    assert list(tmp_path.iterdir()) == []


# --- logs ----------------------------------------------------------------------------------------------------------


def log_of(web: StandIn, index: int, stdout: bytes, stderr: bytes = b"", **others: bytes) -> None:
    """What one taskgroup has written, as the server answers."""
    group = taskgroup(index)["ID"]
    contents = {"stdout": stdout, "stderr": stderr, **others}

    def rule(request: Request) -> Answer | None:
        if request.path == f"/taskgroup/{group}/files":
            return ok([{"path": name, "size": len(data), "modified": 1.0} for name, data in contents.items()])
        if request.path != f"/taskgroup/{group}/logs":
            return None
        content = contents[request.query["file"]]
        offset = int(request.query.get("offset", 0))
        data = content[offset:]
        if "tail" in request.query:
            data = b"".join(content.splitlines(keepends=True)[-int(request.query["tail"]) :])
            offset = len(content) - len(data)
        text = b64encode(data).decode()
        return ok({"data": text, "offset": offset, "next": len(content), "size": len(content)})

    web.rules.insert(0, rule)


def test_logs_of_one_taskgroup_come_as_they_are(web: StandIn, bcs: Any) -> None:
    log_of(web, 0, "one\ntwo\ngrün".encode(), b"trouble\n")
    assert bcs("logs", "web-0", "--stdout") == (0, "one\ntwo\ngrün", "")
    assert bcs("logs", "web-0", "--stdout", "--tail", "1").out == "grün"
    assert bcs("logs", GROUP, "--stderr").out == "trouble\n"
    missing = bcs("logs", "web-0", "--file", "app.log")
    assert (missing.code, missing.out) == (3, "")


def test_streams_without_a_known_order_come_one_after_the_other(web: StandIn, bcs: Any) -> None:
    log_of(web, 0, b"one\nunfinished", b"trouble\n")
    log_of(web, 1, b"three\n")
    note = "web-0 | order and times are not known: the executor of this task does not record them;"
    note += " standard output comes first\n"
    assert bcs("logs", "web-0") == (0, "one\nunfinished\nstderr | trouble\n", note)
    assert bcs("logs", "web-1") == (0, "three\n", "")
    for option in (("--timestamps",), ("--since", "10m")):
        refused = bcs("logs", "web-0", *option)
        assert (refused.code, refused.out) == (1, "") and "does not record times" in refused.err


def ordered(web: StandIn, index: int, *pages: list[tuple[float, str, bytes]]) -> list[Request]:
    """What the server answers for one taskgroup whose executor records the order; returns what was asked."""
    asked: list[Request] = []

    def rule(request: Request) -> Answer | None:
        if request.path != f"/taskgroup/{taskgroup(index)['ID']}/output":
            return None
        asked.append(request)
        at = int(request.query.get("after", "0"))
        page = pages[at] if at < len(pages) else []
        entries = [{"time": time, "stream": stream, "data": b64encode(data).decode()} for time, stream, data in page]
        following = min(at + 1, len(pages))
        answer = {"entries": entries, "next": str(following), "end": following == len(pages)}
        return ok({"ordered": True, "lost": False, **answer})

    web.rules.insert(0, rule)
    return asked


def test_both_streams_come_in_order_and_marked(web: StandIn, bcs: Any) -> None:
    first = [(1.5, "stdout", b"a\nbe"), (2.0, "stderr", b"oh\n"), (3.0, "stdout", b"gin\n")]
    asked = ordered(web, 0, first, [(4.0, "stderr", b"end")])
    assert bcs("logs", "web-0") == (0, "a\nstderr | oh\nbegin\nstderr | end\n", "")
    assert [request.query.get("after") for request in asked] == [None, "1"]
    ordered(web, 1, [(1.0, "stdout", b"other\n")])
    result = bcs("logs", "web", "--timestamps")
    assert result.out.splitlines() == [
        "web-0 | 1970-01-01T00:00:01.500000Z a",
        "web-0 stderr | 1970-01-01T00:00:02.000000Z oh",
        "web-0 | 1970-01-01T00:00:01.500000Z begin",
        "web-0 stderr | 1970-01-01T00:00:04.000000Z end",
        "web-1 | 1970-01-01T00:00:01.000000Z other",
    ]


def test_what_is_asked_of_the_server(web: StandIn, bcs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ordered(web, 0, [(1.0, "stderr", b"no newline")])
    monkeypatch.setattr("bcs_scheduler.cli.commands.reading.logs.time.time", lambda: 1000.0)
    assert bcs("logs", "web-0", "--stderr", "--tail", "3", "--since", "1m30s").out == "no newline"
    query = asked[-1].query
    assert (query["stream"], query["tail"], float(query["since"])) == ("stderr", "3", 910.0)
    bcs("logs", "web-0", "--since", "1970-01-01T01:00:00+01:00", "--rotated")
    query = asked[-1].query
    assert (query.get("stream"), query["rotated"], float(query["since"])) == (None, "true", 0.0)
    refused = bcs("logs", "web-0", "--since", "yesterday")
    assert refused.code == 2 and "neither a duration" in refused.err


def test_standard_error_is_red_on_a_terminal(web: StandIn, bcs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ordered(web, 0, [(1.0, "stdout", b"a\n"), (1.0, "stderr", b"b\n")])
    monkeypatch.setattr("bcs_scheduler.cli.commands.reading.lines.sys.stdout.isatty", lambda: True)
    assert bcs("logs", "web-0").out == "a\n\x1b[31mstderr | b\x1b[0m\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert bcs("logs", "web-0").out == "a\nstderr | b\n"


def test_following_goes_on_where_it_was(web: StandIn, bcs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bcs_scheduler.cli.commands.reading.logs.PAUSE", 0.01)
    monkeypatch.setattr("bcs_scheduler.cli.commands.reading.logs.LISTING", 0.0)
    pages = [[(1.0, "stdout", b"first ")]]
    asked = ordered(web, 0, *pages)
    path = f"/namespaces/defaultGroup/taskgroups/{GROUP}"

    def ends(request: Request) -> Answer | None:
        if request.path == path:
            ordered(web, 0, *pages, [(2.0, "stderr", b"oh\n"), (2.0, "stdout", b"line\n")])
            return ok({**group_of(0), "Status": "Finish"})
        return None

    web.rules.insert(0, ends)
    assert bcs("logs", "web-0", "-f") == (0, "stderr | oh\nfirst line\n", "")
    assert len(asked) == 1


def test_following_waits_for_the_start_of_the_task(web: StandIn, bcs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bcs_scheduler.cli.commands.reading.logs.PAUSE", 0.01)
    monkeypatch.setattr("bcs_scheduler.cli.commands.reading.logs.LISTING", 0.0)
    words = "task server of web-0 has not started: the status is Staging"
    refusals: list[str] = []
    statuses = ["Staging", "Staging", "Finish"]

    def starting(request: Request) -> Answer | None:
        if request.path == f"/namespaces/defaultGroup/taskgroups/{GROUP}":
            return ok({**group_of(0), "Status": statuses.pop(0)})
        if request.path.startswith(f"/taskgroup/{GROUP}/") and (len(statuses) > 1 or not refusals):
            refusals.append(request.path)
            return failed(409, words, "not_started")
        return None

    ordered(web, 0, [(1.0, "stdout", b"all\n")])
    web.rules.insert(0, starting)
    assert bcs("logs", "web-0") == (6, "", f"error: {words}\n")
    refusals.clear()
    assert bcs("logs", "web-0", "-f", "--rotated") == (0, "all\n", "")
    assert len(refusals) > 1


def test_a_task_that_ends_before_its_start_is_an_error_with_follow(
    web: StandIn, bcs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bcs_scheduler.cli.commands.reading.logs.PAUSE", 0.01)
    monkeypatch.setattr("bcs_scheduler.cli.commands.reading.logs.LISTING", 0.0)
    ended: list[bool] = []

    def lost(request: Request) -> Answer | None:
        if request.path == f"/namespaces/defaultGroup/taskgroups/{GROUP}":
            ended.append(True)
            return ok({**group_of(0), "Status": "Lost"})
        if not request.path.startswith(f"/taskgroup/{GROUP}/"):
            return None
        if ended:
            return failed(404, "the sandbox does not exist on agent 10.0.0.1:5051 (any more)", "not_found")
        return failed(409, "the task has not started", "not_started")

    web.rules.insert(0, lost)
    result = bcs("logs", "web-0", "-f")
    assert (result.code, result.out) == (3, "")
    assert "the sandbox does not exist on agent 10.0.0.1:5051" in result.err


def failed_output(web: StandIn, *outputs: tuple[int, str, str], ordered: bool = True, application: str = "web") -> None:
    """(index, task, taskgroup) of what is kept, newest first; each says its task."""
    place = {"name": "server", "number": 0, "application": application, "deployment": "web", "time": 1.0}
    kept = [{"id": task, "taskgroup": group, "index": index, **place} for index, task, group in outputs]

    def rule(request: Request) -> Answer | None:
        base = "/namespaces/defaultGroup/outputs"
        if request.path == base:
            fields = ("taskgroup", "application", "deployment")
            return ok([output for output in kept if all(request.query.get(f, output[f]) == output[f] for f in fields)])
        if not request.path.startswith(base):
            return None
        data = b64encode(f"{request.path.rpartition('/')[2]}\n".encode()).decode()
        streams = [request.query["stream"]] if "stream" in request.query else ["stdout", "stderr"]
        entries = [{"time": float(ordered), "stream": stream, "data": data} for stream in streams]
        return ok({"ordered": ordered, "entries": entries, "next": "", "end": True, "lost": False})

    web.rules.insert(0, rule)


def test_the_previous_taskgroup_that_failed(web: StandIn, bcs: Any) -> None:
    failed_output(web, (0, "newer", "0.web.old.2"), (1, "other", "1.web.old"), (0, "older", "0.web.old.1"))
    assert bcs("logs", "web-0", "--previous") == (0, "newer\nstderr | newer\n", "")
    result = bcs("logs", "web", "--previous", "--timestamps")
    assert result.out.splitlines() == [
        "web-0 | 1970-01-01T00:00:01.000000Z newer",
        "web-0 stderr | 1970-01-01T00:00:01.000000Z newer",
        "web-1 | 1970-01-01T00:00:01.000000Z other",
        "web-1 stderr | 1970-01-01T00:00:01.000000Z other",
    ]
    assert bcs("logs", "web-0", "--previous", "-f").code == 2


def test_between_two_tries_the_output_of_the_try_before_is_printed(
    web: StandIn, bcs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kubectl does for a program that fails again and again."""
    words = "task server of web-0 has not started: the status is Staging"

    def starting(request: Request) -> Answer | None:
        return failed(409, words, "not_started") if request.path.startswith(f"/taskgroup/{GROUP}/") else None

    web.rules.insert(0, starting)
    assert bcs("logs", "web-0").code == 6, "no try before"
    failed_output(web, (1, "other", "1.web.old"), (0, "newer", "0.web.old.2"), (0, "older", "0.web.old.1"))
    note = f"web-0 | {words}; this is the last output of the try before\n"
    assert bcs("logs", "web-0") == (0, "newer\nstderr | newer\n", note)
    assert bcs("logs", "web-0", "--stdout") == (0, "newer\n", note)
    assert bcs("logs", "web-0", "--file", "x").code == 6


def test_the_output_of_a_taskgroup_that_waits_for_its_restart_says_so(web: StandIn, bcs: Any) -> None:
    waiting = {**group_of(0), "Status": "Failed", "Message": "exit code 3", "NextStart": int(time.time()) + 90}
    ordered(web, 0, [(1.0, "stdout", b"all\n")])
    web.rules.insert(0, lambda r: ok(waiting) if r.path == f"/namespaces/defaultGroup/taskgroups/{GROUP}" else None)
    web.rules.insert(
        0, lambda r: ok([waiting]) if r.path == "/namespaces/defaultGroup/applications/web/taskgroups" else None
    )
    result = bcs("logs", "web-0")
    assert (result.code, result.out) == (0, "all\n")
    assert re.fullmatch(
        r"web-0 \| exit code 3, starts again in 1m[\d]+s; this is the last output of the try before\n", result.err
    )


def test_an_evicted_taskgroup_says_for_whom(web: StandIn, bcs: Any) -> None:
    words = "evicted for default/high (queue online)"
    gone = {**group_of(0), "Status": "Killed", "Message": "killed", "EndCause": "Evicted", "KillReason": words}
    web.rules.insert(0, lambda r: ok([gone]) if r.path == "/namespaces/defaultGroup/taskgroups" else None)
    web.rules.insert(
        0, lambda r: ok([gone]) if r.path == "/namespaces/defaultGroup/applications/web/taskgroups" else None
    )
    assert words in bcs("get", "tg", "web", "-o", "table").out
    assert words in bcs("describe", "tg", "web-0", "-o", "table").out


def test_the_previous_taskgroups_of_a_deployment_have_those_of_removed_sides(web: StandIn, bcs: Any) -> None:
    failed_output(web, (0, "newest", "0.web-v2.old.3"), (1, "older", "1.web-v2.old.2"), application="web-v2")
    web.on("GET", "/namespaces/defaultGroup/deployments/web/taskgroups", ok([taskgroup(0)]))
    result = bcs("logs", "deploy/web", "--previous", "--stdout")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == ["web-v2-0 | newest", "web-v2-1 | older"]


def test_the_previous_taskgroup_without_order_and_times(web: StandIn, bcs: Any) -> None:
    failed_output(web, (0, "newer", "0.web.old.2"), ordered=False)
    result = bcs("logs", "web-0", "--previous")
    assert (result.code, result.out) == (0, "newer\nstderr | newer\n")
    assert "order and times are not known" in result.err
    assert bcs("logs", "web-0", "--previous", "--stderr").err == ""
    for option in (("--timestamps",), ("--since", "1h")):
        refused = bcs("logs", "web-0", "--previous", *option)
        assert (refused.code, refused.out) == (1, "") and "does not record times" in refused.err


def test_no_previous_taskgroup_is_known(web: StandIn, bcs: Any) -> None:
    failed_output(web, (0, "present", GROUP))
    missing = bcs("logs", "web-0", "--previous")
    assert (missing.code, missing.out) == (3, "") and "no output of a previous taskgroup" in missing.err


def test_what_was_kept_takes_the_place_of_a_sandbox_that_is_gone(web: StandIn, bcs: Any) -> None:
    failed_output(web, (0, task_of(0), GROUP))
    web.on("GET", f"/taskgroup/{GROUP}/output", failed(502, "agent 10.0.0.1:5051 does not answer", "agent"))
    result = bcs("logs", "web-0")
    assert (result.code, result.out) == (0, f"{task_of(0)}\nstderr | {task_of(0)}\n")
    assert result.err == (
        "web-0 | the sandbox cannot be read; this is the last output that was kept when the task failed\n"
    )
    web.on("GET", f"/taskgroup/{taskgroup(1)['ID']}/output", failed(502, "agent does not answer", "agent"))
    assert bcs("logs", "web-1").code == 1


def test_logs_of_several_name_each_line(web: StandIn, bcs: Any) -> None:
    log_of(web, 0, b"a\nb")
    log_of(web, 1, b"c\n")
    assert bcs("logs", "web") == (0, "web-0 | a\nweb-0 | b\nweb-1 | c\n", "")


def test_logs_of_the_others_when_an_agent_is_away(web: StandIn, bcs: Any) -> None:
    log_of(web, 1, b"still here\n")
    web.on("GET", f"/taskgroup/{GROUP}/files", failed(502, "agent 10.0.0.1:5051 does not answer", "agent"))
    result = bcs("logs", "web")
    assert (result.code, result.out) == (1, "web-1 | still here\n")
    assert "web-0 | agent 10.0.0.1:5051 does not answer" in result.err


def test_logs_of_all_tasks_or_one(web: StandIn, bcs: Any) -> None:
    group = group_of(0)
    two = [group["Taskgroup"][0], {**group["Taskgroup"][0], "ID": "T2", "Name": "sidecar"}]
    web.on("GET", f"{APPS}/web/taskgroups", ok([{**group, "Taskgroup": two}]))
    log_of(web, 0, b"x\n")
    assert bcs("logs", "web-0").out == "web-0/server | x\nweb-0/sidecar | x\n"
    assert bcs("logs", "web-0", "--task", "sidecar").out == "x\n"
    assert web.seen[-1].query["task"] == "T2"
    assert bcs("logs", "web-0", "--task", "nobody").code == 3


def test_following_ends_with_the_taskgroup(web: StandIn, bcs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bcs_scheduler.cli.commands.reading.logs.PAUSE", 0.01)
    monkeypatch.setattr("bcs_scheduler.cli.commands.reading.logs.LISTING", 0.0)
    log_of(web, 0, b"first\n")
    path = f"/namespaces/defaultGroup/taskgroups/{GROUP}"

    def written(request: Request) -> Answer | None:
        """Its last words come between the look at its state and the end."""
        if request.path == path:
            log_of(web, 0, b"first\nlast\n")
            return ok({**group_of(0), "Status": "Finish"})
        return None

    web.rules.insert(0, written)
    assert bcs("logs", "web-0", "-f") == (0, "first\nlast\n", "")


def test_following_says_what_it_came_too_late_for(web: StandIn, bcs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bcs_scheduler.cli.commands.reading.logs.PAUSE", 0.01)
    monkeypatch.setattr("bcs_scheduler.cli.commands.reading.logs.LISTING", 0.0)
    log_of(web, 0, b"first\n")
    path = f"/namespaces/defaultGroup/taskgroups/{GROUP}"

    def rotated(request: Request) -> Answer | None:
        if request.path == path:
            log_of(web, 0, b"fourth\n", **{"stdout.1": b"third\n"})
            return ok({**group_of(0), "Status": "Finish"})
        return None

    web.rules.insert(0, rotated)
    result = bcs("logs", "web-0", "-f")
    assert (result.code, result.out) == (0, "first\nthird\nfourth\n")
    assert result.err == "web-0 | some output may be missing: files were rotated before they were read\n"


# --- configuration -------------------------------------------------------------------------------------------------


def test_create_never_shows_what_it_sends(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("POST", "/namespaces/defaultGroup/secrets", ok({}))
    (tmp_path / "key").write_bytes(b"\x00geheim")
    result = bcs("create", "secret", "s", "--from-file", f"pem={tmp_path / 'key'}", "--from-literal", "word=geheim")
    assert result.code == 0
    assert "geheim" not in result.out + result.err
    body = server.requests("POST")[0].body
    assert {key: b64decode(item["content"]) for key, item in body["datas"].items()} == {
        "pem": b"\x00geheim",
        "word": b"geheim",
    }


def test_create_takes_a_folder_and_replaces(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text("1")
    (tmp_path / "b.conf").write_text("2")
    server.on("GET", "/namespaces/defaultGroup/configmaps/c", ok({}))
    server.on("PUT", "/namespaces/defaultGroup/configmaps", ok({}))
    assert bcs("create", "configmap", "c", "--from-file", str(tmp_path), "--replace").code == 0
    datas = server.requests("PUT")[0].body["datas"]
    assert {key: item["type"] for key, item in datas.items()} == {"a.conf": "file", "b.conf": "file"}


def test_apply_puts_configuration_before_what_takes_it_in(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    web = {"kind": "application", "metadata": {"name": "web"}, "spec": {"instance": 1}}
    command = {
        "kind": "Command",
        "spec": {"commandTargetRef": {"kind": "Application", "name": "web"}, "command": ["x"]},
    }
    secret = {"kind": "secret", "metadata": {"name": "s"}, "datas": {}}
    settings = {"kind": "configmap", "metadata": {"name": "c"}, "datas": {}}
    for path in (f"{APPS}/web", "/namespaces/defaultGroup/secrets/s"):
        server.on("GET", path, MISSING)
    server.on("GET", "/namespaces/defaultGroup/configmaps/c", ok({}))
    for path in (APPS, "/namespaces/defaultGroup/secrets"):
        server.on("POST", path, ok({}))
    server.on("POST", COMMAND, ok(TOLD))
    server.on("PUT", "/namespaces/defaultGroup/configmaps", ok({"unchanged": True}))
    file = write(tmp_path, command, web, secret, settings, name="all.yaml")
    assert bcs("apply", "-f", file, "-o", "text").out.splitlines() == [
        "configmap/c unchanged",
        "secret/s created",
        "application/web created",
        f"command/{TOLD['commandID']} started",
    ]
    changes = json.loads(bcs("apply", "-f", file).out)
    assert [change["done"] for change in changes] == ["unchanged", "created", "created", "started"]


def test_update_of_limits_alone(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("PUT", APPS, ok(TOLD))
    file = write(tmp_path, {"kind": "application", "metadata": {"name": "web"}, "spec": {}})
    assert bcs("update", "-f", file, "--resources-only").code == 0
    assert server.requests("PUT")[0].query == {"args": "resource"}
    assert bcs("update", "-f", file, "--resources-only", "--instances", "1").code == 2


def test_delete_by_kind(server: StandIn, bcs: Any) -> None:
    server.on("DELETE", "/namespaces/defaultGroup/secrets/s", ok({}))
    server.on("DELETE", f"{APPS}/secret", ok({}))
    server.on("GET", COMMAND, record(outcome(0)))
    server.on("DELETE", COMMAND, ok({}))
    assert bcs("delete", "secret", "s", "-o", "text").out == "secret/s deleted\n"
    assert bcs("delete", "secret", "-o", "text").out == "application/secret deletion started\n"
    assert bcs("delete", "command", TOLD["commandID"]).code == 0
    assert server.requests("DELETE")[-1].query == {"id": TOLD["commandID"], "mustExist": "true"}


# --- what is shown -------------------------------------------------------------------------------------------------


def test_tasks_with_their_health_and_exit_codes(web: StandIn, bcs: Any) -> None:
    group = group_of(0)
    failing = {
        **group["Taskgroup"][0],
        "HealthCheckStatus": [{"type": "HTTP", "result": False, "message": "503"}],
        "Healthy": False,
        "IsChecked": True,
        "Pid": 4711,
        "ExitCode": -9,
    }
    web.on("GET", f"{APPS}/web/taskgroups", ok([{**group, "Taskgroup": [failing]}]))
    row = bcs("get", "tasks", "web", "-o", "table").out.splitlines()[1].split()
    assert row[:6] == ["web-0", "server", "Running", "failing", "4711", "-9"]
    assert row[-2:] == ["HTTP:", "503"]
    web.on("GET", f"{APPS}/web-0", MISSING)
    shown = bcs("describe", "tg", "web-0").out
    assert "HTTP fails: 503" in shown
    assert "4711" in shown


def test_secrets_and_configmaps_are_described_without_contents(server: StandIn, bcs: Any) -> None:
    head = {"name": "s", "namespace": "defaultGroup", "creationTimestamp": "2023-11-14T22:13:20Z", "labels": {}}
    server.on(
        "GET",
        "/namespaces/defaultGroup/secrets/s",
        ok({"metadata": head, "datas": {"key": {"digest": "abc", "size": 6}}}),
    )
    remote = {"type": "https", "content": "https://conf.example.org/x", "remoteUser": "reader"}
    content = {"type": "file", "content": b64encode(b"verborgen").decode()}
    configmap = {"metadata": {**head, "name": "c"}, "datas": {"a": content, "b": remote}}
    server.on("GET", "/namespaces/defaultGroup/configmaps/c", ok(configmap))
    server.on("GET", "/namespaces/defaultGroup/configmaps", ok([configmap]))
    assert "6 bytes, digest abc" in bcs("describe", "secret", "s").out
    shown = bcs("describe", "configmap", "c").out
    assert "9 bytes" in shown
    assert "https://conf.example.org/x as reader" in shown
    assert content["content"] not in shown
    assert bcs("get", "cm", "-o", "table").out.splitlines()[1].split()[:2] == ["c", "a,b"]


def test_commands_and_messages(web: StandIn, bcs: Any) -> None:
    data = record(outcome(0, exitCode=3, stdout="listing\n"), outcome(1, "running"))
    web.on("GET", COMMAND, data)
    web.on("GET", f"{APPS}/web/commands", ok([data.body["data"]]))
    message = {"Id": "1", "Kind": "signal", "TaskGroupId": GROUP, "Status": "failed", "Message": "no", "CreateTime": 1}
    web.on("GET", f"{APPS}/web/messages", ok([message]))
    assert bcs("get", "commands", "web", "-o", "table").out.splitlines()[1].split()[1:4] == [
        "command",
        "running",
        "1/2",
    ]
    assert bcs("get", "messages", "web", "-o", "table").out.splitlines()[1].split()[:4] == [
        "web-0",
        "signal",
        "failed",
        "-",
    ]
    shown = bcs("describe", "command", str(TOLD["commandID"])).out
    assert "listing" in shown
    assert "Not sent" not in shown
    assert bcs("describe", "command", "Application-other-web-1").code == 2


def test_limits_and_deadlines_are_shown_as_people_write_them(web: StandIn, bcs: Any) -> None:
    told = record().body["data"]
    limits = [{"index": 0, "cpus": 200, "mem": 128000}, {"index": 1, "cpus": 1500, "mem": 64000}]
    told |= {"type": "resources", "body": {"limits": limits}, "deadline": time.time() + 119.5, "createTime": 1}
    web.on("GET", COMMAND, ok(told))
    shown = bcs("describe", "command", str(TOLD["commandID"])).out
    assert "container 0: 0.2 cores, 128 MB, container 1: 1.5 cores, 64 MB" in shown
    deadline = next(line for line in shown.splitlines() if line.startswith("Deadline:"))
    assert "(in 1m5" in deadline and "ago" not in deadline


def test_describe_says_whom_a_command_never_reached(web: StandIn, bcs: Any) -> None:
    web.on("GET", COMMAND, record(outcome(0), outcome(1), targets=5, state="failed"))
    shown = bcs("describe", "command", str(TOLD["commandID"])).out
    assert "3 of 5 taskgroups" in shown
