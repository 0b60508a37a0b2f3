"""Encryption of records at rest: what may hold confidential content lies sealed in the store.

A sealed record is ``sealed:1:<key id>:`` and a Fernet token (AES-128-CBC with HMAC-SHA-256, version, time) as raw
bytes; in it are the record's kind and its JSON, so that the bytes of one kind are no record of another; its key is part
of the JSON and checked anyway. The key id tells a record of an unknown key from a damaged one.

Everything is sealed but the kinds of OPEN_KINDS, which say how things stand and hold nothing that users keep secret. So
definitions (with passwords of registries and values of variables), secrets, configmaps, commands and messages are.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256

from cryptography.fernet import Fernet, InvalidToken

OPEN_KINDS = frozenset(
    {
        "framework",
        "application",
        "taskgroup",
        "remnant",
        "transaction",
        "agentsetting",
        "service",
        "endpoint",
        "namespace",
        "journal",
    }
)
_MARK = b"sealed:1:"
_MARKS = b"sealed:"
_ID_LENGTH = 8
_BLOCK = 16
"""Bytes of a block of AES: the content is padded to the next multiple, by at least one byte (PKCS 7)."""
_TOKEN_OVERHEAD = 1 + 8 + 16 + 32
"""Bytes of a Fernet token beside its content: version, time, initialization vector, HMAC."""


class Unsealable(ValueError):
    """A sealed record cannot be read; the message says why and names no content."""


class Sealer:
    """Seals with the first key, opens with all of them. Without keys it seals nothing."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        """Raises ValueError for what is no key, by its position; the key itself is not part of the message."""
        self._keys: dict[bytes, Fernet] = {}
        for number, key in enumerate(keys, 1):
            try:
                self._keys[key_id(key)] = Fernet(key)
            except ValueError as error:
                raise ValueError(f"key {number} is none: 32 bytes in URL-safe base64 are expected") from error
        self._first = next(iter(self._keys), b"")

    def seal(self, kind: str, data: bytes) -> bytes:
        """What is to be stored in place of a record's JSON."""
        if not self._keys or kind in OPEN_KINDS:
            return data
        token = self._keys[self._first].encrypt(kind.encode() + b"\0" + data)
        return _MARK + self._first + b":" + urlsafe_b64decode(token)

    def sealed_size(self, kind: str, length: int) -> int:
        """Bytes of what `seal` makes of so many bytes."""
        if not self._keys or kind in OPEN_KINDS:
            return length
        content = len(kind) + 1 + length
        padded = (content // _BLOCK + 1) * _BLOCK
        return len(_MARK) + _ID_LENGTH + 1 + _TOKEN_OVERHEAD + padded

    def open(self, kind: str, data: bytes) -> bytes:
        """The record's JSON. Raises Unsealable."""
        if not is_sealed(data):
            return data
        identity, colon, token = data.removeprefix(_MARK).partition(b":")
        if not data.startswith(_MARK) or len(identity) != _ID_LENGTH or not colon:
            raise Unsealable("it is sealed in a way that is not known here")
        fernet = self._keys.get(identity)
        name = identity.decode("ascii", "replace")
        if fernet is None:
            raise Unsealable(f"it is sealed with key {name}, which store.secret_key_file does not have")
        try:
            opened = fernet.decrypt(urlsafe_b64encode(token))
        except InvalidToken as error:
            raise Unsealable(f"it is sealed with key {name}, but damaged") from error
        inner, _, content = opened.partition(b"\0")
        if inner != kind.encode():
            raise Unsealable(f"what is sealed in it is no {kind}")
        return content


UNSEALED = Sealer()


def is_sealed(data: bytes) -> bool:
    return data.startswith(_MARKS)


def key_id(key: str) -> bytes:
    """Names a key without telling it."""
    return sha256(key.encode()).hexdigest()[:_ID_LENGTH].encode()


def new_key() -> str:
    return Fernet.generate_key().decode()


def read_keys(text: str) -> list[str]:
    """Keys of a file: one per line; blank lines and lines that begin with # are none."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]
