"""The size of rooms: fewer than ten modules lie beside each other in a folder, and no module has over 400 lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("store", "offers", "transactions", "bcs_scheduler")
MOST_MODULES = 9
"""Modules of one folder; `__init__.py` and generated modules do not count."""
MOST_LINES = 400


def modules() -> list[Path]:
    found = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    return [path for path in found if path.name != "__init__.py" and not path.stem.endswith("_pb2")]


def crowded(paths: Iterable[Path]) -> list[str]:
    """The folders with too many modules."""
    counts: dict[Path, int] = {}
    for path in paths:
        counts[path.parent] = counts.get(path.parent, 0) + 1
    return sorted(str(folder.relative_to(ROOT)) for folder, count in counts.items() if count > MOST_MODULES)


def long(lines: Mapping[Path, int]) -> list[str]:
    """The modules with too many lines."""
    return sorted(str(path.relative_to(ROOT)) for path, count in lines.items() if count > MOST_LINES)


def test_folders_and_modules_are_small() -> None:
    paths = modules()
    assert len(paths) > 500
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert crowded(paths) == []
    assert long(lines) == []


def test_large_ones_are_found() -> None:
    folder = ROOT / "store"
    assert crowded(folder / f"m{number}.py" for number in range(9)) == []
    assert crowded(folder / f"m{number}.py" for number in range(10)) == ["store"]
    assert long({folder / "a.py": 400, folder / "b.py": 401}) == ["store/b.py"]
