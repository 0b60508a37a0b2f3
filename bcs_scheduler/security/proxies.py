"""The address of a client behind proxies."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import NamedTuple

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class TrustedProxies(NamedTuple):
    """Proxies whose header X-Forwarded-For is believed. A client can write anything into the header. Each proxy adds
    the address that it has seen at the end, so only the addresses that trusted proxies have added count."""

    networks: tuple[Network, ...] = ()

    def trusts(self, address: str) -> bool:
        """False for a text that is no address."""
        if not self.networks:
            return False
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        mapped = getattr(found, "ipv4_mapped", None) or found
        return any(mapped in network for network in self.networks)

    def known(self, peer: str) -> str:
        """The address of a client that has just connected; empty for a proxy, whose clients are not known yet."""
        return "" if self.trusts(peer) else peer

    def client_of(self, peer: str, forwarded: Iterable[bytes]) -> str:
        """The address of the client of a connection from `peer`. `forwarded`: values of the headers X-Forwarded-For in
        their order. The last address that no trusted proxy has is the client; a text that is no address ends the
        search at the proxy that has added it."""
        if not self.trusts(peer):
            return peer
        hops = b",".join(forwarded).decode("latin-1").split(",")
        client = peer
        while hops and self.trusts(client):
            hop = _address(hops.pop().strip())
            if hop is None:
                break
            client = hop
        return client


def read_networks(texts: Sequence[str]) -> TrustedProxies:
    """Addresses and networks (``10.0.0.0/8``). Raises ValueError that names the text."""
    networks: list[Network] = []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise ValueError(f"{text!r} is not an address or a network: {error}") from None
    return TrustedProxies(tuple(networks))


def _address(text: str) -> str | None:
    """Without a port; None for a text that is no address."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None
