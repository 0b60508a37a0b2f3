"""Gangs on standing capacity: their placeholders are nominations, and their records outlive the scheduler.

S8   a nomination of a placeholder has a record, and the room of a complete gang is used by its units only
S9   no unit of a gang is claimed before all placeholders of the gang hold their room, unless the reservation has ended
S10  at rest no placeholder holds room, and no unit waits for the room of a placeholder
S11  the gangs of a group end their reservations at one moment
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from offers.dimensions import Amounts
from offers.matching.matcher import match
from offers.model import Demand, Provisional, ResourceRequest
from offers.policy.amounts import Vector
from offers.policy.applications.gangs.effects import Kill, Launch, Traits
from offers.policy.applications.gangs.gang import Gang
from offers.policy.applications.gangs.groups import settle_together
from offers.policy.applications.gangs.records import Record, Way
from offers.policy.applications.metadata import (
    ApplicationMetadata,
    SchedulingPolicyParameters,
    Style,
    TaskGroup,
    TaskMetadata,
)
from offers.policy.applications.placeholders.backend import Form, TrackingBackend
from offers.policy.applications.placeholders.forms import Nominations
from offers.policy.applications.placeholders.manager import PlaceholderManager
from offers.policy.applications.placeholders.standing import StandingRoom
from offers.policy.applications.tables import TERMINATED, AppState, CoreState, PlaceholderState, TaskState
from offers.rules.constraints import EMPTY_RULES
from tests.simulation.standing.cluster import Unit
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.standing.scheduler import Scheduler

GROUP = "members"
TRAITS = Traits(at_once=True, lasting=False)
BEFORE = (AppState.NEW, AppState.SUBMITTED, AppState.RECOVERING, AppState.ACCEPTED, AppState.RESERVING)
OVER = (CoreState.FAILED, CoreState.REJECTED, CoreState.COMPLETED, CoreState.EXPIRED)


class Wish(NamedTuple):
    """A gang as its user asks for it."""

    application: str
    members: int
    request: Amounts
    style: Style
    timeout: float
    created: float
    group: str = ""
    """The gangs of one group start together."""

    @property
    def metadata(self) -> ApplicationMetadata:
        group = TaskGroup(GROUP, self.members, self.request)
        parameters = SchedulingPolicyParameters(self.timeout, self.style)
        return ApplicationMetadata(
            self.application, "root", task_groups=(group,), parameters=parameters, created=self.created
        )


class Store:
    """The wishes of users and the records of gangs. It outlives every scheduler."""

    def __init__(self) -> None:
        self.wishes: dict[str, Wish] = {}
        self.records: dict[str, dict[tuple[str, str], Record]] = {}


class Asks:
    """The engine of the gangs: it remembers the asks. Room is counted by the pool."""

    def __init__(self) -> None:
        self.open: dict[str, tuple[str, Amounts]] = {}
        """Application and request of each ask."""

    def refusal(self, application: str, queue: str, placeholder_ask: Vector) -> str | None:
        return None

    def ask(self, application: str, name: str, request: Amounts, created: float) -> None:
        self.open[name] = (application, request)

    def withdraw(self, application: str, name: str) -> None:
        del self.open[name]

    def occupy(self, application: str, name: str, request: Amounts, node: str) -> None: ...

    def release(self, application: str, name: str) -> None: ...

    def hold(self, application: str, name: str, request: Amounts, node: str) -> None: ...

    def replace(self, application: str, placeholder: str, name: str, request: Amounts, node: str) -> None: ...

    def suits(self, application: str, name: str, node: str) -> bool:
        return True

    def find(self, application: str, name: str, request: Amounts) -> str | None:
        return None


class Gangs:
    """The gangs of one scheduler."""

    def __init__(self, scheduler: Scheduler, store: Store) -> None:
        self._scheduler, self._store = scheduler, store
        self._pool = scheduler.pool
        self.asks = Asks()
        self.gangs: dict[str, Gang] = {}
        self.room = StandingRoom(self._pool)
        self.backend: TrackingBackend[object] = Nominations(self.room.send)  # type: ignore[assignment]
        assert self.backend.form is Form.NOMINATE
        self._manager = PlaceholderManager(self.backend, self._bound, self._gone, self._failed)

    def waits(self, unit: Unit) -> bool:
        """The unit belongs to a gang and may not ask for a place by itself."""
        return unit.application in self._store.wishes and unit.name not in self.asks.open

    # --- turns --------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        now = self._scheduler.world.now
        for application, wish in self._store.wishes.items():
            if application not in self.gangs:
                self.gangs[application] = self._load(wish, now)
            self._members(self.gangs[application], wish, now)
            self.gangs[application].tick(now)
        self._settle_groups(now)
        for name in self.room.lost(now):
            self._scheduler.world.count("nominations lost")
            self.backend.lost(name)
            for gang in self.gangs.values():
                gang.gone(name, now)
        self._manager.retry(lambda application, name: name in self.gangs[application].placeholders, now)
        self._allocate(now)
        for application, gang in self.gangs.items():
            for _ in range(3):  # effects have effects
                self._carry_out(application, gang, now)
            gang.take_notices()
            for key, record in gang.take_changes().items():
                if record is None:
                    self._store.records[application].pop(key, None)
                else:
                    self._store.records[application][key] = record

    def _settle_groups(self, now: float) -> None:
        groups: dict[str, list[Gang]] = {}
        for application, wish in self._store.wishes.items():
            if wish.group:
                groups.setdefault(wish.group, []).append(self.gangs[application])
        for gangs in groups.values():
            waits = all(gang.reserving for gang in gangs)
            settle_together(gangs, now)
            if waits and not any(gang.reserving or gang.record.cause for gang in gangs):
                self._scheduler.world.count("groups of gangs started")

    def _load(self, wish: Wish, now: float) -> Gang:
        records = self._store.records.setdefault(wish.application, {})
        if records:
            self._scheduler.world.count("gangs continued")
            return Gang.restored(records.values(), (), self.asks, TRAITS, now)
        gang = Gang.born(wish.metadata, self.asks, TRAITS, wish.group)
        gang.submit(now)
        return gang

    def _members(self, gang: Gang, wish: Wish, now: float) -> None:
        """The units of the application become facts."""
        usage, waiting = self._pool.usage, self._scheduler.waiting
        for name, unit in waiting.items():
            if unit.application == wish.application and name not in gang.members:
                gang.add_task(TaskMetadata(wish.application, name, unit.amounts, GROUP, created=now), now)
        for name, member in list(gang.members.items()):
            state = member.life.state
            user = usage.users.get(name)
            if user is not None and state == TaskState.SCHEDULING and member.way is Way.ORDINARY:
                self.asks.open.pop(name, None)
                gang.allocated(name, user.node, now)
                gang.launched(name, now)
            elif user is not None and state == TaskState.ALLOCATED:
                gang.launched(name, now)
            elif user is not None and state not in (*TERMINATED, TaskState.BOUND, TaskState.KILLING):
                gang.ended(name, now)  # another program has placed the unit
            elif user is None and name not in waiting and name not in usage.allocations and state not in TERMINATED:
                gang.ended(name, now)
        if gang.record.core.state in OVER:
            for name, unit in list(waiting.items()):
                if unit.application == wish.application:
                    self._scheduler.cluster.end_unit(name)

    def _allocate(self, now: float) -> None:
        """Finds room for the placeholders that ask."""
        holders = {name for gang in self.gangs.values() for name in gang.placeholders}
        for name, (application, request) in list(self.asks.open.items()):
            if name not in holders:
                continue
            demand = Demand(f"of-{name}", application, (0,), ResourceRequest(amounts=request), EMPTY_RULES)
            found = match([demand], self._pool, self._scheduler.nobody, self._scheduler.scoring).placements
            if found:
                self._pool.usage.forget(Provisional(demand.id, 0))
                del self.asks.open[name]
                self.gangs[application].allocated(name, found[0].agent_id, now)
                self._carry_out(application, self.gangs[application], now)

    def _carry_out(self, application: str, gang: Gang, now: float) -> None:
        effects = list(gang.due())
        for effect in effects:
            if isinstance(effect, Kill):
                self._scheduler.cluster.end_unit(effect.task)
            elif isinstance(effect, Launch):
                self._launch(gang, effect, now)
        self._manager.carry_out(application, effects, now)

    def _launch(self, gang: Gang, effect: Launch, now: float) -> None:
        scheduler, usage, name = self._scheduler, self._pool.usage, effect.task
        if name in usage.allocations or name in usage.users:
            return
        unit = scheduler.waiting.get(name)
        claim = self.room.take(effect.consumes, name, unit.amounts) if unit is not None else None
        if claim is None:
            gang.returned(name, now)
        elif not self._pool.stands(name):
            usage.forget(name)
            gang.returned(name, now)
        else:
            scheduler.world.count("nominations taken over")
            scheduler.send(claim)

    # --- reports ------------------------------------------------------------------------------------------------

    def _bound(self, application: str, name: str, now: float) -> None:
        self._scheduler.world.count("placeholders nominated")
        self.gangs[application].bound(name, now)

    def _gone(self, application: str, name: str, now: float) -> None:
        self.gangs[application].gone(name, now)

    def _failed(self, application: str, name: str, now: float) -> None:
        self.gangs[application].creation_failed(name, now)

    # --- invariants ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        """S8, S9 and S11."""
        groups: dict[str, set[bool]] = {}
        for application, one in self.gangs.items():
            if group := self._store.wishes[application].group:
                groups.setdefault(group, set()).add(one.reserving)
        for group, states in groups.items():
            if len(states) > 1:
                raise Violation("S11", f"a part of the gangs of {group} may start", group)
        usage = self._pool.usage
        holders = {name: gang for gang in self.gangs.values() for name in gang.placeholders}
        for name in usage.nominations:
            if name.startswith("tg-") and name not in holders:
                raise Violation("S8", f"room is promised to {name}, which no gang has", name)
        for unit in usage.allocations:
            gang = self._gang_of(str(unit))
            if gang is not None and gang.record.manager.state in BEFORE:
                raise Violation("S9", f"{unit} is placed while its gang is {gang.record.manager.state}", str(unit))

    def _gang_of(self, unit: str) -> Gang | None:
        return next((gang for gang in self.gangs.values() if unit in gang.members), None)

    def left(self) -> Iterator[str]:
        """Placeholders that hold room, and units that wait for the room of one. A gang for which no placeholder has
        room waits without an end."""
        for gang in self.gangs.values():
            yield from (one.key for one in gang.placeholders.values() if one.life.state != PlaceholderState.ASKED)
            for member in gang.members.values() if gang.record.manager.state not in BEFORE else ():
                waits = member.life.state == TaskState.SCHEDULING and member.way is Way.SWAP
                if waits or member.life.state == TaskState.ALLOCATED:
                    yield member.key
        yield from (name for name in self._pool.usage.nominations if name.startswith("tg-"))
