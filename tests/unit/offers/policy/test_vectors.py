"""The runner of policy vectors: its lines, its exit code, and how it refuses what is no file of vectors."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.vectors.__main__ import main
from tests.vectors.comparing import differences
from tests.vectors.reading import PolicyVector, read
from tests.vectors.running import judge

SPECIFIED = Path(__file__).parents[3] / "vectors" / "policy_vectors.json"
EVICTIONS = SPECIFIED.with_name("eviction_vectors.json")


def run(path: Path, *options: str) -> Result:
    return CliRunner().invoke(main, [str(path), *options])


def written(folder: Path, document: Any) -> Path:
    path = folder / "vectors.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def entry(**changes: Any) -> dict[str, Any]:
    return {"id": "V1", "policy": "scenario", "title": "t", "input": {"a": 1}, "expect": {"b": 2}, **changes}


def test_the_specified_vectors_are_complete() -> None:
    vectors = read(SPECIFIED)
    assert [vector.id for vector in vectors] == [f"D{number:02}" for number in range(1, 26)]
    assert [vector.id for vector in vectors if vector.variants] == ["D06"]


def test_each_vector_has_a_line_and_the_last_line_counts() -> None:
    result = run(SPECIFIED)
    lines = result.output.splitlines()
    assert len(lines) == 26
    passed = sum(line.startswith("passed D") for line in lines)
    assert passed + sum(line.startswith("FAILED D") for line in lines) == 25
    assert lines[-1] == f"{passed} passed, {25 - passed} failed"
    assert result.exit_code == (1 if passed < 25 else 0)


def test_the_session_engine_decides_as_specified() -> None:
    vectors = [vector for vector in read(SPECIFIED) if vector.policy == "session"]
    assert len(vectors) == 17
    assert [verdict.line for verdict in judge(vectors) if verdict.differences] == []


def test_the_scenarios_happen_as_specified() -> None:
    vectors = [vector for vector in read(SPECIFIED) if vector.policy == "scenario"]
    assert [vector.id for vector in vectors] == ["D07", "D16", "D24", "D25"]
    assert [verdict.line for verdict in judge(vectors) if verdict.differences] == []


@pytest.mark.parametrize("vector", read(EVICTIONS), ids=lambda vector: vector.id)
def test_evictions_are_as_specified(vector: PolicyVector) -> None:
    (verdict,) = judge([vector])
    assert not verdict.differences, verdict.line


@pytest.mark.parametrize(
    ("identity", "field", "wrong"),
    [
        ("E04", "evictions", [4, 0, 1]),
        ("E04", "evicted", {"B": 3}),
        ("E04", "running", {"C": 4}),
        ("E04", "operations", ["bind C/t0 a"]),
        ("E03", "evictions", [1, 0, 0, 1]),
        ("E03", "evicted", {}),
        ("E03", "operations", ["evict A/t3 n for B/t0"]),
        ("E08", "still_pending", []),
        ("E22", "placeholders_created", 3),
        ("E22", "launched", {}),
        ("E22", "tasks", {"r0": "New"}),
        ("E22", "surprise", 1),
    ],
)
def test_another_expectation_of_a_series_fails(identity: str, field: str, wrong: Any) -> None:
    vector = next(one for one in read(EVICTIONS) if one.id == identity)
    (verdict,) = judge([vector._replace(expect={**vector.expect, field: wrong})])
    assert verdict.differences and all(line.startswith(f"expect.{field}") for line in verdict.differences)


def test_operations_are_in_the_order_of_the_decisions() -> None:
    """Of the first session of E04, and of the first round of E03."""
    found = {vector.id: vector for vector in read(EVICTIONS)}
    kills = [f"evict B/t{number} a for C" for number in (3, 2, 1, 0)]
    holds = [f"pipeline C/t{number} a" for number in range(4)]
    sessions = found["E04"]._replace(
        input={**found["E04"].input, "sessions": 1}, expect={"operations": [*kills, *holds]}
    )
    rounds = found["E03"]._replace(
        input={**found["E03"].input, "sessions": 1}, expect={"operations": ["evict A/t3 n for B/t0"]}
    )
    assert [verdict.differences for verdict in judge([sessions, rounds])] == [[], []]


def test_an_unknown_step_is_refused() -> None:
    vector = next(one for one in read(EVICTIONS) if one.id == "E22")
    (verdict,) = judge([vector._replace(input={**vector.input, "steps": [{"step": "sleep"}]})])
    assert verdict.differences == ["ValueError: input steps[0]: unknown step sleep"]


@pytest.mark.parametrize(
    ("identity", "field", "wrong"),
    [
        ("D07", "accepts", []),
        ("D07", "declines", ["o3"]),
        ("D07", "session_view", {"a1": {"idle": {"cpus": 2, "mem": 4096}}}),
        ("D24", "placeholder_ask", {"vcore": 4, "memory": 5000}),
        ("D24", "placeholders_created", 2),
        ("D24", "manager_app_states", ["New", "Submitted", "Accepted", "Running", "Completed"]),
        ("D24", "core_app_states", ["New", "Running", "Completed"]),
        ("D24", "placeholder_data_after_swaps", {}),
        ("D24", "queue_usage_vcore", []),
        ("D24", "surprise", 1),
        ("D25", "soft", {"at": 71}),
        ("D25", "hard", {"core_states": ["New", "Failed"]}),
        ("D25", "too_small", {"placeholders_of_the_group_released": 1}),
    ],
)
def test_another_expectation_of_a_scenario_fails(identity: str, field: str, wrong: Any) -> None:
    vector = next(one for one in read(SPECIFIED) if one.id == identity)
    expected = vector.expect.get(field)
    replaced = {**expected, **wrong} if isinstance(expected, dict) and wrong else wrong
    (verdict,) = judge([vector._replace(expect={**vector.expect, field: replaced})])
    assert verdict.differences and all(line.startswith(f"expect.{field}") for line in verdict.differences)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("bind", {"J1/t0": "a2"}),
        ("evict", ["J1/t0"]),
        ("decision_order", []),
        ("deserved", {"q": {"cpus": 3.9, "mem": 7000.0}}),
        ("job_conditions", {}),
        ("surprise", 1),
    ],
)
def test_another_expectation_of_a_session_fails(field: str, wrong: Any) -> None:
    vector = read(SPECIFIED)[1]
    changed = vector._replace(expect={**vector.expect, field: wrong})
    (verdict,) = judge([changed])
    assert verdict.differences and all(line.startswith(f"expect.{field}") for line in verdict.differences)


def test_a_field_that_the_session_adapter_does_not_know_fails() -> None:
    vector = read(SPECIFIED)[1]
    node = {**vector.input["nodes"][0], "colour": "red"}
    (verdict,) = judge([vector._replace(input={**vector.input, "nodes": [node]})])
    assert verdict.differences == ["NotUnderstood: input nodes: unknown colour"]


def test_a_policy_without_engine_fails_and_an_adapter_that_raises_fails_its_vector_only() -> None:
    def adapter(vector: PolicyVector) -> list[str]:
        if vector.id == "V1":
            raise KeyError("x")
        return [] if vector.id == "V2" else ["bind: wrong\nhere"]

    made = [PolicyVector(f"V{n}", "t", "", "session", {}, {}, {}, {}) for n in (1, 2, 3)]
    made.append(made[0]._replace(id="V4", policy="hierarchical"))
    verdicts = list(judge(made, {"session": adapter}))
    assert [bool(verdict.differences) for verdict in verdicts] == [True, False, True, True]
    assert verdicts[1].line == "passed V2 [session] t"
    assert verdicts[2].line == "FAILED V3 [session] t: bind: wrong here"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("{", "not JSON"),
        ("[]", "not an object"),
        ({"format": "policy-vectors/2", "vectors": [entry()]}, "format: 'policy-vectors/2'"),
        ({"format": "policy-vectors/1"}, "vectors: a list"),
        ({"format": "policy-vectors/1", "vectors": []}, "vectors: a list"),
        ({"format": "policy-vectors/1", "vectors": [3]}, "vectors[0]: not an object"),
        ({"format": "policy-vectors/1", "vectors": [entry(), entry()]}, "vectors[1].id: V1 is used twice"),
        ({"format": "policy-vectors/1", "vectors": [entry(policy="other")]}, "vectors[0].policy: 'other'"),
        ({"format": "policy-vectors/1", "vectors": [entry(expect=None)]}, "vectors[0].expect:"),
        ({"format": "policy-vectors/1", "vectors": [entry(expected={})]}, "vectors[0].expected: unknown field"),
        ({"format": "policy-vectors/1", "vectors": [entry(expect_variant_x={})]}, "vectors[0].expect_variant_x:"),
        ({"format": "policy-vectors/1", "vectors": [entry()], "vector": 1}, "vector: unknown field"),
    ],
)
def test_a_malformed_file_is_refused_with_its_place(tmp_path: Path, document: Any, words: str) -> None:
    result = run(written(tmp_path, document))
    assert result.exit_code == 1
    assert words in result.stderr
    assert "passed" not in result.stdout


def test_a_missing_file_and_an_unknown_id_are_refused(tmp_path: Path) -> None:
    assert "No such file" in run(tmp_path / "none.json").stderr
    result = run(SPECIFIED, "--only", "D99")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no vector has the id D99" in result.stderr


def test_differences_are_named_with_their_place() -> None:
    assert differences("bind", {"a": 1, "b": "x"}, {"a": 1, "b": "x"}) == []
    assert differences("bind", {"a": 1}, {"b": 1}) == ["bind.a: 1 is missing", "bind.b: 1 is not expected"]
    assert differences("evict", ["x"], ["y"]) == ["evict[0]: 'y' instead of 'x'"]
    assert differences("evict", ["x"], []) == ["evict: 0 entries instead of 1: []"]


def test_decimals_are_compared_as_rounded_and_integers_exactly() -> None:
    assert differences("share", 0.666667, Fraction(2, 3)) == []
    assert differences("share", 4.666667, Fraction(14, 3)) == []
    assert differences("share", 0.66666, Fraction(2, 3)) != []
    assert differences("share", 2.0, Fraction(2_000_001, 1_000_000)) != []
    assert differences("flag", True, 1) != []
