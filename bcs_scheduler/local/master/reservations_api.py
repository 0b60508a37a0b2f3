"""RESERVE_RESOURCES and UNRESERVE_RESOURCES of the operator API."""

from __future__ import annotations

from collections.abc import Iterable

from bcs_scheduler.local.errors import InvalidCall, InvalidResources
from bcs_scheduler.local.master.allocator import DEFAULT_REFUSAL
from bcs_scheduler.local.master.master import Master
from bcs_scheduler.local.master.operations import (
    Conversion,
    InvalidOperation,
    applied,
    described,
    reserved,
    unreserved,
)
from bcs_scheduler.local.objects import resources
from bcs_scheduler.local.objects.model import Agent
from bcs_scheduler.local.objects.resources import Amounts, sum_of
from bcs_scheduler.local.transport.http import response
from bcs_scheduler.mesos.proto import master_pb2
from bcs_scheduler.mesos.proto import mesos_pb2 as pb

Call = master_pb2.Call


class ReservationsApi:
    """Converts resources of an agent that no task uses. Offers with such resources are rescinded first."""

    def __init__(self, master: Master) -> None:
        self._master = master

    def reserve(self, call: Call) -> bytes:
        """RESERVE_RESOURCES: 202; 400 for a bad call; 409 if the agent does not have the resources free."""
        if not call.HasField("reserve_resources"):
            raise InvalidCall(400, "Failed to validate master::Call: Expecting 'reserve_resources' to be present")
        asked = call.reserve_resources
        _check(asked.resources)
        agent = self._agent(asked.agent_id)
        try:
            conversions = reserved(asked.resources, asked.source)
        except InvalidOperation as error:
            raise InvalidCall(400, f"Invalid RESERVE operation on agent {described(agent)}: {error}") from None
        return self._convert(agent, conversions)

    def unreserve(self, call: Call) -> bytes:
        """UNRESERVE_RESOURCES, likewise."""
        if not call.HasField("unreserve_resources"):
            raise InvalidCall(400, "Failed to validate master::Call: Expecting 'unreserve_resources' to be present")
        asked = call.unreserve_resources
        _check(asked.resources)
        agent = self._agent(asked.agent_id)
        try:
            conversions = unreserved(asked.resources)
        except InvalidOperation as error:
            raise InvalidCall(400, f"Invalid UNRESERVE operation: {error}") from None
        return self._convert(agent, conversions)

    def _agent(self, agent_id: pb.AgentID) -> Agent:
        agent = self._master.agents.get(agent_id.value)
        if agent is None:
            raise InvalidCall(400, "No agent found with specified ID")
        return agent

    def _convert(self, agent: Agent, conversions: list[Conversion]) -> bytes:
        """Rescinds one offer after the other until the resources are covered, as Mesos does: also those that were free
        already, because an allocation could be on its way."""
        offers = self._master.offers
        required = sum_of(consumed for consumed, _ in conversions)
        recovered = Amounts()
        for offer in list(agent.offers.values()):
            if not required.keys() & offer.amounts.keys():
                continue
            recovered = recovered + offer.amounts
            required = required.without(offer.amounts)
            framework, role, amounts = offer.framework, offer.role, offer.amounts
            offers.rescind(offer)
            self._master.allocator.refuse(framework, role, agent, amounts, DEFAULT_REFUSAL)
            if _covers(recovered, conversions):
                break
        try:
            free = applied(agent.free, conversions)
        except InvalidOperation as error:
            raise InvalidCall(409, str(error)) from None
        agent.free = free
        for consumed, converted in conversions:
            agent.convert(consumed, converted)
        offers.allocate_soon(agent)
        return response(202)


def _check(messages: Iterable[pb.Resource]) -> None:
    try:
        resources.parse(messages)
    except InvalidResources as error:
        raise InvalidCall(400, f"Failed to validate master::Call: {error}") from None


def _covers(amounts: Amounts, conversions: Iterable[Conversion]) -> bool:
    try:
        applied(amounts, conversions)
    except InvalidOperation:
        return False
    return True
