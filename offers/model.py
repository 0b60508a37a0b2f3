"""The vocabulary of placement: offers in, demands in, placements and diagnoses out.

Units: scalars are integer thousandths; ranges are inclusive (begin, end) pairs, sorted and disjoint. Everything here is
an immutable value.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple, Protocol

from offers.constraints import Rules
from offers.dimensions import Amounts
from offers.hostports import HostPort

Ranges = tuple[tuple[int, int], ...]
Attribute = str | float | Ranges
"""A Mesos attribute: TEXT, SCALAR or RANGES. SET attributes do not exist on agents."""


class Reservation(NamedTuple):
    """One layer of a refined reservation, as in Resource.reservations."""

    type: str  # STATIC or DYNAMIC
    role: str
    principal: str = ""
    labels: tuple[tuple[str, str], ...] = ()


class Pot(NamedTuple):
    """Identity of a part of an offer: two amounts can be added only if they come from equal pots."""

    name: str
    role: str  # allocation_info.role
    reservations: tuple[Reservation, ...] = ()


class Claim(NamedTuple):
    """What a placement takes out of an agent's offers: concrete pots, so that the ACCEPT can name them."""

    scalars: tuple[tuple[Pot, int], ...] = ()
    ranges: tuple[tuple[Pot, Ranges], ...] = ()


class Offer(NamedTuple):
    """One offer of Mesos, reduced to what can be used (no persistent volumes, shared or revocable resources)."""

    id: str
    agent_id: str
    hostname: str
    ip: str
    role: str
    attributes: Mapping[str, Attribute]
    scalars: tuple[tuple[Pot, int], ...]
    ranges: tuple[tuple[Pot, Ranges], ...]
    unavailable_from: float = 0.0
    """Unix seconds from which maintenance is planned; 0.0 = none."""
    received_at: float = 0.0
    """When the core took it in, by the core's clock: set by the core, whoever made the offer."""

    def open(self) -> Offer:
        """The offer itself, as `SealedOffer.open` gives it."""
        return self

    @property
    def key(self) -> str:
        """How operators name the agent: its InnerIP attribute, else its host name."""
        value = self.attributes.get("InnerIP")
        return value if isinstance(value, str) and value else self.hostname


class SealedOffer(Protocol):
    """An offer that has arrived and may be declined unread: most are, when a cluster of 10,000 agents offers everything
    for the sake of one taskgroup."""

    @property
    def id(self) -> str: ...

    def open(self) -> Offer:
        """What it offers. Raises ValueError if it cannot be understood."""


class Decoration(NamedTuple):
    """What operators set about an agent, merged into its offers."""

    disabled: bool = False
    attributes: Mapping[str, Attribute] = {}
    taints: Mapping[str, str] = {}
    extended: Mapping[str, int] = {}
    """Capacity of extended resources, in thousandths."""


class Need(NamedTuple):
    """What one taskgroup needs on its agent, in thousandths; ports in numbers. `amounts` and `host_ports` are for
    agents whose capacity has other dimensions than the four scalars, and whose ports are held per protocol."""

    cpus: int = 0
    mem: int = 0
    disk: int = 0
    gpus: int = 0
    random_ports: int = 0
    fixed_ports: tuple[int, ...] = ()
    extended: tuple[tuple[str, int], ...] = ()
    amounts: Amounts = ()
    """Amounts by dimension, each in the unit of the dimension, on top of the scalars."""
    host_ports: tuple[HostPort, ...] = ()
    """Ports of the host that must not be taken."""


class Demand(NamedTuple):
    """A number of identical taskgroups that want a place: one per entry of `slots`."""

    id: str
    application: str  # "<namespace>/<name>", the unit that constraints count over
    slots: tuple[Hashable, ...]
    need: Need
    rules: Rules
    role: str = "*"
    only_host: str = ""
    """Host retention: only this host name is acceptable."""
    labels: tuple[str, ...] = ()
    """Labels of the taskgroups as ``key:value``, so that EXCLUDE of later demands in the pass sees them."""
    per_agent: bool = False
    """At most one of the slots goes to an agent."""
    only_agents: frozenset[str] = frozenset()
    """Ids of the only agents that are acceptable; empty = any."""
    except_agents: frozenset[str] = frozenset()
    """Ids of agents that are not acceptable."""


class Placement(NamedTuple):
    """One slot of one demand on one agent. `ports` are the drawn random ports, in the order of the need."""

    demand: str
    slot: Hashable
    agent_id: str
    hostname: str
    ip: str
    claim: Claim
    ports: tuple[int, ...]
    attributes: Mapping[str, Attribute]
    """Of the agent, decoration included, plus ``hostname``."""


class Diagnosis(NamedTuple):
    """Why a demand was not (fully) placed, judged at the end of the pass.

    `reasons` counts agents by the first test each failed, e.g. {"cpus": 7, "constraint UNIQUE hostname": 3}; the sum
    is `agents`. `closest` says for each scarce resource the greatest amount free on any agent that passed every other
    test, as (name, needed, greatest free).
    """

    demand: str
    wanted: int
    placed: int
    agents: int
    reasons: Mapping[str, int]
    closest: tuple[tuple[str, int, int], ...] = ()


class Census(Protocol):
    """What constraints must know about taskgroups that exist already. Only live ones count (not ended)."""

    def attribute_counts(self, application: str, attribute: str) -> Mapping[str | float, int]:
        """Live taskgroups of the application by the value of this attribute of their agents."""

    def total(self, application: str) -> int:
        """All live taskgroups of the application."""

    def agents_with_label(self, pair: str, except_application: str) -> frozenset[str]:
        """Ids of agents that run a live taskgroup of another application carrying the label ``key:value``."""

    def extended_used(self, agent_id: str, name: str) -> int:
        """Thousandths of the extended resource held by live taskgroups on the agent."""


class MatchResult(NamedTuple):
    placements: list[Placement]
    diagnoses: list[Diagnosis]
