"""The clock of a term: never back, no jumps, brought to the host's wall clock at a bounded rate."""

from __future__ import annotations

import pytest

from bcs_scheduler.loop.clock import SLEW, Clock

START = 1_700_000_000.0
HOUR = 3600.0


class Host:
    """A host whose wall clock can be set."""

    def __init__(self) -> None:
        self.up = 1000.0
        self.offset = 0.0
        self.steps: list[float] = []

    def wall(self) -> float:
        return START + self.up - 1000.0 + self.offset

    def clock(self, begin: float = START) -> Clock:
        return Clock(begin, self.wall, lambda: self.up, lambda seconds, ahead: self.steps.append(seconds))

    def pass_(self, clock: Clock, seconds: float, grain: float = 1.0) -> float:
        """Lets time pass, read as often as a core reads it; the seconds that the clock makes of it."""
        before = clock.now()
        for _ in range(int(seconds / grain)):
            self.up += grain
            clock.now()
        return clock.now() - before


def test_it_is_the_wall_clock_where_nothing_is_set() -> None:
    host = Host()
    clock = host.clock()
    assert host.pass_(clock, 100) == pytest.approx(100)
    assert clock.now() == pytest.approx(host.wall())
    assert host.steps == []


@pytest.mark.parametrize("step", [-HOUR, HOUR, -86_400.0, 7.0, -7.0])
def test_a_step_of_the_wall_clock_changes_no_period_by_more_than_the_slew(step: float) -> None:
    host = Host()
    clock = host.clock()
    host.pass_(clock, 10)
    host.offset = step
    before = clock.now()
    for _ in range(60):
        host.up += 1.0
        now = clock.now()
        assert 1.0 - SLEW - 1e-6 <= now - before <= 1.0 + SLEW + 1e-6
        before = now
    assert host.steps == [pytest.approx(step)]


@pytest.mark.parametrize("step", [-HOUR, HOUR])
def test_an_hour_is_made_good_in_twelve(step: float) -> None:
    host = Host()
    clock = host.clock()
    host.offset = step
    host.pass_(clock, 11 * HOUR, grain=60.0)
    assert abs(clock.now() - host.wall()) > 60
    host.pass_(clock, 1.1 * HOUR, grain=60.0)
    assert clock.now() == pytest.approx(host.wall())
    assert clock.ahead == pytest.approx(0.0, abs=1e-3)


def test_it_never_goes_back_however_the_wall_clock_is_set() -> None:
    host = Host()
    clock = host.clock()
    before = clock.now()
    for number in range(2_000):
        host.up += (0.0, 0.001, 3.0, 700.0)[number % 4]
        host.offset = ((number * 7919) % 20_001 - 10_000) * 10.0
        now = clock.now()
        assert now >= before
        before = now


def test_it_goes_on_where_the_records_end_although_the_host_is_behind() -> None:
    host = Host()
    clock = host.clock(START + HOUR)
    assert clock.now() == START + HOUR
    assert host.pass_(clock, 60) == pytest.approx(60 * (1 - SLEW))
    assert clock.ahead == pytest.approx(HOUR - 60 * SLEW)
    assert host.steps == []
