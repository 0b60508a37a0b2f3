"""The keys that end `bcs attach` and leave the task running, as in docker."""

from __future__ import annotations

import re

import click

from bcs_scheduler.cli.errors import UsageError

DEFAULT_KEYS = "ctrl-p,ctrl-q"
_KEY = re.compile(r"ctrl-([a-z@\[\\\]^_])|([ -+\--~])", re.IGNORECASE)


detach_keys_option = click.option(
    "--detach-keys",
    default=DEFAULT_KEYS,
    metavar="KEYS",
    help=f"Keys that end bcs with -i and leave the task running. Default: {DEFAULT_KEYS}.",
)


def parse_keys(names: str) -> bytes:
    """The bytes of keys separated by commas: a character, or ctrl- and one of a-z @ [ \\ ] ^ _. Empty: no keys. Raises
    UsageError."""
    found = bytearray()
    for name in names.split(",") if names else ():
        key = _KEY.fullmatch(name)
        if key is None:
            raise UsageError(
                f"--detach-keys: {name!r} is not a key; keys are a character, or ctrl- and one of a-z @ [ \\ ] ^ _"
            )
        found += bytes((ord(key[1].upper()) & 0x1F,)) if key[1] else key[2].encode()
    return bytes(found)


class DetachKeys:
    """Finds the keys in the typed input. Keys that may be the beginning are kept back until the next one is known."""

    def __init__(self, keys: bytes) -> None:
        self._keys = keys
        self._held = b""

    def feed(self, typed: bytes) -> tuple[bytes, bool]:
        """The input for the task, and whether the keys have come; input after the keys is dropped."""
        if not self._keys:
            return typed, False
        pending, self._held = self._held + typed, b""
        at = pending.find(self._keys)
        if at >= 0:
            return pending[:at], True
        for length in range(min(len(self._keys) - 1, len(pending)), 0, -1):
            if pending.endswith(self._keys[:length]):
                self._held = pending[-length:]
                return pending[:-length], False
        return pending, False
