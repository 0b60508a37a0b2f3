"""The simulated world: one clock, one queue of what is to come, one source of chance, one story of what happened.

Nothing else may draw random numbers or know a time. Everything that happens is a call taken from the queue, in the
order of its time and, at equal times, of its planning: the same seed gives the same world, whatever machine runs it.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from tests.simulation.words import describe

START = 1_700_000_000.0
"""Unix seconds at which every simulation begins."""

T = TypeVar("T")


class Line(NamedTuple):
    """One thing that happened. `what` is an immutable value or a text; it is put in words only if somebody reads it."""

    at: float
    who: str
    what: object


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = START
        self.calm = False
        """No more faults: what is broken has been repaired, nothing new breaks."""
        self.counts: Counter[str] = Counter()
        """How often what happened: faults, operations, launches."""
        self.story: list[Line] = []
        self._random = random.Random(seed)
        self._queue: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._planned = 0

    # --- time -------------------------------------------------------------------------------------------------

    def after(self, delay: float, call: Callable[..., object], *arguments: Any) -> None:
        """Plans a call `delay` seconds from now."""
        self.at(self.now + delay, call, *arguments)

    def at(self, when: float, call: Callable[..., object], *arguments: Any) -> None:
        self._planned += 1
        heapq.heappush(self._queue, (max(when, self.now), self._planned, call, arguments))

    def run(self, until: float) -> None:
        """Lets everything happen that is planned up to a moment."""
        queue = self._queue
        while queue and queue[0][0] <= until:
            self.now, _, call, arguments = heapq.heappop(queue)
            call(*arguments)
        self.now = max(self.now, until)

    # --- chance -----------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def fault(self, probability: float) -> bool:
        """Like `chance`, but never once the world is calm."""
        return not self.calm and self._random.random() < probability

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self._random.random()

    def number(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int((high - low + 1) * self._random.random())

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(len(choices) * self._random.random())]

    def some(self, choices: Sequence[T], count: int) -> list[T]:
        return self._random.sample(choices, min(count, len(choices)))

    def weighted(self, choices: Sequence[tuple[float, T]]) -> T:
        """One of (weight, value) pairs."""
        mark = self._random.random() * sum(weight for weight, _ in choices)
        for weight, value in choices:
            mark -= weight
            if mark < 0:
                return value
        return choices[-1][1]

    # --- story ------------------------------------------------------------------------------------------------

    def tell(self, who: str, what: object) -> None:
        self.story.append(Line(self.now, who, what))

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def told(self, objects: Sequence[str] = (), last: int = 120) -> list[str]:
        """The last lines that name one of the objects (all lines without objects), in words."""
        found: list[str] = []
        for line in reversed(self.story):
            words = f"{line.at - START:10.3f} {line.who:12} {describe(line.what)}"
            if not objects or any(name in words for name in objects):
                found.append(words)
                if len(found) >= last:
                    break
        return found[::-1]

    def digest(self) -> str:
        """Fingerprint of everything that happened."""
        text = hashlib.sha256()
        for line in self.story:
            text.update(f"{line.at!r} {line.who} {describe(line.what)}\n".encode())
        return text.hexdigest()
