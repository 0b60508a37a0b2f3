"""`bcs` at work in running taskgroups: the real command, the embedded cluster, real executors, real processes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.integration.devprocess import Dev
from tests.integration.schedulerprocess import document
from tests.waiting import wait_for

LISTENER = (
    "trap 'echo heard USR1' USR1; trap 'echo heard HUP' HUP; echo began $COLOUR; echo trouble >&2;"
    " while true; do sleep 0.05; done"
)
LINES = 800
FILES = 20
"""Kept of each output: all that the writer fills, so that none is gone before a slow reader comes to it."""
WRITER = f"i=0; while [ $i -lt {LINES} ]; do echo line $i {'x' * 60}; i=$((i+1)); sleep 0.003; done; printf last"


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """With an application `listener` of two taskgroups."""
    folder = tmp_path_factory.mktemp("dev")
    running = Dev(folder, BCS_EXECUTOR_LOG_MAX_BYTES="4096", BCS_EXECUTOR_LOG_FILES=str(FILES))
    try:
        # Room for all commands that run beside the program at the same time: a task above its limit is ended.
        resources = {"limits": {"cpu": "0.1", "memory": "64", "storage": "1"}}
        container = {"container": {"env": [{"name": "COLOUR", "value": "green"}], "resources": resources}}
        listener = document("listener", 2, ["sh", "-c", LISTENER], **container)
        running.done("apply", "-f", "-", "--wait", given=yaml.safe_dump(listener).encode())
        yield running
    finally:
        running.stop()


def test_exec_gives_output_and_exit_code_of_the_command(dev: Dev) -> None:
    result = dev.bcs("exec", "listener-0", "-e", "A=b c", "--", "sh", "-c", 'echo "$A $COLOUR"; echo no >&2; exit 7')
    assert (result.returncode, result.stdout, result.stderr) == (7, b"b c green\n", b"no\n")
    assert dev.bcs("exec", "listener-0", "--", "sh", "-c", "kill -9 $$").returncode == 137


def test_exec_everywhere(dev: Dev) -> None:
    result = dev.bcs("exec", "listener", "-o", "json", "--", "sh", "-c", "echo $PPID; pwd; exit 0")
    answers = json.loads(result.stdout)
    assert result.returncode == 0
    assert [answer["exitCode"] for answer in answers] == [0, 0]
    assert len({answer["stdout"] for answer in answers}) == 2


def test_exec_of_what_does_not_end_or_does_not_exist(dev: Dev) -> None:
    for seconds in ("0.5", "2", "8", "32"):  # a busy machine may need longer to start the program
        late = dev.bcs("exec", "listener-0", "--timeout", f"{seconds}s", "--", "sh", "-c", "echo begun; sleep 1000")
        assert late.returncode != 0
        assert f"has not ended within {seconds}s".encode() in late.stderr
        if late.stdout:
            break
    assert late.stdout == b"begun\n"
    missing = dev.bcs("exec", "listener-0", "--", "/no/such/program")
    assert missing.returncode != 0
    assert missing.stderr


MANY = ("--", "sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x")


def test_the_output_of_one_task_is_streamed_whole(dev: Dev) -> None:
    result = dev.bcs("exec", "listener-0", *MANY)
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout == b"x" * 1_000_000


def test_the_output_of_all_tasks_is_cut_off(dev: Dev) -> None:
    result = dev.bcs("exec", "listener", "-o", "json", *MANY)
    assert result.returncode == 0
    for answer in json.loads(result.stdout):
        assert set(answer["stdout"]) == {"x"} and 1000 < len(answer["stdout"]) < 1_000_000


def test_a_signal_is_heard_and_the_log_says_so(dev: Dev) -> None:
    dev.done("signal", "listener-1", "USR1")
    wait_for(lambda: b"heard USR1" in dev.done("logs", "listener-1"), 30, "the signal in the log")
    assert b"USR1" not in dev.done("logs", "listener-0")
    dev.done("reload", "listener")
    wait_for(lambda: dev.done("logs", "listener").count(b"heard HUP") == 2, 30, "the reload in both logs")
    assert dev.done("logs", "listener-0", "--stderr") == b"trouble\n"
    assert dev.done("logs", "listener-0", "--tail", "1") == b"heard HUP\n"


def test_a_file_goes_in_and_comes_back(dev: Dev, tmp_path: Path) -> None:
    content = os.urandom(100_000)
    (tmp_path / "tool").write_bytes(content)
    (tmp_path / "tool").chmod(0o750)
    dev.done("cp", str(tmp_path / "tool"), "listener-0:bin/")
    assert dev.done("cp", "listener-0:bin/tool", "-") == content
    assert dev.done("exec", "listener-0", "--", "stat", "-c", "%a", "bin/tool") == b"750\n"
    dev.done("cp", "-", "listener:etc/motd", given=b"hello\n")
    dev.done("cp", "listener-1:etc/motd", str(tmp_path))
    assert (tmp_path / "motd").read_bytes() == b"hello\n"
    assert dev.bcs("cp", "listener-0:../../stdout", "-").returncode != 0
    assert dev.bcs("cp", "listener-0:nothing", "-").returncode == 3


def test_a_variable_counts_from_the_next_restart_on(dev: Dev) -> None:
    before = dev.data("get", "tasks", "listener-0")[0]["Pid"]
    dev.done("env", "listener-0", "COLOUR=blue")
    dev.done("restart", "listener-0")
    wait_for(lambda: dev.data("get", "tasks", "listener-0")[0]["Pid"] not in (before, 0), 30, "a new process")
    wait_for(lambda: b"began blue" in dev.done("logs", "listener-0"), 30, "the new variable")
    assert dev.data("get", "tasks", "listener-0")[0]["Status"] == "Running"


def test_following_loses_nothing_over_rotations(dev: Dev) -> None:
    """What is written is rotated a dozen times meanwhile, and the file kept for so long is 4 KiB."""
    writer = document("writer", 1, ["sh", "-c", WRITER], restartPolicy={"policy": "Never"})
    dev.done("apply", "-f", "-", given=yaml.safe_dump(writer).encode())
    wait_for(lambda: dev.data("get", "tasks", "writer"), 30, "the writer")
    result = dev.bcs("logs", "writer-0", "-f", "--rotated")
    assert (result.returncode, result.stderr) == (0, b"")
    written = result.stdout.decode().split("\n")
    assert [line.split()[1] for line in written[:-1]] == [str(number) for number in range(LINES)]
    assert written[-1] == "last"


def test_what_was_asked_can_be_looked_up_and_forgotten(dev: Dev) -> None:
    identity = dev.done("exec", "listener-0", "--detach", "--", "echo", "later").decode().strip()
    wait_for(lambda: b"later" in dev.done("describe", "command", identity), 30, "the outcome")
    dev.done("delete", "command", identity)
    assert dev.bcs("describe", "command", identity).returncode == 3


def test_a_secret_reaches_its_taskgroup_and_nobody_else(dev: Dev) -> None:
    dev.done("create", "secret", "door", "--from-file", "code=-", given=b"open sesame")
    reference = {
        "secrets": [{"secretName": "door", "items": [{"type": "env", "dataKey": "code", "keyOrPath": "CODE"}]}]
    }
    keeper = document("keeper", 1, ["sleep", "1000"], container=reference)
    dev.done("apply", "-f", "-", "--wait", given=yaml.safe_dump(keeper).encode())
    assert dev.done("exec", "keeper-0", "--", "sh", "-c", 'printf %s "$CODE"') == b"open sesame"
    for arguments in (
        ("get", "secrets"),
        ("describe", "secret", "door"),
        ("get", "tg", "keeper"),
        ("get", "versions", "keeper"),
    ):
        assert b"sesame" not in dev.done(*arguments)
