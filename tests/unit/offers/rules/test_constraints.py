"""Constraints as values: what each operator admits, and which patterns are refused."""

from __future__ import annotations

import math
import time

import pytest

from offers.errors import BadConstraint
from offers.rules.constraints import EMPTY_RULES, RuleSpec, check_pattern, compile_rules
from offers.rules.taints import Taint


def admits(operator: str, value: object, *items: str, number: float = 0.0, limit: int = 0) -> bool:
    rules = compile_rules([[RuleSpec("name", operator, items, number, limit)]])
    return rules.items[0][0].admits(value)


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [
        ("10.1.1.1", "10.1.1.1", True),
        ("10.1.1.1", "110.1.1.12", False),  # a pattern is anchored
        ("10.1.1.*", "10.1.1.27", True),
        ("10.1.1.?", "10.1.1.27", False),
        ("rack-[12]", "rack-2", True),
        ("rack-[!12]", "rack-2", False),
        ("a.c", "abc", False),  # a glob is no regular expression
        ("re:a.c", "abc", True),
        ("re:a.c", "xabc", False),
        ("re:a|b", "bx", False),
        ("Rack", "rack", False),
        ("*", "two\nlines", True),
    ],
)
def test_patterns_match_the_whole_value(pattern: str, value: str, fits: bool) -> None:
    assert admits("LIKE", value, pattern) is fits
    assert admits("UNLIKE", value, pattern) is not fits


@pytest.mark.costs
@pytest.mark.parametrize("pattern", ["re:(a+)+!", "re:(a|a)*!", "re:(.*a){20}!", "*a" * 100 + "!"])
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    """Each of these takes a backtracking matcher longer than the universe has lasted."""
    began = time.process_time()
    assert not admits("LIKE", "a" * 5000, pattern)
    assert time.process_time() - began < 2.0


@pytest.mark.parametrize("value", [None, 1.0, ((1, 2),)])
@pytest.mark.parametrize("operator", ["CLUSTER", "LIKE", "UNLIKE", "GROUPBY"])
def test_text_operators_do_not_fit_other_types(operator: str, value: object) -> None:
    assert not admits(operator, value, "x")


@pytest.mark.parametrize(
    ("value", "fits"), [(2.5, True), (2.0, False), (1, False), ("3", False), (None, False), (((1, 2),), False)]
)
def test_greater_compares_numbers(value: object, fits: bool) -> None:
    assert admits("GREATER", value, number=2.0) is fits


def test_counting_operators_compare_text_and_numbers() -> None:
    for operator in ("UNIQUE", "MAXPER"):
        assert admits(operator, "text") and admits(operator, 1.5)
        assert not admits(operator, None) and not admits(operator, ((1, 2),))


@pytest.mark.parametrize("total", range(12))
@pytest.mark.parametrize("groups", range(1, 6))
def test_groupby_admits_the_rounded_up_share(total: int, groups: int) -> None:
    rules = compile_rules([[RuleSpec("zone", "GROUPBY", tuple(map(str, range(groups))))]])
    assert rules.items[0][0].quota(total) == math.ceil((total + 1) / groups)


def test_groupby_without_values_never_fits_and_repeated_values_count_once() -> None:
    assert compile_rules([[RuleSpec("zone", "GROUPBY", ())]]).items[0][0].quota(5) == 0
    assert compile_rules([[RuleSpec("zone", "GROUPBY", ("a", "a", "b"))]]).items[0][0].quota(3) == 2


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("", "empty"),
        ("x" * 257, "257 characters"),
        ("re:(", "malformed regular expression"),
        ("re:[a", "malformed regular expression"),
        ("re:(a)\\1", "malformed regular expression"),  # RE2 has no back references
        ("rack-[12", "without"),
        ("[]", "without"),
    ],
)
def test_malformed_patterns_are_named(pattern: str, problem: str) -> None:
    assert problem in (check_pattern(pattern) or "")
    with pytest.raises(BadConstraint, match=problem):
        compile_rules([[RuleSpec("rack", "LIKE", (pattern,))]])


@pytest.mark.parametrize("pattern", ["*", "host-?", "[[]", "[]]", "[!]]x", "a]", "re:[a-z]+", "re:"])
def test_well_formed_patterns_pass(pattern: str) -> None:
    assert check_pattern(pattern) is None


def test_unknown_operators_are_refused() -> None:
    with pytest.raises(BadConstraint, match="'NEAR'"):
        compile_rules([[RuleSpec("rack", "NEAR")]])


def test_rules_are_equal_by_value_and_usable_as_keys() -> None:
    def make() -> object:
        return compile_rules([[RuleSpec("rack", "CLUSTER", ("r1",))]], [("dedicated", "arena")])

    assert make() == make() and len({make(), make()}) == 1
    assert make() != EMPTY_RULES and make() != "rules"
    assert compile_rules([]) is EMPTY_RULES


def test_every_taint_needs_its_own_toleration() -> None:
    rules = compile_rules([], [("dedicated", "arena"), ("old", "yes")])
    assert rules.untolerated([("dedicated", "arena"), ("old", "yes")]) is None
    assert rules.untolerated([("dedicated", "arena"), ("old", "no")]) == Taint("old", "no")
    assert EMPTY_RULES.untolerated([("old", "yes")]) == Taint("old", "yes")


def test_items_are_named_for_people() -> None:
    rules = compile_rules([[RuleSpec("zone", "CLUSTER", ("a",)), RuleSpec("hostname", "UNIQUE")], []])
    assert rules.title(0) == "constraint CLUSTER zone or UNIQUE hostname"
    assert rules.title(1) == "constraint (empty)"
