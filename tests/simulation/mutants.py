"""Faults put into the scheduler on purpose: the simulation must catch each of them, or it proves nothing.

A mutant is a function that breaks one thing with a pytest MonkeyPatch, and the invariants that may notice it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest

from bcs_scheduler.core import effects, instructions, placement, scheduler
from bcs_scheduler.core.controllers import messenger
from bcs_scheduler.core.controllers.checker import Checker
from bcs_scheduler.core.controllers.history import History
from bcs_scheduler.core.controllers.killer import Killer
from bcs_scheduler.core.controllers.messenger import Messenger
from bcs_scheduler.core.controllers.remnants import Remnants
from bcs_scheduler.core.controllers.reports import Reports
from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.scheduler import Core
from offers.constraints import EMPTY_RULES, Rule
from offers.model import Claim
from store.base import Change
from store.state import Census
from store.unit_of_work import Unit
from tests.simulation import driver, mutantclocks, mutantkeeping, mutantowners, mutantstandbys, store
from transactions import engine, groups, injection, lifecycle, needs, relaunch, update


class Mutant(NamedTuple):
    name: str
    breaks: Callable[[pytest.MonkeyPatch], None]
    caught_by: tuple[str, ...]
    seeds: range = range(1, 41)
    """Tried one after the other; for what takes a rare coincidence they begin where one is near."""


def _acknowledge_early(patch: pytest.MonkeyPatch) -> None:
    """The acknowledgement is a unit of its own, in front of what it acknowledges."""
    honest = Reports._acknowledge

    def hasty(self: Reports, event: Any) -> None:
        honest(self, event)
        self._desk.cut()

    patch.setattr(Reports, "_acknowledge", hasty)


def _launch_before_durable(patch: pytest.MonkeyPatch) -> None:
    """Launches do not wait for the store."""
    honest = driver.Node._merge

    def hasty(self: driver.Node, units: Sequence[Unit]) -> list[tuple[list[Change], list[effects.Effect]]]:
        batches = honest(self, units)
        for _, out in batches:
            for accept in [e for e in out if isinstance(e, effects.Accept)]:
                out.remove(accept)
                assert self.term is not None
                self._leave(self.term, accept)
        return batches

    patch.setattr(driver.Node, "_merge", hasty)


def _leave_unfenced(patch: pytest.MonkeyPatch) -> None:
    """Effects of units that change nothing but the journal and the framework leave, in their turn, without a look at
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

    def careless(*, claim: Claim, **fields: Any) -> effects.Launch:
        return effects.Launch(claim=Claim(claim.scalars), **fields)

    patch.setattr(placement, "Launch", careless)


def _take_unreachable_for_ended(patch: pytest.MonkeyPatch) -> None:
    """A task on an unreachable agent is believed dead."""
    states = {**lifecycle.STATES, "TASK_UNREACHABLE": lifecycle.Mapped("Lost", True)}
    patch.setattr(lifecycle, "STATES", states)


def _take_a_lost_launch_for_a_failure(patch: pytest.MonkeyPatch) -> None:
    """What never reached its agent is judged like what ran and failed."""
    patch.setattr(relaunch, "did_not_happen", lambda report, group: False)


def _count_dying_as_ready(patch: pytest.MonkeyPatch) -> None:
    """An update counts what it is ending as available until it has ended."""
    patch.setattr(update, "is_ready", lambda group: group.status in lifecycle.READY)


def _kill_once(patch: pytest.MonkeyPatch) -> None:
    """A lost KILL is not repeated."""
    patch.setattr(Killer, "tick", lambda self: None)


def _ignore_deadlines(patch: pytest.MonkeyPatch) -> None:
    """Nothing wakes the engine when time runs out."""
    patch.setattr(engine.Engine, "_wake", lambda self, at, identity: None)


def _plan_for_real(patch: pytest.MonkeyPatch) -> None:
    """Plans are carried out."""
    patch.setattr(scheduler, "plan", lambda desk, commands, command: commands.run(command))


