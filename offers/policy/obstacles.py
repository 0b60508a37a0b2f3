"""Obstacles that an attempt to make room for a waiting ask has met: codes and counts, the same for all engines.

An ask whose queue is below its guarantee (trees of queues) or its deserved share (sessions) is given room by ending
work that uses more. Where that fails, the search counts the obstacles in a `Tally`, and the engine keeps the `Attempt`
of each application. Words are made in `transactions.explain`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple


class Obstacle(StrEnum):
    """The kinds of obstacles. The first group is about the attempt as a whole and has no count; the second counts
    running units, each by the first obstacle that it meets; the third counts agents."""

    NOT_ALLOWED = "NotAllowed"
    """The policy does not evict, or the ask may not preempt."""
    NOT_OLD_ENOUGH = "NotOldEnough"
    """The ask has not waited long enough. `until`: the moment from which it may try."""
    OWN_GUARANTEE = "OwnGuarantee"
    """The queue of the ask would use more than its guarantee or deserved share with the ask. `whose`: that queue."""
    NO_CANDIDATE = "NoCandidate"
    """No other work runs where the ask may look. `whose`: the queue that bounds the search."""

    IN_PARTS = "EndsInParts"
    """Units are ended as their budgets admit, and the room of each is kept until all have ended. With the count of all,
    and `done`. `whose`: their applications."""

    OUTSIDE = "OutsideFence"
    """The unit runs in a queue whose work is not ended for others, or beyond a fence. `whose`: queues."""
    GUARANTEE = "GuaranteeOfOthers"
    """The queue of the unit would be below its guarantee or deserved share without it. `whose`: queues."""
    GANG = "GangMinimum"
    """The gang of the unit would be below its minimum without it. `whose`: applications."""
    BUDGET = "DisruptionBudget"
    """The disruption budget of its application admits no further unit. `whose`: applications."""
    SHARE = "SmallerShare"
    """The application of the unit would have a smaller share than that of the ask. `whose`: applications."""
    PRIORITY = "Priority"
    """The unit is as important as the ask, or more."""
    CRITICAL = "Critical"
    """The unit is critical, or belongs to its agent."""
    OPERATION = "OpenOperation"
    """An operation works on the unit. `whose`: applications."""
    PLUGIN = "Plugin"
    """Another plug-in of the policy refuses the unit."""
    PAUSED = "Paused"
    """Evictions of units of its application have not helped the ask lately, so the pair makes a pause. Without a count:
    the ask itself makes one. `until`: the end. `whose`: applications."""
    LEAVING = "Leaving"
    """The unit is being ended for another ask."""

    APART = "NotOnOneAgent"
    """The units that may be ended on the agent do not make enough room there. Counts agents."""
    RESERVED = "Reserved"
    """The room of the agent is kept for another ask. Counts agents. `whose`: applications; `until`: the latest end."""


def label(code: Obstacle) -> str:
    """The code as a value of a label of metrics: ``gang_minimum``."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in code).lstrip("_")


WHOLE = frozenset(
    {
        Obstacle.NOT_ALLOWED,
        Obstacle.NOT_OLD_ENOUGH,
        Obstacle.OWN_GUARANTEE,
        Obstacle.NO_CANDIDATE,
    }
)
"""Obstacles of an attempt as a whole."""
OF_AGENTS = frozenset({Obstacle.APART, Obstacle.RESERVED})
"""Obstacles that count agents."""
OF_APPLICATIONS = frozenset(
    {
        Obstacle.PAUSED,
        Obstacle.IN_PARTS,
        Obstacle.GANG,
        Obstacle.BUDGET,
        Obstacle.SHARE,
        Obstacle.OPERATION,
        Obstacle.RESERVED,
    }
)
"""Obstacles whose owners are applications, as keys ``namespace/name``."""
OF_OTHER_QUEUES = frozenset({Obstacle.OUTSIDE, Obstacle.GUARANTEE})
"""Obstacles whose owners are queues of others. Queues of a tree may have the names of namespaces."""
NAMED = 3
"""Owners that an obstacle names at most, those with the most units."""


