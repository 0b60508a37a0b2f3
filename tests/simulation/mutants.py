"""Faults put into the scheduler on purpose: the simulation must catch each of them, or it proves nothing.

A mutant is a function that breaks one thing with a pytest MonkeyPatch, and the invariants that may notice it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest

from bcs_scheduler.core import scheduler
from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.cluster import loss_guard, message_sender, task_killer
from bcs_scheduler.core.controllers.cluster.loss_guard import LossGuard
from bcs_scheduler.core.controllers.cluster.message_sender import MessageSender
from bcs_scheduler.core.controllers.cluster.orphaned_tasks import OrphanedTasks
from bcs_scheduler.core.controllers.cluster.reconciler import Reconciler
from bcs_scheduler.core.controllers.cluster.status_updates import StatusUpdates
from bcs_scheduler.core.controllers.cluster.task_killer import TaskKiller
from bcs_scheduler.core.controllers.ended_transactions import EndedTransactions
from bcs_scheduler.core.interface import cluster_manager, effects
from bcs_scheduler.core.placement import records
from bcs_scheduler.core.requests.kinds import commands
from bcs_scheduler.core.scheduler import Core
from offers.model import Allocation
from offers.rules.constraints import EMPTY_RULES, Rule
from store.base import Change
from store.state import Census
from store.state.unit_of_work import Unit
from tests.simulation import (
    driver,
    mutantclocks,
    mutantgroupreservations,
    mutantgroups,
    mutantkeeping,
    mutantmoves,
    mutantowners,
    mutantpartitions,
    mutantreservations,
    mutantsessions,
    mutantstandbys,
    mutanttrees,
    store,
)
from tests.simulation.agents import SILENCE, SILENT
from transactions import groups, injection, resource_request
from transactions.engine import engine, self_healing
from transactions.kinds import fill, update
from transactions.rules import lifecycle, relaunch
from transactions.rules.task_states import TaskState


class Mutant(NamedTuple):
    name: str
    breaks: Callable[[pytest.MonkeyPatch], None]
    caught_by: tuple[str, ...]
    seeds: range = range(1, 41)
    """Tried one after the other until one catches the mutant. They begin where one is near, because each seed that does
    not catch the mutant costs more than a second."""


OUTPUTS = range(61, 142, 8)
"""Seeds in which executors send the last output of failed tasks (tests.simulation.executors.sends_output)."""
AT_REST = range(SILENT, 42, SILENCE)
"""Seeds in which taskgroups are also lost at rest, without a word."""


def _acknowledge_early(patch: pytest.MonkeyPatch) -> None:
    """The acknowledgement is a unit of its own, in front of what it acknowledges."""
    honest = StatusUpdates._acknowledge

    def hasty(self: StatusUpdates, event: Any) -> None:
        honest(self, event)
        self._turn.cut()

    patch.setattr(StatusUpdates, "_acknowledge", hasty)


def _launch_before_durable(patch: pytest.MonkeyPatch) -> None:
    """Launches do not wait for the store."""
    honest = driver.Node._merge

    def hasty(self: driver.Node, units: Sequence[Unit]) -> list[tuple[list[Change], list[effects.Effect]]]:
        batches = honest(self, units)
        for _, out in batches:
            for accept in [e for e in out if isinstance(e, cluster_manager.LaunchOnAgent)]:
                out.remove(accept)
                assert self.term is not None
                self._leave(self.term, accept)
        return batches

    patch.setattr(driver.Node, "_merge", hasty)


def _leave_unfenced(patch: pytest.MonkeyPatch) -> None:
    """Effects of units that change nothing but the event log and the framework leave, in their turn, without a look at
    the epoch."""
    honest = store.Store.apply

    def careless(self: store.Store, commit: store.Commit) -> bool:
        return honest(self, commit) or all(change.kind in ("journal", "framework") for change in commit.changes)

    patch.setattr(store.Store, "apply", careless)


def _place_twice(patch: pytest.MonkeyPatch) -> None:
    """Demands outlive what filled them, and nobody looks whether a slot has been filled since it was demanded."""
    patch.setattr(groups, "still_open", lambda ctx, application, slot: True)
    patch.setattr(engine.Engine, "_drop_demand", lambda self, identity: None)


def _forget_ports(patch: pytest.MonkeyPatch) -> None:
    """Ports are drawn but not claimed from the offer."""

    def careless(*, allocation: Allocation, **fields: Any) -> cluster_manager.Launch:
        return cluster_manager.Launch(allocation=Allocation(allocation.scalars), **fields)

    patch.setattr(records, "Launch", careless)


def _take_unreachable_for_ended(patch: pytest.MonkeyPatch) -> None:
    """A task on an unreachable agent is believed dead."""
    states = {**lifecycle.STATES, TaskState.UNREACHABLE: lifecycle.Mapped("Lost", True)}
    patch.setattr(lifecycle, "STATES", states)


def _take_a_lost_launch_for_a_failure(patch: pytest.MonkeyPatch) -> None:
    """What never reached its agent is judged like what ran and failed."""
    patch.setattr(relaunch, "did_not_happen", lambda report, group: False)


def _count_dying_as_ready(patch: pytest.MonkeyPatch) -> None:
    """An update counts what it is ending as available until it has ended."""
    patch.setattr(update, "is_ready_or_finished", lambda group: group.status in lifecycle.READY)


def _kill_once(patch: pytest.MonkeyPatch) -> None:
    """A lost KILL is not repeated."""
    patch.setattr(TaskKiller, "tick", lambda self: None)


def _ignore_deadlines(patch: pytest.MonkeyPatch) -> None:
    """Nothing wakes the engine when time runs out."""
    patch.setattr(engine.Engine, "_wake", lambda self, at, identity: None)


def _plan_for_real(patch: pytest.MonkeyPatch) -> None:
    """Plans are carried out."""
    patch.setattr(scheduler, "plan", lambda turn, commands, command: commands.run(command))


def _ignore_constraints(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(resource_request, "rules_of", lambda version, index=None: EMPTY_RULES)


def _crowd(patch: pytest.MonkeyPatch) -> None:
    """GROUPBY only looks whether a value is one of its own."""
    honest = Rule.quota
    patch.setattr(Rule, "quota", lambda self, total: honest(self, total) if self.operator != "GROUPBY" else 1000)


def _revive_the_dead(patch: pytest.MonkeyPatch) -> None:
    """A late report overwrites the end of a task."""
    honest = lifecycle.reduce_task

    def gullible(task: Any, report: lifecycle.Report, now: float) -> Any:
        return honest(msgspec.structs.replace(task, ended=False), report, now)

    patch.setattr(lifecycle, "reduce_task", gullible)


def _judge_what_rolls(patch: pytest.MonkeyPatch) -> None:
    """The sides of a rolling update get the status that follows from their taskgroups, like any application."""
    honest = engine.Engine._refresh

    def eager(self: engine.Engine, ctx: Any, key: str) -> None:
        application = ctx.state.applications.get(key)
        if application is not None and application.status == "RollingUpdate":
            status, _ = self_healing.computed_status(ctx, application)
            ctx.uow.put(msgspec.structs.replace(application, status=status))
        honest(self, ctx, key)

    patch.setattr(engine.Engine, "_refresh", eager)


def _answer_twice(patch: pytest.MonkeyPatch) -> None:
    honest = Core._answer

    def eager(self: Core, command: Any) -> None:
        honest(self, command)
        self.turn_context.emit(effects.Reply(token=command.token))

    patch.setattr(Core, "_answer", eager)


def _forget_operations(patch: pytest.MonkeyPatch) -> None:
    """Transactions are removed although their users may still ask for them."""

    def superfluous(self: EndedTransactions) -> Iterator[str]:
        while (oldest := self._ended.oldest()) is not None:
            self._forget(oldest)
            yield oldest

    patch.setattr(EndedTransactions, "_superfluous", superfluous)


def _miscount(patch: pytest.MonkeyPatch) -> None:
    """The census does not notice that taskgroups are removed."""
    honest = Census.taskgroup_changed
    patch.setattr(Census, "taskgroup_changed", lambda self, before, after: after is None or honest(self, before, after))


def _launch_without_secret(patch: pytest.MonkeyPatch) -> None:
    """What does not exist is left out."""
    patch.setattr(injection, "missing", lambda state, version: ())
    examine = injection.examine
    patch.setattr(injection, "examine", lambda state, version: ((), examine(state, version)[1]))
    honest = injection.Injections.of
    patch.setattr(injection.Injections, "of", lambda self, version: honest(self, version) or ())


def _remember_content(patch: pytest.MonkeyPatch) -> None:
    """What has been looked up once is launched for ever."""
    known: dict[str, Any] = {}
    honest = injection.Injections.of
    patch.setattr(
        injection.Injections, "of", lambda self, version: known.setdefault(version.key, honest(self, version))
    )


def _count_unhealthy_as_ready(patch: pytest.MonkeyPatch) -> None:
    """Whatever runs is ready."""
    patch.setattr(
        update, "is_ready_or_finished", lambda group: group.status in lifecycle.READY and not group.killing_since
    )


def _forget_messages(patch: pytest.MonkeyPatch) -> None:
    """A new leader does not know that there are open messages."""
    patch.setattr(MessageSender, "recover", lambda self: None)


def _believe_at_once(patch: pytest.MonkeyPatch) -> None:
    """Whoever takes a message in hand will succeed."""
    honest = MessageSender.answered
    patch.setattr(
        MessageSender, "answered", lambda self, event: honest(self, msgspec.structs.replace(event, status="success"))
    )


def _send_older_limits(patch: pytest.MonkeyPatch) -> None:
    """Limits that were changed again are sent until somebody answers."""
    patch.setattr(commands, "_supersede", lambda turn, group: None)


def _send_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Every repetition of a message has an id of its own."""
    sent: Counter[str] = Counter()

    def generous(**fields: Any) -> cluster_manager.SendMessage:
        identity = fields["message_id"]
        sent[identity] += 1
        return cluster_manager.SendMessage(**{**fields, "message_id": identity + "0" * (sent[identity] - 1)})

    patch.setattr(message_sender, "SendMessage", generous)


