"""Records of earlier releases, kept as files in tests/golden/records by release, are read, changed and written by the
present code, and lose nothing. tests/golden/write.py makes the files.

A field or word that is renamed needs code that understands the old one. A test that fails here says that running
clusters would lose records in the upgrade: the files stay as they are, the code is mended."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from store.encoding.codec import Stored, decode, encode
from store.records import KINDS, Record, Transaction
from store.state import State
from tests.golden.write import FOLDER, all_filled, choices_of

RELEASES = sorted(path for path in FOLDER.iterdir() if path.is_dir())
FILES = [file for release in RELEASES for file in sorted(release.glob("*.json")) if file.stem != "choices"]
CHOICES = [
    (release, kind, path)
    for release in RELEASES
    for kind, fields in json.loads((release / "choices.json").read_text()).items()
    for path in fields
]
LOST: dict[tuple[str, str], str] = {}
"""Fields of old records that have gone on purpose, by kind and JSON pointer, and what takes their place."""


def kind_in(file: Path) -> str:
    """Kind of a golden record. Files of transactions may name their kind of transaction, too."""
    return file.stem.partition(".")[0]


def stored_in(file: Path) -> tuple[str, dict[str, Any]]:
    """Key and document of a golden record."""
    key, document = json.loads(file.read_text())
    return key, document


def read(kind: str, key: str, document: Any) -> Record:
    found = decode(Stored(kind, key, json.dumps(document).encode()))
    assert isinstance(found, Record), found
    return found


def leaves(document: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of the document that is neither object nor list, by JSON pointer."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from leaves(value, f"{path}/{name}")
    elif isinstance(document, list):
        for place, value in enumerate(document):
            yield from leaves(value, f"{path}/{place}")
    else:
        yield path, document


def lost(kind: str, before: Any, after: Any) -> dict[str, Any]:
    """Values of `before` that `after` does not have in the same place."""
    there = dict(leaves(after))
    return {p: v for p, v in leaves(before) if (kind, p) not in LOST and (p not in there or there[p] != v)}


def test_every_kind_has_a_file() -> None:
    assert {kind_in(file) for file in FILES} >= set(KINDS), (
        "python -m tests.golden.write VERSION writes the missing ones"
    )


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_record_of_an_earlier_release_is_read_and_written_without_a_loss(file: Path) -> None:
    key, document = stored_in(file)
    record = read(kind_in(file), key, document)
    assert record.key == key
    assert not record.extra, "fields that the present layout does not know"
    assert lost(kind_in(file), document, json.loads(encode(record))) == {}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_change_of_one_field_leaves_the_others(file: Path) -> None:
    key, document = stored_in(file)
    record = read(kind_in(file), key, document)
    fields = [f for f in msgspec.structs.fields(record) if f.name != "schema"]
    texts = [f for f in fields if f.type is str]
    numbers = [f for f in fields if f.type in (int, float)]
    assert texts or numbers
    for field in texts + numbers:
        value = getattr(record, field.name) + ("-later" if field in texts else 1)
        changed = msgspec.structs.replace(record, **{field.name: value})
        after = read(kind_in(file), changed.key, json.loads(encode(changed)))
        assert getattr(after, field.name) == value
        expected = {f"/{field.encode_name}"} if field.encode_name in document else set()
        assert set(lost(kind_in(file), document, json.loads(encode(after)))) == expected


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_a_state_is_made_of_the_records_of_an_earlier_release(release: Path) -> None:
    records = [read(kind_in(file), *stored_in(file)) for file in FILES if file.parent == release]
    state = State(records)
    assert sorted(record.key for record in state.records()) == sorted(record.key for record in records)


@pytest.mark.parametrize(("release", "kind", "path"), CHOICES)
def test_every_word_of_an_earlier_release_is_understood(release: Path, kind: str, path: str) -> None:
    words = json.loads((release / "choices.json").read_text())[kind][path]
    key, document = stored_in(release / f"{kind}.json")
    assert words
    for word in words:
        changed = copy.deepcopy(document)
        if path == "/type":
            changed.pop("payload", None)  # belongs to the present type
        place: Any = changed
        *steps, last = path.strip("/").split("/")
        for step in steps:
            place = place[int(step)] if isinstance(place, list) else place[next(iter(place)) if step == "*" else step]
        if isinstance(place, list):
            place[int(last)] = word
        else:
            place[next(iter(place)) if last == "*" else last] = word
        assert read(kind, key, changed).kind == kind


@pytest.mark.parametrize("record", [record for _, record in all_filled()], ids=[name for name, _ in all_filled()])
def test_the_script_fills_every_field_with_a_value_that_is_written(record: Record) -> None:
    written = json.loads(encode(record))
    fields = [field.encode_name for field in msgspec.structs.fields(record) if field.name != "extra"]
    if isinstance(record, Transaction):
        payload = record.payload.__struct_fields__
        fields = [field for field in fields if field != "payload" or payload]
        assert set(written.get("payload", ())) == {*payload, *(["of"] if payload else [])}
    assert set(written) == set(fields)


@pytest.mark.parametrize("record", [record for _, record in all_filled()], ids=[name for name, _ in all_filled()])
def test_a_record_that_the_script_writes_now_is_read_without_a_loss(record: Record) -> None:
    """Otherwise the records of the next release would not pass the tests above."""
    written = json.loads(encode(record))
    assert read(record.kind, record.key, written) == record
    assert lost(record.kind, written, json.loads(encode(read(record.kind, record.key, written)))) == {}


def test_the_words_of_a_status_are_among_the_choices() -> None:
    words = choices_of(msgspec.inspect.type_info(KINDS["taskgroup"]))
    assert "Running" in words["/status"] and "Running" in words["/tasks/0/status"]
