"""The addresses and URLs an operator writes, checked before anything is started.

Every function raises ValueError with a message for people; bcs_scheduler.settings.config adds which setting it was.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple
from urllib.parse import urlsplit

MESOS_PORT, ZOOKEEPER_PORT = 5050, 2181
"""Where a URL names none."""
_PRIVATE = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")))
_PUBLIC6 = ipaddress.ip_network("2000::/3")
"""All that IANA has given out for public hosts."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        (
            "fd00:ec2::254",  # Amazon
            "fd20:ce::254",  # Google
            "fd00:c1::a9fe:a9fe",  # Oracle
            "192.0.0.192",  # Oracle
            "168.63.129.16",  # Azure
            "fd00:42::42",  # Scaleway
        ),
    )
)
"""Services of clouds beside those at link-local addresses and in 100.64.0.0/10 (Alibaba), which is neither public nor
private."""


class HostPort(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Only this machine can reach it. Of names, localhost alone is known to be such."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_address(text: str, *, default_port: int | None = None, allow_zero: bool = False) -> HostPort:
    """Reads ``host:port``, ``[ipv6]:port`` or, with a default port, ``host``."""
    try:
        parts = urlsplit(f"//{text}")
        port = default_port if parts.port is None else parts.port
    except ValueError:
        raise ValueError(f"{text!r} has no valid port (0 to 65535)") from None
    plain = not (parts.path or parts.query or parts.fragment or "@" in text or any(c.isspace() for c in text))
    if not plain or not parts.hostname or port is None:
        raise ValueError(f"{text!r} is not host:port")
    if port == 0 and not allow_zero:
        raise ValueError(f"{text!r}: port 0 cannot be reached")
    return HostPort(parts.hostname, port)


def parse_http_url(text: str) -> str:
    """Checks ``http(s)://host[:port][/path]``; without a scheme http is meant. Returned without a trailing slash."""
    url = text if "://" in text else f"http://{text}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{text!r} is not an http URL")
    parse_address(parts.netloc, default_port=80)
    return url.rstrip("/")


def without_account(url: str) -> str:
    """The URL as it may be logged."""
    scheme, found, rest = url.partition("://")
    hosts, slash, path = rest.partition("/")
    return f"{scheme}{found}{hosts.rpartition('@')[2]}{slash}{path}"


def without_path(url: str) -> str:
    """The server of the URL. Receivers of alarms and webhooks have URLs whose path or query is the key to them."""
    scheme, found, rest = without_account(url).partition("://")
    return f"{scheme}{found}{rest.partition('/')[0].partition('?')[0]}"


def check_file_url(text: str) -> None:
    """Accepts addresses that agents can fetch: ``http(s)://host[:port]/path`` and ``file:///path``."""
    if text.startswith("file://"):
        if not text.startswith("file:///") or text.endswith("/"):
            raise ValueError(f"{text!r} names no file: expected file:///path")
    elif "://" not in text or not urlsplit(parse_http_url(text)).path.strip("/"):
        raise ValueError(f"{text!r} names no file: expected http(s)://host[:port]/path or file:///path")


def check_mesos_url(text: str) -> None:
    """Accepts ``http://host:port[,host:port]`` and ``zk://[user:password@]host:port,.../path``."""
    scheme, found, rest = text.partition("://")
    if not found or scheme not in ("http", "zk"):
        raise ValueError(
            f"{without_account(text)!r} is not a Mesos URL: expected http://host:port[,host:port] or zk://host:port,.../path"
        )
    if scheme == "http":
        hosts, port = rest.rstrip("/"), MESOS_PORT
    else:
        hosts, _, path = rest.rpartition("@")[2].partition("/")
        if not path.strip("/"):
            raise ValueError(f"{without_account(text)!r} has no path: expected zk://host:port,.../path")
        port = ZOOKEEPER_PORT
    for host in hosts.split(","):
        parse_address(host, default_port=port)


def is_local(address: str) -> bool:
    """True for addresses of this machine, of this link, of no single host (multicast), and of metadata services of
    clouds; false for public hosts and private networks. An IPv6 address with an embedded IPv4 address is judged by the
    latter."""
    found = _unwrapped(ipaddress.ip_address(address.partition("%")[0]))
    if found in _METADATA or found.is_multicast:
        return True
    if any(found in network for network in _PRIVATE):
        return False
    return not found.is_global or (found.version == 6 and found not in _PUBLIC6)


def _unwrapped(found: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address to which gateways of 6to4 and NAT64, or the system itself, translate the address; else the
    address."""
    if isinstance(found, ipaddress.IPv4Address):
        return found
    if found in _NAT64:
        return ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
    return found.ipv4_mapped or found.sixtofour or found
