"""One question to a master over a connection of its own, for the few questions beside the calls of the scheduler.

The library of Python is enough for them: another HTTP client would be a tenth of the start of the program.
"""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from typing import NamedTuple

from bcs_scheduler.mesos.errors import ConnectionBroken
from bcs_scheduler.mesos.transport.http import Master

LARGEST_REASON = 2000
"""Bytes of an answer that become part of an error."""


class Answer(NamedTuple):
    """The answer to one question."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def reason(self) -> str:
        """The begin of the body, for errors."""
        return self.body[:LARGEST_REASON].decode("utf-8", "replace")


def ask(master: Master, path: str, headers: Mapping[str, str], *, timeout: float, body: bytes | None = None) -> Answer:
    """GET, or POST of `body` if it is not None. Empty headers are left out; redirects are not followed; no proxy is
    used. `timeout`: seconds for the connection, and again for each part of the answer. Raises ConnectionBroken."""
    present = {name: value for name, value in headers.items() if value}
    connection = http.client.HTTPConnection(master.host, master.port, timeout=timeout)
    try:
        connection.request("GET" if body is None else "POST", path, body, present)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ConnectionBroken(f"{master.url}{path}: {error or type(error).__name__}") from error
    finally:
        connection.close()
