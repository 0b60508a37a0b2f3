"""Asks, allocations, nodes and preemptions: immutable values. Amounts are mappings in one unit per resource."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

from offers.dimensions import Amounts
from offers.policy.amounts import Vector, added


class Ask(NamedTuple):
    """A request of an application for one allocation. `created` is seconds of one clock; `name` is unique within the
    application."""

    application: str
    name: str
    request: Amounts
    created: float = 0.0
    priority: int = 0
    may_preempt: bool = True
    preemptable: bool = True
    """False: the allocation asks to be taken after all others."""
    originator: bool = False
    """True if the allocation is the driver of its application."""
    required_node: str = ""
    """The only node that is admitted; empty: all nodes are admitted."""
    constraint: Hashable = None
    """The conditions on nodes other than amounts, as the caller's check of nodes understands them; None: no conditions.
    Asks with equal constraints are admitted by the same nodes."""
    lasting: bool = False
    """True if the allocation stays for as long as its node does, as one of a daemonset."""
    critical: bool = False
    """True if the allocation is never ended for others."""
    replaces: bool = False
    """True if the allocation takes the place of another one: it comes before others of its application."""
    moves: bool = False
    """True if the other one has left for another node: the ask comes before all others of its tree."""

    @property
    def is_spared(self) -> bool:
        """True if the allocation is no victim: it needs its node, or is critical."""
        return self.critical or self.required_node != ""

    @property
    def id(self) -> str:
        """The application and the name of the ask."""
        return f"{self.application}/{self.name}"


class Allocation(NamedTuple):
    """An ask with its node."""

    ask: Ask
    node: str

    @property
    def order_of_loss(self) -> tuple[bool, bool, float, str]:
        """The key of the order in which allocations are preempted: those that admit preemption first, then those that
        are no originator, then the newest, then by id."""
        ask = self.ask
        return (not ask.preemptable, ask.originator, -ask.created, ask.id)


class Kept(NamedTuple):
    """Room of nodes that is kept for work which has waited for long. The nodes have it in use by others. `amounts`:
    amounts by name of the node; `lacks`: those that are still missing there, and are set apart of the room
    that is leaving and not promised; `applications`: the work; `priority`: that of its asks. `is_own`: only the work
    itself may use the room; else only asks of others that outrank it may. `has_victims`: others were ended for it, so
    the maxima of its queues hold all its amounts, too. `served`: by application, the names of the asks for which
    others end to fill this room: the tree ends nothing for them, and reserves no other node."""

    amounts: Mapping[str, Mapping[str, int]]
    lacks: Mapping[str, Mapping[str, int]]
    applications: frozenset[str]
    priority: int = 0
    is_own: bool = False
    has_victims: bool = False
    served: Mapping[str, Collection[str]] = {}

    def serves(self, ask: Ask) -> bool:
        """True if others end for an ask to fill this room."""
        return ask.name in self.served.get(ask.application, ())

    def sums(self) -> Vector:
        """The amounts of the work."""
        return added(*self.amounts.values(), *self.lacks.values())


def limits_of(kept: Kept | None) -> tuple[frozenset[str], Vector] | None:
    """Old work for which maxima hold room, and its amounts; None: there is none."""
    return (kept.applications, kept.sums()) if kept is not None and kept.has_victims and not kept.is_own else None


def alone(application: str) -> tuple[str, ...]:
    """Each application has an allowance of its own."""
    return (application,)


def none_idle() -> Iterable[tuple[str, str]]:
    """All allocations work."""
    return ()


class Terms(NamedTuple):
    """The facts of one decision that a tree does not know by itself. Each decision gets all of them."""

    admits: Callable[[Any, str], bool] | None = None
    """Judges the constraints of asks, by node, for the check of nodes that the caller has given to the tree; None: it
    admits all."""
    lacking: Mapping[str, int] = {}
    """The number of asks of an application that must find places at the same time (`gangs.Attempts`); each ask of
    other applications is placed by itself."""
    allowance: Callable[[str], int] | None = None
    """The number of working allocations of an application that may still be preempted; None bounds no application."""
    budget_of: Callable[[str], tuple[str, ...]] = alone
    """The applications that spend the allowance of an application together, itself included: the name of their
    budget."""
    paused: Mapping[str, Mapping[str, float]] = {}
    """Applications whose allocations are not preempted for another one at present, by the latter, with the moments
    from which they may be, in seconds (`core.placement.pauses`)."""
    idle: Callable[[], Iterable[tuple[str, str]]] = none_idle
    """Finds the running allocations that do not work (yet), by application and name; all others work. A search for
    victims asks: there may be very many of them."""
    kept: Kept | None = None
    """Room that is kept for work which has waited for long; None: there is none."""


class Preemption(NamedTuple):
    """Allocations that end so that an ask can be placed on a node. `fence`: the queue that bounded the search."""

    ask: Ask
    node: str
    victims: tuple[Allocation, ...]
    fence: str


def add_to(figures: dict[str, int], request: Amounts, sign: int) -> None:
    """Adds a request to figures (`sign` 1), or takes the request away (-1)."""
    for name, amount in request:
        figures[name] = figures.get(name, 0) + sign * amount
