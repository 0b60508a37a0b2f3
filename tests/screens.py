"""What a terminal shows of a command, and whether its tables are in order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import pyte

ROWS = 600
"""More than any command of the tests shows: nothing scrolls away."""
GAP = 2
TITLE = re.compile(r"[A-Z*][A-Z0-9 /%_-]*[A-Z0-9%]|[A-Z]")
BETWEEN = re.compile(r" {2,}")
CUT_NUMBER = re.compile(r"\d…")
CONTROL = re.compile(r"\[\d+(;\d+)*m|\[\d+[A-HJK]\b")
"""A sequence whose escape character is lost."""
COLOURS = {"default", "red", "green", "brown", "cyan", "magenta", "blue"}
"""Those of CODES in cli/output/terminal.py, by the names of pyte. Brown is yellow."""


class Shown(NamedTuple):
    """`lines`: without blanks at their ends. `colours`: those of the characters, in the same order."""

    columns: int
    lines: list[str]
    colours: list[list[str]]

    def colours_of(self, word: str) -> set[str]:
        """Colours of the first character of a word, wherever it stands."""
        places = (
            (number, match.start())
            for number, line in enumerate(self.lines)
            for match in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", line)
        )
        return {self.colours[number][at] for number, at in places}


def shown(raw: bytes, columns: int) -> Shown:
    """The screen of a terminal that has received this."""
    screen = pyte.Screen(columns, ROWS)
    pyte.ByteStream(screen).feed(raw)
    written = (at for at, row in screen.buffer.items() if any(cell.data.strip() for cell in row.values()))
    last = max(written, default=-1)
    lines, colours = [], []
    for number in range(last + 1):
        row = screen.buffer[number]
        lines.append("".join(row[at].data for at in range(columns)).rstrip())
        colours.append([row[at].fg for at in range(columns)])
    return Shown(columns, lines, colours)


def tables(lines: Sequence[str]) -> Iterator[list[str]]:
    """Heads of two titles or more, with the lines up to the next empty one."""
    begun: list[str] = []
    for line in [*lines, ""]:
        if begun and not line:
            yield begun
            begun = []
        elif begun:
            begun.append(line)
        elif is_head(line):
            begun = [line]


def is_head(line: str) -> bool:
    titles = BETWEEN.split(line.strip())
    return len(titles) > 1 and all(TITLE.fullmatch(title) for title in titles)


def faults(found: Shown) -> list[str]:
    """What is wrong with the layout: columns that do not stand below each other, numbers that are cut, colours that no
    style has, sequences that a terminal does not know."""
    wrong = []
    for line, colours in zip(found.lines, found.colours, strict=True):
        if CUT_NUMBER.search(line):
            wrong.append(f"a number is cut: {line}")
        if CONTROL.search(line):
            wrong.append(f"a sequence is shown as text: {line}")
        if unknown := {colour for at, colour in enumerate(colours[: len(line)]) if line[at] != " "} - COLOURS:
            wrong.append(f"unknown colours {sorted(unknown)}: {line}")
    for table in tables(found.lines):
        wrong += [f"no gap between {left} and {right}:\n" + "\n".join(table) for left, right in joined(table)]
    return wrong


def joined(table: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of neighbouring titles without GAP blank places between them, the same in every line."""
    head = table[0]
    titles = [(match[0], match.start(), match.end()) for match in re.finditer(r"\S+(?: \S+)*", head)]
    width = max(map(len, table))
    blank = [all(line[at : at + 1] in ("", " ") for line in table) for at in range(width)]
    for (left, _, begin), (right, end, _) in pairwise(titles):
        if not any(all(blank[at : at + GAP]) for at in range(begin, end - GAP + 1)):
            yield left, right
