"""Limits of how often something may be done: one token bucket per key, for so many keys as memory may hold."""

from __future__ import annotations

import functools
import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

MOST_KEYS = 10_000
"""Buckets kept; the one that was not used for longest goes first, and is full when it comes back."""


class Rates:
    """`rate` per second on average, `burst` at once; rate 0 limits nothing."""

    def __init__(
        self, rate: float, burst: int, most: int = MOST_KEYS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._most, self._clock = rate, max(1, burst), most, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By key: the tokens left in the bucket, and the time of that count."""
        self._lock = threading.Lock()

    @property
    def unlimited(self) -> bool:
        return not self._rate

    def take(self, key: str) -> float:
        """0 if it may be done now; else seconds until it may, and nothing is taken."""
        if not self._rate:
            return 0.0
        now = self._clock()
        with self._lock:
            left, at = self._buckets.pop(key, (float(self._burst), now))
            left = min(float(self._burst), left + (now - at) * self._rate)
            allowed = left >= 1.0
            self._buckets[key] = (left - 1.0 if allowed else left, now)
            if len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - left) / self._rate

    def __len__(self) -> int:
        return len(self._buckets)


@functools.lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """The key under which a client is counted: an IPv4 address, or the /64 of an IPv6 address, since one host may have
    a whole /64."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return address
    mapped = found.ipv4_mapped
    return str(mapped) if mapped is not None else str(ipaddress.ip_network((found, 64), strict=False))
