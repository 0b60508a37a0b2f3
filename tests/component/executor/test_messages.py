"""Messages of the scheduler: carried out once, answered always, whatever they contain."""

from __future__ import annotations

import base64
import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bcs_scheduler.executor.agent import messages
from bcs_scheduler.executor.agent.messages import Messages
from bcs_scheduler.executor.runtime import TaskError
from tests.component.executor.fakeruntime import FakeRuntime
from tests.component.executor.webserver import protected, serving
from tests.waiting import wait_for

FIRST, SECOND = "1700.0.3.web.ns.cluster", "1700.1.3.web.ns.cluster"
SECRET = "do not show me"


class Executor:
    """Messages with two tasks; what was answered, in order."""

    def __init__(self, act: Callable[..., Any] = lambda *done: None) -> None:
        self.tasks = {FIRST: FakeRuntime(act), SECOND: FakeRuntime(act)}
        self.answers: list[dict[str, Any]] = []
        self.messages = Messages(lambda: self.tasks, self.answers.append)

    def send(self, kind: str, body: Any, identity: str = "1", tasks: Any = (FIRST,), **more: Any) -> None:
        fields = {"v": 1, "type": "message", "id": identity, "kind": kind, "tasks": tasks, "body": body, **more}
        self.messages.received(json.dumps(fields).encode())

    def final(self, identity: str = "1", number: int = 1) -> dict[str, Any]:
        """The last word about a message, said `number` times, always the same."""

        def said() -> list[dict[str, Any]]:
            return [each for each in list(self.answers) if each["id"] == identity and each["status"] != "running"]

        found = wait_for(lambda: len(said()) >= number and said(), 30.0, lambda: f"an answer, not {self.answers}")
        assert all(each == found[0] for each in found)
        assert len(found) == number
        return found[0]

    def ask(self, kind: str, body: Any, **more: Any) -> dict[str, Any]:
        self.send(kind, body, **more)
        return self.final()


@contextmanager
def executor(act: Callable[..., Any] = lambda *done: None) -> Iterator[Executor]:
    found = Executor(act)
    try:
        yield found
    finally:
        found.messages.stop()


def result(task: str = FIRST, ok: bool = True, message: str = "", code: int | None = None, **more: Any) -> Any:
    blank = {"stdout": "", "stderr": "", "truncated": False}
    return {"task": task, "ok": ok, "message": message, "exit_code": code, **blank, **more}


def test_older_limits_do_not_replace_newer_ones() -> None:
    done: list[Any] = []
    with executor(lambda *what: done.append(what)) as found:
        for identity, cpus in (("200", 20), ("100", 10), ("300", 30)):
            found.send("resources", {"limits": [{"index": 0, "cpus": cpus}]}, identity=identity)
            found.final(identity)
        assert found.final("100")["results"] == [result(ok=False, message="newer limits have been set")]
    assert [each for each in done if each[0] == "limit"] == [("limit", 20, 0), ("limit", 30, 0)]


def test_a_command_is_run_and_its_output_told() -> None:
    body = {"argv": ["/bin/sh", "-c", "echo $A; echo err >&2; exit 3"], "env": {"A": "ä"}, "privileged": True}
    with executor() as found:
        answer = found.ask("command", {**body, "user": "", "working_dir": "/srv", "later": 1})
    assert answer == {
        "v": 1,
        "type": "answer",
        "id": "1",
        "status": "success",
        "message": "",
        "results": [result(code=3, stdout="ä\n", stderr="err\n")],
    }
    assert found.tasks[FIRST].done == [("execute", tuple(body["argv"]), {"A": "ä"}, "", "/srv", True)]  # type: ignore[arg-type]


def test_output_is_cut_and_decoded_whatever_it_is() -> None:
    with executor() as found:
        answer = found.ask("command", {"argv": ["printf", "%b", r"\0377\0376abc"]}, output_limit=3)
    assert answer["results"] == [result(code=0, stdout="��a", truncated=True)]


def test_a_command_that_does_not_end_is_killed_and_told() -> None:
    with executor() as found:
        answer = found.ask("command", {"argv": ["sh", "-c", "echo begun; exec sleep 600"]}, timeout=3.0)
    assert answer["status"] == "failed"
    assert answer["results"] == [result(ok=False, message="killed after 3 s", stdout="begun\n")]


DATA = base64.b64encode(b"content").decode()


