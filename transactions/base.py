"""The life of a transaction: time box, delay, verdict; and what every kind of transaction works with.

A transaction is a record (store.records.Transaction). Its kind's module looks at the actual taskgroups, changes records
through the unit of work, and says with a Step what it still wants. Nothing here keeps state of its own, so a step may
be repeated at will, and after a failover the stored records are all that is needed.

Exception tree:

    Refused                  a request that cannot be honoured: reason (stable) and message
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from offers.agents import Directory
from store.ids import transaction_id
from store.records import (
    Application,
    Executor,
    Note,
    Transaction,
    TransactionKind,
    TransactionStatus,
)
from store.state import State
from store.unit_of_work import UnitOfWork

REPLACED = "replaced"
"""Reason of the story line about the end of a restart that has replaced its taskgroup. The event of the new taskgroup
("restarted", "relaunched") says so to users, so the line is for the log only."""
HISTORY_LIMIT = 50
"""Notes kept per transaction; the record is written whole, so its history must stay small."""


class Refused(Exception):
    """The request cannot be honoured. `reason` is one of not_found, exists, conflict, quota_exceeded, invalid;
    `problems` are (path, message) pairs, one for each thing that is wrong if they can be told apart."""

    def __init__(self, reason: str, message: str, path: str = "", problems: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message
        self.problems = problems or (((path, message),) if path else ())


@dataclass(frozen=True, slots=True)
class Periods:
    """Life periods and delays in seconds: the figures of the original's first generation (bcs_internals 4.2)."""

    default: float = 480.0
    launch: float = 1800.0
    rolling_up: float = 300.0
    rolling_down: float = 7500.0
    delete: float = 7500.0
    inner_reschedule: float = 86400.0
    """Restarts after failures, and what daemonsets do to have their taskgroups."""
    restart_reset: float = 1800.0
    """A taskgroup that ran this long starts its restart count anew."""
    update_delay: float = 0.0
    reschedule_delay: float = 0.0
    retention: float = 86400.0
    """How long an ended transaction stays readable, unless too many newer ones have ended (`Options`)."""

    def life(self, kind: TransactionKind, *, inner: bool, down: bool = False) -> float:
        match kind:
            case "LAUNCH" | "UPDATE" if inner:
                return self.inner_reschedule
            case "LAUNCH":
                return self.launch
            case "DELETE":
                return self.delete
            case "INNERSCALE":
                return self.rolling_down if down else self.rolling_up
            case "RESCHEDULE" if inner:
                return self.inner_reschedule
        return self.default


@dataclass(frozen=True, slots=True)
class Options:
    """What an operator can set about transactions."""

    periods: Periods = field(default_factory=Periods)
    role: str = "*"
    """Mesos role used where a version names none."""
    version_history: int = 10
    keep_each: int = 50
    """Ended transactions kept of one application that users began, and as many that the scheduler itself began."""
    keep_total: int = 20_000
    """Ended transactions kept in all: about 1 kB each in the store, and 2 kB of memory."""


class Ids:
    """Makes unique, increasing Unix nanoseconds from the times it is given: the numbers in all ids."""

    def __init__(self, floor: int = 0) -> None:
        self._last = floor

    def next(self, now: float) -> int:
        self._last = max(self._last + 1, int(now * 1e9))
        return self._last


class Slot(msgspec.Struct, frozen=True, gc=False):
    """A place to be filled: the index of the taskgroup, and the id of the one it replaces, if any."""

    index: int
    replaces: str = ""


Verdict = tuple[TransactionStatus, str]


class Step(NamedTuple):
    """What one look at a transaction found.

    `slots` want a place (with `version`); `verdict` ends it; `wake_at` asks for another look at that moment at the
    latest (changes of its application's taskgroups and its deadline cause one anyway).
    """

    slots: tuple[Slot, ...] = ()
    version: str = ""
    verdict: Verdict | None = None
    wake_at: float = 0.0
    again: bool = False
    """The step had no time for all there is to do (`Context.enough`): another look is needed soon."""
    only_host: str = ""
    per_agent: bool = False
    """No two of the slots on one agent."""
    only_agents: frozenset[str] = frozenset()
    """Ids of the agents that are acceptable; empty = any."""
    except_agents: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()
    """Configuration without which it cannot go on, in words (transactions.injection)."""


IDLE = Step()


def _simply(kind: str, key: str, work: Callable[[], None]) -> str:
    work()
    return ""


