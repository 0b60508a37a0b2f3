"""store.encoding.codec: what is written is what is read, and what is not understood survives."""

from __future__ import annotations

import json

import msgspec
import pytest

from store.base import BatchTooLarge, Change, Quarantined, RecordTooLarge
from store.encoding.codec import Stored, decode, decode_all, encode, encode_changes, size_of
from store.records import SCHEMA, AgentSetting, Application, EventLog, Framework, Record, Task, TaskGroup, Version
from store.records.definition import Amounts, AttributeValue, Container


def taskgroup(**changes: object) -> TaskGroup:
    record = TaskGroup(
        id="0.web.ns.Unnamed.1",
        namespace="ns",
        application="web",
        index=0,
        version="1",
        tasks=(Task(id="t0", name="a"), Task(id="t1", name="b", status="Running")),
        resources=Amounts(cpus=100, mem=64000),
        attributes={"rack": AttributeValue(text="r/1")},
        created_at=1e9,
    )
    return msgspec.structs.replace(record, **changes)


def read(record: Record, document: object) -> Record:
    decoded = decode(Stored(record.kind, record.key, json.dumps(document).encode()))
    assert isinstance(decoded, Record), decoded
    return decoded


@pytest.mark.parametrize(
    "record",
    [
        Framework(),
        Framework(id="f-1", created_at=5.0),
        Application(namespace="ns", name="web", labels={"a": "ü"}),
        Version(namespace="ns", application="web", name="9", containers=(Container(name="c", extended={"x": 1}),)),
        taskgroup(),
        AgentSetting(agent="10.0.0.1", scalars={"weight": 0.5}),
    ],
    ids=lambda record: record.kind,
)
def test_what_is_written_is_read(record: Record) -> None:
    assert decode(Stored(record.kind, record.key, encode(record))) == record


def test_the_schema_is_always_written() -> None:
    assert json.loads(encode(Framework())) == {"schema": SCHEMA}
    assert json.loads(encode(taskgroup()))["schema"] == SCHEMA


def test_unknown_fields_survive_a_change_at_every_depth() -> None:
    document = json.loads(encode(taskgroup()))
    document["schema"] = SCHEMA + 1
    document["zone"] = {"name": "z", "level": [1, 2]}
    document["a/b~c"] = True
    document["resources"]["hugepages"] = 4
    document["tasks"][1]["cgroup"] = "/x"
    document["attributes"]["rack"]["range"] = [1, 2]

    record = read(taskgroup(), document)
    assert record.schema == SCHEMA + 1
    changed = msgspec.structs.replace(record, status="Running")
    assert json.loads(encode(changed)) == document | {"status": "Running"}


def test_an_unknown_field_is_kept_without_a_newer_schema() -> None:
    document = json.loads(encode(taskgroup())) | {"extra": {"of": "somebody"}}
    record = read(taskgroup(), document)
    assert record.schema == SCHEMA
    assert json.loads(encode(record)) == document


def test_fields_of_a_list_element_stay_with_it_and_go_with_it() -> None:
    document = json.loads(encode(taskgroup()))
    document["tasks"][0]["cgroup"] = "zero"
    document["tasks"][1]["cgroup"] = "one"
    record = read(taskgroup(), document)
    assert isinstance(record, TaskGroup)

    shrunk = msgspec.structs.replace(record, tasks=(Task(id="t9"), record.tasks[1]))
    assert [task.get("cgroup") for task in json.loads(encode(shrunk))["tasks"]] == [None, "one"]


def test_an_unknown_field_of_a_part_survives_when_the_part_has_only_defaults() -> None:
    document = json.loads(encode(taskgroup()))
    document["resources"] = {"cpus": 1, "hugepages": 4}
    record = msgspec.structs.replace(read(taskgroup(), document), resources=Amounts())
    assert json.loads(encode(record))["resources"] == {"hugepages": 4}


def test_a_known_field_written_with_its_default_is_not_unknown() -> None:
    document = json.loads(encode(taskgroup())) | {"message": "", "restarts": 0}
    assert read(taskgroup(), document) == taskgroup()


def test_an_older_schema_becomes_ours() -> None:
    document = json.loads(encode(taskgroup())) | {"schema": 0}
    assert read(taskgroup(), document).schema == SCHEMA


@pytest.mark.parametrize(
    ("kind", "data", "told"),
    [
        ("taskgroup", b'{"id":"x","namespace":"n","application":"a","index":"0","version":"1"}', "$.index"),
        ("application", b'{"namespace":"n","name":"x","status":"Dancing"}', "$.status"),
        ("application", b'{"namespace":"n","na', "truncated"),
        ("application", b"[1]", "array"),
        ("application", b"", "truncated"),
        ("application", b"\xff\xfe", "malformed"),
        ("application", b'{"namespace":"n","name":"y"}', "'n/y'"),
        ("application", b'{"namespace":"n","name":"x","later":' + b"[" * 100_000, "recursion"),
        ("gadget", b"{}", "unknown kind 'gadget'"),
    ],
)
def test_a_broken_record_is_quarantined_with_the_reason(kind: str, data: bytes, told: str) -> None:
    result = decode(Stored(kind, "n/x", data))
    assert isinstance(result, Quarantined)
    assert (result.kind, result.key) == (kind, "n/x")
    assert told in result.error


def test_a_broken_record_does_not_stop_the_others() -> None:
    good = taskgroup()
    loaded = decode_all([Stored("taskgroup", "bad", b"{}"), Stored(good.kind, good.key, encode(good))])
    assert loaded.records == [good]
    assert [item.key for item in loaded.quarantined] == ["bad"]


def test_one_record_beyond_the_limit_is_named() -> None:
    small, large = taskgroup(), taskgroup(id="large", message="x" * 5000)
    with pytest.raises(RecordTooLarge, match="taskgroup large has 5") as caught:
        encode_changes([Change(r.kind, r.key, r) for r in (small, large)], limit=4000)
    assert caught.value.limit == 4000
    assert not isinstance(caught.value, BatchTooLarge)


def test_many_records_beyond_the_limit_name_the_largest() -> None:
    records = [taskgroup(id=f"g{i}", message="x" * i) for i in range(100)]
    with pytest.raises(BatchTooLarge, match=r"100 changes have .* the largest is taskgroup g99") as caught:
        encode_changes([Change(r.kind, r.key, r) for r in records], limit=4000)
    assert caught.value.size == sum(
        size_of(c) for c in encode_changes([Change(r.kind, r.key, r) for r in records], 10**6)
    )


def test_events_with_more_than_we_know_are_read_and_keep_it() -> None:
    """Events are stored as lists: a newer layout adds to their ends."""
    event = [7, 2.0, "application", "shop/web", "shop", "Created", "by ann", "info", "t1", "c1"]
    event += ["10.0.0.1", {"new": 1}, "newer"]
    document = {"schema": 2, "number": 7, "events": [event, event[:11]], "also": True}
    record = decode(Stored("journal", f"{7:020d}", json.dumps(document).encode()))
    assert isinstance(record, EventLog) and record.events[0].cause == "c1"
    assert json.loads(encode(record)) == document
    older = decode(Stored("journal", f"{7:020d}", json.dumps({**document, "events": [event[:10]]}).encode()))
    assert isinstance(older, EventLog) and older.events[0].agent == ""
    longer = msgspec.structs.replace(record, events=(*record.events, record.events[1]))
    assert json.loads(encode(longer)) == {**document, "events": [event, event[:11], event[:11]]}
