"""One probe: a connection, and for HTTP a GET over it. A probe opens a connection of its own, as clients would."""

from __future__ import annotations

import asyncio
import os
import ssl
from functools import lru_cache
from typing import NamedTuple, cast
from urllib.parse import quote

import httptools

from bcs_scheduler.prober.targets import ProbeTarget

LARGEST_BODY = 64 * 1024
"""The most bytes of an answer that are read before the connection is closed. Shorter answers are read to their end,
because many servers log a client that closes the connection early."""
HEALTHY = range(200, 400)
"""Statuses that count as healthy (docs/original.md#health-checks); redirects are not followed."""
LEAST_TIMEOUT = 0.1


class Verdict(NamedTuple):
    """`message` is the same text for the same problem, because only changes are reported."""

    healthy: bool
    message: str = ""
    timed_out: bool = False


async def probe(probe_target: ProbeTarget) -> Verdict:
    """Takes `probe_target.timeout` seconds at most."""
    if probe_target.refused:
        return Verdict(False, probe_target.refused)
    answer = _Answer(probe_target)
    timeout = max(LEAST_TIMEOUT, probe_target.timeout)
    try:
        async with asyncio.timeout(timeout):
            await _connect(probe_target, answer)
            return await answer.verdict
    except TimeoutError:
        return answer.known() or Verdict(False, f"timed out after {timeout:g} s", timed_out=True)
    except OSError as error:
        return Verdict(False, _words(error))
    finally:
        answer.close()


async def _connect(probe_target: ProbeTarget, answer: _Answer) -> None:
    loop = asyncio.get_running_loop()
    secure = _context() if probe_target.type == "REMOTE_HTTP" and probe_target.scheme == "https" else None
    await loop.create_connection(lambda: answer, probe_target.host, probe_target.port, ssl=secure)


class _Answer(asyncio.Protocol):
    def __init__(self, probe_target: ProbeTarget) -> None:
        self._probe_target = probe_target
        self.verdict: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self) if probe_target.type == "REMOTE_HTTP" else None
        self._status = 0
        self._read = 0

    def known(self) -> Verdict | None:
        """The verdict by the HTTP status, None before it has come; the body does not matter."""
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
            self._transport.write(_request(self._probe_target))

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
def _request(probe_target: ProbeTarget) -> bytes:
    host = f"[{probe_target.host}]" if ":" in probe_target.host else probe_target.host
    head = {
        "Host": f"{host}:{probe_target.port}",
        "User-Agent": "bcs-scheduler",
        "Accept": "*/*",
        **dict(probe_target.headers),
    }
    path = quote(
        probe_target.path if probe_target.path.startswith("/") else f"/{probe_target.path}", safe="/?&=%:@!$'()*+,;~-._"
    )
    lines = [f"GET {path} HTTP/1.1", *(f"{_plain(name)}: {_plain(value)}" for name, value in head.items())]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1", "replace")


def _plain(text: str) -> str:
    """The text without line ends: text after a line end would be a header or a request of its own."""
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
