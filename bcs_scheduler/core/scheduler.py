"""The one object that owns the state: events in, units of changes and effects out.

Pure: no I/O, no clock, no randomness; the time is an argument, ids are made from it. One thread calls it. `turn`
handles a batch of events, lets timers and transactions take their steps, runs the placement pass, and returns the units
in the order in which they must become durable; the effects of a unit may leave only then, and only while the epoch
still holds, also if the unit changes nothing: a deposed leader that kills what it does not know would kill work of its
successor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec

from bcs_scheduler.core import events, orders
from bcs_scheduler.core.beginning import MARK_EVERY, beginning
from bcs_scheduler.core.commands import Commands
from bcs_scheduler.core.controllers.checker import Checker
from bcs_scheduler.core.controllers.daemonsets import Daemonsets
from bcs_scheduler.core.controllers.deployments import Deployments
from bcs_scheduler.core.controllers.drains import Drains
from bcs_scheduler.core.controllers.health import Health
from bcs_scheduler.core.controllers.history import History
from bcs_scheduler.core.controllers.janitor import Janitor
from bcs_scheduler.core.controllers.killer import Killer
from bcs_scheduler.core.controllers.messenger import Messenger
from bcs_scheduler.core.controllers.outcomes import Outcomes
from bcs_scheduler.core.controllers.remnants import Remnants
from bcs_scheduler.core.controllers.reports import Reports
from bcs_scheduler.core.controllers.services import Services
from bcs_scheduler.core.controllers.supply import Supply
from bcs_scheduler.core.desk import CoreOptions, Desk
from bcs_scheduler.core.effects import Reason, Reply
from bcs_scheduler.core.errands import Errands
from bcs_scheduler.core.pace import COMMANDS, EVENTS, LAUNCHES, STEPS, UNHURRIED, Pace
from bcs_scheduler.core.planner import plan
from offers.model import Diagnosis, Offer
from store.ids import UNNAMED, safe_cluster
from store.records import Framework, Record
from store.state import State
from store.times import moved_back
from store.unit_of_work import Unit
from transactions.progress import progress

TICK = 1.0
"""Longest pause in seconds between two turns: timers of the controllers have this grain."""
PLAN_PATIENCE = 3.0
"""Seconds a plan waits for offers if none are held."""
ROUNDS = 8
"""Bound on placement passes per turn; each further one only follows from what the one before placed."""


PLACING = (
    events.CreateApplication,
    events.UpdateApplication,
    events.RollbackApplication,
    events.ScaleApplication,
    events.RescheduleTaskGroup,
    events.DeleteApplication,
    events.CancelTransaction,
    orders.CreateDeployment,
    orders.UpdateDeployment,
    orders.ControlDeployment,
    orders.RollbackDeployment,
    orders.ScaleDeployment,
    orders.CreateDaemonset,
    orders.UpdateDaemonset,
    orders.RollbackDaemonset,
    orders.RestartDaemonset,
)
"""Commands whose plans need offers to look at."""


class Follower(Protocol):
    """A controller that reacts to changed records, through the same unit of work."""

    def recover(self) -> None:
        """Derives what it holds from the state, once, after an election."""

    def notice(self, changed: Sequence[tuple[str, str]]) -> None:
        """(kind, key) of what has changed; called until nothing changes any more."""

    def tick(self) -> None:
        """Once per turn. What is sent with the turn's last unit, like messages, is asked at its end."""

    def next_timer(self) -> float | None:
        """When it wants a turn at the latest (Unix seconds)."""


