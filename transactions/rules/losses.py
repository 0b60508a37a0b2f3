"""Lost taskgroups: those that ended with their agent, and those on unreachable agents. The halts of the whole cluster,
and the words about them that events, checks, `bcs` and the console show."""

from __future__ import annotations

from typing import Literal, NamedTuple

from store.advice import advise
from store.records import Framework, LossHalt, TaskGroup, UnknownHalt
from transactions.rules import relaunch
from transactions.text import counted, duration

WINDOW = 600.0
"""Seconds within which losses count as one. A cluster manager notices the loss of many agents within minutes, one after
the other: it waits for missing answers, and may limit the rate of removals."""

HALTED = "for the end of a large loss: lost taskgroups are not replaced now (bcs resume)"
"""Message of a replacement that a large loss stops."""

UNDECIDED = f"for a decision about running taskgroups that the store does not know: {advise('decide_unknown')}"
"""Message of a launch that unknown tasks stop."""
HALTS = frozenset({HALTED, UNDECIDED})


class Halt(NamedTuple):
    """A halt of the whole cluster, about which an operator should decide. `words`: the cause, the work that waits, and
    the way on; ASCII."""

    code: Literal["unknown_tasks", "large_loss"]
    words: str


def halts(framework: Framework) -> list[Halt]:
    """The halts of the present, the one that stops more first. Any thread may call."""
    found: list[Halt] = []
    if framework.unknown is not None:
        found.append(Halt("unknown_tasks", words_of_unknown(framework.unknown)))
    if framework.halt is not None:
        found.append(Halt("large_loss", words_of_loss(framework.halt)))
    return found


def words_of_loss(halt: LossHalt) -> str:
    """Returns the words of `Halt` about a large loss."""
    return (
        f"{counted(halt.taskgroups, 'taskgroup')} of {halt.total} on {counted(halt.agents, 'agent')} were lost within "
        f"{duration(WINDOW)}; lost taskgroups are not replaced until the loss is over {advise('resume_replacements')}"
    )


def words_of_unknown(halt: UnknownHalt) -> str:
    """Returns the words of `Halt` about tasks that the store does not know."""
    which = "" if halt.newer == halt.taskgroups else f"{halt.newer} of them "
    newer = f", {which}newer than the store" if halt.newer else ""
    # The halt begins when the first ones have been found.
    return (
        f"at least {counted(halt.taskgroups, 'taskgroup')} that the store does not know "
        f"{'runs' if halt.taskgroups == 1 else 'run'}{newer}: none is ended and nothing is launched until an operator "
        f"decides; {advise('decide_unknown')}"
    )


def is_lost(group: TaskGroup) -> bool:
    """True if the agent of the taskgroup is unreachable or gone, and the taskgroup has no replacement yet. A launch
    that did not happen is no loss: a leader that dies in a large launch leaves many of these."""
    return bool(group.unreachable_since) or (group.status == "Lost" and not relaunch.is_due(group))
