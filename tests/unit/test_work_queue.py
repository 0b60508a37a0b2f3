"""The laws of the controllers' work queue, against a model that looks at everything."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bcs_scheduler.core.work_queue import SLACK, WorkQueue

KEYS = st.sampled_from("abcdef")
SPANS = st.sampled_from((0.0, 0.5, 1.0, 7.0, 60.0))
FIRST, LONGEST = 2.0, 11.0


class Machine(RuleBasedStateMachine):
    """What was added and not forgotten is in `times` and `marks` until the queue has returned it."""

    @initialize()
    def begin(self) -> None:
        self.queue, self.now = WorkQueue(), 1000.0
        self.times: dict[str, float] = {}
        self.marks: list[str] = []
        self.rests: dict[str, float] = {}
        self.tries: dict[str, int] = {}

    @rule(span=SPANS)
    def time_goes_on(self, span: float) -> None:
        self.now += span

    @rule(key=KEYS, span=SPANS)
    def put(self, key: str, span: float) -> None:
        self.queue.put(key, self.now + span)
        self.times[key] = self.now + span

    @rule(key=KEYS, span=SPANS)
    def put_earlier(self, key: str, span: float) -> None:
        self.queue.put_earlier(key, self.now + span)
        self.times[key] = min(self.now + span, self.times.get(key, self.now + span))

    @rule(key=KEYS, span=SPANS)
    def move_earlier(self, key: str, span: float) -> None:
        self.queue.move_earlier(key, self.now + span)
        if key in self.times:
            self.times[key] = min(self.now + span, self.times[key])

    @rule(key=KEYS)
    def mark(self, key: str) -> None:
        self.queue.mark(key)
        if key not in self.marks:
            self.marks.append(key)

    @rule(key=KEYS, span=SPANS)
    def rest(self, key: str, span: float) -> None:
        self.queue.rest(key, self.now, self.now + span)
        self.rests[key] = self.now + span

    @rule(key=KEYS)
    def wake(self, key: str) -> None:
        self.queue.wake(key)
        self.rests.pop(key, None)

    @rule(key=KEYS)
    def drop(self, key: str) -> None:
        self.queue.drop(key)
        self.times.pop(key, None)

    @rule(key=KEYS)
    def unmark(self, key: str) -> None:
        self.queue.unmark(key)
        self.marks = [mark for mark in self.marks if mark != key]

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.marks = [mark for mark in self.marks if mark != key]
        self.times.pop(key, None)
        self.rests.pop(key, None)
        self.tries.pop(key, None)

    @rule()
    def clear(self) -> None:
        self.queue.clear()
        self.times, self.marks, self.rests, self.tries = {}, [], {}, {}

    @rule(key=KEYS)
    def pauses_double_up_to_the_longest(self, key: str) -> None:
        tries = self.tries.get(key, 0)
        expected = min(FIRST * 2**tries, LONGEST)
        assert self.queue.next_pause(key, FIRST) == self.queue.pause(key, FIRST, LONGEST) == expected
        self.tries[key] = tries + 1

    @rule(key=KEYS)
    def reset_pause(self, key: str) -> None:
        self.queue.reset_pause(key)
        self.tries.pop(key, None)

    @rule()
    def pop_returns_the_earliest_that_is_due_and_nothing_else(self) -> None:
        due = sorted((at, key) for key, at in self.times.items() if at <= self.now)
        found = self.queue.pop(self.now)
        assert found == (due[0][1] if due else None)
        if found is not None:
            del self.times[found]

    @rule()
    def what_is_due_is_marked(self) -> None:
        self.queue.mark_due(self.now)
        for at, key in sorted((at, key) for key, at in self.times.items()):
            if at <= self.now:
                del self.times[key]
                if key not in self.marks:
                    self.marks.append(key)

    @rule(unless=st.sets(KEYS, max_size=2))
    def what_does_not_rest_is_ready_once_in_the_order_of_marks(self, unless: set[str]) -> None:
        expected = [key for key in self.marks if key not in unless and self.rests.get(key, 0.0) <= self.now]
        assert list(self.queue.ready(self.now, unless)) == expected
        self.marks = [key for key in self.marks if key not in expected]

    @invariant()
    def nothing_is_lost(self) -> None:
        queue = self.queue
        assert sorted(queue) == sorted(self.times) and len(queue) == len(self.times)
        assert all(key in queue and queue.time_of(key) == at for key, at in self.times.items())
        assert queue.first() == min(self.times.values(), default=None)
        ends = [self.rests.get(key, 0.0) for key in self.marks]
        assert queue.next_ready(self.now) == min(ends, default=None)


TestWorkQueue = Machine.TestCase


def test_keys_that_are_marked_while_others_are_looked_at_come_with_the_next_call() -> None:
    queue = WorkQueue()
    queue.mark("a", "b")
    seen = []
    for key in queue.ready(1.0):
        seen.append(key)
        queue.mark("a", "c")
    assert seen == ["a", "b"]
    assert list(queue.ready(1.0)) == ["a", "c"]


def test_keys_that_are_unmarked_while_others_are_looked_at_do_not_come() -> None:
    queue = WorkQueue()
    queue.mark("a", "b")
    assert [(key, queue.unmark("b"))[0] for key in queue.ready(1.0)] == ["a"]  # type: ignore[func-returns-value]


def test_a_clock_that_is_set_back_ends_no_key_s_work() -> None:
    """A rest that began in the future would otherwise hold its key for as long."""
    queue = WorkQueue()
    queue.mark("a")
    queue.rest("a", 1000.0, 1060.0)
    assert list(queue.ready(1030.0)) == []
    assert list(queue.ready(500.0)) == ["a"]


def test_times_that_are_moved_again_and_again_take_no_room() -> None:
    queue = WorkQueue()
    for number in range(10_000):
        queue.put("a", float(number))
    assert len(queue._heap) <= SLACK + 2 * len(queue) + 1
    assert (queue.pop(10_000.0), queue.pop(10_000.0)) == ("a", None)
