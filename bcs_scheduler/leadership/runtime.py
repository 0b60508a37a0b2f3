"""Changes of the role of the process: connects to the store, stands for election, leads or stands by.

The main thread of the runtime does the changes of role one after the other: open the store, campaign, take over (with
the state that has followed the store until then, start a Term), step down, campaign again. Every step that can fail for
reasons outside is repeated with backoff until it works or the process is stopped; each is bound to the epoch that it
was won with.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import structlog

from bcs_scheduler.core.interface import inputs
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.decisions.recorded import Sink
from bcs_scheduler.leadership.eligibility import obstacle, protected
from bcs_scheduler.leadership.gateway import Check
from bcs_scheduler.leadership.handover import Handover, Standing
from bcs_scheduler.leadership.hub import WATCHERS
from bcs_scheduler.leadership.listeners import AlarmListener, Leading, RoleObserver
from bcs_scheduler.leadership.present_role import PresentRole
from bcs_scheduler.leadership.standby import Standby
from bcs_scheduler.leadership.term import DriverFactory, ManagersFactory, ProberFactory, PublisherFactory, Term
from bcs_scheduler.loop import gc_tuning
from store import threads
from store.base import Store, StoreError
from store.base import Term as StoreTerm
from store.state.replica import Replica

log = structlog.get_logger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
"""Seconds between attempts to reach the store: doubled each time up to the longest."""
FIRST_RECESS, LONGEST_RECESS = 1.0, 30.0
"""Seconds between leaving the lead over a fault of our own and standing again: doubled for each term that has not
lasted STEADY seconds, so that another candidate gets its chance and a fault that stays does not fill the log."""
STEADY = 60.0
GRACE = 3.0
"""Seconds that decisions get to become durable and to leave when the process is asked to stop."""
STOP_OPENED, STOP_UNOPENED = 30.0, 1.0
"""Seconds `stop` waits for everything to end. An attempt to connect cannot be interrupted, but nothing hangs on it."""
PATIENCE = 60.0
"""Seconds without a subscription after which a leader looks for a candidate that reaches the cluster manager, if
nothing else is set."""


class _Step(NamedTuple):
    """A change of role to be made. The step is void once another candidacy has begun."""

    what: Literal["elected", "deposed", "ended", "renewed", "stop"]
    candidacy: int
    epoch: int = 0
    elapsed: float | None = None
    reason: str = ""


class Runtime(PresentRole):
    """Changes the role of the process."""

    def __init__(
        self,
        store: Store,
        options: CoreOptions,
        make_driver: DriverFactory,
        metrics: RoleObserver,
        url: str,
        make_prober: ProberFactory | None = None,
        make_publisher: PublisherFactory | None = None,
        watchers: int = WATCHERS,
        alarms: AlarmListener | None = None,
        wall: Callable[[], float] = time.time,
        reaches: Callable[[], bool] | None = None,
        patience: float = PATIENCE,
        make_managers: ManagersFactory | None = None,
        decisions: Sink | None = None,
        further_checks: Callable[[], list[Check]] = list,
    ) -> None:
        """`url`: of this process's API, shown to the others (http://host:port). `make_prober`: None = others probe.
        `make_publisher`: None = services are not published elsewhere. `watchers`: of the hub at a time. `alarms` hear
        of every durable event; they outlive the terms. `wall`: the host's clock, Unix seconds. `reaches`: tries to
        reach the leading Mesos master; with it, a leader that has not been subscribed for `patience` seconds leaves the
        lead to a candidate that reaches the master. `make_managers`: None = no application managers.
        `further_checks`: for `checks`, from other parts of the process."""
        super().__init__(store, metrics, url, wall, further_checks)
        self._options, self._make_driver = options, make_driver
        self._make_prober, self._make_publisher, self._make_managers = make_prober, make_publisher, make_managers
        self._watchers, self._alarms = watchers, alarms
        self._decisions = decisions
        """Gets inputs and decisions of the core; None = they are not recorded."""
        self._steps: queue.SimpleQueue[_Step] = queue.SimpleQueue()
        self._candidacy = 0
        """Number of the present candidacy."""
        self._over = 0
        """Number of the latest candidacy that the store has declared over; set before its step is looked at."""
        self._recess = 0.0
        self._stopping = threading.Event()
        self._handover = Handover(store, patience, self._standing, reaches, self._hand_over) if reaches else None
        self._thread = threads.ending("runtime", self._run)

    def start(self) -> None:
        """Returns at once; `checks` tells how far it has come."""
        self._thread.start()

    def stop(self) -> None:
        """Steps down, so that another takes over at once, and closes the store. Tasks continue to run."""
        self._stopping.set()
        self._steps.put(_Step("stop", 0))
        if self._thread.ident is not None:
            self._thread.join(timeout=STOP_OPENED if self._opened else STOP_UNOPENED)

    def renew(self, epoch: int) -> None:
        """Ends the term of this epoch for a new one, of this process or of one that stands by: a decision log begins
        with a term. Decisions become durable first. Returns at once; without effect after the term. Any thread."""
        self._steps.put(
            _Step("renewed", self._candidacy, epoch=epoch, reason="the decision log begins with a new term")
        )

    def _run(self) -> None:
        threads.persist("runtime", self._live, self._stopping.wait)
        standby, handover = self._standby, self._handover
        threads.each(
            "end of the process",
            (
                *((handover.stop,) if handover is not None else ()),
                lambda: self._step_down("the process stops", GRACE, planned=True),
                *((standby.stop,) if standby is not None else ()),
                self._store.close,
                lambda: self._set_role("unknown"),
            ),
        )

    def _live(self) -> None:
        """Until the process stops. Called again after an unexpected error: the lead is left then, if there is one."""
        if not self._opened:
            if not self._attempt("connect to the store", self._store.open):
                return
            self._opened = True
            if self._handover is not None:
                self._handover.start()
        self._step_down("an unexpected error")
        self._attempt("resign", self._store.resign)
        self._campaign()
        while not self._stopping.is_set():
            step = self._steps.get()
            if step.candidacy == self._candidacy:
                self._change(step)

    def _change(self, step: _Step) -> None:
        try:
            if step.what == "elected":
                self._take_over(step.candidacy, StoreTerm(step.epoch, step.elapsed))
            elif step.what == "deposed":
                self._step_down(step.reason)
                self._campaign()
            elif step.what == "ended":
                self._abandon(step.reason)
            elif step.what == "renewed" and self._term is not None and self._term.epoch == step.epoch:
                self._step_down(step.reason, GRACE)
                self._attempt("resign", self._store.resign)
                self._campaign()
        except Exception as error:
            log.exception("change of role failed", step=step.what)
            self._abandon(f"{step.what}: {error}")

    def _attempt(self, what: str, action: Callable[[], object]) -> bool:
        """Repeats the action until it works; False when stopped, or when the candidacy it belongs to is over."""
        candidacy, pause = self._candidacy, FIRST_PAUSE
        while not self._stopping.is_set() and not (candidacy and self._over >= candidacy):
            try:
                action()
            except Exception as error:
                self._problem = f"cannot {what}: {error}"
                if isinstance(error, StoreError):
                    log.warning("store unavailable", action=what, error=str(error), retry_in=pause)
                else:
                    log.exception("store failed", action=what, retry_in=pause)
                self._stopping.wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                self._problem = ""
                return True
        return False

    def _stand_by(self) -> None:
        """Begins to follow the store. The state of a term that has ended may be ahead of the store, so it is not used
        again."""
        if self._standby is not None:
            self._standby.stop()
        self._standby = Standby(self._store, self._metrics.loaded)
        self._metrics.stand_by(self._standby.status)
        self._standby.start()

    def _campaign(self) -> None:
        if self._standby is None or self._standby.taken:
            self._stand_by()
        self._candidacy += 1
        candidacy = self._candidacy

        def elected(won: StoreTerm) -> None:
            self._steps.put(_Step("elected", candidacy, epoch=won.epoch, elapsed=won.elapsed))

        def deposed(reason: str) -> None:
            self._over = candidacy
            self._steps.put(_Step("deposed", candidacy, reason=reason))

        if self._attempt("stand for election", lambda: self._store.campaign(self._url, elected, deposed)):
            self._set_role("slave")
            log.info("standing for election", url=self._url)

    def _take_over(self, candidacy: int, won: StoreTerm) -> None:
        epoch = won.epoch
        began = time.monotonic()
        replica = self._caught_up(epoch)
        if replica is None:
            return
        state, quarantined = replica.state, list(replica.quarantined.values())
        caught_up = time.monotonic()
        term = Term(
            self._store,
            epoch,
            state,
            protected(quarantined),
            self._options,
            self._make_driver,
            self._metrics,
            lambda reason: self._steps.put(_Step("ended", candidacy, reason=reason)),
            self._make_prober,
            self._make_publisher,
            self._watchers,
            self._alarms.notice if self._alarms is not None else None,
            won.elapsed,
            self._wall,
            self._make_managers,
            self._decisions,
        )
        if term.core.began.host_wrong:
            log.error("clock.host_wrong", stored=term.core.began.now, host=self._wall())
        if self._over >= candidacy:
            return  # subscribing now would only throw the true leader out for a moment
        self._term, self._standby = term, None
        self._metrics.stand_by(None)
        self._metrics.lead(
            Leading(
                term.core,
                epoch,
                len(quarantined),
                term.queues,
                term.driver.status,
                term.stalled_for,
                term.publishing,
                term.hub,
            )
        )
        self._set_role("master")
        if self._alarms is not None:
            runs = sorted(state.event_logs.values(), key=lambda run: run.number)
            past = [event for run in runs for event in run.events]
            threads.harmless("alarms", partial(self._alarms.leading, epoch, past, term.clock.now()))
        gc_tuning.term_begun()
        term.inbox.put(inputs.TermBegan(scheduler=self._url, epoch=epoch, cause="takeover"))
        term.start()
        log.info(
            "leading",
            epoch=epoch,
            records=len(replica),
            catching_up=round(caught_up - began, 3),
            seconds=round(time.monotonic() - began, 3),
        )

    def _caught_up(self, epoch: int) -> Replica | None:
        """The records after the election, when no other process writes. None if the candidacy is over, or if the
        records do not allow a scheduler to lead; the standby then continues to follow."""
        standby = self._standby
        assert standby is not None
        log.info("elected, reading the latest changes", epoch=epoch, age=standby.status().age)
        found: list[Replica] = []
        if not self._attempt("read the records", lambda: found.append(standby.catch_up())):
            return None
        quarantined = list(found[0].quarantined.values())
        self._quarantined = len(quarantined)
        for bad in quarantined:
            log.error("record quarantined", kind=bad.kind, key=bad.key, error=bad.error)
        self._obstacle = obstacle(found[0].state, quarantined)
        if self._obstacle is not None:
            log.error("refusing to lead", epoch=epoch, code=self._obstacle.code, reason=self._obstacle.message)
            self._abandon(self._obstacle.code)
            return None
        if not self._attempt("read the records", lambda: found.append(standby.take(epoch))):
            return None
        return found[-1]

    def _step_down(self, reason: str, grace: float = 0.0, *, planned: bool = False) -> None:
        term, self._term = self._term, None
        if term is None:
            return
        (log.info if planned else log.warning)("stepping down", epoch=term.epoch, reason=reason)
        try:
            self._set_role("slave")
            self._metrics.lead(None)
        finally:  # after any failure: a term that is not stopped would keep its subscription
            self._recess = 0.0 if term.age > STEADY else self._recess
            term.stop(reason, grace)
        if self._alarms is not None:
            threads.harmless("alarms", self._alarms.not_leading)
        if not self._stopping.is_set():
            del term
            gc_tuning.term_ended()

    def _abandon(self, reason: str) -> None:
        """A term cannot continue, or cannot begin: the process leaves the lead and stands again a little later."""
        log.error("giving up leadership", reason=reason)
        self._step_down(reason)
        self._attempt("resign", self._store.resign)
        self._recess = min(max(self._recess * 2, FIRST_RECESS), LONGEST_RECESS)
        self._stopping.wait(self._recess)
        self._campaign()

    def _standing(self) -> Standing:
        """Returns the role of this process for Handover. A removed framework is removed for every scheduler."""
        term = self._term
        if term is None:
            return "standing by" if self._role == "slave" else "not standing"
        return "subscribed" if term.core.fatal or term.driver.status()["connected"] else "cut off"

    def _hand_over(self, reason: str) -> None:
        self._steps.put(_Step("ended", self._candidacy, reason=reason))
