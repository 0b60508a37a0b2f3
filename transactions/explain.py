"""Messages about waiting operations: diagnoses of the placement turned into sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from offers.dimensions import recorded
from offers.matching.explain import KEPT, PROMISED, ROLE, TO_SPREAD, UNTRIED, WITH_GANG, WITH_GROUP
from offers.model import Diagnosis, GroupGap, HeldBack
from offers.policy.waiting import WaitCode
from store.advice import advise
from store.mentions import private
from store.records import TaskGroup
from transactions.kinds import daemonset
from transactions.obstacles import attempted
from transactions.rules.gangs import WAITS
from transactions.rules.losses import HALTS
from transactions.text import counted, have

NAMED = 3
"""Number of taskgroups or agents that a message names, the first ones."""


HAVE_ROOM: Mapping[str, str] = {
    KEPT: "room, and the policy keeps it for others",
    WITH_GANG: "room for a part of the gang",
    WITH_GROUP: "room, and the group must start together",
}
"""Words about the room of agents, by the reasons of those that have room for a taskgroup."""

UNTRIED_WORDS = "the offers of the agents have just been requested; no place was looked for on them yet"
"""Words for `offers.matching.explain.UNTRIED`."""
TO_SPREAD_WORDS = (
    "the offers of emptier agents have just been requested, so that not all taskgroups start on the same agents; this "
    "takes a second at most"
)
"""Words for `offers.matching.explain.TO_SPREAD`."""


def reasons(diagnosis: Diagnosis) -> str:
    """Returns the message for a diagnosis, e.g. ``0 of 10 agents match: 7 lack CPUs, 3 excluded (constraint UNIQUE
    hostname)``. The message for a gang names the number of places that it needs at the same time; its numbers of
    agents are about the places that were not found. If work could have been ended for the demand, the obstacle comes
    first."""
    if diagnosis.attempt is not None and (tried := attempted(diagnosis.attempt)):
        return f"{tried}; {reasons(diagnosis._replace(attempt=None))}"
    if diagnosis.gap is not None:
        whole = group_gap(diagnosis.gap)
        others = 0 if diagnosis.min_members > 1 else diagnosis.gap.needed - diagnosis.gap.places
        return f"{whole}; {_for_others(others, diagnosis._replace(gap=None), diagnosis.gap.places)}"
    if diagnosis.min_members > 1 and diagnosis.agents:
        places = counted(diagnosis.min_members, "place")
        others = diagnosis.min_members - diagnosis.reached
        why = _for_others(others, diagnosis._replace(min_members=0), diagnosis.reached)
        return f"gang: {places} needed at the same time, {diagnosis.reached} found; {why}"
    if UNTRIED in diagnosis.reasons:
        return UNTRIED_WORDS
    if TO_SPREAD in diagnosis.reasons:
        return TO_SPREAD_WORDS
    if diagnosis.held_back is not None:
        return held_back(diagnosis.held_back)
    if diagnosis.reasons and not diagnosis.agents:
        return waiting(tuple(diagnosis.reasons))
    if not diagnosis.agents:
        return "no agent offers resources at the moment"
    if _have_room(diagnosis):
        found = diagnosis.reasons.items()
        return ", ".join(f"{counted(number, 'agent')} {have(number)} {HAVE_ROOM[why]}" for why, number in found)
    ranked = sorted(diagnosis.reasons.items(), key=lambda item: (-item[1], item[0]))
    failed = ", ".join(_failed(reason, count) for reason, count in ranked)
    parts = [f"0 of {counted(diagnosis.agents, 'agent')} {'matches' if diagnosis.agents == 1 else 'match'}: {failed}"]
    for name, needed, free in diagnosis.closest:
        shown = recorded(name).shown
        parts.append(f"closest for {RESOURCES.get(name, name)}: needs {shown(needed)}, at most {shown(free)} free")
    return "; ".join(parts)


def _have_room(diagnosis: Diagnosis) -> bool:
    return bool(diagnosis.reasons) and diagnosis.reasons.keys() <= HAVE_ROOM.keys()


def _for_others(others: int, diagnosis: Diagnosis, found: int) -> str:
    """The message for the places that are missing beside `found` ones."""
    tested = diagnosis.agents and diagnosis.held_back is None and not _have_room(diagnosis)
    return f"for the other {others}, {reasons(diagnosis)}" if tested and found and others > 0 else reasons(diagnosis)


def group_gap(gap: GroupGap) -> str:
    """Returns the message for a group of applications below its minimum."""
    if gap.slots < gap.needed:
        words = f"{counted(gap.needed, 'taskgroup')} missing, the applications of the group request {gap.slots}"
    else:
        words = f"{counted(gap.needed, 'place')} needed at the same time, {gap.places} found"
    short = ", ".join(f"{name} {number}" for name, number in gap.short)
    words = f"group {gap.group}: {words}" + (f"; missing by member: {short}" if short else "")
    if gap.apart:
        named = " and ".join(f"{one.policy} (roles {', '.join(one.roles)})" for one in gap.apart)
        words += f"; its members never start together, because several policies decide about their roles: {named}"
    return words


REFUSALS: Mapping[str, str] = {
    "AccessDenied": "the creator of the application may not submit to the queue that a placement rule gives",
    "QueueNotActive": "the queue that a placement rule gives is stopped or draining",
    "QueueNotALeaf": "the queue that a placement rule gives has queues below",
}
"""Reasons of `offers.policy.hierarchy.Refusal` for which no queue takes an application."""


def held_back(found: HeldBack) -> str:
    """Returns the message for a demand that its queue holds back. The amounts of the queue, which include the work of
    other namespaces, are for callers who see all namespaces."""
    has, deserves = (
        ", ".join(f"{name} {recorded(name).displayed(amount):.12g}" for name, amount in amounts) or "nothing"
        for amounts in (found.allocated, found.deserved)
    )
    if found.code:
        return _of_hold(found, has, deserves)
    why = "has its deserved share, and the policy keeps the room for other queues"
    return f"queue {found.queue} {why}{private(f'; allocated: {has}; deserved: {deserves}')}"


def _of_hold(found: HeldBack, has: str, most: str) -> str:
    whose = found.whose or "a user"
    match found.code:
        case WaitCode.QUEUE_MAXIMUM if found.never:
            return f"one taskgroup is larger than the maximum of queue {found.queue}{private(f': {most}')}"
        case WaitCode.QUEUE_MAXIMUM:
            return f"queue {found.queue} has no room below its maximum{private(f'; used: {has}; maximum: {most}')}"
        case WaitCode.QUEUE_KEPT:
            why = "keeps the rest of its maximum for other work, for which taskgroups end"
            return f"queue {found.queue} {why}{private(f'; used: {has}; maximum: {most}')}"
        case WaitCode.GUARANTEES:
            return f"queue {found.queue} has no room beside the guarantees of other queues{private(f'; used: {has}')}"
        case WaitCode.QUEUE_APPLICATIONS:
            return f"queue {found.queue} runs as many applications as it may: {found.applications}"
        case WaitCode.LIMIT_APPLICATIONS:
            return f"a limit of queue {found.queue} admits {counted(found.applications or 0, 'application')} of {whose}"
        case WaitCode.LIMIT_RESOURCES:
            return f"a limit of queue {found.queue} admits no more resources of {whose}"
        case WaitCode.QUEUE_STOPPED:
            return f"queue {found.queue} is stopped"
        case WaitCode.NO_QUEUE:
            why = REFUSALS.get(found.whose, "no placement rule gives a queue for the application")
            return f"{why}; its namespace names {found.queue}"
        case _:
            return f"queue {found.queue} waits for room that is promised to a taskgroup or being freed"


AGENTS_AWAY: Mapping[str, str] = {"disabled": "cordoned", "maintenance": "in maintenance"}
"""Words for agents that take no new taskgroups, by the name of the test that they fail."""
RESOURCES: Mapping[str, str] = {"cpus": "CPUs", "mem": "memory", "disk": "disk", "gpus": "GPUs", "ports": "ports"}
"""Words for the resources that agents lack, by name."""


def _failed(reason: str, agents: int) -> str:
    """The number of agents that failed a test, with the test."""
    if reason in RESOURCES:
        return f"{agents} {'lacks' if agents == 1 else 'lack'} {RESOURCES[reason]}"
    if reason == PROMISED:
        return f"{agents} with room that is promised to other taskgroups"
    if reason == ROLE:
        return f"{agents} {'offers' if agents == 1 else 'offer'} resources for other roles only"
    return f"{agents} {AGENTS_AWAY[reason]}" if reason in AGENTS_AWAY else f"{agents} excluded ({reason})"


def reason_text(reason: str) -> str:
    """Returns the text of a reason of a diagnosis for users."""
    if reason == PROMISED:
        return "the room is promised to other taskgroups"
    if reason == ROLE:
        return "the offered resources are for other roles"
    if reason == UNTRIED:
        return UNTRIED_WORDS
    if reason == TO_SPREAD:
        return TO_SPREAD_WORDS
    return f"not enough {reason}" if reason in RESOURCES else AGENTS_AWAY.get(reason, reason)


def waiting(missing: tuple[str, ...]) -> str:
    """Returns the message of a launch that waits for configuration. `missing`: as `transactions.injection.missing`
    returns it."""
    kind = "" if missing and missing[0] in WAITS | HALTS else "for configuration: "
    return f"waiting {kind}{'; '.join(missing)}"


def unplaced(diagnosis: Diagnosis | None, missing: tuple[str, ...]) -> str:
    """Explains why a transaction found no place for a part of its slots before its time ran out; empty if it found all
    places. `diagnosis` None: no demand was short of room. `missing`: as in `waiting`."""
    if missing:
        return f"still {waiting(missing)}"
    if diagnosis is None:
        return ""
    left = diagnosis.slots - diagnosis.placed
    return f"have not enough resources: {counted(left, 'taskgroup')} not placed; {reasons(diagnosis)}"


def problems(update_health: daemonset.UpdateHealth) -> str:
    """Describes the problems of the taskgroups of a daemonset; empty if there are none."""
    ended, dead, away = update_health.ended, update_health.dead, update_health.away
    parts = []
    if dead:
        details = "will not be restarted" if len(dead) == len(ended) else f"{len(dead)} of them will not be restarted"
        parts.append(f"{_have(ended)} ended and {details} ({_named(map(_placed, dead))})")
    elif ended:
        parts.append(f"{_have(ended)} ended ({_named(map(_placed, ended))})")
    if away:
        parts.append(f"{counted(len(away), 'unreachable taskgroup')} ({_named(map(_placed, away))})")
    return ", ".join(parts)


def updating(version: str, update_health: daemonset.UpdateHealth) -> str:
    """Describes the progress of the update of a daemonset to this version."""
    words = f"to version {version}" + (" stands still" if update_health.stuck else "")
    found = problems(update_health)
    return f"{words}: {found}" if found else words


def deleting(groups: Iterable[TaskGroup]) -> str:
    """Describes why the deletion of a daemonset with these taskgroups is not complete."""
    away = sorted({group.hostname for group in groups if group.unreachable_since and not group.ended})
    if not away:
        return "its taskgroups are being ended"
    return f"waits for {counted(len(away), 'unreachable agent')} ({_named(away)}); {advise('give_up_unreachable')}"


def _have(groups: Sequence[TaskGroup]) -> str:
    return f"{counted(len(groups), 'taskgroup')} {'has' if len(groups) == 1 else 'have'}"


def _placed(group: TaskGroup) -> str:
    return f"{group.name} on {group.hostname}"


def _named(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - NAMED} more" if len(listed) > NAMED else ""
    return ", ".join(listed[:NAMED]) + more
