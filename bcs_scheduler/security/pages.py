"""Requests that pages in browsers send to servers that trust callers because of their address.

Such a server trusts every page that a browser shows on a machine that it trusts. So a page of another site must not
reach it: neither from its own site (header Origin) nor under a name of that site that leads to the address of the
server (header Host).
"""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit

from bcs_scheduler.net.addresses import HostPort

SHOWN = 80
"""Characters of a header in a message."""


def names_of(listen: HostPort, *others: str) -> frozenset[str] | None:
    """Names in the header Host of requests that are meant for a server on loopback; None = any: others than this
    machine reach the server, under names that it does not know."""
    return frozenset({"localhost", listen.host, *others}) if listen.loopback else None


def same_site(origin: str, host: str) -> bool:
    """True if the page of a header Origin is of the site of the header Host."""
    return bool(host) and _parts(origin).netloc == host


def refusal(host: str | None, origin: str | None, names: frozenset[str] | None) -> str:
    """Reason why a request without a token is refused; empty = the request is not from a page of another site.

    `host`, `origin`: values of the headers, None = the header is missing. `names`: as of `names_of`; addresses are
    always meant for the server.
    """
    if names is not None and host is not None:
        name = _parts(f"//{host}").hostname or ""
        if name not in names and not _is_address(name):
            return f"without a token, the header Host must be an address of this server, not {name[:SHOWN]!r}"
    if origin is not None and not same_site(origin, host or ""):
        return f"without a token, requests from pages of {origin[:SHOWN]!r} are refused"
    return ""


def _parts(url: str) -> SplitResult:
    """Splits the URL of a header; the result is empty for a header that is no URL."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
