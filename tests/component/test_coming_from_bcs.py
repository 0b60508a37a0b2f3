"""The commands of docs/coming-from-bcs.md are run as they stand, one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from bcs_scheduler.cli.main import run
from tests.component.apiserver import Api
from tests.unit.api_support import CoreGateway

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "coming-from-bcs.md"
ENDS = re.compile(r"# exit code (\d)")


def commands() -> list[tuple[list[str], int]]:
    """Arguments of each command, and the exit code that the page promises."""
    blocks = re.findall(r"^```\n(.*?)^```$", PAGE.read_text(), re.S | re.M)
    lines = [line for block in blocks for line in block.splitlines() if line.strip()]
    found = [(shlex.split(line, comments=True), ENDS.search(line)) for line in lines]
    assert all(words[0] == "bcs" for words, _ in found)
    return [(words[1:], int(ends[1]) if ends else 0) for words, ends in found]


def test_every_command_of_the_page_does_what_the_page_says(
    api: Api, gateway: CoreGateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.connect()
    gateway.offer()
    monkeypatch.setenv("BCS_SERVER", api.url)
    monkeypatch.chdir(ROOT)
    assert len(commands()) >= 10
    warned = 0
    for arguments, expected in commands():
        code = run(arguments)
        shown = capsys.readouterr()
        assert code == expected, (arguments, shown)
        warned += re.search(r"^warning: .*\$", shown.err, re.MULTILINE) is not None
        assert "Traceback" not in shown.err
    assert warned >= 2, "documents of the console are warned of"
