"""Secret files of tasks: in memory only, gone with their executor however it ended."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bcs_scheduler.executor.content import secrets
from bcs_scheduler.executor.content.files import place
from bcs_scheduler.executor.content.secrets import Secrets, new_folder, remove, sweep
from bcs_scheduler.executor.model import File
from bcs_scheduler.executor.runtime import TaskError

SECRET = b"never on a disk"
HOLDER = """
import sys
from bcs_scheduler.executor.content.secrets import Secrets, new_folder
found = Secrets(new_folder("1-2"))
print(found.put(b"x", lambda handle: None), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def kept() -> Iterator[Secrets]:
    found = Secrets(new_folder("1-1"))
    yield found
    remove(found.folder)


def wanted(path: str, owner: str = "", mode: int = 0o400) -> File:
    return File(path, base64.b64encode(SECRET).decode(), mode=mode, owner=owner, secret=True)


def test_a_secret_is_a_link_into_memory_with_mode_and_owner(kept: Secrets, tmp_path: Path) -> None:
    owner = "23456:34567" if os.geteuid() == 0 else ""
    place([wanted("/etc/app/key", owner), wanted("key", mode=0o640)], tmp_path, "", kept)
    path = tmp_path / "etc/app/key"
    assert path.read_bytes() == SECRET and path.is_symlink()
    assert path.resolve().parent == Path(kept.folder) and str(kept.folder).startswith(secrets.MEMORY)
    assert (path.stat().st_mode & 0o777, (tmp_path / "key").stat().st_mode & 0o777) == (0o400, 0o640)
    if owner:
        assert (path.stat().st_uid, path.stat().st_gid) == (23456, 34567)
    assert [found.name for found in tmp_path.rglob("*") if not found.is_symlink() and found.is_file()] == []
    assert os.stat(kept.folder).st_mode & 0o777 == 0o711
    remove(kept.folder)
    assert not path.exists() and not os.path.exists(kept.folder)
    remove(kept.folder)


def test_a_secret_replaces_a_file_and_a_file_replaces_a_secret(kept: Secrets, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("old")
    place([wanted("key")], tmp_path, "", kept)
    assert (tmp_path / "key").read_bytes() == SECRET
    place([File("key", base64.b64encode(b"open").decode())], tmp_path, "", kept)
    assert (tmp_path / "key").read_bytes() == b"open"
    assert os.listdir(tmp_path) == ["key"]


@pytest.mark.parametrize("memory", ["/proc", "/absent"])
def test_without_memory_the_task_fails_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: str
) -> None:
    monkeypatch.setattr(secrets, "MEMORY", memory)
    with pytest.raises(TaskError, match=f"{memory} is no file system in memory, where secrets belong"):
        place([wanted("key")], tmp_path, "", Secrets(new_folder("1-1")))
    assert os.listdir(tmp_path) == []


def test_a_sweep_removes_the_secrets_of_the_dead_only(kept: Secrets) -> None:
    mine = kept.put(SECRET, lambda handle: None)
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        theirs = other.stdout.readline().decode().strip()
        sweep()
        assert os.path.exists(theirs) and os.path.exists(mine)
        other.kill()
    sweep()
    assert not os.path.exists(os.path.dirname(theirs))
    assert os.path.exists(mine)


def test_a_task_inherits_no_lock(kept: Secrets) -> None:
    """The lock says that the executor lives: a program that outlives it must not hold it."""
    kept.put(SECRET, lambda handle: None)
    line = "for one in /proc/self/fd/*; do readlink $one; done; true"
    shown = subprocess.run(["/bin/sh", "-c", line], close_fds=False, capture_output=True, text=True, check=True)
    assert kept.folder not in shown.stdout.splitlines()
