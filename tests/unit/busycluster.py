"""A lab whose agents offer their free cores every second, and whose taskgroups end after their time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from bcs_scheduler.core.interface import leased, requests
from bcs_scheduler.core.options import CoreOptions
from store.records import Record, TaskGroup, Version
from store.records.definition import Amounts, Container, RestartPolicy
from tests.unit.lab import Lab, version


class BusyCluster:
    """Cores are thousandths. Each name of an application is used once."""

    def __init__(self, options: CoreOptions, agents: Mapping[str, int], records: Iterable[Record] = ()) -> None:
        """`agents`: the cores of each agent."""
        self.lab, self.agents = Lab(options, records), dict(agents)
        self.takes_room = False
        """Another framework takes the room of taskgroups that are ended."""
        self.is_silent = False
        """The cluster manager makes no offers."""
        self.lasts: dict[str, float] = {}
        """Seconds that the taskgroups of an application run; missing: without end."""
        self.ends_after: dict[str, float] = {}
        """Seconds in which the taskgroups of an application end; missing: at once."""
        self.started_at: dict[str, float] = {}
        """The moment at which each taskgroup was launched, by id."""

    def create(
        self, name: str, cores: int, instances: int = 1, namespace: str = "default", lasts: float = 0.0, **fields: Any
    ) -> None:
        """An application. `lasts`: seconds that its taskgroups run; 0: without end."""
        if lasts:
            fields["restart_policy"] = RestartPolicy(policy="OnFailure")
            self.lasts[f"{namespace}/{name}"] = lasts
        reply = self.lab.ask(requests.CreateApplication(version=_version(name, cores, instances, namespace, **fields)))
        assert not reply.error, reply

    def update(self, name: str, cores: int, instances: int = 1, namespace: str = "default") -> None:
        """An application gets another version."""
        reply = self.lab.ask(requests.UpdateApplication(version=_version(name, cores, instances, namespace)))
        assert not reply.error, reply

    def groups(self, name: str, namespace: str = "default") -> list[TaskGroup]:
        """The taskgroups of an application that have not ended."""
        found = self.lab.core.state.groups_of(f"{namespace}/{name}").values()
        return [group for group in found if not group.ended]

    @property
    def evicted(self) -> list[TaskGroup]:
        """The taskgroups that are being ended."""
        return [one for one in self.lab.core.state.taskgroups.values() if one.killing_since and not one.ended]

    def succeed(self) -> None:
        """Another leader takes over."""
        self.lab = self.lab.succeed()

    def second(self) -> None:
        """Lets a second pass: agents offer what is free, what was launched starts, and what is over ends."""
        lab = self.lab
        for group in list(lab.core.state.taskgroups.values()):
            if group.ended:
                continue
            began = self.started_at.setdefault(group.id, lab.now)
            lasts = self.lasts.get(group.application_key)
            if group.killing_since:
                if lab.now < group.killing_since + self.ends_after.get(group.application_key, 0.0):
                    continue
                lab.report(group, "KILLED")
                self.agents[group.agent_id] -= group.resources.cpus if self.takes_room else 0
            elif not group.started:
                lab.report(group, "RUNNING")
            elif lasts is not None and lab.now >= began + lasts:
                lab.report(group, "FINISHED")
        rest = dict(self.agents)
        for group in lab.core.state.taskgroups.values():
            if not group.ended:
                rest[group.agent_id] -= group.resources.cpus
        for offer in lab.core.turn_context.pool.hand.all():
            rest[offer.agent_id] -= sum(amount for key, amount in offer.scalars if key.name == "cpus")
        assert min(rest.values()) >= 0, rest
        offers = tuple(lab.make_offer(name, cpus=amount) for name, amount in rest.items() if amount)
        if offers and not self.is_silent:
            lab.turn(leased.OffersArrived(offers=offers))
        lab.wait(1.0)

    def seconds(self, number: int) -> None:
        """Lets so many seconds pass."""
        for _ in range(number):
            self.second()


def _version(name: str, cores: int, instances: int, namespace: str, **fields: Any) -> Version:
    container = Container(command="x", requests=Amounts(cpus=cores, mem=32_000, disk=0))
    wanted = version(instances, containers=(container,), **fields)
    return msgspec.structs.replace(wanted, namespace=namespace, application=name)
