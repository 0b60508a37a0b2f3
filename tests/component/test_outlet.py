"""bcs_scheduler.loop.call_outlet: whoever hands something over never waits for the consumer."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from bcs_scheduler.loop.call_outlet import Outlet
from tests.waiting import wait_for


class Consumer:
    def __init__(self) -> None:
        self.taken: list[int] = []
        self.free = threading.Event()
        self.failures: list[str] = []
        self.outlet: Outlet[int] = Outlet("consumer", self._take, self.failures.append)
        self.outlet.start()

    def _take(self, items: Sequence[int]) -> None:
        assert self.free.wait(30.0)
        if -1 in items:
            raise ValueError("broken")
        self.taken += items

    def end(self) -> None:
        self.free.set()
        self.outlet.close()
        self.outlet.thread.join(30.0)
        assert not self.outlet.thread.is_alive()


def test_a_consumer_that_blocks_holds_up_nobody_and_gets_everything_in_order() -> None:
    consumer = Consumer()
    for first in range(0, 1000, 10):
        consumer.outlet.put(range(first, first + 10))
    wait_for(lambda: consumer.outlet.lag() > 0.02, what="the oldest item to age")
    assert consumer.taken == [] and len(consumer.outlet) == 1000
    assert consumer.outlet.drain(0.01) is False
    consumer.free.set()
    assert consumer.outlet.drain(30.0) is True
    assert consumer.taken == list(range(1000))
    assert consumer.outlet.lag() == 0.0 and len(consumer.outlet) == 0
    consumer.end()


def test_a_consumer_that_fails_is_told_and_gets_nothing_more() -> None:
    consumer = Consumer()
    consumer.free.set()
    consumer.outlet.put([1])
    consumer.outlet.put([-1])
    consumer.outlet.put([2])
    wait_for(lambda: consumer.failures, what="the failure to be told")
    assert consumer.failures == ["thread consumer failed: ValueError: broken"] and consumer.taken == [1]
    consumer.end()


def test_closing_drops_what_waits_and_does_not_wait_for_the_consumer() -> None:
    consumer = Consumer()
    consumer.outlet.put([1])
    consumer.outlet.put([2])
    consumer.outlet.close()
    assert consumer.outlet.thread.is_alive(), "the consumer has the first and is held up"
    consumer.end()
    assert consumer.taken in ([], [1])
    consumer.outlet.put([3])
    assert len(consumer.outlet) == 0
