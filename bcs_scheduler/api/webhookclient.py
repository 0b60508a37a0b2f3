"""Asks one webhook over HTTP: bounded in time and size, no redirects, and only where webhooks may be.

A webhook is named by whoever administers the scheduler, but its name is resolved by others. So the address is looked up
and judged here, and the connection goes to the judged address: what means this machine or only this link (where
metadata services of clouds answer) is refused unless the settings allow it.

Exception tree:

    HookFailed               no answer that can be used; the message says why, for users
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import httpcore

from bcs_scheduler.version import VERSION
from store.records import Hook

AGENT = f"bcs-scheduler/{VERSION}"


class HookFailed(Exception):
    """The webhook could not be asked, or its answer not be read."""


class HookAnswer(NamedTuple):
    status: int
    body: bytes


async def ask(hook: Hook, document: bytes, headers: Mapping[str, str], *, local: bool, limit: int) -> HookAnswer:
    """Posts the document. `local`: loopback and link-local addresses are allowed; `limit`: bytes of the answer.

    Raises HookFailed; never takes longer than the hook's time-out.
    """
    head: dict[bytes | str, bytes | str] = {"Content-Type": "application/json", "User-Agent": AGENT}
    head.update(dict(headers))
    try:
        async with asyncio.timeout(hook.timeout):
            return await _post(hook, document, head, local, limit)
    except TimeoutError:
        raise HookFailed(f"no answer within {hook.timeout:g} s") from None
    except httpcore.ProtocolError as error:
        raise HookFailed(f"the answer is not HTTP: {_short(error)}") from None
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.UnsupportedProtocol, OSError) as error:
        raise HookFailed(f"cannot be reached: {_short(error)}") from None


async def _post(
    hook: Hook, document: bytes, headers: Mapping[bytes | str, bytes | str], local: bool, limit: int
) -> HookAnswer:
    async with (
        httpcore.AsyncConnectionPool(
            ssl_context=_trust(hook.ca) if hook.url[:6].lower() == "https:" else None,
            network_backend=_JudgedNetwork(local),
            max_connections=1,
            retries=0,
        ) as pool,
        pool.stream("POST", hook.url, headers=headers, content=document) as response,
    ):
        body = bytearray()
        async for chunk in response.aiter_stream():
            body += chunk
            if len(body) > limit:
                raise HookFailed(f"the answer exceeds {limit} bytes")
        return HookAnswer(response.status, bytes(body))


@lru_cache(maxsize=64)
def _trust(ca: str) -> ssl.SSLContext:
    """Certificates must be signed by the webhook's own authority, or without one by those the system knows."""
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
            raise HookFailed(f"{host} is {addresses[0]}, a local address, which webhooks.local does not allow")
        failure: Exception = OSError("no address")
        for address in allowed:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore.ConnectError as error:
                failure = error
        raise failure


def is_local(address: str) -> bool:
    """It means this machine, this link, or no single host."""
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None)
    if mapped is not None:
        found = mapped
    return found.is_loopback or found.is_link_local or found.is_unspecified or found.is_multicast


def _short(error: Exception) -> str:
    """The innermost reason in words."""
    seen: BaseException = error
    while seen.__cause__ is not None or seen.__context__ is not None:
        inner = seen.__cause__ or seen.__context__
        assert inner is not None
        seen = inner
    text = str(seen) or str(error) or type(error).__name__
    return text[:200]
