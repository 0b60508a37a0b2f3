"""One probe: a connection, and for HTTP a GET over it. A probe opens a connection of its own, as clients would."""

from __future__ import annotations

import asyncio
import os
import ssl
from functools import lru_cache
from typing import NamedTuple, cast
from urllib.parse import quote

import httptools

from bcs_scheduler.prober.targets import Aim

LARGEST_BODY = 64 * 1024
"""Bytes of an answer that are read before the connection is closed over its rest: a server is let finish what it says,
within reason, because many log a client that goes away early."""
HEALTHY = range(200, 400)
"""Statuses that count as healthy (bcs_api 6.8); redirects are not followed."""
LEAST_TIMEOUT = 0.1


class Verdict(NamedTuple):
    """`message` says the same for the same trouble: only changes are reported."""

    healthy: bool
    message: str = ""
    timed_out: bool = False


async def probe(aim: Aim) -> Verdict:
    """Takes `aim.timeout` seconds at most."""
    if aim.refused:
        return Verdict(False, aim.refused)
    answer = _Answer(aim)
    timeout = max(LEAST_TIMEOUT, aim.timeout)
    try:
        async with asyncio.timeout(timeout):
            await _connect(aim, answer)
            return await answer.verdict
    except TimeoutError:
        return answer.known() or Verdict(False, f"timed out after {timeout:g} s", timed_out=True)
    except OSError as error:
        return Verdict(False, _words(error))
    finally:
        answer.close()


async def _connect(aim: Aim, answer: _Answer) -> None:
    loop = asyncio.get_running_loop()
    secure = _context() if aim.type == "REMOTE_HTTP" and aim.scheme == "https" else None
    await loop.create_connection(lambda: answer, aim.host, aim.port, ssl=secure)


class _Answer(asyncio.Protocol):
    def __init__(self, aim: Aim) -> None:
        self._aim = aim
        self.verdict: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self) if aim.type == "REMOTE_HTTP" else None
        self._status = 0
        self._read = 0

    def known(self) -> Verdict | None:
        """What the status says, as soon as it has come; the body adds nothing to it."""
        return Verdict(self._status in HEALTHY, str(self._status)) if self._status else None

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _settle(self, verdict: Verdict) -> None:
        if not self.verdict.done():
            self.verdict.set_result(verdict)

    # --- asyncio ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._parser is None:
            self._settle(Verdict(True, "connected"))
        else:
            self._transport.write(_request(self._aim))

    def data_received(self, data: bytes) -> None:
        self._read += len(data)
        if self._parser is None:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._settle(self.known() or Verdict(False, "the answer is not HTTP"))
        if self._read > LARGEST_BODY:
            self._settle(self.known() or Verdict(False, "the answer has no end of its head"))

    def connection_lost(self, error: Exception | None) -> None:
        self._settle(self.known() or Verdict(False, "the connection was closed without an answer"))

    # --- httptools --------------------------------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        status = cast(httptools.HttpResponseParser, self._parser).get_status_code()
        if status >= 200:  # others announce the answer proper
            self._status = status

    def on_message_complete(self) -> None:
        found = self.known()
        if found is not None:
            self._settle(found)


@lru_cache(maxsize=4096)
def _request(aim: Aim) -> bytes:
    host = f"[{aim.host}]" if ":" in aim.host else aim.host
    head = {"Host": f"{host}:{aim.port}", "User-Agent": "bcs-scheduler", "Accept": "*/*", **dict(aim.headers)}
    path = quote(aim.path if aim.path.startswith("/") else f"/{aim.path}", safe="/?&=%:@!$'()*+,;~-._")
    lines = [f"GET {path} HTTP/1.1", *(f"{_plain(name)}: {_plain(value)}" for name, value in head.items())]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1", "replace")


def _plain(text: str) -> str:
    """Within one line: what follows a line end would be a header or a request of its own."""
    return "".join(c for c in text if c.isprintable() or c == "\t")


@lru_cache(maxsize=1)
def _context() -> ssl.SSLContext:
    """Without verification: targets are addresses, which certificates rarely name, and nothing secret is asked for."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _words(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or 'handshake failed'}"
    return os.strerror(error.errno).lower() if error.errno and error.errno > 0 else "no connection"
