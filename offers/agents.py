"""The agents of the cluster as the Mesos master lists them: what is known of an agent without an offer of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from offers.model import Attribute


class Agent(NamedTuple):
    """`key`: how operators name it, as offers.model.Offer.key."""

    id: str
    key: str
    hostname: str
    attributes: Mapping[str, Attribute]


class Directory:
    """Kept by one thread. Until the first list has come, nothing is known about any agent."""

    def __init__(self) -> None:
        self.listed = False
        """A list has come: an agent that is not in the directory is not registered now."""
        self.revision = 0
        """Grows when anything changes."""
        self.agents: dict[str, Agent] = {}
        self._keys: dict[str, set[str]] = {}
        self._absent: dict[str, float] = {}

    def learn(self, listed: Iterable[Mapping[str, Any]]) -> list[str]:
        """Takes a list over (events.AgentsListed); returns the ids of agents that were not in the one before."""
        found = {agent["id"]: _agent(agent) for agent in listed}
        new = [identity for identity in found if identity not in self.agents]
        if found != self.agents or not self.listed:
            self.revision += 1
        self.agents = found
        self.listed = True
        keys: defaultdict[str, set[str]] = defaultdict(set)
        for agent in found.values():
            keys[agent.key].add(agent.id)
        self._keys = dict(keys)
        for identity in found:
            self._absent.pop(identity, None)
        return new

    def ids_of(self, key: str) -> set[str]:
        """Ids of the agents that operators name so."""
        return self._keys.get(key, set())

    def absent_for(self, agent_id: str, now: float) -> float:
        """Seconds for which an agent has been asked for here while it was not listed; 0 if it is listed."""
        if not self.listed or agent_id in self.agents:
            return 0.0
        return now - self._absent.setdefault(agent_id, now)


def _agent(listed: Mapping[str, Any]) -> Agent:
    attributes = dict(listed.get("attributes", {}))
    inner, hostname = attributes.get("InnerIP"), str(listed.get("hostname", ""))
    key = inner if isinstance(inner, str) and inner else hostname
    return Agent(listed["id"], key, hostname, attributes)
