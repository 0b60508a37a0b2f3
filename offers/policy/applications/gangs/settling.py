"""Consequences of the records of a gang. `settle` draws them all; repeating it changes nothing.

`now` is Unix seconds everywhere.
"""

from __future__ import annotations

from offers.policy.applications.gangs.records import PlaceholderRecord, ReleaseType, Way
from offers.policy.applications.gangs.state import GangState
from offers.policy.applications.gangs.swap import replaced, swap_all
from offers.policy.applications.metadata import Style
from offers.policy.applications.tables import APPLICATION, AppState, CoreState, PlaceholderState, TaskState

COMPLETING_SECONDS = 30.0
"""The time from the end of the last task to the completion of the application."""


def settle(state: GangState, now: float) -> None:
    """Moves the application as far as its records allow."""
    if state.paused:
        return
    _end_fallback(state, now)
    if state.header.manager.state == AppState.ACCEPTED:
        _reserve(state, now)
    if is_complete(state) and not state.header.group:
        let_start(state, now)
    if state.header.manager.state == AppState.RUNNING:
        _send(state, now)
    swap_all(state, now)
    since = state.header.completing
    if since is not None and now >= since + COMPLETING_SECONDS:
        _complete(state, now)
    if not len(state.placeholders) and state.header.timer is not None:
        state.put(state.header._replace(timer=None))


def is_reserving(state: GangState) -> bool:
    """True while the gang is to come together."""
    ready = state.header.core.state in (CoreState.ACCEPTED, CoreState.RUNNING)
    return ready and state.header.manager.state == AppState.RESERVING


def is_complete(state: GangState) -> bool:
    """True if the gang is being reserved and every placeholder holds its room."""
    return state.header.manager.state == AppState.RESERVING and all(
        state.placeholders.count(group.name, PlaceholderState.BOUND) >= group.min_member
        for group in state.groups.values()
    )


def let_start(state: GangState, now: float) -> None:
    """The reservation is complete: tasks take over the room of placeholders."""
    if state.header.core.state == CoreState.ACCEPTED:
        state.core("run", now)
    state.manager("UpdateReservation", now)
    state.manager("Run", now)


def end_reservation(state: GangState, cause: str, now: float) -> None:
    """Ends a reservation without all its room, by the style of the gang. `cause`: a code."""
    hard = state.header.metadata.parameters.style is Style.HARD
    allocated = state.header.core.state == CoreState.RUNNING
    state.put(state.header._replace(cause=cause))
    if hard or not allocated:
        state.core("fail" if hard else "resume", now)
    if hard:
        state.manager("Fail", now)
    elif state.header.manager.state == AppState.RESERVING:
        # A gang whose placeholders all have a node runs for its queue already, and does not resume.
        state.manager("Run" if allocated else "Resuming", now)
    state.give_up_all(now)
    if hard:
        state.fail_unallocated(cause, now)


def placeholder_gone(state: GangState, holder: PlaceholderRecord, now: float) -> None:
    """A placeholder with a node does not exist any more. While the gang is being reserved, another one is asked for in
    the place of one that was not released."""
    if holder.release is ReleaseType.REPLACED:
        replaced(state, holder, now)
        return
    state.engine.release(state.header.key, holder.key)
    state.drop_placeholder(holder.key)
    if holder.release is None and is_reserving(state):
        state.ask_placeholder(state.groups[holder.group], now)
    elif holder.release is None:
        state.count(holder.group, timed_out=1)


def _end_fallback(state: GangState, now: float) -> None:
    core = state.header.core.state
    if len(state.placeholders):
        return
    if core == CoreState.RESUMING:
        state.core("run", now)
        if state.header.manager.state == AppState.RESUMING:
            state.manager("Run", now)
    elif core == CoreState.FAILING and not state.members.any(TaskState.KILLING):
        state.core("fail", now)
        if state.header.manager.state == AppState.FAILING:
            state.manager("Fail", now)


def _reserve(state: GangState, now: float) -> None:
    """Begins the reservation, or the work if there is nothing to reserve."""
    if not state.groups or any(one.life.state != TaskState.NEW for one in state.members.records.values()):
        state.manager("Run", now)
        return
    state.manager("TryReserve", now)
    state.core("run", now)
    for group in state.groups.values():
        missing = group.min_member - state.counter(group.name).total
        state.count(group.name, total=missing)
        for _ in range(missing):
            state.ask_placeholder(group, now)


def _send(state: GangState, now: float) -> None:
    """Asks for room for the tasks that are new."""
    for member in list(state.members.of(TaskState.NEW)):
        if state.header.core.state in (CoreState.NEW, CoreState.COMPLETING):
            state.core("run", now)
        waits = state.counter(member.group).open
        sent = member._replace(way=Way.SWAP if waits else Way.ORDINARY)
        state.task(sent, now, "InitTask", "SubmitTask")
        if not waits:
            state.engine.ask(state.header.key, member.key, member.request, member.created)


def _complete(state: GangState, now: float) -> None:
    """Releases the remaining placeholders first; the application completes when they are gone."""
    state.give_up_all(now)
    if len(state.placeholders) or state.members.any(TaskState.KILLING):
        return
    state.core("complete", now)
    if not APPLICATION.allows(state.header.manager, "Complete"):
        state.manager("Run", now)
    state.manager("Complete", now)
