"""The errors of placement.

OfferError
  Shortage        a claim or need exceeds what is there
  BadConstraint   a constraint that can never be evaluated (malformed pattern, unknown operator)
"""

from __future__ import annotations


class OfferError(Exception):
    """Base of every error of this package."""


class Shortage(OfferError):
    """More is taken than there is. `name` is the resource."""

    def __init__(self, name: str, wanted: int, available: int) -> None:
        super().__init__(f"{name}: {wanted} wanted, {available} available")
        self.name, self.wanted, self.available = name, wanted, available


class BadConstraint(OfferError):
    """A constraint that cannot be compiled. The API refuses these earlier, naming the field."""
