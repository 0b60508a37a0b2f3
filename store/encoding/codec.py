"""Records to bytes and back: JSON by msgspec, one object per record.

Layouts. `schema` is always written, so that a record says by itself which layout it has. Fields that equal their
default are left out.

Unknown fields survive a read-change-write, so that an older scheduler can work on the records of a newer one (during a
rolling upgrade) without destroying unknown fields. They are found by a comparison: a record of our own layout encodes
to exactly the bytes it was read from. If it does not, or if its `schema` is newer than ours, the document is compared
with the record field by field, and every field that the record's class does not have goes into `Record.extra` under its
path. `encode` merges them back. The comparison costs one more encoding, some microseconds; only records with a
difference take the slow way. A newer `schema` number is kept, an older one becomes ours.

Paths are JSON pointers (RFC 6901). An element of a list is named by its `id` or `name` where it has one
(``/tasks/id=a1/cgroup``), so that its fields stay with it when other elements come and go; otherwise by its position.
Fields of an element that no longer exists are dropped with it. Where a struct is stored as a list, the fields of a
newer layout stand behind the known ones and are named by their position.

Around this, records that may be confidential are sealed (store.encoding.seal), if the store has keys.

A record that cannot be decoded is quarantined: reported with the path of the fault, left in the store, never fatal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from store.base import BatchTooLarge, Change, Followed, Loaded, Quarantined, RecordTooLarge, RecordUnencodable
from store.encoding.seal import UNSEALED, Sealer, Unsealable
from store.records import KINDS, SCHEMA, Record

CHANGE_OVERHEAD = 200
"""Bytes added to the size of each change for the data that a store writes around it (path, key, operation header)."""

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
    """Encodes the changes of one commit that are not encoded yet. Raises RecordTooLarge if they do not fit into `limit`
    bytes together, RecordUnencodable for a record that cannot be encoded."""
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
    """Returns the bytes of a changed record, which must not be None. Raises RecordUnencodable for any fault of the
    record."""
    assert change.record is not None
    try:
        return encode(change.record)
    except Exception as error:
        raise RecordUnencodable(change.kind, change.key, error) from error


def size_of(change: Encoded) -> int:
    """Bytes that a change takes of a batch, including the data that the store writes around the record."""
    return room_of(change.key, len(change.data or b""))


def room_of(key: str, length: int) -> int:
    """Bytes that a record of `length` bytes takes of a batch. A character of the key that is not ASCII has up to four
    bytes, each of which takes three in the path of a node."""
    return length + CHANGE_OVERHEAD + (len(key) if key.isascii() else 12 * len(key))


def _encode_with_extra(record: Record) -> bytes:
    tree: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(record, extra={}))
    for path, value in record.extra.items():
        *parents, field = [_unescape(token) for token in path.split("/")[1:]]
        place = _descend(record, tree, parents)
        if isinstance(place, dict):
            place[field] = value
        elif place is not None and int(field) >= len(place):
            place.append(value)
    return _ENCODER.encode({"schema": record.schema} | tree)


def _descend(value: Any, tree: Any, tokens: list[str]) -> dict[str, Any] | list[Any] | None:
    """The object in `tree` (the encoding of `value`) that the path leads to, a list for a struct that is stored as one;
    None if it is gone."""
    for token in tokens:
        if isinstance(value, msgspec.Struct) and isinstance(tree, list):
            value, tree = getattr(value, value.__struct_fields__[int(token)]), tree[int(token)]
        elif isinstance(value, msgspec.Struct):
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
    """Decodes a stored record. Returns Quarantined if the record cannot be used; the error names the path of the faulty
    field."""
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
    """Decodes the records that a store has read."""
    loaded = Loaded([], [])
    for item in items:
        record = decode(item, sealer)
        if isinstance(record, Quarantined):
            loaded.quarantined.append(record)
        else:
            loaded.records.append(record)
    return loaded


def followed(items: Iterable[Stored | tuple[str, str]], sealer: Sealer = UNSEALED) -> Followed:
    """Decodes the items that a follower has read. An item that consists of kind and key only stands for a record that
    does not exist; a record that cannot be decoded is listed as quarantined and gives a change without record."""
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
    # A stored field named `extra` is an unknown field like any other: `extra` itself is never stored.
    record = msgspec.convert({k: v for k, v in tree.items() if k != "extra"}, KINDS[kind])
    extra: dict[str, Any] = {}
    _collect_unknown(record, tree, "", extra)
    return msgspec.structs.replace(record, extra=extra, schema=max(record.schema, SCHEMA))


def _collect_unknown(value: Any, tree: Any, path: str, extra: dict[str, Any]) -> None:
    if isinstance(value, msgspec.Struct) and isinstance(tree, list):  # stored as a list: a newer layout adds at its end
        for index, item in enumerate(tree):
            if index < len(value.__struct_fields__):
                _collect_unknown(getattr(value, value.__struct_fields__[index]), item, f"{path}/{index}", extra)
            else:
                extra[f"{path}/{index}"] = item
    elif isinstance(value, msgspec.Struct):
        for field, item in tree.items():
            if field in value.__struct_fields__ and (path or field != "extra"):
                _collect_unknown(getattr(value, field), item, f"{path}/{_escape(field)}", extra)
            elif field != value.__struct_config__.tag_field:
                extra[f"{path}/{_escape(field)}"] = item
    elif isinstance(value, dict):
        for name, item in tree.items():
            _collect_unknown(value[name], item, f"{path}/{_escape(name)}", extra)
    elif isinstance(value, tuple):
        for index, item in enumerate(tree):
            _collect_unknown(value[index], item, f"{path}/{_escape(_token(index, value[index]))}", extra)


def _token(index: int, element: Any) -> str:
    """Returns the name of a list element in a path."""
    for field in ("id", "name"):
        name = getattr(element, field, "")
        if name:
            return f"{field}={name}"
    return str(index)


def _escape(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")


def _unescape(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~")
