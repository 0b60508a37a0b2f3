"""Transactions: the fields of all kinds, and the payload with the further fields of each kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

import msgspec

from store.codes import NoteCode
from store.ids import object_key
from store.records.definition import Part
from store.records.record import Record

TransactionKind = Literal["LAUNCH", "SCALE", "INNERSCALE", "UPDATE", "RESCHEDULE", "DELETE", "FILL"]
TransactionStatus = Literal["QUEUED", "INIT", "FINISH", "FAIL", "TIMEOUT", "CANCEL", "SUPERSEDED"]


class Note(Part, frozen=True, kw_only=True):
    """One line of a transaction's history."""

    at: float
    text: str
    code: NoteCode = ""


class Payload(Part, frozen=True, kw_only=True, tag_field="of"):
    """The fields that only transactions of one kind have. This base class has none, and is not stored."""

    @property
    def taskgroup(self) -> str:
        """Like `Transaction.taskgroup`."""
        return ""

    @classmethod
    def of(cls, transaction: Transaction) -> Self:
        """The payload of a transaction of this kind. Raises TypeError for a transaction of another kind."""
        payload = transaction.payload
        if not isinstance(payload, cls):
            raise TypeError(f"{transaction.type} {transaction.id} has no {cls.__name__}")
        return payload


class RollingPayload(Payload, frozen=True, kw_only=True, tag="INNERSCALE"):
    """Payload of INNERSCALE, one half of a step of a rolling update."""

    victims: tuple[str, ...] = ()
    """On the shrinking side of a rolling update: ids of the taskgroups that are removed, chosen once, so that a new
    leader removes the same. Empty otherwise."""


class UpdatePayload(Payload, frozen=True, kw_only=True, tag="UPDATE"):
    """Payload of UPDATE."""

    max_unavailable: int = 0
    """Taskgroups that may be not ready at once by the act of the update."""


class ReschedulePayload(Payload, frozen=True, kw_only=True, tag="RESCHEDULE"):
    """Payload of RESCHEDULE."""

    taskgroup: str = ""
    """Id of the taskgroup to be replaced."""
    host_retain: str = ""
    """Name of the host that alone is acceptable until `host_retain_until`; empty: there is none."""
    host_retain_until: float = 0.0
    force: bool = False
    """A user requested it: the taskgroup is replaced under every restart policy."""
    restarts: int = 0
    """Restarts that count before this one."""
    drained: str = ""
    """Key of the settings of the agent it leads away from, if that is being drained."""
    unready: bool = False
    """The drained taskgroup was not ready, so the drain does not wait until its successor is."""
    beneficiary: str = ""
    """Key of the application for which the policy evicts the taskgroup; empty: the policy does not evict it."""
    beneficiary_queue: str = ""
    """Name of the queue that got the room at the time of the eviction; empty: it is not known."""
    rebalanced: str = ""
    """Goal (pack, spread) for which the taskgroup moves to another agent; empty: no rebalancing moves it."""
    left_agent: str = ""
    """Once it has ended: id of the agent on which a part of the old taskgroup may be left."""
    left_tasks: tuple[str, ...] = ()
    """Once it has ended: ids of the tasks that had not ended on that agent when the old taskgroup was replaced. This
    says the same as an OrphanedTask, without a record of its own; whether the tasks have ended since is not
    recorded."""


class DeletePayload(Payload, frozen=True, kw_only=True, tag="DELETE"):
    """Payload of DELETE."""

    enforce: bool = False
    """Do not wait for the ends of the taskgroups."""


PAYLOADS: Mapping[TransactionKind, type[Payload]] = {
    "LAUNCH": Payload,
    "SCALE": Payload,
    "INNERSCALE": RollingPayload,
    "UPDATE": UpdatePayload,
    "RESCHEDULE": ReschedulePayload,
    "DELETE": DeletePayload,
    "FILL": Payload,
}
"""The class of the payload, for every kind."""
NOTHING = Payload()
_DEFAULTS: Mapping[TransactionKind, Payload] = {
    kind: NOTHING if cls is Payload else cls() for kind, cls in PAYLOADS.items()
}


class Queued(Part, frozen=True, kw_only=True):
    """The request of a transaction of status QUEUED."""

    deployment: str = ""
    """Name of the deployment that the request is about; empty: it is about the application of the transaction."""
    request: str = ""
    """Name of the class of the request; empty once the transaction has ended."""
    body: str = ""
    """The request as JSON."""


class Transaction(Record, frozen=True, kw_only=True):
    """One durable, time-boxed operation on one application.

    Progress is not stored: it is derived from the existing taskgroups, so that repeating a step is harmless.
    """

    kind: ClassVar[str] = "transaction"

    id: str
    type: TransactionKind
    namespace: str
    application: str
    status: TransactionStatus = "INIT"
    cause: str = ""
    """Id of the event that asked for it."""
    created_at: float
    due_at: float
    """Unix seconds before which nothing is done (creation plus delay)."""
    deadline: float
    target: int = 0
    """LAUNCH, SCALE, INNERSCALE, FILL: wanted instances. UPDATE: taskgroups to bring to `version`. RESCHEDULE: 1."""
    version: str = ""
    inner: bool = False
    """The scheduler itself began it."""
    payload: Payload | RollingPayload | UpdatePayload | ReschedulePayload | DeletePayload = NOTHING
    """Payload of the class that PAYLOADS names for `type`; by default, with the defaults of that class."""
    message: str = ""
    """The verdict for users, once the transaction has ended, with the missing taskgroups or configuration if there were
    any."""
    progress: int = 0
    """Final progress, filled in when it ends; API reads derive it while it is active."""
    history: tuple[Note, ...] = ()
    finished_at: float = 0.0
    queued: Queued | None = None
    """The request of a queued transaction; without the request if the transaction has ended before it began; None
    for all other transactions."""

    def __post_init__(self) -> None:
        given = type(self.payload)
        if given is not Payload:
            if given is PAYLOADS[self.type]:
                return
            raise TypeError(f"{given.__name__} is not a payload of {self.type}")
        msgspec.structs.force_setattr(self, "payload", _DEFAULTS[self.type])

    @property
    def key(self) -> str:
        """The id of the transaction."""
        return self.id

    @property
    def application_key(self) -> str:
        """Key of the application that the transaction works on."""
        return object_key(self.namespace, self.application)

    @property
    def active(self) -> bool:
        """True from the beginning of the operation until its verdict."""
        return self.status == "INIT"

    @property
    def waiting(self) -> bool:
        """True while the transaction waits for the end of another operation."""
        return self.status == "QUEUED"

    @property
    def ended(self) -> bool:
        """True if the transaction has a verdict."""
        return not (self.active or self.waiting)

    @property
    def queue(self) -> str:
        """The object of the queue: ``application NAMESPACE/NAME`` or ``deployment NAMESPACE/NAME``."""
        if self.queued is not None and self.queued.deployment:
            return f"deployment {object_key(self.namespace, self.queued.deployment)}"
        return f"application {self.application_key}"

    @property
    def taskgroup(self) -> str:
        """Id of the one taskgroup that the transaction works on; empty if it works on a whole application."""
        return self.payload.taskgroup
