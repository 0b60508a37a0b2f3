"""Groups of applications in the placement, with the taskgroups that each of them lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from bcs_scheduler.core.options import RolePartition
from bcs_scheduler.core.placement.aging import MOST_PLACES
from bcs_scheduler.core.placement.engines.engine import Decisions
from bcs_scheduler.core.placement.placer import of_minimums
from bcs_scheduler.core.placement.turn import Turn
from offers.model import DecidedBy, Demand, GroupGap
from transactions.base import Slot
from transactions.rules.gangs import Shortage


class Groups:
    """Reads groups from the source and from the open demands. Nothing is kept."""

    def __init__(self, turn: Turn, covers: Callable[[str], bool]) -> None:
        """`covers`: the roles whose demands are looked at."""
        self._turn, self._covers = turn, covers

    def lacks(self, group: str) -> Shortage | None:
        """The taskgroups that a group (``namespace/name``) lacks; None: it has its minimum, or does not exist."""
        return self._turn.source.shortage(group)

    def demands(self, group: str) -> list[Demand[Slot]]:
        """The open demands of a group, in the order of their opening. Demands for which room was freed are left out:
        each of their slots is placed by itself, on the agent of its placeholder."""
        engine = self._turn.engine
        demands = (engine.demands[identity] for identity in engine.by_group.get(group, ()))
        return [demand for demand in demands if not demand.promised and self._covers(demand.role)]

    def places(self, group: str, lacks: Shortage) -> Sequence[Demand[Slot]]:
        """The demands of the places that a group lacks, one for each place, the minimums of its members first; empty
        if its demands do not suffice."""
        missing, places, rest = Counter(lacks.members), list[Demand[Slot]](), list[Demand[Slot]]()
        for demand, least in of_minimums(self.demands(group), lacks):
            missing[lacks.member_of.get(demand.application, "")] -= least
            places += [demand] * least
            rest += [demand] * (len(demand.slots) - least)
        places += rest[: max(lacks.needed - len(places), 0)]
        return places if len(places) >= lacks.needed and not +missing else ()

    def wants(self, demand: Demand[Slot]) -> Sequence[Demand[Slot]]:
        """The demands of the places that a demand needs at the same time, one for each place: those that its gang
        lacks. Empty if room was freed for the demand, or the gang cannot reach its minimum in one role."""
        if demand.promised:
            return ()
        lacks = self.lacks(demand.group) if demand.group else None
        wants = (demand,) * max(demand.min_members, 1) if lacks is None else self.places(demand.group, lacks)
        of_role = all(want.role == demand.role and not want.per_agent for want in dict.fromkeys(wants))
        return wants if of_role and len(wants) <= MOST_PLACES else ()

    def incomplete(self, demands: Iterable[Demand[Slot]]) -> dict[str, Shortage]:
        """The groups of these demands that lack taskgroups."""
        names = dict.fromkeys(demand.group for demand in demands if demand.group)
        shortages = {name: self.lacks(name) for name in names}
        return {name: lacks for name, lacks in shortages.items() if lacks is not None}

    def caps(self, incomplete: Mapping[str, Shortage], demands: Iterable[Demand[Slot]]) -> dict[str, int]:
        """Number of slots that take part in a decision, by the id of the demand, of groups whose members all have
        minimums of their own. Otherwise an engine could give one member the places that another one needs."""
        left = {
            name: dict(lacks.members)
            for name, lacks in incomplete.items()
            if sum(lacks.members.values()) >= lacks.total
        }
        caps = {}
        for demand in demands:
            if demand.group in left:
                member = incomplete[demand.group].member_of.get(demand.application, "")
                caps[demand.id] = min(left[demand.group].get(member, 0), len(demand.slots))
                left[demand.group][member] = left[demand.group].get(member, 0) - caps[demand.id]
        return caps

    def gaps(
        self, incomplete: Mapping[str, Shortage], demands: Iterable[Demand[Slot]], decisions: Decisions | None
    ) -> dict[str, GroupGap]:
        """The groups that stay below their minimum, by name. `decisions`: about the demands; None: the groups whose
        applications do not even want a place for their minimum."""
        slots: Counter[str] = Counter()
        for demand in demands:
            slots[demand.group] += len(demand.slots)
        places = Counter(job for job, _ in decisions.promises) if decisions is not None else Counter[str]()
        places.update(bind.job for bind in decisions.binds) if decisions is not None else None
        gaps = {}
        for name, lacks in incomplete.items():
            if decisions is None and slots[name] >= lacks.needed:
                continue
            gap = lacks.gap({key: places[key] for key in lacks.member_of if places[key]}, slots[name])
            if gap is not None:
                gaps[name] = gap
        return gaps


def partitions_of(turn: Turn, group: str, beside: str = "") -> dict[str, RolePartition]:
    """The partitions that decide about the members of a group (``namespace/name``), by the name of the member. Empty if
    all roles have one policy. `beside`: the member that is left out."""
    if len(turn.options.parts()) == 1:
        return {}
    return {
        member.name: turn.options.part_of(member.role) for member in turn.source.members(group) if member.name != beside
    }


def apart(turn: Turn, group: str) -> tuple[DecidedBy, ...]:
    """The policies that decide about the members of a group (``namespace/name``), if there are several; else empty."""
    policies = {part.roles: part.decides for part in partitions_of(turn, group).values()}
    return tuple(policies.values()) if len(policies) > 1 else ()