@pytest.mark.parametrize(
    ("kind", "body", "done", "said"),
    [
        ("local", {"path": "a", "data": DATA, "mode": 0o600, "owner": "me"}, ("put", "a", b"content", 0o600, "me"), ""),
        ("local", {"path": "a", "data": ""}, ("put", "a", b"", 0o644, ""), ""),
        ("signal", {"signal": 10, "process": "nginx"}, ("signal", 10, "nginx"), ""),
        ("signal", {"signal": 15}, ("signal", 15, ""), ""),
        ("env", {"name": "A", "value": "b"}, ("set_env", "A", "b"), ""),
        ("restart", {}, ("restart", 7.0), ""),
        ("reload", {}, ("reload", 7.0), ""),
        ("resources", {"limits": [{"index": 0, "cpus": 100, "mem": 64000}]}, ("limit", 100, 64000), ""),
        ("commit", {"target": "a/b:c", "user": "u", "password": "p"}, ("commit", "a/b:c", "u", "p", 7.0), "sha256:abc"),
    ],
)
def test_each_kind_does_its_work(kind: str, body: dict[str, Any], done: tuple[Any, ...], said: str) -> None:
    with executor() as found:
        answer = found.ask(kind, body, timeout=7)
    assert (answer["status"], answer["results"]) == ("success", [result(message=said)])
    assert found.tasks[FIRST].done == [done]


def test_a_remote_file_is_fetched_and_written() -> None:
    with serving() as web, executor() as found:
        web.pages["/file"] = protected(b"content", "me", SECRET)
        body = {"path": "a", "url": web.url("/file"), "user": "me", "password": SECRET, "mode": 0o640}
        assert found.ask("remote", body)["status"] == "success"
        found.send("remote", {**body, "url": web.url("/none")}, "2")
        assert found.final("2")["results"][0]["message"].endswith("/none: 404 Not Found")
    assert found.tasks[FIRST].done == [("put", "a", b"content", 0o640, "")]


