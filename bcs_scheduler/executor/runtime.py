"""How the executor drives one task, whatever it is made of: the seam between taskgroup, processes and containers.

A Runtime is used by several threads: one starts it and waits for its end, others probe it, carry out messages, or stop
it. All methods may be called at any time; what makes no sense at the moment raises TaskError with words for the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .model import Detail


class TaskError(Exception):
    """Something could not be done with a task; the message is for users and shows no confidential content."""


@dataclass(frozen=True)
class Exit:
    """How a task ended by itself, or when stopped. `code` negative = by that signal, None = not known."""

    code: int | None
    message: str = ""
    oom: bool = False


@dataclass(frozen=True)
class Output:
    """What a command run beside a task did. Streams are cut to the limit that was asked for."""

    code: int | None
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    timed_out: bool = False


class Runtime(Protocol):
    def start(self) -> None:
        """Fetches, prepares and starts; returns when it runs. Raises TaskError. `stop` makes it give up early."""

    def wait(self) -> Exit:
        """Blocks until the task has ended and nothing of it is left. A restart on request is no end."""

    def stop(self, grace: float) -> None:
        """Asks it to end, after `grace` seconds kills all of it; returns when nothing of it is left. May be called
        again with a shorter grace, also while the first call is waiting. Raises TaskError if it does not die."""

    def detail(self) -> Detail:
        """What is known now, without its checks."""

    def address(self) -> str:
        """Where its ports are reached from the agent (HTTP and TCP checks)."""

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
        """Runs a command beside the task, in its environment; after `timeout` seconds it is killed with all it started.
        Raises TaskError if it cannot be started or the task does not run."""

    def put(self, path: str, data: bytes, mode: int, owner: str) -> None:
        """Writes a file, whole or not at all. Raises TaskError."""

    def signal(self, number: int, process: str) -> None:
        """To the main process, or to all processes of the task with that name. Raises TaskError if there is none."""

    def set_env(self, name: str, value: str) -> None:
        """From the next restart on."""

    def restart(self, timeout: float) -> None:
        """In place; returns when it runs again. Raises TaskError."""

    def reload(self, timeout: float) -> None:
        """Raises TaskError."""

    def limit(self, cpus: int, mem: int) -> str:
        """New limits in thousandths (0 = unchanged), at once. Raises TaskError if memory cannot be limited to that;
        what else is not enforced here is returned in words, empty = nothing."""

    def commit(self, target: str, user: str, password: str, timeout: float) -> str:
        """Makes an image of a container and pushes it; returns its id. Raises TaskError."""
