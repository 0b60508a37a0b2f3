"""Nested container sessions: programs beside a task with attached streams, with or without a terminal.

The streams are named pipes, or a pseudo-terminal, which the launcher opens for the program. A stream is read when the
reader has taken the previous data, so that the program waits for a slow reader.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import struct
import tempfile
import termios
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from bcs_scheduler.local.agents.launcher import MARK
from bcs_scheduler.local.agents.process import Command, Launcher, Process

CHUNK = 64 * 1024
LEAST_INPUT = 256 * 1024
"""Bytes of input that wait for the program before more is read from the sender."""


class Output(Protocol):
    """Where the output goes: the answer to the call that launched the session."""

    def write(self, stream: str, data: bytes) -> bool:
        """False: nothing more, until `Nested.resume` is called."""

    def end(self) -> None: ...


class Nested:
    """One session. `ended` is called when the program has ended and all of its output has been read; `status` is then
    as wait(2) gives it, None if it never ran."""

    def __init__(
        self,
        launcher: Launcher,
        container: str,
        parent: str,
        command: Command,
        size: tuple[int, int] | None,
        ended: Callable[[Nested], None],
    ) -> None:
        """`size`: rows and columns of the terminal, None = without one. Raises OSError."""
        self.container, self.parent = container, parent
        self.status: int | None = None
        self.over = False
        self._launcher, self._ended = launcher, ended
        self._folder = Path(tempfile.mkdtemp(prefix="bcs-session-"))
        self._readers: dict[int, str] = {}
        self._held = False
        self._output: Output | None = None
        self._input = -1
        self._waiting = bytearray()
        self._end_of_input = False
        self._signal = 0
        """For the program, when its input has been written; 0 = none."""
        self.room: Callable[[], None] = lambda: None
        """Called when there is room for input again."""
        self._slave = -1
        self.terminal = size is not None
        streams = self._terminal(*size) if size is not None else self._pipes()
        env = {**command.env, MARK: f"{parent}.{container}"}
        self._process = Process(f"{parent}.{container}", self._started, self._failed, self._exited)
        self._exit: int | None = None
        launcher.run(self._process, replace(command, env=env, streams=streams))

    def _terminal(self, rows: int, columns: int) -> dict[str, str]:
        master, self._slave = os.openpty()
        self._readers[master] = "STDOUT"
        self._input = os.dup(master)
        self.resize(rows, columns)
        return {"terminal": os.ttyname(self._slave)}

    def _pipes(self) -> dict[str, str]:
        paths = {name: str(self._folder / name) for name in ("stdin", "stdout", "stderr")}
        for path in paths.values():
            os.mkfifo(path, 0o600)
        for name in ("stdout", "stderr"):
            self._readers[os.open(paths[name], os.O_RDONLY | os.O_NONBLOCK)] = name.upper()
        # A program that reads before the pipe has a writer would see the end of its input.
        self._input = os.open(paths["stdin"], os.O_RDWR | os.O_NONBLOCK)
        return paths

    # --- events of the process

    def _started(self) -> None:
        if self.over:
            self._launcher.destroy(self._process)
            return
        if self._slave >= 0:
            os.close(self._slave)
            self._slave = -1
        else:
            both = self._input
            try:
                self._input = os.open(self._folder / "stdin", os.O_WRONLY | os.O_NONBLOCK)
            finally:
                os.close(both)
        for descriptor in (*self._readers, self._input):
            if descriptor >= 0:
                os.set_blocking(descriptor, False)
        if self._input < 0:
            self._waiting.clear()
        self._forget_files()
        self._pump()
        if not self._held:
            self._listen()

    def _failed(self, error: str) -> None:
        if self._output is not None:
            self._output.write("STDERR", f"Failed to launch container: {error}\n".encode())
        self._exit = 127 << 8
        self._close()

    def _exited(self, status: int) -> None:
        self._exit = status
        if not self._readers:
            self._close()

    def destroy(self) -> None:
        """The program and all it has started end at once."""
        if not self.over:
            self._launcher.destroy(self._process)
            if self._output is not None:
                self._output.end()
                self._output = None
            self.resume()  # no reader is left, but the end of the output shows the end of the program

    def signal(self, number: int) -> None:
        """Sends a signal to the program, when the program has got all its input."""
        self._signal = number
        if not self._waiting:
            self._send_signal()

    def _send_signal(self) -> None:
        number, self._signal = self._signal, 0
        if number and self._process.pid and self._exit is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def _close(self) -> None:
        if self.over:
            return
        self.over, self.status = True, self._exit
        loop = asyncio.get_running_loop()
        for descriptor in self._readers:
            loop.remove_reader(descriptor)
        self._close_input()
        for descriptor in (*self._readers, self._slave):
            if descriptor >= 0:
                os.close(descriptor)
        self._readers.clear()
        self._slave = -1
        self._forget_files()
        if self._output is not None:
            self._output.end()
        self.room()
        self._ended(self)

    def _forget_files(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    # --- output ---

    def attach(self, output: Output) -> None:
        self._output = output

    def resume(self) -> None:
        self._held = False
        if not self.over and self._process.pid:
            self._listen()

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for descriptor in self._readers:
            loop.add_reader(descriptor, self._read, descriptor)

    def _read(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # of a terminal that no process has open any more
        if not data:
            asyncio.get_running_loop().remove_reader(descriptor)
            del self._readers[descriptor]
            os.close(descriptor)
            if not self._readers and self._exit is not None:
                self._close()
            return
        if self._output is not None and not self._output.write(self._readers[descriptor], data):
            self._held = True
            for other in self._readers:
                asyncio.get_running_loop().remove_reader(other)

    # --- input ---

    def feed(self, data: bytes) -> bool:
        """Takes input for the program; no bytes end the input. Returns False if no more is taken until `room` is
        called."""
        if not data:
            self._end_of_input = True
        elif not self._end_of_input:
            self._waiting += data
        if self._process.pid:
            self._pump()
        return self.over or len(self._waiting) < LEAST_INPUT

    def resize(self, rows: int, columns: int) -> None:
        if self.terminal and self._input >= 0:
            with suppress(OSError):
                fcntl.ioctl(self._input, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _pump(self) -> None:
        """Writes as much input as the program takes now."""
        loop = asyncio.get_running_loop()
        while self._waiting and self._input >= 0:
            try:
                written = os.write(self._input, self._waiting[:CHUNK])
            except BlockingIOError:
                loop.add_writer(self._input, self._pump)
                return
            except OSError:
                self._close_input()
                break
            del self._waiting[:written]
        if self._input >= 0:
            loop.remove_writer(self._input)
        if self._end_of_input and not self._waiting and not self.terminal:
            self._close_input()
        if self._input < 0:
            self._waiting.clear()
        self._send_signal()
        if len(self._waiting) < LEAST_INPUT:
            self.room()

    def _close_input(self) -> None:
        if self._input >= 0:
            asyncio.get_running_loop().remove_writer(self._input)
            os.close(self._input)
            self._input = -1
