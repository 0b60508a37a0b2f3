"""The project contains its own files only: no archive of another project is among them.

A file of the project is a file that git knows. Files that a user makes in the clone, such as those of the commands in
docs/, are no concern of the checks.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.commandblocks import collected
from tests.component.cli.conftest import bcs, server
from tests.component.cli.test_dump import cluster
from tests.sources import ROOT

__all__ = ["bcs", "cluster", "server"]

ARCHIVES = frozenset({".bz2", ".egg", ".gz", ".jar", ".tar", ".tgz", ".whl", ".xz", ".zip"})
CHECKS = (
    "tests/component/test_own_files.py::test_no_archive_is_among_the_files",
    "tests/unit/test_documents.py",
)
"""Tests that read the files of the clone."""


def own_files() -> list[str]:
    """Paths relative to the root, as git has them."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone: git knows no files of the project")
    listed = subprocess.run(("git", "ls-files", "-z"), cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return listed.rstrip("\0").split("\0")


def archives(paths: Iterable[str]) -> list[str]:
    return sorted(path for path in paths if Path(path).suffix in ARCHIVES)


def test_no_archive_is_among_the_files() -> None:
    paths = own_files()
    assert len(paths) > 500
    assert archives(paths) == []


def test_archives_are_found() -> None:
    assert archives(["docs/a.py", "docs/b-1.0.tar.gz", "c.whl"]) == ["c.whl", "docs/b-1.0.tar.gz"]


@pytest.mark.rotating
def test_checks_pass_beside_the_files_of_the_page_of_the_simulator(
    bcs: Any, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "clone"
    for path in own_files():
        if (ROOT / path).is_file():  # not one that is removed, but not yet committed
            (clone / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, clone / path)
    for words in (("init", "-q"), ("add", "-A")):
        subprocess.run(("git", *words), cwd=clone, check=True)
    monkeypatch.chdir(clone)
    for block in collected():
        for command in block.commands if block.file == "docs/simulator.md" else ():
            result = bcs(*shlex.split(command)[1:])
            assert result.code == 0, (command, result.err)
    made = subprocess.run(("git", "status", "--porcelain"), cwd=clone, check=True, capture_output=True, text=True)
    left = {line.removeprefix("?? ") for line in made.stdout.splitlines() if line.startswith("??")}
    assert left == {"cluster.json.gz", "report.html"}
    checked = subprocess.run(
        (sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:schemathesis", *CHECKS),
        cwd=clone,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout[-3000:] + checked.stderr[-1000:]
