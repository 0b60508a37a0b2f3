"""Posts one document over HTTP, bounded in time and size, for admission webhooks and alarms.

The bound on time is on the whole call, from the look-up of the name on: a receiver that sends a byte now and then does
not get more of it. Redirects are not followed. The name is looked up and judged here, and the connection goes to the
judged address: the name is resolved by others, and may mean something else a moment later.

Exception tree:

    PostFailed               no answer that can be used; the message says why, for users
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import httpcore

from bcs_scheduler.net.addresses import is_local
from bcs_scheduler.version import VERSION

AGENT = f"bcs-scheduler/{VERSION}"


class PostFailed(Exception):
    """The receiver could not be asked, or its answer not be read."""


class Answer(NamedTuple):
    status: int
    body: bytes


async def post(
    url: str, document: bytes, headers: Mapping[str, str], *, timeout: float, ca: str, local: bool, limit: int | None
) -> Answer:
    """Posts JSON. `timeout`: seconds for everything; `ca`: certificates (PEM) one of which must have signed the
    receiver's, "" = those the system knows; `local`: loopback and link-local addresses are allowed; `limit`: bytes of
    the answer, None = its status is all that is of interest.

    Raises PostFailed; never takes longer than the time-out.
    """
    head: dict[bytes | str, bytes | str] = {"Content-Type": "application/json", "User-Agent": AGENT}
    head.update(dict(headers))
    try:
        async with asyncio.timeout(timeout):
            return await _post(url, document, head, ca, local, limit)
    except TimeoutError:
        raise PostFailed(f"no answer within {timeout:g} s") from None
    except httpcore.ProtocolError as error:
        raise PostFailed(f"the answer is not HTTP: {_short(error)}") from None
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.UnsupportedProtocol, OSError) as error:
        raise PostFailed(f"cannot be reached: {_short(error)}") from None


async def _post(
    url: str, document: bytes, headers: Mapping[bytes | str, bytes | str], ca: str, local: bool, limit: int | None
) -> Answer:
    async with (
        httpcore.AsyncConnectionPool(
            ssl_context=_trust(ca) if url[:6].lower() == "https:" else None,
            network_backend=_JudgedNetwork(local),
            max_connections=1,
            retries=0,
        ) as pool,
        pool.stream("POST", url, headers=headers, content=document) as response,
    ):
        body = bytearray()
        if limit is None:
            return Answer(response.status, b"")
        async for chunk in response.aiter_stream():
            body += chunk
            if len(body) > limit:
                raise PostFailed(f"the answer exceeds {limit} bytes")
        return Answer(response.status, bytes(body))


@lru_cache(maxsize=64)
def _trust(ca: str) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=ca or None)


class _JudgedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to addresses that were judged, not to names that may mean something else a moment later."""

    def __init__(self, local: bool) -> None:
        self._local = local
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
        allowed = [address for address in addresses if self._local or not is_local(address)]
        if not allowed:
            raise PostFailed(f"{host} is {addresses[0]}, a local address, which webhooks.local does not allow")
        failure: Exception = OSError("no address")
        for address in allowed:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore.ConnectError as error:
                failure = error
        raise failure


def _short(error: Exception) -> str:
    """The innermost reason in words."""
    seen: BaseException = error
    while seen.__cause__ is not None or seen.__context__ is not None:
        inner = seen.__cause__ or seen.__context__
        assert inner is not None
        seen = inner
    text = str(seen) or str(error) or type(error).__name__
    return text[:200]
