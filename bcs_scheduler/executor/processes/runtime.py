"""A task made of processes: the Runtime for the kinds `command` and `process`."""

from __future__ import annotations

import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ..content.files import inside, write
from ..content.preparation import prepared
from ..model import Amounts, Detail, Group, Task
from ..output import Index
from ..run import identity, run
from ..runtime import Exit, Output, TaskError
from ..sessions.attached import Attached
from ..sessions.contexts import Context, SessionRequest
from ..sessions.task_input import TaskInput, check_input, duplicate
from ..taskgroup.host import Host
from . import process_tree
from .limits import MEGABYTE, Enforcement, rlimits
from .programs import Daemon, Program, program_of, run_line
from .signals import named, send_signal
from .spawn import Launcher, base_environment

log = logging.getLogger("executor")

SWEEP = 0.02
SLOWEST_SWEEP = 0.2
"""Seconds between two looks at whether the processes to be ended have gone: at first, and after a long wait."""
STUBBORN = 10.0
"""Seconds after which processes that do not die of SIGKILL (uninterruptible sleep) are waited for no longer."""


class ProcessRuntime:
    """One thread starts it and waits for its end; `start` comes once."""

    def __init__(self, task: Task, group: Group, directory: Path, host: Host, changed: Callable[[], None]) -> None:
        """`changed` is called when the detail is another."""
        self._task = task
        self._group = group
        self._directory = directory
        self._host = host
        self._changed = changed
        self._enforcement = Enforcement(host.cgroup, task.id)
        self._launcher: Launcher | None = None
        self._program: Program | None = None
        self._index: Index | None = None
        self._input: TaskInput | None = None
        self.attached = Attached()
        self._stopping = threading.Event()
        self._gone = threading.Event()
        """Set when nothing of the task is left."""
        self._state = threading.Condition()
        self._started = self._over = self._restarting = False
        """`_over`: the program has ended and is not being restarted; the rest is being cleared away."""
        self._generation = 0
        """Restarts so far."""
        self._failure = ""
        """Reason of the end, where the exit code does not say it."""
        self._exceeded = False
        """True if the task was ended for its memory."""
        self._deadline = float("inf")
        """Monotonic time at which a task that is to end is killed."""
        self._detail = Detail(container_ip=group.agent_ip)

    # ---- life

    def start(self) -> None:
        with self._state:
            self._started = True
        try:
            self._refuse_if_stopping()
            self._host.census.join(self._task.id, self._enforcement.path)
            self._enforcement.apply(self._task.requests, self._task.limits)
            self._launcher = self._prepare()
            self._refuse_if_stopping()
            self._program = self._new_program(self._launcher)
            self._program.start(self._stopping.is_set)
        except BaseException:
            self._clear_away()
            raise
        with self._state:
            self._detail = replace(self._detail, started_at=time.time())
        self._host.observe(self)
        if self._stopping.is_set():
            self._ask_to_end(self._program, self._deadline - time.monotonic(), self._past_deadline)

    def _refuse_if_stopping(self) -> None:
        if self._stopping.is_set():
            raise TaskError("ended before it was started")

    def _prepare(self) -> Launcher:
        # The files are opened first, so that readers find them in their place even if the preparation fails.
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            bounds = self._group.log_max_bytes, self._group.log_files
            self._index = Index(self._directory, *bounds, self.attached.ring)
            self._index.begin()
            self._input = TaskInput(self._task.tty, self._task.stdin_once) if self._task.stdin else None
            terminal = self._input.terminal_pair if self._input is not None else None
            stdout = self._host.pump.open(self._directory / "stdout", *bounds, self._index, 0, terminal)
            stderr = self._host.pump.open(self._directory / "stderr", *bounds, self._index, 1)
        except OSError as error:
            raise TaskError(f"directory of the task: {error.strerror}") from None
        working_dir, limits = self._directory / self._task.working_dir, rlimits(self._task.parameters)
        own = (self._task.id, self._host.census, self._enforcement, self._task.user, limits)
        launcher = Launcher(*own, working_dir, {}, stdout, stderr, self._input)
        self._launcher = launcher
        launcher.environment = prepared(self._task, self._group, self._directory, self._stopping, self._host.secrets)
        return launcher

    def _new_program(self, launcher: Launcher) -> Program:
        return program_of(self._task, self._directory, launcher, self._host.orphans)

    def wait(self) -> Exit:
        while True:
            with self._state:
                program, generation = self._program, self._generation
            end = program.wait() if program is not None else Exit(None, "not started")
            with self._state:
                self._over = True
                self._state.notify_all()
                while self._restarting:
                    self._state.wait()
                if generation == self._generation:
                    break
                self._over = False
        if self._failure:
            end = Exit(end.code, self._failure, self._exceeded)
        elif end.code != 0 and self._enforcement.out_of_memory():
            words = self._enforcement.words
            end = Exit(end.code, f"out of memory: killed by the kernel at its limit of {words}", True)
        left = self._clear_away()
        if left:
            end = Exit(end.code, f"{end.message}; {left}" if end.message else left, end.oom)
        pid = program.pid if program is not None else 0
        with self._state:
            self._detail = replace(
                self._detail, pid=pid, exit_code=end.code, oom=end.oom, restarting=False, finished_at=time.time()
            )
        self.attached.end(end.code)
        return end

    def stop(self, grace: float) -> None:
        with self._state:
            self._deadline = min(self._deadline, time.monotonic() + grace)
            first = not self._stopping.is_set()
            self._stopping.set()
            self._state.notify_all()
            if not self._started:
                return
        program = self._program
        if first and program is not None and not self._over:
            self._ask_to_end(program, grace, self._past_deadline)
        with self._state:
            while not self._over and not self._gone.is_set() and not self._past_deadline():
                self._state.wait(self._deadline - time.monotonic())
        if not self._gone.is_set():
            self._kill()
        self._gone.wait()

    def _ask_to_end(self, program: Program, timeout: float, given_up: Callable[[], bool]) -> None:
        try:
            program.ask_to_end(max(0.0, timeout), given_up)
        except TaskError as error:
            log.warning("task %s: stop command: %s", self._task.id, error)

    def _past_deadline(self) -> bool:
        return self._over or time.monotonic() >= self._deadline

    def _kill(self) -> None:
        """Kills the task after the grace period. Processes that the program started have the grace period too, also
        when the program ended first. Raises TaskError if processes do not die."""
        while not self._gone.is_set() and time.monotonic() < self._deadline:
            self._gone.wait(SWEEP)
        if self._gone.is_set():
            return
        if self._program is not None and not self._over:
            self._kill_program(self._program)
        given_up = time.monotonic() + STUBBORN
        while not self._gone.is_set():
            if time.monotonic() > given_up:
                raise TaskError(self._left())
            self._host.census.kill(self._task.id)
            self._gone.wait(SWEEP)

    def _kill_program(self, program: Program) -> None:
        try:
            program.kill()
        except TaskError as error:
            log.warning("task %s: kill command: %s", self._task.id, error)

    def _left(self) -> str:
        """Words about the processes that do not die; empty = nothing is left."""
        pids = [str(item.pid) for item in self._host.census.members(self._task.id)]
        return f"could not be killed: process {', '.join(pids)}" if pids else ""

    def _clear_away(self) -> str:
        """Ends all processes that the program left behind, with SIGTERM first; then closes the files. Returns
        `_left`."""
        members = self._host.census.members(self._task.id)
        for item in members:
            process_tree.send(item.pid, signal.SIGTERM)
        deadline, pause = time.monotonic() + self._group.grace_period, SWEEP
        while members and time.monotonic() < min(deadline, self._deadline):
            time.sleep(max(0.0, min(pause, self._deadline - time.monotonic())))
            pause = min(2 * pause, SLOWEST_SWEEP)
            members = self._host.census.members(self._task.id)
        left = self._wipe_out(lambda: self._host.census.leave(self._task.id))
        if self._input is not None:
            self._input.close()  # first: a terminal that is open has no end of its output
        if self._launcher is not None:
            self._launcher.stdout.close()
            self._launcher.stderr.close()
        if self._index is not None:
            self._index.close()
        self._enforcement.remove()
        with self._state:
            self._over = True
            self._gone.set()
            self._state.notify_all()
        return left

    def _wipe_out(self, done: Callable[[], bool] = lambda: True) -> str:
        """SIGKILL until nothing is left and it is `done`, for STUBBORN seconds at most. Returns `_left`."""
        given_up = time.monotonic() + STUBBORN
        while not (self._host.census.kill(self._task.id) and done()):
            if time.monotonic() > given_up:
                return self._left()
            time.sleep(SWEEP)
        return ""

    def look(self) -> bool:
        """See Observed."""
        if self._gone.is_set():
            self._host.disregard(self)
            return False
        if self._enforcement.path and not self._enforcement.watched:
            return False
        used = self._host.census.memory(self._task.id)
        if self._enforcement.exceeded(used):
            limit = self._enforcement.words
            self._exceeded = True
            self._failure = f"out of memory: {used / MEGABYTE:.0f} MB used, the limit is {limit}"
            self._host.census.kill(self._task.id)
        return self._enforcement.exceeded(2 * used)

    # ---- calls while it runs

    def detail(self) -> Detail:
        with self._state:
            known, program = self._detail, self._program
            if program is None or known.finished_at:
                return known
            return replace(known, pid=program.pid, restarting=self._restarting)

    def address(self) -> str:
        return self._group.agent_ip or "127.0.0.1"

    def _running(self) -> Launcher:
        if self._launcher is None or not self._detail.started_at or self._over:
            raise TaskError("the task does not run")
        return self._launcher

    def execute(
        self,
        argv: Sequence[str],
        *,
        env: dict[str, str],
        user: str = "",
        working_dir: str = "",
        privileged: bool = False,
        timeout: float,
        limit: int,
    ) -> Output:
        launcher = self._running()
        user = user or self._task.user
        return run(
            argv,
            env={**launcher.full_environment(), **(base_environment(identity(user), user) if user else {}), **env},
            cwd=self._directory / (working_dir or launcher.working_dir),
            user=user,
            timeout=timeout,
            limit=limit,
            setup=launcher.preparation(become=False),
            stopping=self._gone,
            below=self._host.census.supervisor,
        )

    def context(self, wanted: SessionRequest, pid: int) -> Context:
        launcher = self._running()
        self._host.census.becoming(pid)
        user = wanted.user or self._task.user
        who = identity(user)
        return Context(
            environment={**launcher.full_environment(), **(base_environment(who, user) if wanted.user else {})},
            directory=str(self._directory / (wanted.working_dir or launcher.working_dir)),
            uid=who.uid,
            gid=who.gid,
            groups=who.groups,
            change_user=not who.own,
            rlimits=tuple((limit.number, limit.soft, limit.hard) for limit in launcher.rlimits),
            control_group=launcher.enforcement.path,
            output=str(self._directory),
            hosts=tuple(dict.fromkeys(("127.0.0.1", self.address()))),
        )

    def input(self, wanted: SessionRequest) -> int:
        self._running()
        check_input(self._task, wanted)
        return duplicate(self._input)

    def guard(self, wanted: SessionRequest, connection: socket.socket) -> None:
        connection.close()  # the agent ends programs that run beside processes

    def put(self, path: str, data: bytes, mode: int, owner: str) -> None:
        self._running()
        write(inside(path, self._directory), data, mode, owner or self._task.user, within=self._directory)

    def signal(self, number: int, process: str) -> None:
        self._running()
        pids = named(self._host.census.members(self._task.id), process) if process else [self.detail().pid]
        send_signal(pids, number)

    def set_env(self, name: str, value: str) -> None:
        launcher = self._running()
        launcher.environment = {**launcher.environment, name: value}

    def restart(self, timeout: float) -> None:
        launcher = self._running()
        with self._state:
            if self._restarting or self._stopping.is_set():
                raise TaskError("the task is being restarted" if self._restarting else "the task is to end")
            self._restarting = True
            old = self._program
        self._changed()
        succeeded = False
        try:
            if isinstance(self._program, Daemon) and self._task.process.restart:
                self._program.command("restart", self._task.process.restart, timeout, self._stopping.is_set)
            elif self._task.process.restart:
                run_line("restart", launcher, self._task.process.restart, timeout, self._stopping.is_set)
            else:
                self._again(launcher, timeout)
            succeeded = True
        finally:
            with self._state:
                if succeeded:
                    if self._program is not old or isinstance(old, Daemon):  # otherwise the old program ends the task
                        self._generation += 1
                        self._failure, self._exceeded = "", False
                    self._detail = replace(self._detail, started_at=time.time())
                self._restarting = False
                self._state.notify_all()
            self._changed()

    def _again(self, launcher: Launcher, timeout: float) -> None:
        """Ends the program and all of it, and starts it anew."""
        old, deadline = self._program, time.monotonic() + min(self._group.grace_period, timeout)
        if old is not None:
            self._ask_to_end(old, timeout, lambda: self._over or self._stopping.is_set() or time.monotonic() > deadline)
        with self._state:
            while not self._over and not self._stopping.is_set() and time.monotonic() < deadline:
                self._state.wait(SWEEP)
        if not self._over and old is not None:
            self._kill_program(old)
        left = self._wipe_out()
        self._refuse_if_stopping()
        try:
            if left:
                raise TaskError(left)
            fresh = self._new_program(launcher)
            fresh.start(self._stopping.is_set)
        except TaskError as error:
            self._failure = f"could not be started again: {error}"
            raise
        with self._state:
            self._program = fresh
        if self._stopping.is_set():
            # `_over` still says that the old program has ended.
            self._ask_to_end(fresh, self._deadline - time.monotonic(), lambda: time.monotonic() >= self._deadline)

    def reload(self, timeout: float) -> None:
        if self._task.process.reload:
            run_line("reload", self._running(), self._task.process.reload, timeout, self._stopping.is_set)
        else:
            self.signal(signal.SIGHUP, "")

    def limit(self, cpus: int, mem: int) -> str:
        self._running()
        used = self._host.census.memory(self._task.id) if mem else 0
        return self._enforcement.change(Amounts(cpus, mem), used)

    def commit(self, target: str, user: str, password: str, timeout: float) -> str:
        raise TaskError("only a container can be committed as an image")
