"""RecordIO: however a stream is cut on its way, the same records come out; nonsense is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcs_scheduler.net.recordio import Decoder, FramingError, encode


@given(st.lists(st.binary(max_size=300), max_size=20), st.data())
def test_records_survive_any_chunking(records: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(encode, records))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=30)))
    decoder = Decoder()
    decoded = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        decoded += decoder.feed(stream[begin:end])
    decoder.finish()
    assert decoded == records


def test_byte_by_byte() -> None:
    decoder = Decoder()
    stream = encode(b"hello") + encode(b"") + encode(b"world")
    assert [record for byte in stream for record in decoder.feed(bytes([byte]))] == [b"hello", b"", b"world"]


@pytest.mark.parametrize("stream", [b"x\n", b"-1\n", b"5.0\nhello", b"\nhello", b" 5\nhello", b"9" * 21])
def test_a_bad_length_is_refused(stream: bytes) -> None:
    with pytest.raises(FramingError):
        Decoder().feed(stream)


def test_records_before_the_fault_are_not_delivered_twice() -> None:
    decoder = Decoder()
    assert decoder.feed(encode(b"good")) == [b"good"]
    with pytest.raises(FramingError):
        decoder.feed(b"bad\n")


def test_a_record_above_the_limit_is_refused_before_it_arrives() -> None:
    with pytest.raises(FramingError, match="exceeds the limit of 10"):
        Decoder(max_record=10).feed(b"11\n")
    assert Decoder(max_record=10).feed(b"10\n0123456789") == [b"0123456789"]


@pytest.mark.parametrize("stream", [b"5", b"5\n", b"5\nhell"])
def test_an_end_inside_a_record_is_an_error(stream: bytes) -> None:
    decoder = Decoder()
    assert decoder.feed(stream) == []
    with pytest.raises(FramingError, match="inside a record"):
        decoder.finish()
