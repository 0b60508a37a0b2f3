"""A lab whose agents are listed, join and leave; and a daemonset on it."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.core.interface import cluster_manager, effects, leased, requests
from offers.agents import ListedAgent
from offers.model import Offer, ResourceKey
from store.records import Daemonset, Record, TaskGroup, Transaction
from tests.unit.lab import KEY, Lab, version

Records = list[Record]
"""`Cluster.list` hides the builtin name in annotations of the class."""


class Cluster(Lab):
    """A lab whose agents are listed, too."""

    def __init__(self, agents: int = 0, **more: Any) -> None:
        super().__init__(**more)
        self.listed: dict[str, ListedAgent] = {}
        for number in range(agents):
            self.join(f"a{number}")

    def join(self, agent: str, **attributes: Any) -> None:
        self.listed[agent] = ListedAgent(
            id=agent,
            hostname=f"host-of-{agent}",
            ip="10.0.0.1",
            attributes={"InnerIP": agent, **attributes},
            total={"cpus": 16_000, "mem": 64_000_000},
            active=True,
        )
        self.list()

    def leave(self, agent: str) -> None:
        del self.listed[agent]
        self.core.turn_context.pool.hand.remove_agent(agent)
        self.list()

    def list(self) -> None:
        self.turn(cluster_manager.AgentsListed(agents=tuple(self.listed.values())))

    def offers(self, *, cpus: int = 16_000) -> None:
        for agent in self.listed:
            self.core.turn_context.pool.hand.remove_agent(agent)
            self.offer(agent, cpus=cpus)

    def offer(
        self, agent: str = "a0", *, cpus: int = 16_000, ports: tuple[int, int] = (31000, 31099), hostname: str = ""
    ) -> None:
        """With the attributes the agent is listed with."""
        self._serial += 1
        scalars = (("cpus", cpus), ("mem", 64_000_000), ("disk", 64_000_000))
        offer = Offer(
            id=f"o{self._serial}",
            agent_id=agent,
            hostname=hostname or f"host-of-{agent}",
            ip="10.0.0.1",
            role="*",
            attributes=self.listed[agent].attributes,
            scalars=tuple((ResourceKey(name, "*"), amount) for name, amount in scalars),
            ranges=((ResourceKey("ports", "*"), (ports,)),),
            received_at=self.now,
        )
        self.turn(leased.OffersArrived(offers=(offer,)))

    def begin(self, bound: int = 1, **fields: Any) -> effects.Reply:
        return self.ask(requests.CreateDaemonset(daemonset=record(bound), version=version(**fields)))

    def change(self, bound: int = 1, **fields: Any) -> effects.Reply:
        return self.ask(requests.UpdateDaemonset(daemonset=record(bound), version=version(**fields)))

    def settle(self) -> None:
        """Everything that is staged starts, everything that is to end ends, and agents offer what they have."""
        for _ in range(50):
            self.offers()
            staged = [g for g in self.groups if not g.ended and not g.started and not g.killing_since]
            ending = [g for g in self.groups if not g.ended and g.killing_since and not g.unreachable_since]
            if not staged and not ending:
                return
            for group in staged:
                self.report(group, "RUNNING")
            for group in ending:
                self.report(group, "KILLED")
        raise AssertionError("does not come to rest")

    def set_agent(self, agent: str, **fields: Any) -> None:
        assert not self.ask(requests.SetAgent(agent=agent, **fields)).error

    def transaction(self, kind: str) -> Transaction:
        """The latest of this kind."""
        found = [t for t in self.core.state.transactions.values() if t.type == kind]
        return max(found, key=lambda t: int(t.id.rpartition("-")[2]))

    @property
    def daemonset(self) -> Daemonset:
        return self.core.state.daemonsets[KEY]

    @property
    def places(self) -> dict[str, TaskGroup]:
        """Taskgroups by agent; there is never more than one."""
        found = {group.agent_id: group for group in self.groups}
        assert len(found) == len(self.groups)
        return found

    def on(self, agent: str) -> TaskGroup:
        return self.places[agent]

    def records(self) -> Records:
        return [*super().records(), *self.core.state.daemonsets.values()]

    def succeed(self) -> Cluster:
        successor = Cluster(options=self.options, records=self.records())
        successor.now = max(self.now, successor.now)
        successor._serial = self._serial + 1000
        successor.listed = self.listed
        return successor


def record(bound: int = 1) -> Daemonset:
    return Daemonset(namespace="default", name="web", max_unavailable=bound)
