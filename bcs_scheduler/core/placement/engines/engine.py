"""The interface between the loop of placement and an engine.

The loop (`core.placement.loop`) takes the demands that may have a chance, asks the engine of their roles in portions,
and carries its decisions out: launches, evictions, promises and reasons. An engine decides, answers questions
about its queues, and follows the records. It carries nothing out, and no other part sets its attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from enum import Enum
from typing import Any, NamedTuple, Protocol

from bcs_scheduler.core.placement.aging import AgentHold, Aging, Awaiting, EvictionPlan, Holder, OldHold
from bcs_scheduler.core.placement.promises import TaskName
from bcs_scheduler.core.placement.source import News
from bcs_scheduler.core.time_budget import UNLIMITED, TimeBudget
from offers.model import Demand, HeldBack, Placement
from offers.policy.hierarchy.configuration.partition import Partition
from offers.policy.obstacles import Attempt
from offers.policy.session.decisions import Bind, Eviction, Later, PluginFault
from offers.policy.session.model import Nomination
from transactions.base import Slot

LEFT = 32
"""Changed agents and taskgroups that an engine may leave for the copies that questions make of it."""


class Portion(NamedTuple):
    """The question of one decision."""

    role: str
    demands: list[Demand[Slot]]
    """The open demands of the role that take part."""
    caps: Mapping[str, int]
    """Number of slots that take part, by the id of the demand, where not all do."""
    held: OldHold | None
    """The reservation of old work in the role; None: there is none."""
    explains: Sequence[str] = ()
    """The applications for which it is explained why they wait."""
    closed: Set[str] = frozenset()
    """Applications for which nothing is ended now."""
    pace: TimeBudget = UNLIMITED
    until: float | None = None
    """Share of the time of the turn after which the decision should end; None: it has no bound, and is not carried
    out."""

    @property
    def is_grouped(self) -> bool:
        """True if groups of applications take part: a part of their members has no use, so that all are decided about
        at once."""
        return any(demand.group for demand in self.demands)


class Rest(Enum):
    """The part of a decision that is left to the next turn."""

    NOTHING = "nothing"
    VICTIMS = "victims"
    """The time was over before all taskgroups had their turn for which others may be ended."""
    TURNS = "turns"
    """The time was over before all applications had their turn."""
    PORTION = "portion"
    """The decision has found its number of places. Launches wait for the others, because an agent takes all its
    launches at once."""


class Decisions(NamedTuple):
    """The decisions of an engine about one role. Tasks are named by pairs of application and task."""

    binds: Sequence[Bind] = ()
    """Launches in the order in which they are to be sent."""
    evictions: Sequence[Eviction] = ()
    """The taskgroups that end, each with the application for which room is made; empty: for none."""
    promises: Mapping[TaskName, Nomination] = {}
    """Tasks for which room is kept on an agent, and which are not launched."""
    missing: Mapping[str, int] = {}
    """Number of taskgroups by application that its gang lacks without these decisions."""
    held_back: Mapping[str, HeldBack] = {}
    """The queues that hold applications back, at least those of `Portion.explains`."""
    attempts: Mapping[str, Attempt | None] = {}
    """The attempts to make room by evictions, by application; None if none was due. Applications that were not looked
    at are missing."""
    shares: Mapping[str, Mapping[str, int]] = {}
    """Deserved shares by queue and dimension."""
    later: Later | None = None
    """The earliest moment from which the engine may decide otherwise by the time alone; None: there is none."""
    rest: Rest = Rest.NOTHING


def nothing(*_: object, **__: object) -> None:
    """Has no effect: an engine has nothing to do."""


def none(*_: object, **__: object) -> tuple[()]:
    """Always empty: an engine has none."""
    return ()


def nowhere(*_: object, **__: object) -> Mapping[str, Mapping[Any, Any]]:
    """Always empty: an engine keeps no room."""
    return {}


def yes(*_: object, **__: object) -> bool:
    """Always True."""
    return True


def no(*_: object, **__: object) -> bool:
    """Always False."""
    return False


Decide = Callable[[Portion], Decisions]
Deciding = Callable[[str], list[Demand[Slot]]]
"""Returns the open demands of a role that are decided about; empty: of all roles of the partition."""


class Engine(Protocol):
    """Decides which demands of the roles of one partition get room."""

    # --- portions

    @property
    def decides(self) -> bool:
        """False: the engine holds nothing back, and all demands are matched in the order of their arrival."""

    @property
    def by_queues(self) -> bool:
        """True if the policy decides by queues and limits alone, and takes every agent that the matcher accepts."""

    def begin(self) -> bool:
        """A turn begins. True: the engine wants to decide although nothing has changed."""

    def catch_up(self, roles: Iterable[str], pace: TimeBudget) -> bool:
        """Takes over changes in parts, if there are many. False: the rest follows in the next turn. `roles`: those that
        are decided about next."""

    def decide(self, portion: Portion) -> Decisions:
        """The decisions of a portion. They are carried out, unless `drop` says so."""

    def answer(self, portion: Portion, queues: Partition | None = None) -> Decisions:
        """The decisions of a copy of the engine, which is dropped; they are not carried out. `queues`: the
        configuration of a tree of queues that is supposed; None: the present one."""

    def read_changes(self) -> Iterable[None]:
        """Takes over the changes that copies would have to take over, in portions; see `Placer.read_changes`."""

    def drop(self, evictions: Iterable[Eviction]) -> None:
        """These decided evictions are not carried out."""

    def accept(
        self, portion: Portion, decisions: Decisions, placed: Sequence[Placement[Slot]], left: Sequence[Demand[Slot]]
    ) -> None:
        """The launches of a portion that leaves a `Rest.PORTION` are carried out. `placed`: the placements that the
        matcher has found for them; `left`: the demands of the role that are left."""

    def idle(self, pace: TimeBudget) -> Iterable[Sequence[Eviction]]:
        """Evictions while nothing waits for a place; the caller carries each portion out before the next one."""

    def failed(self) -> None:
        """Decisions may not have been carried out after an error."""

    def faults(self) -> Sequence[tuple[PluginFault, str]]:
        """The faults of plug-ins since the latest call, each with a word for its kind."""

    # --- questions

    def spreads(self) -> bool:
        """True if the emptiest agents are preferred now."""

    def queue_of(self, application: str) -> str:
        """The queue of an application, given by its key."""

    def takes_back(self, demand: Demand[Slot], replaced: str) -> bool:
        """True if a demand may have the room that was held for a taskgroup whose launch did not happen, given by id."""

    def admits_more(self, wants: Sequence[Demand[Slot]]) -> bool:
        """True if the limits of the queues admit these places together; room is no limit."""

    def fits_queues(self, wants: Sequence[Demand[Slot]]) -> bool:
        """True if the queues take these places into room that is there: the present room of the cluster is a limit,
        too."""

    def outranks(
        self,
        demand: Demand[Slot],
        wants: Sequence[Demand[Slot]],
        holder: Holder,
        *,
        awaits: bool,
    ) -> bool:
        """True if a demand may use room that is kept for old work, beyond the room that is promised there. `wants`: the
        demands of the places that it needs at the same time. `awaits`: room is made for the demand on agents with held
        room."""

    def promised_amounts(self, role: str, without: Collection[str]) -> Mapping[str, Mapping[str, int]]:
        """The amounts of agents, by dimension, that are promised to work of a role, without that of some
        applications."""

    def use_held(self, aging: Aging, deciding: Deciding) -> None:
        """Has demands that outrank old work use its held room, before anything else is decided."""

    def use_rest(self, aging: Aging, deciding: Deciding) -> None:
        """The same after decisions were carried out, for demands to which they promise no other room."""

    def bound(self, binds: Sequence[Bind]) -> None:
        """These launches were planned beside the decisions: the promises whose room they use end."""

    def awaiting(self) -> Awaiting:
        """The slots for which room is being made. Their demands do not wait to be spread, because the room is kept for
        as long as they are decided about."""

    def promised(self) -> Collection[str]:
        """The ids of agents with room that the engine keeps for demands."""

    def agent_holds(self) -> Sequence[AgentHold]:
        """The room of agents that the engine keeps by itself, as of its latest decision (any thread)."""

    def next_timer(self) -> float | None:
        """Unix seconds at which the engine wants to decide; None: at no particular time."""

    def pause(self) -> float:
        """Seconds from a decision until the next one at least."""

    def evictions_for(
        self, wants: Sequence[Demand[Slot]], held: OldHold | None, deciding: Deciding, *, anywhere: bool
    ) -> EvictionPlan | None:
        """The room of places, as if disruption budgets admitted one end after the other; None if the policy ends
        nothing for them, or not enough. `held`: the reservation of these places, of which they may use the held room;
        None: there is none. `anywhere`: on any agents; else each on its agent of the reservation. Raises NotKnown."""

    # --- following

    def notice(self, news: News) -> bool:
        """Follows changes from outside of the placement. True: the demands may have to be decided about again."""

    def conclude(self, pace: TimeBudget) -> None:
        """Follows up the launches of the turn, for as long as the turn lasts."""

    def recover(self) -> None:
        """A term begins: takes over the records of the policy."""

    def void(self) -> None:
        """All offers are gone, and with them everything that is planned."""

    def drop_figures(self) -> None:
        """Drops all figures that follow from records, offers and moments, and works them out again when they are read:
        no decision changes. The moments, pauses and promises that no record has stay."""

    def forget(self) -> None:
        """After an error: drops everything that is derived from the records, and its notes besides."""
