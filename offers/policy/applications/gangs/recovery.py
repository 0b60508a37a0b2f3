"""Brings the records of a gang in line with the placeholders that exist after a crash. `now` is Unix seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from offers.policy.applications.gangs.records import PlaceholderRecord, ReleaseType
from offers.policy.applications.gangs.settling import is_reserving, placeholder_gone
from offers.policy.applications.gangs.state import GangState
from offers.policy.applications.tables import PLACEHOLDER, CoreState, PlaceholderState, TaskState


class Existing(NamedTuple):
    """A placeholder that its backend lists."""

    placeholder: str
    group: str
    node: str


def compare(state: GangState, existing: Iterable[Existing], now: float) -> None:
    """Compares records and placeholders. A placeholder without a record serves its group, or is released; one whose
    room a launch consumes is left to this launch."""
    listed = sorted(existing)
    there = {one.placeholder for one in listed}
    for holder in list(state.placeholders.of(PlaceholderState.ALLOCATED)):
        if holder.key in there:
            state.turn(holder, "Bind", now)
    for holder in list(state.placeholders.of(PlaceholderState.BOUND)):
        if holder.key not in there and not state.traits.lasting:
            state.turn(holder, "Lost", now)
        elif holder.key not in there:
            placeholder_gone(state, holder, now)
    for holder in list(state.placeholders.of(PlaceholderState.RELEASING)):
        if holder.key not in there:
            placeholder_gone(state, holder, now)
    consumed = {member.placeholder for member in state.members.of(TaskState.ALLOCATED)}
    for one in listed:
        if one.placeholder not in state.placeholders.records and one.placeholder not in consumed:
            _adopt(state, one, now)


def _adopt(state: GangState, one: Existing, now: float) -> None:
    """Lets a placeholder of an unknown name serve its group in place of one that is asked for, or releases it. Names
    have a part that differs between schedulers, so groups are compared and not names."""
    app, group = state.header.key, state.groups.get(one.group)
    asked = list(state.placeholders.of_group(one.group, PlaceholderState.ASKED))
    request = group.min_resource if group is not None else ()
    number = state.header.issued
    state.put(state.header._replace(issued=number + 1))
    born = PlaceholderRecord(one.placeholder, one.group, number, request, PLACEHOLDER.born(one.placeholder))
    placed = state.turn(born._replace(node=one.node), "Allocate", now)
    if not asked or not is_reserving(state):
        state.engine.occupy(app, one.placeholder, request, one.node)
        state.turn(placed._replace(release=ReleaseType.TIMEOUT), "Release", now)
        return
    state.engine.withdraw(app, asked[-1].key)
    state.drop_placeholder(asked[-1].key)
    state.engine.occupy(app, one.placeholder, request, one.node)
    state.turn(placed, "Bind", now)
    if state.header.timer is None:
        state.put(state.header._replace(timer=now))
    accepted = state.header.core.state == CoreState.ACCEPTED and not state.header.group
    if accepted and not state.placeholders.any(PlaceholderState.ASKED):
        state.core("run", now)
