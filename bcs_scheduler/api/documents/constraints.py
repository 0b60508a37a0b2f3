"""Placement constraints of a document: the check of every operator with its payload, and the conversion.

Operators and payloads as in the original (docs/original.md#constraints), with repairs
(docs/original.md#constraints-that-fit): a constraint that the original accepts and that never fits (or always fits) is
refused here. Two that the original's users write on purpose are accepted with a warning: a union inside a union never
fits, and an empty UNLIKE always fits. Patterns are compiled once, so that faulty ones are refused. A TOLERATION names
the tolerated taint at any place, and is no predicate.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from bcs_scheduler.wire.documents.application import (
    ConstraintDocument,
    ScalarPayload,
    SetPayload,
    TextPayload,
    UnionDatum,
)
from bcs_scheduler.wire.problems import Problems, element, member
from offers.rules.constraints import REGEX_PREFIX, check_pattern, found_anywhere
from store.records.definition import Constraint, Toleration

_PAYLOAD_OF_TYPE = {1: "scalar", 2: "ranges", 3: "text", 4: "set"}
_TYPE_OF_PAYLOAD = {name: number for number, name in _PAYLOAD_OF_TYPE.items()}
_ACCEPTED: dict[str, tuple[str, ...]] = {
    "UNIQUE": (),
    "MAXPER": ("text",),
    "CLUSTER": ("text", "set"),
    "LIKE": ("text", "set"),
    "UNLIKE": ("text", "set"),
    "GROUPBY": ("set",),
    "EXCLUDE": ("set",),
    "GREATER": ("scalar",),
    "TOLERATION": ("text",),
}
_EXPRESSION = re.compile(r"[\\^$|(){}+]|\.[*?]|\]\*")
"""Signs of regular expressions that no glob means."""
_GLOB = frozenset("*?[")
"""Signs of globs."""
_BLANK = (TextPayload(), SetPayload(), ScalarPayload())
"""Payloads that ask for nothing."""
MAX_LIMIT = 1_000_000


def check_constraint(document: ConstraintDocument, path: str, problems: Problems) -> None:
    """Reports every datum that can never have the effect that its author wants."""
    items_path = member(path, "intersectionItem")
    for i, item in enumerate(document.intersection_item):
        union_path = member(element(items_path, i), "unionData")
        if not item.union_data:
            problems.add(union_path, "must not be empty: no agent would match")
        for j, datum in enumerate(item.union_data):
            _check_datum(datum, element(union_path, j), problems)


def to_constraints(document: ConstraintDocument) -> tuple[tuple[tuple[Constraint, ...], ...], tuple[Toleration, ...]]:
    """Predicates and tolerations of a checked document. A union of tolerations only asks nothing of an offer."""
    unions = []
    tolerations: list[Toleration] = []
    for item in document.intersection_item:
        tolerations.extend(
            Toleration(key=datum.name, value=datum.text.value)
            for datum in item.union_data
            if datum.operate == "TOLERATION" and datum.text is not None
        )
        asked = [datum for datum in item.union_data if datum.operate != "TOLERATION"]
        if asked:
            # A union inside the union never fits: without it the others decide, and nothing fits an empty union.
            unions.append(tuple(_to_constraint(datum) for datum in asked if not _is_nested(datum)))
    return tuple(unions), tuple(dict.fromkeys(tolerations))


def _check_datum(datum: UnionDatum, path: str, problems: Problems) -> None:
    if _is_nested(datum):
        words = "is a union inside a union, which never fits"
        problems.warn(member(path, "unionData"), words, "write its members into the outer union")
        return
    if datum.union_data is not None:
        problems.warn(member(path, "unionData"), "has no effect beside operate")
    accepted = _ACCEPTED.get(datum.operate)
    if not datum.operate:
        problems.add(member(path, "operate"), "is required")
        return
    if accepted is None:
        known = ", ".join(_ACCEPTED)
        problems.add(member(path, "operate"), f"must be one of {known}", datum.operate, _ACCEPTED)
        return
    if not datum.name and datum.operate != "EXCLUDE":
        what = "the key of the taint" if datum.operate == "TOLERATION" else "the name of the attribute"
        problems.add(member(path, "name"), f"is required: {what}")
    payload = _check_payload(datum, accepted, path, problems)
    if payload is not None:
        _VALUES.get(datum.operate, _check_any_text)(datum, path, problems)


def _is_nested(datum: UnionDatum) -> bool:
    return datum.union_data is not None and not datum.operate


def _check_payload(datum: UnionDatum, accepted: tuple[str, ...], path: str, problems: Problems) -> str | None:
    """The payload's name if it is the one the operator reads, else None (reported, or rightly absent)."""
    given = [name for name in _TYPE_OF_PAYLOAD if getattr(datum, name) not in (None, ())]
    wanted = " or ".join(accepted)
    for name in given:
        if name not in accepted and getattr(datum, name) not in _BLANK:
            takes = f"takes {wanted}" if accepted else "takes no payload"
            problems.warn(member(path, name), f"is not used by {datum.operate}, which {takes}")
    fitting = [name for name in given if name in accepted]
    if len(fitting) > 1:
        fitting = [name for name in fitting if getattr(datum, name) not in _BLANK] or fitting[:1]
    declared = _PAYLOAD_OF_TYPE.get(datum.type)
    if accepted and not fitting:
        problems.add(member(path, accepted[0]), f"is required: {datum.operate} takes {wanted}")
    elif len(fitting) > 1:
        problems.add(member(path, fitting[1]), f"give only one of {wanted}")
    elif declared is not None and not accepted:
        problems.warn(member(path, "type"), f"is {datum.type} ({declared}), but must be 0 or left out here")
    elif declared is not None and declared not in fitting:
        expected = ", ".join(f"{_TYPE_OF_PAYLOAD[name]} ({name})" for name in fitting) or "0 or left out"
        problems.add(member(path, "type"), f"is {datum.type} ({declared}), but must be {expected} here")
    return fitting[0] if fitting else None


