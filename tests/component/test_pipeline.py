"""bcs_scheduler.loop.pipeline: units become durable in order, effects leave only then, whatever the store does."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

from bcs_scheduler.loop import pipeline as module
from bcs_scheduler.loop.commit_pacing import CommitPacing
from bcs_scheduler.loop.pipeline import CommitPipeline
from store.base import Change, RecordTooLarge, StaleEpoch, StoreUnavailable
from store.encoding.codec import encode_changes, size_of
from store.encoding.sizes import Sizer
from store.records import AgentSetting, Event, EventLog
from store.state.unit_of_work import Unit
from tests.waiting import wait_for

EPOCH = 7


class Commit:
    """A commit the pipeline has made; it is decided when the test (or the store's rule) says so."""

    def __init__(self, changes: Sequence[Change], epoch: int) -> None:
        self.changes, self.epoch = list(changes), epoch
        self.future: Future[None] = Future()

    @property
    def keys(self) -> list[str]:
        return [change.key for change in self.changes]

    def succeed(self) -> None:
        self.future.set_result(None)

    def fail(self, error: Exception) -> None:
        self.future.set_exception(error)


class FakeStore:
    """Keeps the commits for the test to decide; with `rule`, decides them at once by its answer (None = durable)."""

    def __init__(self, batch_bytes: int = 1_000_000) -> None:
        self.batch_bytes = batch_bytes
        self.sizer = Sizer(batch_bytes)
        self.commits: list[Commit] = []
        self.rule: Callable[[Commit], Exception | None] | None = None

    def commit(self, changes: Sequence[Change], epoch: int) -> Future[None]:
        commit = Commit(changes, epoch)
        self.commits.append(commit)
        if self.rule is not None:
            error = self.rule(commit)
            commit.succeed() if error is None else commit.fail(error)
        return commit.future

    def open(self) -> list[Commit]:
        """Those not decided yet, once there are any."""
        return wait_for(lambda: [c for c in self.commits if not c.future.done()], what="a commit")


class Meter:
    def __init__(self) -> None:
        self.committed_keys: list[str] = []
        self.failures = 0

    def committed(self, changes: Sequence[Change], seconds: float) -> None:
        assert seconds >= 0.0
        self.committed_keys += [change.key for change in changes]

    def commit_failed(self, changes: Sequence[Change]) -> None:
        self.failures += 1


class FixedFlow(CommitPacing):
    """Sends the same however fast the store is."""

    def __init__(self, in_flight: int) -> None:
        super().__init__()
        self._fixed = in_flight

    @property
    def in_flight(self) -> int:
        return self._fixed


class Bench:
    """A pipeline on a fake store, and what it did."""

    def __init__(self, batch_bytes: int = 1_000_000, in_flight: int = 2, **options: Any) -> None:
        self.store = FakeStore(batch_bytes)
        self.meter = Meter()
        self.left: list[object] = []
        self.lost: list[str] = []
        self.lag = 0.0
        self.pipeline = CommitPipeline(
            self.store,  # type: ignore[arg-type]
            EPOCH,
            self.left.extend,
            self.lost.append,
            self.meter,
            lag=lambda: self.lag,
            **options,
        )
        self.pipeline._pacing = FixedFlow(in_flight)

    def wait_left(self, *effects: object) -> None:
        wait_for(lambda: self.left == list(effects), what=f"effects {effects}; left: {self.left}, lost: {self.lost}")

    def wait_lost(self) -> str:
        wait_for(lambda: self.lost, what="the pipeline to give up")
        assert len(self.lost) == 1
        return self.lost[0]


@contextmanager
def bench(batch_bytes: int = 1_000_000, in_flight: int = 2, **options: Any) -> Iterator[Bench]:
    made = Bench(batch_bytes, in_flight, **options)
    made.pipeline.start()
    try:
        yield made
    finally:
        made.pipeline.close()
        made.pipeline.thread.join(30.0)
        assert not made.pipeline.thread.is_alive()


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.005)


