"""Files of sandboxes, read from a stand-in agent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bcs_scheduler.agentapi import sandbox
from bcs_scheduler.agentapi.sandbox import AgentAway, Folder, NoSuchFile, NotReadable, relative
from tests.component.agentfiles import AgentFiles


@pytest.fixture
def task(tmp_path: Path) -> Path:
    folder = tmp_path / "sandbox" / "tasks" / "T"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def agent(task: Path) -> Iterator[AgentFiles]:
    served = AgentFiles(task.parents[1])
    yield served
    served.close()


@pytest.fixture
def folder(agent: AgentFiles) -> Folder:
    return Folder(agent.address, "F", "E", "tasks/T")


def test_every_byte_arrives_as_it_is(folder: Folder, task: Path) -> None:
    content = bytes(range(256)) + "grün ✓\n".encode()
    (task / "stdout").write_bytes(content)
    assert folder.read("stdout", 0, 10_000) == (content, 0, len(content))
    assert folder.read("stdout", 250, 8).data == content[250:258]
    assert folder.size("stdout") == len(content)


def test_what_is_longer_than_one_answer_is_read_in_pieces(folder: Folder, task: Path) -> None:
    content = os.urandom(3 * sandbox.PIECE + 17)
    (task / "stdout").write_bytes(content)
    assert folder.read("stdout", 5, len(content)).data == content[5:]
    assert folder.read("stdout", len(content), 10) == (b"", len(content), len(content))
    assert folder.read("stdout", len(content) + 9, 10) == (b"", len(content) + 9, len(content))
    found = folder.download("stdout")
    assert found.size == len(content)
    assert b"".join(found.chunks) == content


def test_what_comes_under_the_same_name_meanwhile_is_not_mixed_in(
    folder: Folder, agent: AgentFiles, task: Path
) -> None:
    """After the size was asked for, shorter files follow."""
    (task / "stdout").write_bytes(b"a" * 100)

    def rotate(what: str, query: dict[str, str]) -> None:
        if query["offset"] != "-1":
            (task / "stdout").write_bytes(b"b" * 50 if query["offset"] == "0" else b"c" * 100)

    agent.override = rotate
    assert folder.read("stdout", 0, 1000) == (b"b" * 50, 0, 100)


@pytest.mark.parametrize(
    ("content", "lines", "expected"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\nb\n", 5, b"a\nb\n"),
        (b"a\n\n\n", 2, b"\n\n"),
        (b"\n", 1, b"\n"),
        (b"\na", 1, b"a"),
        (b"a\nb", 0, b""),
        (b"", 3, b""),
    ],
)
def test_the_last_lines(folder: Folder, task: Path, content: bytes, lines: int, expected: bytes) -> None:
    (task / "stdout").write_bytes(content)
    assert folder.tail("stdout", lines, 1000) == (expected, len(content) - len(expected), len(content))


def test_the_last_lines_are_looked_for_from_the_end_and_within_a_bound(folder: Folder, task: Path) -> None:
    lines = [b"%06d %s\n" % (number, b"x" * 93) for number in range(5000)]
    (task / "stdout").write_bytes(b"".join(lines))
    assert folder.tail("stdout", 2000, 1 << 20).data == b"".join(lines[-2000:])
    assert folder.tail("stdout", 2000, 1000).data == b"".join(lines)[-1000:]


def test_folders_are_listed(folder: Folder, agent: AgentFiles, task: Path) -> None:
    (task / "logs").mkdir()
    (task / "logs" / "grün.log").write_text("12345")
    (task / "stdout").write_text("")
    inner, outer = folder.browse("logs/"), folder.browse()
    assert [(entry.path, entry.size, entry.is_folder, entry.mode & 0o777) for entry in inner] == [
        ("grün.log", 5, False, 0o644)
    ]
    assert [(entry.path, entry.is_folder) for entry in outer] == [("logs", True), ("stdout", False)]
    assert [entry.path for entry in Folder(agent.address, "F", "E").browse("tasks")] == ["T"]


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", "a\0b", "x" * 5000])
def test_no_path_leaves_the_sandbox(folder: Folder, path: str) -> None:
    with pytest.raises(NotReadable):
        folder.read(path, 0, 10)


def test_paths_are_cleaned() -> None:
    assert relative("./a//b/.") == "a/b"
    assert relative("...") == "..."


def test_what_is_not_there_or_no_file(folder: Folder, agent: AgentFiles, task: Path) -> None:
    (task / "logs").mkdir()
    with pytest.raises(NoSuchFile, match="stdout does not exist on agent"):
        folder.read("stdout", 0, 10)
    with pytest.raises(NotReadable, match="logs cannot be read"):
        folder.read("logs", 0, 10)
    with pytest.raises(NoSuchFile, match="the sandbox does not exist"):
        Folder(agent.address, "F", "another").browse()


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"<html>", b'{"data":"","offset":"x"}', b'{"data":"\\u2713","offset":-1}']
)
def test_an_answer_that_is_none_is_not_believed(folder: Folder, agent: AgentFiles, task: Path, body: bytes) -> None:
    (task / "stdout").write_text("abc")
    agent.override = lambda what, query: (200, body)
    with pytest.raises(NotReadable):
        folder.read("stdout", 0, 10)


def test_an_answer_without_end_is_not_taken(folder: Folder, agent: AgentFiles) -> None:
    agent.override = lambda what, query: (200, b" " * (sandbox.LARGEST_ANSWER + 1))
    with pytest.raises(NotReadable, match="exceeds"):
        folder.size("stdout")


@pytest.mark.parametrize(("status", "kind"), [(500, AgentAway), (307, AgentAway), (401, NotReadable)])
def test_an_agent_that_refuses(
    folder: Folder, agent: AgentFiles, status: int, kind: type[sandbox.SandboxError]
) -> None:
    agent.override = lambda what, query: (status, b"")
    with pytest.raises(kind, match=str(status)):
        folder.size("stdout")


def test_a_file_that_vanishes_while_the_agent_opens_it(folder: Folder, agent: AgentFiles) -> None:
    agent.override = lambda what, query: (500, b"Failed to open file at '/x/stdout': No such file or directory")
    with pytest.raises(NoSuchFile, match="stdout does not exist"):
        folder.size("stdout")


def test_an_agent_that_is_away(folder: Folder, agent: AgentFiles) -> None:
    agent.close()
    with pytest.raises(AgentAway, match="does not answer"):
        folder.browse()
