"""The vocabulary of standing capacity. Everything here is an immutable value.

A unit is a thing that is placed as a whole: a taskgroup, or a unit of another program. No name of a unit is ever used
for a second one. Amounts are in the units of their dimensions (offers.dimensions).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from offers.dimensions import Amounts
from offers.host_ports import HostPort
from offers.model import Attribute, Provisional, Ranges, Unit
from offers.names import name_of
from offers.rules.taints import Taint

__all__ = ["Holding", "Kind", "Node", "Nomination", "Provisional", "Sending", "Unit", "UnitClaim", "User"]


class Node(NamedTuple):
    """An agent that is always there. Its name is its identity: users refer to the agent by that name."""

    name: str
    allocatable: Amounts
    """Total amounts that units may use; a dimension that is not named has 0."""
    attributes: Mapping[str, Attribute] = {}
    taints: tuple[Taint, ...] = ()
    """Taints in the order in which diagnoses look at them. Every state that keeps units off the agent (cordoned, not
    ready) is a taint."""
    ip: str = ""
    ports: Ranges = ()
    """Port numbers that may be drawn at random, or requested for any protocol. Ports of one protocol
    (offers.model.ResourceRequest.host_ports) need not be in here."""

    @property
    def key(self) -> str:
        """The key by which operators name the agent: its InnerIP attribute, else its address, else its name."""
        return name_of(self.attributes, self.ip, self.name)


class User(NamedTuple):
    """A unit that was seen on an agent. It uses its amounts until it is gone, however it ends."""

    unit: str
    node: str
    amounts: Amounts
    ports: tuple[HostPort, ...] = ()
    ours: bool = True
    """False: another program placed the unit, and this scheduler must not end it."""
    terminating: bool = False
    """True if the unit has been asked to end."""


class Sending(Enum):
    """The progress of a claim on its way to the cluster manager."""

    ASSUMED = "assumed"
    """The match has made it; nothing has left."""
    SENT = "sent"
    """The request has left. Only the cluster manager knows whether it was carried out."""
    ANSWERED = "answered"
    """The cluster manager has agreed. The unit has not been seen yet."""


class UnitClaim(NamedTuple):
    """The resources that a unit is going to use on an agent. `decision` distinguishes successive claims of one unit."""

    unit: Unit
    node: str
    amounts: Amounts
    ports: tuple[HostPort, ...]
    decision: int
    sending: Sending = Sending.ASSUMED
    asked_at: float = 0.0
    """Unix time at which the request left, or at which the unit was asked for last; 0.0 = nothing has left."""


class Nomination(NamedTuple):
    """Room on an agent that is kept for a unit until it is placed. A nomination is counted only while the unit has
    neither a claim nor a place."""

    unit: str
    node: str
    amounts: Amounts
    ports: tuple[HostPort, ...] = ()


class Kind(Enum):
    """The ways in which the resources of a unit are counted."""

    OURS = "ours"
    FOREIGN = "foreign"
    TERMINATING = "terminating"
    """A unit of this scheduler or of another program that still exists and is ending."""
    CLAIMED = "claimed"
    NOMINATED = "nominated"


class Holding(NamedTuple):
    """The resources that one unit holds, and the agent on which it holds them."""

    kind: Kind
    node: str
    amounts: Amounts
    ports: tuple[HostPort, ...]
