"""executor.processes.programs: daemons with commands for start, check and stop, and PID files."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from bcs_scheduler.executor.model import Process
from bcs_scheduler.executor.processes import programs
from bcs_scheduler.executor.processes.orphans import Orphans
from bcs_scheduler.executor.processes.programs import Daemon, ended
from bcs_scheduler.executor.processes.spawn import Launcher
from bcs_scheduler.executor.runtime import Exit, TaskError
from tests.waiting import wait_for


class Bench:
    """Daemons that are children of the test; lines do what the test says."""

    def __init__(self, directory: Path) -> None:
        self.pid_file = directory / "d.pid"
        self.started: list[subprocess.Popen[bytes]] = []
        self.lines: list[str] = []
        self.codes: dict[str, int | None] = {}
        reading, self.pipe = os.pipe()
        self.supervisor_died = threading.Event()
        self.orphans = Orphans(reading, self.supervisor_died.set)

    def line(self, line: str, timeout: float, given_up: Callable[[], bool] = bool) -> int | None:
        self.lines.append(line)
        if line in ("start", "restart"):
            self.appear()
        return self.codes.get(line, 0)

    def appear(self, content: str = " {pid}\n\n") -> int:
        self.started.append(subprocess.Popen(["/bin/sleep", "60"]))
        self.pid_file.write_text(content.format(pid=self.started[-1].pid))
        return self.started[-1].pid

    def daemon(self, **fields: object) -> Daemon:
        process = Process(**{"start": "start", "name": "sleep", **fields})  # type: ignore[arg-type]
        return Daemon(cast(Launcher, self), process, self.pid_file, self.orphans)

    def reports(self, pid: int, status: int) -> None:
        os.write(self.pipe, b"%d %d\n" % (pid, status))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(programs, "LIVENESS_INTERVAL", 0.05)
    monkeypatch.setattr(programs, "PATIENCE", 0.1)
    bench = Bench(tmp_path)
    yield bench
    os.close(bench.pipe)
    assert bench.supervisor_died.wait(30)
    for process in bench.started:
        process.kill()
        process.wait()


def never() -> bool:
    return False


def test_the_check_command_must_fail_three_times_in_a_row(bench: Bench) -> None:
    daemon = bench.daemon(check="check")
    daemon.start(never)
    bench.codes["check"] = 1
    assert daemon.wait() == Exit(None, "the check command failed 3 times in a row")
    assert bench.lines == ["start", "check", "check", "check"]


def test_the_check_command_waits_for_the_start_grace(bench: Bench) -> None:
    daemon = bench.daemon(check="check", start_grace=600.0)
    daemon.start(never)
    bench.reports(daemon.pid, 3 << 8)
    assert daemon.wait() == Exit(3, "exit code 3")
    assert bench.lines == ["start"]


def test_a_daemon_may_replace_itself(bench: Bench) -> None:
    daemon = bench.daemon()
    daemon.start(never)
    first, second = daemon.pid, bench.appear()
    ends: list[Exit] = []
    waiting = threading.Thread(target=lambda: ends.append(daemon.wait()))
    waiting.start()
    bench.started[0].kill()
    bench.started[0].wait()
    bench.reports(first, 0)
    wait_for(lambda: daemon.pid == second)
    bench.started[1].kill()
    bench.started[1].wait()
    bench.reports(second, 9)
    waiting.join(30)
    assert ends == [Exit(-9, "ended by SIGKILL")]


def test_an_end_nobody_reports_is_seen_all_the_same(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "REPORT", 0.05)
    daemon = bench.daemon()
    daemon.start(never)
    bench.started[0].kill()
    bench.started[0].wait()
    assert daemon.wait().code is None


def test_after_a_restart_the_new_one_is_waited_for(bench: Bench) -> None:
    daemon = bench.daemon(restart="restart")
    daemon.start(never)
    first = daemon.pid
    daemon.command("restart", "restart", 5.0, never)
    assert daemon.pid != first
    bench.reports(daemon.pid, 0)
    bench.started[1].kill()
    bench.started[1].wait()
    assert daemon.wait() == Exit(0, "")


@pytest.mark.parametrize(
    ("content", "words"),
    [("", "not a number"), ("-1", "not a number"), ("99999999", "no process 99999999"), ("1", "not sleep")],
)
def test_pid_files_that_name_no_daemon(bench: Bench, content: str, words: str) -> None:
    daemon = bench.daemon(start="other")
    bench.codes["other"] = 0
    real = bench.line

    def line(text: str, timeout: float, given_up: Callable[[], bool] = bool) -> int | None:
        bench.pid_file.write_text(content)
        return real(text, timeout, given_up)

    bench.line = line  # type: ignore[method-assign, assignment]
    with pytest.raises(TaskError, match=words):
        daemon.start(never)


def test_a_stale_pid_file_is_removed_first(bench: Bench) -> None:
    bench.pid_file.write_text(str(os.getpid()))
    daemon = bench.daemon(start="other", name="")
    with pytest.raises(TaskError, match="did not appear"):
        daemon.start(never)


@pytest.mark.parametrize(("code", "words"), [(4, "failed: exit code 4"), (None, "did not return within 60 s")])
def test_start_commands_that_do_not_succeed(bench: Bench, code: int | None, words: str) -> None:
    bench.codes["start"] = code
    with pytest.raises(TaskError, match=words):
        bench.daemon().start(never)


def test_a_start_that_is_given_up(bench: Bench) -> None:
    with pytest.raises(TaskError, match="given up"):
        bench.daemon().start(lambda: True)


def test_it_is_asked_and_killed_by_its_commands(bench: Bench) -> None:
    daemon = bench.daemon(stop="stop", kill="kill")
    daemon.start(never)
    daemon.ask_to_end(1.0, never)
    assert bench.started[0].poll() is None
    daemon.kill()
    assert bench.started[0].wait(30) == -9
    assert bench.lines == ["start", "stop", "kill"]


def test_without_commands_it_is_asked_by_a_signal(bench: Bench) -> None:
    daemon = bench.daemon()
    daemon.start(never)
    daemon.ask_to_end(1.0, never)
    assert bench.started[0].wait(30) == -15


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (0, ""),
        (1, "exit code 1"),
        (-11, "ended by SIGSEGV"),
        (-63, "ended by signal 63"),
        (None, "exit code is unknown"),
    ],
)
def test_words_for_ends(code: int | None, message: str) -> None:
    found = ended(code)
    assert found.code == code
    assert found.message.endswith(message)


@pytest.mark.parametrize("content", ["pipe", "device", "directory", "long"])
def test_a_pid_file_may_be_anything(bench: Bench, content: str) -> None:
    daemon = bench.daemon()
    daemon.start(bool)
    bench.pid_file.unlink()
    if content == "pipe":
        os.mkfifo(bench.pid_file)
    elif content == "device":
        bench.pid_file.symlink_to("/dev/zero")
    elif content == "directory":
        bench.pid_file.mkdir()
    else:
        bench.pid_file.write_text("1" * 10_000_000)
    assert daemon.wait().code is None


def test_a_line_of_the_warden_that_cannot_be_read_does_not_take_others_along(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    os.write(bench.pipe, b"garbage\n71 256\n1 2 3\n72 9\n")
    assert bench.orphans.code(72, 10.0) == -9
    assert bench.orphans.code(71, 10.0) == 1
    assert caplog.text.count("thread.failed: warden: ValueError") == 2
