"""Outstanding offers: when they are made, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from bcs_scheduler.local import resources
from bcs_scheduler.local.agent import Agent
from bcs_scheduler.local.allocator import Allocator, Grant
from bcs_scheduler.local.model import Framework, Offer
from bcs_scheduler.local.resources import Amounts
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.mesos.proto import scheduler_pb2

if TYPE_CHECKING:
    from bcs_scheduler.local.master import Master


class Offers:
    """`known`: by id. Allocates over all agents once per interval, and over those that changed shortly after."""

    def __init__(self, master: Master, allocator: Allocator, interval: float, delay: float) -> None:
        self._master = master
        self._allocator = allocator
        self._interval = interval
        self._delay = delay
        self._candidates: set[Agent] | None = set()
        """Agents to look at in the next allocation; None = all."""
        self._soon: asyncio.TimerHandle | None = None
        self._regular: asyncio.TimerHandle | None = None
        self._count = 0
        self.known: dict[str, Offer] = {}

    # --- allocation ---

    def start(self) -> None:
        self._regular = asyncio.get_running_loop().call_later(self._interval, self._every_interval)

    def stop(self) -> None:
        for timer in (self._soon, self._regular):
            if timer is not None:
                timer.cancel()

    def _every_interval(self) -> None:
        self.start()
        self._allocate(self._master.agents.values())

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
        self._allocate(self._master.agents.values() if candidates is None else candidates)

    def _allocate(self, agents: Iterable[Agent]) -> None:
        by_framework: dict[Framework, list[pb.Offer]] = {}
        for grant in self._allocator.allocate(self._master.frameworks.values(), agents):
            by_framework.setdefault(grant.framework, []).append(self._make(grant))
        for framework, offers in by_framework.items():
            event = scheduler_pb2.Event(type=scheduler_pb2.Event.OFFERS)
            event.offers.offers.extend(offers)
            framework.send(event)

    def _make(self, grant: Grant) -> pb.Offer:
        framework, role, agent, amounts = grant
        offer_id = f"{self._master.id}-O{self._count}"
        self._count += 1
        offer = Offer(offer_id, framework, agent, role, amounts)
        agent.take(amounts)
        agent.offers[offer_id] = framework.offers[offer_id] = self.known[offer_id] = offer
        return self.message(offer)

    def message(self, offer: Offer) -> pb.Offer:
        """As the framework sees it: without MULTI_ROLE there are no allocations."""
        framework, agent = offer.framework, offer.agent
        message = pb.Offer(hostname=agent.spec.hostname)
        message.id.value = offer.id
        message.framework_id.value = framework.id
        message.agent_id.value = agent.id
        message.resources.extend(resources.to_messages(offer.amounts, offer.role if framework.multi_role else ""))
        message.attributes.extend(agent.attributes)
        message.url.scheme = "http"
        message.url.address.hostname = agent.spec.hostname
        message.url.address.ip = agent.spec.ip
        message.url.address.port = agent.port
        message.url.path = "/slave(1)"
        if framework.multi_role:
            message.allocation_info.role = offer.role
        for framework_id, executor_id in agent.executors:
            if framework_id == framework.id:
                message.executor_ids.add(value=executor_id)
        if agent.unavailability is not None:
            message.unavailability.CopyFrom(agent.unavailability)
        return message

    # --- ends of an offer ---

    def remove(self, offer: Offer) -> None:
        """The offer is gone; its amounts stay taken."""
        del self.known[offer.id]
        del offer.framework.offers[offer.id]
        del offer.agent.offers[offer.id]

    def recover(self, framework: Framework, role: str, agent: Agent, amounts: Amounts, refuse_seconds: float) -> None:
        """What is left of accepted offers is free again, with a filter."""
        agent.give_back(amounts)
        self._allocator.refuse(framework, role, agent, amounts, refuse_seconds)
        self.allocate_soon(agent)

    def discard(self, offer: Offer) -> None:
        """Ends the offer without telling the framework."""
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
