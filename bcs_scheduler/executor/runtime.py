"""The interface through which the executor drives one task of any kind: between taskgroup, processes and containers.

A Runtime is used by several threads: one starts it and waits for its end, others probe it, carry out messages, or stop
it. All methods may be called at any time; a call that is not possible at the moment raises TaskError with a message for
the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from .model import Detail

if TYPE_CHECKING:
    from socket import socket

    from .sessions.attached import Attached
    from .sessions.contexts import Context, SessionRequest


class TaskError(Exception):
    """Something could not be done with a task; the message is for users and shows no confidential content."""


@dataclass(frozen=True)
class Exit:
    """The end of a task, by itself or when stopped. `code` negative = ended by that signal, None = not known."""

    code: int | None
    message: str = ""
    oom: bool = False


@dataclass(frozen=True)
class Output:
    """The result of a command that ran beside a task. Streams are cut to the limit that was asked for."""

    code: int | None
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    timed_out: bool = False


class Runtime(Protocol):
    @property
    def attached(self) -> Attached:
        """The readers that follow the output."""

    def start(self) -> None:
        """Fetches, prepares and starts; returns when it runs. Raises TaskError. `stop` makes it give up early."""

    def wait(self) -> Exit:
        """Blocks until the task has ended and nothing of it is left. A restart on request is no end."""

    def stop(self, grace: float) -> None:
        """Asks the task to end, kills all its processes after `grace` seconds; returns when nothing of it is left. May
        be called again with a shorter grace, also while the first call is waiting. Raises TaskError if processes do not
        die."""

    def detail(self) -> Detail:
        """The known state of the task now, without its checks."""

    def address(self) -> str:
        """Address at which its ports are reached from the agent (HTTP and TCP checks)."""

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

    def context(self, wanted: SessionRequest, pid: int) -> Context:
        """Returns the context in which a program of a session runs beside the task. `pid`: the process that asks, and
        becomes the program; 0 = in a namespace of processes that is not visible here. Raises TaskError."""

    def input(self, wanted: SessionRequest) -> int | None:
        """A descriptor that takes input for the task; the caller closes it. None: the engine of its container takes
        the input. Raises TaskError if the task has no input, or no terminal although the session has one."""

    def guard(self, wanted: SessionRequest, connection: socket) -> None:
        """Ends the command `wanted.guard` of the container engine when the connection ends. Owns the connection."""

    def put(self, path: str, data: bytes, mode: int, owner: str) -> None:
        """Writes a file, whole or not at all. Raises TaskError."""

    def signal(self, number: int, process: str) -> None:
        """Sends a signal to the main process, or to all processes of the task with that name. Raises TaskError if there
        is none."""

    def set_env(self, name: str, value: str) -> None:
        """Sets a variable, from the next restart on."""

    def restart(self, timeout: float) -> None:
        """Restarts the task in place; returns when it runs again. Raises TaskError."""

    def reload(self, timeout: float) -> None:
        """Raises TaskError."""

    def limit(self, cpus: int, mem: int) -> str:
        """Sets new limits in thousandths (0 = unchanged), at once. Raises TaskError if memory cannot be limited to
        that; returns a message about other limits that are not enforced here, empty = none."""

    def commit(self, target: str, user: str, password: str, timeout: float) -> str:
        """Makes an image of a container and pushes it; returns its id. Raises TaskError."""
