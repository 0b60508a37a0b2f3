"""The rooms below the cluster managers name none of them: what only Mesos has is in one module of the core."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("store", "offers", "transactions", "bcs_scheduler/core")
LEASED = "bcs_scheduler/core/interface/leased.py"
"""The module of the core that may name Mesos."""
WORDS = re.compile(r"(?i:mesos|kubernetes|protobuf)|\bTASK_[A-Z]|\bREASON_[A-Z]|LAUNCH_GROUP|GET_AGENTS")
ALLOWED = {
    "store/records/version.py": {'"mesos"'},  # the value of `executor` in stored definitions and documents
    "store/records/running.py": {'"mesos"'},
}
OWN = re.compile(r"bcs_scheduler\.mesos(?:\.[a-z_]+)?")
"""A module of our own, named where a reason lies with the cluster manager."""
FILES = sorted(path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def named(path: str) -> list[str]:
    """Every token, comments and docstrings included, that names a cluster manager, with its line."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO((ROOT / path).read_text()).readline):
        if token.type in (tokenize.NAME, tokenize.STRING, tokenize.COMMENT):
            text = OWN.sub("", token.string)
            if WORDS.search(text) and token.string not in ALLOWED.get(path, set()):
                found.append(f"{path}:{token.start[0]}: {token.string[:80]}")
    return found


@pytest.mark.parametrize("path", [path for path in FILES if path != LEASED])
def test_a_pure_room_names_no_cluster_manager(path: str) -> None:
    assert named(path) == []


def test_the_rooms_are_read() -> None:
    assert len(FILES) > 100
    assert (ROOT / LEASED).exists()


@pytest.mark.parametrize(
    "text",
    ["# as Mesos says", '"TASK_RUNNING"', '"""For the Kubernetes API."""', "REASON_RECONCILIATION", "TASK_LOST"],
)
def test_the_words_are_recognized(text: str) -> None:
    assert WORDS.search(text)
