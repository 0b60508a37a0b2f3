"""Worlds in which taskgroups move between agents: users ask for rebalancing, in odd seeds a controller rebalances, too.

I59  only taskgroups move that may: ready, not bound to an agent, restarted by their policy, of no gang, group or
     reservation; none while a large loss stops replacements, and at most as
     many as a request allows
I60  moves leave the taskgroups ready that the disruption budget asks for
I61  the new agent is listed, takes taskgroups, and has room by the records, beside the other moves toward it
I62  a move gains at least the bound
I63  moves end by themselves once nothing else changes

These worlds have seeds of their own (`simulate(..., moving=True)`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bcs_scheduler.core.interface import effects, requests
from bcs_scheduler.core.interface.requests import Rebalance
from bcs_scheduler.core.options import CoreOptions
from store.base import Change
from store.records import (
    ANNOTATION_OF_PLACEHOLDER,
    ANNOTATION_OF_TASK,
    GROUP_ANNOTATION,
    Application,
    Framework,
    Record,
    ReschedulePayload,
    TaskGroup,
    Transaction,
    Version,
)
from store.state.unit_of_work import Unit
from tests.simulation import podgroups, reservations
from tests.simulation import sessions as session_worlds
from tests.simulation.agents import Agent
from tests.simulation.budgets import budget
from tests.simulation.driver import Term
from tests.simulation.mesos import Master
from tests.simulation.oracle import Neighbours, Site, neighbours_in, objection
from tests.simulation.readiness import is_ready
from tests.simulation.users import setting_of
from tests.simulation.violation import Violation
from tests.simulation.world import World
from transactions.rules.gangs import PARAMETERS

GAIN = 0.001
"""Least gain of a move in these worlds, asked for by users and by the setting alike."""
PERIOD = 20.0
"""Seconds between two rounds of the controller."""
REST = 400.0
"""Seconds within which the moves end, once everything else is at rest."""
QUIET = 5 * PERIOD
"""Seconds without a move after which they have ended."""
OTHERS = (ANNOTATION_OF_PLACEHOLDER, ANNOTATION_OF_TASK, PARAMETERS, GROUP_ANNOTATION)
"""Annotations of work whose room is held or gathered by others."""
Records = dict[tuple[str, str], Record]
KINDS = ("plain", "sessions", "reservations", "groups")


def kind_of_world(seed: int) -> str:
    """The kind of a world beside its moves. Half of the seeds have the simple policy and plain applications."""
    return KINDS[(seed // 2) % 4] if seed % 3 else "plain"


def with_moves(options: CoreOptions, world: World) -> CoreOptions:
    """The options of such a world."""
    match kind_of_world(world.seed):
        case "sessions":
            options = session_worlds.with_sessions(options)
        case "reservations":
            options = reservations.with_reservations(options)
    return with_goal(options, world)


def with_goal(options: CoreOptions, world: World) -> CoreOptions:
    """The options with a controller that rebalances, in odd seeds."""
    goal: Any = ("off", ("pack", "spread")[world.seed // 2 % 2])[world.seed % 2]
    return replace(options, rebalance=goal, rebalance_period=PERIOD, rebalance_moves=3, rebalance_gain=GAIN)


def asked(world: World) -> dict[str, Any]:
    """The fields that users of such a world add to a definition. Most taskgroups may run on most agents."""
    fields = movable(world)
    match kind_of_world(world.seed):
        case "sessions":
            fields.update(session_worlds.asked(world))
        case "reservations":
            fields.update(reservations.asked(world))
        case "groups":
            fields.update(podgroups.asked(world))
    return fields


def asked_in_queues(world: World) -> dict[str, Any]:
    """The same, in worlds with a tree of queues."""
    return {**movable(world), **session_worlds.asked(world)}


def movable(world: World) -> dict[str, Any]:
    """Fields of applications whose taskgroups may move."""
    fields: dict[str, Any] = {"max_unavailable": world.pick((0, 1, 2, 3)), "instances": world.number(2, 6)}
    if world.chance(0.9):
        fields.update(constraints=(), role="")
    return fields


def change(world: World, token: int) -> requests.Request:
    """A request for a rebalancing."""
    return Rebalance(
        token=token,
        cause=f"user-{token}",
        goal="pack" if world.seed // 2 % 2 == 0 else "spread",
        moves=world.pick((1, 3, 10)),
        gain=GAIN,
        dry_run=world.chance(0.2),
    )


class Moves:
    """Looks at the units of worlds in which taskgroups move; other worlds have no such unit."""

    def __init__(self, world: World, master: Master, options: CoreOptions) -> None:
        self.world, self.master = world, master
        self._options = options
        self._by_cause: Counter[str] = Counter()
        """Number of moves by request."""
        self._allowed: dict[str, int] = {}
        self.latest = 0.0
        """Simulated time of the latest move."""

    def asked(self, command: requests.Request) -> None:
        """A user sends a request."""
        if isinstance(command, Rebalance):
            self._allowed[command.cause] = command.moves

    def decided(self, term: Term, unit: Unit) -> None:
        """Judges the moves that a unit begins, one after the other."""
        begun = [change for change in unit.changes if self._begins(term.mirror, change)]
        if not begun:
            return
        before: Records = dict(term.mirror)
        for change in begun:
            move = change.record
            assert isinstance(move, Transaction)
            self.world.count(f"moves to {ReschedulePayload.of(move).rebalanced}")
            self.latest = self.world.now
            group = before.get(("taskgroup", move.taskgroup))
            if not isinstance(group, TaskGroup):
                raise Violation("I59", f"{move.taskgroup} moves and does not exist", move.id)
            self._may_move(before, group, move)
            self._budget_holds(before, group, move)
            target = self._target(term, before, group, move)
            self._gains(before, group, target, move)
            before["transaction", move.id] = move
            after = next(c.record for c in unit.changes if (c.kind, c.key) == ("taskgroup", group.id))
            if after is not None:
                before["taskgroup", group.id] = after
        for effect in unit.effects:
            if isinstance(effect, effects.LogLine) and effect.reason == "TaskGroupRebalanced":
                self._by_cause[effect.cause] += 1
                if self._by_cause[effect.cause] > self._allowed.get(effect.cause, self._by_cause[effect.cause]):
                    raise Violation("I59", f"request {effect.cause} begins more moves than it allows", effect.key)

    @staticmethod
    def _begins(before: Records, change: Change) -> bool:
        move = change.record
        return (
            isinstance(move, Transaction)
            and isinstance(move.payload, ReschedulePayload)
            and bool(move.payload.rebalanced)
            and (change.kind, change.key) not in before
        )

    # --- I59, I60 ---------------------------------------------------------------------------------------------

    def _may_move(self, before: Records, group: TaskGroup, move: Transaction) -> None:
        application = before.get(("application", group.application_key))
        version = before.get(("version", f"{group.application_key}/{group.version}"))
        if not isinstance(application, Application) or not isinstance(version, Version):
            raise Violation("I59", f"{group.id} moves without its application or version", group.id)
        newest = before.get(("version", f"{application.key}/{application.version}"))
        annotations = {**version.annotations, **(newest.annotations if isinstance(newest, Version) else {})}
        framework = before.get(("framework", "framework"))
        others = [t for t in before.values() if isinstance(t, Transaction) and t.active and not t.waiting]
        mine = [t for t in others if t.application_key == application.key]
        reasons = {
            "it is not ready": not is_ready(group),
            "it belongs to a daemonset": application.type == "daemonset",
            "its policy does not restart it": version.restart_policy.policy == "Never",
            "others hold its room": any(name in annotations for name in OTHERS),
            "it belongs to a gang": any(isinstance(v, Version) and v.min_available > 1 for v in (version, newest)),
            "it is being replaced": any(t.taskgroup == group.id for t in mine),
            "a large loss stops replacements": isinstance(framework, Framework) and framework.halt is not None,
        }
        wrong = [words for words, holds in reasons.items() if holds]
        if wrong:
            raise Violation("I59", f"{group.id} moves although {', '.join(wrong)}", group.id, move.id)

    @staticmethod
    def _budget_holds(before: Records, group: TaskGroup, move: Transaction) -> None:
        application = before[("application", group.application_key)]
        assert isinstance(application, Application)
        found = budget(before, application, move.created_at)
        if found.ready - 1 < found.least:
            words = f"a move leaves {found.ready - 1} of {found.places} of {application.key} ready, {found.least} must"
            raise Violation("I60", f"{words} stay", group.id)

    # --- I61, I62 ---------------------------------------------------------------------------------------------

    def _target(self, term: Term, before: Records, group: TaskGroup, move: Transaction) -> Agent:
        host = ReschedulePayload.of(move).host_retain
        listed = term.core.turn_context.agents.agents
        found = [agent for agent in self.master.cluster.values() if agent.host == host and agent.id in listed]
        if not found:
            raise Violation("I61", f"{group.id} moves to {host}, which is not listed", group.id)
        version = before[("version", f"{group.application_key}/{group.version}")]
        assert isinstance(version, Version)
        moving = {name for name, _ in self._moving(before)} | {group.id}
        known = neighbours_in(before.values())
        others = Neighbours([g for g in known.live if g.id not in moving], known.versions)
        complaints = []
        for agent in found:
            setting = setting_of(before, str(agent.attributes["InnerIP"]))
            words = "it takes no taskgroups" if setting.disabled else ""
            words = words or objection(version, Site(agent, setting), others, gone=len(moving))
            used = self._used(before, agent)
            for dimension, amount in (("cpus", group.resources.cpus), ("mem", group.resources.mem)):
                if used[dimension] + amount > agent.capacity[dimension]:
                    words = words or f"it has no room ({dimension})"
            if not words and agent.id != group.agent_id:
                return agent
            complaints.append(words or "it is there already")
        raise Violation("I61", f"{group.id} moves to {host}: {', '.join(complaints)}", group.id, move.id)

    def _gains(self, before: Records, group: TaskGroup, target: Agent, move: Transaction) -> None:
        source = self.master.cluster[group.agent_id]
        sign = 1 if ReschedulePayload.of(move).rebalanced == "pack" else -1
        now = self._measure(before, source) + self._measure(before, target)
        after = self._measure(before, source, group, -1) + self._measure(before, target, group, 1)
        if sign * (after - now) < GAIN - 1e-9:
            words = f"the move of {group.id} from {source.host} to {target.host} gains {sign * (after - now):.6f}"
            raise Violation("I62", words, group.id, move.id)

    def _measure(self, before: Records, agent: Agent, group: TaskGroup | None = None, sign: int = 1) -> float:
        used = self._used(before, agent)
        if group is not None:
            used["cpus"] += sign * group.resources.cpus
            used["mem"] += sign * group.resources.mem
        return sum((used[name] / agent.capacity[name]) ** 2 for name in ("cpus", "mem")) / 2

    def _used(self, before: Records, agent: Agent) -> Counter[str]:
        """Amounts of an agent by dimension, with taskgroups that move counted on their new agents."""
        used: Counter[str] = Counter()
        moving = dict(self._moving(before))
        for group in before.values():
            if isinstance(group, TaskGroup) and not group.ended:
                host = moving.get(group.id)
                if (host == agent.host) if host is not None else (group.agent_id == agent.id):
                    used["cpus"] += group.resources.cpus
                    used["mem"] += group.resources.mem
        return used

    @staticmethod
    def _moving(before: Records) -> Iterator[tuple[str, str]]:
        """Taskgroup and new host of each move whose old taskgroup still exists."""
        for move in before.values():
            if not (isinstance(move, Transaction) and move.active and ("taskgroup", move.taskgroup) in before):
                continue
            if isinstance(move.payload, ReschedulePayload) and move.payload.rebalanced:
                yield move.taskgroup, move.payload.host_retain
