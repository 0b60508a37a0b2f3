"""Outstanding offers: when they are made, and how they end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from bcs_scheduler.local.master.allocator import Allocator, Grant
from bcs_scheduler.local.master.registry import Registry
from bcs_scheduler.local.objects.model import Agent, Framework, Offer
from bcs_scheduler.local.objects.reservations import to_old_format
from bcs_scheduler.local.objects.resources import Amounts
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.mesos.proto import scheduler_pb2

SLICE = 250
"""Agents that are allocated at once, and offered in one event: some milliseconds."""


class Offers:
    """`known`: by id. Allocates over all agents once per interval, and over those that changed shortly after."""

    def __init__(self, registry: Registry, master_id: str, allocator: Allocator, interval: float, delay: float) -> None:
        self._registry = registry
        self._master_id = master_id
        self._allocator = allocator
        self._interval = interval
        self._delay = delay
        self._candidates: set[Agent] | None = set()
        """Agents to look at in the next allocation; None = all."""
        self._walk: deque[Agent] = deque()
        """Agents that the present allocation has not examined."""
        self._next: asyncio.Handle | None = None
        """The next slice of that allocation."""
        self._soon: asyncio.TimerHandle | None = None
        self._regular: asyncio.TimerHandle | None = None
        self._count = 0
        self.known: dict[str, Offer] = {}

    # --- allocation ---

    def start(self) -> None:
        self._regular = asyncio.get_running_loop().call_later(self._interval, self._every_interval)

    def stop(self) -> None:
        for handle in (self._soon, self._regular, self._next):
            if handle is not None:
                handle.cancel()

    def _every_interval(self) -> None:
        self.start()
        if self._next is None:  # else the allocation takes longer than an interval
            self._begin(self._registry.agents.values())

    def allocate_soon(self, agent: Agent | None = None) -> None:
        """Something became free on this agent; None: anything may have changed."""
        if agent is None:
            self._candidates = None
        elif self._candidates is not None:
            self._candidates.add(agent)
        if self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(self._delay, self._allocate_candidates)

    def _allocate_candidates(self) -> None:
        self._soon = None
        candidates, self._candidates = self._candidates, set()
        if candidates is None:
            self._walk.clear()  # also agents that have been looked at may be wanted now
        self._begin(self._registry.agents.values() if candidates is None else candidates)

    def _begin(self, agents: Iterable[Agent]) -> None:
        self._walk.extend(agents)
        if self._next is None:
            self._go_on()

    def _go_on(self) -> None:
        """Allocates over a slice of the agents. Calls are served before the next one."""
        self._next = None
        self._allocate([self._walk.popleft() for _ in range(min(SLICE, len(self._walk)))])
        if self._walk:
            self._next = asyncio.get_running_loop().call_soon(self._go_on)

    def _allocate(self, agents: Iterable[Agent]) -> None:
        by_framework: dict[Framework, scheduler_pb2.Event] = {}
        for grant in self._allocator.allocate(self._registry.frameworks.values(), agents):
            event = by_framework.get(grant.framework)
            if event is None:
                event = by_framework[grant.framework] = scheduler_pb2.Event(type=scheduler_pb2.Event.OFFERS)
            self.fill(event.offers.offers.add(), self._make(grant))
        for framework, event in by_framework.items():
            framework.send(event)

    def _make(self, grant: Grant) -> Offer:
        framework, role, agent, amounts = grant
        offer_id = f"{self._master_id}-O{self._count}"
        self._count += 1
        offer = Offer(offer_id, framework, agent, role, amounts)
        agent.take(amounts)
        agent.offers[offer_id] = framework.offers[offer_id] = self.known[offer_id] = offer
        return offer

    def fill(self, message: pb.Offer, offer: Offer) -> None:
        """Makes an empty message the offer as its framework sees it: without MULTI_ROLE there are no allocations."""
        framework, agent = offer.framework, offer.agent
        message.hostname = agent.spec.hostname
        message.id.value = offer.id
        message.framework_id.value = framework.id
        message.agent_id.value = agent.id
        resources = offer.amounts.messages(offer.role if framework.multi_role else "")
        if not framework.refinement:
            resources = tuple(old for one in resources if (old := to_old_format(one)) is not None)
        message.resources.extend(resources)
        message.attributes.extend(agent.attributes)
        message.url.scheme = "http"
        message.url.address.hostname = agent.spec.hostname
        message.url.address.ip = agent.spec.ip
        message.url.address.port = agent.port
        message.url.path = "/slave(1)"
        if framework.multi_role:
            message.allocation_info.role = offer.role
        for executor in agent.executors.values():
            if executor.framework is framework and not executor.is_command:
                message.executor_ids.add(value=executor.id)
        if agent.unavailability is not None:
            message.unavailability.CopyFrom(agent.unavailability)

    # --- ends of an offer ---

    def remove(self, offer: Offer) -> None:
        """The offer is gone; its amounts stay taken."""
        del self.known[offer.id]
        del offer.framework.offers[offer.id]
        del offer.agent.offers[offer.id]

    def recover(self, framework: Framework, role: str, agent: Agent, amounts: Amounts, refuse_seconds: float) -> None:
        """Frees the remainder of accepted offers, with a filter."""
        agent.give_back(amounts)
        self._allocator.refuse(framework, role, agent, amounts, refuse_seconds)
        self.allocate_soon(agent)

    def discard(self, offer: Offer) -> None:
        """Ends the offer without a message to the framework."""
        self.remove(offer)
        offer.agent.give_back(offer.amounts)
        self.allocate_soon(offer.agent)

    def rescind(self, offer: Offer) -> None:
        event = scheduler_pb2.Event(type=scheduler_pb2.Event.RESCIND)
        event.rescind.offer_id.value = offer.id
        self.discard(offer)
        offer.framework.send(event)

    def decline(self, framework: Framework, ids: Iterable[str], refuse_seconds: float) -> None:
        """Offers that are not valid any more are passed over."""
        for offer_id in ids:
            offer = framework.offers.get(offer_id)
            if offer is not None:
                self.remove(offer)
                self.recover(framework, offer.role, offer.agent, offer.amounts, refuse_seconds)
