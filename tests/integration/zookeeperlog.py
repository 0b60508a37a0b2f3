"""The transaction logs of a ZooKeeper server that is down, to damage them as defects of servers have done.

A log is a header of 16 bytes and entries: checksum (8 bytes), length (4), as many bytes that begin with the id of the
session (8), the number of its request (4) and the id of the transaction (8), and the byte "B". Zeros follow the last
entry.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

_HEADER = 16
_FRAME = struct.Struct(">qi")
_IDS = struct.Struct(">qiq")


def remove_transaction(data: Path, transaction: int) -> bool:
    """Removes a transaction from the logs below a server's data folder; False if no log holds it."""
    found = False
    for log in sorted(data.glob("version-2/log.*")):
        content = log.read_bytes()
        kept = [entry for identity, entry in _entries(content) if identity != transaction]
        shorter = content[:_HEADER] + b"".join(kept)
        if len(kept) < sum(1 for _ in _entries(content)):
            found = True
            log.write_bytes(shorter.ljust(len(content), b"\0"))
    return found


def _entries(content: bytes) -> Iterator[tuple[int, bytes]]:
    position = _HEADER
    while position + _FRAME.size <= len(content):
        _, length = _FRAME.unpack_from(content, position)
        if length <= 0:
            return
        end = position + _FRAME.size + length + 1
        identity = _IDS.unpack_from(content, position + _FRAME.size)[2]
        yield identity, content[position:end]
        position = end
