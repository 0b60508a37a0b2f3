"""Starting programs of a task: session, control group, resource limits, user, output."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..output import Stream
from ..run import Identity, identity, kill_session
from ..runtime import TaskError
from ..sessions.task_input import TaskInput
from .census import MARK, Census
from .limits import Enforcement, Rlimit

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")
"""Variables that a task inherits from the environment of the executor: none that could be confidential."""
TERMINAL = "xterm"
"""Value of TERM for programs with a terminal, as container engines set it."""
STEP = 0.05
"""Seconds between looks at whether a command was given up meanwhile."""

USUAL = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that programs can rely on, also where the agent was started by something that ignores them (nohup)."""


def base_environment(who: Identity, user: str) -> dict[str, str]:
    found = {"PATH": PATH, **{name: os.environ[name] for name in PASSED_ON if os.environ.get(name)}}
    found["HOME"] = who.home
    if user:
        found["USER"] = found["LOGNAME"] = user.partition(":")[0]
    return found


@dataclass
class Launcher:
    """Starts the programs of one task. `environment` may be changed between starts."""

    task: str
    census: Census
    enforcement: Enforcement
    user: str
    rlimits: tuple[Rlimit, ...]
    working_dir: Path
    environment: dict[str, str]
    stdout: Stream
    stderr: Stream
    input: TaskInput | None = None
    """Input of the main program; None = no input, as all other programs have."""

    def full_environment(self) -> dict[str, str]:
        return {
            **base_environment(identity(self.user), self.user),
            **self.environment,
            MARK: self.census.mark(self.task),
        }

    def start(self, argv: Sequence[str], *, main: bool = False) -> subprocess.Popen[bytes]:
        """Starts a program in a session of its own, so that its process group is its pid. `main`: the program gets the
        input of the task. Raises TaskError."""
        given = self.input if main else None
        terminal = given is not None and given.terminal
        if not argv or not argv[0]:
            raise TaskError("there is no command to run")
        if not self.working_dir.is_dir():
            raise TaskError(f"the working directory {self.working_dir} does not exist")
        try:
            process = subprocess.Popen(
                list(argv),
                env={**({"TERM": TERMINAL} if terminal else {}), **self.full_environment()},
                cwd=self.working_dir,
                stdin=subprocess.DEVNULL if given is None else given.reading,
                stdout=self.stdout.descriptor,
                stderr=self.stdout.descriptor if terminal else self.stderr.descriptor,
                start_new_session=True,
                preexec_fn=self.preparation(become=True, given=given),
            )
        except OSError as error:
            raise TaskError(f"cannot start {argv[0]}: {error.strerror or error}") from None
        except (ValueError, subprocess.SubprocessError) as error:
            raise TaskError(f"cannot start {argv[0]}: {error}") from None
        self.census.leader(self.task, process.pid)
        return process

    def preparation(self, become: bool, given: TaskInput | None = None) -> Callable[[], None]:
        """Actions of the child before it becomes the program: system calls only, because other threads of the executor
        may have held locks when it was forked. `given`: the input on standard input."""
        who = identity(self.user)
        members = os.path.join(self.enforcement.path, "cgroup.procs") if self.enforcement.path else ""
        rlimits = self.rlimits

        def prepare() -> None:
            for number in USUAL:
                signal.signal(number, signal.SIG_DFL)
            if members:
                descriptor = os.open(members, os.O_WRONLY)
                os.write(descriptor, b"0")
                os.close(descriptor)
            for limit in rlimits:
                resource.setrlimit(limit.number, (limit.soft, limit.hard))
            if given is not None:
                given.take(who.uid, who.own)
            if become and not who.own:
                os.setgroups(who.groups)
                os.setgid(who.gid)
                os.setuid(who.uid)

        return prepare

    def line(self, line: str, timeout: float, given_up: Callable[[], bool] = bool) -> int | None:
        """Runs a line of the shell to its end; processes that it left continue to run. Returns its exit code; None = it
        was killed, with all that was still in its session, after `timeout` seconds or because it was given up. Raises
        TaskError."""
        process = self.start(["/bin/sh", "-c", line])
        deadline = time.monotonic() + timeout
        try:
            while True:
                try:
                    return process.wait(STEP)
                except subprocess.TimeoutExpired:
                    if time.monotonic() < deadline and not given_up():
                        continue
                kill_session(process.pid)
                process.wait()
                return None
        finally:
            self.census.left(self.task, process.pid)


def signal_group(leader: int, number: int) -> bool:
    """False = the group is empty."""
    try:
        os.killpg(leader, number)
    except OSError:
        return False
    return True


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
