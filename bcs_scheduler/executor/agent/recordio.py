"""RecordIO, the framing of the agent's event stream: decimal length, newline, that many bytes
(https://mesos.apache.org/documentation/latest/recordio/)."""

from __future__ import annotations

MAX_RECORD = 64 * 1024 * 1024
"""Bytes. Launch data with files inside are the longest records; a longer one means a broken stream."""
MAX_DIGITS = 12


class FramingError(Exception):
    """The stream cannot be cut into records any more."""


class Decoder:
    """Cuts a stream that arrives in pieces of any size into records."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._length = -1
        """Bytes of the record that is being collected; -1 = its length has not arrived completely."""

    def feed(self, piece: bytes) -> list[bytes]:
        """The records completed by `piece`, in order. Raises FramingError; the decoder is useless after that."""
        self._buffer += piece
        records = []
        while self._header() and len(self._buffer) >= self._length:
            records.append(bytes(self._buffer[: self._length]))
            del self._buffer[: self._length]
            self._length = -1
        return records

    def _header(self) -> bool:
        """Takes the length off the front, if it is there. True when the length of the next record is known."""
        if self._length >= 0:
            return True
        newline = self._buffer.find(b"\n", 0, MAX_DIGITS + 1)
        if newline < 0:
            if len(self._buffer) > MAX_DIGITS:
                raise FramingError("a record length is missing")
            return False
        digits = bytes(self._buffer[:newline])
        if not digits.isdigit() or int(digits) > MAX_RECORD:
            raise FramingError(f"not a record length: {digits!r}")
        del self._buffer[: newline + 1]
        self._length = int(digits)
        return True
