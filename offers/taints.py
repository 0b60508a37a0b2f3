"""Taints of agents, and tolerations of taskgroups. Pure functions of values.

A taskgroup is not placed on an agent with a taint of the effect `NoSchedule` or `NoExecute` that it does not tolerate.
`PreferNoSchedule` is a wish and refuses nothing. A taint that an operator set without an effect counts as `NoSchedule`.
Placing does not look at what `NoExecute` does to taskgroups that run on the agent already.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

Effect = Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"]
Operator = Literal["Equal", "Exists"]

REFUSING = frozenset({"NoSchedule", "NoExecute"})
"""Effects of taints that must be tolerated by whatever is placed on the agent."""


class Taint(NamedTuple):
    """One taint. `effect` empty: set by an operator without one, which means `NoSchedule`."""

    key: str
    value: str = ""
    effect: Effect = ""

    @property
    def title(self) -> str:
        """How diagnoses call the taint: ``key=value``, with ``:effect`` if it was given one."""
        return f"{self.key}={self.value}{f':{self.effect}' if self.effect else ''}"


class Toleration(NamedTuple):
    """What is tolerated. An empty key with `Exists` tolerates every taint; an empty effect means every effect."""

    key: str = ""
    operator: Operator = "Equal"
    value: str = ""
    effect: Effect = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether a taskgroup with this toleration may be placed in spite of the taint."""
        if self.effect and self.effect != (taint.effect or "NoSchedule"):
            return False
        if self.operator == "Exists":
            return self.key in ("", taint.key)
        return self.key == taint.key and self.value == taint.value


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint, in the order given, that refuses a taskgroup with these tolerations; None if none does."""
    known = tuple(tolerations)
    for taint in taints:
        if (taint.effect or "NoSchedule") in REFUSING and not any(one.tolerates(taint) for one in known):
            return taint
    return None
