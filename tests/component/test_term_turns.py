"""bcs_scheduler.leadership.term: how many reports a turn takes from the inbox while the store is behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from bcs_scheduler.core.interface import cluster_manager, inputs, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.leadership.term import Term
from bcs_scheduler.loop.inbox import Inbox
from bcs_scheduler.loop.lanes import is_answer, lane_of
from bcs_scheduler.loop.turn_timer import REPORTS, REST, SHORT_REST, is_crowded, rest
from bcs_scheduler.observability.metrics import Metrics
from store import base
from store.ids import TaskGroupId
from store.memory import MemoryBackend
from store.state import State
from store.state.unit_of_work import Unit
from tests.integration.schedulers import A, FakeDriver, HeldStore
from tests.waiting import wait_for
from transactions.rules.task_states import TaskState

STORM = 2 * REPORTS
"""Reports of the large application."""


class Steps:
    """A term on a store that holds commits back. The test takes the turns: the core has no thread."""

    def __init__(self) -> None:
        self.store = HeldStore(MemoryBackend())
        self.store.open()
        elected: list[base.Term] = []
        self.store.campaign(A, elected.append, lambda reason: None)
        self.lost: list[str] = []
        self.term = Term(
            self.store, elected[0].epoch, State(()), {}, CoreOptions(), FakeDriver, Metrics(), self.lost.append
        )
        self.pipeline = self.term._pipeline
        self.pipeline._patience = 600.0  # however slow the machine is, `submit` does not block the test
        self.rests = 0
        """Turns before which the term has rested."""
        self.term.inbox.await_command = self._rest  # type: ignore[method-assign]
        self.batches: list[Sequence[inputs.Input]] = []
        self._honest = self.term.core.turn
        self.term.core.turn = self._turn  # type: ignore[method-assign, assignment]
        self.pipeline.start()

    def _turn(self, batch: Sequence[inputs.Input], *arguments: object) -> Sequence[Unit]:
        self.batches.append(batch)
        return self._honest(batch, *arguments)  # type: ignore[arg-type]

    def _rest(self, timeout: float) -> bool:
        """Counts the waits of a turn as one, and does not wait."""
        self.rests += 1
        return True

    def hold(self) -> None:
        """The store answers no commit any more, until commits wait to be sent behind those under way."""
        self.store.holding = True
        wait_for(self._crowded, what="commits that wait to be sent")

    def _crowded(self) -> bool:
        self.pipeline.submit([Unit((), ())])
        return is_crowded(self.pipeline.unsent_for())

    def release(self) -> None:
        self.store.release()
        assert self.pipeline.drain(60.0)

    def take(self) -> Sequence[inputs.Input]:
        """The events of one turn."""
        self.term._turn()
        return self.batches[-1]


@pytest.fixture
def steps() -> Iterator[Steps]:
    made = Steps()
    yield made
    made.store.release()
    made.term.stop("the test is over")
    assert not made.lost


def update(
    namespace: str, index: int, state: TaskState = TaskState.RUNNING, *, answer: bool = False
) -> cluster_manager.StatusUpdate:
    group = TaskGroupId.make(index, "web", namespace, "c", 1_000 + index)
    return cluster_manager.StatusUpdate(task_id=str(group.task(0)), state=state, answer=answer)


def by_namespace(batch: Sequence[inputs.Input]) -> Counter[str]:
    return Counter("an answer" if is_answer(event) else lane_of(event)[0] for event in batch)


def test_a_turn_takes_one_report_of_each_namespace_while_a_commit_waits_to_be_sent(steps: Steps) -> None:
    for index in range(STORM):
        steps.term.inbox.put(update("storm", index))
        steps.term.inbox.put(update("large", index, answer=True))
    for index in range(2):
        steps.term.inbox.put(update("small", index))
    steps.hold()
    assert by_namespace(steps.take()) == {"storm": 1, "small": 1, "an answer": 1}
    assert by_namespace(steps.take()) == {"storm": 1, "small": 1, "an answer": 1}
    steps.release()
    room = REPORTS - steps.term.core.unhandled[1]
    assert room > 3 and len(steps.take()) == room, "the store keeps up: a turn takes what it has room for"


def test_reports_that_change_nothing_do_not_wait_for_the_store(steps: Steps) -> None:
    """The answers for all tasks of a large cluster would take minutes, one in a turn with a rest before each."""
    steps.term.inbox.put(update("first", 0))
    assert steps.take(), "the mark of the begin of the term leaves with the first turn"
    for index in range(STORM):
        steps.term.inbox.put(update("large", index, TaskState.FINISHED, answer=True))
    steps.hold()
    sizes = [len(steps.take()) for _ in range(10)]
    assert sizes[:3] == [1, 2, 4] and sum(sizes) == STORM
    assert steps.rests <= 1, "before the first turn"
    steps.term.inbox.put(update("storm", 0))
    assert steps.take()
    steps.rests = 0
    for index in range(STORM):
        steps.term.inbox.put(update("storm", index))
    assert [len(steps.take()), steps.rests] == [2, 1], "what was decided is the store's to take first"


def test_a_rest_ends_when_the_store_has_caught_up_or_a_command_arrives() -> None:
    waits: list[float] = []

    def rests(unsent: list[float], wakeup: float, commands: int = 1_000) -> tuple[float, int]:
        """The value that the rest returns, and the number of its waits."""
        waits.clear()

        def await_command(timeout: float) -> bool:
            waits.append(timeout)
            return len(waits) >= commands

        values = iter(unsent)
        # Each wait lasts SHORT_REST; the product, unlike a sum, is exact.
        return rest(wakeup, lambda: next(values, 9.0), await_command, lambda: len(waits) * SHORT_REST), len(waits)

    assert rests([1.0, 1.0, 0.1], wakeup=60.0) == (0.1, 2)
    assert rests([], wakeup=60.0, commands=3) == (9.0, 3)
    assert rests([0.0], wakeup=60.0) == (0.0, 0)
    assert rests([], wakeup=60.0)[1] == REST / SHORT_REST
    assert rests([], wakeup=-1.0)[1] == 1, "the core has work to do"
    assert set(waits) == {SHORT_REST}


def test_a_command_ends_a_wait_for_commands_and_reports_do_not() -> None:
    inbox = Inbox()
    inbox.put(update("storm", 0))
    assert not inbox.await_command(0.01)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(inbox.await_command, 60.0)
        wait_for(lambda: inbox._condition._waiters, what="the waiting thread")  # type: ignore[attr-defined]
        inbox.put(update("storm", 1))
        inbox.offer(requests.CancelTransaction(id="t"))
        assert waiting.result(30.0)
    inbox.close()
    assert inbox.await_command(60.0)
    assert len(inbox.take(0.0, 0, 0)) == 0