class Core:
    """The scheduler without the world around it."""

    def __init__(
        self,
        records: State | Iterable[Record],
        options: CoreOptions,
        wall: float,
        kept: Mapping[tuple[str, str], str] | None = None,
        elapsed: float | None = None,
    ) -> None:
        """`records`: all that are stored, or a state made of them, which is the core's from now on. `wall`, `elapsed`:
        as in bcs_scheduler.core.beginning; the times of the turns go on from `began.now`. `kept`: see
        store.state.State.kept; None = every stored record could be read."""
        self.options = options
        self.state = records if isinstance(records, State) else State(records)
        self.state.kept.update(kept or {})
        self.began = beginning(self.state, wall, elapsed)
        self.desk = Desk(self.state, options)
        self.desk.start(self.began.now, "takeover")
        self._bring_times_back()
        self.agents: list[dict[str, Any]] = []
        self.fatal = ""
        """Why Mesos will not have this framework any more: nothing is launched until an operator acts (W-07)."""
        self._checker = Checker(self.desk)
        self._remnants = Remnants(self.desk)
        self._messenger = Messenger(self.desk)
        self._health = Health(self.desk)
        self._reports = Reports(self.desk, self._checker, self._remnants, self._messenger, self._health)
        self._killer = Killer(self.desk)
        self._supply = Supply(self.desk)
        self._janitor = Janitor(self.desk)
        self._services = Services(self.desk)
        self._controllers: tuple[Follower, ...] = (
            self._killer,
            self._remnants,
            self._checker,
            Daemonsets(self.desk),
            Deployments(self.desk),
            Drains(self.desk, self._supply),
            History(self.desk, self._remnants),
            Outcomes(self.desk),
        )
        """In the order in which they are asked. Each belongs to one kind of object."""
        self._followers: tuple[Follower, ...] = (*self._controllers, self._messenger, self._services)
        self._commands = Commands(self.desk, self._supply, self._health)
        self._errands = Errands(self.desk)
        self._plans: list[tuple[float, events.Command]] = []
        self._orders: deque[events.Event] = deque()
        self._reported: deque[events.Event] = deque()
        """Commands and other events that the last turn had no time for."""
        self._handlers: dict[type[events.Event], Callable[[Any], None]] = {
            events.StatusUpdate: self._reports.status,
            events.TasksReported: self._reports.steady,
            events.HealthReported: self._health.probed,
            events.MessageAnswered: self._messenger.answered,
            events.OffersArrived: self._supply.arrived,
            events.OfferRescinded: self._supply.rescinded,
            events.InverseOffersArrived: self._supply.inverse,
            events.Subscribed: self._subscribed,
            events.Disconnected: self._disconnected,
            events.FrameworkRemoved: self._framework_removed,
            events.AcceptFailed: self._reports.accept_failed,
            events.ExecutorTerminated: self._reports.executor_terminated,
            events.AgentRemoved: self._reports.agent_removed,
            events.AgentsListed: self._agents_listed,
            events.Tick: lambda event: None,
        }
        self.desk.engine.recover(self.state)
        self._supply.recover()
        for follower in self._followers:
            follower.recover()

    # --- entry points -----------------------------------------------------------------------------------------

    def turn(self, batch: Iterable[events.Event], now: float, pace: Pace = UNHURRIED) -> list[Unit]:
        """Handles the commands in order, then the other events in order, and everything that follows from them and from
        the time, for as long as `pace` allows. What is left is done in the next turns (`busy`)."""
        for event in batch:
            (self._orders if isinstance(event, events.Command) else self._reported).append(event)
        self.desk.context.enough = lambda: pace.spent() >= STEPS
        for waiting, share in ((self._orders, COMMANDS), (self._reported, EVENTS)):
            while waiting:
                self._one(waiting.popleft(), now)
                if pace.spent() >= share:
                    break
            if waiting is self._orders:
                self._errands.go_on(now, pace)
        self.desk.start(now, "turn")
        self._rounds()
        self._advance(pace)
        units, self.desk.units = self.desk.units, []
        return units

    def _one(self, event: events.Event, now: float) -> None:
        self.desk.start(now, event.cause)
        failure = self.desk.attempt("event", event.cause, partial(self._handle, event))
        if failure and isinstance(event, events.Command):
            self.desk.emit(Reply(token=event.token, error=Reason.INTERNAL, message=failure, cause=event.cause))
        self.desk.cut()

    @property
    def unhandled(self) -> tuple[int, int]:
        """Commands and other events that the last turn had no time for."""
        return len(self._orders), len(self._reported)

    @property
    def busy(self) -> bool:
        """The last turn ended before everything was done."""
        return bool(any(self.unhandled) or self._errands or self.desk.engine.busy or self._supply.busy)

    def next_wakeup(self, now: float) -> float:
        """When the next turn is due at the latest, without any event (Unix seconds of the term's clock)."""
        if self.busy:
            return now
        timers = (self.desk.engine.next_timer(), *(follower.next_timer() for follower in self._followers))
        return min([now + TICK, *(timer for timer in timers if timer is not None)])

    def offers(self) -> list[Offer]:
        """Offers held now, emptiest agent first (any thread)."""
        return self.desk.pool.offers()

    @property
    def pending(self) -> int:
        """Taskgroups that wait for a place (any thread)."""
        return self.desk.engine.pending

    @property
    def open_questions(self) -> int:
        """Tasks whose state Mesos has been asked for and has not told yet (any thread)."""
        return self._checker.open_questions

    def diagnosis(self, transaction_id: str) -> Diagnosis | None:
        """Why taskgroups of an operation are not placed (any thread). If it waits for configmaps, secrets or keys that
        do not exist, they are the reasons, in words, and no agent has been asked."""
        missing = self.desk.engine.missing.get(transaction_id)
        if missing is None:
            return self.desk.engine.diagnoses.get(transaction_id)
        transaction = self.state.transactions.get(transaction_id)
        wanted = progress(self.state, transaction).remaining if transaction is not None else 0
        return Diagnosis(transaction_id, wanted, 0, 0, dict.fromkeys(missing, 0))

    def _bring_times_back(self) -> None:
        """Times far ahead would hold up what they decide for as long: restarts, time-outs, retention."""
        if not self.began.back:
            return
        desk = self.desk
        for record in self.state.records():
            moved = moved_back(record, self.began.now, self.began.back)
            if moved is not record:
                desk.uow.put(moved)
                desk.checkpoint()
        words = f"stored times were up to {self.began.back:.0f} s ahead and have been moved back by as much"
        desk.tell("framework", self.state.framework.id, "times-moved", words, "warning")
        desk.cut()

    def _mark(self) -> None:
        """Keeps in the records when a leader was last at work."""
        framework, now = self.state.framework, self.desk.now
        if framework.id and now >= framework.seen_at + MARK_EVERY:
            self.desk.uow.put(msgspec.structs.replace(framework, seen_at=now))
            self.desk.cut()

    # --- one event --------------------------------------------------------------------------------------------

    def _handle(self, event: events.Event) -> None:
        if isinstance(event, events.Command):
            self._command(event)
            return
        handler = self._handlers.get(type(event))
        if handler is None:
            raise TypeError(f"the core knows no event {type(event).__name__}")
        handler(event)

    def _command(self, command: events.Command) -> None:
        if command.dry_run and isinstance(command, PLACING) and self.desk.connected and not self.desk.pool:
            self._supply.revive()
            self._plans.append((self.desk.now + PLAN_PATIENCE, command))
            return
        self._answer(command)

    def _answer(self, command: events.Command) -> None:
        run = partial(plan, self.desk, self._commands) if command.dry_run else self._commands.run
        self._errands.carry_out(command, run)

    def _subscribed(self, event: events.Subscribed) -> None:
        desk = self.desk
        known = self.state.framework
        if known.id and known.id != event.framework_id:
            self._framework_removed(
                events.FrameworkRemoved(message=f"Mesos registered {event.framework_id}, the stored id is {known.id}")
            )
            return
        cluster = known.cluster if known.id and known.cluster != UNNAMED else safe_cluster(event.cluster)
        created = known.created_at or desk.now
        desk.uow.put(Framework(id=event.framework_id, cluster=cluster, created_at=created, seen_at=desk.now))
        desk.tell("framework", event.framework_id, "subscribed", f"with {event.master}")
        desk.connected = True
        self.fatal = ""
        self._supply.subscribed()
        self._checker.subscribed()
        self._killer.resend()
        self._remnants.resend()
        self._messenger.subscribed()

    def _disconnected(self, event: events.Disconnected) -> None:
        self.desk.connected = False
        self.desk.tell("framework", self.state.framework.id, "disconnected", event.reason)
        self._supply.disconnected()
        self._checker.disconnected()

    def _framework_removed(self, event: events.FrameworkRemoved) -> None:
        self.desk.connected = False
        self.fatal = event.message
        self.desk.tell("framework", self.state.framework.id, "removed", event.message)
        self._supply.disconnected()

    def _agents_listed(self, event: events.AgentsListed) -> None:
        self._tell_of_agents(event.agents)
        self.agents = list(event.agents)
        self.desk.agents.learn(event.agents)
        returned = self._checker.listed(event.agents, event.clock)
        self._killer.returned(returned)
        self._remnants.returned(returned)
        self._commands.agents.learn(event.agents)
        # The score of an agent is what it has free of all it has, which its offers alone do not tell.
        self.desk.pool.learn_totals(
            {agent["id"]: (agent["total"].get("cpus", 0), agent["total"].get("mem", 0)) for agent in event.agents}
        )

    def _tell_of_agents(self, listed: Sequence[dict[str, Any]]) -> None:
        """Which have come and gone; the first list after an election says neither."""
        known = {agent["id"] for agent in self.agents}
        present = {agent["id"] for agent in listed}
        for agent in listed:
            if known and agent["id"] not in known:
                self.desk.tell("agent", agent["ip"], "joined", f"{agent['hostname']}, id {agent['id']}")
                self.desk.checkpoint()
        for agent in self.agents:
            if agent["id"] not in present:
                self.desk.tell("agent", agent["ip"], "left", f"{agent['hostname']}, id {agent['id']}", "warning")
                self.desk.checkpoint()

    # --- what follows -----------------------------------------------------------------------------------------

    def _rounds(self) -> None:
        self._mark()
        for group in self._checker.take_silent():
            self._reports.lose(group, "long time not report status, and Mesos does not answer for it", ended=False)
            self.desk.checkpoint()
        for controller in self._controllers:
            self.desk.attempt("core", type(controller).__name__.lower(), controller.tick)
        self.desk.attempt("core", "janitor", self._janitor.tick)
        self.desk.cut()

    def _advance(self, pace: Pace) -> None:
        """Transactions step, demands are placed, and what was placed lets transactions step again."""
        desk = self.desk
        self._settle(pace)
        for _ in range(ROUNDS):
            if not self._supply.place(pace):
                break
            self._settle(pace)
            if pace.spent() >= LAUNCHES or pace.pressed():
                break
        self._plan_waiting()
        self._notice()
        self._supply.tick()
        self._messenger.tick()
        self._services.flush()
        desk.cut()

    def _settle(self, pace: Pace) -> None:
        """Transactions step and controllers react until nothing changes any more, or the time for steps is used up. The
        controllers, whose reactions cost little, have seen every change at the end."""
        desk = self.desk
        for _ in range(ROUNDS):
            self._notice()
            if not desk.engine.busy:
                break
            desk.engine.settle(desk.context)
            if pace.spent() >= STEPS:
                break
        self._notice()

    def _notice(self) -> None:
        desk = self.desk
        for _ in range(ROUNDS):
            changed = desk.take_changed()
            desk.engine.notice(desk.context, changed)
            for follower in self._followers:
                follower.notice(changed)
            if not (desk.uow.changed() or desk.changed):
                break

    def _plan_waiting(self) -> None:
        waiting, self._plans = self._plans, []
        for until, command in waiting:
            if self.desk.now < until and self.desk.connected and not self.desk.pool:
                self._plans.append((until, command))
            else:
                self.desk.start(self.desk.now, command.cause)
                self._answer(command)
                self.desk.cut()
