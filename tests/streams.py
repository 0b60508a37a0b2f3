"""A reader of server-sent events for tests."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import msgspec
import requests

TIMEOUT = 30.0


class Reader:
    """Reads server-sent events in a thread of its own, as they come."""

    def __init__(self, url: str, **more: Any) -> None:
        self.answer = requests.get(url, stream=True, timeout=TIMEOUT, **more)
        self.lines: list[str] = []
        self.ended = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(requests.RequestException, OSError, ValueError, AttributeError):  # closed meanwhile
            for line in self.answer.iter_lines(chunk_size=1, decode_unicode=True):
                self.lines.append(line)
            self.ended.set()

    def data(self, event: str) -> list[Any]:
        """Data of the frames of this event so far."""
        pairs = zip(self.lines, self.lines[1:], strict=False)
        return [msgspec.json.decode(b.removeprefix("data: ")) for a, b in pairs if a == f"event: {event}"]
