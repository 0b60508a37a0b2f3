"""Gangs that start together: no task of one of them starts before the placeholders of all of them hold their room.

The gangs of a group are made at one moment, and leave their reservation at one moment: with all their room, or without
it. The caller commits the changes of all of them together, so their records never disagree after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence

from offers.policy.applications.gangs.effects import NoticeCode
from offers.policy.applications.gangs.gang import Gang


def settle_together(gangs: Sequence[Gang], now: float) -> None:
    """Lets the gangs of a group start if all of them are complete. If one of them has ended its reservation, the others
    end theirs, each by its style. `now` in Unix seconds."""
    waiting = [gang for gang in gangs if gang.reserving]
    if len(waiting) < len(gangs):
        cause = next((gang.record.cause for gang in gangs if not gang.reserving), "")
        code = next((code for code in NoticeCode if code == cause), NoticeCode.MEMBER_MISSING)
        for gang in waiting:
            gang.give_up(code, now)
    elif all(gang.reserved for gang in gangs):
        for gang in gangs:
            gang.start(now)
