"""The example of a simulation in conf/examples: the demo beside the jobs of two teams, under two policies."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from bcs_scheduler.cli.main import run

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "simulator.md"


def command() -> list[str]:
    """The words of the command in the document."""
    found = re.search(r"```sh\n(bcs simulate [^`]*conf/examples/simulation/demo\.jsonl[^`]*)```", DOCUMENT.read_text())
    assert found is not None
    return shlex.split(found[1].replace("\\\n", " "))


def test_the_demo_runs_under_both_policies_and_the_second_one_is_fairer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    program, *words = command()
    assert program == "bcs" and run([*words, "-o", "json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    simple, session = json.loads(captured.out)["runs"]
    assert (simple["name"], session["name"]) == ("simple", "conf/policy.yaml")
    for one in (simple, session):
        assert one["refused"] == []
        assert one["groups"]["default"]["waiting"] == 0
        # Six taskgroups, three more by the scale, one again that has failed; others that the lost agent had.
        assert one["groups"]["default"]["launched"] > 10
        assert one["total"]["finished"] == 60
    assert session["fairness"] > simple["fairness"]
    longest = {name: simple["groups"][name]["waitMedian"] for name in ("red", "blue")}
    assert session["groups"]["red"]["waitMedian"] < longest["red"]
