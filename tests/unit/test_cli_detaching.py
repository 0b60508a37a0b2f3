"""The detach keys of `bcs attach`."""

from __future__ import annotations

import pytest

from bcs_scheduler.cli.commands.taskgroups.detaching import DEFAULT_KEYS, DetachKeys, parse_keys
from bcs_scheduler.cli.errors import UsageError


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (DEFAULT_KEYS, b"\x10\x11"),
        ("ctrl-a,d", b"\x01d"),
        ("ctrl-@,ctrl-[,ctrl-\\,ctrl-],ctrl-^,ctrl-_", b"\x00\x1b\x1c\x1d\x1e\x1f"),
        ("CTRL-P", b"\x10"),
        ("x", b"x"),
        ("", b""),
    ],
)
def test_keys_are_written_as_in_docker(text: str, keys: bytes) -> None:
    assert parse_keys(text) == keys


@pytest.mark.parametrize("text", ["ctrl-", "ctrl-1", "ab", "a,,b", "ctrl-p,", "ä"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--detach-keys"):
        parse_keys(text)


@pytest.mark.parametrize(
    ("typed", "passed", "detached"),
    [
        ([b"ls\r"], b"ls\r", False),
        ([b"\x10\x11"], b"", True),
        ([b"a\x10", b"\x11b"], b"a", True),
        ([b"\x10", b"x"], b"\x10x", False),
        ([b"\x10", b"\x10", b"\x11"], b"\x10", True),
        ([b"\x10\x10\x10"], b"\x10\x10", False),
        ([b"\x11\x10"], b"\x11", False),
    ],
)
def test_only_the_whole_sequence_detaches(typed: list[bytes], passed: bytes, detached: bool) -> None:
    keys, text, found = DetachKeys(b"\x10\x11"), b"", False
    for part in typed:
        more, found = keys.feed(part)
        text += more
    assert (text, found) == (passed, detached)


def test_without_keys_everything_is_passed_on() -> None:
    assert DetachKeys(b"").feed(b"\x10\x11") == (b"\x10\x11", False)
