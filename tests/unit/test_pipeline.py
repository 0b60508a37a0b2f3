"""bcs_scheduler.pipeline: units become durable in order, effects leave only then, whatever the store does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from bcs_scheduler import pipeline as module
from bcs_scheduler.pipeline import CommitPipeline
from store.base import Change, RecordTooLarge, StaleEpoch, StoreUnavailable
from store.codec import encode_changes, size_of
from store.records import AgentSetting
from store.unit_of_work import Unit
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


class Bench:
    """A pipeline on a fake store, and what it did."""

    def __init__(self, batch_bytes: int = 1_000_000, **options: int) -> None:
        self.store = FakeStore(batch_bytes)
        self.meter = Meter()
        self.left: list[object] = []
        self.lost: list[str] = []
        self.hold = threading.Event()
        self.hold.set()
        self.pipeline = CommitPipeline(
            self.store,  # type: ignore[arg-type]
            EPOCH,
            self._leave,
            self.lost.append,
            self.meter,
            **options,
        )

    def _leave(self, effects: Sequence[object]) -> None:
        assert self.hold.wait(30.0)
        self.left.extend(effects)

    def wait_left(self, *effects: object) -> None:
        wait_for(lambda: self.left == list(effects), what=f"effects {effects}; left: {self.left}, lost: {self.lost}")

    def wait_lost(self) -> str:
        wait_for(lambda: self.lost, what="the pipeline to give up")
        assert len(self.lost) == 1
        return self.lost[0]


@contextmanager
def bench(batch_bytes: int = 1_000_000, **options: int) -> Iterator[Bench]:
    made = Bench(batch_bytes, **options)
    made.pipeline.start()
    try:
        yield made
    finally:
        made.hold.set()
        made.pipeline.close()
        made.pipeline.thread.join(10.0)
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


def test_a_batch_that_is_too_large_after_all_goes_unit_by_unit() -> None:
    with bench(in_flight=2) as b:
        b.pipeline.submit([unit("hold1")])
        b.store.open()
        b.pipeline.submit([unit("hold2")])
        wait_for(lambda: len(b.store.commits) == 2)
        b.pipeline.submit([unit("a"), unit("b", "c"), unit("d")])

        def rule(commit: Commit) -> Exception | None:
            return RecordTooLarge("agentsetting", "b", 9, 8) if len(commit.changes) > 2 else None

        b.store.rule = rule
        for commit in b.store.commits[:2]:
            commit.succeed()
        b.pipeline.submit([unit("e"), unit("f")])
        b.wait_left(*(f"after {name}" for name in ("hold1", "hold2", "a", "b", "c", "d", "e", "f")))
        durable = [c.keys for c in b.store.commits if c.future.exception() is None]
        assert durable[2:5] == [["a"], ["b", "c"], ["d"]]
        assert b.lost == []


def test_going_unit_by_unit_survives_an_outage() -> None:
    with bench(in_flight=1) as b:
        b.pipeline.submit([unit("hold")])
        (hold,) = b.store.open()
        b.pipeline.submit([unit("a"), unit("b"), unit("c")])
        answers: list[Exception | None] = [
            RecordTooLarge("agentsetting", "b", 9, 8),
            None,
            StoreUnavailable("down"),
            StoreUnavailable("down"),
        ]
        b.store.rule = lambda commit: answers.pop(0) if answers else None
        hold.succeed()
        b.wait_left("after hold", "after a", "after b", "after c")
        assert [c.keys for c in b.store.commits[2:]] == [["a"], ["b"], ["b"], ["b"], ["c"]]


def test_a_unit_that_can_never_be_stored_ends_the_term_before_anything_later_is_stored() -> None:
    with bench(batch_bytes=10_000, in_flight=2) as b:
        b.pipeline.submit([unit("a")])
        (first,) = b.store.open()
        b.pipeline.submit([unit("huge", filler=20_000), unit("later")])
        wait_for(lambda: b.pipeline._singly, what="the large unit to be looked at")
        with b.pipeline._condition:
            assert len(b.pipeline._flying) == 1, "a unit that may be too large waits until it is alone"
        first.succeed()
        (huge,) = b.store.open()
        assert huge.keys == ["huge"]
        huge.fail(RecordTooLarge("agentsetting", "huge", 20_000, 10_000))
        assert "the store refused a change" in b.wait_lost()
        assert len(b.store.commits) == 2
        assert b.left == ["after a"]


def test_a_large_unit_that_fits_goes_alone_and_the_rest_follows() -> None:
    with bench(batch_bytes=10_000) as b:
        b.store.rule = lambda commit: None
        b.pipeline.submit([unit("a"), unit("large", filler=8_000), unit("b"), unit("c")])
        b.wait_left("after a", "after large", "after b", "after c")
        assert [c.keys for c in b.store.commits] == [["a"], ["large"], ["b", "c"]]


def test_a_store_that_fails_unexpectedly_ends_the_term() -> None:
    with bench() as b:

        def rule(commit: Commit) -> Exception | None:
            raise OSError("broken")

        b.store.rule = rule
        b.pipeline.submit([unit("a")])
        assert b.wait_lost() == "commit pipeline failed: broken"


# --- pressure and closing -----------------------------------------------------------------------------------------


def test_a_full_backlog_slows_the_core() -> None:
    with bench(backlog=3) as b:
        b.pipeline.submit([unit("a", "b", "c")])
        (commit,) = b.store.open()
        submitting = threading.Thread(target=b.pipeline.submit, args=([unit("d")],), daemon=True)
        submitting.start()
        wait_for(lambda: len(b.pipeline._condition._waiters) >= 2, what="submit to wait")  # type: ignore[attr-defined]
        assert submitting.is_alive() and b.pipeline.depth == 3
        commit.succeed()
        submitting.join(10.0)
        assert not submitting.is_alive()
        assert b.store.open()[0].keys == ["d"]


def test_effects_alone_fill_the_backlog_too() -> None:
    with bench(backlog=3) as b:
        b.store.rule = lambda commit: None
        b.hold.clear()
        b.pipeline.submit([Unit((), (n,)) for n in range(3)])
        submitting = threading.Thread(target=b.pipeline.submit, args=([Unit((), ("last",))],), daemon=True)
        submitting.start()
        wait_for(lambda: len(b.pipeline._condition._waiters) >= 1, what="submit to wait")  # type: ignore[attr-defined]
        assert submitting.is_alive() and b.pipeline.depth == 3
        b.hold.set()
        b.wait_left(0, 1, 2, "last")


def test_closing_drops_what_waits_and_frees_the_core() -> None:
    with bench(backlog=1) as b:
        b.pipeline.submit([unit("a")])
        (commit,) = b.store.open()
        submitting = threading.Thread(target=b.pipeline.submit, args=([unit("b")],), daemon=True)
        submitting.start()
        b.pipeline.close()
        b.pipeline.close()
        submitting.join(10.0)
        b.pipeline.thread.join(10.0)
        assert not submitting.is_alive() and not b.pipeline.thread.is_alive()
        commit.succeed()
        assert b.left == [] and b.lost == []
        assert [c.keys for c in b.store.commits] == [["a"]]


def test_closing_does_not_wait_for_effects_that_cannot_leave() -> None:
    with bench() as b:
        b.hold.clear()
        b.store.rule = lambda commit: None
        b.pipeline.submit([unit("a")])
        wait_for(lambda: b.meter.committed_keys == ["a"])
        b.pipeline.close()
        assert b.pipeline.thread.is_alive(), "it is still held up by the effect"
        b.hold.set()
        b.pipeline.thread.join(10.0)
        assert b.left == ["after a"]


def test_closing_ends_the_wait_for_a_commit_that_is_never_decided() -> None:
    with bench(in_flight=2) as b:
        b.pipeline.submit([unit("a")])
        b.store.open()
        b.pipeline.submit([unit("b")])
        first, _ = wait_for(lambda: b.store.commits if len(b.store.commits) == 2 else None)
        first.fail(StoreUnavailable("down"))
        wait_for(lambda: b.meter.failures == 1)
        b.pipeline.close()
        b.pipeline.thread.join(10.0)
        assert not b.pipeline.thread.is_alive() and b.lost == []


def test_draining_waits_until_effects_have_left() -> None:
    with bench() as b:
        b.pipeline.submit([unit("a")])
        (commit,) = b.store.open()
        assert b.pipeline.drain(0.01) is False
        b.hold.clear()
        commit.succeed()
        assert b.pipeline.drain(0.05) is False
        b.hold.set()
        assert b.pipeline.drain(10.0) is True
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
