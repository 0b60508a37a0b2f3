"""Payloads of transactions in the store: their fields stand beside those of the record.

So a transaction has the same bytes as in version 0.1, where the record had the fields of all kinds: no record has to be
rewritten, and while schedulers of both versions share a store during an upgrade, each understands the records of the
other. A payload is encoded and decoded by itself; to take it in and out of the document costs about a microsecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from store.records.record import Record
from store.records.transactions import NOTHING, PAYLOADS, Transaction

FIELD = "payload"
"""The field of the record, which no document has. No layout may have a field of this name."""
_KEY = b',"payload":'
"""Strings of a document cannot contain this: their quotation marks are escaped."""
_ENCODER = msgspec.json.Encoder()
_DECODERS: Mapping[str, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(cls) for kind, cls in PAYLOADS.items() if cls.__struct_fields__
}


def flat(transaction: Transaction, body: bytes) -> bytes:
    """The document of a transaction, made of `body`, in which the payload is an object of its own."""
    if transaction.payload is NOTHING:
        return body
    inside = _ENCODER.encode(transaction.payload)
    return body.replace(_KEY + inside, b"," + inside[1:-1] if len(inside) > 2 else b"", 1)


def flatten(record: Record, tree: dict[str, Any]) -> None:
    """Like `flat`, but for a document as a tree, which is changed in place."""
    if isinstance(record, Transaction):
        tree.update(tree.pop(FIELD, {}))


def fill(transaction: Transaction, document: bytes) -> None:
    """Gives a transaction that has just been decoded its payload from the same document. Raises
    msgspec.ValidationError."""
    decoder = _DECODERS.get(transaction.type)
    if decoder is not None:
        msgspec.structs.force_setattr(transaction, FIELD, decoder.decode(document))


def fill_from_tree(record: Record, tree: dict[str, Any]) -> None:
    """Like `fill`, but for a document as a tree; does nothing with other records. Raises msgspec.ValidationError."""
    if isinstance(record, Transaction):
        msgspec.structs.force_setattr(record, FIELD, msgspec.convert(tree, PAYLOADS[record.type]))


def stored_in(value: msgspec.Struct, field: str) -> tuple[msgspec.Struct, str] | None:
    """Returns the struct that holds a field of the stored document of `value`, the value itself or its payload, and
    the name of the attribute, which may differ from the name of the field. None: neither has the field."""
    if isinstance(value, Transaction):
        if field in value.payload.__struct_fields__:
            return value.payload, field
        if field == FIELD:
            return None
    if field not in value.__struct_encode_fields__:
        return None
    return value, value.__struct_fields__[value.__struct_encode_fields__.index(field)]