def _texts(datum: UnionDatum, path: str) -> list[tuple[str, str]]:
    """(path, value) of every text of the payload."""
    if datum.set is not None and (datum.set.item or datum.text is None or not datum.text.value):
        items = member(member(path, "set"), "item")
        return [(element(items, i), value) for i, value in enumerate(datum.set.item)]
    return [(member(member(path, "text"), "value"), datum.text.value)] if datum.text is not None else []


def _check_any_text(datum: UnionDatum, path: str, problems: Problems) -> None:
    texts = _texts(datum, path)
    if datum.set is not None and not datum.set.item and not texts:
        at = member(member(path, "set"), "item")
        if datum.operate == "UNLIKE":
            problems.warn(at, f"is empty: every agent with the attribute {datum.name} fits")
        else:
            problems.add(at, "must not be empty: no agent would match")
    for at, value in texts:
        if not value:
            problems.add(at, "must not be empty")
    seen: set[str] = set()
    for at, value in texts:
        if value in seen:
            problems.warn(at, f'"{value}" is given twice', "the item counts once")
        seen.add(value)


def _check_patterns(datum: UnionDatum, path: str, problems: Problems) -> None:
    _check_any_text(datum, path, problems)
    for at, value in _texts(datum, path):
        written = REGEX_PREFIX + value if _is_expression(value) else value
        error = check_pattern(written) or check_pattern(to_pattern(value))
        if error:
            problems.add(at, error)
        elif not value.startswith(REGEX_PREFIX) and not _is_expression(value):
            words = "is a glob over the whole value; the original also reads it as a regular expression"
            problems.differs(at, words, "a regular expression, as in .*ssd.*, is found anywhere")


def to_pattern(value: str) -> str:
    """The pattern of offers.rules.constraints: a glob over the whole value, or a regular expression that is found
    anywhere in the value, as in the original. With `re:` in front the expression is that of the whole value."""
    return found_anywhere(value) if _is_expression(value) else value


def _is_expression(value: str) -> bool:
    """True if a pattern of the original is a regular expression and not a glob: it has signs that a glob has not, or
    no signs of a glob."""
    if value.startswith(REGEX_PREFIX):
        return False
    return _EXPRESSION.search(value) is not None or _GLOB.isdisjoint(value)


def _check_limit(datum: UnionDatum, path: str, problems: Problems) -> None:
    text = datum.text.value if datum.text is not None else ""
    if not (text.isascii() and text.isdigit() and len(text) <= 7 and 1 <= int(text) <= MAX_LIMIT):
        problems.add(member(member(path, "text"), "value"), f'must be a whole number from 1 to {MAX_LIMIT}, as in "2"')


def _check_pairs(datum: UnionDatum, path: str, problems: Problems) -> None:
    _check_any_text(datum, path, problems)
    for at, value in _texts(datum, path):
        key, colon, rest = value.partition(":")
        if not (key and colon and rest):
            problems.add(at, "must be a label written key:value")


def _check_nothing(datum: UnionDatum, path: str, problems: Problems) -> None:
    """The walk has checked the number already."""


_VALUES: dict[str, Callable[[UnionDatum, str, Problems], None]] = {
    "MAXPER": _check_limit,
    "LIKE": _check_patterns,
    "UNLIKE": _check_patterns,
    "EXCLUDE": _check_pairs,
    "GREATER": _check_nothing,
}


def _to_constraint(datum: UnionDatum) -> Constraint:
    payload: dict[str, Any] = {}
    match datum.operate:
        case "GREATER" if datum.scalar is not None:
            payload["number"] = datum.scalar.value
        case "MAXPER" if datum.text is not None:
            payload["limit"] = int(datum.text.value)
        case "UNIQUE":
            pass
        case _:
            values = dict.fromkeys(value for _, value in _texts(datum, ""))
            patterns = datum.operate in ("LIKE", "UNLIKE")
            payload["items"] = tuple(map(to_pattern, values) if patterns else values)
    return Constraint(name=datum.name, operator=datum.operate, **payload)  # type: ignore[arg-type]
