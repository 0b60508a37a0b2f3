"""A core on the bench: commands, offers and reports go in by hand, the time is set by hand, effects are collected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar, cast

from bcs_scheduler.core.interface import cluster_manager, effects, inputs, leased, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import TICK, Core
from offers.model import Offer, ResourceKey
from store.records import Application, Record, TaskGroup, Transaction, Version
from store.records.definition import Amounts, Container
from transactions.rules.task_states import TaskState

START = 1_700_000_000.0
KEY = "default/web"
CLUSTER = "dc1.example.com"
"""Name of the Mesos cluster: with dots, as in a domain name."""
E = TypeVar("E", bound=effects.Effect)


TURNS = 300
"""Turns of a long wait in which nothing happens."""


class Lab:
    """Everything is durable at once. `out` holds the effects of the latest call."""

    def __init__(
        self,
        options: CoreOptions | None = None,
        records: Iterable[Record] = (),
        now: float = START,
        cluster: str = CLUSTER,
        elapsed: float | None = None,
        max_priority: int = 1_000_000_000,
    ) -> None:
        """`now`: Unix seconds by the clock of the host. `elapsed`: as in store.base.Term. `max_priority`: greatest
        priority of work in namespaces without one."""
        self.options = replace(options or CoreOptions(strict=True), max_priority=max_priority)
        self.core = Core(records, self.options, now, elapsed=elapsed)
        self.now = self.core.began.now
        self.out: list[effects.Effect] = []
        self._serial = 0
        self.turn(cluster_manager.Connected(framework_id="framework", cluster=cluster))

    # --- time and events --------------------------------------------------------------------------------------

    def turn(self, *batch: inputs.Input) -> list[effects.Effect]:
        units = self.core.turn(batch, self.now)
        self.out = [effect for unit in units for effect in unit.effects]  # type: ignore[misc]
        return self.out

    def wait(self, seconds: float) -> list[effects.Effect]:
        """Lets time pass, with every turn the core asks for. The pauses between them are longer in long waits."""
        end, seen, tick = self.now + seconds, list[effects.Effect](), max(TICK, seconds / TURNS)
        while self.now < end:
            self.now = min(max(self.core.next_wakeup(self.now, tick), self.now + 0.001), end)
            seen += self.turn()
        self.out = seen
        return seen

    def sent(self, kind: type[E]) -> list[E]:
        return [effect for effect in self.out if isinstance(effect, kind)]

    def ended(self) -> list[str]:
        """Ids of the tasks that the cluster manager was asked to end."""
        return [task for end in self.sent(cluster_manager.End) for task in end.tasks]

    def forced(self) -> list[tuple[str, str]]:
        """(taskgroup, agent id) of what the cluster manager was asked to end by force."""
        return [(end.taskgroup, end.agent_id) for end in self.sent(cluster_manager.End) if end.forced]

    # --- users ------------------------------------------------------------------------------------------------

    def ask(self, command: requests.Request) -> effects.Reply:
        self.turn(command)
        (reply,) = self.sent(effects.Reply)
        return reply

    def create(self, instances: int = 1, **fields: Any) -> effects.Reply:
        return self.ask(requests.CreateApplication(version=version(instances, **fields)))

    def scale(self, instances: int) -> effects.Reply:
        return self.ask(requests.ScaleApplication(namespace="default", name="web", instances=instances))

    def update(
        self, instances: int, *, part: int | None = None, bound: int | None = None, **fields: Any
    ) -> effects.Reply:
        wanted = version(instances, **fields)
        return self.ask(requests.UpdateApplication(version=wanted, instances=part, max_unavailable=bound))

    def delete(self, *, enforce: bool = False) -> effects.Reply:
        return self.ask(requests.DeleteApplication(namespace="default", name="web", enforce=enforce))

    def cancel(self, transaction: Transaction) -> effects.Reply:
        return self.ask(requests.CancelTransaction(id=transaction.id))

    # --- Mesos ------------------------------------------------------------------------------------------------

    def offer(
        self,
        agent: str = "agent-1",
        *,
        cpus: int = 16_000,
        ports: tuple[int, int] = (31000, 31099),
        hostname: str = "",
    ) -> None:
        offer = self.make_offer(agent, cpus=cpus, ports=ports, hostname=hostname)
        self.turn(leased.OffersArrived(offers=(offer,)))

    def make_offer(
        self, agent: str, *, cpus: int = 16_000, ports: tuple[int, int] = (31000, 31099), hostname: str = ""
    ) -> Offer:
        """An offer of a number of its own that nobody has sent yet."""
        self._serial += 1
        return Offer(
            id=f"o{self._serial}",
            agent_id=agent,
            hostname=hostname or f"host-of-{agent}",
            ip="10.0.0.1",
            role="*",
            attributes={"InnerIP": agent},
            scalars=(
                (ResourceKey("cpus", "*"), cpus),
                (ResourceKey("mem", "*"), 64_000_000),
                (ResourceKey("disk", "*"), 64_000_000),
            ),
            ranges=((ResourceKey("ports", "*"), (ports,)),),
            received_at=self.now,
        )

    def report(self, group: TaskGroup, state: str, *, tasks: Iterable[int] | None = None, **fields: Any) -> None:
        """The same update for all tasks of a taskgroup, or for some by number; each has a uuid. `state`: one of
        TaskState, or a name that the scheduler does not know."""
        self.turn(*self.reports(group, state, tasks=tasks, **fields))

    def reports(
        self, group: TaskGroup, state: str, *, tasks: Iterable[int] | None = None, **fields: Any
    ) -> list[cluster_manager.StatusUpdate]:
        """The updates that `report` sends."""
        batch = []
        for number, task in enumerate(group.tasks):
            if tasks is None or number in tasks:
                self._serial += 1
                uuid = f"u{self._serial}".encode()
                batch.append(
                    cluster_manager.StatusUpdate(
                        task_id=task.id, state=cast(TaskState, state), agent_id=group.agent_id, uuid=uuid, **fields
                    )
                )
        return batch

    def run(self) -> None:
        """Everything that is staged starts; everything that is to end is killed. Until nothing is left to do."""
        for _ in range(50):
            staged = [g for g in self.groups if not g.ended and not g.started and not g.killing_since]
            ending = [g for g in self.groups if not g.ended and g.killing_since]
            if not staged and not ending:
                return
            for group in staged:
                self.report(group, "RUNNING")
            for group in ending:
                self.report(group, "KILLED")
            self.offer()
        raise AssertionError("does not come to rest")

    # --- looking ----------------------------------------------------------------------------------------------

    @property
    def application(self) -> Application:
        return self.core.state.applications[KEY]

    @property
    def groups(self) -> list[TaskGroup]:
        return sorted(self.core.state.groups_of(KEY).values(), key=lambda group: group.index)

    def group(self, index: int = 0) -> TaskGroup:
        (found,) = [group for group in self.groups if group.index == index]
        return found

    def transaction(self, kind: str) -> Transaction:
        """The latest transaction of this kind."""
        found = [t for t in self.core.state.transactions.values() if t.type == kind]
        return max(found, key=lambda t: t.created_at * 1e9 + int(t.id.rpartition("-")[2]) % 1e9)

    def records(self) -> list[Record]:
        """All records, as a successor would load them."""
        return self.core.state.records()

    def succeed(self) -> Lab:
        """Another process takes over."""
        successor = Lab(self.options, self.records(), self.now)
        successor._serial = self._serial + 1000
        return successor


def version(instances: int = 1, tasks: int = 1, **fields: Any) -> Version:
    container = Container(command="serve", requests=Amounts(cpus=100, mem=32_000, disk=0))
    return Version(
        namespace="default",
        application="web",
        instances=instances,
        **{"containers": (container,) * tasks, **fields},
    )


def running(instances: int, options: CoreOptions | None = None, **fields: Any) -> Lab:
    """A lab with an application that runs."""
    lab = Lab(options)
    lab.offer()
    lab.create(instances, **fields)
    lab.run()
    assert lab.application.status == "Running"
    return lab
