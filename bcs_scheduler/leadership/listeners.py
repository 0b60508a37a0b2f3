"""Protocols of the listeners to the role of a process: metrics and alarms implement them (bcs_scheduler.observability).
Leadership imports neither."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from bcs_scheduler.core.interface.effects import LogLine, Observed
from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.leadership.gateway import Role
from bcs_scheduler.leadership.hub import Hub
from bcs_scheduler.leadership.standby import FollowerStatus
from bcs_scheduler.loop.pipeline import Meter
from bcs_scheduler.publishing.status import Status as PublishingStatus
from store.records import Event


class Leading(NamedTuple):
    """The facts about a term of leadership that others may see. Any thread may read all of them."""

    core: Core
    epoch: int
    quarantined: int
    """Records that could not be decoded when the term began."""
    queues: Callable[[], dict[str, int]]
    mesos: Callable[[], dict[str, Any]]
    """Status of the driver; `connected` is looked at."""
    stalled_for: Callable[[], float]
    publishing: Callable[[], PublishingStatus | None] = lambda: None
    hub: Hub | None = None


class RoleObserver(Meter, Protocol):
    """Counts and measures the work of a process in its roles. Each method may be called by any thread and never
    waits."""

    role: Role

    def lead(self, leading: Leading | None) -> None:
        """A term of leadership begins; None: the term ends."""

    def stand_by(self, following: Callable[[], FollowerStatus] | None) -> None:
        """The process follows the store; None: the process leads."""

    def turn_ended(self, events: int, seconds: float) -> None:
        """One turn of the core has handled so many inputs in so many seconds."""

    def observe(self, observed: Observed) -> None:
        """Counts a durable event."""

    def logged(self, line: LogLine) -> None:
        """Counts a line of the log."""

    def loaded(self, records: int, seconds: float) -> None:
        """The records have been read from the store."""

    def render(self) -> bytes:
        """The metrics in the text format of Prometheus."""


class AlarmListener(Protocol):
    """Hears of durable events while the process leads. No method waits."""

    def notice(self, events: Sequence[Event]) -> None:
        """Durable events, in order."""

    def leading(self, epoch: int, before: Iterable[Event] = (), now: float = 0.0) -> None:
        """The process leads since `now` (Unix seconds of the clock of the term). `before`: the durable events until
        then, in order."""

    def not_leading(self) -> None:
        """The process does not lead any more."""
