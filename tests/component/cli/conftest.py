"""A stand-in server, and `bcs` called against it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bcs_scheduler.cli.main import run
from tests.component.cli.standin import StandIn


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def server() -> Iterator[StandIn]:
    standin = StandIn()
    yield standin
    standin.close()


@pytest.fixture
def bcs(server: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    monkeypatch.setenv("BCS_SERVER", server.url)
    monkeypatch.delenv("BCS_NAMESPACE", raising=False)
    monkeypatch.setenv("BCS_CONFIG", str(tmp_path / "no" / "bcs.toml"))
    monkeypatch.setenv("COLUMNS", "300")
    # Most tests look at data; those of tables and of the default say so.
    monkeypatch.setenv("BCS_OUTPUT", "json")

    def call(*arguments: str) -> Result:
        code = run(arguments)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Result(code, captured.out, captured.err)

    return call
