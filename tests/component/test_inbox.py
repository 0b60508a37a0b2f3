"""bcs_scheduler.loop.inbox: order, bounds, waiting, closing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_futures

import pytest

from bcs_scheduler.core.interface.inputs import Input, Tick
from bcs_scheduler.core.interface.requests import CancelTransaction
from bcs_scheduler.loop.inbox import Inbox, InboxClosed
from tests.waiting import wait_for


def event(number: int) -> Input:
    return Tick(cause=str(number))


def causes(events: list[Input]) -> list[int]:
    return [int(e.cause) for e in events]


def in_thread(action: Callable[[], object]) -> Future[object]:
    """Runs the action in a daemon thread, so that one that never ends does not keep the tests from ending."""
    future: Future[object] = Future()

    def run() -> None:
        try:
            future.set_result(action())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def waiting_on(inbox: Inbox) -> int:
    """Threads that wait inside the inbox."""
    return len(inbox._condition._waiters)  # type: ignore[attr-defined]


def test_events_come_out_in_order_and_in_batches() -> None:
    inbox = Inbox()
    for number in range(5):
        inbox.put(event(number))
    assert len(inbox) == 5
    assert causes(inbox.take(0.0, 0, 3)) == [0, 1, 2]
    assert causes(inbox.take(0.0, 0, 3)) == [3, 4]
    assert inbox.take(0.0, 0, 3) == []


def test_events_that_have_come_together_are_taken_together() -> None:
    inbox = Inbox()
    taken = in_thread(lambda: causes(inbox.take(60, 99, 99)))
    wait_for(lambda: waiting_on(inbox) == 1, what="the thread that takes")
    inbox.put(*map(event, range(20)))
    assert taken.result(60) == list(range(20))


def test_events_that_have_come_together_wait_for_room() -> None:
    inbox = Inbox(limit=5)
    done = in_thread(lambda: inbox.put(*map(event, range(12))))
    seen: list[int] = []
    while len(seen) < 12:
        seen += causes(inbox.take(60, 99, 99))
    done.result(60)
    assert seen == list(range(12)) and not len(inbox)


def test_take_gives_up_after_its_timeout() -> None:
    assert Inbox().take(0.01, 0, 1) == []


def test_take_is_woken_by_the_first_event() -> None:
    inbox = Inbox()
    taken = in_thread(lambda: inbox.take(60.0, 0, 10))
    wait_for(lambda: waiting_on(inbox) == 1, what="take to wait")
    inbox.put(event(7))
    assert causes(taken.result(30.0)) == [7]  # type: ignore[arg-type]


def test_a_full_inbox_slows_producers_and_turns_offers_away() -> None:
    inbox = Inbox(limit=2)
    inbox.put(event(0))
    assert inbox.offer(event(1)) is True
    assert inbox.offer(event(2)) is False
    blocked = in_thread(lambda: inbox.put(event(3)))
    wait_for(lambda: waiting_on(inbox) == 1, what="put to wait")
    assert not blocked.done()
    assert causes(inbox.take(0.0, 0, 1)) == [0]
    assert blocked.result(30.0) is None
    assert causes(inbox.take(0.0, 0, 9)) == [1, 3]


def test_closing_wakes_everybody_and_drops_what_is_inside() -> None:
    full, empty = Inbox(limit=1), Inbox()
    full.put(event(0))
    putters = [in_thread(lambda: full.put(event(1))) for _ in range(3)]
    taker = in_thread(lambda: empty.take(60.0, 0, 1))
    wait_for(lambda: waiting_on(full) == 3 and waiting_on(empty) == 1, what="everybody to wait")
    full.close()
    empty.close()
    for putter in putters:
        with pytest.raises(InboxClosed):
            putter.result(30.0)
    assert taker.result(30.0) == []
    assert len(full) == 0
    assert full.take(60.0, 0, 1) == []


def test_a_closed_inbox_takes_nothing() -> None:
    inbox = Inbox(limit=1)
    inbox.put(event(0))
    inbox.close()
    with pytest.raises(InboxClosed):
        inbox.put(event(1))
    with pytest.raises(InboxClosed):
        inbox.offer(event(1))


def test_many_producers_lose_nothing_and_keep_their_own_order() -> None:
    inbox, producers, each = Inbox(limit=7), 6, 300
    with ThreadPoolExecutor(producers) as pool:
        done = [
            pool.submit(lambda p=p: [inbox.put(event(p * each + number)) for number in range(each)])  # type: ignore[misc, func-returns-value]
            for p in range(producers)
        ]
        taken: list[int] = []
        while len(taken) < producers * each:
            batch = causes(inbox.take(30.0, 0, 5))
            assert batch, "a producer was not woken"
            taken += batch
        assert not wait_futures(done, 30.0).not_done
    assert sorted(taken) == list(range(producers * each))
    for p in range(producers):
        own = [number for number in taken if number // each == p]
        assert own == sorted(own)


def command(token: int) -> CancelTransaction:
    return CancelTransaction(id="t", token=token)


def test_commands_come_before_reports_and_each_in_order() -> None:
    inbox = Inbox()
    inbox.put(event(1))
    inbox.offer(command(1))
    inbox.put(event(2))
    inbox.offer(command(2))
    assert inbox.take(0.0, 1, 1) == [command(1), event(1)]
    assert inbox.take(0.0, 9, 9) == [command(2), event(2)]


def test_commands_and_reports_have_bounds_of_their_own() -> None:
    inbox = Inbox(limit=1, commands=2)
    assert inbox.offer(event(0)) is True
    assert inbox.offer(event(1)) is False
    assert [inbox.offer(command(token)) for token in range(3)] == [True, True, False]


def test_a_command_that_waits_can_be_taken_back() -> None:
    inbox = Inbox()
    for token in range(3):
        inbox.offer(command(token))
    assert inbox.withdraw(1) is True
    assert inbox.withdraw(1) is False
    assert inbox.take(0.0, 9, 9) == [command(0), command(2)]
    assert inbox.withdraw(0) is False, "it is handled already"


def test_the_age_is_that_of_the_oldest_report() -> None:
    inbox = Inbox()
    inbox.offer(command(1))
    assert inbox.age() == 0.0
    inbox.put(event(1))
    wait_for(lambda: inbox.age() > 0.0, what="the report to age")
    inbox.take(0.0, 9, 9)
    assert inbox.age() == 0.0
