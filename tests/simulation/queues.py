"""Queues in worlds with the policy `session`: operators change them, and rules that hold of them.

I44  reclaim takes nothing from a queue that is not reclaimable
I45  an eviction has an event on both sides
I46  no launch takes a queue above its capability
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from bcs_scheduler.core.interface import effects, requests
from store.records import (
    DEFAULT_QUEUE,
    Limits,
    Namespace,
    Queue,
    Record,
    ReschedulePayload,
    TaskGroup,
    Transaction,
)
from store.records.definition import Amounts
from store.state.unit_of_work import Unit
from tests.simulation.driver import Term
from tests.simulation.operators import NAMESPACES
from tests.simulation.violation import Violation
from tests.simulation.world import World

NAMES = ("batch", "online")
Records = dict[tuple[str, str], Record]


class QueueOperators:
    """Operators who create, change and delete queues, and move namespaces between them."""

    def __init__(self, world: World, durable: Records) -> None:
        self.world = world
        self._durable = durable

    def ask(self, token: int, dry: bool) -> requests.Request:
        """One command at random."""
        world = self.world
        common: dict[str, Any] = {"token": token, "dry_run": dry, "cause": f"user-{token}"}
        outside = [name for name in NAMESPACES if ("namespace", name) not in self._durable]
        if outside and all(("queue", name) in self._durable for name in NAMES):
            # Each namespace begins with a queue of its own, so that the queues compete.
            queue_name = NAMES[NAMESPACES.index(outside[0])]
            return requests.PutNamespace(namespace=Namespace(name=outside[0], queue=queue_name), **common)
        if world.chance(0.2):
            name = world.pick(("", *NAMES, *NAMES))
            return requests.PutNamespace(namespace=Namespace(name=world.pick(NAMESPACES), queue=name), **common)
        if world.chance(0.15):
            return requests.DeleteQueue(name=world.pick(NAMES), **common)
        queue = Queue(
            name=world.pick((*NAMES, *NAMES, DEFAULT_QUEUE)),
            weight=world.pick((1, 1, 4, 8)),
            guarantee=Amounts(cpus=world.pick((0, 0, 400))),
            capability=Limits(cpus=world.pick((None, None, None, None, 2000, 4000))),
            reclaimable=world.chance(0.6),
        )
        return requests.PutQueue(queue=queue, **common)

    def repair(self, token: int) -> requests.Request | None:
        """The next change towards one queue without limits; None if nothing is to be changed."""
        common: dict[str, Any] = {"token": token, "cause": f"user-{token}"}
        for record in self._durable.values():
            if isinstance(record, Namespace) and record.queue:
                return requests.PutNamespace(namespace=Namespace(name=record.name), **common)
            if isinstance(record, Queue) and (record.guarantee != Amounts() or record.capability != Limits()):
                return requests.PutQueue(queue=Queue(name=record.name), **common)
        return None


class Queues:
    """The rules; called in worlds with the policy `session` only."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._evicted: dict[str, str] = {}
        """Victims of the present turn and their beneficiaries."""
        self._reported: set[tuple[str, str]] = set()
        """Keys and reasons of the events of the present turn."""

    # --- I44 --------------------------------------------------------------------------------------------------

    def evicted(self, before: Records, after: Records, victims: Iterable[TaskGroup]) -> None:
        """Judges the evictions of one unit. `victims`: as they were before."""
        lost: dict[str, list[TaskGroup]] = defaultdict(list)
        for group in victims:
            beneficiary = beneficiary_of(after, group)
            self._evicted[group.id] = beneficiary
            queue = queue_of(before, group.namespace)
            if queue != queue_of(before, beneficiary.partition("/")[0]):
                self.world.count("taskgroups reclaimed")
                lost[queue].append(group)
        for name, groups in lost.items():
            stored = before.get(("queue", name))
            loser = stored if isinstance(stored, Queue) else Queue(name=name)
            ids = [group.id for group in groups]
            if not loser.reclaimable:
                raise Violation("I44", f"queue {name} is not reclaimable and loses {', '.join(ids)}", *ids)

    # --- I45 --------------------------------------------------------------------------------------------------

    def decided(self, unit: Unit) -> None:
        """Notes the events of a unit."""
        self._reported |= {(line.key, line.reason) for line in unit.effects if isinstance(line, effects.LogLine)}

    def turned(self, term: Term, fresh: Iterable[str], judged: Callable[[str], bool]) -> None:
        """Judges the turn. `fresh`: applications with new placements. `judged`: roles whose queues are judged."""
        evicted, told = self._evicted, self._reported
        self._evicted, self._reported = {}, set()
        for victim, beneficiary in evicted.items():
            for key, reason in ((victim, "TaskGroupEvicted"), (beneficiary, "ApplicationPreempting")):
                if (key, reason) not in told:
                    raise Violation("I45", f"{victim} is evicted for {beneficiary} without {reason}", victim, key)
        self._capabilities_hold(term, fresh, judged)

    # --- I46 --------------------------------------------------------------------------------------------------

    def _capabilities_hold(self, term: Term, fresh: Iterable[str], judged: Callable[[str], bool]) -> None:
        state, mirror = term.core.state, term.mirror
        limited = {queue.name: most for queue in state.queues.values() if (most := queue.capability.cpus) is not None}
        names = defaultdict(set)
        for key in fresh:
            names[queue_of(mirror, key.partition("/")[0])].add(key)
        for name in limited.keys() & names.keys():
            if any(("daemonset", key) in mirror for key in names[name]):
                continue  # daemonsets do not wait for sessions
            planned: dict[str, int] = defaultdict(int)
            for demand, _ in term.core._offer_manager.placing._launcher.placements():
                if queue_of(mirror, demand.application.partition("/")[0]) == name:
                    planned[demand.role] += demand.request.cpus
            for role in {*planned, *(g.role for g in state.taskgroups.values() if g.application_key in names[name])}:
                if not judged(role):
                    continue
                had = _held(mirror, name, role) + planned[role]
                placed = {d.role for d, _ in term.core._offer_manager.placing._launcher.placements()}
                if role in placed and had > limited[name]:
                    words = f"queue {name} has {had} of at most {limited[name]} in role {role}"
                    raise Violation("I46", words, *names[name])
                self.world.count("queues with a limit launch")


def beneficiary_of(records: Records, group: TaskGroup) -> str:
    """The application for which a taskgroup is evicted; empty without a transaction that says so."""
    for one in records.values():
        if isinstance(one, Transaction) and one.active and one.taskgroup == group.id:
            return one.payload.beneficiary if isinstance(one.payload, ReschedulePayload) else ""
    return ""


def queue_of(records: Records, namespace: str) -> str:
    """Name of the queue of a namespace."""
    record = records.get(("namespace", namespace))
    name = record.queue if isinstance(record, Namespace) else ""
    return name if ("queue", name) in records else DEFAULT_QUEUE


def _held(records: Records, queue: str, role: str) -> int:
    """Thousandths of cores that the taskgroups of a queue hold for good."""
    return sum(
        one.resources.cpus
        for one in records.values()
        if isinstance(one, TaskGroup)
        and one.role == role
        and not (one.ended or one.killing_since or one.unreachable_since)
        and queue_of(records, one.namespace) == queue
    )
