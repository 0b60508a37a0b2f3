"""The cluster manager of standing agents: agents, units and who is where, requests to place, news, and other people.

The truth is here. The scheduler hears of it late, in order, and not at all while its stream is broken; then it gets
whole lists. Requests and answers get lost. Other people use agents, place our units themselves, and give away more
than there is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from offers.dimensions import Amounts, amounts
from offers.ledger.nodes import Node
from offers.ledger.usage import User
from tests.simulation.violation import Violation
from tests.simulation.world import World

LONGEST_REQUEST = 8.0
"""Seconds after which a request has reached the cluster manager, or never will."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit as the cluster manager knows it. `node` empty: it waits for a place."""

    name: str
    application: str
    amounts: Amounts
    ours: bool = True
    node: str = ""
    terminating: bool = False
    important: bool = False
    """Others may be ended for it."""
    least: int = 1
    """So many units of its application start together."""
    created: float = 0.0
    """Unix seconds."""
    beneficiary: str = ""
    """The application for which it is being ended; empty: none."""
    ended_at: float = 0.0
    """Unix seconds at which it was told to end; 0: it was not."""

    @property
    def user(self) -> User:
        return User(self.name, self.node, self.amounts, (), self.ours, self.terminating)


class Lists(NamedTuple):
    """Everything there is, as of one moment. `touched`: see `Cluster.touched`."""

    nodes: tuple[Node, ...]
    units: tuple[Unit, ...]
    touched: dict[str, int]


class News(NamedTuple):
    """One change. A unit or agent is as given; None: it is gone."""

    kind: str
    name: str
    now: Node | Unit | None
    touched: tuple[str, int]


class Request(NamedTuple):
    unit: str
    node: str
    decision: int
    safe: int | None
    """`Cluster.touched` of the agent, if the scheduler knew all that others had done there; None if it did not."""


class Listener(Protocol):
    def listed(self, lists: Lists) -> None: ...

    def told(self, news: News) -> None: ...

    def answer(self, request: Request, word: str, unit: Unit | None) -> None:
        """`word`: yes, no, unknown; to a question: found (`unit`), not placed, gone."""


