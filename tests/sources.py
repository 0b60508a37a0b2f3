"""The source of the program for the tests that read it: each module is read and parsed once per process.

`tests/conftest.py` gives the files of READERS to one process, so that only one parses.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("store", "offers", "transactions", "bcs_scheduler")
"""The packages of the program."""
READERS = tuple(
    f"tests/unit/{name}.py"
    for name in (
        "test_architecture",
        "test_docstrings",
        "test_kinds",
        "test_neutral_rooms",
        "offers/test_dimensions",
        "offers/test_names",
        "test_prose",
        "test_prose_wording",
        "test_reached",
        "test_store_ids",
        "test_transactions_text",
    )
)
"""Files of tests that parse most of the program."""


class Source(NamedTuple):
    """One module: file, path relative to ROOT with slashes, text, and all nodes of the syntax tree, parents before
    children. The nodes are shared: no test changes them."""

    path: Path
    name: str
    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]


def sources(*rooms: str) -> Iterator[Source]:
    """The modules in these folders (relative to ROOT), in the order of their paths. Generated modules (`*_pb2.py`) are
    left out."""
    for room in rooms:
        folder = ROOT / room
        paths = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]
        yield from (source_of(path) for path in paths if not path.stem.endswith("_pb2"))


@cache
def source_of(path: Path) -> Source:
    """The parsed module of this file."""
    text = path.read_text(encoding="utf-8")
    with _no_collection():
        tree = ast.parse(text)
        return Source(path, path.relative_to(ROOT).as_posix(), text, tree, tuple(ast.walk(tree)))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Syntax trees are many objects, and none of them is garbage: the collector would look at all of them again and
    again, for three quarters of the time of parsing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
