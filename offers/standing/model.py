"""The vocabulary of standing capacity. Everything here is an immutable value.

A unit is whatever is placed as a whole: a taskgroup, or something that others have made. No name of a unit is ever used
for a second one. Amounts are in the units of their dimensions (offers.dimensions).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import Enum
from typing import NamedTuple

from offers.dimensions import Amounts
from offers.hostports import HostPort
from offers.model import Attribute, Ranges
from offers.taints import Taint


class Node(NamedTuple):
    """An agent that is always there. Its name is its identity: who uses it is known by that name."""

    name: str
    allocatable: Amounts
    """What units may use in all; a dimension that is not named has 0."""
    attributes: Mapping[str, Attribute] = {}
    taints: tuple[Taint, ...] = ()
    """In the order in which diagnoses look at them. Whatever keeps units off the agent (it is cordoned, not ready) is a
    taint."""
    ip: str = ""
    ports: Ranges = ()
    """Port numbers that may be drawn at random, or asked for whatever the protocol. Ports of one protocol
    (offers.model.Need.host_ports) need not be in here."""

    @property
    def key(self) -> str:
        """How operators name the agent: its InnerIP attribute, else its address, else its name."""
        value = self.attributes.get("InnerIP")
        return value if isinstance(value, str) and value else self.ip or self.name


class Provisional(NamedTuple):
    """Name of a unit between the match and the moment at which its own name is known."""

    demand: str
    slot: Hashable


Unit = str | Provisional


class User(NamedTuple):
    """A unit that was seen on an agent. It uses its amounts until it is gone, however it ends."""

    unit: str
    node: str
    amounts: Amounts
    ports: tuple[HostPort, ...] = ()
    ours: bool = True
    """False: placed by somebody else, and not ours to end."""
    terminating: bool = False
    """It has been told to end."""


class Sending(Enum):
    """How far a claim has come on its way to the cluster manager."""

    ASSUMED = "assumed"
    """The match has made it; nothing has left."""
    SENT = "sent"
    """The request has left. Only the cluster manager knows whether it was carried out."""
    ANSWERED = "answered"
    """The cluster manager has agreed. The unit has not been seen yet."""


class UnitClaim(NamedTuple):
    """What a unit will use on an agent. `decision` tells the claims of one unit apart that follow each other."""

    unit: Unit
    node: str
    amounts: Amounts
    ports: tuple[HostPort, ...]
    decision: int
    sending: Sending = Sending.ASSUMED
    asked_at: float = 0.0
    """Unix time at which the request left, or at which the unit was asked for last; 0.0 = nothing has left."""


class Nomination(NamedTuple):
    """Room on an agent that is kept for a unit until it is placed. It is counted only while the unit has neither a
    claim nor a place."""

    unit: str
    node: str
    amounts: Amounts
    ports: tuple[HostPort, ...] = ()


class Kind(Enum):
    """What a unit's part of an agent is counted as."""

    OURS = "ours"
    FOREIGN = "foreign"
    TERMINATING = "terminating"
    """Ours or somebody else's; still there, but it will be free."""
    CLAIMED = "claimed"
    NOMINATED = "nominated"


class Holding(NamedTuple):
    """What one unit holds, and where."""

    kind: Kind
    node: str
    amounts: Amounts
    ports: tuple[HostPort, ...]
