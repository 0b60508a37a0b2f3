"""Text on standard output and standard error, with colours on a terminal.

`rich` is loaded only for progress bars and refreshed tables: its start takes longer than most commands.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Style = Literal["", "bold", "dim", "red", "green", "yellow", "cyan", "bold red"]
CODES: Mapping[Style, str] = {
    "": "",
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "bold red": "1;31",
}
"""Styles, with the parameters of the escape sequence SGR (ECMA-48). Empty = as the terminal shows text by itself."""
UNBOUNDED = 10_000
"""Columns of a file or a pipe: every text is shown in full."""
DEFAULT_WIDTH = 80
"""Columns of a terminal that does not tell its size."""
DUMB = ("dumb", "unknown")
"""Values of TERM for terminals without colours."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Styled(str):
    """A text with one of the styles of CODES. Raises KeyError for another name, also where no colours are shown: a test
    that writes to a file finds it."""

    style: Style
    code: str

    def __new__(cls, text: str, style: Style = "") -> Styled:
        made = super().__new__(cls, text)
        made.style, made.code = style, CODES[style]
        return made


class Line(list[Styled]):
    """The pieces of one line."""

    @property
    def plain(self) -> str:
        return "".join(self)


def style_of(text: str) -> Style:
    return text.style if isinstance(text, Styled) else ""


def printable(text: str) -> str:
    """A text without control characters, except line ends and tabs: an answer of the server cannot move the cursor."""
    return text if text.isprintable() else _CONTROL.sub("", text)


def rich_text(line: Line) -> Text:
    """A line for renderables of rich."""
    from rich.text import Text

    return Text.assemble(*((piece, piece.style) for piece in line))


class Terminal:
    """One of the two outputs."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.is_terminal = file.isatty()
        self._coloured = bool(os.environ.get("FORCE_COLOR")) or (
            self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in DUMB
        )

    @property
    def width(self) -> int:
        if not self.is_terminal:
            return UNBOUNDED
        given = os.environ.get("COLUMNS", "")
        if given.isdecimal() and int(given):
            return int(given)
        try:
            return os.get_terminal_size(self.file.fileno()).columns or DEFAULT_WIDTH
        except (OSError, ValueError):  # the file has been closed, or is a stand-in
            return DEFAULT_WIDTH

    @functools.cached_property
    def console(self) -> Console:
        """For progress bars, refreshed tables, and text that is wrapped at the width of the terminal."""
        from rich.console import Console

        return Console(file=self.file, highlight=False, width=None if self.is_terminal else UNBOUNDED)

    def print(self, text: str = "", style: Style = "", *, end: str = "\n") -> None:
        """Prints a text literally: without markup, and without line breaks of its own."""
        self.file.write(self._coded(Styled(text, style or style_of(text))) + end)
        self.file.flush()

    def print_lines(self, lines: Iterable[Line]) -> None:
        self.file.writelines("".join(map(self._coded, line)) + "\n" for line in lines)
        self.file.flush()

    @contextmanager
    def in_place(self) -> Iterator[Callable[[Iterable[Line]], None]]:
        """Gives a function that shows lines in the place of those that it showed before. For terminals only."""
        from rich.live import Live
        from rich.text import Text

        with Live(console=self.console, auto_refresh=False) as live:
            yield lambda lines: live.update(Text("\n").join(map(rich_text, lines)), refresh=True)

    def _coded(self, text: Styled) -> str:
        shown = printable(text)
        return f"\x1b[{text.code}m{shown}\x1b[0m" if text.code and shown and self._coloured else shown
