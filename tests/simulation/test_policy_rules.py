"""The rules of policies in small: each judges a plain state of which the answer is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.engines.session import Session
from bcs_scheduler.core.placement.revisions import read_tree
from bcs_scheduler.simulator.model import START
from offers.policy.session.model import Nomination
from store.records import AgentSetting, Limits, Namespace, Queue, Record, ReschedulePayload, Version
from store.records.definition import Amounts, Container
from store.records.running import Drain, Task
from tests.simulation.policies.plain import PlainQueues, PlainWorld, group
from tests.simulation.policies.queues import Amount, Promised, Queues, SessionQueues, TreeQueues
from tests.simulation.policies.rules import NOMINATED, Rules
from tests.simulation.policies.users import FULL, FairWorld, address, machine
from tests.simulation.policies.world import CRITICAL, QuietWorld
from tests.simulation.violation import Violation
from transactions.base import Slot
from transactions.rules.task_states import TaskState

CORE = Amount(cpus=1000)


def judged(world: PlainWorld, *units: Sequence[Record]) -> str:
    """The rule that a turn breaks; empty: none."""
    try:
        world.turn(*units)
    except Violation as violation:
        return violation.number
    return ""


def at_rest(rules: Rules) -> str:
    """The rule that does not hold at rest; empty: all hold."""
    try:
        rules.rest()
    except Violation as violation:
        return violation.number
    return ""


# --- promises and limits ----------------------------------------------------------------------------------------------


def ask(world: QuietWorld, key: str, cpus: int) -> None:
    namespace, _, name = key.partition("/")
    container = Container(command="serve", requests=Amounts(cpus=cpus, mem=1000, disk=0))
    version = Version(namespace=namespace, application=name, instances=1, containers=(container,))
    assert world.ask(requests.CreateApplication(version=version)) is not None
    world.pass_time(5.0)


def tree_of_leaves(limit: str) -> tuple[QuietWorld, Queues]:
    """An agent of three cores, of which all are in use; the leaves, or the parent, have a limit of four."""
    most = {"resources": {"max": {"cpus": 4}}}
    leaves = [{"name": name, **(most if limit == "leaf" else {})} for name in ("red", "blue")]
    parent = {"name": "all", "parent": True, "queues": leaves, **(most if limit == "parent" else {})}
    below = {"name": "tag", "value": "namespace", "parent": {"name": "fixed", "value": "all"}}
    tree = read_tree(json.dumps({"queues": [parent], "placementrules": [below]}))
    world = QuietWorld(CoreOptions(session_period=1.0, hierarchy=tree), [machine(0, 3000)])
    for name in ("red", "blue"):
        world.ask(requests.PutNamespace(namespace=Namespace(name=name)))
    return world, TreeQueues(world)


def promise_in_tree(world: QuietWorld, key: str, *, reserves: bool = False) -> None:
    (placing,) = world.core._offer_manager.placing.trees().values()
    (role,) = placing.trees.roles.values()
    (name,) = role.tree.applications[key].asks
    role.tree.promise(key, name, "agent-0", reserves=reserves)


@pytest.mark.parametrize(("limit", "holds"), [("leaf", False), ("parent", True)])
def test_the_limit_of_a_parent_holds_what_is_promised_to_sibling_leaves(limit: str, holds: bool) -> None:
    world, queues = tree_of_leaves(limit)
    ask(world, "red/runs", 3000)
    ask(world, "red/own", 1000)
    ask(world, "blue/other", 1000)
    assert queues.admits("red/own", CORE)
    promise_in_tree(world, "blue/other")
    assert queues.admits("red/own", CORE) is not holds
    assert queues.admits("red/own", CORE, promises=False)
    assert queues.admits("red/own", CORE, gone={one.id for one in world.groups.values()})


def test_the_limit_of_a_leaf_holds_what_is_promised_to_others_and_not_what_is_promised_to_the_ask() -> None:
    world, queues = tree_of_leaves("leaf")
    ask(world, "red/runs", 3000)
    ask(world, "red/own", 1000)
    ask(world, "red/other", 1000)
    promise_in_tree(world, "red/other")
    assert not queues.admits("red/own", CORE)
    assert queues.admits("red/other", CORE) and not queues.admits("red/other", Amount(cpus=2000))


def test_a_reserved_node_uses_no_limit() -> None:
    """No victim leaves for an ask that reserves a node, so its queue does not expect its usage."""
    world, queues = tree_of_leaves("leaf")
    ask(world, "red/runs", 3000)
    ask(world, "red/own", 1000)
    ask(world, "red/other", 1000)
    promise_in_tree(world, "red/other", reserves=True)
    assert [one.application for one in queues.promised()] == ["red/other"]
    assert queues.admits("red/own", CORE)


def test_the_capability_of_a_queue_holds_what_is_promised_to_its_other_namespaces() -> None:
    world = QuietWorld(CoreOptions(session_period=1.0, policy=FULL), [machine(0, 3000), machine(1, 500)])
    capability = Limits(cpus=3500)
    for name, queue in (("red", "warm"), ("pink", "warm"), ("blue", "cold")):
        world.ask(requests.PutQueue(queue=Queue(name=queue, capability=capability)))
        world.ask(requests.PutNamespace(namespace=Namespace(name=name, queue=queue)))
    queues = SessionQueues(world)
    most = Amount(cpus=500)
    ask(world, "red/runs", 3000)
    for key in ("red/own", "pink/other"):
        ask(world, key, 1000)
    (engine,) = (one.engine for one in world.core._offer_manager.placing.loops if isinstance(one.engine, Session))
    assert queues.admits("red/own", most) and queues.admits("blue/none", most)
    (demand,) = (one.id for one in world.core.turn_context.engine.demands.values() if one.application == "pink/other")
    engine._inputs.promises.keep({("pink/other", f"{demand}/0"): Nomination("agent-0", world.now + 60)})
    assert queues.promised() == [Promised("agent-0", "pink/other", Amount(cpus=1000, mem=1000))]
    assert not queues.admits("red/own", most) and queues.admits("pink/other", most)
    assert queues.admits("blue/none", most)


# --- evictions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("leaves", "number"), [(True, "I80"), (False, "")])
def test_what_a_parent_has_promised_to_a_sibling_leaves_no_limit_for_victims(leaves: bool, number: str) -> None:
    world = PlainWorld(4000)
    queues = PlainQueues(world, {"all": 4000}, {"red": "all", "green": "all"})
    Rules(world, queues)
    victims = world.work("blue/low", 0, 0, 0)
    world.work("red/runs", 0)
    world.work("red/other", waits=1, cpus=2000)
    world.work("green/high", waits=1, cpus=2000)
    world.pass_time(10.0)
    queues.kept = [Promised("agent-0", "red/other", Amount(cpus=2000), leaves)]
    assert judged(world, world.ended_for("green/high", victims[:2])) == number


@pytest.mark.parametrize(("promised", "number"), [(0, "I81"), (1000, "")])
def test_idle_room_is_not_for_work_whose_limit_is_promised_to_others(promised: int, number: str) -> None:
    """A victim of the same queue makes room below the limit, which idle room does not."""
    world = PlainWorld(2000, 1000)
    queues = PlainQueues(world, {"red": 3000})
    Rules(world, queues)
    victims = world.work("red/low", 0, 0)
    world.work("red/other", waits=1)
    world.work("red/high", waits=1)
    world.pass_time(10.0)
    queues.kept = [Promised("agent-0", "red/other", Amount(cpus=promised))]
    assert judged(world, world.ended_for("red/high", victims[:1])) == number


@pytest.mark.parametrize(("promised", "number"), [(0, "I81"), (1000, "")])
def test_a_victim_is_needed_if_the_limit_is_promised_to_others(promised: int, number: str) -> None:
    """The agent has room for the ask beside the victim, which is reserved: only the limit needs its end."""
    world = PlainWorld(3000)
    queues = PlainQueues(world, {"red": 3000})
    Rules(world, queues)
    victims = world.work("red/low", 0, 0)
    world.work("red/other", waits=1)
    world.work("red/high", waits=1)
    world.pass_time(10.0)
    queues.kept = [
        Promised("agent-0", "red/high", Amount(cpus=1000)),
        Promised("agent-1", "red/other", Amount(cpus=promised)),
    ]
    assert judged(world, world.ended_for("red/high", victims[:1])) == number


@pytest.mark.parametrize(("ended", "number"), [(2, "I81"), (1, "")])
def test_a_victim_is_not_needed_beside_room_that_is_held_for_the_work_itself(ended: int, number: str) -> None:
    """One core is free and held for the work, so that one victim makes its two cores."""
    world = PlainWorld(3000)
    world.core._offer_manager.placing.agent_holds = lambda: [SimpleNamespace(agent="agent-0", application="red/high")]
    Rules(world, PlainQueues(world))
    victims = world.work("blue/low", 0, 0)
    world.work("red/high", waits=1, cpus=2000)
    world.pass_time(10.0)
    assert judged(world, world.ended_for("red/high", victims[:ended])) == number


@pytest.mark.parametrize(("free", "further", "number"), [(1000, 0, "I81"), (0, 0, ""), (1000, 2000, "")])
def test_nothing_ends_elsewhere_while_room_that_is_held_for_the_work_itself_suffices(
    free: int, further: int, number: str
) -> None:
    """`further`: cores of another demand of the application; the room may be held for that one (seed 24795)."""
    world = PlainWorld(1000 + free, 1000)
    world.core._offer_manager.placing.agent_holds = lambda: [SimpleNamespace(agent="agent-0", application="red/high")]
    Rules(world, PlainQueues(world))
    world.work("blue/stays", 0)
    victims = world.work("blue/low", 1)
    world.work("red/high", waits=1)
    if further:
        waits = world.demands["red/high"]
        request = waits.request._replace(cpus=further)
        world.demands["further"] = waits._replace(id="further", request=request)
    world.pass_time(10.0)
    assert judged(world, world.ended_for("red/high", victims)) == number


def test_room_on_another_agent_uses_the_limit_beside_the_room_of_a_victim() -> None:
    """One of a gang gets the room of the victim, one idle room elsewhere: the limit holds both without the victim."""
    world = PlainWorld(2500, 1000)
    Rules(world, PlainQueues(world, {"red": 3000}))
    world.work("red/stays", 0)
    victims = world.work("red/low", 0, cpus=500)
    world.work("red/high", waits=2, min_available=2)
    world.pass_time(10.0)
    assert judged(world, world.ended_for("red/high", victims)) == ""


@pytest.mark.parametrize(("queue", "number"), [("blue", "I82"), ("green", "")])
def test_two_queues_end_work_of_each_other_again_and_again(queue: str, number: str) -> None:
    """No application is ended twice. `queue`: of the last one."""
    world = PlainWorld(9000)
    Rules(world, PlainQueues(world))
    broken = ""
    for count, (loser, winner) in enumerate([("blue", "red"), ("red", "blue"), ("blue", "red"), ("red", queue)]):
        victims = world.work(f"{loser}/low-{count}", 0)
        broken = judged(world, world.ended_for(f"{winner}/high-{count}", victims))
        world.pass_time(10.0)
    assert broken == number


@pytest.mark.parametrize("starts", [True, False])
@pytest.mark.parametrize(("seconds", "index", "number"), [(10.0, 0, "I88"), (NOMINATED + 10.0, 1, "I86")])
def test_work_that_starts_in_the_turn_of_a_decision_has_used_the_room_that_was_made_for_it(
    seconds: float, index: int, number: str, starts: bool
) -> None:
    """Units of a turn have no order. Without a start, a place is ended twice, or a pair does not pause."""
    world = PlainWorld(2000, 1000)
    Rules(world, PlainQueues(world))
    victims = world.work("blue/low", 0, 0)
    world.work("red/high", waits=2)
    world.work("blue/full", 1)
    world.pass_time(10.0)
    assert judged(world, world.ended_for("red/high", victims[:1])) == ""
    back = group("blue/low", 0, 0, 1000, 1)
    world.turn([replace(victims[0], tasks=(Task(id="task", status="Killed", ended=True),)), back])
    world.pass_time(seconds)
    start = [group("red/high", 0, 1, 1000)] if starts else []
    victim = back if index == 0 else victims[1]
    assert judged(world, world.ended_for("red/high", [victim]), start) == ("" if starts else number)


# --- at rest ----------------------------------------------------------------------------------------------------------


def test_no_victim_is_legal_while_its_application_pauses_for_the_entitled_work() -> None:
    world = PlainWorld(2000)
    rules = Rules(world, PlainQueues(world, entitled=("red",)))
    victims = world.work("blue/low", 0, 0)
    world.work("red/high", waits=1)
    world.pass_time(10.0)
    assert judged(world, world.ended_for("red/high", victims[:1])) == ""
    ended = replace(victims[0], tasks=(Task(id="task", status="Killed", ended=True),))
    world.turn([ended, group("blue/low", 0, 0, 1000, 1)])
    assert at_rest(rules) == ""  # the first pause is longer
    assert at_rest(rules) == "I83"


@pytest.mark.parametrize(("promised", "number"), [(0, "I83"), (1000, "")])
def test_no_victim_is_legal_for_work_whose_limit_is_promised_to_others(promised: int, number: str) -> None:
    world = PlainWorld(2000)
    queues = PlainQueues(world, {"red": 1000}, entitled=("red",))
    rules = Rules(world, queues)
    world.work("blue/low", 0, 0)
    world.work("red/high", waits=1)
    queues.kept = [Promised("agent-0", "red/other", Amount(cpus=promised))]
    assert at_rest(rules) == number


@pytest.mark.parametrize(("ends", "number"), [(200.0, ""), (400.0, "I83")])
def test_work_has_its_time_when_an_operation_ends_and_leaves_its_share(ends: float, number: str) -> None:
    """`ends`: seconds from then until the work has nobody to end any more."""

    class World(PlainWorld):
        def pass_time(self, seconds: float) -> None:
            super().pass_time(seconds)
            if self.now >= START + 320 and not queues.entitled:
                queues.entitled = ("red",)
                self.turn([replace(self.state.transactions["waits-green/late"], status="TIMEOUT")])
            if self.now >= START + 320 + ends:
                queues.entitled = ("none",)

    world = World(1000)
    queues = PlainQueues(world)
    rules = Rules(world, queues)
    world.work("green/late", waits=1)
    world.work("blue/low", 0)
    world.work("red/high", waits=1)
    assert at_rest(rules) == number


def test_a_cluster_that_always_moves_does_not_come_to_rest() -> None:
    class World(PlainWorld):
        def pass_time(self, seconds: float) -> None:
            super().pass_time(seconds)
            self.turn([group("blue/low", 0, 0, 1000, int(self.now))])

    world = World(1000)
    assert at_rest(Rules(world, PlainQueues(world))) == "I82"


# --- drains -----------------------------------------------------------------------------------------------------------


def drained(world: PlainWorld, **fields: Any) -> None:
    """The first agent is being drained."""
    drain = Drain(since=world.now, phase="Moving", **fields)
    others = [AgentSetting(agent=address(number)) for number in range(1, len(world.cluster._agents))]
    world.turn([AgentSetting(agent=address(0), drain=drain), *others])


@pytest.mark.parametrize("limits", [{"red": 2000}, {}], ids=["limit", "share"])
def test_work_that_waits_for_a_limit_or_a_share_takes_no_places_of_a_drain(
    limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlainQueues, "waits_for_its_share", lambda *_: not limits)
    world = PlainWorld(1000, 2000)
    rules = Rules(world, PlainQueues(world, limits))
    world.work("red/leaves", 0)
    world.work("red/heir", waits=1, cpus=2000, priority=1)
    drained(world)
    assert at_rest(rules) == "I85"


@pytest.mark.parametrize(("limit", "number"), [(500, ""), (1000, "I85")])
def test_a_drain_waits_for_a_queue_above_its_limit(limit: int, number: str) -> None:
    world = PlainWorld(1000, 2000)
    rules = Rules(world, PlainQueues(world, {"red": limit}))
    world.work("red/leaves", 0)
    drained(world)
    assert at_rest(rules) == number


@pytest.mark.parametrize("application", ["red/leaves", "red/other"])
@pytest.mark.parametrize(("moves", "number"), [(True, ""), (False, "I85")])
def test_the_successors_of_taskgroups_that_have_moved_before_come_first(
    application: str, moves: bool, number: str
) -> None:
    """They take a part of the limit and of the room."""
    world = PlainWorld(1000, 2000)
    rules = Rules(world, PlainQueues(world, {"red": 1500}))
    world.work("red/leaves", 0)
    world.work(application, waits=1)
    world.demands[application] = world.demands[application]._replace(slots=(Slot(1, "1.other.red.0", moves),))
    drained(world)
    assert at_rest(rules) == number


@pytest.mark.parametrize("fields", [{}, {"priority_class": CRITICAL}, {"min_available": 2}])
def test_a_drain_moves_each_taskgroup_that_has_a_place(fields: dict[str, Any]) -> None:
    """Also one of critical work, and one of a gang at its minimum, and beside another one without a place."""
    world = PlainWorld(3000, 1000, 1000)
    rules = Rules(world, PlainQueues(world))
    world.work("red/large", 0, cpus=2000)
    drained(world)
    assert at_rest(rules) == ""
    world.work("red/small", 0, 2, **fields)
    assert at_rest(rules) == "I85"


def test_the_successor_of_a_gang_below_its_minimum_needs_the_places_of_those_that_lack() -> None:
    world = PlainWorld(1000, 1000, 1000)
    queues = PlainQueues(world, {"red": 1000})
    rules = Rules(world, queues)
    world.work("red/gang", 0, waits=1, min_available=2)
    drained(world)
    assert at_rest(rules) == ""
    queues.most = {}
    world.work("blue/other", 1)
    assert at_rest(rules) == "I84"
    world.work("blue/more", 2)
    assert at_rest(rules) == ""


def test_a_drain_without_taskgroups_ends_once_what_it_has_moved_is_ready() -> None:
    world = PlainWorld(1000, 1000)
    rules = Rules(world, PlainQueues(world))
    (moved,) = world.work("red/moved", 1)
    drained(world)
    waits = replace(moved, status="Starting", tasks=(Task(id="task", status="Starting"),))
    world.turn([waits, world._transaction("moves", "RESCHEDULE", "red/moved", ReschedulePayload(drained=address(0)))])
    assert at_rest(rules) == ""
    world.turn([moved])
    assert at_rest(rules) == "I85"


@pytest.mark.parametrize(("ends", "number"), [(700.0, ""), (3600.0, "I85")])
def test_a_drain_may_wait_for_room_that_old_work_keeps_for_a_while(ends: float, number: str) -> None:
    """`ends`: seconds after which the drain ends."""

    class World(PlainWorld):
        def pass_time(self, seconds: float) -> None:
            super().pass_time(seconds)
            if self.now > START + ends and not self._records["agentsetting", address(0)].drain.done_at:  # type: ignore[attr-defined]
                drained(self, done_at=self.now)

    world = World(1000, 1000)
    held = [SimpleNamespace(agent="agent-1", application="red/old")]
    world.core._offer_manager.placing.agent_holds = lambda: held
    rules = Rules(world, PlainQueues(world))
    world.work("red/leaves", 0)
    drained(world)
    assert at_rest(rules) == number


# --- room that waits --------------------------------------------------------------------------------------------------


def test_work_that_finds_idle_room_does_not_wait_for_promises_to_others() -> None:
    world = PlainWorld(1000, 1000)
    queues = PlainQueues(world, {"red": 2000})
    rules = Rules(world, queues)
    world.work("red/runs", 0)
    world.work("red/waits", waits=1)
    world.work("red/other", waits=1, cpus=2000)
    queues.kept = [Promised("agent-0", "red/other", Amount(cpus=2000))]
    assert at_rest(rules) == "I84"


# --- changes from outside ---------------------------------------------------------------------------------------------


def test_each_request_each_check_and_each_end_is_a_change_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever makes it: applications that end each other after changes do not do so by themselves."""
    fair = FairWorld(2, "session")
    changed, told = list[float](), fair.world.told
    monkeypatch.setattr(fair.world, "changed", lambda: changed.append(fair.world.now - START))
    del told[:]
    for _ in range(4):
        fair.step()
    for _ in range(40):
        fair._change_one()
    words = ("asked: ", "checks of ")
    assert changed == [at for at, line in told if line.startswith(words)]
    assert all(any(line.startswith(word) for _, line in told) for word in ("asked: UpdateApplication", words[1]))
    fair.world.end(next(iter(fair.world.groups.values())), TaskState.FAILED)
    assert changed[-1] == fair.world.now - START