@dataclass
class Cluster:
    world: World
    nodes: dict[str, Node] = field(default_factory=dict)
    away: dict[str, Node] = field(default_factory=dict)
    """Agents that are gone for a while."""
    units: dict[str, Unit] = field(default_factory=dict)
    touched: dict[str, int] = field(default_factory=dict)
    """How often anybody but the scheduler has changed what is free of an agent, by its name."""
    listener: Listener | None = None
    stream: int = 0
    """Number of the stream; news of an older one is lost."""
    up: bool = False
    _last: float = 0.0
    _serial: int = 0

    # --- truth --------------------------------------------------------------------------------------------------

    def used(self, node: str) -> Amounts:
        return amounts(pair for unit in self.units.values() if unit.node == node for pair in unit.amounts)

    def excess(self, node: str) -> Amounts:
        """What is used of an agent beyond what it has."""
        has = dict(self.nodes[node].allocatable)
        return amounts((name, max(amount - has.get(name, 0), 0)) for name, amount in self.used(node))

    def new_name(self, prefix: str) -> str:
        self._serial += 1
        return f"{prefix}-{self._serial}"

    # --- changes ------------------------------------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self._touch(node.name)
        self._tell("node", node.name, node, node.name)

    def remove_node(self, name: str) -> None:
        self.away[name] = self.nodes.pop(name)
        self._touch(name)
        self._tell("node", name, None, name)

    def put_unit(self, unit: Unit, *, outside: bool = True) -> None:
        """`outside`: it is not the scheduler that changes what is used of the agent."""
        before = self.units.get(unit.name)
        self.units[unit.name] = unit
        if outside:
            for node in {unit.node, before.node if before else ""} - {""}:
                self._touch(node)
        self._tell("unit", unit.name, unit, unit.node)

    def end_unit(self, name: str, beneficiary: str = "") -> None:
        """Told to end: it waits for nothing any more, or ends on its agent in its own time. `beneficiary`: see
        `Unit`."""
        unit = self.units.get(name)
        if unit is None or unit.terminating:
            return
        if not unit.node:
            self.remove_unit(name)
            return
        told = replace(unit, terminating=True, beneficiary=beneficiary, ended_at=self.world.now)
        self.put_unit(told, outside=False)
        self.world.after(self.world.between(0.1, 20.0), self.remove_unit, name)

    def remove_unit(self, name: str) -> None:
        unit = self.units.pop(name, None)
        if unit is not None:
            self._tell("unit", name, None, unit.node)

    def _touch(self, node: str) -> None:
        self.touched[node] = self.touched.get(node, 0) + 1

    # --- news ---------------------------------------------------------------------------------------------------

    def connect(self, listener: Listener) -> None:
        """A new stream: whole lists, then every change after them."""
        self.listener, self.up = listener, True
        self.stream += 1
        self._deliver("list", Lists(tuple(self.nodes.values()), tuple(self.units.values()), dict(self.touched)))

    def disconnect(self) -> None:
        self.stream += 1
        self.up = False

    def _tell(self, kind: str, name: str, now: Node | Unit | None, node: str) -> None:
        if self.up:
            self._deliver("news", News(kind, name, now, (node, self.touched.get(node, 0))))

    def _deliver(self, what: str, item: Lists | News) -> None:
        slow = 5.0 if self.world.fault(0.02) else 0.05
        self._last = max(self._last, self.world.now + self.world.between(0.001, slow))
        self.world.at(self._last, self._arrive, self.stream, item)

    def _arrive(self, stream: int, item: Lists | News) -> None:
        if stream == self.stream and self.listener is not None:
            self.world.tell("stream", item)
            if isinstance(item, Lists):
                self.listener.listed(item)
            else:
                self.listener.told(item)

    # --- requests -----------------------------------------------------------------------------------------------

    def place(self, listener: Listener, request: Request) -> None:
        """Takes a request on its way. Its fate becomes unknown now and then, before or after it was carried out."""
        world = self.world
        world.tell("request", request)
        if world.fault(0.05):
            world.count("fault: request lost")
            world.after(LONGEST_REQUEST, self._say, listener, request, "unknown")
            return
        late = world.fault(0.05)
        world.after(
            world.between(1.0, LONGEST_REQUEST) if late else world.between(0.001, 0.1), self._placed, listener, request
        )

    def _placed(self, listener: Listener, request: Request) -> None:
        if listener is not self.listener:
            return  # the fence: it was sent by a scheduler that does not lead any more
        unit = self.units.get(request.unit)
        word = "no" if unit is None or unit.node or unit.terminating else "yes"
        if unit is not None and word == "yes":
            self.put_unit(replace(unit, node=request.node), outside=False)
            self.world.count("placed")
            self._no_more_than_there_is(request)
        if self.world.fault(0.08):
            self.world.count("fault: answer lost")
            self.world.after(LONGEST_REQUEST, self._say, listener, request, "unknown")
        else:
            slow = self.world.fault(0.2)
            delay = self.world.between(0.1, 90.0) if slow else self.world.between(0.0, 0.1)
            self.world.after(delay, self._say, listener, request, word)

    def _no_more_than_there_is(self, request: Request) -> None:
        """Nobody else has touched the agent since the scheduler, knowing everything, decided: then its own units must
        not be more than there is."""
        node = request.node
        if node in self.nodes and request.safe == self.touched.get(node, 0) and (excess := self.excess(node)):
            raise Violation("S1", f"{node} is overcommitted by {excess} with {request.unit}", node, request.unit)

    def ask(self, listener: Listener, request: Request) -> None:
        """Asks for a unit. The answer is what is true when the question arrives, and may be overtaken by news."""
        self.world.after(self.world.between(0.001, 0.1), self._asked, listener, request)

    def _asked(self, listener: Listener, request: Request) -> None:
        unit = self.units.get(request.unit)
        word = "gone" if unit is None else "found" if unit.node else "not placed"
        if self.world.fault(0.2):
            return  # lost: nothing is known, and the unit is asked for again
        slow = self.world.fault(0.5)
        self.world.after(self.world.between(0.0, 60.0 if slow else 0.1), self._say, listener, request, word, unit)

    def _say(self, listener: Listener, request: Request, word: str, unit: Unit | None = None) -> None:
        if listener is self.listener:
            self.world.tell("answer", (word, request))
            listener.answer(request, word, unit)
