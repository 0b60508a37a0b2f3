"""Writes one record of every kind, and of every kind of transaction, with a value in every field, as the present layout
stores it, and choices.json: all values of the fields that take one of several words (a status, a type), by kind and
path.

    python -m tests.golden.write VERSION

Run it once before a release that changes the layout of records, with the number of the release *before* the change, and
commit the files: tests/unit/test_upgrade.py reads, changes and writes them ever after. Existing files are not replaced,
since schedulers of that release have written such records.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect as types

from store.encoding.codec import encode
from store.records import KINDS, SCHEMA, Payload, Record, Transaction, TransactionKind
from store.records.transactions import PAYLOADS

FOLDER = Path(__file__).resolve().parent / "records"
OURS = ("schema", "extra")
"""Fields that the codec sets."""
CHOSEN = {"drain_phase": "Failed"}
"""Words that go with the values of other fields: a drain that has failed is in no other phase."""


def filled(cls: type[Record], transaction: TransactionKind = "RESCHEDULE") -> Record:
    """A record with a value in each of its fields that is not the default of the field. `transaction`: the kind of a
    transaction."""
    described = types.type_info(cls)
    assert isinstance(described, types.StructType)
    values = values_of(described.fields)
    if cls is Transaction:
        values |= {"id": f"id-{transaction}", "type": transaction, "payload": payload_of(transaction)}
    return cls(schema=SCHEMA, **values)


def all_filled() -> Iterable[tuple[str, Record]]:
    """A record of every kind, and one of every kind of transaction; each with the name of its file."""
    yield from ((kind, filled(cls)) for kind, cls in KINDS.items())
    others = (kind for kind in PAYLOADS if kind != "RESCHEDULE")
    yield from ((f"{Transaction.kind}.{kind}", filled(Transaction, kind)) for kind in others)


def payload_of(kind: TransactionKind) -> Payload:
    """The payload of a kind of transaction with a value in each of its fields."""
    described = types.type_info(PAYLOADS[kind])
    assert isinstance(described, types.StructType)
    return PAYLOADS[kind](**values_of(described.fields))


def values_of(fields: Iterable[types.Field], prefix: str = "") -> dict[str, Any]:
    """A value for each field by name, none of them the default of the field, which would not be stored."""
    return {f.name: value_of(f.type, prefix + f.name, f.default) for f in fields if f.name not in OURS}


def value_of(type_: types.Type, name: str, default: Any = None) -> Any:
    """A value of the type, other than `default` if there is a choice; texts and numbers follow from the name of the
    field, so that no two fields look equal."""
    number = 1 + zlib.crc32(name.encode()) % 900
    if name in CHOSEN:
        return CHOSEN[name]
    match type_:
        case types.StrType():
            return f"{name}-{number}"
        case types.BoolType():
            return default is not True
        case types.IntType():
            return number
        case types.FloatType():
            return number + 0.5
        case types.BytesType():
            return name.encode()
        case types.LiteralType(values=values) | types.EnumType(cls=values):
            return next((value for value in reversed(list(values)) if value != default), default)
        case types.UnionType(types=members):
            return value_of(next(member for member in members if not isinstance(member, types.NoneType)), name, default)
        case types.VarTupleType(item_type=item):
            return (value_of(item, name),)
        case types.TupleType(item_types=items):
            return tuple(value_of(item, f"{name}{place}") for place, item in enumerate(items))
        case types.ListType(item_type=item):
            return [value_of(item, name)]
        case types.FrozenSetType(item_type=item):
            return frozenset({value_of(item, name)})
        case types.DictType(key_type=key, value_type=value):
            return {value_of(key, f"{name}_key"): value_of(value, name)}
        case types.StructType(cls=cls, fields=fields):
            return cls(**values_of(fields, f"{name}_"))
        case types.AnyType():
            return {name: number}
        case types.RawType():
            return msgspec.Raw(b'{"%s":%d}' % (name.encode(), number))
    raise AssertionError(f"{name}: no value for {type_}")


def choices_of(type_: types.Type, path: str = "") -> dict[str, list[Any]]:
    """The words that fields may take, by JSON pointer into the record that `filled` makes."""
    match type_:
        case types.LiteralType(values=values):
            return {path: list(values)}
        case types.EnumType(cls=cls):
            return {path: [member.value for member in cls]}
        case types.UnionType(types=members):
            return choices_of(next(member for member in members if not isinstance(member, types.NoneType)), path)
        case types.VarTupleType(item_type=item) | types.ListType(item_type=item):
            return choices_of(item, f"{path}/0")
        case types.TupleType(item_types=items):
            return {k: v for place, item in enumerate(items) for k, v in choices_of(item, f"{path}/{place}").items()}
        case types.DictType(value_type=value):
            return choices_of(value, f"{path}/*")
        case types.StructType(fields=fields):
            named = [(f.encode_name, f.type) for f in fields if f.name not in OURS]
            return {k: v for name, field in named for k, v in choices_of(field, f"{path}/{name}").items()}
    return {}


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes one record of every kind as the present layout stores it.")
    parser.add_argument("version", help="release whose layout this is, such as 0.1.0")
    folder = FOLDER / parser.parse_args().version
    folder.mkdir(parents=True, exist_ok=True)
    for name, record in all_filled():
        file = folder / f"{name}.json"
        if not file.exists():
            stored = msgspec.json.encode([record.key, msgspec.Raw(encode(record))])
            file.write_bytes(msgspec.json.format(stored) + b"\n")
            print(f"{file.relative_to(FOLDER)} written")
    if not (folder / "choices.json").exists():
        choices = {kind: choices_of(types.type_info(cls)) for kind, cls in KINDS.items()}
        (folder / "choices.json").write_bytes(msgspec.json.format(msgspec.json.encode(choices)) + b"\n")


if __name__ == "__main__":
    main()
