"""Posts one document over HTTP, bounded in time and size, for admission webhooks and alarms.

The bound on time is on the whole call, from the look-up of the name on: a receiver that sends a byte now and then does
not get more of it. Redirects are not followed.

Exception tree:

    PostFailed               no answer that can be used; the message says why, for users
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

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
    # A scheduler without webhooks and alarms starts without the library.
    import httpcore

    from bcs_scheduler.net.judged_http import exchange

    head: dict[bytes | str, bytes | str] = {"Content-Type": "application/json", "User-Agent": AGENT}
    head.update(dict(headers))
    try:
        async with asyncio.timeout(timeout):
            return await exchange(url, document, head, ca, local, limit)
    except TimeoutError:
        raise PostFailed(f"no answer within {timeout:g} s") from None
    except httpcore.ProtocolError as error:
        raise PostFailed(f"the answer is not HTTP: {_short(error)}") from None
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.UnsupportedProtocol, OSError) as error:
        raise PostFailed(f"cannot be reached: {_short(error)}") from None


def _short(error: Exception) -> str:
    """The innermost reason in words."""
    seen: BaseException = error
    while seen.__cause__ is not None or seen.__context__ is not None:
        inner = seen.__cause__ or seen.__context__
        assert inner is not None
        seen = inner
    text = str(seen) or str(error) or type(error).__name__
    return text[:200]
