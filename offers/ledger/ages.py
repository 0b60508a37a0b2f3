"""The ages of offers: which ones are due to be given back."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from offers.model import Offer

_SLACK = 1024
"""Entries that may be without an offer, beside as many as there are offers."""
_POSTPONED = 1.0
"""Seconds until an offer that was due while it was needed is looked at again."""


class Ages:
    """A queue of offers, the oldest first."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, str]] = []
        """A heap of (received at, serial number, offer id). Entries of offers that are gone stay until they are due."""
        self._postponed: list[tuple[float, int, str]] = []
        """Entries whose offers were due while they were needed."""
        self._again_at = 0.0
        self._serial = 0

    def note(self, offer: Offer, present: Mapping[str, Offer]) -> None:
        """Adds an offer. `present`: all offers, by id."""
        self._serial += 1
        heapq.heappush(self._entries, (offer.received_at, self._serial, offer.id))
        if len(self._entries) > 2 * len(present) + _SLACK:
            self._entries = [entry for entry in self._entries if entry[2] in present]
            heapq.heapify(self._entries)

    def take_due(self, present: Mapping[str, Offer], now: float, age: float) -> Offer | None:
        """Takes the oldest offer that was received `age` seconds ago or earlier out of the queue; None: no offer is
        due. `now`: Unix seconds."""
        if self._postponed and now >= self._again_at:
            for entry in self._postponed:
                heapq.heappush(self._entries, entry)
            self._postponed = []
        while self._entries and self._entries[0][0] + age <= now:
            received_at, _, identity = heapq.heappop(self._entries)
            offer = present.get(identity)
            if offer is not None and offer.received_at == received_at:
                return offer
        return None

    def postpone(self, offer: Offer, now: float) -> None:
        """Puts an offer back that is needed; the offer is due again a moment later. `now`: Unix seconds."""
        if not self._postponed:
            self._again_at = now + _POSTPONED
        self._serial += 1
        self._postponed.append((offer.received_at, self._serial, offer.id))

    def clear(self) -> None:
        """Forgets all offers."""
        self._entries, self._postponed = [], []
