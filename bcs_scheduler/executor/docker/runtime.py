"""One container as a task of the executor (..runtime.Runtime): made, started, watched, changed, ended and removed.

One thread starts the container, one watches it from then on until nothing of it is left, one copies its output.
`_changed` guards their shared fields and notifies the others of every change.
"""

from __future__ import annotations

import contextlib
import logging
import math
import pathlib
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from .. import threads
from ..content import fetch, files
from ..model import Amounts, Detail, Group, Task
from ..output import Index, RotatedFile
from ..runtime import Exit, Output, TaskError
from ..sessions.attached import Attached
from ..sessions.contexts import Context, SessionRequest
from ..sessions.task_input import check_input
from . import archive, command, note, output, translate
from .creation import create, make_volumes, remove_any
from .engine import TIMEOUT, Engine, EngineAbsent, EngineAway, EngineError, EngineSilent, NotFound
from .images import Images
from .reap import forget, sweep
from .signals import send_signal
from .state import State, exit_of, state_of

log = logging.getLogger(__name__)
T = TypeVar("T")

AWAY = 300.0
"""Seconds for which an engine that has gone away is waited for; its containers may run on meanwhile."""
AWAY_AT_START = 30.0
PAUSE = 1.0
"""Seconds between attempts to reach it."""
LOOK = 30.0
"""Seconds after which the end of a container is asked for anew: an engine that hangs does not end the old question."""
LAST_OUTPUT = 5.0
"""Seconds that the rest of the output gets to arrive after the end."""


