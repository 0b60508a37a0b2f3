"""Placement constraints, compiled once per version.

A constraint is a list of items that must all hold; an item is a list of rules of which at least one must hold (an empty
item never holds). A rule looks at one attribute of an agent. `hostname` is always known; other attributes come from the
agent and from its settings by operators. A missing attribute, or one of a type the operator does not understand, does
not fit; only EXCLUDE needs no attribute.

    UNIQUE    no live taskgroup of the application has the same value            text or number
    MAXPER    fewer than `limit` live taskgroups have the same value             text or number
    GROUPBY   the value is one of `items`, and fewer than ceil((live + 1) / size of items) have it     text
    CLUSTER   the value is one of `items`                                        text
    LIKE      the value matches one of the patterns `items`                      text
    UNLIKE    the value matches none of the patterns `items`                     text
    GREATER   the value is greater than `number`                                 number
    EXCLUDE   no live taskgroup of another application with one of the labels `items` (``key:value``) is on the agent

Patterns are anchored: a pattern is a shell glob (``*``, ``?``, ``[...]``) over the whole value, or, with the prefix
``re:``, a regular expression that must match the whole value. Regular expressions are those of RE2, as in the original
(Go's regexp is the same): their time is linear in the value for every pattern. Python's ``re`` would let one document
like ``re:(a+)+!`` stop the scheduler, and every one that takes over after it.

Taints are no predicates: every refusing taint of an agent must be tolerated (offers.rules.taints).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import re2

from offers.errors import BadConstraint
from offers.rules.taints import Taint, Toleration, untolerated
from offers.rules.terms import Terms, check, hold

REGEX_PREFIX = "re:"
LONGEST_PATTERN = 256
"""Characters. Longer patterns are surely a mistake, and costly to match."""
_RE2_OPTIONS = re2.Options()
_RE2_OPTIONS.log_errors = False  # errors are returned to the caller

FIXED = frozenset({"CLUSTER", "LIKE", "UNLIKE", "GREATER"})
"""Operators that ask for nothing but the agent."""
COUNTING = frozenset({"UNIQUE", "MAXPER", "GROUPBY"})
"""Operators that count live taskgroups of the application by the value of the attribute."""
OPERATORS = FIXED | COUNTING | {"EXCLUDE"}


class RuleSpec(NamedTuple):
    """A rule as plain values, as the store keeps it."""

    name: str
    operator: str
    items: tuple[str, ...] = ()
    number: float = 0.0
    limit: int = 0
    why: str = ""
    """Name of the rule in diagnoses if no user has written the rule; else empty."""


def check_pattern(text: str) -> str | None:
    """Checks a pattern of LIKE or UNLIKE. Returns the fault as a sentence; None if the pattern is well formed."""
    if not text:
        return "the pattern is empty"
    if len(text) > LONGEST_PATTERN:
        return f"the pattern has {len(text)} characters, at most {LONGEST_PATTERN} are allowed"
    if text.startswith(REGEX_PREFIX):
        try:
            _compiled(text)
        except re2.error as error:
            return f"malformed regular expression (RE2): {_located(error, text.removeprefix(REGEX_PREFIX))}"
        return None
    if "[" in text and not _closed(text):
        return "'[' without ']' in the glob (use [[] for the character itself)"
    return None


def _closed(glob: str) -> bool:
    """Every ``[`` opens a character class that is closed; ``]`` as the first member stands for itself."""
    position = glob.find("[")
    while position >= 0:
        start = position + 1
        if glob[start : start + 1] == "!":
            start += 1
        end = glob.find("]", start + 1)
        if end < 0:
            return False
        position = glob.find("[", end + 1)
    return True


def found_anywhere(expression: str) -> str:
    """The pattern that fits a value in which the regular expression is found anywhere, as the original looks for it."""
    return f"{REGEX_PREFIX}(?s:.*)(?:{expression})(?s:.*)"


def _located(error: Exception, expression: str) -> str:
    """Returns the error that RE2 reports for an expression, with the position (from 1) of the part that it names."""
    said = error.args[0] if error.args else b""
    fault = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    part = fault.rpartition(": ")[2]
    position = expression.find(part) + 1 if part else 0
    return f"{fault}, at character {position}" if position else fault


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Any:
    """Returns the compiled pattern, an object with a method `fullmatch`."""
    if pattern.startswith(REGEX_PREFIX):
        return re2.compile(pattern.removeprefix(REGEX_PREFIX), options=_RE2_OPTIONS)
    return re.compile(fnmatch.translate(pattern))


def _matches(patterns: Sequence[str], value: str) -> bool:
    return any(_compiled(pattern).fullmatch(value) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled rule. Equal rules are interchangeable, also as keys of caches."""

    name: str
    operator: str
    items: tuple[str, ...] = ()
    number: float = 0.0
    limit: int = 0
    why: str = ""

    @property
    def title(self) -> str:
        """The name of the rule in diagnoses, e.g. ``UNIQUE hostname``."""
        return self.why or (f"{self.operator} {self.name}" if self.name else self.operator)

    def admits(self, value: object) -> bool:
        """Returns True if this attribute value is acceptable at all. The counting operators test only the type of the
        value (and GROUPBY the membership); `quota` tests their counts."""
        match self.operator:
            case "UNIQUE" | "MAXPER":
                return isinstance(value, str | float | int)
            case "GREATER":
                return isinstance(value, float | int) and value > self.number
            case "CLUSTER" | "GROUPBY":
                return isinstance(value, str) and value in self.items
            case "LIKE":
                return isinstance(value, str) and _matches(self.items, value)
            case "UNLIKE":
                return isinstance(value, str) and not _matches(self.items, value)
        return False

    def quota(self, total: int) -> int:
        """Greatest number of live taskgroups that may have one value while `total` live ones exist; no more are
        admitted."""
        match self.operator:
            case "UNIQUE":
                return 1
            case "MAXPER":
                return self.limit
            case "GROUPBY":
                size = len(self.items)
                return (total + size) // size if size else 0  # == ceil((total + 1) / size)
        return 0


