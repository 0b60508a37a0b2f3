"""RecordIO, the framing of Mesos event streams: decimal length, newline, that many bytes
(https://mesos.apache.org/documentation/latest/recordio/)."""

from __future__ import annotations

MAX_RECORD = 256 * 1024 * 1024
"""Bytes. Far above any real event (offers of 10,000 agents are some 20 MB); a longer one means a broken stream."""
MAX_DIGITS = 20


class FramingError(Exception):
    """A stream is not well-formed. Nothing after the fault can be trusted."""


def encode(record: bytes) -> bytes:
    return b"%d\n%b" % (len(record), record)


class Decoder:
    """Cuts a stream that arrives in arbitrary pieces into records."""

    def __init__(self, max_record: int = MAX_RECORD) -> None:
        self._max_record = max_record
        self._rest = bytearray()
        self._missing = 0
        """Bytes that must arrive before the record at the front can be complete: spares rescanning a long one."""

    def feed(self, data: bytes) -> list[bytes]:
        """The records completed by `data`, in order. Raises FramingError; the decoder is useless after that."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._missing:
                return []
            data = bytes(self._rest)
        records, end = self._cut(data)
        self._rest = bytearray(data[end:])
        return records

    def finish(self) -> None:
        """The stream has ended; raises FramingError if it ended inside a record."""
        if self._rest:
            raise FramingError(f"the stream ended inside a record, {len(self._rest)} bytes in")

    def _cut(self, data: bytes) -> tuple[list[bytes], int]:
        """Complete records of `data`, and where the incomplete rest begins."""
        records = []
        start = 0
        self._missing = 0
        while start < len(data):
            newline = data.find(b"\n", start, start + MAX_DIGITS + 1)
            if newline < 0:
                if len(data) - start > MAX_DIGITS:
                    raise FramingError("a record length is missing")
                break
            begin = newline + 1
            end = begin + self._length(data[start:newline])
            if end > len(data):
                self._missing = end - start
                break
            records.append(data[begin:end])
            start = end
        return records, start

    def _length(self, digits: bytes) -> int:
        if not digits.isdigit():
            raise FramingError(f"record length is not a number: {digits!r}")
        length = int(digits)
        if length > self._max_record:
            raise FramingError(f"record of {length} bytes exceeds the limit of {self._max_record}")
        return length
