"""Placement rules: the queue in which an application runs, and who may submit to it.

Rules are tried in their order; the first that names a queue which exists, or may be created, takes applications and
admits the user, decides. Without rules, the queue must be provided. If nothing matches, `root.default` is the queue if
it exists and may be used; else the application is refused. Applications that are recovered by force go to a hidden
queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from offers.policy.hierarchy.configuration.document import NAME
from offers.policy.hierarchy.configuration.partition import ROOT, PlacementRule
from offers.policy.hierarchy.state.queue import Queue, QueueState

RECOVERY = f"{ROOT}.@recovery@"
"""The hidden queue of applications that are recovered by force."""
DEFAULT = f"{ROOT}.default"
PROVIDED = (PlacementRule("provided"),)
"""The rules of a partition without rules."""
DOT = "_dot_"
"""A dot in the name of a user or in a tag, as it stands in the name of a queue."""


class Submission(NamedTuple):
    """The properties of an application that placement rules look at. `queue`: the provided queue; empty if there is
    none. `forced`: the application runs already and is recovered in any case."""

    user: str = ""
    groups: tuple[str, ...] = ()
    queue: str = ""
    tags: Mapping[str, str] = {}
    forced: bool = False


class Refusal(StrEnum):
    """The reasons for which no queue takes an application."""

    NO_QUEUE = "NoQueue"
    """No rule names a queue that exists or may be created."""
    ACCESS_DENIED = "AccessDenied"
    """The user may not submit to a queue that a rule names."""
    NOT_ACTIVE = "QueueNotActive"
    """A queue that a rule names is stopped or draining."""
    NOT_A_LEAF = "QueueNotALeaf"
    """A queue that a rule names has queues below."""


class NotPlaced(ValueError):
    """No queue takes an application. `reason` is the one of the first rule that named a queue; else `NO_QUEUE`."""

    def __init__(self, reason: Refusal, queue: str) -> None:
        super().__init__(f"{reason}: {queue}" if queue else str(reason))
        self.reason, self.queue = reason, queue


def may_submit(queue: Queue, user: str, groups: tuple[str, ...]) -> bool:
    """True if the queue or one above admits a user, as a submitter or as an administrator."""
    return any(ancestor.config.submit.admits(user, groups) for ancestor in queue.path) or may_administrate(
        queue, user, groups
    )


def may_administrate(queue: Queue, user: str, groups: tuple[str, ...]) -> bool:
    """True if the queue or one above admits a user as an administrator."""
    return any(ancestor.config.admin.admits(user, groups) for ancestor in queue.path)


def queue_for(queues: Mapping[str, Queue], rules: tuple[PlacementRule, ...], given: Submission) -> str:
    """The full name of the queue of an application; the caller creates a queue that does not exist. Raises NotPlaced.

    `queues`: the queues by full name."""
    if given.forced:
        return RECOVERY
    refused: NotPlaced | None = None
    for rule in rules or PROVIDED:
        name = _named(queues, rule, given)
        if name is None:
            continue
        reason = _refusal(queues, name, given)
        if reason is None:
            return name
        refused = refused or NotPlaced(reason, name)
    if DEFAULT in queues and _refusal(queues, DEFAULT, given) is None:
        return DEFAULT
    raise refused or NotPlaced(Refusal.NO_QUEUE, given.queue)


def nearest(queues: Mapping[str, Queue], name: str) -> Queue:
    """The queue with a full name, or the nearest one above that exists."""
    while name not in queues:
        name = name.rpartition(".")[0]
    return queues[name]


def _named(queues: Mapping[str, Queue], rule: PlacementRule, given: Submission) -> str | None:
    """The full name of the queue that a rule means; None if the rule does not match."""
    if not rule.filter.admits(given.user, given.groups):
        return None
    names = {"provided": given.queue, "user": given.user, "fixed": rule.value, "tag": given.tags.get(rule.value, "")}
    name = names[rule.kind].lower()
    if not name:
        return None
    if rule.kind == "user":
        name = name.replace(".", DOT)
    elif name == ROOT or name.startswith(f"{ROOT}."):
        return _allowed(queues, name, rule.create)
    elif rule.kind == "tag":
        name = name.replace(".", DOT)
    above: str | None = ROOT
    if rule.parent is not None:
        above = _named(queues, rule.parent, given)
    if above is None or (above in queues and queues[above].is_leaf):
        return None
    return _allowed(queues, f"{above}.{name}", rule.create)


def _allowed(queues: Mapping[str, Queue], name: str, create: bool) -> str | None:
    if name in queues:
        return name
    if (
        not create
        or name == RECOVERY
        or nearest(queues, name).is_leaf
        or not all(NAME.fullmatch(part) for part in name.split("."))
    ):
        return None
    return name


def _refusal(queues: Mapping[str, Queue], name: str, given: Submission) -> Refusal | None:
    queue = nearest(queues, name)
    if queue.name == name and not queue.is_leaf:
        return Refusal.NOT_A_LEAF
    if any(ancestor.state is not QueueState.ACTIVE for ancestor in queue.path):
        return Refusal.NOT_ACTIVE
    if not may_submit(queue, given.user, given.groups):
        return Refusal.ACCESS_DENIED
    return None
