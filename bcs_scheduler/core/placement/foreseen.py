"""Policies with decisions of their own, as the placer asks them about demands that are not open yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from offers.model import Demand, MatchResult
from transactions.base import Slot


class Foreseen(NamedTuple):
    """The decisions of a policy about demands that are not open yet."""

    result: MatchResult[Slot]
    evicted: tuple[str, ...] = ()
    """Ids of the taskgroups that the policy would end for these demands."""


class Policy(Protocol):
    """A placement policy with decisions of its own."""

    by_queues: bool
    """True if the policy decides by queues and limits alone, and takes every agent that the matcher accepts."""

    def paused(self, application: str) -> Mapping[str, float]:
        """The applications of which nothing is ended for another one, given by its key, with the Unix seconds at which
        that ends (`pauses`)."""

    def foresee(self, demands: Sequence[Demand[Slot]], without: frozenset[str] = frozenset()) -> Foreseen:
        """The decisions about these demands beside the other open ones, with nothing changed. The demands have one
        role. `without`: ids of agents that take nothing."""
