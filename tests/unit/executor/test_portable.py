"""The executor ships to agents with Python 3.9 and nothing else: what it may use is checked here."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import bcs_scheduler.executor

ROOT = Path(bcs_scheduler.executor.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
SINCE_39 = {
    "asyncio.Runner", "asyncio.TaskGroup", "asyncio.timeout", "contextlib.aclosing", "contextlib.chdir",
    "dataclasses.KW_ONLY", "datetime.UTC", "enum.StrEnum", "hashlib.file_digest", "inspect.get_annotations",
    "itertools.batched", "itertools.pairwise", "logging.getLevelNamesMapping", "os.eventfd", "os.eventfd_read",
    "os.eventfd_write", "os.login_tty", "os.setns", "os.splice", "os.unshare", "sys.exception", "sys.orig_argv",
    "sys.stdlib_module_names", "threading.gettrace", "threading.setprofile_all_threads", "tomllib",
    "types.EllipsisType", "types.NoneType", "types.NotImplementedType", "types.UnionType", "typing.Concatenate",
    "typing.LiteralString", "typing.Never", "typing.NotRequired", "typing.ParamSpec", "typing.Required", "typing.Self",
    "typing.TypeAlias", "typing.TypeGuard", "typing.TypeVarTuple", "typing.Unpack", "typing.assert_never",
    "typing.assert_type", "typing.dataclass_transform", "typing.override", "typing.reveal_type",
}  # fmt: skip
"""Names of the standard library that came after 3.9 and could be wanted here ("What's New" of 3.10 to 3.12)."""
BUILTINS_SINCE_39 = {"aiter", "anext", "EncodingWarning", "BaseExceptionGroup", "ExceptionGroup"}
ARGUMENTS_SINCE_39 = {
    "dataclass": {"slots", "kw_only", "match_args", "weakref_slot"},
    "field": {"kw_only"},
    "zip": {"strict"},
    "extractall": {"filter"},
    "extract": {"filter"},
    "Popen": {"process_group", "pipesize"},
    "run": {"process_group", "pipesize"},
    "rmtree": {"onexc"},
    "TemporaryDirectory": {"ignore_cleanup_errors", "delete"},
    "NamedTemporaryFile": {"delete_on_close"},
    "Thread": {"context"},
}
"""Keyword arguments that came later, by the name of what is called."""


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path), feature_version=(3, 9))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_the_syntax_is_that_of_3_9(path: Path) -> None:
    tree = parsed(path)
    statements = [node for node in ast.walk(tree) if isinstance(node, (ast.Match, getattr(ast, "TryStar", ast.Match)))]
    assert statements == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_only_the_standard_library_and_the_package_itself_are_imported(path: Path) -> None:
    depth = len(path.relative_to(ROOT).parts)
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            assert {alias.name.partition(".")[0] for alias in node.names} <= sys.stdlib_module_names, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and node.level:
            assert node.level <= depth, f"{ast.unparse(node)} leaves the package"
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] in sys.stdlib_module_names, ast.unparse(node)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_name_of_the_library_is_younger_than_3_9(path: Path) -> None:
    used = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            used |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            used |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used.add(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.Name):
            used.add(node.id)
    assert used & (SINCE_39 | BUILTINS_SINCE_39) == set()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_argument_is_younger_than_3_9(path: Path) -> None:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = {keyword.arg for keyword in node.keywords}
            assert given & ARGUMENTS_SINCE_39.get(called, set()) == set(), ast.unparse(node)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_annotations_are_not_evaluated_at_import(path: Path) -> None:
    """`int | None` in an annotation is fine in 3.9 only while nobody evaluates it."""
    tree = parsed(path)
    futures = {
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "__future__"
        for alias in node.names
    }
    assert "annotations" in futures or not any(isinstance(node, (ast.arg, ast.AnnAssign)) for node in ast.walk(tree))
