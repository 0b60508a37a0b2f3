"""The capacity of agents that no taskgroup holds, with its sums, so that a sample costs nothing per agent.

A sum changes with the agent that changes. All amounts are thousandths.
"""

from __future__ import annotations

from collections.abc import Mapping

SCALARS = ("cpus", "mem", "disk", "gpus")


class Room:
    def __init__(self, largest: tuple[int, int]) -> None:
        """`largest`: cores and memory of the largest taskgroup of the load."""
        self._largest = largest
        self._free: dict[str, dict[str, int]] = {}
        self.total = dict.fromkeys(SCALARS, 0)
        """Capacity of all agents."""
        self.cpus = 0
        """Free cores."""
        self.scattered = 0
        """Free cores on agents that cannot take the largest taskgroup."""

    def add(self, agent_id: str, total: Mapping[str, int]) -> None:
        """A new agent, without taskgroups."""
        for name in SCALARS:
            self.total[name] += total.get(name, 0)
        free = self._free[agent_id] = {name: total.get(name, 0) for name in SCALARS}
        self._count(free, 1)

    def remove(self, agent_id: str, total: Mapping[str, int]) -> None:
        """The agent is gone. Does nothing for an agent that is not known."""
        free = self._free.pop(agent_id, None)
        if free is None:
            return
        for name in SCALARS:
            self.total[name] -= total.get(name, 0)
        self._count(free, -1)

    def hold(self, agent_id: str, scalars: Mapping[str, int]) -> None:
        """A taskgroup takes capacity of an agent."""
        self._change(agent_id, scalars, -1)

    def release(self, agent_id: str, scalars: Mapping[str, int]) -> None:
        """A taskgroup gives its capacity back. Does nothing for an agent that is gone."""
        if agent_id in self._free:
            self._change(agent_id, scalars, 1)

    def free(self, agent_id: str) -> Mapping[str, int]:
        """Capacity that no taskgroup holds. Raises KeyError for an agent that is not known."""
        return self._free[agent_id]

    @property
    def fragmented(self) -> float:
        """Part of the free cores on agents that cannot take the largest taskgroup; 0.0 if no core is free."""
        return self.scattered / self.cpus if self.cpus else 0.0

    def _change(self, agent_id: str, scalars: Mapping[str, int], sign: int) -> None:
        free = self._free[agent_id]
        self._count(free, -1)
        for name in SCALARS:
            free[name] += sign * scalars.get(name, 0)
        self._count(free, 1)

    def _count(self, free: Mapping[str, int], sign: int) -> None:
        cpus = free["cpus"]
        self.cpus += sign * cpus
        if cpus < self._largest[0] or free["mem"] < self._largest[1]:
            self.scattered += sign * cpus
