"""Fields and values of documents that have no effect: refused, named in warnings or passed over (docs/api.md)."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.api.documents.validate import read_application
from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.wire.documents.application import ApplicationDocument
from bcs_scheduler.wire.problems import LOOKUPS, PROBLEM_LIMIT, Problems, Validation


def application(**more: Any) -> dict[str, Any]:
    """A small application without any warning; `more` is added to its spec."""
    container = {
        "image": "registry.example.org/web:1",
        "resources": {
            "limits": {"cpu": "0.5", "memory": "64"},
        },
    }
    template = {"spec": {"networkMode": "HOST", "containers": [container]}}
    return {
        "apiVersion": "v4",
        "kind": "application",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"instance": 2, "template": template, **more},
    }


def read(raw: dict[str, Any], validation: Validation) -> tuple[ApplicationDocument, Problems]:
    problems = Problems(validation)
    return read_application(raw, namespace="shop", creating=True, problems=problems), problems


def refusal(raw: dict[str, Any], validation: Validation) -> dict[str, str]:
    """Messages by path."""
    with pytest.raises(ApiError) as refused:
        read(raw, validation)
    return {problem.path: problem.message for problem in refused.value.problems}


def test_an_unknown_field_is_warned_of_by_default_with_path_and_hint() -> None:
    raw = application(selectors={}, colour="blue")
    document, problems = read(raw, "Warn")
    assert document.spec.instance == 2
    assert [(w.path, w.message) for w in problems.warnings()] == [
        ("$.spec.selectors", "unknown field"),
        ("$.spec.colour", "unknown field"),
    ]


def test_strict_refuses_an_unknown_field() -> None:
    assert refusal(application(colour="blue"), "Strict") == {"$.spec.colour": "unknown field"}


def test_ignore_passes_an_unknown_field_over() -> None:
    document, problems = read(application(colour="blue"), "Ignore")
    assert document.spec.instance == 2
    assert problems.warnings() == ()


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
def test_a_misspelt_field_is_refused_in_every_mode_where_the_field_is_missing(validation: Validation) -> None:
    raw = application()
    raw["spec"]["instances"] = raw["spec"].pop("instance")
    found = refusal(raw, validation)
    assert found["$.spec.instances"] == "unknown field; did you mean instance?"


def test_a_misspelt_field_beside_the_right_one_has_no_effect() -> None:
    document, problems = read(application(instances=7), "Warn")
    assert document.spec.instance == 2
    assert [(w.path, w.hint) for w in problems.warnings()] == [("$.spec.instances", "did you mean instance?")]


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
@pytest.mark.parametrize(
    ("instance", "words"),
    [("2", 'must be a number, not "2"'), (-1, "must be at least 0, not -1"), (-3, "must be at least 0, not -3")],
)
def test_a_wrong_type_or_an_impossible_amount_is_refused_in_every_mode(
    validation: Validation, instance: object, words: str
) -> None:
    assert refusal(application(instance=instance), validation)["$.spec.instance"] == words


def test_warnings_are_bounded_and_say_how_many_are_not_listed() -> None:
    raw = application()
    raw["spec"]["template"]["spec"]["containers"][0]["ports"] = [
        {"name": f"p{i}", "containerPort": 8000 + i, "zzz": 1} for i in range(PROBLEM_LIMIT + 7)
    ]
    _, problems = read(raw, "Warn")
    warnings = problems.warnings()
    assert len(warnings) == PROBLEM_LIMIT + 1
    assert warnings[-1].message == "7 more warnings are not listed"


@pytest.mark.parametrize("validation", ["Warn", "Ignore"])
def test_more_unknown_fields_than_are_looked_at_are_refused(validation: Validation) -> None:
    raw = application(**{f"zzz{i}": 1 for i in range(LOOKUPS + 3)})
    assert refusal(raw, validation) == {f"$.spec.zzz{LOOKUPS + i}": "unknown field" for i in range(3)}