class ContainerRuntime:
    def __init__(self, task: Task, group: Group, directory: pathlib.Path) -> None:
        """`directory`: the task's own, `tasks/<task id>` in the executor's sandbox."""
        self._task, self._group, self._directory = task, group, directory
        self._engine = Engine(group.docker)
        self._images = Images(self._engine)
        self._network = translate.network_of(task)
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._begun = self._launched = False
        self._id = ""
        self._restarting = False
        self._kill_at = 0.0
        """Monotonic seconds, once it is stopping."""
        self._exit: Exit | None = None
        self._detail = Detail()
        self._stop_signal = "SIGTERM"
        self._owner = task.user
        self._remote: dict[str, str] = {}
        self._env: dict[str, str] = {}  # set by messages
        self._env_in_use: dict[str, str] = {}
        self._files: dict[str, tuple[bytes, int, str]] = {}
        """Put into the container so far: those of the task and those of messages."""
        self._follower: output.OutputReader | None = None
        self._failure = ""
        self.attached = Attached()
        self._index = Index(directory, group.log_max_bytes, group.log_files, self.attached.ring)
        self._outputs = tuple(
            RotatedFile(directory / name, group.log_max_bytes, group.log_files, self._index, number)
            for number, name in enumerate(("stdout", "stderr"))
        )

    # --- start ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        with self._changed:
            self._begun = True
        try:
            self._prepare()
            self._patiently(lambda: self._images.provide(self._task.container), AWAY_AT_START)
            self._patiently(self._create, AWAY_AT_START)
            self._launch()
        except (TaskError, OSError) as error:
            self._discard()
            self._over(Exit(None, str(error)))
            if isinstance(error, OSError):
                raise TaskError(f"the task's directory cannot be used: {error}") from None
            raise

    def _prepare(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._index.begin()
        note.leave(str(self._directory.parents[1]), self._group.docker, self._group.taskgroup)
        with contextlib.suppress(EngineError):  # remains of others; the pull of the image reports a missing engine
            sweep(self._engine)
        make_volumes(self._task, self._group, self._directory)
        fetch.fetch_all(self._task.uris, self._directory, self._stopping)
        self._remote = files.variables(self._task.remote_env, self._stopping)
        for file in self._task.files:
            self._files[file.path] = (files.content(file, self._stopping), file.mode, file.owner)

    def _create(self) -> None:
        """A new container with everything in it. One of the same name is a leftover of an earlier attempt."""
        env = translate.complete_env(self._task, self._group, {**self._remote, **self._env})
        create(self._engine, self._task, self._group, self._directory, env, self._made)
        state = self._inspect()
        self._stop_signal, self._env_in_use = state.stop_signal, dict(self._env)
        self._owner = self._task.user or state.user
        for path, (data, mode, owner) in self._files.items():
            archive.put(self._engine, self._id, path, data, mode, owner or self._owner)

    def _made(self, identity: str) -> None:
        with self._changed:
            self._id = identity

    def _launch(self) -> None:
        if self._stopping.is_set():
            raise TaskError("stopped before it ran")
        self._follower = output.start(self._engine, self._id, self._write, self._task)
        self._note(self._inspect())
        with self._changed:
            self._launched = True
            self._changed.notify_all()
        threads.ending("container", self._watch).start()

    # --- end --------------------------------------------------------------------------------------------------

    def wait(self) -> Exit:
        with self._changed:
            self._changed.wait_for(lambda: self._exit is not None)
            assert self._exit is not None
            return self._exit

    def stop(self, grace: float) -> None:
        with self._changed:
            first = not self._stopping.is_set()
            self._stopping.set()
            at = time.monotonic() + grace
            self._kill_at = at if first else min(self._kill_at, at)
            if not self._begun and self._exit is None:
                self._exit = Exit(None, "stopped before it was started")
            self._changed.notify_all()
        self._images.cancel()
        if first:
            self._terminate()
        self.wait()

    def _terminate(self) -> None:
        """Asks, waits for the grace period, which may be cut meanwhile, and kills until the watch has seen the end: the
        engine may be away, or just restarting the container."""
        with self._changed:
            self._changed.wait_for(lambda: self._launched or self._exit is not None)
        asked = False
        while self._exit is None and time.monotonic() < self._kill_at:
            asked = asked or self._send(self._stop_signal)
            self._pause(min(PAUSE, self._kill_at - time.monotonic()))
        while self._exit is None:
            self._send("SIGKILL")
            self._pause(PAUSE)

    def _pause(self, seconds: float) -> None:
        """Shorter if something changes."""
        with self._changed:
            if self._exit is None:
                self._changed.wait(max(0.0, seconds))

    def _send(self, signal: str) -> bool:
        """Sends a signal; False if the engine is away. The watch finds out whether the signal had a receiver."""
        try:
            self._engine.call("POST", f"/containers/{self._id}/kill", {"signal": signal})
        except EngineAway:
            return False
        except EngineError:
            pass
        return True

    def _watch(self) -> None:
        """Until the container has ended for good."""
        try:
            ended = self._await_end()
        except Exception as error:
            # The cause is in the log; the text of an unforeseen error may quote confidential content.
            log.exception("the watch of a container failed")
            ended = Exit(None, f"the watch of the container failed: {type(error).__name__}")
        follower = self._follower
        if follower is not None:
            threads.guarded("container", lambda: follower.finish(LAST_OUTPUT))
        threads.guarded("container", lambda: self._discard(keep=translate.keeps_container(self._task)))
        self._over(ended)

    def _await_end(self) -> Exit:
        while True:
            try:
                state = self._patiently(self._next_state, AWAY)
            except NotFound:
                return Exit(None, self._failure or "the container was removed from outside")
            except EngineError as error:
                return Exit(None, f"lost: {error}")
            if not state.running:
                self._note(state)
                return exit_of(state)

    def _next_state(self) -> State:
        """After the container has stopped running, or LOOK seconds. A restart on request is waited for: it may bring
        another container. Raises NotFound if there is none any more."""
        with contextlib.suppress(NotFound, EngineSilent):
            self._engine.call("POST", f"/containers/{self._id}/wait", timeout=LOOK)
        with self._changed:
            self._changed.wait_for(lambda: not self._restarting)
        return self._inspect()

    def _discard(self, keep: bool = False) -> None:
        """Ends the container, empties its secret files, and removes it unless `keep`. Errors are logged."""
        secrets = [file.path for file in self._task.files if file.secret]
        if self._id and (keep or secrets):
            self._send("SIGKILL")
        try:
            if self._id and secrets:
                self._patiently(lambda: forget(self._engine, self._id, secrets), AWAY_AT_START)
        except EngineError as error:
            log.error("secrets of a container may be left behind: %s", error)
        try:
            if self._id and not keep:
                self._patiently(lambda: remove_any(self._engine, self._id), AWAY_AT_START)
        except EngineError as error:
            log.error("a container could not be removed: %s", error)

    def _over(self, ended: Exit) -> None:
        for close in (*(file.close for file in self._outputs), self._index.close):
            threads.guarded("container", close)
        with self._changed:
            self._detail = replace(self._detail, pid=0, exit_code=ended.code, oom=ended.oom, restarting=False)
            self._exit = self._exit or ended
            self._changed.notify_all()
        self.attached.end(ended.code)

    # --- the known state --------------------------------------------------------------------------------------

    def detail(self) -> Detail:
        with self._changed:
            return replace(self._detail, container_id=self._id, restarting=self._restarting)

    def address(self) -> str:
        if self._network == "host":
            return self._group.agent_ip or "127.0.0.1"
        with self._changed:
            return self._detail.container_ip or "127.0.0.1"

    # --- while it runs ----------------------------------------------------------------------------------------

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
        return command.execute(
            self._engine,
            self._running(),
            argv,
            env=env,
            user=user,
            working_dir=working_dir,
            privileged=privileged,
            timeout=timeout,
            limit=limit,
        )

    def context(self, wanted: SessionRequest, pid: int) -> Context:
        found = self._running()
        hosts = tuple(dict.fromkeys(filter(None, (self.address(), "127.0.0.1"))))
        return Context(engine=self._group.docker, container=found, output=str(self._directory), hosts=hosts)

    def input(self, wanted: SessionRequest) -> None:
        self._running()
        check_input(self._task, wanted)

    def guard(self, wanted: SessionRequest, connection: socket.socket) -> None:
        threads.ending("guard", partial(command.guard, self._engine, wanted.guard, wanted.mark, connection)).start()

    def put(self, path: str, data: bytes, mode: int, owner: str) -> None:
        archive.put(self._engine, self._running(), path, data, mode, owner or self._owner)
        with self._changed:
            self._files[path] = (data, mode, owner)

    def signal(self, number: int, process: str) -> None:
        send_signal(self._engine, self._running(), number, process)

    def set_env(self, name: str, value: str) -> None:
        with self._changed:
            self._env[name] = value

    def restart(self, timeout: float) -> None:
        """Restarts the container. With a changed environment another container replaces it, because an engine cannot
        change the environment of an existing container. Data that the old container has written outside volumes and
        sandbox is lost then; the files that were given to it are not lost."""
        identity = self._running()
        with self._changed:
            if self._restarting:
                raise TaskError("it is being restarted already")
            self._restarting = True
        try:
            if self._env != self._env_in_use:
                self._replace(identity)
            elif self._task.stdin:
                self._stop_for_restart(identity)
                self._follower = output.start(self._engine, identity, self._write, self._task)
            else:
                grace = {"t": math.ceil(self._group.grace_period)}
                self._engine.call("POST", f"/containers/{identity}/restart", grace, timeout=timeout)
            self._note(self._inspect())
        except TaskError as error:
            self._failure = f"the restart failed: {error}"
            raise
        finally:
            with self._changed:
                self._restarting = False
                self._changed.notify_all()

    def _replace(self, identity: str) -> None:
        self._stop_for_restart(identity)
        remove_any(self._engine, identity)
        self._create()
        if self._stopping.is_set():
            raise TaskError("stopped while it was restarted")
        self._follower = output.start(self._engine, self._id, self._write, self._task)

    def _stop_for_restart(self, identity: str) -> None:
        grace = math.ceil(self._group.grace_period)
        self._engine.call("POST", f"/containers/{identity}/stop", {"t": grace}, timeout=grace + TIMEOUT)
        if self._follower is not None:
            self._follower.finish(LAST_OUTPUT)

    def reload(self, timeout: float) -> None:
        self._engine.call("POST", f"/containers/{self._running()}/kill", {"signal": "SIGHUP"}, timeout=timeout)

    def limit(self, cpus: int, mem: int) -> str:
        changes = translate.limits(cpus, mem)
        if not changes:
            raise TaskError("neither a CPU limit nor a memory limit that could be enforced is given")
        self._engine.call("POST", f"/containers/{self._running()}/update", None, changes)
        with self._changed:
            old = self._task.limits
            self._task = replace(self._task, limits=Amounts(cpus or old.cpus, mem or old.mem))
        return ""

    def commit(self, target: str, user: str, password: str, timeout: float) -> str:
        return self._images.commit(self._running(), target, user, password, timeout)

    # --- helpers ----------------------------------------------------------------------------------------------

    def _running(self) -> str:
        """Id of the container. Raises TaskError when there is none that runs."""
        with self._changed:
            if not self._launched or self._exit is not None:
                raise TaskError("the container does not run")
            return self._id

    def _inspect(self) -> State:
        return state_of(self._engine.call("GET", f"/containers/{self._id}/json"), self._network)

    def _note(self, state: State) -> None:
        with self._changed:
            self._detail = replace(
                self._detail,
                pid=state.pid,
                container_ip=self._group.agent_ip if self._network == "host" else state.address,
                started_at=state.started_at,
                finished_at=0.0 if state.running else state.finished_at,
            )

    def _patiently(self, action: Callable[[], T], seconds: float) -> T:
        """Repeats `action` while the engine is away; while the container is being started, not on an agent without an
        engine. Raises the errors of `action`."""
        since = 0.0
        while True:
            try:
                return action()
            except EngineAway as error:
                since = since or time.monotonic()
                hopeless = not self._launched and (isinstance(error, EngineAbsent) or self._stopping.is_set())
                if self._stopping.is_set():
                    seconds = min(seconds, AWAY_AT_START)
                if hopeless or time.monotonic() - since > seconds:
                    raise
            time.sleep(PAUSE)

    def _write(self, stderr: bool, data: bytes) -> None:
        self._outputs[stderr].write(data)
