"""Files and variables that come with a task."""

from __future__ import annotations

import base64
import os
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from bcs_scheduler.executor.content import files
from bcs_scheduler.executor.content.files import inside, place, variables, write
from bcs_scheduler.executor.content.secrets import Secrets
from bcs_scheduler.executor.model import File, RemoteVariable
from bcs_scheduler.executor.runtime import TaskError
from tests.component.executor.webserver import Web, content, protected, serving

SECRET = b"do not show me"
NONE = Secrets("/absent")
"""For tasks without secrets."""


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as found:
        yield found


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_files_are_placed_with_their_modes(web: Web, tmp_path: Path) -> None:
    web.pages["/rules"] = protected(b"remote", "me", "pw")
    place(
        [
            File("etc/deep/app.toml", encoded(b"a"), mode=0o640),
            File("rules", url=web.url("/rules"), user="me", password="pw", mode=0o4755),
            File(str(tmp_path / "absolute"), encoded(b"")),
        ],
        tmp_path,
        "",
        NONE,
    )
    found = {name: (tmp_path / name).read_bytes() for name in ("etc/deep/app.toml", "rules", "absolute")}
    assert list(found.values()) == [b"a", b"remote", b""]
    assert [mode(tmp_path / name) for name in found] == [0o640, 0o4755, 0o644]
    assert sorted(os.listdir(tmp_path)) == ["absolute", "etc", "rules"]


def test_owners_are_set_or_refused(tmp_path: Path) -> None:
    wanted = [File("a/x", encoded(b"")), File("y", encoded(b""), owner="23456:34567")]
    if os.geteuid() != 0:
        with pytest.raises(TaskError, match="does not run as root"):
            place(wanted, tmp_path, "12345", NONE)
        return
    place(wanted, tmp_path, "12345", NONE)
    owners = [((tmp_path / name).stat().st_uid, (tmp_path / name).stat().st_gid) for name in ("a", "a/x", "y")]
    assert owners == [(12345, 12345), (12345, 12345), (23456, 34567)]


def test_an_existing_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("a long old content")
    with path.open() as reader:
        write(path, b"new", 0o600, "")
        assert reader.read() == "a long old content"
    assert (path.read_text(), mode(path), os.listdir(tmp_path)) == ("new", 0o600, ["x"])


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    write(tmp_path / "link", b"new", 0o644, "")
    assert ((tmp_path / "target").read_text(), (tmp_path / "link").is_symlink()) == ("old", False)


def test_directories_are_made_within_the_task_only(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="its directory does not exist"):
        write(tmp_path / "a/x", b"", 0o644, "")
    with pytest.raises(TaskError, match="its directory does not exist"):
        write(tmp_path / "a/x", b"", 0o644, "", within=tmp_path / "b")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", ["../x", "a/../../x", "link/x", "a/..", "", "a/", "a\0b"])
def test_relative_paths_stay_in_the_task(tmp_path: Path, path: str) -> None:
    task = tmp_path / "task"
    task.mkdir()
    (task / "link").symlink_to("/")
    with pytest.raises(TaskError, match=r"leads out of the task's directory|not the name of a file"):
        inside(path, task)


