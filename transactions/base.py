"""The life of a transaction: time box, delay, verdict; and the tools of every kind of transaction.

A transaction is a record (store.records.Transaction). The module of its kind examines the actual taskgroups, changes
records through the unit of work, and returns the slots that are still wanted as a Step. No object here keeps state of
its own, so a step may be repeated at any time, and after a failover the stored records are sufficient.

Exception tree:

    Refused                  a request that cannot be honoured: reason (stable) and message
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeVar

import msgspec

from offers.agents import Directory
from store.ids import transaction_id
from store.reasons import TRANSACTION_ENDED, EventReason, Level
from store.records import (
    Application,
    Executor,
    Note,
    NoteCode,
    Payload,
    Queued,
    TaskGroup,
    Transaction,
    TransactionKind,
    TransactionStatus,
)
from store.records.definition import Amounts
from store.records.transactions import NOTHING
from store.state import State
from store.state.reader import StateReader
from store.state.unit_of_work import UnitOfWork
from transactions.text import named, operation

HISTORY_LIMIT = 50
"""Notes kept per transaction; the record is written whole, so its history must stay small."""


Refusal = Literal["not_found", "exists", "conflict", "quota_exceeded", "too_many_open", "invalid", "unavailable"]
"""Codes for refused requests, which clients compare (docs/api.md)."""


class Refused(Exception):
    """The request cannot be honoured. `problems` are (path, message) pairs, one for each fault that can be reported on
    its own."""

    def __init__(
        self, reason: Refusal, message: str, path: str = "", problems: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message
        self.problems = problems or (((path, message),) if path else ())


@dataclass(frozen=True, slots=True)
class Periods:
    """Life periods and delays in seconds: the figures of the original's first generation
    (docs/original.md#life-periods)."""

    default: float = 480.0
    launch: float = 1800.0
    rolling_up: float = 300.0
    rolling_down: float = 7500.0
    delete: float = 7500.0
    inner_reschedule: float = 86400.0
    """Seconds for restarts after failures, and for launches and updates of daemonsets."""
    restart_reset: float = 1800.0
    """A taskgroup that ran this long starts its restart count anew."""
    queued: float = 86400.0
    """Seconds that a request waits at most until its operation begins (`onConflict=queue`)."""
    update_delay: float = 0.0
    reschedule_delay: float = 0.0
    retention: float = 86400.0
    """Seconds for which an ended transaction stays readable, unless too many newer ones have ended (`Options`)."""


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of operators for transactions."""

    periods: Periods = field(default_factory=Periods)
    role: str = "*"
    """Role used where a version names none."""
    version_history: int = 10
    keep_each: int = 50
    """Ended transactions kept of one application that users began, and as many that the scheduler itself began."""
    keep_total: int = 20_000
    """Ended transactions kept in all: about 1 kB each in the store, and 2 kB of memory."""


class Overhead(NamedTuple):
    """The resources that a taskgroup uses beside its containers, in thousandths of a core and of a MB. They depend on
    the cluster manager: an executor uses resources, a pod uses none."""

    cpus: int = 0
    mem: int = 0
    disk: int = 0
    spared_from: int = 0
    """The first container that requests at least so many thousandths of a core, no fewer than `cpus`, spares `cpus` out
    of its request. If there is none, `cpus` counts on top of the requests; 0: always."""

    def sparing(self, requests: Sequence[Amounts]) -> int | None:
        """Number of the container that spares `cpus`; None: `cpus` counts on top. `requests`: by container."""
        for number, request in enumerate(requests):
            if 0 < self.spared_from <= request.cpus:
                return number
        return None

    @property
    def amounts(self) -> Amounts:
        """The resources by themselves."""
        return Amounts(cpus=self.cpus, mem=self.mem, disk=self.disk)


class Ids:
    """Makes unique, increasing Unix nanoseconds from the times it is given: the numbers in all ids."""

    def __init__(self, floor: int = 0) -> None:
        self._last = floor

    @property
    def last(self) -> int:
        """The last number that was made; before the first, the floor."""
        return self._last

    def next(self, now: float) -> int:
        """Unix nanoseconds of `now` (Unix seconds), or one more than the last number if that is greater."""
        self._last = max(self._last + 1, int(now * 1e9))
        return self._last


class Slot(msgspec.Struct, frozen=True, gc=False):
    """A place to be filled: the index of the taskgroup, and the id of the one it replaces, if any. `moves`: that one
    leaves, or has left, for another agent: nothing else of its queue comes before its successor."""

    index: int
    replaces: str = ""
    moves: bool = False


Verdict = tuple[TransactionStatus, str]


class Step(NamedTuple):
    """The result of one look at a transaction.

    `slots` ask for places (for taskgroups of `version`); `verdict` ends the transaction; `wake_at` (Unix seconds, 0.0 =
    no time) is the latest time of the next look. Changes of the application's taskgroups and the deadline cause a look
    as well.
    """

    slots: tuple[Slot, ...] = ()
    version: str = ""
    verdict: Verdict | None = None
    wake_at: float = 0.0
    unfinished: bool = False
    """The step had no time for all there is to do (`Context.time_is_up`): another look is needed soon."""
    only_host: str = ""
    per_agent: bool = False
    """No two of the slots on one agent."""
    only_agents: frozenset[str] = frozenset()
    """Ids of the agents that are acceptable; empty = any."""
    except_agents: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()
    """Messages about missing configuration without which the transaction cannot continue (transactions.injection)."""
    promised: tuple[tuple[Slot, str], ...] = ()
    """The agents on which room was freed for the slots: these are placed there, before all others."""


class Progress(NamedTuple):
    """Progress of an operation: numbers of taskgroups, agents or victims, depending on the kind."""

    done: int
    remaining: int


class Gate(Protocol):
    """Decides which slots of a step may ask for places (bcs_scheduler.core.controllers.managed)."""

    def admitted(self, transaction: Transaction, step: Step) -> Step:
        """The step without the slots that may not be placed now."""


class BasicKind(Protocol):
    """The part of a kind that begins and ends transactions, and that kinds ask of each other. transactions.kinds.kind
    has the whole interface."""

    @property
    def type(self) -> TransactionKind:
        """The kind as the record names it."""

    @property
    def exclusive(self) -> bool:
        """True if no other operation may work on the application at the same time."""

    @property
    def can_be_superseded(self) -> bool:
        """True if a newer operation on the same application may replace a transaction of this kind."""

    def life(self, periods: Periods, *, inner: bool) -> float:
        """Seconds from the due time of a transaction of this kind to its deadline. `inner`: the scheduler itself has
        begun the transaction."""

    def replaces(self, state: StateReader, transaction: Transaction, group: TaskGroup) -> bool:
        """Returns True if the transaction itself will replace this taskgroup, once it has ended. Any thread may
        call."""

    def ends(self, state: StateReader, transaction: Transaction, group: TaskGroup) -> bool:
        """Returns True if the transaction itself ends this taskgroup, and none takes its place. Any thread may call."""

    def progress(self, state: StateReader, transaction: Transaction) -> Progress:
        """Returns the progress of an active transaction. Any thread may call."""


class Terms(NamedTuple):
    """The arguments of a new transaction of any kind."""

    target: int = 0
    version: str = ""
    inner: bool = False
    """The scheduler itself begins it."""
    delay: float = 0.0
    """Seconds until it is due."""
    life: float = 0.0
    """Seconds from then on until it runs out of time; 0.0: as its kind says."""
    waves: int = 1
    """Number of times that the operation waits for the end of taskgroups, one after the other: each may take the
    shutdown delay of the application. 0: it ends none."""
    note: str = "accepted"
    """First line of its history."""


class RecordEvent(Protocol):
    """Records an event of the object (kind, key), as bcs_scheduler.core.context does. `level` None: the level that the
    table of reasons names. `transaction`: id of the operation that caused the event, if that is not the one that owns
    the application of the object."""

    def __call__(
        self, kind: str, key: str, reason: EventReason, message: str, level: Level | None = None, transaction: str = ""
    ) -> None:
        """Records one event; see the class."""


def _record_nothing(
    kind: str, key: str, reason: EventReason, message: str, level: Level | None = None, transaction: str = ""
) -> None:
    """Default of `Context.record_event`: records nothing."""


FailureCode = Literal["internal", "not_storable", "transition", "resting"]
"""Kinds of failures.

* internal: an unexpected error
* not_storable: the changes are too large for the store, or cannot be encoded
* transition: a change of status that is not allowed
* resting: the work was not begun, because its part of the core has failed again and again
"""


class Failure(NamedTuple):
    """The result of work that has failed unexpectedly. The changes of the work are undone, and the error is reported.
    `words`: for the log; they may quote contents of records. `public`: for users."""

    code: FailureCode
    words: str
    public: str

    @property
    def message(self) -> str:
        """One line for users."""
        return f"internal error: {self.public}" if self.code == "internal" else self.public


T = TypeVar("T")


class Attempt(Protocol):
    """Runs work on the object (kind, key) as a unit of its own. Returns the result of the work, or the failure; work
    that has failed is undone and reported."""

    def __call__(self, kind: str, key: str, work: Callable[[], T]) -> T | Failure:
        """Runs the work; see the class."""


def _run_directly(kind: str, key: str, work: Callable[[], T]) -> T | Failure:  # noqa: ARG001 (as Attempt)
    return work()


def _each_directly(changed: Iterable[tuple[str, str]], work: Callable[[str, str], object]) -> None:
    for kind, key in changed:
        work(kind, key)


@dataclass(slots=True)
class Context:
    """Everything that a step may use: the state, the unit of work, the time (Unix seconds), ids, and the options.
    Nothing in the context does I/O."""

    state: State
    uow: UnitOfWork
    now: float
    ids: Ids
    options: Options
    kind_of: Callable[[StateReader, Transaction], BasicKind]
    """The registry of kinds (transactions.kinds.registry)."""
    overhead: Overhead
    """Resources that a taskgroup uses beside its containers under this cluster manager."""
    executor: Executor = "bcs"
    """Executor of taskgroups whose version does not name one."""
    agents: Directory = field(default_factory=Directory)
    """The agents the cluster manager lists."""
    cause: str = ""
    gates: tuple[Gate, ...] = ()
    """Decide which slots may ask for a place, one after the other; without gates, every slot may."""
    queued: Transaction | None = None
    """The transaction whose turn has come: the operation that it asks for begins under its id."""
    record_event: RecordEvent = _record_nothing
    count: Callable[[str, tuple[str, ...], float], None] = lambda name, labels, value: None
    attempt: Attempt = _run_directly
    each_change: Callable[[Iterable[tuple[str, str]], Callable[[str, str], object]], object] = _each_directly
    """Does work for each of the objects, given as (kind, key). Work that has failed is undone and reported, and the
    other objects follow."""
    checkpoint: Callable[[], None] = lambda: None
    """The changes so far are consistent in themselves: a big unit of work may be cut here."""

    time_is_up: Callable[[], bool] = lambda: False
    """The time of this turn for steps is used up: a step over many taskgroups stops at a consistent point and says
    `Step.unfinished`."""

    def admitted(self, transaction: Transaction, step: Step) -> Step:
        """The step with the slots that may ask for a place now, by all gates."""
        for gate in self.gates:
            step = gate.admitted(transaction, step)
        return step

    def application(self, transaction: Transaction) -> Application | None:
        """The application of the transaction; None if it has been removed."""
        return self.state.applications.get(transaction.application_key)


def longest_shutdown_delay(state: State, application: Application) -> float:
    """Returns the greatest shutdown delay of the versions of the application, in seconds."""
    versions = state.versions_of(application.key).values()
    return max((version.kill_policy.shutdown_delay for version in versions), default=0.0)


def begin(
    ctx: Context, kind: BasicKind, application: Application, terms: Terms, payload: Payload = NOTHING
) -> Transaction:
    """Writes a new active transaction. Its life counts from the end of its delay. `payload`: of the class that
    store.records.transactions.PAYLOADS names for the kind; by default, the transaction gets the default payload of the
    kind."""
    now = ctx.now
    due = now + max(0.0, terms.delay)
    waited = None
    if not terms.inner:
        waited, ctx.queued = ctx.queued, None
    transaction = Transaction(
        id=transaction_id(ctx.ids.next(now)) if waited is None else waited.id,
        type=kind.type,
        namespace=application.namespace,
        application=application.name,
        cause=ctx.cause,
        created_at=now if waited is None else waited.created_at,
        due_at=due,
        deadline=due
        + (terms.life or kind.life(ctx.options.periods, inner=terms.inner))
        + terms.waves * longest_shutdown_delay(ctx.state, application),
        target=terms.target,
        version=terms.version,
        inner=terms.inner,
        payload=payload,
        history=(*(() if waited is None else waited.history), Note(at=now, text=terms.note)),
    )
    ctx.record_event(
        "transaction",
        transaction.id,
        "TransactionStarted",
        f"{operation(kind.type)} of {application.key}: {terms.note}",
    )
    return ctx.uow.put(transaction)


def end(
    ctx: Context,
    transaction: Transaction,
    status: TransactionStatus,
    message: str,
    progress: int,
    *,
    event_reason: EventReason | None = None,
) -> Transaction:
    """Writes the verdict and returns the ended transaction. The record stays readable for the retention time.
    `event_reason`: reason of the event; None: the reason that belongs to the status."""
    ended = msgspec.structs.replace(
        transaction,
        status=status,
        message=message,
        progress=progress,
        finished_at=ctx.now,
        queued=None if transaction.queued is None else Queued(deployment=transaction.queued.deployment),
        history=(*transaction.history[: HISTORY_LIMIT - 1], Note(at=ctx.now, text=f"{status}: {message}")),
    )
    ctx.record_event("transaction", transaction.id, event_reason or TRANSACTION_ENDED[status], message)
    ctx.count(
        "operate_application",
        (transaction.namespace, transaction.application, transaction.type.lower()),
        ctx.now - transaction.created_at,
    )
    return ctx.uow.put(ended)


def note(ctx: Context, transaction: Transaction, text: str, code: NoteCode = "") -> Transaction:
    """Adds a line to the history. The whole record is written again, so this is for rare events only."""
    history = (*transaction.history[-(HISTORY_LIMIT - 2) :], Note(at=ctx.now, text=text, code=code))
    return ctx.uow.put(msgspec.structs.replace(transaction, history=history))


def mark_operating(ctx: Context, application: Application, transaction: Transaction, message: str) -> Application:
    """Returns the application with status Operating, owned by the transaction; the caller stores the result."""
    return msgspec.structs.replace(
        application,
        status="Operating",
        last_status=application.status if application.status != "Operating" else application.last_status,
        message=message,
        operation=transaction.id,
        updated_at=ctx.now,
    )


def exclusive_operations(ctx: Context, application: Application) -> tuple[Transaction, ...]:
    """Returns the active operations of the application whose kinds are `exclusive`, oldest first. They keep other
    exclusive operations from starting."""
    active = ctx.state.active_of(application.key).values()
    found = [t for t in active if ctx.kind_of(ctx.state, t).exclusive]
    return tuple(sorted(found, key=lambda transaction: transaction.id))


def refuse_if_busy(ctx: Context, application: Application, what: str, *, inner: bool = False) -> None:
    """One operation at a time works on an application (docs/original.md#one-operation); raises Refused naming the
    one that runs. `inner` operations are steps of a rolling update, which keeps all others away."""
    running = next(iter(exclusive_operations(ctx, application)), None)
    if running is not None or (application.status == "RollingUpdate" and not inner):
        raise Refused(
            "conflict",
            f"cannot {what} {application.key} while it is {application.status}"
            + (f" ({named(running.type, running.id)})" if running is not None else ""),
        )