def setting(key: str, filler: int = 0) -> AgentSetting:
    return AgentSetting(agent=key, strings={"filler": "x" * filler} if filler else {})


def unit(*keys: str, effects: Sequence[object] = (), filler: int = 0) -> Unit:
    changes = tuple(Change("agentsetting", key, setting(key, filler)) for key in keys)
    return Unit(changes, tuple(effects) or tuple(f"after {key}" for key in keys))


# --- memory -------------------------------------------------------------------------------------------------------


def test_what_is_durable_is_freed_without_the_garbage_collector() -> None:
    """A batch in a reference cycle, with all of its records, made half of the collector's work during a launch."""

    class Weighty:
        """An effect whose end can be seen."""

    effect = Weighty()
    end = weakref.ref(effect)
    gc.disable()
    try:
        with bench() as at:
            at.pipeline.submit([unit("a", effects=[effect])])
            del effect
            at.store.open()[0].succeed()
            wait_for(lambda: at.left, what="the effect to leave")
            at.left.clear()
            at.store.commits.clear()
            wait_for(lambda: end() is None, what="the batch to be freed")
    finally:
        gc.enable()


# --- order and merging --------------------------------------------------------------------------------------------


def test_effects_leave_only_when_their_changes_are_durable() -> None:
    with bench() as b:
        b.pipeline.submit([unit("a")])
        (commit,) = b.store.open()
        assert commit.epoch == EPOCH
        assert b.left == [] and b.pipeline.depth == 1
        commit.succeed()
        b.wait_left("after a")
        wait_for(lambda: b.pipeline.depth == 0)
        assert b.meter.committed_keys == ["a"]


def test_units_that_wait_are_merged_and_the_last_change_wins() -> None:
    with bench(in_flight=1) as b:
        b.pipeline.submit([unit("first")])
        (first,) = b.store.open()
        newest = Change("agentsetting", "a", setting("a", 5))
        gone = Change("agentsetting", "b", None)
        b.pipeline.submit([unit("a", "b"), Unit((newest,), ("newest",)), Unit((gone,), ("gone",))])
        first.succeed()
        (merged,) = b.store.open()
        assert merged.changes == [newest, gone]
        merged.succeed()
        b.wait_left("after first", "after a", "after b", "newest", "gone")


def test_effects_of_a_later_commit_wait_for_the_earlier_one() -> None:
    with bench(in_flight=2) as b:
        b.pipeline.submit([unit("a")])
        b.store.open()
        b.pipeline.submit([unit("b")])
        first, second = wait_for(lambda: b.store.commits if len(b.store.commits) == 2 else None)
        second.succeed()
        b.pipeline.submit([unit("c")])
        assert b.left == []
        assert len(b.store.commits) == 2, "only two may be in flight"
        first.succeed()
        b.wait_left("after a", "after b")
        (third,) = b.store.open()
        assert third.keys == ["c"]


def test_units_without_changes_keep_their_place_and_are_fenced_too() -> None:
    with bench(in_flight=1) as b:
        b.pipeline.submit([unit("a")])
        (first,) = b.store.open()
        b.pipeline.submit([Unit((), ("no change",))])
        assert b.left == []
        first.succeed()
        (second,) = b.store.open()
        assert second.keys == []
        assert b.left == ["after a"]
        second.succeed()
        b.wait_left("after a", "no change")


def test_a_deposed_leader_does_nothing_even_if_nothing_is_to_be_written() -> None:
    with bench() as b:
        b.pipeline.submit([Unit((), ("a kill",))])
        (commit,) = b.store.open()
        commit.fail(StaleEpoch("epoch 2 leads"))
        wait_for(lambda: bool(b.lost), what="the end of the term")
        assert b.left == []


