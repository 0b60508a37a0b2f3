"""Decoding of server-sent events (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from bcs_scheduler.cli.client.connections import FAILURES, Answer
from bcs_scheduler.cli.errors import Unreachable


class Frame(NamedTuple):
    """One event with its data. A heartbeat has neither. `identity`: position from which the stream can be resumed."""

    event: str = ""
    data: Any = None
    identity: str = ""


def read_frames(response: Answer) -> Iterator[Frame]:
    """Frames of a stream, until the stream ends. Raises Unreachable when the connection breaks, or when no heartbeat
    arrives in time."""
    rest = b""
    try:
        for piece in response.stream():
            *blocks, rest = (rest + piece).split(b"\n\n")
            for block in blocks:
                yield _parsed(block.decode())
    except FAILURES as error:
        raise Unreachable(f"the stream was interrupted: {error}") from None
    finally:
        response.close()


def _parsed(block: str) -> Frame:
    fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
    if "data" not in fields:
        return Frame(identity=fields.get("id", ""))
    return Frame(fields.get("event", "message"), json.loads(fields["data"]), fields.get("id", ""))
