"""The facts of a turn that the placement uses, beside its source of units: time, room, open demands, news of offers.

`core.context.TurnContext` is the turn of a cluster manager with offers. An agent that stands offers its room all the
time: `awaits_offers` is False, and every demand is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from bcs_scheduler.core.options import CoreOptions
from offers.ledger.pool import AnyPool
from offers.model import Demand
from offers.planned import PlannedCensus
from store.reasons import EventReason
from transactions.base import Failure, Slot
from transactions.engine.demands import Demands

if TYPE_CHECKING:
    from bcs_scheduler.core.placement.placer import Placer
    from bcs_scheduler.core.placement.queue_accounts import Accounts
    from bcs_scheduler.core.placement.source import Source

T = TypeVar("T")


class Turn(Protocol):
    """Belongs to the thread that owns the state."""

    now: float
    """Unix seconds."""
    returning_until: float
    """Unix seconds until which offers may return that were given back for a moment, because their room is held."""
    offers_until: float
    """Unix seconds until which offers that were requested may come."""

    @property
    def source(self) -> Source:
        """The source of units."""

    @property
    def pool(self) -> AnyPool:
        """The ledger: agents, and the units that hold their room."""

    @property
    def engine(self) -> Demands:
        """The open demands."""

    @property
    def census(self) -> PlannedCensus:
        """Counts for constraints: units that were bound, and planned ones."""

    @property
    def placer(self) -> Placer:
        """Asks the matcher."""

    @property
    def queues(self) -> Accounts:
        """The figures of queues."""

    @property
    def options(self) -> CoreOptions:
        """The settings."""

    @property
    def framework(self) -> str:
        """The name under which events about the scheduler itself are recorded."""

    # --- news of offers

    @property
    def awaits_offers(self) -> bool:
        """True while room may be free that is not offered yet."""

    @property
    def shown_until(self) -> float:
        """Unix seconds: the offers show the free room for all work that has come until then."""

    def shown_at(self, demand: str) -> float:
        """Unix seconds from which the offers show the free room for the demand of this id."""

    def is_unshown(self, demand: str) -> bool:
        """True if the demand of this id has come while room may be free that is not offered yet (any thread)."""

    def unshown(self, demands: Iterable[Demand[Slot]]) -> set[str]:
        """The applications of demands for which room may be free that is not offered yet."""

    # --- reports

    def attempt(self, kind: str, key: str, work: Callable[[], T]) -> T | Failure:
        """Runs work and returns its result; after an unexpected error the failure, and the work is undone."""

    def count(self, name: str, labels: tuple[str, ...], value: float) -> None:
        """Counts an observation for metrics."""

    def record_event(self, kind: str, key: str, reason: EventReason, message: str) -> Any:
        """Records an event of an object for users."""
