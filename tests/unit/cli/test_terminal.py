"""Colours, and lines that are refreshed in place, on the screen of an emulated terminal."""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator
from typing import Any, get_args

import pyte
import pytest
import rich.style

from bcs_scheduler.cli.output.terminal import CODES, Line, Style, Styled, Terminal
from tests.sources import sources

COLUMNS, ROWS = 40, 12


class TerminalFile(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch) -> TerminalFile:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("LINES", str(ROWS))
    monkeypatch.delenv("NO_COLOR", raising=False)
    return TerminalFile()


def screen_of(file: TerminalFile) -> pyte.Screen:
    screen = pyte.Screen(COLUMNS, ROWS)
    screen.set_mode(pyte.modes.LNM)
    pyte.Stream(screen).feed(file.getvalue())
    return screen


def lines_of(file: TerminalFile) -> list[str]:
    return "\n".join(line.rstrip() for line in screen_of(file).display).rstrip().splitlines()


def lines(*texts: str) -> list[Line]:
    return [Line([Styled(text, "bold")]) for text in texts]


def test_lines_that_are_refreshed_stand_below_each_other_and_replace_those_before(file: TerminalFile) -> None:
    with Terminal(file).in_place() as show:
        show(lines("NAME   STATUS", "web-0  Starting", "web-1  Starting"))
        assert lines_of(file) == ["NAME   STATUS", "web-0  Starting", "web-1  Starting"]
        show(lines("NAME   STATUS", "web-0  Running", "", "web-1  Lost"))
        assert lines_of(file) == ["NAME   STATUS", "web-0  Running", "", "web-1  Lost"]
        show(lines("NAME   STATUS"))
    assert lines_of(file) == ["NAME   STATUS"]


def test_every_style_has_a_code_and_is_known_to_rich(file: TerminalFile) -> None:
    assert set(CODES) == set(get_args(Style))
    shown = {"bold": ("bold", True), "yellow": ("fg", "brown"), "dim": ("fg", "default")}
    for style in CODES:
        rich.style.Style.parse(style)
        file.truncate(file.seek(0))
        Terminal(file).print("x", style)
        cell = screen_of(file).buffer[0][0]
        for word in style.split():
            attribute, value = shown.get(word, ("fg", word))
            assert (cell.data, getattr(cell, attribute)) == ("x", value), style


@pytest.mark.parametrize("out", [io.StringIO(), TerminalFile()])
def test_an_unknown_style_is_an_error_in_a_pipe_too(out: Any) -> None:
    unknown: Any = "purple"
    with pytest.raises(KeyError):
        Styled("x", unknown)
    with pytest.raises(KeyError):
        Terminal(out).print("x", unknown)


def styles_in(node: ast.Call) -> Iterator[str]:
    """Constant styles of a call of `Styled`, or of `print` of a terminal."""
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name not in ("Styled", "print"):
        return
    for given in [*node.args[1:2], *(keyword.value for keyword in node.keywords if keyword.arg == "style")]:
        for value in (given.body, given.orelse) if isinstance(given, ast.IfExp) else (given,):
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


def test_all_uses_name_known_styles() -> None:
    found = [
        (source.name, style)
        for source in sources("bcs_scheduler/cli")
        for node in source.nodes
        if isinstance(node, ast.Call)
        for style in styles_in(node)
    ]
    assert len(found) > 25
    assert [(name, style) for name, style in found if style not in CODES] == []
