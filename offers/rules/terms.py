"""Terms over labels: any of several terms, all expressions of a term. Pure functions of values.

The second form of rules beside the constraints of documents. The operators differ from those of constraints in the
treatment of a missing label: `NotIn` and `DoesNotExist` hold where the label is missing.

    In             the label is one of `values`
    NotIn          the label is none of `values`, or missing
    Exists         the label is there, with any value
    DoesNotExist   the label is missing
    Gt, Lt         the label is an integer that is greater (less) than the one integer in `values`
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from offers.errors import BadConstraint

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]

NAME = "node:name"
"""The pseudo label that holds the name of the agent itself."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


class Expression(NamedTuple):
    """One condition on one label."""

    label: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, value: object) -> bool:
        """Returns True if the condition holds for a value of the label; None: the agent does not have the label."""
        match self.operator:
            case "In":
                return isinstance(value, str) and value in self.values
            case "NotIn":
                return not (isinstance(value, str) and value in self.values)
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        number, bound = integer(value), integer(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound


Term = tuple[Expression, ...]
"""All of its expressions must hold. A term without expressions never holds."""
Terms = tuple[Term, ...]
"""One of its terms must hold. Without terms everything holds; with nothing but empty terms, nothing."""


def integer(value: object) -> int | None:
    """The integer that a label means; None if it is not written as one or has more than 18 digits."""
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) else None


def hold(terms: Terms, labels: Mapping[str, object]) -> bool:
    """Returns True if the terms hold for an agent with these labels."""
    return not terms or any(term and all(e.holds(labels.get(e.label)) for e in term) for term in terms)


def check(terms: Terms) -> None:
    """Raises BadConstraint for an unknown operator or for values that the operator cannot have."""
    for expression in (expression for term in terms for expression in term):
        where = f"{expression.operator} {expression.label}"
        match expression.operator:
            case "In" | "NotIn":
                if not expression.values:
                    raise BadConstraint(f"{where}: at least one value is needed")
            case "Exists" | "DoesNotExist":
                if expression.values:
                    raise BadConstraint(f"{where}: no values are allowed")
            case "Gt" | "Lt":
                if len(expression.values) != 1 or integer(expression.values[0]) is None:
                    raise BadConstraint(f"{where}: exactly one integer is needed")
            case _:
                raise BadConstraint(f"unknown operator {expression.operator!r}")
