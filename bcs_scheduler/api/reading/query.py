"""Query parameters: read as declared, unknown ones named in a warning; label selectors; pages of lists."""

from __future__ import annotations

import base64
import binascii
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from bcs_scheduler.api.documents.names import LABEL_KEY
from bcs_scheduler.api.http.errors import ApiError, bad_parameter
from bcs_scheduler.api.http.operation import Answer, Listing, Param
from bcs_scheduler.wire.problems import LONGEST_KEY, Problems, hint
from store.state.ordered import Order

T = TypeVar("T")
TRUE, _FALSE = ("true", "1"), ("false", "0")


def read_query(pairs: Iterable[tuple[str, str]], declared: Sequence[Param]) -> dict[str, Any]:
    """Values by parameter; empty and unknown ones have no effect. Raises ApiError (400) for repeated and unreadable
    ones, and for an unknown one that differs from a known one only in capitals, `-` or `_`: a misspelt `dryRun` must
    not be passed over."""
    known = {param.name: param for param in declared}
    values: dict[str, Any] = {}
    for name, text in pairs:
        param = known.get(name)
        if param is None:
            if meant := next((other for other in known if _folded(other) == _folded(name)), ""):
                raise bad_parameter(name[:80], f"is unknown; did you mean {meant}?")
        elif text and name in values:
            raise bad_parameter(name, "is given twice")
        elif text:
            values[name] = _value(param, text)
    return values


def unknown_parameters(pairs: Iterable[tuple[str, str]], declared: Sequence[Param], problems: Problems) -> None:
    """Names the parameters that the operation does not know."""
    known = [param.name for param in declared]
    for name, _ in pairs:
        if name not in known:
            near = hint(name, known) if problems.may_look() else ""
            problems.warn(f"?{name[:LONGEST_KEY]}", f"is unknown and has no effect{near}")


def _folded(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _value(param: Param, text: str) -> Any:
    match param.kind:
        case "bool":
            if text.lower() not in (*TRUE, *_FALSE):
                raise bad_parameter(param.name, "must be true or false")
            return text.lower() in TRUE
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


_TERM = re.compile(
    rf"\s*(?:(?P<absent>!)\s*(?P<nokey>{LABEL_KEY})"
    rf"|(?P<key>{LABEL_KEY})(?:\s*+(?P<op>==|!=|=)\s*+(?P<value>[^,()!=\s]*)"
    rf"|\s++(?P<set>in|notin)\s*+\((?P<items>[^()]*)\))?)"
    rf"\s*+(?:,|\Z)"
)
"""Possessive where blanks meet: trying every way to share them out would take quadratic time."""
LONGEST_SELECTOR = 4096
"""Characters: every term is tried on every application."""


def parse_selector(text: str) -> tuple[Requirement, ...]:
    """Parses a label selector; empty = everything. Raises ApiError (400) for a text that is no selector."""
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

SCANNED = 20_000
"""Elements that are looked at for one page at most. A filter that few pass would otherwise make a page cost with the
whole list: the page is then shorter than `limit`, even empty, and its token names the place to continue."""


def page(found: Iterable[T], order: Callable[[T], Order], query: Mapping[str, Any], show: Callable[[T], Any]) -> Answer:
    """The elements after the token's, at most `limit`, sorted by `order`, as shown: for lists that are short, or whose
    cost depends on the object of the path.

    The token is the order of the last element shown, so it stays good when that element is gone.
    """
    items = sorted(((order(item), item) for item in found), key=itemgetter(0))
    after = after_of(query)
    if after is not None and items:
        items = items[_passed(items, after) :]
    limit = query.get("limit", len(items))
    resume = _token(items[limit - 1][0]) if 0 < limit < len(items) else ""
    return Answer([show(item) for _, item in items[:limit]], resume=resume)


def _passed(items: Sequence[tuple[Order, T]], after: Order) -> int:
    if len(after) != len(items[0][0]):
        raise _no_token()
    try:
        return bisect_right(items, after, key=itemgetter(0))
    except TypeError as error:
        raise _no_token() from error


def page_or_all(
    walk: Callable[[Order | None], Iterator[tuple[Order, T]]],
    query: Mapping[str, Any],
    show: Callable[[T], Any],
    fits: Callable[[T], bool] | None = None,
) -> Answer | Listing:
    """A list that is kept in order: a page of it if there is a `limit`, and else all of it, bit by bit.

    `walk` gives the elements after an order (None = all), smallest first; `fits` is true for the elements of the list
    (None = all). Raises ApiError (400) for a token that is not of this list.
    """
    found = _walked(walk, after_of(query))
    if "limit" not in query:
        return Listing(show(item) for _, item in found if fits is None or fits(item))
    limit = query["limit"]
    shown: list[Any] = []
    last: Order = ()
    for scanned, (order, item) in enumerate(found):
        if scanned == SCANNED:
            return Answer(shown, resume=_token(last))
        if fits is None or fits(item):
            if len(shown) == limit:
                return Answer(shown, resume=_token(last))
            shown.append(show(item))
        last = order
    return Answer(shown)


def _walked(
    walk: Callable[[Order | None], Iterator[tuple[Order, T]]], after: Order | None
) -> Iterator[tuple[Order, T]]:
    """Reads the first element, so that a token that does not fit the order of this list is found before the answer
    begins. Raises ApiError (400)."""
    found = walk(after)
    try:
        first = next(found, None)
    except TypeError as error:
        raise _no_token() from error
    example = first or next(walk(None), None)
    if after is not None and example is not None and len(after) != len(example[0]):
        raise _no_token()
    return chain((first,), found) if first is not None else iter(())


def after_of(query: Mapping[str, Any]) -> Order | None:
    """The order after which the page begins. None = the page begins with the first element. Raises ApiError (400)."""
    token = query.get("continue")
    return _order_of(token) if token else None


def _no_token() -> ApiError:
    return bad_parameter("continue", "is not a token of this list")


def _token(order: Order) -> str:
    parts = [f"{'i' if isinstance(part, int) else 's'}{part}" for part in order]
    return base64.urlsafe_b64encode("\n".join(parts).encode()).decode().rstrip("=")


def _order_of(token: str) -> Order:
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode()
        return tuple(int(part[1:]) if part[:1] == "i" else part[1:] for part in text.split("\n"))
    except (binascii.Error, ValueError) as error:
        raise _no_token() from error
