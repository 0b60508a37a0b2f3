"""The core with a decision log: hands the content of each turn to the log and decides as without."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

from bcs_scheduler.core.interface import inputs
from bcs_scheduler.core.interface.cluster_manager import Traits
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.core.time_budget import UNLIMITED, TimeBudget
from store.encoding.seal import UNSEALED
from store.records import Record
from store.state import State
from store.state.unit_of_work import Unit

_PROBE = "secret"
"""A kind of records that a store with keys encrypts."""


class TermOpened(NamedTuple):
    """The start of a term, before the core has changed a record. Fields as in decisions.format.Begin."""

    epoch: int
    wall: float
    elapsed: float | None
    unreadable: Mapping[tuple[str, str], str]
    records: list[Record]
    limit: int
    sealed: bool


class TurnTaken(NamedTuple):
    """One turn, not encoded. Fields as in decisions.format.Turn."""

    now: float
    batch: list[inputs.Input]
    spent: list[float]
    congested: list[bool]
    clock: list[float]
    units: list[Unit]


class Sink(Protocol):
    """Takes the turns of a term. Neither blocks nor raises."""

    def begin(self, term: TermOpened) -> None: ...

    def turn(self, turn: TurnTaken) -> None: ...


class RecordedPace:
    """A time budget that keeps its answers."""

    def __init__(self, pace: TimeBudget) -> None:
        self._pace = pace
        self.answers: list[float] = []
        self.congested: list[bool] = []

    def spent(self) -> float:
        """As TimeBudget.spent."""
        self.answers.append(self._pace.spent())
        return self.answers[-1]

    def is_congested(self) -> bool:
        """As TimeBudget.is_congested."""
        self.congested.append(self._pace.is_congested())
        return self.congested[-1]


class RecordedCore(Core):
    """Implements bcs_scheduler.core.scheduler.Core."""

    def __init__(
        self,
        sink: Sink,
        epoch: int,
        state: State,
        options: CoreOptions,
        wall: float,
        unreadable: Mapping[tuple[str, str], str] | None = None,
        elapsed: float | None = None,
    ) -> None:
        """`epoch`: of the term. Other arguments: as Core."""
        self._sink = sink
        self._opened: TermOpened | None = TermOpened(
            epoch, wall, elapsed, dict(unreadable or {}), list(state.records()), 0, False
        )
        self._clock: list[float] = []
        clock = options.session_clock
        if clock is not None:
            options = replace(options, session_clock=self._kept(clock))
        super().__init__(state, options, wall, unreadable, elapsed)

    def _kept(self, clock: Callable[[], float]) -> Callable[[], float]:
        def read() -> float:
            self._clock.append(clock())
            return self._clock[-1]

        return read

    def turn(self, batch: Iterable[inputs.Input], now: float, pace: TimeBudget = UNLIMITED) -> list[Unit]:
        """As Core.turn."""
        if self._opened is not None:  # the sizer of the store is set after the construction
            sizer = self.turn_context.uow.sizer
            sealed = sizer.sealed_size(_PROBE, 1) != UNSEALED.sealed_size(_PROBE, 1)
            self._sink.begin(self._opened._replace(limit=sizer.limit, sealed=sealed))
            self._opened = None
        taken, timed, self._clock = list(batch), RecordedPace(pace), []
        units = super().turn(taken, now, timed)
        self._sink.turn(TurnTaken(now, taken, timed.answers, timed.congested, self._clock, list(units)))
        return units


def core_of(
    sink: Sink | None,
    epoch: int,
    state: State,
    options: CoreOptions,
    traits: Traits,
    wall: float,
    unreadable: Mapping[tuple[str, str], str],
    elapsed: float | None,
) -> Core:
    """Returns the core of a term. `sink` None: turns are not recorded. `traits`: of the cluster manager; they replace
    those of the options. Other arguments: as RecordedCore."""
    options = replace(options, traits=traits)
    if sink is None:
        return Core(state, options, wall, unreadable, elapsed)
    return RecordedCore(sink, epoch, state, options, wall, unreadable, elapsed)
