"""Contents of a folder whose files are removed meanwhile."""

from __future__ import annotations

from pathlib import Path

from tests.integration.livefiles import contents_below


def test_files_that_are_removed_during_the_walk_are_passed_over(tmp_path: Path) -> None:
    """Agents remove the run-time files of ended containers while a test reads the files of all containers."""
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config").write_text(name)
    found = contents_below(tmp_path)
    first, _ = next(found)
    for folder in tmp_path.iterdir():
        if folder != first.parent:
            (folder / "config").unlink()
            folder.rmdir()
    assert list(found) == []


def test_files_are_chosen_by_the_begin_of_their_name(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "stdout").write_bytes(b"out")
    (tmp_path / "deep" / "other").write_bytes(b"")
    (tmp_path / "stderr").symlink_to(tmp_path / "missing")
    assert list(contents_below(tmp_path, "std")) == [(tmp_path / "deep" / "stdout", b"out")]
    assert list(contents_below(tmp_path / "none")) == []
