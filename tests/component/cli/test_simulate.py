"""`bcs simulate` as a user calls it; no request reaches the server."""

from __future__ import annotations

import io
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.cli.commands.simulate import Attendance
from bcs_scheduler.cli.output.terminal import Terminal
from bcs_scheduler.cli.session import Session
from tests.component.cli.standin import StandIn
from tests.component.cli.test_dump import cluster

__all__ = ["cluster"]

SMALL = ("--agents", "2x2cpu,4gb", "--load", "4x1,cpus=1,duration=60,over=10s,queue=a", "--for", "10m")


def test_the_tables_have_a_row_for_each_run_and_queue(bcs: Any) -> None:
    result = bcs("simulate", *SMALL, "--policy", "conf/policy.yaml", "-o", "table")
    assert result.code == 0, result.err
    lines = [line.split() for line in result.out.splitlines()]
    assert [line[0] for line in lines if line] == [
        "RUN",
        "simple",
        "conf/policy.yaml",
        "QUEUE",
        "a",
        "a",
        "DIFFERENCE",
        "conf/policy.yaml",
        "conf/policy.yaml",
    ]


def test_the_data_is_equal_for_equal_seeds(bcs: Any) -> None:
    first, again = (json.loads(bcs("simulate", *SMALL, "-o", "json").out) for _ in range(2))
    assert first == again
    assert first["runs"][0]["groups"]["a"]["finished"] == 4


def test_bad_options_are_refused_with_the_place(bcs: Any) -> None:
    for words, message in (
        (("--agents", "2x2cpu,4gb"), "--load or --events is missing"),
        (("--load", "1x1"), "give --dump or --agents"),
        (("--agents", "2x2cpu,4gb", "--load", "1x1,size=2"), 'unknown field "size"'),
        (("--dump", "/absent", "--load", "1x1"), "--dump: /absent: No such file"),
        ((*SMALL, "--policy", "absent.yaml"), "--policy: absent.yaml: No such file"),
    ):
        result = bcs("simulate", *words)
        assert result.code == 2
        assert message in result.err


def test_a_report_is_one_file_with_the_figures(bcs: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    result = bcs("simulate", *SMALL, "--policy", "conf/policy.yaml", "--report", str(file), "-o", "json")
    assert result.code == 0, result.err
    assert f"{file} written" in result.err
    text = file.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and "conf/policy.yaml" in text
    (found,) = json.loads(result.out)["differences"]
    assert (found["name"], found["against"]) == ("conf/policy.yaml", "simple")
    refused = bcs("simulate", *SMALL, "--report", str(tmp_path / "absent" / "report.html"))
    assert refused.code == 1 and "cannot be written: No such file" in refused.err


def test_the_history_has_the_figures_of_each_queue_over_virtual_time(bcs: Any) -> None:
    (run,) = json.loads(bcs("simulate", *SMALL, "-o", "json").out)["runs"]
    history = run["history"]
    assert len(history["at"]) == 240 and history["at"][-1] == 600
    assert max(history["groups"]["a"]["cpus"]) == 1.0 == max(history["cpus"])
    assert {len(values) for values in history["groups"]["a"].values()} == {240}


def test_ctrl_c_prints_what_there_is(bcs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    follow = Attendance.progress

    def progress(self: Attendance, part: float) -> None:
        follow(self, part)
        if part == 0.5:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Attendance, "progress", progress)
    result = bcs("simulate", *SMALL, "--policy", "conf/policy.yaml", "-o", "json")
    assert result.code == 130
    found = json.loads(result.out)
    assert [(run["name"], run["complete"]) for run in found["runs"]] == [("simple", False)]
    assert found["runs"][0]["seconds"] == 300 and found["runs"][0]["total"]["finished"] == 4
    assert "simple was stopped after 50% of the virtual time" in result.err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_run_takes_as_long_as_its_speed_says(bcs: Any) -> None:
    began = time.monotonic()
    assert bcs("simulate", *SMALL, "--speed", "600", "-o", "json").code == 0
    assert time.monotonic() - began >= 1.0
    for speed in ("0", "-1", "fast", "inf"):
        result = bcs("simulate", *SMALL, "--speed", speed)
        assert result.code == 2 and "is neither max nor a number above 0" in result.err


def test_live_reads_the_scheduler_and_changes_nothing(cluster: StandIn, bcs: Any) -> None:
    result = bcs("simulate", "--live", "--for", "10m", "-o", "json")
    assert result.code == 0, result.err
    (run,) = json.loads(result.out)["runs"]
    assert run["groups"]["root.lead-queue"]["launched"] == 0
    assert run["groups"]["root.lead-queue"]["coreHours"] == pytest.approx(2 * 0.5 / 6, rel=0.01)
    assert {request.method for request in cluster.seen} == {"GET"}
    assert "exclude each other" in bcs("simulate", "--live", "--dump", "x").err
    result = bcs("simulate", "--live", "--for", "10m", "-o", "json", "--policy", "dump")
    assert result.code == 0, result.err
    tree = json.loads(result.out)["runs"][1]
    assert tree["name"] == "dump" and tree["total"]["launched"] == 0


class _Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_progress_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    session = Session()
    shown = _Tty()
    session.err = Terminal(shown)
    attendance = Attendance(session, 600.0, None)
    with attendance.attended():
        attendance.begin("conf/policy.yaml")
        attendance.progress(0.5)
    assert "conf/policy.yaml" in shown.getvalue() and "50%" in shown.getvalue()
    quiet = Attendance(Session(), 600.0, None)
    with quiet.attended():
        quiet.begin("simple")
        quiet.progress(0.5)
