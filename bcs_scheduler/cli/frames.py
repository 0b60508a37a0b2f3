"""Reading server-sent events (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import requests

from bcs_scheduler.cli.errors import Unreachable


class Frame(NamedTuple):
    """One event with its data; a heartbeat has neither. `identity` is what the stream is resumed with; a heartbeat may
    have one too."""

    event: str = ""
    data: Any = None
    identity: str = ""


def read_frames(response: requests.Response) -> Iterator[Frame]:
    """The frames of a stream as they come, until it ends. Raises Unreachable when it breaks off, or when even the
    heartbeats are missing."""
    rest = b""
    try:
        for piece in response.iter_content(chunk_size=None):
            *blocks, rest = (rest + piece).split(b"\n\n")
            for block in blocks:
                yield _parsed(block.decode())
    except (requests.RequestException, OSError) as error:
        raise Unreachable(f"the stream broke off: {error}") from None
    finally:
        response.close()


def _parsed(block: str) -> Frame:
    fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
    if "data" not in fields:
        return Frame(identity=fields.get("id", ""))
    return Frame(fields.get("event", "message"), json.loads(fields["data"]), fields.get("id", ""))