def test_a_batch_is_filled_up_to_the_size_of_the_store_and_cut_between_units() -> None:
    with bench(batch_bytes=20_000, in_flight=1) as b:
        b.pipeline.submit([unit("hold")])
        (hold,) = b.store.open()
        b.pipeline.submit([unit(f"{n}a", f"{n}b", filler=2000) for n in range(6)])
        b.store.rule = lambda commit: None
        hold.succeed()
        wait_for(lambda: len(b.left) == 13)
        sizes = [sum(map(size_of, encode_changes(c.changes, 10**9))) for c in b.store.commits]
        assert max(sizes) <= b.store.batch_bytes
        assert 3 <= len(b.store.commits) <= 5, "several units fit one batch"
        for commit in b.store.commits[1:]:
            assert len(commit.keys) % 2 == 0, "no unit is cut"
        assert [key for c in b.store.commits[1:] for key in c.keys] == [f"{n}{half}" for n in range(6) for half in "ab"]


def test_thousands_of_units_come_out_in_order() -> None:
    with bench() as b:
        b.store.rule = lambda commit: None
        for number in range(3000):
            b.pipeline.submit([unit(str(number), effects=[number])])
        wait_for(lambda: len(b.left) == 3000)
        assert b.left == list(range(3000))
        assert [int(key) for key in b.meter.committed_keys] == list(range(3000))


def test_what_waits_to_be_sent_is_measured_from_its_arrival() -> None:
    with bench(in_flight=1) as b:
        assert b.pipeline.unsent_for() == 0.0
        b.pipeline.submit([unit("a")])
        (first,) = b.store.open()
        assert b.pipeline.unsent_for() == 0.0, "all has been sent"
        b.pipeline.submit([unit("b")])
        wait_for(lambda: b.pipeline.unsent_for() > 0.02, what="the second to wait")
        first.succeed()
        (second,) = b.store.open()
        assert b.pipeline.unsent_for() == 0.0
        second.succeed()


# --- an unreachable store -----------------------------------------------------------------------------------------


def test_an_unreachable_store_is_tried_again_in_order() -> None:
    with bench() as b:
        outage = 5

        def rule(commit: Commit) -> Exception | None:
            return StoreUnavailable("down") if len(b.store.commits) <= outage else None

        b.store.rule = rule
        b.pipeline.submit([unit("a")])
        b.pipeline.submit([unit("b"), unit("c")])
        b.wait_left("after a", "after b", "after c")
        assert b.meter.failures == outage
        durable = [key for commit in b.store.commits[outage:] for key in commit.keys]
        assert durable == ["a", "b", "c"]
        assert b.lost == [] and b.pipeline.stalled_for() == 0.0


def test_everything_in_flight_is_called_back_with_the_first() -> None:
    with bench(in_flight=2) as b:
        b.pipeline.submit([unit("a")])
        b.store.open()
        b.pipeline.submit([unit("b")])
        first, second = wait_for(lambda: b.store.commits if len(b.store.commits) == 2 else None)
        b.store.rule = lambda commit: None
        first.fail(StoreUnavailable("down"))
        second.fail(StoreUnavailable("down"))
        b.wait_left("after a", "after b")
        assert [key for commit in b.store.commits[2:] for key in commit.keys] == ["a", "b"]


def test_it_tells_for_how_long_nothing_got_through() -> None:
    with bench() as b:
        assert b.pipeline.stalled_for() == 0.0
        b.pipeline.submit([unit("a")])
        (commit,) = b.store.open()
        wait_for(lambda: b.pipeline.stalled_for() > 0.05, what="an unanswered commit to count")
        b.store.rule = lambda later: StoreUnavailable("down")
        commit.fail(StoreUnavailable("down"))
        wait_for(lambda: len(b.store.commits) > 3 and b.pipeline.stalled_for() > 0.1, what="retries to count")
        b.store.rule = lambda later: None
        b.wait_left("after a")
        assert b.pipeline.stalled_for() == 0.0


def test_a_store_that_applies_out_of_order_ends_the_term() -> None:
    with bench(in_flight=2) as b:
        b.pipeline.submit([unit("a")])
        b.store.open()
        b.pipeline.submit([unit("b")])
        first, second = wait_for(lambda: b.store.commits if len(b.store.commits) == 2 else None)
        second.succeed()
        first.fail(StoreUnavailable("down"))
        assert "without an earlier one" in b.wait_lost()
        assert b.left == []


