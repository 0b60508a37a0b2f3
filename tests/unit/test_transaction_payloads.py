"""Transactions have payloads of their own, and the store has the layout of version 0.1: fields of a payload lie beside
those of the record (store/encoding/payloads.py).

tests/golden/transactions/flat.txt holds transactions as the code wrote them while the record had the fields of all
kinds: of every kind, begun by users and by the scheduler, active and with every verdict, taken from the simulation.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from store.base import Quarantined
from store.encoding import payloads
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

FILE = Path(__file__).resolve().parents[1] / "golden" / "transactions" / "flat.txt"
LINES = [line.split(b" ", 2) for line in FILE.read_bytes().splitlines()]
UNUSED = b'"host_retain_until":0.0,'
"""The flat layout wrote this field for every kind, also with the value that says nothing."""
KINDS: tuple[TransactionKind, ...] = get_args(TransactionKind)


class Flat(msgspec.Struct, omit_defaults=True):
    """The fields of all kinds, as the record of version 0.1 has them."""

    id: str
    type: str
    target: int = 0
    inner: bool = False
    enforce: bool = False
    taskgroup: str = ""
    host_retain: str = ""
    host_retain_until: float = 0.0
    force: bool = False
    restarts: int = 0
    drained: str = ""
    left_agent: str = ""
    left_tasks: tuple[str, ...] = ()
    max_unavailable: int = 0
    victims: tuple[str, ...] = ()


NEWER = {"beneficiary", "beneficiary_queue", "rebalanced", "unready"}
"""Fields of payloads that version 0.1 does not know."""


def older_fields(payload: Payload) -> set[str]:
    """Names of the fields that version 0.1 knows."""
    return set(payload.__struct_fields__) - NEWER


def read(data: bytes) -> Transaction:
    found = decode(Stored("transaction", json.loads(data)["id"], data))
    assert isinstance(found, Transaction), found
    return found


def transaction(kind: TransactionKind, payload: Payload = NOTHING, **fields: Any) -> Transaction:
    given: dict[str, Any] = {"id": "t-1", "namespace": "shop", "application": "web", "created_at": 1.0} | fields
    return Transaction(type=kind, due_at=1.0, deadline=9.0, payload=payload, **given)


def test_every_kind_is_among_the_records_of_the_flat_layout() -> None:
    found = [json.loads(data) for _, _, data in LINES]
    assert {record["type"] for record in found} == set(KINDS) - {"FILL"}, "FILL is newer than the flat layout"
    assert {record.get("status", "INIT") for record in found} == {"INIT", "FINISH", "TIMEOUT", "CANCEL"}
    fields = {field for payload in PAYLOADS.values() for field in payload.__struct_fields__}
    assert fields - NEWER <= {field for record in found for field in record}
    assert fields >= NEWER


@pytest.mark.parametrize("data", [data for _, _, data in LINES], ids=range(len(LINES)))
def test_a_record_of_the_flat_layout_is_read_and_written_as_it_is(data: bytes) -> None:
    found = read(data)
    assert type(found.payload) is PAYLOADS[found.type] and not found.extra
    assert encode(found) in (data, data.replace(UNUSED, b""))
    old = msgspec.json.decode(data, type=Flat)
    for field in older_fields(found.payload):
        assert getattr(found.payload, field) == getattr(old, field)
    unset = type(found.payload)()
    for field in NEWER & set(found.payload.__struct_fields__):
        assert getattr(found.payload, field) == getattr(unset, field)
    assert read(encode(found)) == found


@pytest.mark.parametrize("kind", KINDS)
def test_a_scheduler_of_version_0_1_finds_every_field_of_a_payload(kind: TransactionKind) -> None:
    record = transaction(kind, payload_of(kind), target=3, inner=True, message="m")
    old = msgspec.json.decode(encode(record), type=Flat)
    known = older_fields(record.payload)
    assert {field: getattr(old, field) for field in known} == {field: getattr(record.payload, field) for field in known}
    assert b"payload" not in encode(record)
    assert read(encode(record)) == record


@pytest.mark.parametrize("kind", KINDS)
def test_no_field_of_a_payload_has_the_name_of_a_field_of_the_record(kind: TransactionKind) -> None:
    assert not set(PAYLOADS[kind].__struct_fields__) & set(Transaction.__struct_fields__)


def test_words_that_look_like_a_payload_stay_as_they_are() -> None:
    text = 'x,"payload":{"enforce":true},"payload":{}'
    record = transaction("DELETE", DeletePayload(enforce=True), message=text, cause=text)
    assert read(encode(record)) == record
    assert msgspec.json.decode(encode(record))["message"] == text


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


def test_fields_of_a_newer_layout_stay_beside_those_of_the_payload() -> None:
    data = encode(transaction("DELETE", DeletePayload(enforce=True)))[:-1] + b',"patience":{"a":1},"force":true}'
    found = read(data)
    assert found.extra == {"/patience": {"a": 1}, "/force": True} and DeletePayload.of(found).enforce
    written = json.loads(encode(msgspec.structs.replace(found, message="later")))
    assert (written["patience"], written["force"], written["enforce"]) == ({"a": 1}, True, True)


def test_a_field_that_other_kinds_have_and_that_says_nothing_is_dropped() -> None:
    data = encode(transaction("LAUNCH"))[:-1] + b',"host_retain_until":0.0,"victims":[]}'
    found = read(data)
    assert found.extra == {} and encode(found) == encode(transaction("LAUNCH"))


def test_a_wrong_value_in_a_payload_is_quarantined_with_its_place() -> None:
    data = encode(transaction("INNERSCALE", RollingPayload(victims=("a",)))).replace(b'["a"]', b'["a",7]')
    found = decode(Stored("transaction", "t-1", data))
    assert isinstance(found, Quarantined) and "$.victims[1]" in found.error


def test_a_field_called_like_the_payload_is_no_payload() -> None:
    data = encode(transaction("DELETE", DeletePayload(enforce=True)))[:-1] + b',"payload":{"enforce":false}}'
    found = read(data)
    assert DeletePayload.of(found).enforce and found.extra == {"/payload": {"enforce": False}}
    assert payloads.stored_in(found, "payload") is None
