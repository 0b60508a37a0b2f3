"""RESERVE and UNRESERVE: checks, the conversion of resources, and the feedback to frameworks that ask for it.

The complaints are those of Mesos (src/master/validation.cpp of Apache Mesos 1.11).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bcs_scheduler.local.errors import InvalidResources
from bcs_scheduler.local.objects import reservations, resources
from bcs_scheduler.local.objects.model import Agent, Framework
from bcs_scheduler.local.objects.resources import Amounts
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.mesos.proto import scheduler_pb2

log = logging.getLogger(__name__)

Operation = pb.Offer.Operation


class InvalidOperation(Exception):
    """An operation that is dropped; the message says why."""


class Conversion(NamedTuple):
    """`consumed` becomes `converted`: the same amounts under other reservations."""

    consumed: Amounts
    converted: Amounts


def is_conversion(operation: Operation) -> bool:
    """True for the operations of this module."""
    return operation.type in (Operation.RESERVE, Operation.UNRESERVE)


def of_framework(operation: Operation, framework: Framework, agent: Agent, role: str) -> list[Conversion]:
    """The conversions of an operation of an ACCEPT with offers of this role. Raises InvalidOperation."""
    if operation.type == Operation.RESERVE and not operation.HasField("reserve"):
        raise InvalidOperation(
            "Operation attempted with invalid resources: A RESERVE offer operation must have the "
            "Offer.Operation.reserve field set."
        )
    if operation.type == Operation.UNRESERVE and not operation.HasField("unreserve"):
        raise InvalidOperation(
            "Operation attempted with invalid resources: An UNRESERVE offer operation must have the "
            "Offer.Operation.unreserve field set."
        )
    messages = operation.reserve.resources if operation.type == Operation.RESERVE else operation.unreserve.resources
    try:
        resources.parse(messages)
        if operation.reserve.source:
            raise InvalidResources("Reservation updates are not yet implemented for the scheduler API.")
    except InvalidResources as error:
        raise InvalidOperation(f"Operation attempted with invalid resources: {error}") from None
    for message in messages:
        if not message.HasField("allocation_info"):
            message.allocation_info.role = role
    try:
        if operation.type == Operation.RESERVE:
            principal = framework.info.principal if framework.info.HasField("principal") else None
            return reserved(messages, (), principal, framework.roles)
        return unreserved(messages)
    except InvalidOperation as error:
        raise InvalidOperation(f"{error}; on agent {described(agent)}") from None


def reserved(
    messages: Sequence[pb.Resource],
    source: Sequence[pb.Resource],
    principal: str | None = None,
    roles: Sequence[str] | None = None,
) -> list[Conversion]:
    """The conversions of RESERVE. `source`: the resources with the reservations that are replaced; empty: a reservation
    is added. `roles`: those of the framework; None: an operator reserves. Raises InvalidOperation."""
    target = _parsed(messages)
    for message in messages:
        _check_reservation(message, principal, roles)
    if not source:
        return [Conversion(target.restacked(_popped), target)]
    consumed = _parsed(source, "source")
    for name, given in (("source", source), ("resources", messages)):
        if len({reservations.stack_of(one) for one in given}) > 1:
            raise InvalidOperation(f"Invalid {name}: Mixed reservations are not supported")
    before, after = consumed.restacked(_unreserved), target.restacked(_unreserved)
    if before != after:
        raise InvalidOperation(
            f"Source and target resources should refer to identical resource quantities: {before} vs. {after}"
        )
    return [Conversion(consumed, target)]


def unreserved(messages: Iterable[pb.Resource]) -> list[Conversion]:
    """The conversions of UNRESERVE: each removes one reservation. Raises InvalidOperation."""
    _parsed(messages)
    conversions = []
    for message in messages:
        amounts = _dynamic(message)
        conversions.append(Conversion(amounts, amounts.restacked(_popped)))
    return conversions


def applied(amounts: Amounts, conversions: Iterable[Conversion], role: str = "") -> Amounts:
    """The amounts after the conversions. `role`: the role to which they are allocated, for the message. Raises
    InvalidOperation if something that is to be converted is not there."""
    for consumed, converted in conversions:
        if not amounts.contains(consumed):
            raise InvalidOperation(f"{amounts.shown(role)} does not contain {consumed.shown(role)}")
        amounts = amounts - consumed + converted
    return amounts


def described(agent: Agent) -> str:
    """As Mesos names agents in messages."""
    return f"{agent.id} at {agent.pid} ({agent.spec.hostname})"


# --- feedback ---


def finished(framework: Framework, operation: Operation, agent: Agent) -> None:
    """The operation is done. Nothing is said if the framework has not asked for feedback by an id."""
    if operation.HasField("id"):
        status = pb.OperationStatus(operation_id=operation.id, state=pb.OPERATION_FINISHED)
        status.uuid.value = os.urandom(16)
        status.agent_id.value = agent.id
        framework.operations[status.uuid.value] = status
        _send(framework, status)


def dropped(framework: Framework, operation: Operation, message: str) -> None:
    """The operation is refused. Without an id the framework does not hear of it, as with Mesos."""
    log.warning("operation %s is dropped: %s", Operation.Type.Name(operation.type), message)
    if operation.HasField("id"):
        _send(framework, pb.OperationStatus(operation_id=operation.id, state=pb.OPERATION_ERROR, message=message))


def resend(framework: Framework) -> None:
    """Sends the statuses again that the framework has not acknowledged, after a new subscription."""
    for status in framework.operations.values():
        _send(framework, status)


def _send(framework: Framework, status: pb.OperationStatus) -> None:
    event = scheduler_pb2.Event(type=scheduler_pb2.Event.UPDATE_OPERATION_STATUS)
    event.update_operation_status.status.CopyFrom(status)
    framework.send(event)


# --- checks ---


def _parsed(messages: Iterable[pb.Resource], name: str = "resources") -> Amounts:
    try:
        return resources.parse(messages)
    except InvalidResources as error:
        raise InvalidOperation(f"Invalid {name}: Invalid resources: {error}") from None


def _dynamic(message: pb.Resource) -> Amounts:
    """The amounts of one message, which must be dynamically reserved."""
    if not reservations.is_dynamic(reservations.stack_of(message)):
        raise InvalidOperation(f"Resource {_shown(message)} is not dynamically reserved")
    return resources.parse([message])


def _check_reservation(message: pb.Resource, principal: str | None, roles: Sequence[str] | None) -> None:
    _dynamic(message)
    last = reservations.stack_of(message)[-1]
    if principal is not None:
        if last.principal is None:
            raise InvalidOperation(
                f"A reserve operation was attempted by principal '{principal}', but there is a reserved resource in "
                "the request with no principal set"
            )
        if last.principal != principal:
            raise InvalidOperation(
                f"A reserve operation was attempted by authenticated principal '{principal}', which does not match a "
                f"reserved resource in the request with principal '{last.principal}'"
            )
    if roles is None:
        if message.HasField("allocation_info"):
            raise InvalidOperation(
                "A reserve operation was attempted with an allocated resource, but the operator API only allows "
                "reservations to be made to unallocated resources"
            )
        return
    allocated = message.allocation_info.role
    if allocated != last.role:
        raise InvalidOperation(
            f"A reserve operation was attempted for a resource with role '{last.role}', but the resource was allocated "
            f"to role '{allocated}'"
        )
    if allocated not in roles:
        raise InvalidOperation(
            f"A reserve operation was attempted for a resource allocated to role '{allocated}', but the framework only "
            f"has roles '{{ {', '.join(roles)} }}'"
        )


def _shown(message: pb.Resource) -> str:
    role = message.allocation_info.role if message.HasField("allocation_info") else ""
    return resources.parse([message]).shown(role)


_Restack = Callable[[reservations.Stack], reservations.Stack]
_popped: _Restack = lambda stack: stack[:-1]  # noqa: E731
_unreserved: _Restack = lambda stack: reservations.UNRESERVED  # noqa: E731