def test_relative_paths_may_use_links_within_the_task(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("data")
    assert inside("link/x", tmp_path) == tmp_path / "link/x"


def test_absolute_paths_begin_in_the_task_unless_they_are_in_the_sandbox(tmp_path: Path) -> None:
    task, work = tmp_path / "tasks" / "0", tmp_path / "work_dir"
    task.mkdir(parents=True)
    work.mkdir()
    assert inside("/etc/key", task) == task / "etc/key"
    assert inside("//etc/key", task) == task / "etc/key"
    assert inside(f"{work}/key", task) == work / "key"
    (task / "etc").symlink_to("/etc")
    (work / "out").symlink_to("/")
    for path in ("/etc/key", "/../x", f"{work}/out/key", f"{work}/../../x"):
        with pytest.raises(TaskError, match="leads out of the task's directory"):
            inside(path, task)


def test_what_cannot_be_written_is_told_without_the_content(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_text("")
    for path, words in ((tmp_path / "directory", "is a directory"), (tmp_path / "file/x", "not a directory")):
        with pytest.raises(TaskError, match=words) as caught:
            write(path, SECRET, 0o644, "", within=tmp_path)
        assert SECRET.decode() not in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["directory", "file"]


def test_a_full_disk_is_told_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(prefix: str, dir: Path) -> tuple[int, str]:
        (tmp_path / prefix).symlink_to("/dev/full")
        return os.open(tmp_path / prefix, os.O_WRONLY), str(tmp_path / prefix)

    monkeypatch.setattr(tempfile, "mkstemp", full)
    (tmp_path / "x").write_text("old")
    with pytest.raises(TaskError, match="x: cannot be written: no space left on device"):
        write(tmp_path / "x", SECRET, 0o644, "")
    assert (os.listdir(tmp_path), (tmp_path / "x").read_text()) == (["x"], "old")


def test_content_that_is_not_base64_is_told_without_it(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="file x: its content is not base64") as caught:
        place([File("x", "***" + SECRET.decode())], tmp_path, "", NONE)
    assert SECRET.decode() not in str(caught.value)


def test_variables_are_read_from_their_urls(web: Web) -> None:
    web.pages["/a"] = content(b"one\ntwo\r\n")
    web.pages["/b"] = protected(" ä\n\n".encode(), "me", "pw")
    web.pages["/c"] = content(b"")
    found = variables(
        [
            RemoteVariable("A", web.url("/a")),
            RemoteVariable("B", web.url("/b"), "me", "pw"),
            RemoteVariable("C", web.url("/c")),
        ]
    )
    assert found == {"A": "one\ntwo", "B": " ä\n", "C": ""}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff" + SECRET, "variable A: the content of its URL is not UTF-8"),
        (SECRET + b"\0", "variable A: the content of its URL contains a NUL"),
        (SECRET * 10_000, "more than 131069 bytes"),
    ],
)
def test_what_cannot_be_a_variable_is_told_without_the_content(web: Web, data: bytes, words: str) -> None:
    web.pages["/a"] = content(data)
    with pytest.raises(TaskError, match=words) as caught:
        variables([RemoteVariable("A", web.url("/a"))])
    assert SECRET.decode() not in str(caught.value)


def test_the_largest_variable_can_be_handed_to_a_process(web: Web, tmp_path: Path) -> None:
    from bcs_scheduler.executor.run import run

    web.pages["/a"] = content(b"x" * (files.VARIABLE_LIMIT - len("A=")))
    env = variables([RemoteVariable("A", web.url("/a"))])
    assert run(["/bin/sh", "-c", "echo ${#A}"], env=env, cwd=tmp_path, timeout=10, limit=100).stdout == b"131069\n"


def test_all_variables_together_have_a_limit(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "VARIABLES_LIMIT", 5)
    web.pages["/a"] = content(b"abc")
    with pytest.raises(TaskError, match="more than 2 bytes"):
        variables([RemoteVariable("A", web.url("/a")), RemoteVariable("B", web.url("/a"))])


def test_stopping_ends_the_fetching(web: Web, tmp_path: Path) -> None:
    stopping = threading.Event()

    def hang(handler: BaseHTTPRequestHandler) -> None:
        stopping.set()
        web.hang(handler)

    web.pages["/x"] = hang
    for act in (
        lambda: place([File("x", url=web.url("/x"))], tmp_path, "", NONE, stopping),
        lambda: variables([RemoteVariable("A", web.url("/x"))], stopping),
    ):
        stopping.clear()
        with pytest.raises(TaskError, match="given up"):
            act()
    assert os.listdir(tmp_path) == []
