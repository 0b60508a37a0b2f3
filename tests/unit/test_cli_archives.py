"""`bcs cp` of folders: what a taskgroup sends is not believed."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from bcs_scheduler.cli.client.session_line import STDERR, STDOUT, Said, SessionLine
from bcs_scheduler.cli.commands.taskgroups.archives import fetch
from bcs_scheduler.cli.errors import CliError, NotFound


class Line:
    """A session that sends an archive in small pieces, and ends with `exit_code`."""

    def __init__(self, sent: bytes, exit_code: int = 0, errors: bytes = b"") -> None:
        self._sent, self._errors, self._end = sent, errors, exit_code
        self.exit_code: int | None = None
        self.closed = False

    def output(self) -> Iterator[Said]:
        for start in range(0, len(self._sent), 1000):
            yield Said(STDOUT, self._sent[start : start + 1000])
        if self._errors:
            yield Said(STDERR, self._errors)
        self.exit_code = self._end

    def close(self) -> None:
        self.closed = True


def member(name: str, content: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o644
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    kept = io.BytesIO()
    with tarfile.open(fileobj=kept, mode="w") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return kept.getvalue()


def fetched(line: Line, target: Path, path: str = "data/site") -> tuple[int, list[str]]:
    """Bytes and warnings."""
    warnings: list[str] = []
    try:
        return fetch(lambda _document: cast(SessionLine, line), path, target, warnings.append), warnings
    finally:
        assert line.closed


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


FOLDER = member(".", type=tarfile.DIRTYPE)


def test_files_folders_and_hard_links(tmp_path: Path) -> None:
    sent = archive(
        FOLDER,
        member("./bin", type=tarfile.DIRTYPE),
        member("./bin/run", b"#!", mode=0o4755),
        member("./bin/again", type=tarfile.LNKTYPE, linkname="./bin/run", mode=0o755),
    )
    size, warnings = fetched(Line(b"d" + sent), tmp_path / "back")
    assert (size, warnings) == (4, [])
    assert everything(tmp_path) == ["back", "back/bin", "back/bin/again", "back/bin/run"]
    assert (tmp_path / "back/bin/run").stat().st_mode & 0o7777 == 0o755
    fetched(Line(b"d" + sent), tmp_path / "back")
    assert (tmp_path / "back/site/bin/again").read_bytes() == b"#!"  # an existing folder takes it in


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil-of-bcs", "./a/../../evil", ".."])
def test_no_path_leads_out(tmp_path: Path, name: str) -> None:
    (tmp_path / "inner").mkdir()
    sent = archive(FOLDER, member(name, b"evil"))
    with pytest.raises(CliError, match="leads out"):
        fetched(Line(b"d" + sent), tmp_path / "inner" / "back")
    assert everything(tmp_path) in (["inner"], ["inner", "inner/back"])
    assert not Path("/tmp/evil-of-bcs").exists()


def test_no_link_leads_out(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    outside = str(tmp_path / "outside")
    sent = archive(
        FOLDER,
        member("./way", type=tarfile.SYMTYPE, linkname=outside),
        member("./way/evil", b"evil"),
        member("./pipe", type=tarfile.FIFOTYPE),
    )
    _, warnings = fetched(Line(b"d" + sent), tmp_path / "back")
    assert len(warnings) == 2
    assert everything(tmp_path) == ["back", "back/way", "back/way/evil", "outside", "outside/secret"]
    hard = archive(FOLDER, member("./taken", type=tarfile.LNKTYPE, linkname=f"{outside}/secret"))
    with pytest.raises(CliError, match="leads out"):
        fetched(Line(b"d" + hard), tmp_path / "other")


def test_nothing_is_written_through_a_link_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "back" / "site").mkdir(parents=True)
    (tmp_path / "back" / "site" / "way").symlink_to(tmp_path / "outside")
    with pytest.raises(CliError, match="symbolic link"):
        fetched(Line(b"d" + archive(FOLDER, member("./way/evil", b"evil"))), tmp_path / "back")
    assert everything(tmp_path / "outside") == []
    os.symlink(tmp_path / "outside" / "evil", tmp_path / "back" / "site" / "file")
    fetched(Line(b"d" + archive(FOLDER, member("./file", b"new"))), tmp_path / "back")
    assert everything(tmp_path / "outside") == []
    assert (tmp_path / "back" / "site" / "file").read_bytes() == b"new"


def test_one_file_gets_the_name_of_the_destination(tmp_path: Path) -> None:
    size, _ = fetched(Line(b"f" + archive(member("hosts", b"content"))), tmp_path / "named", "/etc/hosts")
    assert size == 7
    fetched(Line(b"f" + archive(member("hosts", b"content"))), tmp_path, "/etc/hosts")
    assert everything(tmp_path) == ["hosts", "named"]


def test_an_interrupted_transfer_is_an_error(tmp_path: Path) -> None:
    whole = archive(FOLDER, member("./a", b"x" * 50_000))
    with pytest.raises(CliError, match="interrupted"):
        fetched(Line(b"d" + whole[:20_000]), tmp_path / "back")
    assert "back/a" not in everything(tmp_path)
    with pytest.raises(CliError, match="tar: cannot read"):
        fetched(Line(b"d" + whole, 2, b"tar: cannot read\n"), tmp_path / "back")


def test_what_does_not_exist_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such file"):
        fetched(Line(b"", 3, b"x: no such file or folder\n"), tmp_path / "back")
    with pytest.raises(CliError, match="no program"):
        fetched(Line(b"", 127, b"no program sh\n"), tmp_path / "back")
