"""Additions to kazoo for speed: multi requests that are cheap to build and to answer, and multi reads.

The formats are ZooKeeper's jute messages (zookeeper.jute, MultiHeader, CreateRequest, SetDataRequest, DeleteRequest,
CheckVersionRequest, GetDataRequest, GetChildrenRequest). Operation codes: org.apache.zookeeper.ZooDefs.OpCode. The
request classes follow the interface that kazoo's connection expects of its own: `type`, `serialize()`,
`deserialize(buffer, offset)`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

_CREATE, _DELETE, _GET_DATA, _SET_DATA, _GET_CHILDREN, _CHECK, _MULTI, _MULTI_READ = 1, 2, 4, 5, 8, 13, 14, 22
_EPHEMERAL = 1

OK = 0
NO_NODE = -101
BAD_VERSION = -103
NODE_EXISTS = -110

_INT = struct.Struct("!i")
_HEADER = struct.Struct("!i?i")
_STAT_SIZE = 68
_END = _HEADER.pack(-1, True, -1)
_ANY_VERSION = -1


def _text(value: str) -> bytes:
    return _blob(value.encode())


def _blob(value: bytes) -> bytes:
    return _INT.pack(len(value)) + value


OPEN_ACL = _INT.pack(1) + _INT.pack(31) + _text("world") + _text("anyone")
CREATOR_ACL = _INT.pack(1) + _INT.pack(31) + _text("auth") + _text("")
"""All rights for the identity with which the session has authenticated, none for others; ZooKeeper refuses it for a
session without identity."""


# --- operations of a multi ----------------------------------------------------------------------------------------


def create(path: str, data: bytes, ephemeral: bool = False, acl: bytes = OPEN_ACL) -> bytes:
    """Encoded create operation of a multi."""
    flags = _INT.pack(_EPHEMERAL if ephemeral else 0)
    return _HEADER.pack(_CREATE, False, -1) + _text(path) + _blob(data) + acl + flags


def set_data(path: str, data: bytes, version: int = _ANY_VERSION) -> bytes:
    """Encoded set operation of a multi. It fails if the node has another `version`; -1 = any."""
    return _HEADER.pack(_SET_DATA, False, -1) + _text(path) + _blob(data) + _INT.pack(version)


def delete(path: str, version: int = _ANY_VERSION) -> bytes:
    """Encoded delete operation of a multi. It fails if the node has another `version`; -1 = any."""
    return _HEADER.pack(_DELETE, False, -1) + _text(path) + _INT.pack(version)


def check(path: str, version: int = _ANY_VERSION) -> bytes:
    """Fails the multi unless the node exists and has this version."""
    return _HEADER.pack(_CHECK, False, -1) + _text(path) + _INT.pack(version)


class MultiFailed(NamedTuple):
    """A multi was refused, so none of its operations was applied: the position and the error code of the operation that
    failed."""

    position: int
    code: int


class Multi:
    """All of the operations or none. Answered with [] or [MultiFailed]."""

    type: ClassVar[int] = _MULTI

    def __init__(self, operations: Sequence[bytes]) -> None:
        self._body = b"".join(operations) + _END

    def serialize(self) -> bytes:
        """The body of the request, as kazoo asks for it."""
        return self._body

    def deserialize(self, buffer: bytes, offset: int) -> list[MultiFailed]:
        """A failed multi is answered by one error for each operation; only the first other than OK says why."""
        codes: list[int] = []
        kind, done, code = _HEADER.unpack_from(buffer, offset)
        while kind == -1 and not done:
            offset += _HEADER.size + _INT.size
            codes.append(code)
            kind, done, code = _HEADER.unpack_from(buffer, offset)
        return [MultiFailed(position, code) for position, code in enumerate(codes) if code != OK][:1]


class _MultiRead:
    """One kind of read on many nodes in one request (ZooKeeper 3.6 and newer)."""

    type: ClassVar[int] = _MULTI_READ
    operation: ClassVar[int]

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytes:
        header = _HEADER.pack(self.operation, False, -1)
        return b"".join(header + _text(path) + b"\0" for path in self._paths) + _END

    def deserialize(self, buffer: bytes, offset: int) -> list[Any]:
        """One result per path, None for a node that is gone; raises ValueError if one cannot be read otherwise."""
        found: list[Any] = []
        while True:
            kind, done, code = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if done:
                return found
            if kind != -1:
                result, offset = self._result(buffer, offset)
                found.append(result)
            elif code == NO_NODE:
                found.append(None)
                offset += _INT.size
            else:
                raise ValueError(f"{self._paths[len(found)]} cannot be read: ZooKeeper error {code}")

    def _result(self, buffer: bytes, offset: int) -> tuple[Any, int]:
        raise NotImplementedError


class ReadNodes(_MultiRead):
    """The data of nodes: bytes each."""

    operation = _GET_DATA

    def _result(self, buffer: bytes, offset: int) -> tuple[bytes, int]:
        data, offset = _read_blob(buffer, offset)
        return data, offset + _STAT_SIZE


class ListNodes(_MultiRead):
    """The children of nodes: a list of names each."""

    operation = _GET_CHILDREN

    def _result(self, buffer: bytes, offset: int) -> tuple[list[str], int]:
        count = _INT.unpack_from(buffer, offset)[0]
        offset += _INT.size
        names: list[str] = []
        for _ in range(count):
            name, offset = _read_blob(buffer, offset)
            names.append(name.decode())
        return names, offset


def _read_blob(buffer: bytes, offset: int) -> tuple[bytes, int]:
    offset += _INT.size
    end = offset + max(0, _INT.unpack_from(buffer, offset - _INT.size)[0])
    return bytes(buffer[offset:end]), end
