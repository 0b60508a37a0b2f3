"""The running service: connects to the store, stands for election, leads or stands by, and is the API's gateway.

The main thread of the runtime does the changes of role one after the other: open the store, campaign, take over (with
the state that has followed the store until then, start a Term), step down, campaign again.
Every step that can fail for reasons outside is repeated with
backoff until it works or the process is stopped; each is bound to the epoch it was won with.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Literal, NamedTuple

import structlog

from bcs_scheduler import collector
from bcs_scheduler.alarms import Alarms
from bcs_scheduler.core.desk import CoreOptions
from bcs_scheduler.core.effects import Reply
from bcs_scheduler.core.events import Command
from bcs_scheduler.eligibility import Obstacle, obstacle, protected
from bcs_scheduler.gateway import Busy, Check, NotLeading, Role
from bcs_scheduler.handover import Handover, Standing
from bcs_scheduler.hub import Hub
from bcs_scheduler.metrics import Leading, Metrics
from bcs_scheduler.standby import READING, STALE, Standby
from bcs_scheduler.term import STALL, DriverFactory, ProberFactory, PublisherFactory, Term
from offers.model import Diagnosis, Offer
from store import threads
from store.base import Store, StoreError
from store.base import Term as StoreTerm
from store.replica import Replica
from store.state import State

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
UNPUBLISHED = 30.0
"""Seconds for which services may not be published before this process calls itself not ready."""
LASTING = 10.0
"""Seconds after which a leader is believed not to have met the obstacle that kept this process from leading: longer
than it takes to read the records."""


class _Step(NamedTuple):
    """A change of role to be made. It is void once another candidacy has begun."""

    what: Literal["elected", "deposed", "ended", "stop"]
    candidacy: int
    epoch: int = 0
    elapsed: float | None = None
    reason: str = ""


class Runtime:
    """Implements bcs_scheduler.gateway.Gateway."""

    def __init__(
        self,
        store: Store,
        options: CoreOptions,
        make_driver: DriverFactory,
        metrics: Metrics,
        url: str,
        make_prober: ProberFactory | None = None,
        make_publisher: PublisherFactory | None = None,
        watchers: int = 1_000,
        alarms: Alarms | None = None,
        wall: Callable[[], float] = time.time,
        reaches: Callable[[], bool] | None = None,
        patience: float = 60.0,
    ) -> None:
        """`url`: of this process's API, shown to the others (http://host:port). `make_prober`: None = others probe.
        `make_publisher`: None = services are not published elsewhere. `watchers`: of the hub at a time. `alarms` hear
        of every durable event; they outlive the terms. `wall`: the host's clock, Unix seconds. `reaches`: tries to
        reach the leading Mesos master; with it, a leader that has not been subscribed for `patience` seconds leaves the
        lead to a candidate that reaches the master."""
        self._store, self._options, self._make_driver = store, options, make_driver
        self._metrics, self._url, self._make_prober = metrics, url, make_prober
        self._make_publisher = make_publisher
        self._watchers, self._alarms, self._wall = watchers, alarms, wall
        self._steps: queue.SimpleQueue[_Step] = queue.SimpleQueue()
        self._candidacy = 0
        """Number of the present candidacy."""
        self._over = 0
        """Number of the latest candidacy that the store has declared over; set before its step is looked at."""
        self._term: Term | None = None
        self._role: Role = "unknown"
        self._trouble = "starting"
        self._opened = False
        self._quarantined = 0
        self._obstacle: Obstacle | None = None
        """Why this process has refused to lead; None once a candidate leads."""
        self._leader_seen = (0, 0.0)
        """Epoch of the leader seen last, and since when (monotonic seconds)."""
        self._recess = 0.0
        self._stopping = threading.Event()
        self._standby: Standby | None = None
        """Follows the store while this process does not lead."""
        self._handover = Handover(store, patience, self._standing, reaches, self._hand_over) if reaches else None
        self._thread = threads.ending("runtime", self._run)

    # --- life -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Returns at once; `checks` tells how far it has come."""
        self._thread.start()

    def stop(self) -> None:
        """Steps down, so that another takes over at once, and closes the store. Tasks go on running."""
        self._stopping.set()
        self._steps.put(_Step("stop", 0))
        if self._thread.ident is not None:
            self._thread.join(timeout=STOP_OPENED if self._opened else STOP_UNOPENED)

    def _run(self) -> None:
        threads.persist("runtime", self._live, self._stopping.wait)
        standby, handover = self._standby, self._handover
        threads.each(
            "end of the process",
            (
                *((handover.stop,) if handover is not None else ()),
                lambda: self._step_down("the process stops", GRACE),
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
                self._trouble = f"cannot {what}: {error}"
                if isinstance(error, StoreError):
                    log.warning("store unavailable", action=what, error=str(error), retry_in=pause)
                else:
                    log.exception("store failed", action=what, retry_in=pause)
                self._stopping.wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                self._trouble = ""
                return True
        return False

    def _stand_by(self) -> None:
        """Begins to follow the store. The state of a term that has ended may be ahead of what is stored, so it is not
        used again."""
        if self._standby is not None:
            self._standby.stop()
        self._standby = Standby(self._store, self._metrics.loaded)
        self._metrics.stand_by(self._standby.following)
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
            runs = sorted(state.journals.values(), key=lambda run: run.number)
            past = [happening for run in runs for happening in run.happenings]
            threads.harmless("alarms", partial(self._alarms.leading, epoch, past, term.clock.now()))
        collector.settle()
        term.start()
        log.info(
            "leading",
            epoch=epoch,
            records=len(replica),
            catching_up=round(caught_up - began, 3),
            seconds=round(time.monotonic() - began, 3),
        )

    def _caught_up(self, epoch: int) -> Replica | None:
        """The records as they are now that nobody else writes. None if the candidacy is over, or if they do not allow
        anybody to lead; the standby then goes on following."""
        standby = self._standby
        assert standby is not None
        log.info("elected, reading what has changed last", epoch=epoch, age=standby.following().age)
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

    def _step_down(self, reason: str, grace: float = 0.0) -> None:
        term, self._term = self._term, None
        if term is None:
            return
        log.warning("stepping down", epoch=term.epoch, reason=reason)
        try:
            self._set_role("slave")
            self._metrics.lead(None)
        finally:  # whatever fails: a term that nobody stops would keep its subscription
            self._recess = 0.0 if term.age > STEADY else self._recess
            term.stop(reason, grace)
        if self._alarms is not None:
            threads.harmless("alarms", self._alarms.resting)
        if not self._stopping.is_set():
            del term
            collector.release()

    def _abandon(self, reason: str) -> None:
        """A term cannot go on by itself, or not even begin: leave the lead and stand again a little later."""
        log.error("leaving the lead", reason=reason)
        self._step_down(reason)
        self._attempt("resign", self._store.resign)
        self._recess = min(max(self._recess * 2, FIRST_RECESS), LONGEST_RECESS)
        self._stopping.wait(self._recess)
        self._campaign()

    def _standing(self) -> Standing:
        """For Handover. A framework that was removed is removed for every scheduler."""
        term = self._term
        if term is None:
            return "standing by" if self._role == "slave" else "not standing"
        return "subscribed" if term.core.fatal or term.driver.status()["connected"] else "cut off"

    def _hand_over(self, reason: str) -> None:
        self._steps.put(_Step("ended", self._candidacy, reason=reason))

    def _set_role(self, role: Role) -> None:
        self._role = self._metrics.role = role

    # --- gateway ----------------------------------------------------------------------------------------------

    def role(self) -> Role:
        return self._role

    def leader_url(self) -> str | None:
        if self._term is not None:
            return self._url
        leader = self._store.leader() if self._opened else None
        return leader.url if leader is not None and leader.url != self._url else None

    def state(self) -> State:
        term = self._term
        if term is not None:
            return term.core.state
        if not self._opened:
            raise Busy(self._trouble or "the store is not connected yet")
        standby = self._standby
        if standby is None:
            raise Busy("the records are about to be read from the store")
        return standby.state()

    def age(self) -> float | None:
        standby = self._standby
        return standby.following().age if standby is not None and self._term is None else None

    def submit(self, command: Command) -> Future[Reply]:
        term = self._term
        if term is None:
            raise NotLeading(self.leader_url())
        return term.submit(command)

    def withdraw(self, future: Future[Reply]) -> bool:
        term = self._term
        return term is not None and term.withdraw(future)

    def hub(self) -> Hub:
        term = self._term
        if term is None:
            raise NotLeading(self.leader_url())
        return term.hub

    def offers(self) -> list[Offer]:
        term = self._term
        return term.core.offers() if term is not None else []

    def agents(self) -> list[dict[str, Any]]:
        term = self._term
        return term.core.agents if term is not None else []

    def mesos_master(self) -> str:
        term = self._term
        status = term.driver.status() if term is not None else {}
        return str(status["master"]) if status.get("connected") else ""

    def diagnosis(self, transaction_id: str) -> Diagnosis | None:
        term = self._term
        return term.core.diagnosis(transaction_id) if term is not None else None

    def checks(self) -> list[Check]:
        return [
            self._store_check(),
            self._leadership_check(),
            *self._records_check(),
            *self._standby_check(),
            *self._mesos_check(),
            *self._publishing_check(),
        ]

    def _store_check(self) -> Check:
        term = self._term
        stalled = term.stalled_for() if term is not None else 0.0
        if not self._opened or self._trouble:
            return Check("store", False, self._trouble or "not connected yet")
        if stalled > STALL:
            return Check("store", False, f"changes have been waiting for {stalled:.0f} s")
        if not self._store.healthy():
            return Check("store", False, "it cannot be reached or written, the log says why")
        standby = self._standby
        quarantined = standby.following().quarantined if standby is not None else self._quarantined
        text = f"{quarantined} records quarantined, see the log" if quarantined else "connected"
        return Check("store", True, text)

    def _leadership_check(self) -> Check:
        term = self._term
        if term is not None:
            return Check("leadership", True, f"master, epoch {term.epoch}")
        leader = self.leader_url()
        return Check("leadership", leader is not None, f"slave of {leader}" if leader else "no leader is known")

    def _records_check(self) -> list[Check]:
        """The obstacle that this process has met, until a candidate has led for a while: one that meets the same
        obstacle leads only until it has read the records."""
        found = self._obstacle
        if found is None:
            return []
        leader = self._store.leader() if self._opened else None
        if leader is None or leader.url == self._url:
            self._leader_seen = (0, 0.0)
        elif self._leader_seen[0] != leader.epoch:
            self._leader_seen = (leader.epoch, time.monotonic())
        elif time.monotonic() - self._leader_seen[1] > LASTING:
            self._obstacle = None
            return []
        return [Check("records", False, found.message, found.code)]

    def _standby_check(self) -> list[Check]:
        """Of a process that does not lead: whether it can answer reads."""
        standby = self._standby
        if standby is None or self._term is not None:
            return []
        age = standby.following().age
        if age is None:
            return [Check("standby", False, standby.trouble or READING)]
        return [Check("standby", age <= STALE, f"what it shows is {age:.1f} s old")]

    def _mesos_check(self) -> list[Check]:
        term = self._term
        if term is None:
            return []
        if term.core.fatal:
            return [Check("mesos", False, f"the framework was removed: {term.core.fatal}")]
        status = term.driver.status()
        if status["connected"]:
            return [Check("mesos", True, f"subscribed with {status.get('master', '')}")]
        return [Check("mesos", False, f"not subscribed: {status.get('error') or 'connecting'}")]

    def _publishing_check(self) -> list[Check]:
        term = self._term
        status = term.publishing() if term is not None else None
        if status is None:
            return []
        if not status.trouble:
            return [Check("publishing", True, "services are published")]
        # Short troubles are its own business: what waits is written when they are over.
        seconds = time.monotonic() - status.since
        return [Check("publishing", seconds < UNPUBLISHED, f"for {seconds:.0f} s: {status.trouble}")]

    def now(self) -> float:
        term = self._term
        return term.clock.now() if term is not None else self._wall()

    def metrics(self) -> bytes:
        return self._metrics.render()
