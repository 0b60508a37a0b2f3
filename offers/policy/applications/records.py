"""The records of a gang, from which a gang is rebuilt after a crash, an index over such records, and the effects.

One event changes some records; the caller commits these together, and carries out effects afterwards. Effects follow
from the records alone: `Gang.due` gives the same effects again until the records say that they have happened. So
nothing is lost in a crash, and every receiver carries out an effect once per key. Times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from hashlib import blake2b
from typing import Generic, NamedTuple, Protocol, TypeVar

from offers.dimensions import Amounts
from offers.policy.amounts import Vector
from offers.policy.applications.metadata import ApplicationMetadata, Outcome
from offers.policy.applications.tables import Life


class ReleaseType(StrEnum):
    """The reason of a release."""

    TIMEOUT = "TIMEOUT"
    REPLACED = "PLACEHOLDER_REPLACED"


class Way(StrEnum):
    """The way in which a task gets its room. Swap: from a placeholder of its group; Ordinary: from the queue."""

    NONE = ""
    SWAP = "swap"
    ORDINARY = "ordinary"


class Counter(NamedTuple):
    """The numbers of a task group: placeholders that were asked for, and those of them that were replaced by a task or
    given up."""

    group: str
    total: int = 0
    replaced: int = 0
    timed_out: int = 0

    @property
    def open(self) -> bool:
        """True while a task of the group may wait for a placeholder."""
        return self.total > self.replaced + self.timed_out


class GangRecord(NamedTuple):
    """An application. `timer`: the moment of the first allocated placeholder; `completing` and `ended`: the moments at
    which these states began; None while there is none. `issued`: the number of placeholders that ever got a name."""

    metadata: ApplicationMetadata
    core: Life
    manager: Life
    counters: tuple[Counter, ...]
    issued: int = 0
    timer: float | None = None
    completing: float | None = None
    ended: float | None = None
    cause: str = ""
    group: str = ""
    """The name of the gangs that start together with this one (`gang.settle_together`); empty: it starts alone."""

    @property
    def key(self) -> str:
        """The identifier of the application."""
        return self.metadata.id


class PlaceholderRecord(NamedTuple):
    """A placeholder that is not gone. `number` orders the placeholders of an application. `member`: the task for which
    it is released, empty if none."""

    key: str
    group: str
    number: int
    request: Amounts
    life: Life
    node: str = ""
    release: ReleaseType | None = None
    member: str = ""


class MemberRecord(NamedTuple):
    """A task of the application. `placeholder`: the one whose release the task waits for, empty if none. `cause`: the
    reason of a failure."""

    key: str
    group: str
    request: Amounts
    created: float
    life: Life
    way: Way = Way.NONE
    node: str = ""
    placeholder: str = ""
    cause: str = ""
    outcome: Outcome | None = None
    """The end as it was reported; None: no end was reported."""


Record = GangRecord | PlaceholderRecord | MemberRecord


def placeholder_name(application: str, group: str, number: int, created: float = 0.0) -> str:
    """The name of a placeholder: parts of application and group to read, and ten characters that make the name unique.
    The same number gives the same name, so that a creation that is repeated after a crash makes no second one. Of an
    application with a namespace (``namespace/name``) the name alone is shown.

    `created`: Unix seconds at which the gang was made. A gang that follows another one of the same application has
    other names, because placeholders of the first may still be ending; 0.0 = nothing is added to the name."""
    full = "\0".join((application, group, str(number), *([repr(created)] if created else []))).encode()
    shown = application.rpartition("/")[2]
    return f"tg-{shown[:28]}-{group[:20]}-{blake2b(full, digest_size=5).hexdigest()}"


Kept = TypeVar("Kept", PlaceholderRecord, MemberRecord)


class Index(Generic[Kept]):
    """Records by key, by state, and by group and state, each in the order of arrival."""

    def __init__(self, records: Iterable[Kept] = ()) -> None:
        self.records: dict[str, Kept] = {}
        self._by_state: dict[str, dict[str, None]] = {}
        self._by_group: dict[tuple[str, str], dict[str, None]] = {}
        for record in records:
            self.put(record)

    def __len__(self) -> int:
        return len(self.records)

    def put(self, record: Kept) -> None:
        """Adds or replaces a record."""
        self.drop(record.key)
        self.records[record.key] = record
        for keys in self._places(record):
            keys[record.key] = None

    def drop(self, key: str) -> None:
        """Removes a record, if there is one."""
        record = self.records.pop(key, None)
        if record is not None:
            for keys in self._places(record):
                keys.pop(key, None)

    def of(self, *states: str) -> Iterator[Kept]:
        """The records in these states; the index may change meanwhile."""
        keys = [key for state in states for key in self._by_state.get(state, ())]
        return (self.records[key] for key in keys if key in self.records)

    def of_group(self, group: str, state: str) -> Iterator[Kept]:
        """The records of a group in one state; the index may change meanwhile."""
        keys = list(self._by_group.get((group, state), ()))
        return (self.records[key] for key in keys if key in self.records)

    def count(self, group: str, *states: str) -> int:
        """The number of records of a group in these states."""
        return sum(len(self._by_group.get((group, state), ())) for state in states)

    def any(self, *states: str) -> bool:
        """True if a record is in one of these states."""
        return any(self._by_state.get(state) for state in states)

    def _places(self, record: Kept) -> tuple[dict[str, None], dict[str, None]]:
        state = record.life.state
        return (
            self._by_state.setdefault(state, {}),
            self._by_group.setdefault((record.group, state), {}),
        )


# --- effects, notices, and the engine ---------------------------------------------------------------------------


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
    """The policy engine as a gang asks it. Asks and allocations follow from the records of the gang."""

    def refusal(self, application: str, queue: str, placeholder_ask: Vector) -> str | None:
        """A message if the queue cannot take a gang of this size: it does not sort by submission, or a maximum on its
        path is smaller; the size of the cluster does not count. None if the queue takes the gang."""

    def suits(self, application: str, name: str, node: str) -> bool:
        """True if the node passes all checks for the task but those of its room."""


class Traits(NamedTuple):
    """The properties of a form of placeholders. `at_once`: the release of a placeholder needs no confirmation, because
    the launch of the task consumes the placeholder. `lasting`: placeholders outlive the scheduler."""

    at_once: bool = False
    lasting: bool = True


class Existing(NamedTuple):
    """A placeholder that its backend lists."""

    placeholder: str
    group: str
    node: str
