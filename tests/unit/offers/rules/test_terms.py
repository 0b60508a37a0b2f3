"""Terms over labels: word for word, and as columns over many agents."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offers.errors import BadConstraint
from offers.ledger.offered import OfferPool, offer_pool
from offers.model import Offer
from offers.rules.constraints import RuleSpec, compile_rules
from offers.rules.terms import NAME, Expression, Operator, Terms, check, hold, integer

OPERATORS: tuple[Operator, ...] = get_args(Operator)

names = st.sampled_from(("zone", "level", "absent"))
texts = st.sampled_from(("a", "b", "1", "2", "-3", "x1", ""))
labels = st.dictionaries(names, st.one_of(texts, st.sampled_from((1.0, 2.5))))


@st.composite
def expressions(draw: st.DrawFn) -> Expression:
    operator = draw(st.sampled_from(OPERATORS))
    match operator:
        case "In" | "NotIn":
            values = draw(st.lists(texts, min_size=1, max_size=3))
        case "Gt" | "Lt":
            values = [str(draw(st.integers(-4, 4)))]
        case _:
            values = []
    return Expression(draw(names), operator, tuple(values))


term_lists = st.lists(st.lists(expressions(), max_size=3).map(tuple), max_size=3).map(tuple)


@given(expressions(), labels)
def test_an_expression_word_for_word(expression: Expression, there: dict[str, Any]) -> None:
    value = there.get(expression.label)
    text = value if isinstance(value, str) else None
    expected = {
        "In": text in expression.values if text is not None else False,
        "NotIn": text is None or text not in expression.values,
        "Exists": expression.label in there,
        "DoesNotExist": expression.label not in there,
    }
    if expression.operator in expected:
        assert expression.holds(value) == expected[expression.operator]
        return
    number = None if value is None else integer(value)
    bound = int(expression.values[0])
    greater = expression.operator == "Gt"
    assert expression.holds(value) == (number is not None and (number > bound if greater else number < bound))


@given(expressions(), labels)
def test_opposites(expression: Expression, there: dict[str, Any]) -> None:
    opposite: dict[str, Operator] = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}
    if expression.operator in opposite:
        other = expression._replace(operator=opposite[expression.operator])
        value = there.get(expression.label)
        assert expression.holds(value) != other.holds(value)


@pytest.mark.parametrize(
    ("value", "number"),
    [("7", 7), ("-3", -3), ("+4", 4), ("", None), ("1.0", None), ("1e3", None), ("\uff11", None), ("9" * 19, None)],
)
def test_integers_of_labels(value: str, number: int | None) -> None:
    assert integer(value) == number


def test_numbers_that_operators_set() -> None:
    assert (integer(2.0), integer(2.5), integer(float("inf")), integer(float("nan"))) == (2, None, None, None)


def test_no_terms_hold_and_empty_terms_never_do() -> None:
    assert hold((), {})
    assert not hold(((),), {"zone": "a"})
    assert hold(((), (Expression("zone", "Exists"),)), {"zone": "a"})


def nodes(all_labels: list[dict[str, Any]]) -> OfferPool:
    pool = offer_pool()
    for number, attributes in enumerate(all_labels):
        pool.hand.add(Offer(f"o{number}", f"a{number}", f"h{number}", "", "*", attributes, (), ()))
    pool.table.flush()
    return pool


@given(st.lists(labels, max_size=6), term_lists)
def test_columns_say_the_same_as_each_agent_alone(there: list[dict[str, Any]], terms: Terms) -> None:
    pool = nodes(there)
    rules = compile_rules([], terms=terms)
    ok = pool.eligibility(rules, "*").ok
    for number, attributes in enumerate(there):
        row = pool.rows_of(f"a{number}")[0]
        assert bool(ok[row.number]) == hold(terms, attributes) == rules.could_admit(attributes)


def test_scenario_9_of_the_specification() -> None:
    there = {
        "n1": {"zone": "a", "disk": "ssd", NAME: "n1"},
        "n2": {"zone": "b", NAME: "n2"},
        "n3": {NAME: "n3"},
    }
    either: Terms = (
        (Expression("zone", "In", ("a",)),),
        (Expression("disk", "NotIn", ("ssd",)), Expression("zone", "DoesNotExist")),
    )
    for terms, admitted in (
        (either, ["n1", "n3"]),
        (((Expression("zone", "NotIn", ("a",)),),), ["n2", "n3"]),
        (((Expression(NAME, "In", ("n2",)),),), ["n2"]),
    ):
        assert [name for name, attributes in there.items() if hold(terms, attributes)] == admitted


def test_both_forms_of_constraints_must_hold() -> None:
    pool = nodes([{"zone": "a", "rack": "r1"}, {"zone": "a", "rack": "r2"}, {"zone": "b", "rack": "r1"}])
    rules = compile_rules([[RuleSpec("rack", "CLUSTER", ("r1",))]], terms=((Expression("zone", "In", ("a",)),),))
    assert pool.eligibility(rules, "*").ok.nonzero()[0].tolist() == [0]
    assert rules.objection({"zone": "b", "rack": "r1"}) == "terms"
    assert rules.objection({"zone": "a", "rack": "r2"}) == "constraint CLUSTER rack"
    assert rules != compile_rules([[RuleSpec("rack", "CLUSTER", ("r1",))]])


@pytest.mark.parametrize(
    "expression",
    [
        Expression("zone", "In"),
        Expression("zone", "NotIn"),
        Expression("zone", "Exists", ("a",)),
        Expression("zone", "Gt", ("a",)),
        Expression("zone", "Lt", ("1", "2")),
        Expression("zone", "Near", ("1",)),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_expressions_that_can_never_be_evaluated_are_refused(expression: Expression) -> None:
    with pytest.raises(BadConstraint):
        check(((expression,),))
    with pytest.raises(BadConstraint):
        compile_rules([], terms=((expression,),))