def _ignore_constraints(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(needs, "rules_of", lambda version: EMPTY_RULES)


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


def _answer_twice(patch: pytest.MonkeyPatch) -> None:
    honest = Core._answer

    def eager(self: Core, command: Any) -> None:
        honest(self, command)
        self.desk.emit(effects.Reply(token=command.token))

    patch.setattr(Core, "_answer", eager)


def _forget_operations(patch: pytest.MonkeyPatch) -> None:
    """Transactions are removed although their users may still ask for them."""
    patch.setattr(History, "_expired", lambda self, transaction: True)


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
    patch.setattr(update, "is_ready", lambda group: group.status in lifecycle.READY and not group.killing_since)


def _forget_messages(patch: pytest.MonkeyPatch) -> None:
    """A new leader does not know that there are open messages."""
    patch.setattr(Messenger, "recover", lambda self: None)


def _believe_at_once(patch: pytest.MonkeyPatch) -> None:
    """Whoever takes a message in hand will succeed."""
    honest = Messenger.answered
    patch.setattr(
        Messenger, "answered", lambda self, event: honest(self, msgspec.structs.replace(event, status="success"))
    )


def _send_older_limits(patch: pytest.MonkeyPatch) -> None:
    """Limits that were changed again are sent until somebody answers."""
    patch.setattr(instructions, "_supersede", lambda desk, group: None)


def _send_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Every repetition of a message has an id of its own."""
    sent: Counter[str] = Counter()

    def generous(**fields: Any) -> effects.SendMessage:
        identity = fields["message_id"]
        sent[identity] += 1
        return effects.SendMessage(**{**fields, "message_id": identity + "0" * (sent[identity] - 1)})

    patch.setattr(messenger, "SendMessage", generous)


def _drop_health(patch: pytest.MonkeyPatch) -> None:
    """Status updates are believed, steady reports are not read, and what an executor said last is lost on the way."""
    patch.setattr(Reports, "steady", lambda self, report: None)
    patch.setattr(lifecycle, "apply_detail", lambda task, detail, now: task)


def _store_what_is_too_large(patch: pytest.MonkeyPatch) -> None:
    """The core hands over what no store can take."""
    patch.setattr(Desk, "fits", lambda self: None)


def _forget_remnants(patch: pytest.MonkeyPatch) -> None:
    """What is removed before it has ended is killed once, and then not remembered."""
    honest = Remnants.notice

    def forgetful(self: Remnants, changed: Sequence[tuple[str, str]]) -> None:
        honest(self, changed)
        for key in list(self._open):
            self._due.drop(key)

    patch.setattr(Remnants, "notice", forgetful)
    patch.setattr(Remnants, "recover", lambda self: None)
    patch.setattr(Remnants, "returned", lambda self, agent_ids: None)
    patch.setattr(Remnants, "resend", lambda self: None)


def _ask_for_nothing(patch: pytest.MonkeyPatch) -> None:
    """A round asks for nothing that the master has not answered for."""
    patch.setattr(Checker, "_go_on", lambda self: None)
    patch.setattr(Checker, "_ask_young", lambda self: None)


MUTANTS = (
    Mutant("forget remnants", _forget_remnants, ("I31", "C3")),
    Mutant("ask for nothing", _ask_for_nothing, ("I31", "C2", "C4"), range(41, 121)),
    Mutant("store what is too large", _store_what_is_too_large, ("I26",)),
    Mutant("launch without secret", _launch_without_secret, ("I16",)),
    Mutant("remember content", _remember_content, ("I16",)),
    Mutant("count unhealthy as ready", _count_unhealthy_as_ready, ("I5",)),
    Mutant("forget messages", _forget_messages, ("I17", "C7")),
    Mutant("believe at once", _believe_at_once, ("I18",)),
    Mutant("send older limits", _send_older_limits, ("I19",), range(91, 121)),
    Mutant("send everywhere", _send_everywhere, ("I6", "I18")),
    Mutant("drop health", _drop_health, ("C6",), range(41, 81)),
    Mutant("answer twice", _answer_twice, ("I8",)),
    Mutant("forget operations", _forget_operations, ("I11",)),
    Mutant("miscount", _miscount, ("I9", "I29")),
    Mutant("acknowledge early", _acknowledge_early, ("I2",)),
    Mutant("launch before durable", _launch_before_durable, ("I6",)),
    Mutant("leave unfenced", _leave_unfenced, ("I2", "I1", "C2", "C3", "C4")),
    Mutant("place twice", _place_twice, ("C1", "I1", "I7", "C2", "C4", "C9")),
    Mutant("forget ports", _forget_ports, ("I3",)),
    Mutant("take unreachable for ended", _take_unreachable_for_ended, ("I13",)),
    Mutant("take a lost launch for a failure", _take_a_lost_launch_for_a_failure, ("C2",), range(41, 121)),
    Mutant("count dying as ready", _count_dying_as_ready, ("I5",)),
    Mutant("kill once", _kill_once, ("C2", "C3", "C4")),
    Mutant("ignore deadlines", _ignore_deadlines, ("I4",)),
    Mutant("plan for real", _plan_for_real, ("I12", "C5")),
    Mutant("ignore constraints", _ignore_constraints, ("I7",)),
    Mutant("crowd", _crowd, ("I7",)),
    Mutant("revive the dead", _revive_the_dead, ("I13", "I14")),
    Mutant("ignore floor", mutantowners.ignore_floor, ("I20",)),
    Mutant("ignore ceiling", mutantowners.ignore_ceiling, ("I20",)),
    Mutant("count the finished", mutantowners.count_the_finished, ("I20",), range(61, 91)),
    Mutant("forget restarting", mutantowners.forget_restarting, ("I20",), range(41, 71)),
    Mutant("choose again", mutantowners.choose_again, ("I20",)),
    Mutant("crowd agents", mutantowners.crowd_agents, ("I21", "C9")),
    Mutant("lack nothing", mutantowners.lack_nothing, ("C9",)),
    Mutant("overlook taskgroups", mutantowners.overlook_taskgroups, ("I22",)),
    Mutant("drain at any price", mutantowners.drain_at_any_price, ("I23",)),
    Mutant("count anew", mutantowners.count_anew, ("I24",)),
    Mutant("forget updates", mutantowners.forget_updates, ("C8", "C4", "I9")),
    Mutant("keep the old", mutantowners.keep_the_old, ("C8",)),
    Mutant("follow the host", mutantclocks.follow_the_host, ("I26", "I28", "I11")),
    Mutant("begin with the host", mutantclocks.begin_with_the_host, ("I26", "I28", "I11")),
    Mutant("keep the removed", mutantstandbys.keep_the_removed, ("I29", "I30")),
    Mutant("keep the first", mutantstandbys.keep_the_first, ("I29", "I30")),
    Mutant("keep everything", mutantkeeping.keep_everything, ("C11",)),
    Mutant("push out the newest", mutantkeeping.push_out_the_newest, ("I11", "I32")),
    Mutant("end at the first answer", mutantkeeping.end_at_the_first_answer, ("I32", "I17", "C11")),
    Mutant("count the gap", mutantclocks.count_the_gap, ("I28", "I11")),
)
