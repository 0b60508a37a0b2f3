"""Placeholders make room for tasks of their group.

A task that waits takes over the room of a placeholder: on the same node if the node passes the checks for the task,
else on another one. The placeholder is released first, and the task is launched when the placeholder is gone. The
figures of queue and node change in one step.
"""

from __future__ import annotations

from offers.dimensions import Amounts
from offers.policy.applications.gangs.effects import NoticeCode
from offers.policy.applications.gangs.records import MemberRecord, PlaceholderRecord, ReleaseType, Way
from offers.policy.applications.gangs.state import GangState
from offers.policy.applications.tables import CoreState, PlaceholderState, TaskState

GIVES_ROOM = (CoreState.ACCEPTED, CoreState.RUNNING, CoreState.COMPLETING)
"""States in which an application gives room to its tasks."""


def swap_all(state: GangState, now: float) -> None:
    """Finds placeholders for the tasks that wait for one, the oldest first; `now` in Unix seconds. A task of a group
    that has no open placeholder becomes an ordinary one."""
    if state.header.core.state not in GIVES_ROOM:
        return
    for group, keys in list(state.waiting.items()):
        if keys and (not state.counter(group).open or state.placeholders.count(group, PlaceholderState.BOUND)):
            _swap_group(state, group, now)


def _swap_group(state: GangState, group: str, now: float) -> None:
    refused: set[Amounts] = set()
    for key in list(state.waiting[group]):
        member = state.members.records[key]
        linked = False
        if state.counter(group).open and member.request not in refused:
            linked = _swap(state, member, now)
        if not linked:
            refused.add(member.request)
        if not linked and not state.counter(group).open:
            state.put(member._replace(way=Way.ORDINARY))
            state.engine.ask(state.header.key, member.key, member.request, member.created)


def _swap(state: GangState, member: MemberRecord, now: float) -> bool:
    """Links a task with a placeholder. Returns False if none can make room now."""
    app, first = state.header.key, None
    for holder in state.placeholders.of_group(member.group, PlaceholderState.BOUND):
        if larger := _larger(member.request, holder.request):
            state.notice(
                NoticeCode.PLACEHOLDER_INCOMPATIBLE,
                holder.key,
                f"the resource request of the task {member.key} is incompatible with the placeholder: more {larger}",
            )
            state.give_up(holder, now)
            continue
        first = first or holder
        if state.engine.suits(app, member.key, holder.node):
            _link(state, member, holder, holder.node, now)
            return True
    node = state.engine.find(app, member.key, member.request) if first is not None else None
    if first is None or node is None:
        return False
    if node != first.node:
        state.engine.hold(app, member.key, member.request, node)
    _link(state, member, first, node, now)
    return True


def _larger(wanted: Amounts, given: Amounts) -> str:
    """The name of the first amount that is larger than that of the placeholder; empty if there is none."""
    there = dict(given)
    return next((name for name, amount in wanted if amount > there.get(name, 0)), "")


def _link(state: GangState, member: MemberRecord, holder: PlaceholderRecord, node: str, now: float) -> None:
    state.put(member._replace(placeholder=holder.key, node=node))
    released = holder._replace(release=ReleaseType.REPLACED, member=member.key)
    released = state.turn(released, "Release", now)
    if state.traits.at_once:
        replaced(state, released, now)


def replaced(state: GangState, holder: PlaceholderRecord, now: float) -> None:
    """A placeholder that was released for a task is gone: the task gets the room and is launched. `now` in Unix
    seconds."""
    app = state.header.key
    state.count(holder.group, replaced=1)
    state.drop_placeholder(holder.key)
    member = state.members.records.get(holder.member)
    if member is None or member.placeholder != holder.key or member.life.state != TaskState.SCHEDULING:
        state.engine.release(app, holder.key)
        return
    state.engine.replace(app, holder.key, member.key, member.request, member.node)
    consumed = holder.key if state.traits.at_once else ""
    state.task(member._replace(placeholder=consumed), now, "TaskAllocated")
    if state.header.core.state != CoreState.RUNNING:
        state.core("run", now)