# --- refusals -----------------------------------------------------------------------------------------------------


def test_a_stale_epoch_ends_the_term() -> None:
    with bench() as b:
        b.store.rule = lambda commit: StaleEpoch("epoch 8 leads")
        b.pipeline.submit([unit("a")])
        assert b.wait_lost() == "deposed: epoch 8 leads"
        b.pipeline.submit([unit("b")])
        assert b.left == [] and len(b.store.commits) == 1


def test_nothing_is_sent_beside_a_batch_that_the_store_has_refused() -> None:
    """With four in flight, what is behind a refused batch must not be applied: what is stored would have a gap."""
    with bench(batch_bytes=10_000, in_flight=4) as b:
        b.pipeline.submit([unit("a")])
        (first,) = b.store.open()
        b.store.rule = lambda commit: RecordTooLarge("agentsetting", "b", 9, 8) if "b" in commit.keys else None
        b.pipeline.submit([unit("b", filler=9_500)])
        wait_for(lambda: len(b.store.commits) == 2)
        b.pipeline.submit([unit("c", filler=9_500), unit("d")])
        wait_for(lambda: len(b.pipeline._waiting) == 2 and b.pipeline.thread.is_alive())
        first.succeed()
        assert "the store refused a change" in b.wait_lost()
        assert [c.keys for c in b.store.commits] == [["a"], ["b"]]
        assert b.left == ["after a"]


def test_a_large_unit_goes_alone_and_the_rest_follows() -> None:
    with bench(batch_bytes=10_000, in_flight=1) as b:
        b.pipeline.submit([unit("hold")])
        (hold,) = b.store.open()
        b.pipeline.submit([unit("a"), unit("large", filler=9_700), unit("b"), unit("c")])
        b.store.rule = lambda commit: None
        hold.succeed()
        b.wait_left("after hold", "after a", "after large", "after b", "after c")
        assert [c.keys for c in b.store.commits[1:]] == [["a"], ["large"], ["b", "c"]]


def test_a_run_of_the_event_log_counts_once_however_many_units_write_it_again() -> None:
    def run(length: int) -> Change:
        events = tuple(
            Event(number=n, at=1.0, object="o", key="k", namespace="n", reason="r", message="m" * 200)
            for n in range(length)
        )
        record = EventLog(number=1, events=events)
        return Change("journal", record.key, record, bound=400 * length + 100)

    with bench(in_flight=1) as b:
        b.pipeline.submit([unit("hold")])
        (hold,) = b.store.open()
        b.pipeline.submit([Unit((run(40 + n), *unit(str(n)).changes), ()) for n in range(20)])
        b.store.rule = lambda commit: None
        hold.succeed()
        wait_for(lambda: b.pipeline.depth == 0)
        assert len(b.store.commits) == 2, "20 runs of 20 kB are one of 20 kB"
        assert all(change.data is None for commit in b.store.commits for change in commit.changes)


def test_a_store_that_fails_unexpectedly_ends_the_term() -> None:
    with bench() as b:

        def rule(commit: Commit) -> Exception | None:
            raise OSError("broken")

        b.store.rule = rule
        b.pipeline.submit([unit("a")])
        assert b.wait_lost() == "thread commit failed: OSError: broken"


# --- pressure and closing -----------------------------------------------------------------------------------------


