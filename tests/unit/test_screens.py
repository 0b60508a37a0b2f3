"""The checks of screens find what they look for."""

from __future__ import annotations

import pytest

from tests.screens import Shown, faults, shown, tables

GOOD = """NAME   STATUS      AGE  REASON
web-0  \x1b[32mRunning\x1b[0m      1s  -
web-1  \x1b[33mStarting\x1b[0m  1000s  no room on…

TOTAL  2
done
"""


def screen(text: str, columns: int = 80) -> Shown:
    return shown(text.replace("\n", "\r\n").encode(), columns)


def test_a_good_table_has_no_fault() -> None:
    found = screen(GOOD)
    assert found.lines[1:3] == ["web-0  Running      1s  -", "web-1  Starting  1000s  no room on…"]
    assert [len(table) for table in tables(found.lines)] == [3]
    assert found.colours_of("Running") == {"green"} and found.colours_of("Starting") == {"brown"}
    assert faults(found) == []


def test_lines_that_are_written_again_replace_those_before() -> None:
    assert screen("NAME\nweb-0\n\x1b[2A\x1b[0JNAME\nweb-1\n").lines == ["NAME", "web-1"]


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        (GOOD.replace("  -", " -"), "no gap between AGE and REASON"),
        (GOOD.replace("web-1  ", "web-1        "), "no gap between STATUS and AGE"),
        (GOOD.replace("1000s", "100…"), "a number is cut"),
        (GOOD.replace("\x1b[32m", "[32m"), "a sequence is shown as text"),
        (GOOD.replace("[32m", "[95m"), "unknown colours ['brightmagenta']"),
    ],
)
def test_faults_are_found(changed: str, fault: str) -> None:
    found = faults(screen(changed))
    assert any(fault in one for one in found), found


def test_rows_that_run_together_are_no_table() -> None:
    assert list(tables(screen(GOOD.replace("\n", "  ", 2)).lines)) == []


def test_a_table_that_is_too_wide_has_a_fault() -> None:
    assert faults(screen(GOOD, 26)) != []
