"""Counts the lines of Python of the four packages, and of the placement within them: `python -m tests.sizes`.

The placement is counted in all folders that hold its code today or that receive it, so the sum does not change when
code moves between them. Arguments count other folders. Lines of generated modules (`*_pb2.py`) are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("store", "offers", "transactions", "bcs_scheduler")
PLACEMENT = (
    "offers/policy",
    "offers/ledger",
    "offers/matching/statement.py",
    "offers/snapshot",
    "offers/engines",
    "offers/gangs",
    "bcs_scheduler/core/placement",
    "bcs_scheduler/core/controllers/managed",
    "bcs_scheduler/core/controllers/holds",
    "bcs_scheduler/appmanagers",
)
"""Folders and modules of the placement; those that do not exist count 0."""


class Size(NamedTuple):
    """Sums over a folder: lines of modules, modules with code, folders with modules."""

    lines: int = 0
    modules: int = 0
    folders: int = 0


def size_of(folder: Path) -> Size:
    """The size of a folder and of all folders in it, or of a module; zeros if it does not exist."""
    paths = [folder] if folder.is_file() else sorted(folder.rglob("*.py"))
    modules = [path for path in paths if not path.stem.endswith("_pb2")]
    lines = sum(path.read_bytes().count(b"\n") for path in modules)
    return Size(lines, sum(path.stem != "__init__" for path in modules), len({path.parent for path in modules}))


def rows(title: str, folders: Iterable[str]) -> list[tuple[str, Size]]:
    """A row for each folder, and the sum."""
    found = [(name, size_of(ROOT / name)) for name in folders]
    total = Size(*(sum(column) for column in zip(*(size for _, size in found), strict=True)))
    return [*found, (title, total)]


def main(arguments: Sequence[str]) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.sizes", description="Counts lines, modules and folders.")
    parser.add_argument("folders", nargs="*", help="folders to count; those of the program if none is given")
    given = parser.parse_args(arguments).folders
    tables = [rows("sum", given)] if given else [rows("the four packages", PACKAGES), rows("the placement", PLACEMENT)]
    print(f"{'folder':40} {'lines':>8} {'modules':>8} {'folders':>8}")
    for table in tables:
        for name, size in table:
            print(f"{name:40} {size.lines:>8} {size.modules:>8} {size.folders:>8}")
        print()


if __name__ == "__main__":
    main(sys.argv[1:])
