"""The agents of the cluster as the cluster manager lists them, with the facts that are known without an offer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from offers.model import Attribute
from offers.names import name_of
from offers.resources import SCALARS

REMEMBERED = 20_000
"""Agents that are not listed any more, of which it is remembered that they were: twice the largest cluster."""


class ListedAgent(NamedTuple):
    """One agent as the cluster manager lists it. Amounts are in thousandths of the unit of their dimension."""

    id: str
    hostname: str
    ip: str = ""
    """Address that users see: the attribute InnerIP, else where the agent listens; empty = not known."""
    port: int = 0
    """Port of the agent's own API; 0 = not known."""
    active: bool = True
    """False: the agent is disconnected or deactivated, so nothing can be launched on it."""
    attributes: Mapping[str, Attribute] = {}
    total: Mapping[str, int] = {}
    allocated: Mapping[str, int] = {}
    ports: Sequence[tuple[int, int]] = ()
    """Ranges of ports, both ends included."""
    registered_time: float = 0.0
    """Unix seconds of the latest registration of the agent, by the clock of the cluster manager; 0.0 = not known."""
    rooms: tuple[str, ...] = ()
    """Ids of the taskgroups with external holds on the agent (offers.ledger.external)."""

    @property
    def key(self) -> str:
        """The name under which operators' settings are stored, as offers.model.Offer.key: the attribute InnerIP, else
        the host name."""
        return name_of(self.attributes, self.hostname)

    @property
    def size(self) -> tuple[int, ...]:
        """The total amounts in the order of `SCALARS`: CPU and memory, then disk and GPUs as far as they are listed."""
        others = takewhile(self.total.__contains__, SCALARS[2:])
        return (*(self.total.get(name, 0) for name in SCALARS[:2]), *(self.total[name] for name in others))


class Agent(NamedTuple):
    """The part of a listed agent that decides which taskgroups may run there. `key`: see ListedAgent.key."""

    id: str
    key: str
    hostname: str
    attributes: Mapping[str, Attribute]


class Names:
    """Finds agents by the names that operators use. A key names the agent that has this key and no other agent; an id,
    host name or address names every agent that has it."""

    def __init__(self, listed: Iterable[ListedAgent]) -> None:
        self._keys: set[str] = set()
        self._called: defaultdict[str, set[str]] = defaultdict(set)
        for agent in listed:
            key = agent.key
            self._keys.add(key)
            for name in (agent.id, agent.hostname, agent.ip):
                if name:
                    self._called[name].add(key)

    def keys(self, name: str) -> list[str]:
        """Keys of the listed agents that are called so; empty if none is."""
        return [name] if name in self._keys else sorted(self._called.get(name, ()))


class Directory:
    """The listed agents. Only one thread changes it. Before the first list has arrived, no agent is known."""

    def __init__(self) -> None:
        self.listed = False
        """A list has come: an agent that is not in the directory is not registered now."""
        self.lists = 0
        """Number of lists that have come."""
        self.external_holds: dict[str, frozenset[str]] = {}
        """External holds of the agents that have any, by agent id."""
        self._moved: set[str] | None = None
        self.agents: dict[str, Agent] = {}
        self.awaited: frozenset[str] = frozenset()
        """Ids, host names and keys of agents that the cluster manager waits for."""
        self._keys: dict[str, set[str]] = {}
        self._away: dict[str, None] = {}
        """Keys that were listed and are not now, the latest to go at the end."""
        self._absent: dict[str, float] = {}

    def learn(self, listed: Sequence[ListedAgent], awaited: Iterable[str] = ()) -> None:
        """Takes a list over (events.AgentsListed). `awaited`: ids, host names and keys of agents that the cluster
        manager waits for."""
        present = {agent.id: _agent(agent) for agent in listed}
        before = self.agents
        if self._moved is not None:
            every = present.keys() | before.keys()
            self._moved.update(identity for identity in every if before.get(identity) != present.get(identity))
        self.agents = present
        self.awaited = frozenset(awaited)
        self.listed = True
        self.lists += 1
        self.external_holds = {agent.id: frozenset(agent.rooms) for agent in listed if agent.rooms}
        keys: defaultdict[str, set[str]] = defaultdict(set)
        for agent in present.values():
            keys[agent.key].add(agent.id)
        self._away.update(dict.fromkeys(key for key in self._keys if key not in keys))
        self._keys = dict(keys)
        for key in keys:
            self._away.pop(key, None)
        for identity in present:
            self._absent.pop(identity, None)
        _cut(self._away)
        _cut(self._absent)

    def take_moved(self) -> set[str] | None:
        """Ids of the agents that have joined, left or changed since this was asked last; None when it is asked for the
        first time: then all have."""
        moved, self._moved = self._moved, set()
        return moved

    def ids_of(self, key: str) -> set[str]:
        """Ids of the agents that operators name so."""
        return self._keys.get(key, set())

    def awaits(self, name: str) -> bool:
        """True if an agent that is not listed may be listed soon: no list has arrived yet, or the cluster manager waits
        for an agent that has this id, host name or key."""
        return not self.listed or name in self.awaited

    def was_key(self, key: str) -> bool:
        """Returns True if an agent that is or was listed has this key. An agent that is not listed now may be absent
        for a moment only."""
        return key in self._keys or key in self._away

    def absent_for(self, agent_id: str, now: float) -> float:
        """Seconds since an agent was first asked for here without being listed; 0 if the agent is listed. `now`: Unix
        seconds."""
        if not self.listed or agent_id in self.agents:
            return 0.0
        return now - self._absent.setdefault(agent_id, now)


def _cut(known: dict[str, Any]) -> None:
    for key in list(known)[: len(known) - REMEMBERED] if len(known) > REMEMBERED else ():
        del known[key]


def _agent(listed: ListedAgent) -> Agent:
    return Agent(listed.id, listed.key, listed.hostname, listed.attributes)
