"""The plug-ins and actions whose calls did not return: not used for a time that grows with each such call."""

from __future__ import annotations

from offers.policy.session.decisions import Later, Passing, PluginFault
from offers.policy.session.policy import Policy

FIRST_PAUSE, GROWTH, LONGEST_PAUSE = 60.0, 4, 86400.0
"""Seconds without the plug-in: each attempt may cost the core the time of a call, and leave a thread behind."""


class SetAside:
    """Belongs to one term of leadership. Times are Unix seconds."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._pauses: dict[str, float] = {}
        self._untold: list[PluginFault] = []

    def add(self, fault: PluginFault, now: float) -> None:
        """A call of a plug-in or action has not returned."""
        name = fault.plugin
        self._untold.append(fault)
        before = self._pauses.get(name)
        pause = self._pauses[name] = FIRST_PAUSE if before is None else min(before * GROWTH, LONGEST_PAUSE)
        self._until[name] = now + pause

    def pause(self, name: str) -> float:
        """The latest pause of a plug-in that was added, in seconds."""
        return self._pauses[name]

    def untold(self) -> list[PluginFault]:
        """The calls that have not returned since the latest look: no event names them yet, since a question records
        none."""
        untold, self._untold = self._untold, []
        return untold

    def later(self, now: float) -> Later | None:
        """The moment at which the next plug-in is used again; None: all are used."""
        ends = [until for until in self._until.values() if until > now]
        return Later(Passing.PLUGIN, min(ends)) if ends else None

    def rest(self, policy: Policy, now: float) -> Policy:
        """The policy without the plug-ins and actions that are not used now."""
        for name, until in self._until.items():
            if until > now:
                policy = policy.without(name)
        return policy
