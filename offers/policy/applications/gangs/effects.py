"""The effects of a gang, and the engine that it asks for room.

Effects follow from the records alone: `Gang.due` gives the same effects again until the records say that they have
happened. So nothing is lost in a crash, and every receiver carries out an effect once per key.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

from offers.dimensions import Amounts
from offers.policy.amounts import Vector
from offers.policy.applications.gangs.records import ReleaseType


class Create(NamedTuple):
    """Create a placeholder on a node."""

    placeholder: str
    application: str
    group: str
    node: str
    request: Amounts
    terms: str = ""


class Release(NamedTuple):
    """Remove a placeholder, and confirm when it is gone."""

    placeholder: str
    type: ReleaseType


class Launch(NamedTuple):
    """Launch a task on a node. `consumes`: the placeholder whose room it takes in the same operation; empty if that
    placeholder is gone already, or if there was none."""

    task: str
    application: str
    node: str
    consumes: str = ""


class Kill(NamedTuple):
    """End a task, and report its end."""

    task: str


Effect = Create | Release | Launch | Kill


class NoticeCode(StrEnum):
    """The kinds of notices."""

    PLACEHOLDER_INCOMPATIBLE = "PlaceholderIncompatible"
    RESERVATION_TIMEOUT = "ResourceReservationTimeout"
    APPLICATION_REJECTED = "ApplicationRejected"
    CREATION_FAILED = "PlaceholderCreationFailed"
    MEMBER_MISSING = "GroupMemberMissing"


class Notice(NamedTuple):
    """A fact for users, recorded once. `subject`: the placeholder or application that is concerned."""

    code: NoticeCode
    application: str
    subject: str
    message: str


class Engine(Protocol):
    """The policy engine as a gang uses it. Names of asks are unique within an application. The engine answers an ask
    later, by `Gang.allocated`."""

    def refusal(self, application: str, queue: str, placeholder_ask: Vector) -> str | None:
        """A message if the queue cannot take a gang of this size: it does not sort by submission, or a maximum on its
        path is smaller; the size of the cluster does not count. None if the queue takes the gang."""

    def ask(self, application: str, name: str, request: Amounts, created: float) -> None:
        """Adds a pending ask; `created` in Unix seconds."""

    def withdraw(self, application: str, name: str) -> None:
        """Removes a pending ask."""

    def occupy(self, application: str, name: str, request: Amounts, node: str) -> None:
        """Adds an allocation that exists already."""

    def release(self, application: str, name: str) -> None:
        """Removes an allocation, or a room that is held."""

    def hold(self, application: str, name: str, request: Amounts, node: str) -> None:
        """Takes room of a node, and not yet of the queue."""

    def replace(self, application: str, placeholder: str, name: str, request: Amounts, node: str) -> None:
        """Removes a placeholder and adds the allocation of a task in one step. Room that is held for the task becomes
        its allocation."""

    def suits(self, application: str, name: str, node: str) -> bool:
        """True if the node passes all checks for the task but those of its room."""

    def find(self, application: str, name: str, request: Amounts) -> str | None:
        """The node with room on which a task may run; None if there is none."""


class Traits(NamedTuple):
    """The properties of a form of placeholders. `at_once`: the release of a placeholder needs no confirmation, because
    the launch of the task consumes the placeholder. `lasting`: placeholders outlive the scheduler."""

    at_once: bool = False
    lasting: bool = True
