"""The project contains its own files only: no archive of another project is among them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("store", "offers", "transactions", "bcs_scheduler", "benchmarks", "conf", "docs", "tests/unit")
ARCHIVES = frozenset({".bz2", ".egg", ".gz", ".jar", ".tar", ".tgz", ".whl", ".xz", ".zip"})


def archives(paths: Iterable[Path]) -> list[str]:
    return sorted(path.name for path in paths if path.suffix in ARCHIVES)


def test_no_archive_is_among_the_files() -> None:
    paths = [*ROOT.iterdir(), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    assert len(paths) > 500
    assert archives(path for path in paths if path.is_file()) == []


def test_archives_are_found() -> None:
    assert archives([ROOT / "a.py", ROOT / "b-1.0.tar.gz", ROOT / "c.whl"]) == ["b-1.0.tar.gz", "c.whl"]
