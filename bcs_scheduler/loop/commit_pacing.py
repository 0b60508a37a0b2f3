"""Paces commits by the speed of the store: how much is sent at once, and how long waiting changes will take.

The bytes in flight are bounded by a window. The window grows by one batch per round trip while commits are fast, and is
halved when a commit was slow: additive increase, multiplicative decrease (Chiu and Jain, "Analysis of the Increase and
Decrease Algorithms for Congestion Avoidance in Computer Networks", 1989). A commit is slow if it takes several times as
long as the fastest commit of the last minute, as in TCP Vegas (Brakmo and Peterson, 1995): a store on a slow disk,
whose every commit takes 100 ms, is not overloaded and shall not receive less.

Pure: all times are arguments, in seconds of a monotonic clock. One thread calls `landed`; any thread reads.
"""

from __future__ import annotations

import math

BATCH_BYTES = 64 * 1024
"""Largest batch, unless a single unit has more: 40 to 60 records of taskgroups. A ZooKeeper server keeps its last 500
transactions in its heap (commitLogCount), each about three times: 100 MB with batches of this size, 800 MB with batches
of 525 kB, and larger batches were no faster (docs/benchmarks.md)."""
SMALLEST_BYTES = 16 * 1024
"""The window never gets smaller: about ten records per round trip."""
MOST_IN_FLIGHT = 8
"""The most batches in flight at once. More would only wait in the queue of the server."""
FIRST_IN_FLIGHT = 4
"""The most batches in flight at once before the first measurement."""
FAST = 0.05
"""Seconds. A commit that took no longer is never slow: users do not notice such a delay."""
SLOW = 3.0
"""A commit is slow that took so many times as long as the fastest of late: with a full window, others are ahead of it
in the server's queue, so some multiple is normal."""
MEMORY = 30.0
"""Seconds. The fastest commit is remembered for once to twice as long."""
SAMPLE = 0.25
"""Seconds of uninterrupted work that make one sample of the throughput."""
FIRST_RATE, FIRST_LATENCY = 2_000.0, 0.01
"""Changes per second and seconds per commit assumed before anything has been measured."""


class CommitPacing:
    """One per commit pipeline, and thus per term."""

    def __init__(self) -> None:
        self._window = float(FIRST_IN_FLIGHT * BATCH_BYTES)
        self._fastest, self._fastest_before, self._fastest_since = math.inf, math.inf, -math.inf
        self._halved_at = -math.inf
        self._landed_at = -math.inf
        self._work, self._work_seconds = 0, 0.0
        self._rate = FIRST_RATE
        self._latency = FIRST_LATENCY

    @property
    def in_flight(self) -> int:
        """Batches that may be in flight at once."""
        return min(MOST_IN_FLIGHT, max(1, int(self._window) // BATCH_BYTES))

    @property
    def batch_bytes(self) -> int:
        """Bytes up to which units are joined in one batch."""
        return min(BATCH_BYTES, int(self._window))

    def landed(self, sent_at: float, now: float, size: int, changes: int, full: bool) -> None:
        """A batch of `size` bytes, made of `changes` changes before they were merged, was sent and is durable now.
        `full`: more was waiting when it was sent than could be sent."""
        latency = max(1e-6, now - sent_at)
        self._remember(latency, now)
        self._measure(sent_at, now, changes, full)
        self._latency += 0.2 * (latency - self._latency)
        if latency > max(FAST, SLOW * min(self._fastest, self._fastest_before)):
            if sent_at > self._halved_at:  # those sent before were sent with the larger window
                self._window = max(float(SMALLEST_BYTES), self._window / 2)
                self._halved_at = now
        elif full:
            growth = BATCH_BYTES * size / self._window
            self._window = min(float(MOST_IN_FLIGHT * BATCH_BYTES), self._window + growth)

    def delay(self, changes: int) -> float:
        """Seconds until a change will be durable that has so many others before it."""
        return self._latency + changes / self._rate

    def _remember(self, latency: float, now: float) -> None:
        if now - self._fastest_since > MEMORY:
            self._fastest_before, self._fastest, self._fastest_since = self._fastest, math.inf, now
        self._fastest = min(self._fastest, latency)

    def _measure(self, sent_at: float, now: float, changes: int, full: bool) -> None:
        """Throughput, from times in which more was waiting than could be sent. A store that has little to do shows
        only that it can do no less."""
        began, self._landed_at = max(sent_at, self._landed_at), now
        if not full:
            self._rate = max(self._rate, changes / max(1e-6, now - sent_at))
            return
        self._work += changes
        self._work_seconds += max(1e-6, now - began)
        if self._work_seconds >= SAMPLE:
            self._rate += 0.5 * (max(1.0, self._work / self._work_seconds) - self._rate)
            self._work, self._work_seconds = 0, 0.0
