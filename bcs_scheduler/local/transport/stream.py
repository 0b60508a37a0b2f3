"""The event stream of one subscription: RecordIO in chunks, protobuf or JSON, with heartbeats."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from bcs_scheduler.net import recordio

PROTOBUF = "application/x-protobuf"
JSON = "application/json"


def to_json(message: Message) -> dict[str, Any]:
    """As Mesos writes it: original field names, 64-bit integers as numbers, bytes in base64, enums by name."""
    return {field.name: _json_value(field, value) for field, value in message.ListFields()}


def _json_value(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entry = field.message_type.fields_by_name["value"]
        return {key: _json_one(entry, item) for key, item in value.items()}
    if field.is_repeated:
        return [_json_one(field, item) for item in value]
    return _json_one(field, value)


def _json_one(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return to_json(value)
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return value


def encode(message: Message, content_type: str) -> bytes:
    if content_type == JSON:
        return json.dumps(to_json(message)).encode()
    return message.SerializeToString()


class EventStream:
    """Events sent in one turn of the event loop leave as one chunk. Nothing is sent before `attach`. `heartbeat` is the
    event that is sent every `interval` seconds; the stream of an executor has no id."""

    def __init__(
        self, content_type: str, heartbeat: Message, interval: float, on_lost: Callable[[], None], stream_id: str = ""
    ) -> None:
        self.id = stream_id
        self.id_bytes = stream_id.encode("ascii")
        self._content_type = content_type
        self._heartbeat = heartbeat
        self._interval = interval
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._pending: list[bytes] = []
        self._closing = False
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None

    def head(self) -> bytes:
        stream_id = f"Mesos-Stream-Id: {self.id}\r\n" if self.id else ""
        return (
            f"HTTP/1.1 200 OK\r\nContent-Type: {self._content_type}\r\n{stream_id}Transfer-Encoding: chunked\r\n\r\n"
        ).encode("latin-1")

    def attach(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._flush()

    def lost(self) -> None:
        self._transport = None
        self._stop()
        self._on_lost()

    def send(self, event: Message) -> None:
        if self._closing:
            return
        self._pending.append(recordio.encode(encode(event, self._content_type)))
        if not self._scheduled and self._transport is not None:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    @property
    def backlog(self) -> int:
        """Bytes that the peer has not read, as far as this process knows."""
        return sum(map(len, self._pending)) + (self._transport.get_write_buffer_size() if self._transport else 0)

    def start_heartbeats(self) -> None:
        """From now on one HEARTBEAT per interval, the first at once as a master does."""
        self.send(self._heartbeat)
        self.continue_heartbeats()

    def continue_heartbeats(self) -> None:
        """Likewise, the first after an interval as an agent does."""
        self._timer = asyncio.get_running_loop().call_later(self._interval, self.start_heartbeats)

    def close(self) -> None:
        """Sends the pending data and ends the answer."""
        self._stop()
        if self._transport is not None:
            self._flush()

    def abort(self) -> None:
        """Cuts the connection, as a broken network would."""
        self._pending.clear()
        if self._transport is not None:
            self._transport.abort()

    def _stop(self) -> None:
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()

    def _flush(self) -> None:
        self._scheduled = False
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._pending:
            data = b"".join(self._pending)
            self._pending.clear()
            transport.writelines([b"%x\r\n" % len(data), data, b"\r\n"])
        if self._closing:
            transport.write(b"0\r\n\r\n")
            transport.close()
