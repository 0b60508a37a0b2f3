"""Taints of agents, and tolerations of taskgroups. Pure functions of values.

A taskgroup is not placed on an agent with a taint of the effect `NoSchedule` or `NoExecute` that it does not tolerate.
`PreferNoSchedule` is a wish and refuses nothing. A taint that an operator set without an effect counts as `NoSchedule`.
Placement does not consider the effect of `NoExecute` on taskgroups that run on the agent already.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

Effect = Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"]
Operator = Literal["Equal", "Exists"]

REFUSING = frozenset({"NoSchedule", "NoExecute"})
"""Effects of taints that every taskgroup placed on the agent must tolerate."""


class Taint(NamedTuple):
    """One taint. `effect` empty: set by an operator without one, which means `NoSchedule`."""

    key: str
    value: str = ""
    effect: Effect = ""

    @property
    def title(self) -> str:
        """The name of the taint in diagnoses: ``key=value``, with ``:effect`` if the taint has one."""
        return f"{self.key}={self.value}{f':{self.effect}' if self.effect else ''}"


class Toleration(NamedTuple):
    """A permission to use agents with a taint. An empty key with `Exists` tolerates every taint; an empty effect stands
    for every effect."""

    key: str = ""
    operator: Operator = "Equal"
    value: str = ""
    effect: Effect = ""

    def tolerates(self, taint: Taint) -> bool:
        """Returns True if a taskgroup with this toleration may be placed on an agent with the taint."""
        if self.effect and self.effect != (taint.effect or "NoSchedule"):
            return False
        if self.operator == "Exists":
            return self.key in ("", taint.key)
        return self.key == taint.key and self.value == taint.value


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint, in the order given, that refuses a taskgroup with these tolerations; None if none does."""
    known = tuple(tolerations)
    for taint in taints:
        if (taint.effect or "NoSchedule") in REFUSING and not any(toleration.tolerates(taint) for toleration in known):
            return taint
    return None
