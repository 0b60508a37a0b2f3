"""The streams of `bcs` and of a program in a session: pipes, or a terminal in raw mode."""

from __future__ import annotations

import os
import queue
import signal
import sys
import termios
import threading
import tty
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from bcs_scheduler.cli.client.session_line import PIECE, STDERR, Said, SessionLine
from bcs_scheduler.cli.commands.taskgroups.detaching import DetachKeys
from bcs_scheduler.cli.errors import CliError, TimedOut, UsageError

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals after which the terminal must be as it was before."""


class Ended(BaseException):
    """A signal asks `bcs` to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def terminal_size() -> tuple[int, int]:
    """Rows and columns."""
    try:
        size = os.get_terminal_size(sys.stdin.fileno())
    except OSError:
        return 24, 80
    return size.lines or 24, size.columns or 80


def check_terminal(stdin: bool, terminal: bool) -> None:
    """Raises UsageError for -t without -i or without a terminal."""
    if terminal and not (stdin and sys.stdin.isatty()):
        raise UsageError("-t needs -i and a terminal" if not stdin else "-t: standard input is not a terminal")


class Detached(Exception):
    """The user has typed the detach keys."""


class NotAttached(CliError):
    """The task cannot be reached: it has ended, or its executor refuses."""


REFUSAL, REFUSED = b"bcs: ", 125
"""Begin of the only line, and exit code, of a session that the executor refuses."""


def attend(
    line: SessionLine,
    *,
    stdin: bool,
    terminal: bool,
    seconds: float | None = None,
    keys: DetachKeys | None = None,
    ends_input: bool = True,
    refusable: bool = False,
    printed: Counter[int] | None = None,
) -> int:
    """Passes the streams on until the program has ended; returns its exit code. `seconds`: time limit, None = none.
    `keys`: detach keys, None = none. `ends_input`: the end of standard input ends the input of the program.
    `refusable`: the program is a running task, which may be unreachable. `printed` counts the printed bytes of each
    channel. Raises CliError, NotAttached, Detached."""
    expired, detached = threading.Event(), threading.Event()
    timer = threading.Timer(seconds or 0.0, _expire, (line, expired))
    timer.daemon = True
    if seconds is not None:
        timer.start()
    try:
        with _terminal(line) if terminal else _signals():
            if stdin:
                _thread(lambda: send_input(line, sys.stdin.fileno(), keys, detached, ends_input=ends_input))
            refusal = _print(line, Counter() if printed is None else printed, may_be_refused=refusable)
    except Ended as ended:
        return 128 + ended.number
    except CliError:
        if detached.is_set():
            raise Detached from None
        if expired.is_set():
            raise TimedOut(f"the session was ended: the program has not ended within {seconds:g}s") from None
        raise
    finally:
        timer.cancel()
        line.close()
    if refusal and line.exit_code == REFUSED:
        raise NotAttached(refusal.data.removeprefix(REFUSAL).decode(errors="replace").strip())
    if refusal:
        _write_said(refusal)
    return line.exit_code if line.exit_code is not None else CliError.exit_code


def _print(line: SessionLine, printed: Counter[int], *, may_be_refused: bool) -> Said | None:
    """Prints the output until its end. Returns an only piece that may be a refusal, which is not printed."""
    held: Said | None = None
    for number, said in enumerate(line.output()):
        if held is not None:
            _write_said(held)
            printed[held.channel] += len(held.data)
            held = None
        if may_be_refused and number == 0 and said.data.startswith(REFUSAL):
            held = said
        else:
            _write_said(said)
            printed[said.channel] += len(said.data)
    return held


def _write_said(said: Said) -> None:
    write(sys.stderr.buffer if said.channel == STDERR else sys.stdout.buffer, said.data)


def _expire(line: SessionLine, expired: threading.Event) -> None:
    expired.set()
    line.close()


def send_input(
    line: SessionLine, descriptor: int, keys: DetachKeys | None, detached: threading.Event, *, ends_input: bool
) -> None:
    """Until the end of the input or of the session, or until the keys have come: then the session is closed."""
    try:
        while data := os.read(descriptor, PIECE):
            data, found = (data, False) if keys is None else keys.feed(data)
            if data and not line.send(data):
                return
            if found:
                detached.set()
                line.close()
                return
    except OSError:  # of a terminal that has gone
        pass
    if ends_input:
        line.end_input()


def write(stream: BinaryIO, data: bytes) -> None:
    """All bytes, at once. Raises SystemExit if the reader has gone, as head and less do."""
    unbuffered = getattr(stream, "raw", stream)  # a buffer would keep unread bytes, and raise an error at the exit
    view = memoryview(data)
    try:
        while view:
            view = view[unbuffered.write(view) :]
    except BrokenPipeError:
        raise SystemExit(0) from None


@contextmanager
def _terminal(line: SessionLine) -> Iterator[None]:
    """Every key goes to the program, and every change of the size of the terminal."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    changes: queue.SimpleQueue[None] = queue.SimpleQueue()

    def resize() -> None:
        while True:
            changes.get()
            line.resize(*terminal_size())

    with _signals():
        signal.signal(signal.SIGWINCH, lambda *_: changes.put(None))
        _thread(resize)
        try:
            tty.setraw(descriptor)
            yield
        finally:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
            signal.signal(signal.SIGWINCH, signal.SIG_DFL)


@contextmanager
def _signals() -> Iterator[None]:
    before: dict[int, Any] = {number: signal.signal(number, _end) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _frame: object) -> None:
    raise Ended(number)


def _thread(work: Callable[[], object]) -> None:
    threading.Thread(target=work, daemon=True).start()
