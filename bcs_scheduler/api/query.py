"""Query parameters: read as declared, unknown ones refused with a hint; label selectors; pages of lists."""

from __future__ import annotations

import base64
import binascii
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from bcs_scheduler.api.documents.walk import hint
from bcs_scheduler.api.errors import bad_parameter
from bcs_scheduler.api.operation import Answer, Param

T = TypeVar("T")
_TRUE, _FALSE = ("true", "1"), ("false", "0")


def read_query(pairs: Iterable[tuple[str, str]], declared: Sequence[Param]) -> dict[str, Any]:
    """Values by parameter. Raises ApiError (400) for unknown, repeated and unreadable ones."""
    known = {param.name: param for param in declared}
    values: dict[str, Any] = {}
    for name, text in pairs:
        param = known.get(name)
        if param is None:
            listed = f"; known are {', '.join(known)}" if known else "; this operation takes none"
            raise bad_parameter(name[:80], f"is unknown{hint(name, known) or listed}")
        if name in values:
            raise bad_parameter(name, "is given twice")
        values[name] = _value(param, text)
    return values


def _value(param: Param, text: str) -> Any:
    match param.kind:
        case "bool":
            if text.lower() not in (*_TRUE, *_FALSE):
                raise bad_parameter(param.name, "must be true or false")
            return text.lower() in _TRUE
        case "int" | "float":
            return _number(param, text)
    if param.choices and text not in param.choices:
        raise bad_parameter(param.name, f"must be one of {', '.join(param.choices)}{hint(text, param.choices)}")
    return text


def _number(param: Param, text: str) -> int | float:
    """Proper numbers only: no blanks, underscores, signs of plus, or other scripts' digits."""
    whole = param.kind == "int"
    if not re.fullmatch(r"-?[0-9]{1,15}" if whole else r"-?[0-9]{1,15}(\.[0-9]{1,9})?", text):
        raise bad_parameter(param.name, f"must be a {'whole ' if whole else ''}number, not {text[:40]!r}")
    number = int(text) if whole else float(text)
    least = -math.inf if param.least is None else param.least
    most = math.inf if param.most is None else param.most
    if number < least:
        raise bad_parameter(param.name, f"must be at least {param.least:g}")
    if number > most:
        raise bad_parameter(param.name, f"must be at most {int(most)}")
    return number


# --- label selectors ------------------------------------------------------------------------------------------


class Requirement(NamedTuple):
    """One term of a selector. `values` empty: presence only. `negated` covers !=, notin and !k; like in Kubernetes,
    a missing label satisfies the negated forms."""

    key: str
    values: frozenset[str]
    negated: bool

    def holds(self, labels: Mapping[str, str]) -> bool:
        if not self.values:
            return (self.key in labels) is not self.negated
        return (labels.get(self.key) in self.values) is not self.negated


_KEY = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_TERM = re.compile(
    rf"\s*(?:(?P<absent>!)\s*(?P<nokey>{_KEY})"
    rf"|(?P<key>{_KEY})(?:\s*+(?P<op>==|!=|=)\s*+(?P<value>[^,()!=\s]*)"
    rf"|\s++(?P<set>in|notin)\s*+\((?P<items>[^()]*)\))?)"
    rf"\s*+(?:,|\Z)"
)
"""Possessive where blanks meet: trying every way to share them out would take quadratic time."""
LONGEST_SELECTOR = 4096
"""Characters: every term is tried on every application."""


def parse_selector(text: str) -> tuple[Requirement, ...]:
    """Raises ApiError (400) for what is no selector. Empty = everything."""
    if len(text) > LONGEST_SELECTOR:
        raise bad_parameter("labelSelector", f"has {len(text)} characters, at most {LONGEST_SELECTOR} are allowed")
    found, position = [], 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise bad_parameter("labelSelector", f"cannot be read at {text[position : position + 40]!r}")
        position = match.end()
        if match["absent"]:
            found.append(Requirement(match["nokey"], frozenset(), negated=True))
        elif match["set"]:
            items = frozenset(item.strip() for item in match["items"].split(","))
            found.append(Requirement(match["key"], items, negated=match["set"] == "notin"))
        elif match["op"]:
            found.append(Requirement(match["key"], frozenset((match["value"],)), negated=match["op"] == "!="))
        else:
            found.append(Requirement(match["key"], frozenset(), negated=False))
    return tuple(found)


def selected(labels: Mapping[str, str], requirements: Sequence[Requirement]) -> bool:
    return all(requirement.holds(labels) for requirement in requirements)


# --- pages ----------------------------------------------------------------------------------------------------

Order = tuple[str | int, ...]


def page(found: Iterable[T], order: Callable[[T], Order], query: Mapping[str, Any], show: Callable[[T], Any]) -> Answer:
    """The elements after the token's, at most `limit`, sorted by `order`, as shown.

    The token is the order of the last element shown, so it stays good when that element is gone.
    """
    items = sorted(found, key=order)
    token = query.get("continue")
    if token:
        after = _order_of(token, len(order(items[0])) if items else 0)
        try:
            items = items[bisect_right(items, after, key=order) :]
        except TypeError as error:
            raise bad_parameter("continue", "is not a token of this list") from error
    limit = query.get("limit", len(items))
    shown = items[:limit]
    resume = _token(order(shown[-1])) if shown and len(items) > limit else ""
    return Answer([show(item) for item in shown], resume=resume)


def _token(order: Order) -> str:
    parts = [f"{'i' if isinstance(part, int) else 's'}{part}" for part in order]
    return base64.urlsafe_b64encode("\n".join(parts).encode()).decode().rstrip("=")


def _order_of(token: str, length: int) -> Order:
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode()
        order = tuple(int(part[1:]) if part[:1] == "i" else part[1:] for part in text.split("\n"))
    except (binascii.Error, ValueError) as error:
        raise bad_parameter("continue", "is not a token of this list") from error
    if length and len(order) != length:
        raise bad_parameter("continue", "is not a token of this list")
    return order
