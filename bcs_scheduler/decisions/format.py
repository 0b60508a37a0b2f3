"""The file format of the decision log (pure): frames with a length and a checksum.

A file begins with `MAGIC`, which ends with the version of the format. Frames follow: length and CRC-32 of the payload
as unsigned 32-bit numbers in network order, then the payload, a message in MessagePack compressed by zlib.
A file whose last frame is not complete has a torn tail: the process or its host ended during a write.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

VERSION = 1
MAGIC = b"BCSDLOG" + bytes((VERSION,))
LARGEST = 1 << 30
"""Bytes of a payload, compressed or not: a greater length is damage."""
_HEAD = struct.Struct(">II")
_LEVEL = 1
"""Level of zlib: a higher level takes several times as long and saves little."""


class DamagedLog(ValueError):
    """A file is no decision log, or a frame in the middle of a file is damaged. The message names file and place."""


class Begin(msgspec.Struct, frozen=True, kw_only=True, tag="begin", array_like=True):
    """The start of a term. `wall`, `elapsed`, `unreadable`: arguments of the core; `unreadable` as (kind, key, fault).
    `limit`: bytes of a batch of the store; `sealed`: the store encrypts. `settings`: the settings that determine the
    options of the core; `policy`: text of scheduler.policy_file or, with all documents,
    of scheduler.policies_file. `program`: version of the program."""

    epoch: int
    program: str
    wall: float
    elapsed: float | None
    unreadable: tuple[tuple[str, str, str], ...] = ()
    limit: int
    sealed: bool
    settings: dict[str, object] = {}
    policy: str = ""


class Records(msgspec.Struct, frozen=True, tag="records", array_like=True):
    """Stored records at the start of the term, in their order: kind, key and JSON, or the reason why the record was
    left out (`content.fault_of`)."""

    records: tuple[tuple[str, str, bytes], ...]


class Turn(msgspec.Struct, frozen=True, kw_only=True, tag="turn", array_like=True):
    """One turn of the core. `inputs`: class and fields of each input. `spent`, `congested`, `clock`: the answers that
    the time budget of the turn and the clock of sessions gave, in order. `decisions`: see `content.decided`."""

    number: int
    now: float
    inputs: tuple[tuple[str, bytes], ...] = ()
    spent: tuple[float, ...] = ()
    congested: tuple[bool, ...] = ()
    clock: tuple[float, ...] = ()
    decisions: tuple[bytes, ...] = ()


class Lost(msgspec.Struct, frozen=True, tag="lost", array_like=True):
    """Turns that are missing here. `reason`: a sentence without a full stop."""

    turns: int
    reason: str


class Continued(msgspec.Struct, frozen=True, tag="continued", array_like=True):
    """The first frame of a further file of a term. `part`: number of the file, from 1."""

    epoch: int
    part: int


class Full(msgspec.Struct, frozen=True, tag="full", array_like=True):
    """The files of this term have reached their bound: later turns of the term are not recorded."""


Frame = Begin | Records | Turn | Lost | Continued | Full
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


def encoded(frame: Frame) -> bytes:
    """Returns the bytes of a frame."""
    payload = zlib.compress(_ENCODER.encode(frame), _LEVEL)
    return _HEAD.pack(len(payload), zlib.crc32(payload)) + payload


def frames(file: BinaryIO, name: str) -> Iterator[Frame | int]:
    """Yields the frames of a file. The bytes of a torn tail come last, as a number. Raises DamagedLog."""
    magic = file.read(len(MAGIC))
    if magic[:-1] != MAGIC[:-1]:
        raise DamagedLog(f"{name}: not a decision log")
    if magic != MAGIC:
        raise DamagedLog(f"{name}: format version {magic[-1]}, this program reads version {VERSION}")
    while True:
        place = file.tell()
        head = file.read(_HEAD.size)
        if not head:
            return
        if len(head) < _HEAD.size:
            yield len(head)
            return
        length, checksum = _HEAD.unpack(head)
        payload = file.read(length) if length <= LARGEST else b""
        whole = len(payload) == length and zlib.crc32(payload) == checksum
        if not whole and not file.read(1):
            file.seek(0, 2)
            yield file.tell() - place
            return
        if not whole:
            raise DamagedLog(f"{name}: the frame at byte {place} is damaged, and others follow")
        try:
            yield _DECODER.decode(zlib.decompress(payload))
        except (zlib.error, msgspec.MsgspecError) as error:
            raise DamagedLog(f"{name}: the frame at byte {place} cannot be read: {error}") from None
