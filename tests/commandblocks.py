"""The command blocks of README.md and docs/: each fenced block without a language (or `sh`), and each indented one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(\w*)\s*$")
COMMANDS = ("", "sh", "bash", "console")
"""Languages of fences that hold commands; those of others are data or drawings."""
PROGRAMS = ("bcs", "bcs-scheduler", "bcs-executor", "make", "python", "curl", "pip")
"""First words of indented lines that are commands."""


class Block(NamedTuple):
    """One block. `line`: number of its first line, from 1."""

    file: str
    line: int
    lines: tuple[str, ...]

    @property
    def name(self) -> str:
        """How tables call it: its file and the first words of its first command."""
        return f"{self.file}: {' '.join(self.lines[0].split()[:3])}"

    @property
    def commands(self) -> list[str]:
        """With lines that go on joined, comments included."""
        return "\n".join(self.lines).replace("\\\n", "\\\n").replace("\\\n", " ").split("\n")


def collected() -> list[Block]:
    """All of them, in the order of files and lines."""
    files = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [block for file in files for block in _of(file)]


def _of(file: Path) -> Iterator[Block]:
    name, lines = str(file.relative_to(ROOT)), file.read_text().splitlines()
    begun, language, indented = 0, "", 0
    for number, line in enumerate([*lines, ""], 1):
        fence = FENCE.match(line)
        if begun:
            if fence:
                if language in COMMANDS:
                    yield Block(name, begun + 1, tuple(lines[begun : number - 1]))
                begun = 0
            continue
        is_command = line.startswith("    ") and line.split()[0] in PROGRAMS if line.strip() else False
        if indented and not is_command:
            yield Block(name, indented, tuple(text.strip() for text in lines[indented - 1 : number - 1]))
        indented = indented or number if is_command else 0
        if fence:
            begun, language = number, fence[1]


def options(command: str) -> tuple[list[str], list[str]]:
    """Program with its sub-commands, and the long options of a command line."""
    words = shlex.split(command, comments=True)
    first = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    return words[:first], [word.partition("=")[0] for word in words if word.startswith("--") and word != "--"]
