"""The interface of the kinds of transactions.

A kind is one object without state, one per module or form; transactions.kinds.registry finds the kind of a transaction.
Methods that take a Context may change records through its unit of work where they say so; the others only look.
"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

import msgspec

from store.records import Application, OrphanedTask, TaskGroup, Transaction, TransactionKind
from store.state.reader import StateReader
from transactions.base import Context, Periods, Progress, Step, Verdict
from transactions.rules import application_types
from transactions.text import are, counted

NO_OFFERS = "not all taskgroups were placed; no offers were seen"
NAMED = 3
"""So many taskgroups are named in a sentence, the first ones."""


class Done(NamedTuple):
    """The placement has completed the transaction."""

    group: TaskGroup
    """The taskgroup as it was written."""
    how: Literal["restarted", "relaunched"]


class Kind:
    """One kind of transaction. Defaults are for an operation that works alone on a whole application."""

    type: ClassVar[TransactionKind]
    exclusive: bool = True
    """No other exclusive operation may work on the application at the same time."""
    can_be_superseded: bool = False
    """A newer operation that wants another state of the application may take its place (transactions.conflicts)."""
    sizes: bool = False
    """True if the kind brings the application to the number of taskgroups that its owner wants. A deployment waits for
    such a transaction and begins it again some time after it has failed; a newer number supersedes it."""
    deletes: bool = False
    """True if the application does not exist any more when the transaction has succeeded."""
    reserves: bool = False
    """True if the room for the taskgroups of the transaction may be gathered by placeholders."""
    in_place: bool = False
    """Taskgroups it ends are replaced under the same index, so a plan counts places for them."""
    scans_all: bool = False
    """Many status reports ask for a step, and each step walks over all taskgroups of the application: in big
    applications such steps keep a distance."""
    only_removals_matter: bool = False
    """No change of a taskgroup that stays there ever concerns it."""

    @property
    def label(self) -> str:
        """Name of the transaction's launches in metrics."""
        return self.type.lower()

    def form(self, state: StateReader, transaction: Transaction) -> Kind:
        """Returns the object that implements this transaction, for kinds that have several forms."""
        return self

    def life(self, periods: Periods, *, inner: bool) -> float:
        """Seconds from the due time of the transaction to its deadline. `inner`: the scheduler itself has begun the
        transaction."""
        return periods.default

    # --- its work ---------------------------------------------------------------------------------------------

    def step(self, ctx: Context, transaction: Transaction) -> Step:
        """Examines the present taskgroups, changes records, and returns the slots that are still wanted, or the
        verdict."""
        raise NotImplementedError

    def preview(self, ctx: Context, transaction: Transaction) -> tuple[Step, list[TaskGroup]]:
        """Returns the result of the first step for a dry run, and the taskgroups that the step would end. Changes
        nothing, except for kinds whose steps concern very few taskgroups: they may take the step."""
        return self.step(ctx, transaction), []

    def settled(self, ctx: Context, transaction: Transaction) -> Verdict | None:
        """Returns the verdict on a transaction that is not due yet and has no work left; None while it has work."""
        return None

    def concerns(self, ctx: Context, transaction: Transaction, group: TaskGroup | None) -> bool:
        """Returns True if the change of a taskgroup of the application (None: the taskgroup is gone) may change the
        wanted slots of the transaction, so that a step is needed."""
        return True

    def handles(self, ctx: Context, transaction: Transaction, application: Application, group: TaskGroup) -> bool:
        """Returns True if the transaction handles a taskgroup that has ended or is unreachable, so that the engine does
        nothing. May change records of that taskgroup, because a step for each taskgroup that ends would cost the square
        of their number."""
        return False

    def replaces(self, state: StateReader, transaction: Transaction, group: TaskGroup) -> bool:
        """Returns True if the transaction itself will replace this taskgroup."""
        return False

    def ends(self, state: StateReader, transaction: Transaction, group: TaskGroup) -> bool:
        """Returns True if the transaction itself ends this taskgroup, and none takes its place. Any thread may call."""
        return False

    # --- its placements ---------------------------------------------------------------------------------------

    def waiting_since(self, transaction: Transaction) -> float:
        """Unix seconds from which the taskgroups of the transaction have waited for a place, for metrics."""
        return transaction.due_at

    def remember(self, ctx: Context, transaction: Transaction, old: TaskGroup, tasks: tuple[str, ...]) -> None:
        """Records which tasks of a replaced taskgroup may still run, until they are known to be gone."""
        ctx.uow.put(OrphanedTask(id=old.id, agent_id=old.agent_id, tasks=tasks, since=ctx.now))

    def placed(self, ctx: Context, transaction: Transaction, group: TaskGroup, before: TaskGroup | None) -> Done | None:
        """Called when a taskgroup was placed and written; `before`: the taskgroup that it replaces, None for a new one.
        The result is not None if this completes the transaction."""
        return None

    def left(self, transaction: Transaction) -> OrphanedTask | None:
        """Returns the tasks that may still run according to an ended transaction (see `remember`); None if there are
        none."""
        return None

    # --- descriptions -----------------------------------------------------------------------------------------

    def progress(self, state: StateReader, transaction: Transaction) -> Progress:
        """Returns the progress of an active transaction. Any thread may call."""
        raise NotImplementedError

    def max_unavailable(self, transaction: Transaction) -> int:
        """Number of taskgroups that the transaction may leave not ready at once; 0 = no bound."""
        return 0

    def late(self, ctx: Context, transaction: Transaction) -> str:
        """Explains why the transaction has run out of time although all its slots were placed."""
        return not_running(ctx, transaction) or NO_OFFERS

    def cancelled(self, ctx: Context, transaction: Transaction) -> None:
        """Writes the wanted state after a user has cancelled the transaction."""


def not_running(ctx: Context, transaction: Transaction) -> str:
    """Returns a message that names the taskgroups of the application that do not run; empty if all run."""
    members = ctx.state.groups_of(transaction.application_key).values()
    application = ctx.application(transaction)
    may_finish = application is None or application_types.may_finish(application)
    late = [
        group.name
        for group in sorted(members, key=lambda group: (group.index, group.id))
        if group.status != "Running" and not (may_finish and group.status == "Finish")
    ]
    return f"{counted(len(late), 'taskgroup')} {are(len(late))} not running: {', '.join(late[:NAMED])}" if late else ""


def limit_to_existing(ctx: Context, transaction: Transaction) -> None:
    """Reduces the wanted instances of the application to the taskgroups that exist; without any, the application is
    stopped."""
    application = ctx.application(transaction)
    if application is None:
        return
    taken = max(ctx.state.indexes_of(application.key), default=-1) + 1
    if taken < application.instances:
        ctx.uow.put(msgspec.structs.replace(application, instances=taken))


def filled(state: StateReader, transaction: Transaction) -> Progress:
    """Returns the progress of an operation that fills indexes up to its target: the number of wanted indexes that are
    held or, on the way down, of taskgroups that are not above the target."""
    target = transaction.target
    held = list(state.indexes_of(transaction.application_key))
    wanted = sum(1 for index in held if index < target)
    beyond = len(held) - wanted
    return Progress(max(0, target - beyond) if beyond else wanted, target - wanted + beyond)
