"""bcs_scheduler.loop.commit_pacing: how much is sent to the store at once follows how fast it is."""

from __future__ import annotations

from bcs_scheduler.loop.commit_pacing import BATCH_BYTES, FIRST_IN_FLIGHT, MOST_IN_FLIGHT, SMALLEST_BYTES, CommitPacing


class Clocked:
    """A flow with commits that follow each other without a break."""

    def __init__(self) -> None:
        self.pacing = CommitPacing()
        self.now = 1000.0

    def commits(self, count: int, seconds: float, changes: int = 50, full: bool = True) -> None:
        for _ in range(count):
            sent_at, self.now = self.now, self.now + seconds
            self.pacing.landed(sent_at, self.now, self.pacing.batch_bytes, changes, full)


def test_a_fast_store_gets_more_at_once_up_to_a_bound() -> None:
    clocked = Clocked()
    assert clocked.pacing.in_flight == FIRST_IN_FLIGHT
    clocked.commits(200, 0.01)
    assert clocked.pacing.in_flight == MOST_IN_FLIGHT and clocked.pacing.batch_bytes == BATCH_BYTES


def test_slow_commits_halve_what_is_sent_at_once_down_to_a_bound() -> None:
    clocked = Clocked()
    clocked.commits(1, 0.01)
    clocked.commits(1, 0.5)
    assert clocked.pacing.in_flight == FIRST_IN_FLIGHT // 2
    clocked.commits(20, 0.5)
    assert clocked.pacing.in_flight == 1 and clocked.pacing.batch_bytes == SMALLEST_BYTES


def test_commits_that_were_sent_together_halve_it_once() -> None:
    clocked = Clocked()
    clocked.commits(1, 0.01)
    for _ in range(4):
        clocked.pacing.landed(clocked.now, clocked.now + 0.5, BATCH_BYTES, 50, True)
    assert clocked.pacing.in_flight == FIRST_IN_FLIGHT // 2


def test_a_store_on_a_slow_disk_is_not_sent_less() -> None:
    clocked = Clocked()
    clocked.commits(50, 0.15)
    assert clocked.pacing.in_flight >= FIRST_IN_FLIGHT


def test_the_fastest_commit_is_forgotten_when_the_store_has_become_slower_for_good() -> None:
    clocked = Clocked()
    clocked.commits(10, 0.001)
    clocked.commits(400, 0.2)
    assert clocked.pacing.in_flight >= FIRST_IN_FLIGHT


def test_it_recovers_from_a_pause() -> None:
    clocked = Clocked()
    clocked.commits(10, 0.01)
    clocked.commits(8, 0.5)
    assert clocked.pacing.in_flight == 1
    clocked.commits(100, 0.01)
    assert clocked.pacing.in_flight >= FIRST_IN_FLIGHT


def test_the_delay_follows_the_throughput() -> None:
    clocked = Clocked()
    clocked.commits(200, 0.1, changes=100)
    assert 0.9 < clocked.pacing.delay(900) < 1.3
    clocked.commits(200, 0.01, changes=100)
    assert 0.08 < clocked.pacing.delay(900) < 0.13


def test_a_store_with_little_to_do_is_not_taken_for_a_slow_one() -> None:
    clocked = Clocked()
    before = clocked.pacing.delay(1000)
    clocked.commits(200, 0.01, changes=1, full=False)
    assert clocked.pacing.delay(1000) <= before
