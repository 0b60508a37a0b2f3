"""A task that only notes what is done with it; commands are real ones."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bcs_scheduler.executor.model import Detail
from bcs_scheduler.executor.run import run
from bcs_scheduler.executor.runtime import Exit, Output, TaskError
from bcs_scheduler.executor.sessions.attached import Attached
from bcs_scheduler.executor.sessions.contexts import Context, SessionRequest


class FakeRuntime:
    def __init__(self, act: Callable[..., Any] = lambda *done: None) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.act = act
        """Called with whatever is done; may wait or raise."""
        self.now = Detail(pid=1, started_at=1.0)
        self.host = "127.0.0.1"
        self.unlimited = ""
        """What it answers to `limit`."""
        self.attached = Attached()
        self._lock = threading.Lock()

    def _note(self, *done: Any) -> Any:
        with self._lock:
            self.done.append(done)
        return self.act(*done)

    def start(self) -> None:
        self._note("start")

    def wait(self) -> Exit:
        return Exit(0)

    def stop(self, grace: float) -> None:
        self._note("stop", grace)

    def detail(self) -> Detail:
        return self.now

    def address(self) -> str:
        return self.host

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
        self._note("execute", tuple(argv), env, user, working_dir, privileged)
        return run(argv, env={"PATH": "/usr/bin:/bin", **env}, cwd=Path("/"), timeout=timeout, limit=limit)

    def context(self, wanted: SessionRequest, pid: int) -> Context:
        raise TaskError("this task runs no programs of sessions")

    def input(self, wanted: SessionRequest) -> int | None:
        raise TaskError("this task has no input")

    def guard(self, wanted: SessionRequest, connection: socket.socket) -> None:
        self._note("guard", wanted.guard)
        connection.close()

    def put(self, path: str, data: bytes, mode: int, owner: str) -> None:
        self._note("put", path, data, mode, owner)

    def signal(self, number: int, process: str) -> None:
        self._note("signal", number, process)

    def set_env(self, name: str, value: str) -> None:
        self._note("set_env", name, value)

    def restart(self, timeout: float) -> None:
        self._note("restart", timeout)

    def reload(self, timeout: float) -> None:
        self._note("reload", timeout)

    def limit(self, cpus: int, mem: int) -> str:
        self._note("limit", cpus, mem)
        return self.unlimited

    def commit(self, target: str, user: str, password: str, timeout: float) -> str:
        self._note("commit", target, user, password, timeout)
        return "sha256:abc"