def test_limits_go_to_the_task_with_that_index() -> None:
    with executor() as found:
        answer = found.ask("resources", {"limits": [{"index": 1, "mem": 5}]}, tasks=(FIRST, SECOND))
    assert answer["results"] == [result(message="unchanged"), result(SECOND)]
    assert (found.tasks[FIRST].done, found.tasks[SECOND].done) == ([], [("limit", 0, 5)])


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        ("dance", {}, "message.kind: 'dance' is not known"),
        ("command", {}, "body.argv: missing"),
        ("command", {"argv": []}, "body.argv: names no command"),
        ("command", {"argv": "ls"}, "body.argv: not a list"),
        ("command", {"argv": ["a", 1]}, "body.argv[1]: not of type str"),
        ("command", {"argv": ["a\0"]}, "body.argv: contains a NUL"),
        ("command", {"argv": ["a"], "env": {"A=": SECRET}}, "body.env: contains an invalid variable name"),
        ("command", {"argv": ["a"], "env": {"A": SECRET + "\0"}}, "body.env.A: contains a NUL"),
        ("command", {"argv": ["a"], "privileged": 1}, "body.privileged: not of type bool"),
        ("local", {"path": "a"}, "body.data: missing"),
        ("local", {"path": "a", "data": SECRET + "*"}, "body.data: not base64"),
        ("local", {"path": "", "data": ""}, "body.path: not the name of a file"),
        ("local", {"path": "a", "data": "", "mode": 0o10000}, "body.mode: not a file mode"),
        ("local", {"path": "a", "data": "", "mode": True}, "body.mode: not of type int"),
        ("remote", {"path": "a", "url": "file:///etc/shadow"}, "body.url: neither http nor https"),
        ("signal", {"signal": 0}, "body.signal: there is no signal 0"),
        ("signal", {"signal": 99}, "body.signal: there is no signal 99"),
        ("env", {"name": "A=B", "value": SECRET}, "body.name: cannot be the name of a variable"),
        ("env", {"name": "A", "value": 1}, "body.value: not of type str"),
        ("resources", {"limits": []}, "body.limits: empty"),
        ("resources", {"limits": [{"cpus": 1}]}, "body.limits: contains an entry without an index"),
        ("resources", {"limits": [{"index": 0, "cpus": -1}]}, "body.limits: contains a negative amount"),
        ("commit", {"target": ""}, "body.target: empty"),
    ],
)
def test_what_is_unusable_is_refused_by_name_and_without_content(kind: str, body: dict[str, Any], words: str) -> None:
    with executor() as found:
        answer = found.ask(kind, body)
    assert (answer["status"], answer["message"], answer["results"]) == ("failed", words, [])
    assert found.tasks[FIRST].done == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tasks": []}, "message.tasks: names no task"),
        ({"tasks": [FIRST, FIRST]}, "message.tasks: names a task twice"),
        ({"tasks": [str(number) for number in range(257)]}, "message.tasks: names more than 256 tasks"),
        ({"tasks": "all"}, "message.tasks: not a list"),
        ({"timeout": 0}, "message.timeout: not a positive number of seconds"),
        ({"timeout": float("nan")}, "message.timeout: not a number that can be used"),
        ({"timeout": 10**400}, "message.timeout: not a number that can be used"),
        ({"output_limit": -1}, "message.output_limit: negative"),
        ({"v": 2}, "message: protocol version 2, this executor speaks 1"),
        ({"type": "greeting"}, "message.type: 'greeting' is not known"),
        ({"body": []}, "message.body: not an object"),
    ],
)
def test_unusable_messages_with_an_id_are_answered(fields: dict[str, Any], words: str) -> None:
    with executor() as found:
        answer = found.ask("restart", fields.pop("body", {}), **fields)
    assert (answer["status"], answer["message"]) == ("failed", words)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"v": 1, "type": "message", "id": "1", "kind": "env", "body": {"value": "do not show me',
        b"\xff\xfe",
        b"[]",
        b'"do not show me"',
        b'{"v": 1, "type": "message"}',
        b'{"v": 1, "type": "message", "id": 7}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_what_has_no_id_is_logged_and_dropped(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with executor() as found, caplog.at_level(logging.DEBUG):
        found.messages.received(data)
        assert found.ask("restart", {})["status"] == "success"
    assert [
        record.getMessage().startswith(f"a message of {len(data)} bytes is dropped") for record in caplog.records
    ] == [True]
    assert SECRET not in caplog.text


def test_a_repetition_gets_the_same_answer_and_is_not_carried_out_again() -> None:
    with executor() as found:
        found.ask("restart", {}, timeout=7)
        for number in (2, 3):
            found.send("restart", {}, timeout=7)
            assert found.final(number=number)["status"] == "success"
    assert found.tasks[FIRST].done == [("restart", 7.0)]


def test_a_repetition_of_one_under_way_is_answered_running() -> None:
    release = threading.Event()
    with executor(lambda *done: release.wait(30.0)) as found:
        found.send("restart", {})
        wait_for(lambda: found.tasks[FIRST].done, 30.0, "the restart")
        found.send("restart", {})
        assert [each["status"] for each in found.answers] == ["running"]
        release.set()
        assert found.final()["status"] == "success"


def test_running_is_told_when_it_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "PATIENCE", 60.0)
    with executor() as found:
        assert found.ask("reload", {})["status"] == "success"
        assert [each["status"] for each in found.answers] == ["success"]
    monkeypatch.setattr(messages, "PATIENCE", 0.1)
    release = threading.Event()
    with executor(lambda *done: release.wait(60.0)) as found:
        found.send("restart", {})
        wait_for(lambda: found.answers, 30.0, "the answer that the restart is under way")
        release.set()
        found.final()
    assert [(each["id"], each["status"]) for each in found.answers] == [("1", "running"), ("1", "success")]


def test_results_come_in_the_order_of_the_tasks_and_work_goes_on_beside() -> None:
    both = threading.Barrier(2)

    def together(*done: Any) -> None:
        both.wait(30.0)
        if done[0] == "signal":
            raise TaskError("no such process")

    with executor(together) as found:
        answer = found.ask("restart", {}, tasks=(SECOND, FIRST))
        assert [each["task"] for each in answer["results"]] == [SECOND, FIRST]
        found.send("signal", {"signal": 1}, "2", tasks=(FIRST, SECOND))
        failed = found.final("2")
    assert (failed["status"], failed["message"]) == ("failed", f"{FIRST}: no such process (and 1 more)")


def test_tasks_that_are_not_there_or_have_ended_are_told() -> None:
    with executor() as found:
        found.tasks[SECOND].now = type(found.tasks[SECOND].now)(finished_at=5.0)
        answer = found.ask("restart", {}, tasks=("other", SECOND, FIRST))
    assert answer["status"] == "failed"
    assert answer["results"] == [
        result("other", False, "the task is not there"),
        result(SECOND, False, "the task has ended"),
        result(FIRST),
    ]


