"""A gateway to test the API with: a bare core without store and Mesos, and an agent to place taskgroups on."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import msgspec

from bcs_scheduler.core.interface.cluster_manager import Connected, StatusUpdate
from bcs_scheduler.core.interface.effects import Changed, EventsRecorded, Reply
from bcs_scheduler.core.interface.inputs import Input
from bcs_scheduler.core.interface.leased import OffersArrived
from bcs_scheduler.core.interface.requests import Request
from bcs_scheduler.core.interface.unknown import UnknownTaskGroups
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.hierarchy.figures import TreeFigures
from bcs_scheduler.core.placement.queue_accounts import QueueFigures
from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.leadership.gateway import Check, NotLeading, Role
from bcs_scheduler.leadership.hub import Hub
from bcs_scheduler.leadership.items import EVENTS, Item
from offers.agents import ListedAgent
from offers.model import DecidedBy, Diagnosis, Offer, ResourceKey
from store.records import Record
from store.state import State
from transactions.rules.task_states import TaskState

DRY_RUN_TURNS = 20
"""Turns that a dry run takes at most."""


class CoreGateway:
    """Commands are carried out at once by a core without store and Mesos; every change counts as durable.

    `refusal` is raised by the next calls instead, `silent` leaves commands unanswered, as
    if they waited to be begun, or, with `begun`, as if the store did not take what they did.
    """

    def __init__(
        self,
        records: list[Record] | None = None,
        options: CoreOptions | None = None,
        max_priority: int = 1_000_000_000,
    ) -> None:
        options = replace(options or CoreOptions(strict=True), max_priority=max_priority)
        self.core = Core(records or [], options, time.time())
        self.commands: list[Request] = []
        self.refusal: Exception | None = None
        self.silent = False
        self.begun = False
        self.withdrawn: list[Future[Reply]] = []
        self.listed: list[ListedAgent] = []
        self.awaited: set[str] | None = set()
        """Names of agents that the master waits for; None = it has not listed any agents yet."""
        self.master = ""
        self.ready = [Check("store", True, "connected")]
        self._role: Role = "master"
        self._leader: str | None = "http://127.0.0.1:1"
        self.follow = Hub(state=self.core.state)
        self._lock = threading.Lock()
        self._tokens = itertools.count(1)
        self._unanswered: dict[int, Future[Reply]] = {}
        self._offered: dict[int, tuple[float, float]] = {}

    def stand_by(self, leader: str | None) -> None:
        self._role, self._leader = "slave", leader

    def lead(self) -> None:
        self._role, self._leader = "master", "http://127.0.0.1:1"

    def obey(self) -> None:
        """Agents that do at once what they are told: what is to end has ended, everything else runs."""
        self.feed(
            *(
                StatusUpdate(
                    task_id=task.id,
                    state=TaskState.KILLED if group.killing_since else TaskState.RUNNING,
                    agent_id=group.agent_id,
                    executor_id=group.id,
                    uuid=b"u",
                )
                for group in list(self.core.state.taskgroups.values())
                if not group.ended
                for task in group.tasks
            )
        )

    def feed(self, *events: Input, now: float | None = None) -> list[object]:
        """Effects that left. `now`: Unix seconds; None: the time of the clock."""
        with self._lock:
            # All offers that come have come: work that is to be spread waits for no others, however slow the test is.
            self.core.turn_context.offers_until = 0.0
            units = self.core.turn(events, time.time() if now is None else now)
            left = [effect for unit in units for effect in unit.effects]
            self.follow.publish([Item(e.kind, e.key, e.record) for e in left if isinstance(e, Changed)])
            told = [h for e in left if isinstance(e, EventsRecorded) for h in e.events]
            self.follow.publish([Item(EVENTS, "", event, event.number) for event in told])
            self.follow.touch(change for unit in units for change in unit.changes)
            replies = [(self._unanswered.pop(e.token, None), e) for e in left if isinstance(e, Reply)]
        for future, reply in replies:
            if future is not None:
                future.set_result(reply)
        return left

    # --- gateway ----------------------------------------------------------------------------------------------

    def role(self) -> Role:
        return self._role

    def leader_url(self) -> str | None:
        return self._leader

    def state(self) -> State:
        if self.refusal is not None:
            raise self.refusal
        return self.core.state

    def age(self) -> float | None:
        return 0.4 if self._role == "slave" else None

    def submit(self, command: Request) -> Future[Reply]:
        if self.refusal is not None:
            raise self.refusal
        self.commands.append(command)
        future: Future[Reply] = Future()
        if not self.silent:
            token = next(self._tokens)
            self._unanswered[token] = future
            self.feed(msgspec.structs.replace(command, token=token))
            if not future.done() and self._offered:  # a dry run that waits for offers, and has asked for them
                self.feed(
                    OffersArrived(offers=tuple(make_offer(agent, *free) for agent, free in self._offered.items()))
                )
            if getattr(command, "dry_run", False):
                self._wait_out(future)
        return future

    def _wait_out(self, future: Future[Reply]) -> None:
        """Passes the time in which a dry run waits for offers, and the turns that it takes."""
        now = time.time()
        for _ in range(DRY_RUN_TURNS):
            if future.done():
                return
            now = self.core.next_wakeup(now)
            self.feed(now=now)

    def withdraw(self, future: Future[Reply]) -> bool:
        if not self.begun:
            self.withdrawn.append(future)
        return not self.begun

    def hub(self) -> Hub:
        if self._role != "master":
            raise NotLeading(self._leader)
        return self.follow

    def offers(self) -> list[Offer]:
        return self.core.offers()

    def unknown_tasks(self) -> UnknownTaskGroups:
        return self.core.unknown_tasks.listed()

    def agents(self) -> list[ListedAgent]:
        return self.listed

    def awaits_agent(self, name: str) -> bool:
        return self.awaited is None or name in self.awaited

    def partitions(self) -> list[DecidedBy]:
        return self.core.turn_context.queues.partitions()

    def queue_tree(self, partition: str) -> TreeFigures | None:
        return self.core.turn_context.queues.tree(partition)

    def queues(self) -> list[QueueFigures]:
        return self.core.turn_context.queues.figures()

    def mesos_master(self) -> str:
        return self.master

    def diagnosis(self, transaction_id: str) -> Diagnosis | None:
        return self.core.diagnosis(transaction_id)

    def checks(self) -> list[Check]:
        return self.ready

    def now(self) -> float:
        return time.time()

    def metrics(self) -> bytes:
        return b"bkbcs_scheduler_up 1\n"

    # --- a cluster --------------------------------------------------------------------------------------------

    def connect(self) -> None:
        self.feed(Connected(framework_id="framework-1", cluster="demo"))

    def offer(self, agent: int = 1, cpus: float = 8, mem: float = 8192) -> None:
        """An offer of agent-N (host-N, 10.0.0.N, zone zN)."""
        self._offered[agent] = (cpus, mem)
        self.feed(OffersArrived(offers=(make_offer(agent, cpus, mem),)))
        name = f"agent-{agent}"
        self.listed = [known for known in self.listed if known.id != name] + [listed_agent(agent, cpus, mem)]

    def report(self, state: str, application: str) -> None:
        """The same status for every task of the application (``namespace/name``)."""
        groups = list(self.core.state.groups_of(application).values())
        updates = [
            StatusUpdate(
                task_id=task.id, state=TaskState(state), agent_id=group.agent_id, executor_id=group.id, uuid=b"u"
            )
            for group in groups
            for task in group.tasks
        ]
        self.feed(*updates)

    def report_taskgroup(self, state: str, taskgroup: str) -> None:
        """The same status for every task of one taskgroup."""
        group = self.core.state.taskgroups[taskgroup]
        self.feed(
            *(
                StatusUpdate(
                    task_id=task.id, state=TaskState(state), agent_id=group.agent_id, executor_id=group.id, uuid=b"u"
                )
                for task in group.tasks
            )
        )


def make_offer(agent: int, cpus: float, mem: float) -> Offer:
    scalars = {"cpus": cpus, "mem": mem, "disk": 100_000.0}
    return Offer(
        id=f"offer-{agent}-{time.monotonic_ns()}",
        agent_id=f"agent-{agent}",
        hostname=f"host-{agent}",
        ip=f"10.0.0.{agent}",
        role="*",
        attributes={"InnerIP": f"10.0.0.{agent}", "zone": f"z{agent}", "slots": 4.0},
        scalars=tuple((ResourceKey(name, "*"), round(amount * 1000)) for name, amount in scalars.items()),
        ranges=((ResourceKey("ports", "*"), ((31000, 32000),)),),
        received_at=time.time(),
    )


def listed_agent(agent: int, cpus: float, mem: float) -> ListedAgent:
    """As bcs_scheduler.mesos lists agents."""
    return ListedAgent(
        id=f"agent-{agent}",
        hostname=f"host-{agent}",
        ip=f"10.0.0.{agent}",
        port=5051,
        active=True,
        attributes={"InnerIP": f"10.0.0.{agent}", "zone": f"z{agent}", "slots": 4.0},
        total={"cpus": round(cpus * 1000), "mem": round(mem * 1000), "disk": 100_000_000},
        allocated={},
        ports=[(31000, 32000)],
        registered_time=1_700_000_000.0,
    )


def document(name: str = "web", namespace: str = "shop", instance: int = 2, **container: Any) -> dict[str, Any]:
    """A small application: one container with a random port."""
    return {
        "apiVersion": "v4",
        "kind": "application",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "instance": instance,
            "template": {
                "spec": {
                    "networkMode": "HOST",
                    "containers": [
                        {
                            "command": "server",
                            "ports": [{"name": "http", "protocol": "http"}],
                            "resources": {"limits": {"cpu": "0.1", "memory": "32"}},
                            **container,
                        }
                    ],
                }
            },
        },
    }
