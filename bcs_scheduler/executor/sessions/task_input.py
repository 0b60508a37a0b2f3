"""The open input of a task: a pipe, or a pseudo-terminal that is also its output.

The executor keeps both ends open, so the input survives readers, writers and restarts, unless the input is for one
session only. A session gets the writing end
over its socket (sessions/contexts.py) and writes itself: a program that reads nothing delays that session only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import termios
import threading
from typing import TYPE_CHECKING

from ..model import Task
from ..runtime import TaskError

if TYPE_CHECKING:
    from .contexts import SessionRequest

SIZE = (24, 80)
"""Rows and columns of a terminal before the first session sets them."""


class TaskInput:
    """`reading` is standard input of the program, `writing` the end for sessions. With a terminal, `reading` is also
    standard output and standard error of the program, and its output is read from `writing`."""

    def __init__(self, terminal: bool, once: bool = False) -> None:
        """`once`: the input ends with the first session. Raises OSError."""
        self._once = once
        self._lock = threading.Lock()
        self.terminal = terminal
        if terminal:
            self.writing, self.reading = os.openpty()
            fcntl.ioctl(self.writing, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        else:
            self.reading, self.writing = os.pipe()

    def take(self, uid: int, own: bool) -> None:
        """Makes the terminal that of the calling process, which leads a session. Called between fork and exec, with
        the terminal on standard input."""
        if not self.terminal:
            return
        if not own:
            os.fchown(0, uid, -1)  # the terminal belongs to its user, as with login(1)
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    @property
    def terminal_pair(self) -> tuple[int, int] | None:
        """The two sides of the terminal from which the output is read, as in Stream; None = the output has pipes."""
        return (self.writing, self.reading) if self.terminal else None

    def duplicate(self) -> int:
        """The end for a session. With `once` the executor keeps none. Raises OSError after `close`, and for another
        session with `once`."""
        with self._lock:
            found = os.dup(self.writing)
            if self._once:
                os.close(self.writing)
                self.writing = -1
            return found

    def close(self) -> None:
        with self._lock:
            for descriptor in (self.reading, self.writing):  # a negative number is refused
                with contextlib.suppress(OSError):
                    os.close(descriptor)
            self.reading = self.writing = -1


def check_input(task: Task, wanted: SessionRequest) -> None:
    """Raises TaskError if the task has no input, or no terminal although the session has one."""
    if not task.stdin or (wanted.tty and not task.tty):
        raise TaskError(f"the task was started without {'a terminal' if wanted.tty else 'an input'}")


def duplicate(given: TaskInput | None) -> int:
    """The end for a session of the input of a task, which the caller closes. Raises TaskError."""
    if given is None:
        raise TaskError("the task does not run")
    try:
        return given.duplicate()
    except OSError:
        raise TaskError("the input of the task has ended") from None
