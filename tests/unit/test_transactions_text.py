"""Parts of messages for people: numbers with nouns and verbs, durations."""

from __future__ import annotations

import ast
import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcs_scheduler.cli.output.text import duration as shown_by_bcs
from store.records.transactions import TransactionKind, TransactionStatus
from tests.sources import Source, sources
from transactions.text import are, counted, duration, have, operation, verdict

ROOMS = ("transactions", "bcs_scheduler/core", "bcs_scheduler/api", "bcs_scheduler/leadership")
RAW_SECONDS = re.compile(r"^ s\b")
PLURAL = re.compile(r"^ (taskgroups|agents|tasks|applications|transactions)\b")
INTERNAL = re.compile(r"INNERSCALE|INIT", re.IGNORECASE)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (0.25, "0.2s"), (1.9, "1s"), (60, "1m"), (192, "3m12s"), (86_399, "23h59m"), (18_180, "5h3m"),
     (3601, "1h"), (1_051_200, "12d4h"), (-3, "0s")],
)  # fmt: skip
def test_durations_have_two_units(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_types_and_verdicts_of_transactions_have_words() -> None:
    shown = [operation(one) for one in get_args(TransactionKind)] + [
        verdict(one) for one in get_args(TransactionStatus)
    ]
    assert not [word for word in shown if word != word.lower() or INTERNAL.search(word)]
    assert operation("INNERSCALE") == "step of an update" and verdict("TIMEOUT") == "timed out"


@given(st.floats(min_value=0, max_value=1e8))
def test_server_and_command_line_show_durations_alike(seconds: float) -> None:
    assert duration(seconds) == shown_by_bcs(seconds)


def test_numbers_have_the_right_noun_and_verb() -> None:
    assert [f"{counted(n, 'taskgroup')} {are(n)}, {have(n)}" for n in (0, 1, 2)] == [
        "0 taskgroups are, have",
        "1 taskgroup is, has",
        "2 taskgroups are, have",
    ]


def messages(source: Source) -> list[tuple[int, ast.JoinedStr]]:
    return [(node.lineno, node) for node in source.nodes if isinstance(node, ast.JoinedStr)]


def after_values(node: ast.JoinedStr) -> list[tuple[ast.FormattedValue, str]]:
    """The values of a text, each with what follows it."""
    return [
        (value, following.value)
        for value, following in zip(node.values, node.values[1:], strict=False)
        if isinstance(value, ast.FormattedValue)
        and isinstance(following, ast.Constant)
        and isinstance(following.value, str)
    ]


def test_no_message_has_raw_seconds_or_a_plural_after_any_number() -> None:
    found = []
    for source in sources(*ROOMS):
        for line, node in messages(source):
            for value, following in after_values(node):
                constant = isinstance(value.value, ast.Name) and value.value.id.isupper()
                if RAW_SECONDS.match(following) or (PLURAL.match(following) and not constant):
                    found.append(f"{source.name}:{line}: {following.strip()[:30]}")
    assert found == []


def test_no_message_contains_the_name_of_a_type_of_transaction() -> None:
    """``{transaction.type} of``: a type that a message shows has to be a word."""
    found = [
        f"{source.name}:{line}"
        for source in sources(*ROOMS)
        for line, node in messages(source)
        for value in node.values
        if isinstance(value, ast.FormattedValue)
        and isinstance(value.value, ast.Attribute)
        and value.value.attr == "type"
        and isinstance(value.value.value, ast.Name)
        and value.value.value.id in ("transaction", "running", "operation", "last")
    ]
    assert found == []


NAMED = frozenset(
    {"group", "taskgroup", "before", "after", "old", "new", "other", "running", "owner", "successor", "transaction"}
)
"""Variables for taskgroups and transactions, which messages name as users type them."""


def test_no_message_contains_the_id_of_a_taskgroup_or_transaction() -> None:
    """``{group.id}``: a message has the name, ``web-0`` or ``launch 659201``. Errors of programmers may have ids."""
    found = []
    for source in sources(*ROOMS):
        raised = [node for node in source.nodes if isinstance(node, ast.Call) and _is_mistake(node)]
        allowed = {id(inner) for call in raised for inner in ast.walk(call)}
        for node in source.nodes:
            if not isinstance(node, ast.JoinedStr) or id(node) in allowed:
                continue
            if any(" " in str(part.value) for part in node.values if isinstance(part, ast.Constant)):
                found += [f"{source.name}:{node.lineno}" for part in node.values if _is_identity(part, NAMED)]
    assert found == []


def _is_mistake(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in ("ValueError", "TypeError", "KeyError", "RuntimeError")


def _is_identity(part: ast.expr, names: frozenset[str]) -> bool:
    return (
        isinstance(part, ast.FormattedValue)
        and isinstance(part.value, ast.Attribute)
        and part.value.attr in ("id", "agent_id")
        and isinstance(part.value.value, ast.Name)
        and part.value.value.id in names
    )
