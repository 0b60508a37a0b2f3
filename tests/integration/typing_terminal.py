"""A shell in a real terminal, typed into line by line as a person would."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.screens import Shown, shown
from tests.waiting import wait_for

T = TypeVar("T")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")
PROMPT = re.compile(r"<ready (\d+)>")
RAW_PROMPT = re.compile(rb"(\(\S+\) )?" + PROMPT.pattern.encode())
"""With the name of the environment that `activate` puts before it."""


def _in_terminal() -> None:
    """As terminals start shells. Whoever runs the tests in the background may have them ignore SIGINT, which children
    inherit: Ctrl-C would do nothing."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class TypingTerminal:
    """The prompt of the shell holds the exit code of the last command."""

    def __init__(self, folder: Path, environment: dict[str, str], columns: int) -> None:
        self._ours, theirs = pty.openpty()
        self.columns = columns
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env={**environment, "TERM": "xterm", "PS1": "<ready $?>", "PS2": "", "HISTFILE": ""},
            start_new_session=True,
            preexec_fn=_in_terminal,
        )
        os.close(theirs)
        self._shown, self._raw = "", b""
        self._prompt(60)

    def type(self, line: str) -> None:
        """Types a line, and does not wait for what it does."""
        self._shown, self._raw = "", b""
        os.write(self._ours, f"{line}\n".encode())

    def run(self, line: str, seconds: float = 180) -> tuple[int, str]:
        """Exit code of the line, and what the terminal shows of it."""
        self.type(line)
        return self._prompt(seconds)

    def ended(self, seconds: float = 180) -> tuple[int, str]:
        """Exit code and output of the line that was typed last, when the shell shows its prompt again."""
        return self._prompt(seconds)

    def resize(self, columns: int) -> None:
        """By a command: a shell that waits at its prompt would show the prompt once more."""
        assert self.run(f"stty cols {columns}")[0] == 0
        self.columns = columns

    def screen(self, columns: int = 0) -> Shown:
        """What the line that was typed last shows on an empty screen, without the line itself and the prompt.
        `columns`: those of a screen of another width; 0 = of this terminal."""
        _, _, output = self._raw.partition(b"\r\n")
        return shown(RAW_PROMPT.split(output)[0], columns or self.columns)

    def until(self, text: str, seconds: float = 120) -> str:
        """What is shown up to this text."""
        return self._read(lambda: self._shown if text in self._shown else None, text, seconds)

    def interrupt(self, seconds: float = 120) -> tuple[int, str]:
        """Ctrl-C; the exit code and the rest of what is shown."""
        os.write(self._ours, b"\x03")
        return self._prompt(seconds)

    def close(self) -> None:
        """Ends what runs in the foreground, then the shell."""
        if os.tcgetpgrp(self._ours) != self._process.pid:
            os.killpg(os.tcgetpgrp(self._ours), signal.SIGTERM)
            wait_for(lambda: os.tcgetpgrp(self._ours) == self._process.pid, 30, "the end of what runs in the terminal")
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def _prompt(self, seconds: float) -> tuple[int, str]:
        def ended() -> tuple[int, str] | None:
            found = PROMPT.search(self._shown)
            return (int(found[1]), self._shown[: found.start()]) if found else None

        return self._read(ended, "the prompt", seconds)

    def _read(self, ready: Callable[[], T | None], what: str, seconds: float) -> T:
        deadline = time.monotonic() + seconds
        while (found := ready()) is None:
            left = deadline - time.monotonic()
            assert left > 0, f"waited {seconds} s in vain for {what}:\n{self._shown[-3000:]}"
            if select.select([self._ours], [], [], left)[0]:
                received = os.read(self._ours, 65536)
                self._raw += received
                self._shown += CONTROL.sub("", received.decode(errors="replace"))
        return found