Item = tuple[Rule, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """The constraints of one version: all `items`, any rule within an item; and the tolerations. `terms` are a second
    form of constraints (offers.rules.terms); both must hold.

    Equal by value; the hash is computed once because caches ask for it on every demand.
    """

    items: tuple[Item, ...] = ()
    tolerations: frozenset[tuple[str, str]] = frozenset()
    """Equal pairs of key and value: taints of any effect are tolerated."""
    terms: Terms = ()
    tolerated: tuple[Toleration, ...] = ()
    """Tolerations with operators and effects, beside the pairs."""
    fixed: tuple[int, ...] = field(default=(), init=False)
    """Positions of the items that only ask for the agent."""
    live: tuple[int, ...] = field(default=(), init=False)
    """Positions of the items that depend on the present taskgroups."""
    _hash: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        live = tuple(i for i, item in enumerate(self.items) if any(rule.operator not in FIXED for rule in item))
        object.__setattr__(self, "live", live)
        object.__setattr__(self, "fixed", tuple(i for i in range(len(self.items)) if i not in live))
        object.__setattr__(self, "_hash", hash((self.items, self.tolerations, self.terms, self.tolerated)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Rules)
            and self.items == other.items
            and self.tolerations == other.tolerations
            and self.terms == other.terms
            and self.tolerated == other.tolerated
        )

    def title(self, position: int) -> str:
        """The name of an item in diagnoses, e.g. ``constraint CLUSTER zone or LIKE hostname``."""
        item = self.items[position]
        words = " or ".join(rule.title for rule in item) or "(empty)"
        return words if any(rule.why for rule in item) else f"constraint {words}"

    def could_admit(self, attributes: Mapping[str, object]) -> bool:
        """Returns True if an agent with these attributes can meet the constraints, independent of existing taskgroups:
        all counts are taken as zero."""
        return not self.objection(attributes)

    def objection(self, attributes: Mapping[str, object]) -> str:
        """The constraint that an agent with these attributes can never meet, as diagnoses call it; empty if none."""
        for position, item in enumerate(self.items):
            if not any(rule.operator == "EXCLUDE" or rule.admits(attributes.get(rule.name)) for rule in item):
                return self.title(position)
        return "" if hold(self.terms, attributes) else "terms"

    def untolerated(self, taints: Iterable[tuple[str, str] | Taint]) -> Taint | None:
        """The first taint that is not tolerated, or None. A pair of key and value is a taint that an operator has
        set."""
        pairs = self.tolerations
        foreign = (Taint(*taint) for taint in taints if (taint[0], taint[1]) not in pairs)
        return untolerated(foreign, self.tolerated)


EMPTY_RULES = Rules()


def compile_rules(
    items: Sequence[Sequence[RuleSpec]],
    tolerations: Sequence[tuple[str, str]] = (),
    terms: Terms = (),
    tolerated: Sequence[Toleration] = (),
) -> Rules:
    """Compiles constraints given as plain values. Raises BadConstraint for an unknown operator, a malformed pattern or
    values that an operator of `terms` cannot have."""
    if not items and not tolerations and not terms and not tolerated:
        return EMPTY_RULES
    check(terms)
    compiled = tuple(tuple(_compile(spec) for spec in item) for item in items)
    return Rules(compiled, frozenset(tolerations), terms, tuple(tolerated))


def _compile(spec: RuleSpec) -> Rule:
    if spec.operator not in OPERATORS:
        raise BadConstraint(f"unknown operator {spec.operator!r}")
    if spec.operator in ("LIKE", "UNLIKE"):
        for pattern in spec.items:
            if error := check_pattern(pattern):
                raise BadConstraint(f"{spec.operator} {spec.name}: {error}")
    # A value listed twice must not make the groups of GROUPBY smaller.
    items = tuple(dict.fromkeys(spec.items))
    return Rule(spec.name, spec.operator, items, float(spec.number), spec.limit, spec.why)
