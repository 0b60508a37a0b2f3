"""Unpacking: what archives hold arrives, what leads out of the directory does not."""

from __future__ import annotations

import io
import os
import tarfile
import threading
import zipfile
from pathlib import Path
from typing import Literal

import pytest

from bcs_scheduler.executor.content.fetch import fetch_all
from bcs_scheduler.executor.model import Uri
from bcs_scheduler.executor.runtime import TaskError

Member = tuple[str, str, bytes | str, int]
"""name, kind (file, directory, symlink, hardlink, device), content or target, mode"""

Mode = Literal["w", "w:gz", "w:bz2", "w:xz"]
KINDS = {
    "file": tarfile.REGTYPE,
    "directory": tarfile.DIRTYPE,
    "symlink": tarfile.SYMTYPE,
    "hardlink": tarfile.LNKTYPE,
    "device": tarfile.CHRTYPE,
    "pipe": tarfile.FIFOTYPE,
}


def tar(path: Path, members: list[Member], mode: Mode = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, kind, what, bits in members:
            info = tarfile.TarInfo(name)
            info.type, info.mode = KINDS[kind], bits
            if isinstance(what, str):
                info.linkname = what
                archive.addfile(info)
            else:
                info.size = len(what)
                archive.addfile(info, io.BytesIO(what))
    return path


PROGRAM: list[Member] = [
    ("app", "directory", b"", 0o755),
    ("app/bin/run", "file", b"#!/bin/sh\n", 0o4755),
    ("app/current", "symlink", "bin", 0o777),
    ("app/copy", "hardlink", "app/bin/run", 0o755),
]


def get(directory: Path, archive: Path, **more: object) -> None:
    directory.mkdir(exist_ok=True)
    fetch_all([Uri(str(archive), **more)], directory, threading.Event())  # type: ignore[arg-type]


def refused(tmp_path: Path, archive: Path, words: str) -> None:
    with pytest.raises(TaskError, match=words):
        get(tmp_path / "task", archive)
    assert list((tmp_path / "task").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "mode"),
    [("a.tar", "w"), ("a.tar.gz", "w:gz"), ("a.TGZ", "w:gz"), ("a.tar.bz2", "w:bz2"), ("a.tar.xz", "w:xz")],
)
def test_tar_archives_are_unpacked(tmp_path: Path, name: str, mode: Mode) -> None:
    get(tmp_path / "task", tar(tmp_path / name, PROGRAM, mode))
    app = tmp_path / "task/app"
    assert (app / "bin/run").stat().st_mode & 0o7777 == 0o755
    assert ((app / "current/run").read_text(), (app / "copy").read_text()) == ("#!/bin/sh\n", "#!/bin/sh\n")
    assert sorted(os.listdir(tmp_path / "task")) == ["app"]


def test_zip_archives_are_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        run = zipfile.ZipInfo("bin/run")
        run.external_attr = 0o100755 << 16
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(run, b"program")
        archive.writestr(link, "bin/run")
        archive.writestr("plain", b"text")
        archive.mkdir("empty")
    get(tmp_path / "task", tmp_path / "a.zip")
    task = tmp_path / "task"
    # 0600 is what zipfile itself writes for what is given by name alone
    assert [(task / name).stat().st_mode & 0o777 for name in ("bin/run", "plain")] == [0o755, 0o600]
    assert (os.readlink(task / "link"), (task / "link").read_text()) == ("bin/run", "program")
    assert (task / "empty").is_dir()


