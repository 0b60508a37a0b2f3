"""The input of a user for a running task, in the process of a session (bcs-executor.pyz session)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import termios
import tty
from functools import partial

from .. import threads

CHUNK = 64 * 1024
SIZE = b"\0" * 8
"""Buffer of TIOCGWINSZ: rows, columns, two unused numbers."""


def end_after_input() -> int:
    """Lets SIGTERM end the process when all input that has come is passed on. Returns a descriptor that can be read
    from then on. Called by the main thread."""
    asked, asking = os.pipe()
    signal.signal(signal.SIGTERM, lambda *_: os.write(asking, b"."))
    return asked


def input_has_come(asked: int, *others: int) -> list[int]:
    """Waits until standard input or one of the other descriptors can be read, and returns these descriptors. `asked`:
    of `end_after_input`; ends the process if it is the only one that can be read."""
    ready, _, _ = select.select((0, asked, *others), (), ())
    if ready == [asked]:
        os._exit(0)
    return [found for found in ready if found != asked]


def pass_input(task: int) -> None:
    """Copies standard input to the descriptor `task` in a thread, until either ends or SIGTERM comes. The end of
    standard input ends the input of the task only if the input is for one session. If standard input is a terminal,
    the terminal of the task follows its size, and keys and signals act on the terminal of the task only."""
    if os.isatty(0):
        with contextlib.suppress(termios.error):
            tty.setraw(0, termios.TCSANOW)  # keys that were typed before are not discarded
        signal.signal(signal.SIGWINCH, partial(_follow_size, task))
        _follow_size(task)
    threads.ending("session input", partial(_copy, task, end_after_input())).start()


def _follow_size(task: int, *_: object) -> None:
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(0, termios.TIOCGWINSZ, SIZE)
        if any(size):
            fcntl.ioctl(task, termios.TIOCSWINSZ, size)


def _copy(task: int, asked: int) -> None:
    with contextlib.suppress(OSError):  # the task has ended
        while input_has_come(asked) and (data := os.read(0, CHUNK)):
            _write(task, data)
    if not os.isatty(task):
        os.close(task)  # ends an input that is for one session only
    os.read(asked, 1)
    os._exit(0)


def _write(task: int, data: bytes) -> None:
    """The executor reads from a terminal without blocking, and the descriptor shares this mode."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(task, view) :]
        except BlockingIOError:
            select.select((), (task,), ())
