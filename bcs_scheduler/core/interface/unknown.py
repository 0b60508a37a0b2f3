"""Requests about running tasks that the store does not know, and the view of such tasks."""

from __future__ import annotations

from typing import Literal, NamedTuple

from bcs_scheduler.core.interface.requests import Request

Decision = Literal["adopt", "end"]


class DecideUnknown(Request, frozen=True, kw_only=True):
    """The decision of an operator about unknown taskgroups: `adopt` lets them run, `end` ends them. Refused if there is
    nothing to decide about, and while the cluster manager has not named all running tasks.

    `applications`: keys of the applications to which the ids of the taskgroups belong; empty = all. `adopted`: also
    taskgroups that have been adopted before; only for `end`."""

    decision: Decision
    applications: tuple[str, ...] = ()
    adopted: bool = False


class UnknownTaskGroup(NamedTuple):
    """A taskgroup that runs, and that the store does not know. `newer`: no leader of this store can have made its
    id. `adopted`: an operator has decided that it stays. `since`: Unix seconds at which it was found or adopted."""

    id: str
    agent_id: str
    tasks: tuple[str, ...]
    newer: bool
    adopted: bool
    since: float


class UnknownTaskGroups(NamedTuple):
    """The unknown taskgroups that have been found. `complete`: the cluster manager has named all running tasks; False:
    more may be found, and no decision is accepted. `taskgroups`: undecided ones, then adopted ones, each by id."""

    complete: bool
    taskgroups: list[UnknownTaskGroup]
