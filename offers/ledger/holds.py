"""Holds: room that is kept for a beneficiary, by cause. `Cause` is the table of all causes (docs/decisions/0115).

The holds of a pool are for an agent and a role, not for an offer. An offer ends with the next launch on its agent, or
after some seconds; the hold is then taken out of the next offer of the agent. No demand may use held room. A hold that
the present offers do not cover completely is short: the room may be on its way back, or another scheduler has got it.

When the holder ends, its room may be left to the launch that was promised the room (`Holds.leave`). The room is usable
for that unit only while the unit is being placed (`Hand.lend`), so that other units never take the room.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum, unique
from itertools import islice
from typing import NamedTuple

from offers.errors import Shortage
from offers.model import Allocation, ResourceKey, ResourceRequest, Site, Unit
from offers.resources import SCALARS, ResourceMap, amounts_of, draw, remaining

# --- seconds of the causes ----------------------------------------------------------------------------------------

ANSWER_SECONDS = 30.0
"""Room is held while it is not known whether a taskgroup was launched: the cluster manager has answered by then."""
PROMISE_SECONDS = 5.0
"""Room waits for the taskgroup that replaces one whose launch did not leave: a restart needs some turns."""
AWAY_SECONDS = 20.0
"""Held room that no offer covers is lost after it: offers return within seconds, unless another scheduler has them."""
HOLD_SECONDS = 10.0
"""An offer with held room is kept at most. Then other schedulers get their turn: longer starves them."""
SEEN_SECONDS = 20.0
"""Room that the cluster manager should keep and no offer shows is not kept: the call was refused, or is lost."""
LISTED_SECONDS = 15.0
"""A list of agents may be older than a change by so much."""
LISTS = 2
"""Lists of agents in a row without a kept room, after which the room does not exist. A number, not seconds."""
LEAVE_SECONDS = 3.0
"""The room of an ended hold waits for the launch that was promised the room: one turn, and time for errors."""
USE_SECONDS = 3.0
"""Opened room waits in an offer for the launch that is to use it; at most half of `scheduler.offer_hold`, because an
offer without use is declined then."""
LISTED_PATIENCE = 120.0
"""Opened room of an agent that has it by the latest list is waited for: the next list names the room again."""
SWAP_SECONDS = 60.0
"""A task waits on the agent of its placeholder; then it asks like others."""
PLACEHOLDER_SECONDS = 900.0
"""A gang gathers placeholders, if its annotation gives no time: the value of YuniKorn."""
NOMINATION_SECONDS = 60.0
"""Default of `session.nominationSeconds`, and the time of a nomination on standing capacity. The same time as
`LONGEST`, from the moment when the room is free until others get it."""
RETURN_SECONDS = 5.0
"""After the first offer of an agent on which a taskgroup has ended, no further part of its room is expected. Cluster
managers make offers every second, by default."""
UNOFFERED_SECONDS = 90.0
"""After the end of a taskgroup its promised room is expected while no offer of the agent comes: the cluster manager or
the agent may be away for a while. Another framework may have got the room, so it ends at some time."""
WINDOW = 120.0
"""A node is reserved for `MOST_IN_WINDOW` at most of any so many seconds, by all asks together: half of the time."""
MOST_IN_WINDOW = 60.0
"""See `WINDOW`."""
LONGEST = MOST_IN_WINDOW
"""A promise or reservation of a tree ends, after its victims have left. Also the pause after a promise that was not
kept: of the request before the next reservation, and of the ask before the next try to preempt."""
SHORTEST = 15.0
"""A reservation that may not last so long is not made. Also the pause of a request for which no node suits."""
PATIENCE = 2.0
"""An ask reserves a node when it is older: a decision may place it at once."""
RETRY = 15.0
"""The next try of an ask to preempt is later by so much."""
GAIN = 60.0
"""Another agent is reserved for old work, if nothing has become free on this one meanwhile."""
REST = 60.0
"""An agent that has gained nothing is not reserved again, and old work without a suitable agent not looked at."""
GATHERED = 600.0
"""The room of a gang is gathered at most, and an agent kept without the end of one of the taskgroups that are to make
room there. Finished places of a gang wait for the others, and each agent on which nothing becomes free costs `GAIN`;
without this bound a gang of a large cluster would try all agents."""
TARGET_SECONDS = 60.0
"""The target of a rebalancing is the only acceptable agent for the replacement; then any agent is."""
PROMISED_SECONDS = 60.0
"""An offer with promised room is given back after it although the room is promised: others may need the room."""


class Origin(Enum):
    """The facts from which a new leader makes a hold again."""

    NOTHING = "nothing"
    RECORDS = "records"
    CLUSTER = "offers and lists of agents"


class Rule(NamedTuple):
    """One line of the table. `maker`: module and name, below `bcs_scheduler/core` or in full. `user`: the work that
    may use the room. `end`: the events that end the hold. `seconds`: names of constants of this module. `records`: the
    records from which it is made again."""

    maker: str
    user: str
    end: str
    seconds: tuple[str, ...]
    origin: Origin
    records: str = ""


@unique
class Cause(Enum):
    """The causes for which room is kept, numbered as in docs/decisions/0115."""

    value: Rule

    PLANNED = Rule(
        "placement/launcher:Launcher.add", "the slot", "its launch; a fact about the agent changes", (), Origin.NOTHING
    )  # 1
    INTERRUPTED = Rule(
        "controllers/holds/interrupted_launches:InterruptedLaunches.recover",
        "its own launch, if the cluster manager keeps the room",
        "a report; an answer; the end of the taskgroup",
        ("ANSWER_SECONDS",),
        Origin.RECORDS,
        "taskgroups in Staging that are older than the term",
    )  # 2
    REPLACEMENT = Rule(
        "controllers/holds/interrupted_launches:InterruptedLaunches.notice",
        "the slot that replaces the taskgroup",
        "its place; the record of the taskgroup goes",
        ("PROMISE_SECONDS",),
        Origin.NOTHING,
    )  # 3
    PLACEHOLDER = Rule(
        "controllers/holds/placeholders:HeldPlaceholders.notice",
        "no work",
        "the end of the placeholder; no offer covers it",
        ("AWAY_SECONDS", "HOLD_SECONDS"),
        Origin.RECORDS,
        "taskgroups whose version is held",
    )  # 4
    KEPT = Rule(
        "controllers/holds/placeholders:KeptPlaceholders.notice",
        "no work",
        "the end of the placeholder; lists of agents without the room",
        ("SEEN_SECONDS", "LISTED_SECONDS"),
        Origin.CLUSTER,
        "taskgroups whose version is kept",
    )  # 5
    SWAP = Rule(
        "controllers/holds/placeholders:HeldPlaceholders.notice",
        "the task of the placeholder; all work after an eviction",
        "the launch of the task",
        ("LEAVE_SECONDS", "USE_SECONDS", "LISTED_PATIENCE", "SWAP_SECONDS"),
        Origin.NOTHING,
    )  # 6
    GANG = Rule(
        "offers/policy/applications/gang:Gang",
        "placeholders of the gang",
        "all are there",
        ("PLACEHOLDER_SECONDS",),
        Origin.RECORDS,
        "managed applications with their parts",
    )  # 7
    NOMINATED = Rule(
        "placement/promises:PartitionHolds",
        "the task",
        "its place; a session that does not renew it",
        ("NOMINATION_SECONDS",),
        Origin.NOTHING,
    )  # 8
    LEFT = Rule(
        "offers/ledger/coming:ComingRoom",
        "tasks with nominations; trees",
        "the offers have the amounts",
        ("RETURN_SECONDS", "UNOFFERED_SECONDS"),
        Origin.NOTHING,
    )  # 9
    PROMISED = Rule(
        "offers/policy/hierarchy/preemption/preemption:preempt",
        "the ask; others get the rest",
        "its place; the ask or the node goes; the queue is stopped",
        ("LONGEST", "RETRY"),
        Origin.RECORDS,
        "as VACATED",
    )  # 10
    REGAINED = Rule(
        "offers/policy/hierarchy/preemption/promises:regain",
        "an ask of the same application, else of the leaf",
        "as PROMISED",
        ("LONGEST",),
        Origin.NOTHING,
    )  # 11
    VACATED = Rule(
        "offers/policy/hierarchy/preemption/promises:renew",
        "the application that gets the room",
        "the promise",
        ("LONGEST", "RETRY"),
        Origin.RECORDS,
        "reschedules with a beneficiary",
    )  # 12
    RESERVED = Rule(
        "offers/policy/hierarchy/preemption/reservation:reserve",
        "the ask, and asks that outrank it",
        "its place; the known room does not suffice",
        ("LONGEST", "SHORTEST", "WINDOW", "MOST_IN_WINDOW", "PATIENCE"),
        Origin.NOTHING,
    )  # 13
    REQUIRED = Rule(
        "offers/policy/hierarchy/preemption/reservation:take_node",
        "the ask that needs the node",
        "as PROMISED",
        ("LONGEST",),
        Origin.RECORDS,
        "as VACATED",
    )  # 14
    OLD = Rule(
        "placement/aging:Aging.step",
        "the oldest old work of a role; work that outranks it",
        "its place; the limits of its queue; nothing becomes free",
        ("GAIN", "REST", "GATHERED"),
        Origin.RECORDS,
        "open transactions, by the time in their ids",
    )  # 15
    TARGET = Rule(
        "placement/rebalancing:run",
        "all work: nothing is kept",
        "its place",
        ("TARGET_SECONDS",),
        Origin.RECORDS,
        "the payload of the transaction",
    )  # 16
    OFFERED = Rule(
        "placement/partitions:Placing.promised",
        "all work of the framework",
        "the promise",
        ("PROMISED_SECONDS",),
        Origin.NOTHING,
    )  # 17
    STANDING = Rule(
        "offers/policy/applications/placeholders:Nominations",
        "the unit",
        "a claim or use of the unit",
        ("NOMINATION_SECONDS",),
        Origin.NOTHING,
    )  # 18


# --- the holds of a pool ------------------------------------------------------------------------------------------


class Hold(NamedTuple):
    """Room of an agent in a role that is kept."""

    cause: Cause
    site: Site
    request: ResourceRequest


class Left(NamedTuple):
    """A hold whose room is lent to a launch. `since`: Unix seconds at which it ended; None if it has not. `freed`: its
    agent was among those of `take_freed` before the hold was dropped."""

    hold: Hold
    since: float | None
    freed: bool


_WAITS: Mapping[Cause, float] = {Cause.SWAP: LEAVE_SECONDS, Cause.REPLACEMENT: PROMISE_SECONDS}
_NONE: Mapping[Unit, ResourceRequest] = {}


class Holds:
    """The holds of a pool, by unit: a taskgroup, or a place of work that has none yet."""

    def __init__(self, changed: Callable[[Unit, Site], None]) -> None:
        """`changed` is called when a hold begins or ends on an agent."""
        self._changed = changed
        self._holds: dict[Unit, Hold] = {}
        self._of: dict[Cause, dict[Unit, None]] = {}
        self.by_site: dict[Site, dict[Unit, ResourceRequest]] = {}
        """The holds by agent and role; no agent has an empty entry. Asked for each offer, so this is an attribute."""
        self.short: dict[Unit, None] = {}
        """Holds that the present offers do not cover, as of the latest look at their agents."""
        self.leaving: dict[Unit, float] = {}
        """Holds that have ended, with the Unix seconds of their end. Their room is for promised launches only."""
        self._news: dict[Unit, None] = {}
        self._freed: dict[Site, None] = {}

    def __len__(self) -> int:
        """Number of holds."""
        return len(self._holds)

    def __contains__(self, unit: Unit) -> bool:
        """True if a unit has a hold."""
        return unit in self._holds

    def __iter__(self) -> Iterator[tuple[Unit, Hold]]:
        """The holds with their units, the oldest first."""
        yield from self._holds.items()

    def get(self, unit: Unit) -> Hold | None:
        """The hold of a unit; None if it has none."""
        return self._holds.get(unit)

    def cause_of(self, unit: Unit) -> Cause | None:
        """The cause of the hold of a unit; None if it has none."""
        hold = self._holds.get(unit)
        return hold.cause if hold is not None else None

    def of(self, cause: Cause) -> list[str]:
        """The taskgroups with holds of a cause, the oldest first."""
        return [unit for unit in self._of.get(cause, ()) if isinstance(unit, str)]

    @property
    def sites(self) -> list[Site]:
        """Agents and roles with held room."""
        return list(self.by_site)

    def on(self, site: Site) -> Mapping[Unit, ResourceRequest]:
        """The holds of an agent in a role, the oldest first."""
        return self.by_site.get(site, _NONE)

    def until(self, unit: Unit) -> float | None:
        """Unix seconds until which the room of an ended hold waits; None for other holds: no moment is known."""
        since = self.leaving.get(unit)
        return since + _WAITS[self._holds[unit].cause] if since is not None else None

    def add(self, unit: Unit, cause: Cause, site: Site, request: ResourceRequest) -> None:
        """Sets room of an agent apart for a unit, out of the present offers and all later ones. The hold is short until
        the agent is looked at."""
        self.drop(unit)
        self._holds[unit] = Hold(cause, site, request)
        self._of.setdefault(cause, {})[unit] = None
        self.by_site.setdefault(site, {})[unit] = request
        self.short[unit] = self._news[unit] = None
        self._changed(unit, site)

    def drop(self, unit: Unit) -> None:
        """Ends a hold, if the unit has one: anybody may use the room."""
        hold = self._holds.pop(unit, None)
        if hold is None:
            return
        del self._of[hold.cause][unit]
        on = self.by_site[hold.site]
        del on[unit]
        if not on:
            del self.by_site[hold.site]
        for known in (self.short, self.leaving, self._news):
            known.pop(unit, None)
        self._freed[hold.site] = None
        self._changed(unit, hold.site)

    def leave(self, unit: Unit, cause: Cause, now: float) -> float:
        """Ends a hold for a promised launch: only this may use the room from now on. Returns the Unix seconds at which
        the caller is to drop the hold. `now`: Unix seconds."""
        hold = self._holds[unit]
        del self._of[hold.cause][unit]
        self._holds[unit] = hold._replace(cause=cause)
        self._of.setdefault(cause, {})[unit] = None
        self.leaving[unit] = now
        return now + _WAITS[cause]

    def take_left(self, site: Site, request: ResourceRequest, replaces: str) -> dict[Unit, Left]:
        """Drops the ended hold that is meant for a unit which was promised room on an agent: that of the taskgroup with
        the id `replaces`, else the oldest one of the scalars of the request, else all ended holds of the agent."""
        if not self.leaving:
            return {}
        units = [unit for unit in self.on(site) if unit in self.leaving]
        if replaces in units:
            units = [replaces]
        else:
            scalars = amounts_of(request)
            units = next(([unit] for unit in units if amounts_of(self._holds[unit].request) == scalars), units)
        return self.lend(site, units)

    def lend(self, site: Site, units: Iterable[Unit]) -> dict[Unit, Left]:
        """Drops holds of an agent whose room a unit is about to use."""
        freed = site in self._freed
        left = {unit: Left(self._holds[unit], self.leaving.get(unit), freed) for unit in units}
        for unit in left:
            self.drop(unit)
        return left

    def put_back(self, left: Mapping[Unit, Left]) -> None:
        """Undoes `take_left` or `lend`: nothing has been freed."""
        for unit, (hold, since, freed) in left.items():
            self.add(unit, *hold)
            if since is not None:
                self.leaving[unit] = since
            if not freed:
                self._freed.pop(hold.site, None)

    def judged(self, site: Site, short: Iterable[Unit]) -> None:
        """The offers of an agent have been compared with its holds: all but these are covered."""
        missing = frozenset(short)
        for unit in self.on(site):
            if (unit in missing) != (unit in self.short):
                self._news[unit] = None
            if unit in missing:
                self.short[unit] = None
            else:
                self.short.pop(unit, None)

    def emptied(self, site: Site) -> None:
        """An agent has no offers any more."""
        self.judged(site, self.on(site))

    def cleared(self) -> None:
        """No agent has offers any more."""
        for site in self.by_site:
            self.emptied(site)

    def has_news(self, cause: Cause) -> bool:
        """True if `take_news` has something for this cause."""
        return any(self._holds[unit].cause is cause for unit in self._news)

    def take_news(self, cause: Cause, most: int | None = None) -> list[str]:
        """The taskgroups with holds of a cause that are new, or have become covered or short, since the last call; so
        many at most (None: all), the others with a later call."""
        mine = (unit for unit in self._news if isinstance(unit, str) and self._holds[unit].cause is cause)
        news = list(islice(mine, most))
        for unit in news:
            del self._news[unit]
        return news

    @property
    def has_freed(self) -> bool:
        """True if `take_freed` has something."""
        return bool(self._freed)

    def take_freed(self) -> list[Site]:
        """Agents and roles on which a hold has ended since the last call."""
        freed, self._freed = self._freed, {}
        return list(freed)


def set_apart(resources: ResourceMap, request: ResourceRequest) -> tuple[ResourceMap, bool]:
    """The resources without a hold, and whether they cover the hold completely. If not, all that there is of its
    scalars is set apart."""
    try:
        _, _, rest = draw(resources, request)
    except Shortage:
        return remaining(resources, [_there_of(resources, request)]), False
    return rest, True


def together(requests: Collection[ResourceRequest]) -> ResourceRequest:
    """The scalars and ports of several requests as one."""
    cpus, mem, disk, gpus = map(sum, zip(*map(amounts_of, requests), strict=True))
    random = sum(request.random_ports for request in requests)
    fixed = tuple(port for request in requests for port in request.fixed_ports)
    return ResourceRequest(cpus, mem, disk, gpus, random, fixed)


def _there_of(resources: ResourceMap, request: ResourceRequest) -> Allocation:
    parts: list[tuple[ResourceKey, int]] = []
    for name, needed in zip(SCALARS, amounts_of(request), strict=True):
        left = needed
        for key, amount in resources.scalars.items():
            part = min(left, amount) if key.name == name else 0
            if part:
                parts.append((key, part))
                left -= part
    return Allocation(tuple(parts))
