"""Advice stands in one place: a text elsewhere that names a way on would not be followed by the test of advice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from bcs_scheduler.cli.main import COMMANDS
from store.advice import ADVICE
from tests.sources import Source, sources

HOME = "store/advice.py"
COMMAND = re.compile(r"`bcs [a-z]")
WAY = re.compile(
    r"; (?:or )?(?:wait|resume|cancel|delete|scale|update|use|change|reschedule|drain|uncordon)\b(?! with)"
)
"""The form in which messages of the core name a way on."""
ELSEWHERE = (
    "bcs_scheduler/cli/commands/shipped.py", "bcs_scheduler/cli/document_files.py", "bcs_scheduler/cli/habits.py",
    "bcs_scheduler/demo/",
)  # fmt: skip
"""Texts about files that come with the program, about kinds that no document makes, and about words of other command
lines: they name no object."""
STATEMENTS = {
    "wait for answers, or delete commands",
    "wait for the end",
    "use Env or Local",
    "; resume",  # of a watch, by its client
    "delete them or use --force",  # of bcs-scheduler, for a folder
    "Old name of",
    "Environment: ",
}
"""Texts of ways that are no operation on an object of the scheduler, of changes of a document, and help texts."""


def texts(source: Source) -> Iterator[tuple[int, str]]:
    """Line and text of each message: string constants that are neither docstrings nor help texts."""
    skipped: set[int] = set()
    for node in source.nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            skipped |= {id(one.value) for one in node.body if isinstance(one, ast.Expr)}
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in HELPING:
                skipped |= {id(part) for one in ast.walk(node) if isinstance(part := one, ast.Constant)}
    for node in source.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


HELPING = {"option", "argument", "command", "group", "examples", "Entry", "_cordoning", "_action", "Param", "Failure"}
"""Functions that take help texts."""


def test_no_other_module_names_a_way_on() -> None:
    found = [
        f"{source.name}:{line}: {text}"
        for source in sources("store", "offers", "transactions", "bcs_scheduler")
        if source.name != HOME and not source.name.startswith(ELSEWHERE)
        for line, text in texts(source)
        if (COMMAND.search(text) or WAY.search(text)) and not any(one in text for one in STATEMENTS)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("code", ADVICE)
def test_advice_names_commands_that_exist(code: str) -> None:
    assert ADVICE[code].named()  # type: ignore[index]
    for command in ADVICE[code].named():  # type: ignore[index]
        assert any(command.split()[1] in section for section in COMMANDS.values()), command
