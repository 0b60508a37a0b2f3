"""executor.agent.recordio: frames of the event stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcs_scheduler.executor.agent.recordio import Decoder, FramingError


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 9), min_size=1))
def test_records_come_out_whole_however_the_stream_is_cut(records: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(b"%d\n%b" % (len(record), record) for record in records)
    decoder, found, index = Decoder(), [], 0
    while stream:
        size = sizes[index % len(sizes)]
        found += decoder.feed(stream[:size])
        stream, index = stream[size:], index + 1
    assert found == records


@pytest.mark.parametrize("stream", [b"x\n", b"-1\n", b"\n", b"1" * 20, b"99999999999\n"])
def test_what_is_no_length_is_refused(stream: bytes) -> None:
    with pytest.raises(FramingError):
        Decoder().feed(stream)
