"""Priority classes as a kind of `bcs`, against the real API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.component.cli.test_extensions import bcs as bcs
from tests.component.cli.test_extensions import done, write
from tests.component.cli.test_extensions import gateway as gateway
from tests.unit.api_support import document

HIGH = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100, "description": "for shops"}


def test_classes_are_applied_before_their_work_listed_and_deleted(bcs: Any, tmp_path: Path) -> None:
    web = document()
    web["spec"]["template"]["spec"]["priorityClassName"] = "high"
    path = write(tmp_path, web, HIGH)
    assert done(bcs("apply", "-f", path))[0] == ("PriorityClass", "high", "created")
    assert bcs("diff", "-f", write(tmp_path, HIGH)).code == 0
    assert done(bcs("apply", "-f", write(tmp_path, HIGH))) == [("PriorityClass", "high", "unchanged")]
    for kind in ("priorityclasses", "priorityclass", "pc"):
        rows = [line.split() for line in bcs("get", kind, "-o", "table").out.splitlines()]
        assert rows[0][:4] == ["NAME", "VALUE", "GLOBAL-DEFAULT", "PREEMPTION-POLICY"]
        assert rows[1][:4] == ["high", "100", "no", "PreemptLowerPriority"]
    assert "for shops" in bcs("describe", "priorityclass", "high").out
    assert bcs("get", "pc", "-o", "name").out.split() == ["priorityclass/high"]
    assert done(bcs("delete", "priorityclass", "high")) == [("PriorityClass", "high", "deleted")]


def test_a_changed_value_is_refused_with_its_path(bcs: Any, tmp_path: Path) -> None:
    bcs("apply", "-f", write(tmp_path, HIGH))
    refused = bcs("apply", "-f", write(tmp_path, {**HIGH, "value": 5}))
    assert refused.code != 0 and "$.value" in refused.err


@pytest.mark.parametrize("words", [("get", "pc", ""), ("describe", "priorityclass", ""), ("delete", "pc", "")])
def test_names_of_classes_are_completed(bcs: Any, tmp_path: Path, monkeypatch: Any, words: tuple[str, ...]) -> None:
    bcs("apply", "-f", write(tmp_path, HIGH))
    monkeypatch.setenv("_BCS_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(("bcs", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    assert "high" in bcs().out
