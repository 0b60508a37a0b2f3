"""The two shapes of a process task: a program in the foreground, and a daemon that is found by its pid file."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from .. import model
from ..runtime import Exit, TaskError
from . import process_tree
from .orphans import Orphans
from .spawn import Launcher, signal_group, signal_name

COMMAND_TIMEOUT = 60.0
"""Seconds for a start command to return."""
KILL_TIMEOUT = 5.0
"""Seconds for a kill command."""
PATIENCE = 5.0
"""Seconds in which a daemon must be found after its start command has returned, unless its start grace is longer."""
LIVENESS_INTERVAL = 5.0
CHECK_FAILURES = 3
"""Failures in a row of the check command that end a daemon as failed."""
POLL = 0.05
REPORT = 0.5
"""Seconds within which the supervisor reports the end of a process that is seen to be gone."""

PID_FILE_BYTES = 32

GivenUp = Callable[[], bool]


class Program(Protocol):
    """The program of a process task. One thread starts it and waits, others ask it to end."""

    @property
    def pid(self) -> int:
        """Pid of the main process; 0 = not started."""

    def start(self, given_up: GivenUp) -> None:
        """Returns when it runs. Raises TaskError."""

    def wait(self) -> Exit:
        """Blocks until it has ended or must be counted as failed."""

    def ask_to_end(self, timeout: float, given_up: GivenUp) -> None:
        """Politely; its end is not waited for."""

    def kill(self) -> None:
        """Actions before everything of the task is killed."""


def ended(code: int | None) -> Exit:
    if code is None:
        return Exit(None, "the process has ended; its exit code is unknown")
    if code < 0:
        return Exit(code, f"ended by {signal_name(-code)}")
    return Exit(code, f"exit code {code}" if code else "")


class Foreground:
    """The program that was started is the task."""

    def __init__(self, launcher: Launcher, argv: Sequence[str], stop: str = "", kill: str = "") -> None:
        """`stop` and `kill` are lines for the shell, empty = SIGTERM and SIGKILL alone."""
        self._launcher = launcher
        self._argv = argv
        self._stop = stop
        self._kill = kill
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def start(self, given_up: GivenUp) -> None:
        self._process = self._launcher.start(self._argv, main=True)

    def wait(self) -> Exit:
        if self._process is None:
            return Exit(None, "not started")
        return ended(self._process.wait())

    def ask_to_end(self, timeout: float, given_up: GivenUp) -> None:
        if self._stop:
            self._launcher.line(self._stop, timeout, given_up)
        elif self._process is not None and self._process.returncode is None:
            signal_group(self._process.pid, signal.SIGTERM)

    def kill(self) -> None:
        if self._kill:
            self._launcher.line(self._kill, KILL_TIMEOUT)


def _content(pid_file: Path) -> str:
    """Reads the pid file. The task may have put anything there: a pipe without a writer, a device without end. Raises
    OSError."""
    descriptor = os.open(pid_file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        return os.read(descriptor, PID_FILE_BYTES).decode(errors="replace")
    finally:
        os.close(descriptor)


class Daemon:
    """Started by a command that returns; its pid is in a file, the name of its program is known."""

    def __init__(self, launcher: Launcher, process: model.Process, pid_file: Path, orphans: Orphans) -> None:
        self._launcher = launcher
        self._process = process
        self._pid_file = pid_file
        self._orphans = orphans
        self._found: process_tree.Process | None = None
        self._end: Exit | None = None
        self._lock = threading.Lock()
        """Serializes the thread that waits and threads that restart."""
        self._checks_from = 0.0

    @property
    def pid(self) -> int:
        return self._found.pid if self._found is not None else 0

    def start(self, given_up: GivenUp) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._pid_file)
        self.command("start", self._process.start, COMMAND_TIMEOUT, given_up)

    def command(self, name: str, line: str, timeout: float, given_up: GivenUp) -> None:
        """Runs a command after which the daemon must be there: `start` or `restart`. Raises TaskError."""
        code = self._launcher.line(line, timeout, given_up)
        if given_up():
            raise TaskError(f"the {name} command was given up: the task is to end")
        if code is None:
            raise TaskError(f"the {name} command did not return within {timeout:g} s")
        if code != 0:
            raise TaskError(f"the {name} command failed: {ended(code).message}")
        self._appear(given_up)

    def _appear(self, given_up: GivenUp) -> None:
        returned = time.monotonic()
        while True:
            found, reason = self._look()
            if found is not None:
                break
            if given_up() or time.monotonic() > returned + max(self._process.start_grace, PATIENCE):
                raise TaskError(f"the daemon did not appear: {reason}")
            time.sleep(POLL)
        with self._lock:
            self._end = None
            self._found = found
        self._checks_from = returned + self._process.start_grace

    def _look(self) -> tuple[process_tree.Process | None, str]:
        """The daemon if it is alive, or why it is not thought to be."""
        try:
            text = _content(self._pid_file).strip()
        except OSError as error:
            return None, f"pid file {self._pid_file}: {error.strerror}"
        if not text.isascii() or not text.isdecimal():
            return None, f"pid file {self._pid_file}: not a number"
        found = process_tree.process(int(text))
        if found is None or found.dead:
            return None, f"there is no process {text}"
        program = process_tree.executable(found.pid)
        # A script is known by the name of its process; its program file is the interpreter.
        if self._process.name and self._process.name not in (program, found.name):
            return None, f"process {text} is {program or found.name}, not {self._process.name}"
        return found, ""

    def wait(self) -> Exit:
        failures = 0
        while self._end is None and self._found is not None:
            pid = self._found.pid
            code = self._orphans.code(pid, LIVENESS_INTERVAL)
            found, _ = self._look()
            if found is None or (code is not None and found.pid == pid):
                code = self._orphans.code(pid, REPORT) if code is None else code
            with self._lock:
                if found is not None and (code is None or found.pid != pid):
                    self._found = found  # a daemon may replace itself
                elif self._found.pid == pid:  # otherwise it was restarted meanwhile
                    self._end = ended(code)
                    break
            failures = failures + 1 if self._unwell() else 0
            if failures >= CHECK_FAILURES:
                self._end = Exit(None, f"the check command failed {failures} times in a row")
        return self._end or Exit(None, "not started")

    def _unwell(self) -> bool:
        if not self._process.check or time.monotonic() < self._checks_from:
            return False
        try:
            return self._launcher.line(self._process.check, 2 * LIVENESS_INTERVAL) != 0
        except TaskError:
            return True

    def ask_to_end(self, timeout: float, given_up: GivenUp) -> None:
        if self._process.stop:
            self._launcher.line(self._process.stop, timeout, given_up)
        elif self._alive() and not (self._leads() and signal_group(self.pid, signal.SIGTERM)):
            process_tree.send(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        if self._process.kill:
            self._launcher.line(self._process.kill, KILL_TIMEOUT)
        if self._alive():  # also a program that a process outside the task has started
            process_tree.send(self.pid, signal.SIGKILL)

    def _leads(self) -> bool:
        """True if its process group is its own."""
        return self._found is not None and self._found.group == self._found.pid

    def _alive(self) -> bool:
        now = process_tree.process(self.pid) if self._found is not None else None
        return now is not None and self._found is not None and now.identity == self._found.identity and not now.dead


def program_of(task: model.Task, directory: Path, launcher: Launcher, orphans: Orphans) -> Program:
    """The program of a task of kind `command` or `process`, not started."""
    process, command = task.process, task.command
    if task.kind == "process":
        if process.pid_file:
            return Daemon(launcher, process, directory / process.pid_file, orphans)
        return Foreground(launcher, ("/bin/sh", "-c", process.start), process.stop, process.kill)
    return Foreground(launcher, ("/bin/sh", "-c", command.value) if command.shell else command.argv)


def run_line(name: str, launcher: Launcher, line: str, timeout: float, given_up: GivenUp) -> None:
    """Runs a shell command of the task, such as its reload command. Raises TaskError if the command fails or is given
    up. `timeout`: seconds."""
    code = launcher.line(line, timeout, given_up)
    if code != 0:
        reason = "it was given up" if code is None else f"exit code {code}"
        raise TaskError(f"the {name} command failed: {reason}")
