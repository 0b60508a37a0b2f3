"""Documents are bounded in depth wherever they enter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.api.http import body
from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.appmanagers import bridge
from bcs_scheduler.cli.document_files import load_documents
from bcs_scheduler.wire.depth import DEEPEST, LISTS, too_deep
from bcs_scheduler.wire.yamltext import BadYaml, documents_of, text_of
from offers.policy.applications.interface import BadRequest


def nested(levels: int, key: str = "a") -> Any:
    """An object of this number of levels."""
    made: Any = {}
    for _ in range(levels - 1):
        made = {key: made}
    return made


def test_the_path_of_the_first_part_beyond_is_named() -> None:
    assert too_deep(nested(DEEPEST)) == too_deep(3) == ""
    assert too_deep({"spec": [{"a": 1}, {"b": {"c": []}}]}, 3) == "$.spec[1].b"
    assert too_deep(nested(DEEPEST + 1)) == "$" + ".a" * DEEPEST
    assert len(too_deep(nested(5000, "long" * 50))) < 300


def test_a_body_is_refused_beyond_the_bound() -> None:
    assert body.parse(json.dumps(nested(DEEPEST)).encode()) == nested(DEEPEST)
    assert body.parse(json.dumps([nested(DEEPEST)] * 2).encode()) == [nested(DEEPEST)] * 2, "each document counts"
    for deep in (nested(DEEPEST + 1), [nested(DEEPEST), nested(DEEPEST + 1)]):
        with pytest.raises(ApiError) as refused:
            body.parse(json.dumps(deep).encode())
        assert "nested more than 64 levels deep: $" in str(refused.value)
        assert refused.value.problems[0].path.endswith(".a.a")


@pytest.mark.parametrize("name", ["deep.yaml", "deep.json"])
def test_a_file_is_refused_beyond_the_bound(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    whole = {"kind": "Shelf", "metadata": {"name": "s"}, "spec": nested(DEEPEST - 1)}
    for listed in (whole, [whole], {"services": [whole]}):
        file.write_text(text_of(listed) if name.endswith("yaml") else json.dumps(listed))
        documents, problems, _ = load_documents([str(file)], "shop")
        assert problems == [] and documents[0].body["spec"] == nested(DEEPEST - 1)
    deep = {**whole, "spec": nested(DEEPEST + LISTS)}
    file.write_text(text_of(deep) if name.endswith("yaml") else json.dumps(deep))
    documents, (problem,), _ = load_documents([str(file)], "shop")
    assert documents == [] and problem.message.startswith(str(file))
    assert "nested more than 66 levels deep: $.spec.a" in problem.message


def test_aliases_count_in_their_places() -> None:
    lines = ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{x: *a{n - 1}}}" for n in range(1, 900))]
    with pytest.raises(BadYaml, match="nested more than 66 levels deep"):
        documents_of("\n".join(lines))


@pytest.mark.parametrize("levels", [DEEPEST + 1, 100_000])
def test_a_definition_of_a_manager_is_refused_beyond_the_bound(levels: int) -> None:
    text = '{"a":' * levels + "1" + "}" * levels
    with pytest.raises(BadRequest, match="nested more than 64 levels deep"):
        bridge._version("definition", text, "shop", "unit")
