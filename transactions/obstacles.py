"""Messages about attempts to make room by ending other work (`offers.policy.obstacles`)."""

from __future__ import annotations

from collections.abc import Mapping

from offers.policy.obstacles import OF_AGENTS, OF_APPLICATIONS, OF_OTHER_QUEUES, Attempt, Met, Obstacle
from store.mentions import mention, private
from store.records import TaskGroup
from transactions.rules.disruptions import Disruptions, Refusal
from transactions.text import are, counted, have

CHANGES: Mapping[Obstacle, str] = {
    Obstacle.NOT_ALLOWED: "the policy has to end other work (reclaim, preempt, preemption of the tree), and the"
    " preemption policy of the application must not be Never",
    Obstacle.NOT_OLD_ENOUGH: "it has to wait for the preemption.delay of its queue",
    Obstacle.PAUSED: "the pause has to end, or room has to become free without evictions",
    Obstacle.IN_PARTS: "the budgets have to admit the rest: a place that finds no room spends none after a minute",
    Obstacle.OWN_GUARANTEE: "the guarantee or weight of its queue has to be greater, or the request smaller",
    Obstacle.NO_CANDIDATE: "more agents or a smaller request are needed: there is no work to end",
    Obstacle.OUTSIDE: "the fence, or the settings of these queues, have to admit that their work is ended for others",
    Obstacle.GUARANTEE: "the guarantees or shares of these queues have to be smaller",
    Obstacle.GANG: "these gangs have to run more members than their minimum, or may have to end as a whole",
    Obstacle.BUDGET: "maxUnavailable of these applications has to be greater, or more of their taskgroups ready",
    Obstacle.SHARE: "these applications have to use more, or the request has to be smaller",
    Obstacle.PRIORITY: "it has to have a higher priority",
    Obstacle.CRITICAL: "these taskgroups have to be of a class that is not critical",
    Obstacle.OPERATION: "the operations on these applications have to end",
    Obstacle.PLUGIN: "the plug-in has to allow the end of these taskgroups",
    Obstacle.LEAVING: "they are leaving already, and others get their room",
    Obstacle.APART: "more of the work on one agent has to be allowed to end, or the request has to be smaller",
    Obstacle.RESERVED: "the reservation has to end, or it has to have a higher priority",
}
"""The change that would end the wait, by code."""
OF_REFUSALS: Mapping[Refusal, Obstacle] = {
    "NoApplication": Obstacle.LEAVING,
    "BoundToAgent": Obstacle.CRITICAL,
    "Ending": Obstacle.LEAVING,
    "Unreachable": Obstacle.LEAVING,
    "Replaced": Obstacle.OPERATION,
    "Operation": Obstacle.OPERATION,
    "Critical": Obstacle.CRITICAL,
    "NoBudget": Obstacle.BUDGET,
    "Budget": Obstacle.BUDGET,
}
"""The obstacle by the answer of `transactions.rules.disruptions`."""
WORDS: Mapping[Obstacle, str] = {
    Obstacle.NOT_ALLOWED: "nothing may be ended for it",
    Obstacle.NOT_OLD_ENOUGH: "others are not ended for it{until}: it has not waited long enough",
    Obstacle.PAUSED: "{number} of applications whose end has not helped lately{named}{until}",
    Obstacle.OWN_GUARANTEE: "with it {queue} would have more than its guarantee or share",
    Obstacle.NO_CANDIDATE: "no work that could be ended for it runs{below}",
    Obstacle.IN_PARTS: "{groups}{of} {are} ended for it as their budget admits: {done} of {number} ended",
    Obstacle.OUTSIDE: "{number} beyond a fence or in queues that are spared{named}",
    Obstacle.GUARANTEE: "{number} within the guarantee or share{of}",
    Obstacle.GANG: "{number} within the minimum of a gang{named}",
    Obstacle.BUDGET: "{number} within the disruption budget{of}",
    Obstacle.SHARE: "{number} of applications with smaller shares{named}",
    Obstacle.PRIORITY: "{number} at least as important",
    Obstacle.CRITICAL: "{number} critical",
    Obstacle.OPERATION: "{number} in an operation{of}",
    Obstacle.PLUGIN: "{number} that a plug-in of the policy spares",
    Obstacle.LEAVING: "{number} leaving for others",
    Obstacle.APART: "{agents} {have} too little room even without the work that may end",
    Obstacle.RESERVED: "{agents} {are} reserved{named}{until}",
}
"""Words by code; `number` counts taskgroups."""
OWN_PAUSE = "others are not ended for it{until}: that has not helped lately"
"""Words for a pause of the ask itself."""
SHOWN = 3
"""Obstacles that a short message names, the first ones."""


def attempted(found: Attempt) -> str:
    """Returns the message for the latest attempt; empty if it met nothing."""
    if found.evicted:
        return f"{counted(found.evicted, 'taskgroup')} {are(found.evicted)} ended for it on {found.agent}"
    if found.agent:
        return f"the work that was ended for it on {found.agent} has left, and the room there is not offered yet"
    if not found.met:
        return ""
    first = found.met[0]
    if first.code is Obstacle.IN_PARTS or not first.number:  # it concerns the attempt as a whole
        return obstacle(first)
    kept = [one for one in found.met if one.code not in OF_AGENTS]
    if not kept:
        return obstacle(first)
    parts = [obstacle(one) for one in found.met if one.code is not Obstacle.APART][:SHOWN]
    total = sum(one.number for one in kept)
    return f"{counted(total, 'taskgroup')} {'stays' if total == 1 else 'stay'}: {', '.join(parts)}"


def protecting(rules: Disruptions, group: TaskGroup) -> Obstacle:
    """Returns the obstacle that keeps a taskgroup from being ended for others. A taskgroup that could be ended by
    itself is kept by the budget, of which others have been given the rest."""
    refusal = rules.judge(group, "evict").refusal
    return OF_REFUSALS[refusal] if refusal is not None else Obstacle.BUDGET


def change(code: Obstacle) -> str:
    """Returns the change that would end the wait."""
    return CHANGES[code]


def obstacle(met: Met) -> str:
    """Returns the message for one obstacle. The names of other queues are private."""
    number, whose = met.number, _whose(met)
    kept = private if met.code in OF_OTHER_QUEUES and met.whose else str
    words = OWN_PAUSE if met.code is Obstacle.PAUSED and not number else WORDS[met.code]
    return words.format(
        number=number,
        agents=counted(number, "agent"),
        groups=counted(number, "taskgroup"),
        done=met.done,
        have=have(number),
        are=are(number),
        of=kept(f" of {whose}") if whose else "",
        named=kept(f" ({whose})") if whose else "",
        below=f" below queue {whose}" if whose else "",
        queue=f"queue {whose}" if whose else "its queue",
        until=f" until {clock_time(met.until)}" if met.until else "",
    )


def clock_time(moment: float) -> str:
    """Returns the time of day of a moment in Unix seconds: ``12:03:04 UTC``."""
    minutes, seconds = divmod(int(moment) % 86_400, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02} UTC"


def _whose(met: Met) -> str:
    """The owners. Applications are mentions, which show a caller those of the namespaces that the caller may see."""
    if met.code in OF_APPLICATIONS and met.whose:
        named = mention("application", met.whose, within="")
    else:
        named = ", ".join(met.whose)
    if not met.others:
        return named
    return f"{named} and {met.others} more" if named else f"{met.others} others"
