"""Transactions have payloads of their own, which the store keeps with the name of their kind."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import pytest

from store.base import Quarantined
from store.encoding.codec import Stored, decode, encode
from store.records import (
    DeletePayload,
    Payload,
    ReschedulePayload,
    RollingPayload,
    Transaction,
    TransactionKind,
    UpdatePayload,
)
from store.records.transactions import NOTHING, PAYLOADS
from tests.golden.write import payload_of

KINDS: tuple[TransactionKind, ...] = get_args(TransactionKind)


def read(data: bytes) -> Transaction:
    found = decode(Stored("transaction", json.loads(data)["id"], data))
    assert isinstance(found, Transaction), found
    return found


def transaction(kind: TransactionKind, payload: Payload = NOTHING, **fields: Any) -> Transaction:
    given: dict[str, Any] = {"id": "t-1", "namespace": "shop", "application": "web", "created_at": 1.0} | fields
    return Transaction(type=kind, due_at=1.0, deadline=9.0, payload=payload, **given)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stored_payload_says_whose_it_is(kind: TransactionKind) -> None:
    record = transaction(kind, payload_of(kind), target=3, inner=True, message="m")
    stored = json.loads(encode(record)).get("payload")
    assert stored is None if PAYLOADS[kind] is Payload else stored["of"] == kind
    assert read(encode(record)) == record


def test_without_a_payload_a_transaction_has_the_defaults_of_its_kind() -> None:
    for kind in KINDS:
        record = transaction(kind)
        assert type(record.payload) is PAYLOADS[kind] and record == read(encode(record))


def test_a_payload_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="DeletePayload is not a payload of UPDATE"):
        transaction("UPDATE", DeletePayload())
    with pytest.raises(TypeError, match="LAUNCH t-1 has no UpdatePayload"):
        UpdatePayload.of(transaction("LAUNCH"))
    assert UpdatePayload.of(transaction("UPDATE", UpdatePayload(max_unavailable=2))).max_unavailable == 2


def test_only_a_reschedule_works_on_one_taskgroup() -> None:
    assert transaction("RESCHEDULE", ReschedulePayload(taskgroup="0.web")).taskgroup == "0.web"
    assert {kind for kind in KINDS if transaction(kind, payload_of(kind)).taskgroup} == {"RESCHEDULE"}


def test_fields_of_a_newer_layout_stay_in_the_payload() -> None:
    data = encode(transaction("DELETE", DeletePayload(enforce=True)))[:-2] + b',"patience":{"a":1}},"force":true}'
    found = read(data)
    assert found.extra == {"/payload/patience": {"a": 1}, "/force": True} and DeletePayload.of(found).enforce
    written = json.loads(encode(msgspec.structs.replace(found, message="later")))
    assert written["payload"] == {"of": "DELETE", "enforce": True, "patience": {"a": 1}} and written["force"]


def test_a_wrong_value_in_a_payload_is_quarantined_with_its_place() -> None:
    data = encode(transaction("INNERSCALE", RollingPayload(victims=("a",)))).replace(b'["a"]', b'["a",7]')
    found = decode(Stored("transaction", "t-1", data))
    assert isinstance(found, Quarantined) and "$.payload.victims[1]" in found.error


def test_a_stored_payload_of_another_kind_is_quarantined() -> None:
    data = encode(transaction("DELETE", DeletePayload(enforce=True))).replace(b'"of":"DELETE"', b'"of":"UPDATE"')
    found = decode(Stored("transaction", "t-1", data))
    assert isinstance(found, Quarantined) and "UpdatePayload is not a payload of DELETE" in found.error
