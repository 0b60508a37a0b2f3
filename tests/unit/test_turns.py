"""bcs_scheduler.loop.turn_timer: how many reports a turn takes while the store is behind."""

from __future__ import annotations

from bcs_scheduler.core.interface.cluster_manager import StatusUpdate
from bcs_scheduler.loop.inbox import Inbox
from bcs_scheduler.loop.turn_timer import CROWD, REPORTS, is_crowded, room_for_reports
from store.ids import TaskGroupId
from transactions.rules.task_states import TaskState


def update(namespace: str, index: int) -> StatusUpdate:
    group = TaskGroupId.make(index, "web", namespace, "c", 1_000 + index)
    return StatusUpdate(task_id=str(group.task(0)), state=TaskState.RUNNING)


def test_a_turn_takes_what_the_turns_before_have_left_room_for() -> None:
    assert room_for_reports(0, CROWD, 3, 0) == REPORTS
    assert room_for_reports(REPORTS - 5, 0.0, 3, 0) == 5
    assert room_for_reports(REPORTS + 5, 0.0, 3, 0) == 0
    assert room_for_reports(REPORTS, 2 * CROWD, 3, 0) == 0


def test_while_commits_wait_a_storm_waits_in_the_inbox_and_a_small_application_does_not() -> None:
    """Commits are first in, first out: of 5,000 updates none must get there before the one of another namespace, but
    those that have been taken."""
    inbox = Inbox()
    for index in range(5_000):
        inbox.put(update("storm", index))
    unsent = 2 * CROWD
    assert is_crowded(unsent)
    first = inbox.take(0.0, 0, room_for_reports(0, unsent, inbox.width, 0))
    assert len(first) == 2
    inbox.put(update("small", 0))
    second = inbox.take(0.0, 0, room_for_reports(0, unsent, inbox.width, 0))
    assert update("small", 0) in second and len(second) == 3
    assert len(inbox.take(0.0, 0, room_for_reports(0, 0.0, inbox.width, 0))) == REPORTS


def test_turns_that_decide_nothing_double_the_room_of_the_next() -> None:
    unsent = 2 * CROWD
    assert [room_for_reports(0, unsent, 1, idle) for idle in range(4)] == [2, 4, 8, 16]
    assert room_for_reports(0, unsent, 0, 1_000_000) == REPORTS
    assert room_for_reports(REPORTS - 5, unsent, 0, 1_000_000) == 5
