"""Records at rest: what lies in the store is unreadable without a key, and nothing is lost for want of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.base import Change, Quarantined, RecordUnreadable, Store
from store.encoding.codec import Stored, decode, encode, encode_changes
from store.encoding.seal import OPEN_KINDS, Sealer, Unsealable, is_sealed, key_id, new_key, read_keys
from store.memory import MemoryBackend, MemoryStore
from store.records import KINDS, Command, ConfigMap, Record, Secret
from store.sqlite.store import SqliteStore
from store.state import State
from store.state.unit_of_work import UnitOfWork
from tests.integration.storeplaces import Candidate

CONTENT = "dmVyeS1zZWNyZXQ="
SECRET = Secret(namespace="shop", name="db", items={"password": CONTENT})
OLD, NEW = new_key(), new_key()


def stored(record: Record, sealer: Sealer) -> Stored:
    change = encode_changes([Change(record.kind, record.key, record)], 1_000_000, sealer)[0]
    assert change.data is not None
    return Stored(change.kind, change.key, change.data)


def test_content_is_not_found_in_what_is_stored() -> None:
    lies = stored(SECRET, Sealer([NEW]))
    assert CONTENT.encode() not in lies.data and b"password" not in lies.data and is_sealed(lies.data)
    assert decode(lies, Sealer([NEW])) == SECRET
    assert stored(SECRET, Sealer([NEW])).data != lies.data, "equal secrets must not look equal"
    assert len(lies.data) < len(encode(SECRET)) + 120


def test_every_kind_is_either_sealed_or_known_to_hold_nothing() -> None:
    assert set(KINDS) > OPEN_KINDS
    assert set(KINDS) - OPEN_KINDS == {
        "version", "configmap", "secret", "command", "message", "deployment", "revision", "daemonset", "webhook",
        "customkind", "customobject", "output", "managedtask",
    }  # fmt: skip


def test_without_keys_everything_is_in_clear_and_sealed_at_the_next_write() -> None:
    lies = stored(SECRET, Sealer())
    assert CONTENT.encode() in lies.data
    later = Sealer([NEW])
    assert decode(lies, later) == SECRET and not is_sealed(lies.data)
    assert is_sealed(stored(SECRET, later).data)


def test_rotation_reads_with_all_keys_and_writes_with_the_first() -> None:
    before = stored(SECRET, Sealer([OLD]))
    both = Sealer([NEW, OLD])
    assert decode(before, both) == SECRET and key_id(OLD) in before.data[:40]
    after = stored(SECRET, both)
    assert key_id(NEW) in after.data[:40]
    assert decode(after, Sealer([NEW])) == SECRET
    assert isinstance(decode(after, Sealer([OLD])), Quarantined)


@pytest.mark.parametrize(
    ("spoil", "sealer", "words"),
    [
        (
            lambda data: data,
            Sealer(),
            f"encrypted with key {key_id(NEW).decode()}, which is not in store.secret_key_file",
        ),
        (lambda data: data, Sealer([OLD]), "which is not in store.secret_key_file"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), Sealer([NEW]), "but damaged"),
        (lambda data: data[:40], Sealer([NEW]), "but damaged"),
        (lambda data: b"sealed:2:" + data[9:], Sealer([NEW]), "unknown form of encryption"),
        (lambda data: b"sealed:1:short", Sealer([NEW]), "unknown form of encryption"),
    ],
    ids=["no key", "another key", "a bit", "cut", "version", "short"],  # the key is another in each process
)
def test_what_cannot_be_opened_is_quarantined_and_says_why(
    spoil: Callable[[bytes], bytes], sealer: Sealer, words: str
) -> None:
    lies = stored(SECRET, Sealer([NEW]))
    found = decode(lies._replace(data=spoil(lies.data)), sealer)
    assert isinstance(found, Quarantined) and found.sealed and words in found.error
    assert NEW not in found.error and OLD not in found.error


def test_bytes_of_one_record_are_no_other() -> None:
    """Whoever can write to the store must not make secrets appear elsewhere."""
    sealer = Sealer([NEW])
    lies = stored(SECRET, sealer)
    moved = decode(lies._replace(key="other/db"), sealer)
    assert isinstance(moved, Quarantined) and "its key is" in moved.error
    turned = decode(lies._replace(kind="configmap"), sealer)
    assert isinstance(turned, Quarantined) and "is not a configmap" in turned.error


@given(st.binary(max_size=300), st.sampled_from(sorted(KINDS)))
def test_no_bytes_break_the_load(data: bytes, kind: str) -> None:
    sealer = Sealer([NEW])
    for given_data in (data, b"sealed:1:" + data, b"sealed:1:" + key_id(NEW) + b":" + data):
        try:
            assert sealer.open(kind, given_data) == given_data
        except Unsealable:
            assert is_sealed(given_data)


def test_files_of_keys_may_have_comments_and_bad_keys_are_not_told() -> None:
    assert read_keys(f"# made in May\n\n  {NEW}  \n{OLD}\n") == [NEW, OLD]
    with pytest.raises(ValueError, match="key 2 is invalid") as error:
        Sealer([NEW, "hunter2"])
    assert "hunter2" not in str(error.value)


def memory(folder: Path) -> Callable[[Sealer], Store]:
    backend = MemoryBackend()
    return lambda sealer: MemoryStore(backend, sealer=sealer)


def sqlite(folder: Path) -> Callable[[Sealer], Store]:
    return lambda sealer: SqliteStore(folder / "state.db", sealer=sealer)


@pytest.mark.parametrize("place", [memory, sqlite])
def test_stores_seal_and_open(place: Any, tmp_path: Path) -> None:
    opened = place(tmp_path)
    records = [SECRET, ConfigMap(namespace="shop", name="c"), Command(
        id="c-1", type="env", namespace="shop", application="web", body={"value": CONTENT})]  # fmt: skip
    first = Candidate(opened(Sealer([NEW])))
    epoch = first.wait_elected()
    first.store.commit([Change(r.kind, r.key, r) for r in records], epoch).result(30)
    first.store.close()
    for path in tmp_path.iterdir():
        assert CONTENT.encode() not in path.read_bytes()
    for sealer, readable in ((Sealer([NEW]), 3), (Sealer([OLD]), 0), (Sealer(), 0)):
        store = opened(sealer)
        store.open()
        loaded = store.load()
        assert (len(loaded.records), len(loaded.quarantined)) == (readable, 3 - readable)
        store.close()


def test_what_cannot_be_read_is_not_overwritten() -> None:
    state = State()
    state.unreadable["secret", SECRET.key] = "it is sealed with another key"
    unit = UnitOfWork(state)
    with pytest.raises(RecordUnreadable, match="secret shop/db is stored and cannot be read: it is sealed"):
        unit.put(SECRET)
    assert unit.cut() is None and not state.secrets
    unit.put(Secret(namespace="shop", name="other"))
    assert list(state.secrets) == ["shop/other"]