def _drop_health(patch: pytest.MonkeyPatch) -> None:
    """Status updates are believed, steady reports are not read, and what an executor said last is lost on the way."""
    patch.setattr(StatusUpdates, "steady", lambda self, report: None)
    patch.setattr(lifecycle, "apply_detail", lambda task, detail, now: task)


def _store_what_is_too_large(patch: pytest.MonkeyPatch) -> None:
    """The core hands over what no store can take."""
    patch.setattr(TurnContext, "fits", lambda self: None)


def _forget_remnants(patch: pytest.MonkeyPatch) -> None:
    """What is removed before it has ended is killed once, and then not remembered."""
    honest = OrphanedTasks.notice

    def forgetful(self: OrphanedTasks, changed: Sequence[tuple[str, str]]) -> None:
        honest(self, changed)
        for key in list(self._open):
            self._due.drop(key)

    patch.setattr(OrphanedTasks, "notice", forgetful)
    patch.setattr(OrphanedTasks, "recover", lambda self: None)
    patch.setattr(OrphanedTasks, "returned", lambda self, agent_ids: None)
    patch.setattr(OrphanedTasks, "resend", lambda self: None)


def _ask_for_nothing(patch: pytest.MonkeyPatch) -> None:
    """A round asks for nothing that the master has not answered for."""
    patch.setattr(Reconciler, "_go_on", lambda self: None)
    patch.setattr(Reconciler, "_ask_young", lambda self: None)


