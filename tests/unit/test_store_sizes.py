"""store.encoding.sizes: what a change takes of a batch is known exactly before it is written, for every kind of record.

Records are built from the types of their fields, so a kind or a field that is added is covered by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.base import BatchTooLarge, Change, RecordTooLarge, RecordUnencodable
from store.encoding.codec import Encoded, encode, encode_changes, size_of
from store.encoding.seal import UNSEALED, Sealer, new_key
from store.encoding.sizes import Sizer
from store.records import (
    KINDS,
    Application,
    ConfigItem,
    ConfigMap,
    Framework,
    Record,
    TaskGroup,
    Transaction,
    TransactionKind,
)
from store.records.transactions import PAYLOADS
from store.state import State
from store.state.unit_of_work import UnitOfWork
from store.zookeeper.tree import Address, Tree
from store.zookeeper.wire import create

SEALED = Sealer([new_key()])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["", 'a"\\\n', "\x00\x1f" * 50, "ä€😀" * 30, "x" * 5000]
)


class Filler:
    """Makes values of a type with every field set."""

    def __init__(self, text: Callable[[], str], many: int, transaction: TransactionKind = "LAUNCH") -> None:
        """`transaction`: the kind of transactions."""
        self._text, self._many = text, many
        self.transaction = transaction

    def record(self, cls: type[Record]) -> Record:
        made = self._value(msgspec.inspect.type_info(cls))
        assert isinstance(made, cls)
        if isinstance(made, Transaction):
            payload = PAYLOADS[self.transaction]
            values = {"type": self.transaction, "payload": self._value(msgspec.inspect.type_info(payload))}
            made = msgspec.structs.replace(made, **values)
        filled: Record = msgspec.structs.replace(made, schema=Framework().schema, extra={})
        return filled

    def _value(self, wanted: msgspec.inspect.Type) -> Any:
        match wanted:
            case msgspec.inspect.StructType():
                return wanted.cls(**{field.name: self._value(field.type) for field in wanted.fields})
            case msgspec.inspect.StrType():
                return self._text()
            case msgspec.inspect.BytesType():
                return self._text().encode()
            case msgspec.inspect.IntType():
                return 10**18 + 1
            case msgspec.inspect.FloatType():
                return 1.7e9 + 1 / 3
            case msgspec.inspect.BoolType():
                return True
            case msgspec.inspect.LiteralType():
                return max(wanted.values, key=lambda value: len(str(value)))
            case msgspec.inspect.UnionType():
                return self._value(next(t for t in wanted.types if not isinstance(t, msgspec.inspect.NoneType)))
            case msgspec.inspect.VarTupleType():
                return tuple([self._value(wanted.item_type) for _ in range(self._many)])
            case msgspec.inspect.TupleType():
                return tuple([self._value(item) for item in wanted.item_types])
            case msgspec.inspect.DictType():
                return {f"{n}{self._text()}": self._value(wanted.value_type) for n in range(self._many)}
            case msgspec.inspect.AnyType():
                return [self._text(), 1, None]
        raise AssertionError(f"no rule for {wanted}")


def change_of(record: Record) -> Change:
    return Change(record.kind, record.key, record)


@pytest.mark.parametrize("sealer", [UNSEALED, SEALED], ids=["clear", "sealed"])
@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_the_size_of_every_kind_of_record_is_exact(kind: str, sealer: Sealer, data: st.DataObject) -> None:
    many = data.draw(st.sampled_from([1, 2, 5]))
    texts = data.draw(st.lists(TEXTS, min_size=7, max_size=7))
    filler = Filler(iter(texts * 20_000).__next__, many, data.draw(st.sampled_from(sorted(PAYLOADS))))
    change = change_of(filler.record(KINDS[kind]))
    sizer = Sizer(10**9, sealer)
    (stored,) = encode_changes([change], 10**9, sealer)
    assert sizer.size(change) == size_of(stored)
    known, _ = sizer.measured(change)
    assert known.data == encode(change.record)  # type: ignore[arg-type]
    assert sizer.size(known) == size_of(stored)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_kind_is_too_large_unnoticed(kind: str) -> None:
    """Each of them can hold more than a store takes; 20 times less was assumed of some."""
    change = change_of(Filler(lambda: "x" * 2000, 12).record(KINDS[kind]))
    limit = len(encode(change.record)) - 1  # type: ignore[arg-type]
    uow = UnitOfWork(State(), Sizer(limit))
    uow.put(change.record)  # type: ignore[type-var]
    with pytest.raises(RecordTooLarge, match=f"{kind} .* the store takes at most {limit}"):
        uow.refuse_oversized()


@pytest.mark.parametrize("length", range(40))
def test_what_sealing_adds_is_computed_exactly(length: int) -> None:
    assert SEALED.sealed_size("secret", length) == len(SEALED.seal("secret", b"x" * length))
    assert SEALED.sealed_size("taskgroup", length) == length
    assert UNSEALED.sealed_size("secret", length) == length


@given(parts=st.lists(st.text(st.sampled_from("az09-._ä😀"), min_size=1, max_size=60), min_size=1, max_size=4))
def test_a_key_never_takes_more_of_a_batch_than_it_counts(parts: list[str]) -> None:
    key = "/".join(parts)
    path = Tree("/" + "r" * 30).record(Address("agentsetting", key))
    assert len(create(path, b"1234")) <= size_of(Encoded("agentsetting", key, b"1234"))


# --- the unit of work ---------------------------------------------------------------------------------------------


def configmap(name: str, size: int) -> ConfigMap:
    return ConfigMap(namespace="ns", name=name, items={"content": ConfigItem(content="x" * size)})


def test_a_unit_knows_its_size_whatever_is_put_again_deleted_or_undone() -> None:
    uow = UnitOfWork(State(), Sizer(10**9))
    for step in range(5):
        uow.put(configmap("a", 1000 * (step + 1)))
        uow.put(configmap("b", 500))
        if step == 3:
            uow.delete(configmap("b", 0))
        assert uow.size() == sum(map(uow.sizer.size, uow._changes.values()))
    uow.rollback()
    assert uow.size() == 0
    uow.put(configmap("c", 100))
    unit = uow.cut()
    assert unit is not None and uow.size() == 0


def test_each_record_is_encoded_once_for_its_size_and_for_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []

    def count(change: Change) -> bytes:
        encoded.append(change.key)
        return encode(change.record)  # type: ignore[arg-type]

    monkeypatch.setattr("store.encoding.sizes.encode_record", count)
    monkeypatch.setattr("store.encoding.codec.encode_record", count)
    uow = UnitOfWork(State(), Sizer())
    uow.put(configmap("a", 100))
    uow.put(configmap("b", 100))
    uow.size()
    uow.put(configmap("c", 100))
    uow.refuse_oversized()
    unit = uow.cut()
    assert unit is not None
    assert sum(map(uow.sizer.size, unit.changes)) == sum(map(size_of, encode_changes(unit.changes, 10**6)))
    assert sorted(encoded) == ["ns/a", "ns/b", "ns/c"]


def test_what_is_too_large_together_is_named_with_its_largest() -> None:
    uow = UnitOfWork(State(), Sizer(700_000))
    for name in "abcd":
        uow.put(configmap(name, 180_000))
    uow.put(configmap("e", 181_000))
    with pytest.raises(BatchTooLarge, match=r"5 changes .* largest is configmap ns/e"):
        uow.refuse_oversized()


def test_what_has_no_encoding_is_named() -> None:
    uow = UnitOfWork(State())
    uow.put(Application(namespace="ns", name="app", message="half \ud800"))
    with pytest.raises(RecordUnencodable, match="application ns/app cannot be stored"):
        uow.size()
    with pytest.raises(RecordUnencodable):
        uow.size()
    uow.rollback()
    uow.put(TaskGroup(id="1", namespace="ns", application="app", index=0, version="1"))
    assert uow.size() > 0
