"""Records to bytes and back: JSON by msgspec, one object per record.

Layouts. `schema` is always written, so that a record says by itself which layout it has. Fields that equal their
default are left out.

Unknown fields survive a read-change-write, so that an older scheduler can work on the records of a newer one (during a
rolling upgrade) without destroying what it does not understand. They are noticed by comparing: a record of our own
layout encodes to exactly the bytes it was read from; if it does not, or if its `schema` is newer than ours, the
document is walked next to the record, and every field that the record's class does not have goes into `Record.extra`
under its path. `encode` merges them back. The comparison costs one more encoding, some microseconds; only records with
a difference take the slow way. A newer `schema` number is kept, an older one becomes ours.

Paths are JSON pointers (RFC 6901). An element of a list is named by its `id` or `name` where it has one
(``/tasks/id=a1/cgroup``), so that its fields stay with it when other elements come and go; otherwise by its position.
Fields of an element that no longer exists are dropped with it.

Around this, records that may be confidential are sealed (store.seal), if the store has keys.

A record that cannot be decoded is quarantined: reported with the path of the fault, left in the store, never fatal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from store.base import BatchTooLarge, Change, Followed, Loaded, Quarantined, RecordTooLarge, RecordUnencodable
from store.records import KINDS, SCHEMA, Record
from store.seal import UNSEALED, Sealer, Unsealable

CHANGE_OVERHEAD = 200
"""Bytes added to the size of each change for what a store writes around it (path, key, operation header)."""

_ENCODER = msgspec.json.Encoder()
_DECODERS = {kind: msgspec.json.Decoder(cls) for kind, cls in KINDS.items()}
_SCHEMA_FIELD = b'{"schema":%d' % SCHEMA


class Encoded(NamedTuple):
    """A change ready to be written; `data` None deletes the record."""

    kind: str
    key: str
    data: bytes | None


class Stored(NamedTuple):
    """A record as it lies in a store."""

    kind: str
    key: str
    data: bytes


# --- encoding -----------------------------------------------------------------------------------------------------


def encode(record: Record) -> bytes:
    """The bytes of a record, with the unknown fields of `record.extra` in their places."""
    if record.extra:
        return _encode_with_extra(record)
    body = _ENCODER.encode(record)
    if record.schema != SCHEMA:
        return body
    return _SCHEMA_FIELD + (b"," if len(body) > 2 else b"") + body[1:]


def encode_changes(changes: Sequence[Change], limit: int, sealer: Sealer = UNSEALED) -> list[Encoded]:
    """Encodes the changes of one commit, as far as they are not encoded yet. Raises RecordTooLarge if they do not fit
    into `limit` bytes together, RecordUnencodable for what cannot be written."""
    encoded = [
        Encoded(c.kind, c.key, None if c.record is None else sealer.seal(c.kind, c.data or encode_record(c)))
        for c in changes
    ]
    total = sum(size_of(change) for change in encoded)
    if total > limit:
        largest = max(encoded, key=size_of)
        if size_of(largest) > limit:
            raise RecordTooLarge(largest.kind, largest.key, size_of(largest), limit)
        raise BatchTooLarge(largest.kind, largest.key, total, limit, len(encoded))
    return encoded


def encode_record(change: Change) -> bytes:
    """The bytes of a changed record. Raises RecordUnencodable for whatever is wrong with it."""
    assert change.record is not None
    try:
        return encode(change.record)
    except Exception as error:
        raise RecordUnencodable(change.kind, change.key, error) from error


def size_of(change: Encoded) -> int:
    """Bytes that a change takes of a batch, with what the store writes around it."""
    return room_of(change.key, len(change.data or b""))


def room_of(key: str, length: int) -> int:
    """Bytes that a record of so many bytes takes of a batch. A character that is not ASCII has up to four bytes, each
    of which takes three in the path of a node."""
    return length + CHANGE_OVERHEAD + (len(key) if key.isascii() else 12 * len(key))


def _encode_with_extra(record: Record) -> bytes:
    tree: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(record, extra={}))
    for path, value in record.extra.items():
        *parents, field = [_unescape(token) for token in path.split("/")[1:]]
        place = _descend(record, tree, parents)
        if place is not None:
            place[field] = value
    return _ENCODER.encode({"schema": record.schema} | tree)


def _descend(value: Any, tree: Any, tokens: list[str]) -> dict[str, Any] | None:
    """The object in `tree` (the encoding of `value`) that the path leads to; None if it is gone."""
    for token in tokens:
        if isinstance(value, msgspec.Struct):
            value = getattr(value, token, None)
            if isinstance(value, msgspec.Struct):
                tree.setdefault(token, {})  # left out because all its known fields equal their defaults
            tree = tree.get(token)
        elif isinstance(value, dict):
            value, tree = value.get(token), tree.get(token)
        else:
            index = next((i for i, item in enumerate(value) if _token(i, item) == token), None)
            if index is None:
                return None
            value, tree = value[index], tree[index]
        if value is None or tree is None:
            return None
    return tree if isinstance(value, msgspec.Struct) else None


# --- decoding -----------------------------------------------------------------------------------------------------


def decode(stored: Stored, sealer: Sealer = UNSEALED) -> Record | Quarantined:
    """The record, or why it cannot be used (the message names the path of the faulty field)."""
    kind, key, data = stored
    try:
        data = sealer.open(kind, data)
    except Unsealable as error:
        return Quarantined(kind, key, str(error), sealed=True)
    decoder = _DECODERS.get(kind)
    if decoder is None:
        return Quarantined(kind, key, f"unknown kind {kind!r}")
    try:
        record = decoder.decode(data)
        if record.schema != SCHEMA or record.extra or encode(record) != data:
            record = _decode_with_extra(kind, data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return Quarantined(kind, key, str(error) or type(error).__name__)
    if record.key != key:
        return Quarantined(kind, key, f"the record says that its key is {record.key!r}")
    return record


def decode_all(items: Iterable[Stored], sealer: Sealer = UNSEALED) -> Loaded:
    """Decodes what a store has read."""
    loaded = Loaded([], [])
    for item in items:
        record = decode(item, sealer)
        if isinstance(record, Quarantined):
            loaded.quarantined.append(record)
        else:
            loaded.records.append(record)
    return loaded


def followed(items: Iterable[Stored | tuple[str, str]], sealer: Sealer = UNSEALED) -> Followed:
    """What a follower tells: decodes records; what is only a kind and a key does not exist."""
    found = Followed([], [])
    for item in items:
        record = decode(item, sealer) if isinstance(item, Stored) else None
        if isinstance(record, Quarantined):
            found.quarantined.append(record)
            record = None
        found.changes.append(Change(item[0], item[1], record))
    return found


def _decode_with_extra(kind: str, data: bytes) -> Record:
    tree: dict[str, Any] = msgspec.json.decode(data)
    # A stored field of this name is unknown like any other: `extra` itself is never stored.
    record = msgspec.convert({k: v for k, v in tree.items() if k != "extra"}, KINDS[kind])
    extra: dict[str, Any] = {}
    _collect_unknown(record, tree, "", extra)
    return msgspec.structs.replace(record, extra=extra, schema=max(record.schema, SCHEMA))


def _collect_unknown(value: Any, tree: Any, path: str, extra: dict[str, Any]) -> None:
    if isinstance(value, msgspec.Struct):
        for field, item in tree.items():
            if field in value.__struct_fields__ and (path or field != "extra"):
                _collect_unknown(getattr(value, field), item, f"{path}/{_escape(field)}", extra)
            else:
                extra[f"{path}/{_escape(field)}"] = item
    elif isinstance(value, dict):
        for name, item in tree.items():
            _collect_unknown(value[name], item, f"{path}/{_escape(name)}", extra)
    elif isinstance(value, tuple):
        for index, item in enumerate(tree):
            _collect_unknown(value[index], item, f"{path}/{_escape(_token(index, value[index]))}", extra)


def _token(index: int, element: Any) -> str:
    """How an element of a list is named in a path."""
    for field in ("id", "name"):
        name = getattr(element, field, "")
        if name:
            return f"{field}={name}"
    return str(index)


def _escape(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")


def _unescape(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~")
