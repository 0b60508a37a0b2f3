"""store.zookeeper.tree and zookeeper_wire: node names, and answers to multi requests."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.zookeeper.tree import Address, Tree, escape, unescape
from store.zookeeper.wire import BAD_VERSION, ListNodes, Multi, MultiFailed, ReadNodes


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_key_has_a_legal_node_name_that_leads_back(key: str) -> None:
    name = escape(key)
    assert unescape(name) == key
    assert name not in ("", ".", "..")
    assert name.isascii() and name.isprintable() and "/" not in name


def test_records_are_spread_over_buckets() -> None:
    tree = Tree("/bcs")
    paths = {tree.record(Address("taskgroup", f"{i}.web")).rpartition("/")[0] for i in range(5000)}
    assert len(paths) == 256
    assert tree.record(Address("version", "ns/web/1")).endswith("/ns%2Fweb%2F1")


def header(kind: int, done: bool = False, code: int = 0) -> bytes:
    return struct.pack("!i?i", kind, done, code)


def test_a_multi_says_which_operation_failed() -> None:
    codes = (0, BAD_VERSION, -2)  # -2: behind the one that failed
    failed = b"".join(header(-1, code=code) + struct.pack("!i", code) for code in codes) + header(-1, True, -1)
    assert Multi([]).deserialize(b"abc" + failed, 3) == [MultiFailed(1, BAD_VERSION)]


def test_a_multi_that_was_applied_says_nothing() -> None:
    applied = header(5) + bytes(68) + header(2) + header(-1, True, -1)
    assert Multi([]).deserialize(applied, 0) == []


def test_multi_reads_tell_what_is_gone() -> None:
    gone = header(-1, code=-101) + struct.pack("!i", -101)
    data = header(4) + struct.pack("!i", 3) + b"xyz" + bytes(68)
    empty = header(4) + struct.pack("!i", -1) + bytes(68)
    end = header(-1, True, -1)
    assert ReadNodes(["/a", "/b", "/c"]).deserialize(data + gone + empty + end, 0) == [b"xyz", None, b""]
    names = header(8) + struct.pack("!ii1si1s", 2, 1, b"p", 1, b"q")
    assert ListNodes(["/a", "/b"]).deserialize(names + gone + end, 0) == [["p", "q"], None]


def test_a_multi_read_that_is_refused_names_the_node() -> None:
    refused = header(-1, code=-102) + struct.pack("!i", -102) + header(-1, True, -1)
    with pytest.raises(ValueError, match=r"/a cannot be read: ZooKeeper error -102"):
        ReadNodes(["/a"]).deserialize(refused, 0)
