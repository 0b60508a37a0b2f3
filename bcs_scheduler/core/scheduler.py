"""The one object that owns the state: inputs in, units of changes and effects out.

Pure: no I/O, no clock, no randomness; the time is an argument, ids are made from it. One thread calls the core. `turn`
handles a batch of inputs, lets timers and transactions take their steps, runs the placement pass, and returns the units
in the order in which they must become durable. The effects of a unit may leave only then, and only while the epoch
still holds, also if the unit changes nothing: a deposed leader that kills unknown tasks kills work of its successor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from bcs_scheduler.core.context import TurnContext, took_over
from bcs_scheduler.core.controllers.cluster.drains import Drains
from bcs_scheduler.core.controllers.cluster.loss_guard import LossGuard
from bcs_scheduler.core.controllers.cluster.message_sender import MessageSender
from bcs_scheduler.core.controllers.cluster.offer_manager import OfferManager
from bcs_scheduler.core.controllers.cluster.orphaned_tasks import OrphanedTasks
from bcs_scheduler.core.controllers.cluster.rebalancer import Rebalancer
from bcs_scheduler.core.controllers.cluster.reconciler import Reconciler
from bcs_scheduler.core.controllers.cluster.status_updates import StatusUpdates
from bcs_scheduler.core.controllers.cluster.task_killer import TaskKiller
from bcs_scheduler.core.controllers.cluster.unknown_tasks import UnknownTasks
from bcs_scheduler.core.controllers.daemonsets import Daemonsets
from bcs_scheduler.core.controllers.deployments import Deployments
from bcs_scheduler.core.controllers.ended_commands import EndedCommands
from bcs_scheduler.core.controllers.ended_transactions import EndedTransactions
from bcs_scheduler.core.controllers.garbage_collector import GarbageCollector
from bcs_scheduler.core.controllers.health import Health
from bcs_scheduler.core.controllers.holds.interrupted_launches import InterruptedLaunches
from bcs_scheduler.core.controllers.kept_outputs import KeptOutputs
from bcs_scheduler.core.controllers.managed.applications import ManagedApplications
from bcs_scheduler.core.controllers.services import Services
from bcs_scheduler.core.interface import cluster_manager, inputs, leased, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.parts import ControllerPart, GuardedGate, Part
from bcs_scheduler.core.requests.dry_run import plan, wait_for_offers, waits_for_offers
from bcs_scheduler.core.requests.handler import RequestHandler
from bcs_scheduler.core.requests.kinds.deployments import take_up
from bcs_scheduler.core.requests.queue import QueuedRequests
from bcs_scheduler.core.requests.sliced import SlicedRequests, failed
from bcs_scheduler.core.run_times import EndedRuns
from bcs_scheduler.core.term_start import MARK_EVERY, mark_of, start_of_term, with_gap
from bcs_scheduler.core.time_budget import COMMANDS, EVENTS, LAUNCHES, STEPS, UNLIMITED, TimeBudget
from offers.agents import ListedAgent
from offers.matching.explain import TO_SPREAD, UNTRIED
from offers.model import Diagnosis, Offer
from store.encoding.times import moved_back
from store.ids import UNNAMED, safe_cluster
from store.records import Record
from store.state import State
from store.state.unit_of_work import Unit
from store.state.validation import validate
from transactions.base import Failure
from transactions.text import duration

TICK = 1.0
"""Longest pause in seconds between two turns: timers of the controllers have this grain."""
ROUNDS = 8
"""Greatest number of placement passes per turn; each further pass places demands for which the one before made room."""


class Core:
    """The part of the scheduler that decides, without the cluster manager, the store and the API."""

    def __init__(
        self,
        records: State | Iterable[Record],
        options: CoreOptions,
        wall: float,
        unreadable: Mapping[tuple[str, str], str] | None = None,
        elapsed: float | None = None,
    ) -> None:
        """`records`: all that are stored, or a state made of them, which is the core's from now on. `wall`, `elapsed`:
        as in core.term_start; times of turns continue from `began.now`. `unreadable`: as in State; None = nothing."""
        self.options = options
        self.state = records if isinstance(records, State) else State(records)
        self.state.unreadable.update(unreadable or {})
        self.state.settle()
        self.began = start_of_term(self.state, wall, elapsed)
        self.turn_context = TurnContext(self.state, options)
        self.turn_context.start(self.began.now, "takeover")
        self._keep_gap()
        self._bring_times_back()
        self._mark()
        self.agents: list[ListedAgent] = []
        self.fatal = ""
        """Reason for which the cluster manager rejects this framework for good; empty = it does not. Nothing is
        launched until an operator acts (docs/original.md#framework-removed)."""
        self._reconciler, self._orphaned_tasks = Reconciler(self.turn_context), OrphanedTasks(self.turn_context)
        self._message_sender, self._health = MessageSender(self.turn_context), Health(self.turn_context)
        self.outputs = KeptOutputs(self.turn_context)
        interrupted = InterruptedLaunches(self.turn_context, self._reconciler)
        guard = LossGuard(self.turn_context)
        self.unknown_tasks = UnknownTasks(self.turn_context, self._orphaned_tasks, self._reconciler, lambda: guard.live)
        told = (self._reconciler, self._orphaned_tasks, self._message_sender, self._health, self.outputs, interrupted)
        self._status_updates = StatusUpdates(self.turn_context, *told, self.unknown_tasks)
        self._task_killer, self._offer_manager = TaskKiller(self.turn_context), OfferManager(self.turn_context)
        self._services, managed = Services(self.turn_context), ManagedApplications(self.turn_context)
        self._request_handler = RequestHandler(
            self.turn_context, self._offer_manager, self._health, guard.resume, self.unknown_tasks.decide
        )
        controllers = (
            guard,
            self.unknown_tasks,
            self._task_killer,
            self._orphaned_tasks,
            self._reconciler,
            self._status_updates,
            Daemonsets(self.turn_context),
            Deployments(self.turn_context, take_up),
            QueuedRequests(self.turn_context, self._request_handler.carry_out),
            Drains(self.turn_context, self._offer_manager),
            Rebalancer(self.turn_context, self._offer_manager),
            interrupted,
            managed,
            EndedTransactions(self.turn_context, self._orphaned_tasks),
            EndedCommands(self.turn_context),
            EndedRuns(self.turn_context),
            self.outputs,
            GarbageCollector(self.turn_context),
        )
        self._controllers = tuple(ControllerPart(self.turn_context, one) for one in controllers)
        """Controllers with a `tick` before transactions step, in the order in which they are called. Each works on one
        kind of object."""
        gates = ((guard, guard), (self.unknown_tasks,) * 2, (interrupted, interrupted), (managed, managed.gate))
        self.turn_context.context.gates = tuple(GuardedGate(self._part_of(owner), gate) for owner, gate in gates)
        self._engine, self._offers = self._placing_parts()
        self._sender = ControllerPart(self.turn_context, self._message_sender)
        self._endpoints = ControllerPart(self.turn_context, self._services, lambda: self._services.busy)
        self.parts: tuple[Part, ...] = (
            *self._bounds(), self._engine, self._offers, *self._controllers, self._sender, self._endpoints,
        )  # fmt: skip
        """Everything that derives data from the records, in the order in which the parts notice changes."""
        self._sliced_requests = SlicedRequests(self.turn_context)
        self._plans: list[tuple[float, requests.Request]] = []
        self._invalid: set[str] = set()
        """Faults of the state that have been logged."""
        self._requests: deque[inputs.Input] = deque()
        self._reported: deque[inputs.Input] = deque()
        """Requests and other inputs that the last turn had no time for."""
        self._handlers: dict[type[inputs.Input], Callable[[Any], None]] = {
            cluster_manager.StatusUpdate: self._status_updates.status,
            cluster_manager.TasksReported: self._status_updates.steady,
            inputs.HealthReported: self._health.probed,
            cluster_manager.MessageAnswered: self._message_sender.answered,
            cluster_manager.OutputReported: self.outputs.reported,
            leased.OffersArrived: self._offer_manager.arrived,
            leased.OfferRescinded: self._offer_manager.rescinded,
            leased.InverseOffersArrived: self._offer_manager.inverse,
            cluster_manager.Connected: self._subscribed,
            cluster_manager.Disconnected: self._disconnected,
            cluster_manager.RegistrationRevoked: self._registration_revoked,
            cluster_manager.LaunchFailed: self._status_updates.launch_failed,
            cluster_manager.ExecutorTerminated: self._status_updates.executor_terminated,
            cluster_manager.AgentRemoved: self._status_updates.agent_removed,
            cluster_manager.AgentsListed: self._agents_listed,
            inputs.TermBegan: partial(took_over, self.turn_context),
            inputs.Tick: lambda event: None,
        }
        for part in self.parts:
            if part is not self._offers:  # begins with the engine
                part.begin()
        self.turn_context.cut()

    def _placing_parts(self) -> tuple[Part, Part]:
        """The engine and the offers. Planned launches belong to both, so both are made anew together."""
        engine, offers, turn = self.turn_context.engine, self._offer_manager, self.turn_context

        def derive() -> None:
            offers.recover()
            engine.recover(turn.context)

        notice = partial(engine.notice, turn.context)
        return (
            Part(turn, "engine", derive, notice, engine.next_timer, lambda: engine.busy),
            Part(turn, "offers", derive, offers.notice, offers.next_timer, lambda: offers.busy),
        )

    def _bounds(self) -> Sequence[Part]:
        """Sums that bound requests."""
        turn = self.turn_context
        return (
            Part(turn, "quotas", turn.quotas.recover),
            Part(turn, "priorities", turn.priorities.recover),
            Part(turn, "opencommands", turn.open_commands.recover),
            Part(turn, "requestqueue", self._request_handler.queue.recover),
        )

    def _part_of(self, controller: object) -> Part:
        return next(one for one in self._controllers if one.controller is controller)

    # --- entry points -----------------------------------------------------------------------------------------

    def turn(self, batch: Iterable[inputs.Input], now: float, pace: TimeBudget = UNLIMITED) -> list[Unit]:
        """Handles the requests in order, then the other inputs in order, and everything that follows from them and from
        the time, as long as `pace` allows. The next turns do the rest (`busy`)."""
        self.state.moment.begin(now)
        for event in batch:
            (self._requests if isinstance(event, requests.Request) else self._reported).append(event)
        self.turn_context.context.time_is_up = lambda: pace.spent() >= STEPS
        self.turn_context.pool.hand.taken.clear()
        for waiting, share in ((self._requests, COMMANDS), (self._reported, EVENTS)):
            while waiting:
                self._one(waiting.popleft(), now)
                if pace.spent() >= share:
                    break
            if waiting is self._requests:
                self._sliced_requests.go_on(now, pace)
        self.turn_context.start(now, "turn")
        self._rounds()
        self._advance(pace)
        if self.turn_context.options.validate and any(unit.changes for unit in self.turn_context.units):
            self._validate()
        units, self.turn_context.units = self.turn_context.units, []
        self.state.moment.end(complete=not self.busy)
        return units

    def _validate(self) -> None:
        """Reports each fault of the state once as an event. Raises AssertionError instead with `strict`."""
        for words in validate(self.state):
            if self.turn_context.options.strict:
                raise AssertionError(words)
            if words not in self._invalid:
                self._invalid.add(words)
                self.turn_context.record_event("core", "state", "StateInvalid", words)
        self.turn_context.cut()

    def _one(self, event: inputs.Input, now: float) -> None:
        self.turn_context.start(now, event.cause)
        if self.turn_context.unsound:
            for part in self.parts:
                part.mend()
        if type(event) is cluster_manager.StatusUpdate:
            self.turn_context.share("event", event.cause, partial(self._handle, event))
        else:
            self._attempt(event, partial(self._handle, event))

    def _attempt(self, event: inputs.Input, work: Callable[[], None]) -> None:
        """Does work for an input. A request whose work fails unexpectedly is answered so."""
        failure = self.turn_context.attempt("event", event.cause, work)
        if failure is None:
            self.turn_context.close()
            return
        if isinstance(event, requests.Request):
            self.turn_context.emit(failed(event, failure))
        self.turn_context.cut()

    @property
    def unhandled(self) -> tuple[int, int]:
        """Requests and other inputs that the last turn had no time for."""
        return len(self._requests), len(self._reported)

    @property
    def busy(self) -> bool:
        """The last turn ended before everything was done."""
        unfinished = self._requests or self._reported or self._sliced_requests
        return bool(unfinished) or self._engine.busy or self._offers.busy or self._endpoints.busy

    def next_wakeup(self, now: float, tick: float = TICK) -> float:
        """Returns the Unix seconds (clock of the term) at which the next turn must begin at the latest if no input
        arrives. `now`: Unix seconds. `tick`: longest pause in seconds."""
        if self.busy:
            return now
        return min([now + tick, *(at for part in self.parts if (at := part.next_timer()) is not None)])

    def offers(self) -> list[Offer]:
        """Offers held now, emptiest agent first (any thread)."""
        return self.turn_context.pool.hand.all()

    @property
    def pending(self) -> int:
        """Taskgroups that wait for a place (any thread)."""
        return self.turn_context.engine.pending

    @property
    def open_questions(self) -> int:
        """Number of tasks whose state the cluster manager was asked for and has not reported yet (any thread)."""
        return self._reconciler.open_questions

    def diagnosis(self, transaction_id: str) -> Diagnosis | None:
        """Like `Placer.diagnosis`. Without any offer at hand, the only reason is UNTRIED while those may come that were
        requested for the operation. The only reason is TO_SPREAD while taskgroups that would share an agent wait for
        requested offers of others."""
        turn = self.turn_context
        demand = turn.engine.demands.get(transaction_id)
        if demand is not None and self._offer_manager.placing.waits_to_be_spread(transaction_id):
            return Diagnosis(transaction_id, len(demand.slots), 0, 0, {TO_SPREAD: 0})
        found = turn.placer.diagnosis(transaction_id)
        if found is None or found.agents or found.held_back is not None or transaction_id in turn.engine.missing:
            return found
        if turn.is_unshown(transaction_id):
            return Diagnosis(transaction_id, found.slots, found.placed, 0, {UNTRIED: 0})
        return found

    def _keep_gap(self) -> None:
        """Keeps in the records that no leader of this store has made ids since its newest record."""
        turn, framework = self.turn_context, self.state.framework
        gaps = with_gap(framework.gaps, mark_of(self.state), int(self.began.now * 1e9))
        if framework.id and gaps != framework.gaps:
            turn.uow.put(msgspec.structs.replace(framework, gaps=gaps))
            turn.cut()

    def _bring_times_back(self) -> None:
        """Moves stored times back that are far ahead; they would delay restarts, time-outs and retention."""
        if not self.began.ahead:
            return
        turn = self.turn_context
        records = {(record.kind, record.key): record for record in self.state.records()}

        def move(kind: str, key: str) -> None:
            moved = moved_back(records[kind, key], self.began.now, self.began.ahead)
            if moved is not records[kind, key]:
                turn.uow.put(moved)
                turn.checkpoint()

        turn.each_change(records, move)
        words = f"stored times were up to {duration(self.began.ahead)} ahead and have been moved back by as much"
        turn.record_event("framework", self.state.framework.id, "TimesMoved", words)
        turn.cut()

    def _mark(self) -> None:
        """Keeps in the records when a leader was last at work. Also an equal record is written: a store with a clock
        dates the write, and the next term counts the time since then (core.term_start)."""
        turn, framework = self.turn_context, self.state.framework
        if (framework.kind, framework.key) in self.state.unreadable:
            return
        marked = msgspec.structs.replace(framework, created_at=framework.created_at or turn.now, seen_at=turn.now)
        before = self.state.get(framework.kind, framework.key)
        turn.uow.overwrite(framework.kind, framework.key, before, marked)
        turn.cut()

    # --- one event --------------------------------------------------------------------------------------------

    def _handle(self, event: inputs.Input) -> None:
        if isinstance(event, requests.Request):
            self._command(event)
            return
        handler = self._handlers.get(type(event))
        if handler is None:
            raise TypeError(f"unknown input {type(event).__name__}")
        handler(event)

    def _command(self, command: requests.Request) -> None:
        until = wait_for_offers(self.turn_context, self._offer_manager, command)
        if until:
            self._plans.append((until, command))
        else:
            self._answer(command)

    def _answer(self, command: requests.Request) -> None:
        run = partial(plan, self.turn_context, self._request_handler) if command.dry_run else self._request_handler.run
        self._sliced_requests.carry_out(command, run)

    def _subscribed(self, event: cluster_manager.Connected) -> None:
        turn = self.turn_context
        known = self.state.framework
        if known.id and known.id != event.framework_id:
            self._registration_revoked(
                cluster_manager.RegistrationRevoked(
                    message=f"The cluster manager registered {event.framework_id}, the stored id is {known.id}"
                )
            )
            return
        cluster = known.cluster if known.id and known.cluster != UNNAMED else safe_cluster(event.cluster)
        known = msgspec.structs.replace(known, id=event.framework_id, cluster=cluster, forgotten=False)
        turn.uow.put(msgspec.structs.replace(known, seen_at=turn.now))
        turn.record_event("framework", event.framework_id, "FrameworkSubscribed", f"with {event.master}")
        turn.connected = True
        self.fatal = ""
        self._offers.call("subscribed", self._offer_manager.subscribed)
        self._part_of(self._reconciler).call("subscribed", self._reconciler.subscribed)
        self._part_of(self._task_killer).call("subscribed", self._task_killer.resend)
        self._part_of(self._orphaned_tasks).call("subscribed", self._orphaned_tasks.resend)
        self._sender.call("subscribed", self._message_sender.subscribed)

    def _disconnected(self, event: cluster_manager.Disconnected) -> None:
        self.turn_context.connected = False
        self.turn_context.record_event("framework", self.state.framework.id, "FrameworkDisconnected", event.reason)
        self._offers.call("disconnected", self._offer_manager.disconnected)
        self._part_of(self._reconciler).call("disconnected", self._reconciler.disconnected)

    def _registration_revoked(self, event: cluster_manager.RegistrationRevoked) -> None:
        self.turn_context.connected = False
        self.fatal = event.message
        self.turn_context.record_event("framework", self.state.framework.id, "FrameworkRemoved", event.message)
        self._offers.call("disconnected", self._offer_manager.disconnected)

    def _agents_listed(self, event: cluster_manager.AgentsListed) -> None:
        self._record_agent_changes(event.agents)
        self.agents = list(event.agents)
        self.turn_context.agents.learn(event.agents, event.awaited)
        listed = partial(self._reconciler.listed, event.agents, event.clock)
        returned = self._part_of(self._reconciler).call("listed", listed)
        if not isinstance(returned, Failure):
            self._part_of(self._task_killer).call("returned", partial(self._task_killer.returned, returned))
            self._part_of(self._orphaned_tasks).call("returned", partial(self._orphaned_tasks.returned, returned))
        self._request_handler.agents.learn(event.agents)
        # The score of an agent is its free share of its total, which its offers alone do not show.
        for agent_id in self.turn_context.pool.learn_totals({agent.id: agent.size for agent in event.agents}):
            self.turn_context.pool.hand.expect_nothing(agent_id)
        for agent in event.agents:
            if not agent.active:
                self.turn_context.pool.hand.expect_nothing(agent.id)

    def _record_agent_changes(self, listed: Sequence[ListedAgent]) -> None:
        """Records which agents have been added and removed; the first list after an election shows neither."""
        known = {agent.id for agent in self.agents}
        present = {agent.id for agent in listed}
        for agent in listed:
            if known and agent.id not in known:
                self.turn_context.record_event("agent", agent.ip, "AgentJoined", agent.hostname)
                self.turn_context.checkpoint()
        for agent in self.agents:
            if agent.id not in present:
                self.turn_context.record_event("agent", agent.ip, "AgentLeft", agent.hostname)
                self.turn_context.checkpoint()

    # --- work of a turn ---------------------------------------------------------------------------------------

    def _rounds(self) -> None:
        if self.turn_context.now >= self.state.framework.seen_at + MARK_EVERY:
            self._mark()
        self._part_of(self._reconciler).call("silent", self._lose_silent)
        for controller in self._controllers:
            controller.tick()
        self.turn_context.cut()

    def _lose_silent(self) -> None:
        words = "long time not report status, and the cluster manager does not answer for it"
        for group in self._reconciler.take_silent():
            lose = partial(self._status_updates.lose, group, words, ended=False)
            if self.turn_context.attempt("taskgroup", group.id, lose) is not None:
                self._reconciler.ask([task.id for task in group.tasks if not task.ended])
            self.turn_context.checkpoint()

    def _advance(self, pace: TimeBudget) -> None:
        """Lets transactions step and places demands; then the transactions of placed demands step again."""
        turn = self.turn_context
        self._settle(pace)
        for _ in range(ROUNDS):
            launched = self._offers.call("place", partial(self._offer_manager.place, pace))
            if isinstance(launched, Failure) or not launched:
                break
            self._settle(pace)
            if pace.spent() >= LAUNCHES or pace.is_congested():
                break
        self._plan_waiting()
        self._offers.call("tick", self._offer_manager.tick)
        self._sender.tick()
        if not turn.uow.empty or turn.changed:
            self._notice()  # no controller needs the records that the services write
        self._endpoints.call("flush", self._services.flush)
        turn.cut()

    def _settle(self, pace: TimeBudget) -> None:
        """Transactions step and controllers react until nothing changes any more, or the time for steps is used up. The
        controllers, whose reactions cost little, have seen every change at the end."""
        turn = self.turn_context
        for _ in range(ROUNDS):
            self._notice()
            if not (self._engine.busy or turn.uow.changed() or turn.changed):
                return
            self._engine.call("settle", partial(turn.engine.settle, turn.context))
            if pace.spent() >= STEPS:
                break
        self._notice()

    def _notice(self) -> None:
        for _ in range(ROUNDS):
            turn, changed = self.turn_context, self.turn_context.take_changed()
            for part in self.parts:
                part.notice(changed)
            if not (turn.uow.changed() or turn.changed):
                break

    def _plan_waiting(self) -> None:
        turn = self.turn_context
        waiting, self._plans = self._plans, []
        for until, command in waiting:
            if waits_for_offers(turn, command, until):
                self._plans.append((until, command))
            else:
                turn.start(turn.now, command.cause)
                self._attempt(command, partial(self._answer, command))
