"""The exchange of `http_post`. The name is looked up and judged here, and the connection goes to the judged address:
the name is resolved by others, and may mean something else a moment later."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import httpcore

from bcs_scheduler.net.addresses import is_local
from bcs_scheduler.net.http_post import Answer, PostFailed


async def exchange(
    url: str, document: bytes, headers: Mapping[bytes | str, bytes | str], ca: str, local: bool, limit: int | None
) -> Answer:
    """Posts once, without a bound on time; the arguments are those of `post`. Raises PostFailed, and the errors of
    httpcore and of the look-up."""
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