def test_an_unexpected_error_is_told_without_its_text_and_the_worker_survives(caplog: pytest.LogCaptureFixture) -> None:
    def broken(*done: Any) -> None:
        raise RuntimeError(SECRET)

    with executor(broken) as found:
        for number in range(messages.WORKERS + 1):
            found.send("restart", {}, str(number))
            assert found.final(str(number))["message"].endswith("internal error of the executor: RuntimeError")
    assert SECRET not in caplog.text


def test_a_message_is_answered_even_when_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with executor() as found:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        assert found.ask("restart", {})["message"] == "internal error of the executor: RuntimeError"
        monkeypatch.undo()
        found.send("restart", {}, "2")
        assert found.final("2")["status"] == "success"


def test_too_many_are_refused_and_the_others_carried_out() -> None:
    release = threading.Event()
    with executor(lambda *done: release.wait(30.0)) as found:
        for number in range(messages.WORKERS):
            found.send("restart", {}, f"w{number}")
        wait_for(lambda: len(found.tasks[FIRST].done) == messages.WORKERS, 30.0, "busy workers")
        for number in range(messages.WAITING + 1):
            found.send("restart", {}, f"q{number}")
        refused = found.final(f"q{messages.WAITING}")
        assert (refused["status"], refused["message"]) == ("failed", "too many messages are waiting")
        release.set()
        assert found.final(f"q{messages.WAITING - 1}")["status"] == "success"
        found.send("restart", {}, f"q{messages.WAITING}")
        assert found.final(f"q{messages.WAITING}", number=2)["status"] == "failed"
    assert len(found.tasks[FIRST].done) == messages.WORKERS + messages.WAITING


def test_forgotten_answers_do_not_make_a_message_be_carried_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "ANSWER_BYTES", 100)
    with executor() as found:
        for number in range(3):
            found.send("command", {"argv": ["printf", "%060d", "0"]}, str(number))
            found.final(str(number))
        found.answers.clear()
        found.send("command", {"argv": ["printf", "%060d", "0"]}, "0")
        found.send("command", {"argv": ["printf", "%060d", "0"]}, "2")
        assert found.final("2")["status"] == "success"
        assert found.final("0")["message"] == "was carried out before; its answer is no longer kept"
    assert len(found.tasks[FIRST].done) == 3


def test_an_answer_that_cannot_be_sent_is_kept_for_the_repetition() -> None:
    failing = True
    answers: list[dict[str, Any]] = []

    def answer(document: dict[str, Any]) -> None:
        if failing:
            raise ConnectionError("the agent is away")
        answers.append(document)

    found = Executor()
    found.messages = Messages(lambda: found.tasks, answer)
    found.send("restart", {})
    wait_for(lambda: found.tasks[FIRST].done, 30.0, "the restart")
    failing = False

    def again() -> bool:
        found.send("restart", {})
        return bool(answers[-1]["status"] == "success")

    wait_for(again, 30.0, "the answer")
    assert len(found.tasks[FIRST].done) == 1
    found.messages.stop()


def test_stopping_answers_what_is_open_and_takes_no_more() -> None:
    release = threading.Event()
    over: list[bool] = []
    found = Executor(lambda *done: over.append(release.wait(130.0)))
    found.send("restart", {})
    wait_for(lambda: found.tasks[FIRST].done, 30.0, "the restart")
    found.messages.stop()
    assert over == [], "the restart is still under way"
    found.send("restart", {}, "2")
    release.set()
    ended = "the taskgroup is ending"
    assert [(each["id"], each["status"], each["message"]) for each in found.answers] == [
        ("1", "failed", ended),
        ("2", "failed", ended),
    ]
    wait_for(lambda: not any(t.name.startswith("message-") for t in threading.enumerate()), 30.0, "the threads to end")
    assert len(found.answers) == 2


def test_limits_that_are_not_enforced_are_told() -> None:
    with executor() as found:
        found.tasks[FIRST].unlimited = "cpu is not limited on this agent"
        answer = found.ask("resources", {"limits": [{"index": 0, "cpus": 100}]})
    assert answer["status"] == "success"
    assert answer["results"] == [result(message="cpu is not limited on this agent")]