def test_what_waits_for_too_long_slows_the_core() -> None:
    with bench(in_flight=1, patience=0.05) as b:
        b.pipeline.submit([unit("a")])
        (commit,) = b.store.open()
        b.pipeline.submit([unit(f"w{n}") for n in range(1000)])
        submitting = threading.Thread(target=b.pipeline.submit, args=([unit("d")],), daemon=True)
        wait_for(lambda: time.monotonic() - b.pipeline._waiting[0].since > 0.1, what="units to have waited")
        submitting.start()
        wait_for(lambda: len(b.pipeline._condition._waiters) >= 2, what="submit to wait")  # type: ignore[attr-defined]
        assert submitting.is_alive() and b.pipeline.depth == 1001
        b.store.rule = lambda later: None
        commit.succeed()
        submitting.join(30.0)
        assert not submitting.is_alive()
        wait_for(lambda: b.left[-1:] == ["after d"])


def test_any_number_of_units_may_wait_for_a_moment() -> None:
    units = [unit(str(n)) for n in range(60_000)]
    with bench(in_flight=1, patience=600.0) as b:
        b.pipeline.submit([unit("a")])
        b.store.open()
        b.pipeline.submit(units)
        b.pipeline.submit([unit("last")])
        assert b.pipeline.depth == 60_002


def test_effects_that_cannot_leave_slow_the_core_too() -> None:
    with bench(patience=1.0) as b:
        b.store.rule = lambda commit: None
        b.lag = 2.0
        assert b.pipeline.delay() >= 2.0
        submitting = threading.Thread(target=b.pipeline.submit, args=([Unit((), ("last",))],), daemon=True)
        submitting.start()
        wait_for(lambda: len(b.pipeline._condition._waiters) >= 2, what="submit to wait")  # type: ignore[attr-defined]
        assert submitting.is_alive() and b.pipeline.depth == 0
        b.lag = 0.0
        b.wait_left("last")


def test_closing_drops_what_waits_and_frees_the_core() -> None:
    with bench(in_flight=1, patience=0.0) as b:
        b.pipeline.submit([unit("a")])
        (commit,) = b.store.open()
        b.pipeline.submit([unit("waits")])
        submitting = threading.Thread(target=b.pipeline.submit, args=([unit("b")],), daemon=True)
        submitting.start()
        b.pipeline.close()
        b.pipeline.close()
        submitting.join(30.0)
        b.pipeline.thread.join(30.0)
        assert not submitting.is_alive() and not b.pipeline.thread.is_alive()
        commit.succeed()
        assert b.left == [] and b.lost == []
        assert [c.keys for c in b.store.commits] == [["a"]]


def test_closing_ends_the_wait_for_a_commit_that_is_never_decided() -> None:
    with bench(in_flight=2) as b:
        b.pipeline.submit([unit("a")])
        b.store.open()
        b.pipeline.submit([unit("b")])
        first, _ = wait_for(lambda: b.store.commits if len(b.store.commits) == 2 else None)
        first.fail(StoreUnavailable("down"))
        wait_for(lambda: b.meter.failures == 1)
        b.pipeline.close()
        b.pipeline.thread.join(30.0)
        assert not b.pipeline.thread.is_alive() and b.lost == []


def test_draining_waits_until_everything_is_durable() -> None:
    with bench() as b:
        b.pipeline.submit([unit("a")])
        (commit,) = b.store.open()
        assert b.pipeline.drain(0.01) is False
        commit.succeed()
        assert b.pipeline.drain(30.0) is True
        assert b.left == ["after a"]


def test_it_tells_how_long_a_change_will_take_to_be_durable() -> None:
    with bench(in_flight=1) as b:
        assert b.pipeline.delay() < 0.1
        b.pipeline.submit([unit("a")])
        (first,) = b.store.open()
        b.pipeline.submit([unit(*map(str, range(4000)))])
        assert b.pipeline.delay() > 1.0, "4,000 changes wait, the first guess is 2,000 a second"
        b.store.rule = lambda commit: None
        first.succeed()
        wait_for(lambda: b.pipeline.depth == 0)
        assert b.pipeline.delay() < 0.1


def test_a_commit_that_is_not_answered_counts_into_the_delay() -> None:
    with bench() as b:
        b.pipeline.submit([unit("a")])
        b.store.open()
        wait_for(lambda: b.pipeline.delay() > 0.1, what="the delay to follow the age of the commit")
