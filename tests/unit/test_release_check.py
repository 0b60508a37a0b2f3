"""The texts that `make release-check` asks for. The command itself builds and starts the packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.release_check import NotReady, check_changelog, declared_version

ROOT = Path(__file__).parents[2]


def changelog(heading: str) -> str:
    return f"# Changelog\n\n{heading}\n\n- A change.\n\n## 0.1.0 - 2026-01-01\n"


def test_this_commit_could_be_on_the_way_to_a_release() -> None:
    version = declared_version((ROOT / "setup.cfg").read_text())
    check_changelog((ROOT / "CHANGELOG.md").read_text(), version, draft=True)


@pytest.mark.parametrize("version", ["1.2", "1.2.3rc1", "v1.2.3"])
def test_a_version_has_three_numbers(version: str) -> None:
    with pytest.raises(NotReady, match="not of the form"):
        declared_version(f"[metadata]\nversion = {version}\n")


def test_the_changelog_begins_with_the_version_and_its_date() -> None:
    check_changelog(changelog("## 0.2.0 - 2026-12-01"), "0.2.0", draft=False)
    check_changelog(changelog("## 0.2.0 (not released yet)"), "0.2.0", draft=True)
    with pytest.raises(NotReady, match="has no date"):
        check_changelog(changelog("## 0.2.0 (not released yet)"), "0.2.0", draft=False)
    for heading in ("## 0.3.0 - 2026-12-01", "## 0.2.0", "## 0.2.0 - soon"):
        with pytest.raises(NotReady, match="first heading"):
            check_changelog(changelog(heading), "0.2.0", draft=True)