@dataclass(slots=True)
class Context:
    """What a step may use: the state, the unit of work, the time, ids, and the options. No I/O."""

    state: State
    uow: UnitOfWork
    now: float
    ids: Ids
    options: Options
    executor: Executor = "bcs"
    """What runs taskgroups whose version does not say."""
    agents: Directory = field(default_factory=Directory)
    """The agents Mesos lists."""
    cause: str = ""
    tell: Callable[..., None] = lambda kind, key, reason, message, level="info", transaction="": None
    """Story line: (kind, key, reason, message); as in bcs_scheduler.core.desk."""
    count: Callable[[str, tuple[str, ...], float], None] = lambda name, labels, value: None
    attempt: Callable[[str, str, Callable[[], None]], str] = _simply
    """Runs work on the object (kind, key) as a unit of its own. If it fails unexpectedly, it is undone, and its error
    is returned in words; else an empty string."""
    checkpoint: Callable[[], None] = lambda: None
    """The changes so far are consistent in themselves: a big unit of work may be cut here."""

    enough: Callable[[], bool] = lambda: False
    """The time of this turn for steps is used up: a step over many taskgroups stops at a consistent point and says
    `Step.again`."""

    def application(self, transaction: Transaction) -> Application | None:
        return self.state.applications.get(f"{transaction.namespace}/{transaction.application}")


def begin(
    ctx: Context,
    kind: TransactionKind,
    application: Application,
    *,
    delay: float = 0.0,
    inner: bool = False,
    down: bool = False,
    target: int = 0,
    version: str = "",
    taskgroup: str = "",
    host_retain: str = "",
    host_retain_time: float = 0.0,
    force: bool = False,
    enforce: bool = False,
    restarts: int = 0,
    drained: str = "",
    max_unavailable: int = 0,
    victims: tuple[str, ...] = (),
    life: float = 0.0,
    note: str = "",
) -> Transaction:
    """Writes the intent: a new active transaction. Its life counts from the end of its delay; 0.0: as `Periods` say."""
    now = ctx.now
    due = now + max(0.0, delay)
    transaction = Transaction(
        id=transaction_id(ctx.ids.next(now)),
        type=kind,
        namespace=application.namespace,
        application=application.name,
        cause=ctx.cause,
        created_at=now,
        due_at=due,
        deadline=due + (life or ctx.options.periods.life(kind, inner=inner, down=down)),
        target=target,
        version=version,
        inner=inner,
        enforce=enforce,
        taskgroup=taskgroup,
        host_retain=host_retain,
        host_retain_until=now + host_retain_time if host_retain else 0.0,
        force=force,
        restarts=restarts,
        drained=drained,
        max_unavailable=max_unavailable,
        victims=victims,
        history=(Note(at=now, text=note or "accepted"),),
    )
    ctx.tell("transaction", transaction.id, "begin", f"{kind} of {application.key}: {note or 'accepted'}")
    return ctx.uow.put(transaction)


def end(
    ctx: Context,
    transaction: Transaction,
    status: TransactionStatus,
    message: str,
    progress: int,
    *,
    told: str = "",
) -> Transaction:
    """Writes the verdict. The record stays readable for the retention time. `told`: reason of the story line; empty =
    the status."""
    ended = msgspec.structs.replace(
        transaction,
        status=status,
        message=message,
        progress=progress,
        finished_at=ctx.now,
        history=(*transaction.history[: HISTORY_LIMIT - 1], Note(at=ctx.now, text=f"{status}: {message}")),
    )
    ctx.tell("transaction", transaction.id, told or status.lower(), message)
    ctx.count(
        "operate_application",
        (transaction.namespace, transaction.application, transaction.type.lower()),
        ctx.now - transaction.created_at,
    )
    return ctx.uow.put(ended)


def note(ctx: Context, transaction: Transaction, text: str) -> Transaction:
    """Adds a line to the history (the record is written again, so for rare turns only)."""
    history = (*transaction.history[-(HISTORY_LIMIT - 2) :], Note(at=ctx.now, text=text))
    return ctx.uow.put(msgspec.structs.replace(transaction, history=history))


def own(ctx: Context, application: Application, transaction: Transaction, message: str) -> Application:
    """The application as Operating, owned by the transaction (the caller stores it)."""
    return msgspec.structs.replace(
        application,
        status="Operating",
        last_status=application.status if application.status != "Operating" else application.last_status,
        message=message,
        operation=transaction.id,
        updated_at=ctx.now,
    )


def refuse_if_busy(ctx: Context, application: Application, what: str, *, inner: bool = False) -> None:
    """One operation at a time works on an application (W-24); raises Refused naming the one that runs. `inner`
    operations are steps of a rolling update, which keeps all others away. Restarts of taskgroups go on beside, and so
    does what a daemonset launches."""
    active = ctx.state.active_of(application.key).values()
    running = next((t for t in active if t.type != "RESCHEDULE" and not (t.inner and t.type == "LAUNCH")), None)
    if running is not None or (application.status == "RollingUpdate" and not inner):
        raise Refused(
            "conflict",
            f"cannot {what} {application.key} while it is {application.status}"
            + (f" (transaction {running.id})" if running is not None else ""),
        )
