"""The vocabulary of placement: offers in, demands in, placements and diagnoses out.

Units: scalars are integer thousandths; ranges are inclusive (begin, end) pairs, sorted and disjoint. Everything here is
an immutable value.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

from offers.dimensions import Amounts
from offers.host_ports import HostPort
from offers.names import name_of
from offers.policy.obstacles import Attempt
from offers.rules.constraints import Rules

SlotT = TypeVar("SlotT", bound=Hashable)
"""Type of the slots of a demand: the caller chooses it, and each placement names one slot."""
Ranges = tuple[tuple[int, int], ...]
Attribute = str | float | Ranges
"""An attribute: TEXT, SCALAR or RANGES. SET attributes do not exist on agents."""


class Reservation(NamedTuple):
    """One layer of a refined reservation, as in Resource.reservations."""

    type: str  # STATIC or DYNAMIC
    role: str
    principal: str = ""
    labels: tuple[tuple[str, str], ...] = ()


class ResourceKey(NamedTuple):
    """Identity of a part of an offer: two amounts can be added only if their resource keys are equal."""

    name: str
    role: str  # allocation_info.role
    reservations: tuple[Reservation, ...] = ()
    room: str = ""
    """Id of the taskgroup that this part is kept for (offers.ledger.external); empty: anybody may use the part."""


class Allocation(NamedTuple):
    """The part of the offers of an agent that a placement uses, by resource key, so that the launch can name it."""

    scalars: tuple[tuple[ResourceKey, int], ...] = ()
    ranges: tuple[tuple[ResourceKey, Ranges], ...] = ()


class Offer(NamedTuple):
    """One offer of the cluster manager, reduced to the usable resources (no persistent volumes, shared or revocable
    resources)."""

    id: str
    agent_id: str
    hostname: str
    ip: str
    role: str
    attributes: Mapping[str, Attribute]
    scalars: tuple[tuple[ResourceKey, int], ...]
    ranges: tuple[tuple[ResourceKey, Ranges], ...]
    unavailable_from: float = 0.0
    """Unix seconds from which maintenance is planned; 0.0 = none."""
    received_at: float = 0.0
    """Unix seconds at which the core received the offer, by the core's clock. The core sets the time for offers of
    every source."""

    def open(self) -> Offer:
        """The offer itself, as `SealedOffer.open` gives it."""
        return self

    @property
    def key(self) -> str:
        """The key by which operators name the agent: its InnerIP attribute, else its host name."""
        return name_of(self.attributes, self.hostname)


class SealedOffer(Protocol):
    """An offer that has arrived and may be declined unread: most are, when a cluster of 10,000 agents offers everything
    for the sake of one taskgroup."""

    @property
    def id(self) -> str:
        """The id of the offer, known without decoding the offer."""

    def open(self) -> Offer:
        """Decodes the offer. Raises ValueError if the offer cannot be understood."""


class AgentOverrides(NamedTuple):
    """Settings of operators for an agent, which are merged into its offers."""

    disabled: bool = False
    attributes: Mapping[str, Attribute] = {}
    taints: Mapping[str, str] = {}
    extended: Mapping[str, int] = {}
    """Capacity of extended resources, in thousandths."""


class ResourceRequest(NamedTuple):
    """The resources that one taskgroup uses on its agent, in thousandths; ports as numbers. `amounts` and `host_ports`
    are for agents whose capacity has other dimensions than the four scalars, and whose ports are held per protocol."""

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

    @property
    def named_ports(self) -> tuple[HostPort, ...]:
        """The fixed ports, which are for every protocol, and those of the host; each kind in order, and each once."""
        return (*(HostPort(port) for port in sorted(set(self.fixed_ports))), *sorted(set(self.host_ports)))


class Demand(NamedTuple, Generic[SlotT]):
    """A number of identical taskgroups that want a place: one per entry of `slots`."""

    id: str
    application: str  # "<namespace>/<name>", the unit that constraints count over
    slots: tuple[SlotT, ...]
    request: ResourceRequest
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
    group: str = ""
    """Key of the group of applications that the demand belongs to; empty = none."""
    promised: tuple[tuple[SlotT, str], ...] = ()
    """Slots for which room was freed, each with the id of its agent: they are placed there, before all other
    demands."""
    min_members: int = 0
    """Size of the gang: if fewer slots than this find a place, none of them is placed. 0 = every slot counts alone."""


class Placement(NamedTuple, Generic[SlotT]):
    """One slot of one demand on one agent. `ports` are the drawn random ports, in the order of the resource request."""

    demand: str
    slot: SlotT
    agent_id: str
    hostname: str
    ip: str
    allocation: Allocation
    ports: tuple[int, ...]
    attributes: Mapping[str, Attribute]
    """Attributes of the agent with the settings of operators, plus ``hostname``."""


class HeldBack(NamedTuple):
    """A queue that holds a demand back. Amounts are pairs of dimension and integer."""

    queue: str
    at_limit: bool
    """True: a limit of the queue, so more agents would not help; False: the queue has its share, or the rest is
    guaranteed to others."""
    allocated: tuple[tuple[str, int], ...]
    deserved: tuple[tuple[str, int], ...]
    """The deserved share; with a `code` of amounts, the maximum."""
    code: str = ""
    """The cause, a value of `offers.policy.waiting.WaitCode`; empty: the queue has its deserved share."""
    applications: int | None = None
    """The number of applications that a limit admits; None if no such limit holds the demand back."""
    whose: str = ""
    """The user or group of a limit (``user alice``), or the reason for which no queue takes the application; else
    empty."""
    never: bool = False
    """True if one taskgroup alone is larger than the maximum of the queue."""


class DecidedBy(NamedTuple):
    """A policy, and the roles whose demands it decides about; ``*`` stands for all other roles. `name`: that of the
    partition of roles; empty: it has none."""

    policy: str
    roles: tuple[str, ...]
    name: str = ""


class GroupGap(NamedTuple):
    """The minimum that a group of applications does not reach. Numbers count taskgroups."""

    group: str
    """Key ``namespace/name`` of the group."""
    needed: int
    """Places that must be found at the same time."""
    places: int
    slots: int
    """Slots that the open demands of the group have."""
    short: tuple[tuple[str, int], ...] = ()
    """Members below a minimum of their own, with the number of taskgroups that are missing."""
    apart: tuple[DecidedBy, ...] = ()
    """The policies that decide about members, if there are several: the group can never start together."""


class Diagnosis(NamedTuple):
    """The reasons why a demand was not (fully) placed, determined at the end of the pass.

    `reasons` counts agents by the first test that each agent failed, e.g. {"cpus": 7, "constraint UNIQUE hostname": 3};
    the sum is `agents`. `closest` gives for each scarce resource the greatest amount that is free on any agent that
    passed every other test, as (name, needed, greatest free).

    For a gang that did not reach its minimum, the diagnosis is made with the `reached` placed members still in their
    places; these are given back afterwards, and `placed` is 0.
    """

    demand: str
    slots: int
    placed: int
    agents: int
    reasons: Mapping[str, int]
    closest: tuple[tuple[str, int, int], ...] = ()
    min_members: int = 0
    """Minimum members of the demand."""
    reached: int = 0
    """Members of a gang that would have found a place; 0 if the demand is no gang, or if the gang was placed."""
    held_back: HeldBack | None = None
    """The queue that holds the demand back; None if no queue does."""
    gap: GroupGap | None = None
    """The minimum that the group of the demand does not reach; None if no group holds the demand back."""
    decided_by: DecidedBy | None = None
    """The policy of the role; None if all roles have one policy."""
    attempt: Attempt | None = None
    """The latest attempt to make room by ending other work; None if none was due."""


class Provisional(NamedTuple):
    """Name of a unit between the match and the moment at which its own name is known."""

    demand: str
    slot: Hashable


Site = tuple[str, str]
"""Agent id and role."""
Unit = str | Provisional
"""Name of a thing that is placed as a whole: of a taskgroup, or of a claim that was not launched yet."""


class Occupant(NamedTuple):
    """A unit on an agent, with its resources and its part in the counts of constraints; enough for plans that assume
    the unit gone."""

    unit: Unit
    agent_id: str
    application: str = ""
    """Key ``namespace/name`` of the application; empty if constraints do not count the unit."""
    role: str = "*"
    hostname: str = ""
    ip: str = ""
    amounts: Amounts = ()
    """Amounts by dimension, in the unit of the dimension; ports are not among them."""
    ports: Ranges = ()
    counted: Mapping[str, str | float] = {}
    """Attributes of the agent as the census counts the unit under them, the host name included."""
    labels: tuple[str, ...] = ()
    """Labels as ``key:value``."""
    extended: tuple[tuple[str, int], ...] = ()
    """Extended resources in thousandths, each name once."""
    attributes: Mapping[str, Attribute] = {}
    """All attributes of the agent, for an agent that has not been offered."""
    allocation: Allocation | None = None
    """Allocation of leased capacity if the unit is planned and not launched yet; else None."""


class Census(Protocol):
    """Counts of existing taskgroups that constraints need. Only live taskgroups count (not ended)."""

    def attribute_counts(self, application: str, attribute: str) -> Mapping[str | float, int]:
        """Live taskgroups of the application by the value of this attribute of their agents."""

    def total(self, application: str) -> int:
        """All live taskgroups of the application."""

    def agents_with_label(self, pair: str, except_application: str) -> Mapping[str, int]:
        """Number of live taskgroups of other applications that carry the label ``key:value``, by the id of their agent.
        No number is 0."""

    def extended_used(self, agent_id: str, name: str) -> int:
        """Thousandths of the extended resource held by live taskgroups on the agent."""


class MatchResult(NamedTuple, Generic[SlotT]):
    """Placements in the order in which they were found, and one diagnosis per demand that has slots without a place."""

    placements: list[Placement[SlotT]]
    diagnoses: list[Diagnosis]
