"""What agents of the embedded cluster consist of: files they show, URIs they fetch, times they write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bcs_scheduler.local.agents.executor_environment import duration
from bcs_scheduler.local.agents.fetcher import Fetcher, FetchError
from bcs_scheduler.local.agents.files import MOST, Files
from bcs_scheduler.local.errors import InvalidCall
from bcs_scheduler.mesos.proto import mesos_pb2 as pb

NAME = "/frameworks/f/executors/e/runs/latest"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0ns"), (0.2, "200ms"), (1.0, "1secs"), (1.5, "1.5secs"), (60.0, "1mins"), (900.0, "15mins"), (1e-6, "1us"),
     (90.0, "1.5mins"), (7200.0, "2hrs"), (86400.0, "1days"), (604800.0, "1weeks")],
)  # fmt: skip
def test_durations_are_written_as_by_mesos(seconds: float, text: str) -> None:
    assert duration(seconds) == text


# --- files ---


@pytest.fixture
def files(tmp_path: Path) -> Files:
    sandbox = tmp_path / "box"
    sandbox.mkdir()
    found = Files()
    found.attach(sandbox, NAME)
    return found


def refusal(files: Files, path: str) -> int:
    with pytest.raises(InvalidCall) as refused:
        files.read(path, 0, None)
    return refused.value.status


def test_a_file_is_shown_by_both_names_of_its_directory(files: Files, tmp_path: Path) -> None:
    (tmp_path / "box" / "one").write_bytes(b"1")
    assert files.read(f"{NAME}/one", 0, None) == (1, b"1")
    assert files.read(f"{tmp_path}/box/one", 0, None) == (1, b"1")


def test_one_answer_is_limited(files: Files, tmp_path: Path) -> None:
    (tmp_path / "box" / "big").write_bytes(bytes(MOST + 1))
    assert len(files.read(f"{NAME}/big", 0, None)[1]) == MOST
    assert len(files.read(f"{NAME}/big", 0, 10 * MOST)[1]) == MOST
    assert files.read(f"{NAME}/big", MOST, None) == (MOST + 1, b"\0")


def test_nothing_leads_out_of_a_sandbox(files: Files, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "boxes").mkdir()
    (tmp_path / "boxes" / "secret").write_text("secret")
    box = tmp_path / "box"
    (box / "file").symlink_to(tmp_path / "secret")
    (box / "folder").symlink_to(tmp_path)
    (box / "loop").symlink_to("loop")
    for path in ("file", "folder/secret", "../secret", "../boxes/secret", "loop"):
        assert refusal(files, f"{NAME}/{path}") == 400, path
    for path in ("/etc/passwd", str(tmp_path / "secret"), f"{NAME}x/secret", "", "box"):
        assert refusal(files, path) == 404, path
    assert refusal(files, f"{NAME}/\0") in (400, 404)


def test_a_pipe_holds_nobody_up(files: Files, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "box" / "pipe")
    assert files.read(f"{NAME}/pipe", 0, None) == (0, b"")
    assert files.whole(f"{NAME}/pipe") == ("pipe", b"")


# --- URIs ---


def uri(source: Path, **more: object) -> pb.CommandInfo.URI:
    return pb.CommandInfo.URI(value=f"file://{source}", **more)  # type: ignore[arg-type]


def test_what_may_be_cached_is_fetched_once(tmp_path: Path) -> None:
    fetcher, source, sandbox = Fetcher(tmp_path / "cache"), tmp_path / "source", tmp_path / "box"
    sandbox.mkdir()
    source.write_text("first")
    fetcher.fetch([uri(source, cache=True)], sandbox)
    source.write_text("second")
    fetcher.fetch([uri(source, cache=True, output_file="cached"), uri(source, output_file="fresh")], sandbox)
    names = ("source", "cached", "fresh")
    assert [(sandbox / name).read_text() for name in names] == ["first", "first", "second"]


def test_a_failure_is_not_cached(tmp_path: Path) -> None:
    fetcher, source, sandbox = Fetcher(tmp_path / "cache"), tmp_path / "source", tmp_path / "box"
    sandbox.mkdir()
    with pytest.raises(FetchError, match="source"):
        fetcher.fetch([uri(source, cache=True)], sandbox)
    source.write_text("late")
    fetcher.fetch([uri(source, cache=True)], sandbox)
    assert (sandbox / "source").read_text() == "late"
    assert len(list((tmp_path / "cache").iterdir())) == 1