class Met(NamedTuple):
    """An obstacle that an attempt has met. `whose`: the owners that are named, see `Obstacle`; `others`: the number of
    further ones. `until`: Unix seconds, 0 if no moment is known. `done`: the number of units that have ended."""

    code: Obstacle
    number: int = 0
    whose: tuple[str, ...] = ()
    others: int = 0
    until: float = 0.0
    done: int = 0


class Attempt(NamedTuple):
    """The latest attempt to make room for an application. `at`: Unix seconds. `evicted`: units that are being ended for
    it; 0: they have left, and the agent has not offered their room yet. `agent`: the agent on which room is made;
    empty: the attempt was in vain, and `met` has the obstacles, the most important first."""

    at: float
    met: tuple[Met, ...] = ()
    evicted: int = 0
    agent: str = ""

    @property
    def cause(self) -> Obstacle | None:
        """The code of the most important obstacle; None if there is none."""
        return self.met[0].code if self.met else None


class Tally:
    """Counts the obstacles of one attempt. A search counts each unit once, by the first obstacle."""

    def __init__(self) -> None:
        self._counts: Counter[Obstacle] = Counter()
        self._whose: dict[Obstacle, Counter[str]] = {}
        self._until: dict[Obstacle, float] = {}

    def count(self, code: Obstacle, number: int = 1, whose: str = "", until: float = 0.0) -> None:
        """Counts units or agents. `whose`: the owner, see `Obstacle`; empty: no owner is named. `until`: Unix seconds;
        the latest of several moments counts."""
        self._counts[code] += number
        if whose:
            self._whose.setdefault(code, Counter())[whose] += number
        if until > self._until.get(code, 0.0):
            self._until[code] = until

    def clear(self) -> None:
        """Forgets everything."""
        self._counts.clear()
        self._whose.clear()
        self._until.clear()

    def add(self, other: Tally) -> None:
        """Adds the counts of another search, with other units."""
        for code, number in other._counts.items():
            self._counts[code] += number
            if code in other._whose:
                self._whose.setdefault(code, Counter()).update(other._whose[code])
            self._until[code] = max(self._until.get(code, 0.0), other._until.get(code, 0.0))

    def __bool__(self) -> bool:
        return bool(self._counts)

    def met(self) -> tuple[Met, ...]:
        """The obstacles: first those of the attempt as a whole, then the greater counts; agents last, unless there is
        nothing else."""
        return tuple(
            Met(code, 0 if code in WHOLE else number, *self._named(code), self._until.get(code, 0.0))
            for code, number in sorted(self._counts.items(), key=_rank)
        )

    def _named(self, code: Obstacle) -> tuple[tuple[str, ...], int]:
        owners = sorted(self._whose.get(code, {}).items(), key=lambda counted: (-counted[1], counted[0]))
        return tuple(name for name, _ in owners[:NAMED]), max(0, len(owners) - NAMED)

    def attempt(self, at: float) -> Attempt:
        """The attempt in vain that has met these obstacles. `at`: Unix seconds."""
        return Attempt(at, self.met())


def in_vain(at: float, code: Obstacle, whose: Collection[str] = (), until: float = 0.0) -> Attempt:
    """An attempt that one obstacle as a whole has ended. Times are Unix seconds."""
    return Attempt(at, (Met(code, 0, tuple(sorted(whose)[:NAMED]), max(0, len(whose) - NAMED), until),))


_ORDER = {code: number for number, code in enumerate(Obstacle)}


def _rank(entry: tuple[Obstacle, int]) -> tuple[bool, bool, int, int]:
    code, number = entry
    return code not in WHOLE, code in OF_AGENTS, -number, _ORDER[code]
