"""The agents of the cluster as the Mesos master lists them: what is known of an agent without an offer of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from offers.model import Attribute

REMEMBERED = 20_000
"""Agents that are not listed any more, of which it is remembered that they were: twice the largest cluster."""


class Agent(NamedTuple):
    """`key`: how operators name it, as offers.model.Offer.key."""

    id: str
    key: str
    hostname: str
    attributes: Mapping[str, Attribute]


def agent_key(listed: Mapping[str, Any]) -> str:
    """Of an agent as the Mesos master lists it: its InnerIP attribute, else its host name."""
    inner = listed.get("attributes", {}).get("InnerIP")
    return inner if isinstance(inner, str) and inner else str(listed.get("hostname", ""))


class Names:
    """Whom operators mean by a name. A key means the agent it belongs to and nobody else; an id, host name or address
    means every agent that has it."""

    def __init__(self, listed: Iterable[Mapping[str, Any]]) -> None:
        self._keys: set[str] = set()
        self._called: defaultdict[str, set[str]] = defaultdict(set)
        for agent in listed:
            key = agent_key(agent)
            self._keys.add(key)
            for name in (agent["id"], agent.get("hostname", ""), agent.get("ip", "")):
                if name:
                    self._called[name].add(key)

    def keys(self, name: str) -> list[str]:
        """Keys of the listed agents that are called so; empty if none is."""
        return [name] if name in self._keys else sorted(self._called.get(name, ()))


class Directory:
    """Kept by one thread. Until the first list has come, nothing is known about any agent."""

    def __init__(self) -> None:
        self.listed = False
        """A list has come: an agent that is not in the directory is not registered now."""
        self._moved: set[str] | None = None
        self.agents: dict[str, Agent] = {}
        self._keys: dict[str, set[str]] = {}
        self._away: dict[str, None] = {}
        """Keys that were listed and are not now, the latest to go at the end."""
        self._absent: dict[str, float] = {}

    def learn(self, listed: Iterable[Mapping[str, Any]]) -> list[str]:
        """Takes a list over (events.AgentsListed); returns the ids of agents that were not in the one before."""
        found = {agent["id"]: _agent(agent) for agent in listed}
        before = self.agents
        new = [identity for identity in found if identity not in before]
        if self._moved is not None:
            self._moved.update(new)
            self._moved.update(identity for identity, agent in before.items() if found.get(identity) != agent)
        self.agents = found
        self.listed = True
        keys: defaultdict[str, set[str]] = defaultdict(set)
        for agent in found.values():
            keys[agent.key].add(agent.id)
        self._away.update(dict.fromkeys(key for key in self._keys if key not in keys))
        self._keys = dict(keys)
        for key in keys:
            self._away.pop(key, None)
        for identity in found:
            self._absent.pop(identity, None)
        _cut(self._away)
        _cut(self._absent)
        return new

    def take_moved(self) -> set[str] | None:
        """Ids of the agents that have joined, left or changed since this was asked last; None when it is asked for the
        first time: then all have."""
        moved, self._moved = self._moved, set()
        return moved

    def ids_of(self, key: str) -> set[str]:
        """Ids of the agents that operators name so."""
        return self._keys.get(key, set())

    def was_key(self, key: str) -> bool:
        """Whether an agent that is or was listed here has this key: it may be away for a moment only."""
        return key in self._keys or key in self._away

    def absent_for(self, agent_id: str, now: float) -> float:
        """Seconds for which an agent has been asked for here while it was not listed; 0 if it is listed."""
        if not self.listed or agent_id in self.agents:
            return 0.0
        return now - self._absent.setdefault(agent_id, now)


def _cut(known: dict[str, Any]) -> None:
    for key in list(known)[: len(known) - REMEMBERED] if len(known) > REMEMBERED else ():
        del known[key]


def _agent(listed: Mapping[str, Any]) -> Agent:
    attributes = dict(listed.get("attributes", {}))
    return Agent(listed["id"], agent_key(listed), str(listed.get("hostname", "")), attributes)