def _trust_agents_that_return(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks for the tasks recorded on agents that have registered again."""
    patch.setattr(Reconciler, "_returned", lambda self, agent_ids: None)


def _wait_for_the_young(patch: pytest.MonkeyPatch) -> None:
    """Taskgroups that stay Staging or Starting are left to the next round."""
    patch.setattr(Reconciler, "_ask_young", lambda self: None)


def _forget_what_is_missing(patch: pytest.MonkeyPatch) -> None:
    """What a launch could not place in its time is nobody's business any more."""
    patch.setattr(fill, "begin_if_missing", lambda ctx, application: None)


def _replace_all_that_is_lost(patch: pytest.MonkeyPatch) -> None:
    """Lost taskgroups are replaced also after a large loss. Losses of two agents count."""
    patch.setattr(loss_guard, "LEAST_AGENTS", 2)
    patch.setattr(LossGuard, "admitted", lambda self, transaction, step: step)


def _kill_without_delay(patch: pytest.MonkeyPatch) -> None:
    """Taskgroups are killed when their end is decided."""
    patch.setattr(task_killer, "shutdown_delay", lambda group, version: 0.0)


MUTANTS = (
    Mutant("kill without delay", _kill_without_delay, ("I78",), range(5, 47, 7)),
    Mutant("replace all that is lost", _replace_all_that_is_lost, ("I58",), range(3, 23)),
    Mutant("forget remnants", _forget_remnants, ("I31", "C3"), AT_REST),
    Mutant("trust agents that return", _trust_agents_that_return, ("I31",), AT_REST),
    Mutant("forget what is missing", _forget_what_is_missing, ("C2",), range(4, 44)),
    Mutant("wait for the young", _wait_for_the_young, ("I31",), AT_REST),
    Mutant("ask for nothing", _ask_for_nothing, ("I31", "C2", "C4"), AT_REST),
    Mutant("store what is too large", _store_what_is_too_large, ("I26",), range(16, 56)),
    Mutant("launch without secret", _launch_without_secret, ("I16",), range(22, 62)),
    Mutant("remember content", _remember_content, ("I16",), range(36, 76)),
    Mutant("count unhealthy as ready", _count_unhealthy_as_ready, ("I5",), range(19, 59)),
    Mutant("forget messages", _forget_messages, ("I17", "C7")),
    Mutant("believe at once", _believe_at_once, ("I18",)),
    Mutant("send older limits", _send_older_limits, ("I19",), range(105, 145)),
    Mutant("send everywhere", _send_everywhere, ("I6", "I18")),
    Mutant("drop health", _drop_health, ("C6",), range(45, 85)),
    Mutant("answer twice", _answer_twice, ("I8",)),
    Mutant("forget operations", _forget_operations, ("I11",)),
    Mutant("miscount", _miscount, ("I9", "I29")),
    Mutant("acknowledge early", _acknowledge_early, ("I2",)),
    Mutant("launch before durable", _launch_before_durable, ("I6",)),
    Mutant("leave unfenced", _leave_unfenced, ("I2", "I1", "C2", "C3", "C4"), range(6, 46)),
    Mutant("place twice", _place_twice, ("C1", "I1", "I7", "C2", "C4", "C9"), range(5, 45)),
    Mutant("forget ports", _forget_ports, ("I3",)),
    Mutant("take unreachable for ended", _take_unreachable_for_ended, ("I13",)),
    Mutant("take a lost launch for a failure", _take_a_lost_launch_for_a_failure, ("C2",), range(71, 123)),
    Mutant("count dying as ready", _count_dying_as_ready, ("I5",)),
    Mutant("kill once", _kill_once, ("C2", "C3", "C4", "C9"), range(2, 42)),
    Mutant("ignore deadlines", _ignore_deadlines, ("I4",)),
    Mutant("plan for real", _plan_for_real, ("I12", "C5")),
    Mutant("ignore constraints", _ignore_constraints, ("I7",)),
    Mutant("crowd", _crowd, ("I7",), range(5, 45)),
    Mutant("revive the dead", _revive_the_dead, ("I13", "I14", "I33"), range(8, 48)),
    Mutant("judge what rolls", _judge_what_rolls, ("I33",)),
    Mutant("ignore floor", mutantowners.ignore_floor, ("I20",), range(2, 42)),
    Mutant("ignore ceiling", mutantowners.ignore_ceiling, ("I20",)),
    Mutant("count the finished", mutantowners.count_the_finished, ("I20",), range(86, 122)),
    Mutant("forget restarting", mutantowners.forget_restarting, ("I20",), range(208, 248)),
    Mutant("choose again", mutantowners.choose_again, ("I20",), range(2, 42)),
    Mutant("crowd agents", mutantowners.crowd_agents, ("I21", "C9")),
    Mutant("lack nothing", mutantowners.lack_nothing, ("C9",)),
    Mutant("overlook taskgroups", mutantowners.overlook_taskgroups, ("I22",), range(8, 48)),
    Mutant("drain at any price", mutantowners.drain_at_any_price, ("I23",), range(5, 45)),
    Mutant("move without stand-ins", mutantowners.move_without_stand_ins, ("I23", "C10"), range(23, 87, 4)),
    Mutant("start too many stand-ins", mutantowners.start_too_many_stand_ins, ("I23",), range(3, 83, 4)),
    Mutant("keep stand-ins", mutantowners.keep_stand_ins, ("C8",), range(3, 83, 4)),
    Mutant("look again for ever", mutantowners.look_again_for_ever, ("I87",), range(3, 83, 4)),
    Mutant("count anew", mutantowners.count_anew, ("I24",)),
    Mutant("forget updates", mutantowners.forget_updates, ("C8", "C4", "I9"), range(4, 44)),
    Mutant("forget the queue", mutantowners.forget_the_queue, ("C12",), range(86, 126)),
    Mutant("keep the old", mutantowners.keep_the_old, ("C8",), range(4, 44)),
    Mutant("forget amendments", mutantowners.forget_amendments, ("C5",), range(97, 137)),
    Mutant("overlook the superseded", mutantowners.overlook_the_superseded, ("I20", "C8"), range(5, 41)),
    Mutant("follow the host", mutantclocks.follow_the_host, ("I26", "I28", "I11"), range(3, 43)),
    Mutant("begin with the host", mutantclocks.begin_with_the_host, ("I26", "I28", "I11"), range(2, 42)),
    Mutant("keep the removed", mutantstandbys.keep_the_removed, ("I29", "I30")),
    Mutant("keep the first", mutantstandbys.keep_the_first, ("I29", "I30")),
    Mutant("keep everything", mutantkeeping.keep_everything, ("C11",), range(48, 88)),
    Mutant("push out the newest", mutantkeeping.push_out_the_newest, ("I11", "I32"), range(3, 43)),
    Mutant("keep outputs of the deleted", mutantkeeping.keep_outputs_of_the_deleted, ("I35",), range(253, 390, 8)),
    Mutant("leave outputs behind", mutantkeeping.leave_outputs_behind, ("I35",), OUTPUTS),
    Mutant("keep every output", mutantkeeping.keep_every_output, ("C11",), OUTPUTS),
    Mutant("drop outputs early", mutantkeeping.drop_outputs_early, ("I35",), OUTPUTS),
    Mutant("end at the first answer", mutantkeeping.end_at_the_first_answer, ("I32", "I17", "C11"), range(10, 50)),
    Mutant("count the gap", mutantclocks.count_the_gap, ("I28", "I11"), range(6, 46)),
)

OF_SESSIONS = (
    Mutant("start gangs in parts", mutantsessions.start_gangs_in_parts, ("I40",), range(9, 49)),
    Mutant("ignore the budget", mutantsessions.ignore_the_budget, ("I41",), range(28, 68)),
    Mutant("evict for good", mutantsessions.evict_for_good, ("I42", "C2"), range(14, 54)),
    Mutant("evict anybody", mutantsessions.evict_anybody, ("I42",), range(2, 42)),
    Mutant("overlook taskgroups", mutantsessions.overlook_taskgroups, ("I43",)),
    Mutant("overlook agents", mutantsessions.overlook_agents, ("I43",)),
    Mutant(
        "keep silent about the beneficiary", mutantsessions.keep_silent_about_the_beneficiary, ("I45",), range(4, 44)
    ),
    Mutant("keep silent about the victim", mutantsessions.keep_silent_about_the_victim, ("I45",), range(4, 44)),
    Mutant("count the unready", mutantsessions.count_the_unready, ("I41", "I23"), range(79, 119)),
)
"""Mutants that are looked for in worlds with the policy `session`."""

OF_GROUPS = (
    Mutant("start groups in parts", mutantgroups.start_groups_in_parts, ("I47",)),
    Mutant("forget minimums of members", mutantgroups.forget_minimums_of_members, ("I47",)),
    Mutant("match members alone", mutantgroups.match_members_alone, ("I47",), range(2, 60, 2)),
)
"""Mutants that are looked for in worlds with groups."""

OF_TREES = tuple(Mutant(name, breaks, caught_by, seeds) for name, breaks, caught_by, seeds in mutanttrees.PLANTED)
"""Mutants that are looked for in worlds with the policy `hierarchical`."""

OF_RESERVATIONS = (
    Mutant("leave placeholders", mutantreservations.leave_placeholders, ("I49",), range(3, 43)),
    Mutant("open the gate", mutantreservations.open_the_gate, ("I51", "I40")),
    Mutant("give up without counting", mutantreservations.give_up_without_counting, ("I48",)),
    Mutant("link twice", mutantreservations.link_twice, ("I50", "I48", "I51")),
    Mutant("keep the records", mutantreservations.keep_records, ("I49", "I48"), range(3, 43)),
    Mutant("save placeholders only", mutantreservations.save_placeholders_only, ("I48",)),
)
"""Mutants that are looked for in worlds with reservations."""

OF_GROUP_RESERVATIONS = (
    Mutant("start alone", mutantgroupreservations.start_alone, ("I69",), range(17, 57)),
    Mutant("start too early", mutantgroupreservations.start_too_early, ("I70",)),
)
"""Mutants that are looked for in worlds whose groups ask for reservations."""

OF_MOVES = (
    Mutant("move anybody", mutantmoves.move_anybody, ("I59",), range(5, 45)),
    Mutant("ignore the budget", mutantmoves.ignore_the_budget, ("I60", "I41"), range(45, 85)),
    Mutant("move to full agents", mutantmoves.move_to_full_agents, ("I61",), range(6, 46)),
    Mutant("ignore the bound", mutantmoves.ignore_the_bound, ("I62", "I63"), range(4, 44)),
    Mutant("overlook moves in progress", mutantmoves.overlook_moves_in_progress, ("I62", "I61"), range(57, 97)),
)
"""Mutants that are looked for in worlds with moves."""

OF_GUARANTEES = tuple(
    Mutant(name, breaks, caught_by, seeds) for name, breaks, caught_by, seeds in mutanttrees.OF_GUARANTEES
)
"""Mutants that are looked for in worlds with guarantees."""

OF_PARTITIONS = tuple(
    Mutant(name, breaks, caught_by, seeds) for name, breaks, caught_by, seeds in mutantpartitions.PLANTED
)
"""Mutants that are looked for in worlds in which each role has a policy of its own."""

OF_ROOMS = (
    Mutant("use every room", mutantreservations.use_every_room, ("I64",)),
    Mutant("open what runs", mutantreservations.open_what_runs, ("I64",)),
    Mutant("leave rooms", mutantreservations.leave_rooms, ("C13", "C4"), range(4, 44)),
    Mutant("ask for placeholders", mutantreservations.ask_for_placeholders, ("I65",), range(2, 42)),
)
"""Mutants that are looked for in worlds with reservations whose rooms the cluster manager keeps."""

OF_HOLDS = (
    Mutant("use held room", mutantreservations.use_held_room, ("I66",), range(30, 70)),
    Mutant("hold for the ended", mutantreservations.hold_for_the_ended, ("I67",)),
    Mutant("keep held offers", mutantreservations.keep_held_offers, ("I68",)),
    Mutant("launch held placeholders", mutantreservations.launch_held_placeholders, ("I65",)),
)
"""Mutants that are looked for in worlds with reservations whose room the scheduler holds."""
