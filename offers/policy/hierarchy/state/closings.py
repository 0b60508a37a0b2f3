"""The times for which nodes are reserved for asks without victims, so that each is open to all asks half of the time.

Times are seconds of the clock of the asks.
"""

from __future__ import annotations

from collections.abc import Container

WINDOW = 120.0
MOST_IN_WINDOW = 60.0
"""Seconds for which a node is reserved at most within any `WINDOW`, by all asks together."""


class Closings:
    """The present reservations, and those that have ended within the last `WINDOW`, by name of the node."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._ended: dict[str, list[tuple[float, float]]] = {}

    def begin(self, node: str, now: float) -> None:
        """A node is reserved from now on."""
        self._since.setdefault(node, now)

    def settle(self, reserved: Container[str], now: float) -> None:
        """Ends the reservations of nodes that are not reserved any more, and forgets those that ended long ago."""
        for node in [node for node in self._since if node not in reserved]:
            self._ended.setdefault(node, []).append((self._since.pop(node), now))
        for node, spans in list(self._ended.items()):
            spans[:] = [span for span in spans if span[1] > now - WINDOW]
            if not spans:
                del self._ended[node]

    def left(self, node: str, now: float) -> float:
        """Seconds for which a node may be reserved from now on at least, without a break; 0 or less: no longer."""
        since = self._since.get(node, now)
        spans = (*self._ended.get(node, ()), (since, now))
        inside: float = sum(max(0.0, end - max(begin, now - WINDOW)) for begin, end in spans)
        return MOST_IN_WINDOW - inside
