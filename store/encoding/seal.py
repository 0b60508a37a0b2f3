"""Encryption of records at rest: records that may hold confidential content are sealed in the store.

A sealed record is ``sealed:1:<key id>:`` and a Fernet token (AES-128-CBC with HMAC-SHA-256, version, time) as raw
bytes. The content of the token is the record's kind and its JSON, so that the bytes of one kind are not accepted as
another kind; the key of the record is part of the JSON and checked as well. The key id distinguishes a record of an
unknown key from a damaged one. All kinds are sealed except OPEN_KINDS, which hold states and nothing that users keep
secret. So definitions (with passwords of registries and values of variables), secrets, configmaps, commands and
messages are sealed.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.fernet import Fernet  # loaded with the first key

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
        "queue",
        "queuetree",
        "priorityclass",
        "podgroup",
        "managedapplication",
        "placeholder",
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
        """Raises ValueError for an invalid key, by its position; the key itself is not part of the message."""
        self._keys: dict[bytes, Fernet] = {}
        if keys:
            from cryptography.fernet import Fernet
        for number, key in enumerate(keys, 1):
            try:
                self._keys[key_id(key)] = Fernet(key)
            except ValueError as error:
                raise ValueError(f"key {number} is invalid: expected 32 bytes in URL-safe base64") from error
        self._first = next(iter(self._keys), b"")

    def seal(self, kind: str, data: bytes) -> bytes:
        """Returns the bytes to be stored in place of a record's JSON: encrypted, or unchanged for open kinds and
        without keys."""
        if not self._keys or kind in OPEN_KINDS:
            return data
        token = self._keys[self._first].encrypt(kind.encode() + b"\0" + data)
        return _MARK + self._first + b":" + urlsafe_b64decode(token)

    def sealed_size(self, kind: str, length: int) -> int:
        """Number of bytes that `seal` makes of `length` bytes."""
        if not self._keys or kind in OPEN_KINDS:
            return length
        content = len(kind) + 1 + length
        padded = (content // _BLOCK + 1) * _BLOCK
        return len(_MARK) + _ID_LENGTH + 1 + _TOKEN_OVERHEAD + padded

    def open(self, kind: str, data: bytes) -> bytes:
        """Returns the record's JSON. Raises Unsealable if the record was sealed with an unknown key, is damaged, or is
        of another kind."""
        if not is_sealed(data):
            return data
        identity, colon, token = data.removeprefix(_MARK).partition(b":")
        if not data.startswith(_MARK) or len(identity) != _ID_LENGTH or not colon:
            raise Unsealable("unknown form of encryption")
        fernet = self._keys.get(identity)
        name = identity.decode("ascii", "replace")
        if fernet is None:
            raise Unsealable(f"encrypted with key {name}, which is not in store.secret_key_file")
        from cryptography.fernet import InvalidToken

        try:
            opened = fernet.decrypt(urlsafe_b64encode(token))
        except InvalidToken as error:
            raise Unsealable(f"encrypted with key {name}, but damaged") from error
        inner, _, content = opened.partition(b"\0")
        if inner != kind.encode():
            raise Unsealable(f"the decrypted content is not a {kind}")
        return content


UNSEALED = Sealer()


def is_sealed(data: bytes) -> bool:
    """Returns True if the bytes are an encrypted record, with any key."""
    return data.startswith(_MARKS)


def key_id(key: str) -> bytes:
    """Returns a short name of the key, from which the key cannot be computed."""
    return sha256(key.encode()).hexdigest()[:_ID_LENGTH].encode()


def new_key() -> str:
    """A new random encryption key in the text form that key files hold (URL-safe base64 of 32 bytes)."""
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode()


def read_keys(text: str) -> list[str]:
    """Keys of a file: one per line; blank lines and lines that begin with # are none."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]
