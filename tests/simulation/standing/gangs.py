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
from offers.matching.statement import match
from offers.model import Demand, Provisional, ResourceRequest
from offers.policy.amounts import Vector
from offers.policy.applications.gang import Gang, settle_together
from offers.policy.applications.metadata import (
    ApplicationMetadata,
    SchedulingPolicyParameters,
    Style,
    TaskGroup,
    TaskMetadata,
)
from offers.policy.applications.placeholders import Nominations, Placeholders
from offers.policy.applications.records import Kill, Launch, PlaceholderRecord, Record, Way
from offers.policy.applications.tables import TERMINATED, AppState, CoreState, PlaceholderState, TaskState
from offers.rules.constraints import EMPTY_RULES
from tests.simulation.standing.cluster import Unit
from tests.simulation.violation import Violation
from tests.vectors.scenarios.engine import restored

if TYPE_CHECKING:
    from tests.simulation.standing.scheduler import Scheduler

GROUP = "members"
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


class Taking:
    """The engine of the gangs. Room is counted by the pool."""

    def refusal(self, application: str, queue: str, placeholder_ask: Vector) -> str | None:
        return None

    def suits(self, application: str, name: str, node: str) -> bool:
        return True


class Gangs:
    """The gangs of one scheduler."""

    def __init__(self, scheduler: Scheduler, store: Store) -> None:
        self._scheduler, self._store = scheduler, store
        self._pool = scheduler.pool
        self.gangs: dict[str, Gang] = {}
        self.room = Nominations(self._pool)
        self._placeholders = Placeholders(self.room, self.gangs.get)

    def waits(self, unit: Unit) -> bool:
        """The unit belongs to a gang and may not ask for a place by itself."""
        if unit.application not in self._store.wishes:
            return False
        gang = self.gangs.get(unit.application)
        member = gang.members.get(unit.name) if gang is not None else None
        return member is None or member.life.state != TaskState.SCHEDULING or member.way is not Way.ORDINARY

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
            self._placeholders.lost(name, now)
        self._placeholders.retry(now)
        self._allocate(now)
        for application, gang in self.gangs.items():
            for _ in range(3):  # effects have effects
                self._carry_out(gang, now)
            gang.take_notices()
            for key, record in gang.take_changes().items():
                if isinstance(record, PlaceholderRecord) and record.life.state == PlaceholderState.BOUND:
                    self._scheduler.world.count("placeholders nominated")
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
            gang = restored(records.values(), Taking(), self.room.traits)
            gang.adopt((), now)
            return gang
        gang = Gang.born(wish.metadata, Taking(), self.room.traits, wish.group)
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
                gang.allocated(name, user.node, now)
                gang.launched(name, now)
            elif user is not None and state == TaskState.ALLOCATED:
                gang.launched(name, now)
            elif user is not None and state not in (*TERMINATED, TaskState.BOUND, TaskState.KILLING):
                gang.ended(name, now)  # another program has placed the unit
            elif user is None and name not in waiting and name not in usage.claims and state not in TERMINATED:
                gang.ended(name, now)
        if gang.record.core.state in OVER:
            for name, unit in list(waiting.items()):
                if unit.application == wish.application:
                    self._scheduler.cluster.end_unit(name)

    def _allocate(self, now: float) -> None:
        """Finds room for the placeholders that ask."""
        for application, gang in self.gangs.items():
            for one in list(gang.placeholders.values()):
                if one.life.state != PlaceholderState.ASKED:
                    continue
                request = ResourceRequest(amounts=one.request)
                demand = Demand(f"of-{one.key}", application, (0,), request, EMPTY_RULES)
                found = match([demand], self._pool, self._scheduler.nobody, self._scheduler.scoring).placements
                if found:
                    self._pool.usage.forget(Provisional(demand.id, 0))
                    gang.allocated(one.key, found[0].agent_id, now)
                    self._carry_out(gang, now)

    def _carry_out(self, gang: Gang, now: float) -> None:
        effects = list(gang.due())
        for effect in effects:
            if isinstance(effect, Kill):
                self._scheduler.cluster.end_unit(effect.task)
            elif isinstance(effect, Launch):
                self._launch(gang, effect, now)
        self._placeholders.carry_out(gang, effects, now)

    def _launch(self, gang: Gang, effect: Launch, now: float) -> None:
        scheduler, usage, name = self._scheduler, self._pool.usage, effect.task
        if name in usage.claims or name in usage.users:
            return
        unit = scheduler.waiting.get(name)
        claim = self.room.swap(effect.consumes, name, unit.amounts) if unit is not None else None
        if claim is None:
            gang.returned(name, now)
        elif not self._pool.hand.stands(name):
            usage.forget(name)
            gang.returned(name, now)
        else:
            scheduler.world.count("nominations taken over")
            scheduler.send(claim)

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
        for name in map(str, dict(usage.holds)):
            if name.startswith("tg-") and name not in holders:
                raise Violation("S8", f"room is promised to {name}, which no gang has", name)
        for unit in usage.claims:
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
        yield from (name for name, _ in self._pool.usage.holds if isinstance(name, str) and name.startswith("tg-"))
