"""Sentences for people are never compared by the program: it compares codes (store/codes.py, store/reasons.py)."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tests.sources import ROOT, source_of, sources

ROOMS = (
    "store", "transactions", "offers", "bcs_scheduler/core", "bcs_scheduler/api", "bcs_scheduler/publishing",
    "bcs_scheduler/leadership/hub.py", "bcs_scheduler/leadership/items.py", "bcs_scheduler/leadership/touches.py",
    "bcs_scheduler/observability/alarms.py", "bcs_scheduler/leadership/term.py",
    "bcs_scheduler/leadership/runtime.py", "bcs_scheduler/leadership/present_role.py",
    "bcs_scheduler/wire", "bcs_scheduler/cli", "tests/simulation",
)  # fmt: skip
PROSE = frozenset({"message", "words", "text", "why", "kill_reason", "rollback_reason"})
"""Names of attributes, variables and keys that hold sentences."""
TAKING_APART = frozenset({"startswith", "endswith", "replace", "partition", "rpartition", "split", "removeprefix"})
OTHERWISE = {
    # A rule of the simulation: the message of a blocked drain has a cause.
    "tests/simulation/rest.py",
    # `why` is a code there.
    "bcs_scheduler/leadership/hub.py",
    # The user's own input: documents, references and command lines.
    "store/ids.py", "store/keys.py", "offers/rules/constraints.py", "transactions/injection.py",
    "bcs_scheduler/api/reading/query.py",
    "bcs_scheduler/wire/quantities.py", "bcs_scheduler/cli/client/lookup.py",
    "bcs_scheduler/cli/commands/taskgroups/copying.py", "bcs_scheduler/cli/commands/changing/generate.py",
    "bcs_scheduler/cli/commands/changing/rollout.py", "bcs_scheduler/cli/output/text.py",
    "bcs_scheduler/cli/kinds/workloads/events.py",
}  # fmt: skip


def holds_prose(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return name in PROSE
        case ast.Call(func=ast.Attribute(value=inner, attr="lower" | "strip" | "rstrip")):
            return holds_prose(inner)
    return False


def is_fixed(node: ast.expr) -> bool:
    """A text that stands in the source, also by the name of a constant."""
    match node:
        case ast.Constant(value=str(text)):
            return bool(text)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name.isupper() and len(name) > 1
        case ast.Tuple(elts=items) | ast.Set(elts=items):
            return any(map(is_fixed, items))
        case ast.JoinedStr():
            return True
    return False


def is_text(case: ast.match_case) -> bool:
    return any(isinstance(part, ast.MatchValue) for part in ast.walk(case.pattern))


def offences(nodes: Iterable[ast.AST]) -> list[int]:
    found = []
    for node in nodes:
        match node:
            case ast.Compare(left=left, comparators=[right]) if not isinstance(node.ops[0], ast.Is | ast.IsNot):
                if (holds_prose(left) and is_fixed(right)) or (holds_prose(right) and is_fixed(left)):
                    found.append(node.lineno)
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in TAKING_APART and holds_prose(value):
                found.append(node.lineno)
            case ast.Match(subject=subject, cases=cases) if holds_prose(subject) and any(map(is_text, cases)):
                found.append(node.lineno)
    return sorted(found)


def test_no_sentence_is_compared() -> None:
    found = {source.name: offences(source.nodes) for source in sources(*ROOMS)}
    assert len(found) > 200
    wrong = [f"{name}:{line}" for name, lines in found.items() if name not in OTHERWISE for line in lines]
    assert not wrong, "these compare words that people read: " + ", ".join(wrong)


def test_every_exception_is_needed() -> None:
    assert [name for name in sorted(OTHERWISE) if not offences(source_of(ROOT / name).nodes)] == []


def test_comparisons_are_found() -> None:
    wrong = (
        'drain.message == "begins"', "drain.message == BEGINS", "group.kill_reason != lifecycle.ROLLED",
        'STANDS_STILL not in note.text', '"the store takes" in reply.message', 'deployment.message.replace("a", "b")',
        'why.partition(" ")', 'event["message"].startswith("x")', 'message in ("a", "b")',
    )  # fmt: skip
    assert [source for source in wrong if not offences(ast.walk(ast.parse(source)))] == []
    right = ("words != drain.message", 'group.end_cause == "Misplaced"', 'message == ""', "text or message")
    assert [source for source in right if offences(ast.walk(ast.parse(source)))] == []