def test_the_output_is_a_directory_unless_it_names_an_archive(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tar", [("x", "file", b"1", 0o644)])
    get(tmp_path / "task", archive, output="one")
    get(tmp_path / "task", archive, output="two/a.tar")
    get(tmp_path / "task", archive, output="kept.tar", extract=False)
    found = sorted(str(path.relative_to(tmp_path / "task")) for path in (tmp_path / "task").rglob("*"))
    assert found == ["kept.tar", "one", "one/x", "two", "two/x"]


def test_archives_are_merged_and_the_later_one_wins(tmp_path: Path) -> None:
    get(tmp_path / "task", tar(tmp_path / "a.tar", [("d/a", "file", b"1", 0o644), ("d/b", "file", b"1", 0o644)]))
    get(tmp_path / "task", tar(tmp_path / "b.tar", [("d/b", "file", b"2", 0o644), ("d/a/x", "file", b"2", 0o644)]))
    assert (tmp_path / "task/d/b").read_bytes() == (tmp_path / "task/d/a/x").read_bytes() == b"2"


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("../x", "file", b"", 0o644)], "leads out of the directory"),
        ([("a/../../x", "file", b"", 0o644)], "leads out of the directory"),
        ([("/etc/x", "file", b"", 0o644)], "leads out of the directory"),
        ([("l", "symlink", "/etc/passwd", 0o777)], "outside of the directory"),
        ([("l", "symlink", "../x", 0o777)], "outside of the directory"),
        ([("l", "symlink", "../../..", 0o777), ("l/evil/x", "symlink", "y", 0o777)], "leads out|outside"),
        # each harmless alone, together they lead out
        ([("t", "symlink", "a/b/s/..", 0o777), ("a/b/s", "symlink", "../..", 0o777)], "outside of the directory"),
        ([("l", "symlink", "..", 0o777), ("l/x", "file", b"evil", 0o644)], "exists|outside"),
        ([("h", "hardlink", "/etc/passwd", 0o644)], "leads out of the directory"),
        ([("h", "hardlink", "../x", 0o644)], "leads out of the directory"),
        ([("s", "symlink", "/etc/passwd", 0o777), ("h", "hardlink", "s", 0o644)], "not in it|outside"),
        ([("h", "hardlink", "missing", 0o644)], "which is not in it"),
        ([("null", "device", b"", 0o666)], "a device or pipe"),
        ([("p", "pipe", b"", 0o666)], "a device or pipe"),
    ],
)
def test_what_leads_out_is_refused(tmp_path: Path, members: list[Member], words: str) -> None:
    before = sorted(os.listdir(tmp_path))
    refused(tmp_path, tar(tmp_path / "a.tar", members), words)
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "a.tar", "task"])


def test_a_link_loop_does_not_hang(tmp_path: Path) -> None:
    get(tmp_path / "task", tar(tmp_path / "a.tar", [("a", "symlink", "b", 0o777), ("b", "symlink", "a", 0o777)]))
    assert os.readlink(tmp_path / "task/a") == "b"


def test_a_link_that_lies_in_the_directory_already_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "task").mkdir()
    (tmp_path / "task/d").symlink_to(tmp_path / "outside")
    get(tmp_path / "task", tar(tmp_path / "a.tar", [("d/x", "file", b"1", 0o644)]))
    assert (os.listdir(tmp_path / "outside"), (tmp_path / "task/d/x").read_bytes()) == ([], b"1")


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tar.bz2", "a.tar.xz", "a.zip"])
def test_what_is_no_archive_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"<html>not found</html>" * 100)
    refused(tmp_path, tmp_path / name, f"not a usable archive \\({name}\\)")


@pytest.mark.parametrize(
    ("name", "mode"), [("a.tar", "w"), ("a.tar.gz", "w:gz"), ("a.tar.bz2", "w:bz2"), ("a.tar.xz", "w:xz")]
)
def test_a_truncated_archive_is_told(tmp_path: Path, name: str, mode: Mode) -> None:
    path = tar(tmp_path / name, [("x", "file", os.urandom(100_000), 0o644)], mode)
    path.write_bytes(path.read_bytes()[:50_000])
    refused(tmp_path, path, "not a usable archive|end|unexpected")


def test_an_encrypted_zip_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", b"text")
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flags of the entry; bit 0 = encrypted
        data[data.index(signature) + offset] |= 1
    path.write_bytes(data)
    refused(tmp_path, path, "encrypted")


def test_stopping_ends_unpacking(tmp_path: Path) -> None:
    stopping = threading.Event()
    stopping.set()
    (tmp_path / "task").mkdir()
    with pytest.raises(TaskError, match="given up"):
        fetch_all([Uri(str(tar(tmp_path / "a.tar", PROGRAM)))], tmp_path / "task", stopping)
    assert os.listdir(tmp_path / "task") == []
