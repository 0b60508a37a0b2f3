"""The program of `make soak`: what it leaves behind, and how it ends, without any cluster."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration import soak


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class StandIn:
    """Instead of the cluster: is sent a signal while it runs, and another one while it stops."""

    def __init__(self, number: signal.Signals | None) -> None:
        self.number = number
        self.stopped = 0

    def __call__(self, folder: Path, seed: int, policies: None) -> StandIn:
        return self

    def start(self) -> None: ...

    def run(self, minutes: float) -> list[str]:
        if self.number is not None:
            os.kill(os.getpid(), self.number)
        return []

    def stop(self) -> None:
        if self.number is not None:
            os.kill(os.getpid(), self.number)
        self.stopped += 1

    def report(self) -> str:
        return "report"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_ended_from_outside_ends_its_processes_and_fails(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = StandIn(number)
    monkeypatch.setattr(soak, "Soak", made)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix: str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["soak", "--minutes", "1"])
    assert soak.main() == 1
    assert made.stopped == 1
    assert f"ended by {number.name}" in capsys.readouterr().out


def test_a_clean_run_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = StandIn(None)
    monkeypatch.setattr(soak, "Soak", made)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix: str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["soak", "--minutes", "1"])
    assert soak.main() == 0 and made.stopped == 1
    assert "0 violations" in capsys.readouterr().out
