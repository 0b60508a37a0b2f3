"""The errors of placement. All are subclasses of OfferError.

- Shortage: a claim or need exceeds the free amounts.
- BadConstraint: a constraint can never be evaluated (malformed pattern, unknown operator).
- AlreadyAllocated: a second claim is made for a unit.
- FactsDuringPlan: a fact changes while a plan counts some units as gone.
- StaleSavepoint: a statement is to be undone to a savepoint that the statement does not know (any more).
- StillSetAside: a statement is committed that counts some units as gone.
- BadDocument: the configuration of a policy has mistakes (BadPolicy, BadQueues), or does not suit the applications that
  exist (CannotChange).
- IllegalEvent: the state machine of an object does not allow an event (offers.policy.applications.machines).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class OfferError(Exception):
    """Base of every error of this package."""


class Shortage(OfferError):
    """More is taken than there is. `name` is the resource."""

    def __init__(self, name: str, needed: int, available: int) -> None:
        super().__init__(f"{name}: {needed} needed, {available} available")
        self.name, self.needed, self.available = name, needed, available


class BadConstraint(OfferError):
    """A constraint that cannot be compiled. The API refuses these earlier, naming the field."""


class AlreadyAllocated(OfferError):
    """A unit of standing capacity has a claim or a place already. `unit` is its name."""

    def __init__(self, unit: str) -> None:
        super().__init__(f"{unit} has a claim or a place already")
        self.unit = unit


class FactsDuringPlan(OfferError):
    """A fact about standing capacity was to change while some units were counted as gone. A mistake of the caller."""

    def __init__(self) -> None:
        super().__init__("no fact can change while units are counted as gone")


class StaleSavepoint(OfferError):
    """A savepoint of another statement, or one that was forgotten. A mistake of the caller."""

    def __init__(self) -> None:
        super().__init__("the statement does not know this savepoint (any more)")


class StillSetAside(OfferError):
    """Placements cannot be committed while units are set aside, because they may use the resources of these units. A
    mistake of the caller."""

    def __init__(self) -> None:
        super().__init__("a statement cannot be committed while units are set aside")


class Problem(NamedTuple):
    """One mistake in a document, with the path of the field."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


class BadDocument(OfferError, ValueError):
    """A document of a policy is refused. `problems` has every mistake."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))
