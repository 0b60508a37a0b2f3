"""Commands on very many taskgroups: no turn does more than a slice of them, and the answer is whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core import effects, events, orders
from bcs_scheduler.core.controllers import drains
from benchmarks.synthetic import CONTAINER, SPACE, World, attributes, listed, version
from offers.matcher import Rehearsal
from store.definition import Amounts
from store.records import Deployment
from tests.unit.test_core_supply import Hasty
from transactions import scale

MANY = 1_500
MOST = 120
"""Records that a turn without time may change: two units, and the steps that follow from them."""
APP = "app-0"
TOLD = events.Instruct(namespace=SPACE, name=APP, type="command", body={"command": ["true"]}, token=7)
TIGHTER = msgspec.structs.replace(CONTAINER, limits=Amounts(cpus=200, mem=64_000))
LIMITED = events.UpdateApplication(
    version=version(SPACE, APP, MANY, containers=(TIGHTER,)), resources_only=True, token=7
)


@pytest.fixture
def world() -> World:
    """One application of very many taskgroups."""
    return World(MANY, each=MANY)


def turns(world: World, *batch: events.Event) -> Iterator[list[Any]]:
    """Turns whose time is up at once, until nothing is left to do; the units of each."""
    waiting: tuple[events.Event, ...] = batch
    for _ in range(20 * MANY):
        world.now += 0.001
        units = world.core.turn(waiting, world.now, Hasty())
        world.take(units)
        yield units
        waiting = ()
        if not world.core.busy:
            return
    raise AssertionError("the core does not come to rest")


def changes(units: list[Any]) -> int:
    return sum(len(unit.changes) for unit in units)


def replies(units: list[Any]) -> list[effects.Reply]:
    return [effect for unit in units for effect in unit.effects if isinstance(effect, effects.Reply)]


@pytest.mark.parametrize("command", [TOLD, LIMITED], ids=["instruct", "limits"])
def test_messages_to_many_are_written_in_slices_and_told_together(world: World, command: events.Command) -> None:
    made = list(turns(world, command))
    assert max(map(changes, made)) <= MOST
    answered = [number for number, units in enumerate(made) if replies(units)]
    (reply,) = replies(made[answered[0]])
    assert len(answered) == 1 and not reply.error
    assert len(reply.data["messages"]) == len(world.core.state.messages_of(reply.data["commandID"])) == MANY
    assert not world.core.desk.incomplete


def test_a_command_with_many_messages_is_deleted_in_slices(world: World) -> None:
    world.turn(TOLD)
    identity = world.replies[-1].data["commandID"]  # type: ignore[index]
    made = list(turns(world, events.DeleteCommand(id=identity, token=8)))
    assert max(map(changes, made)) <= MOST and len(made) > MANY // MOST
    assert identity not in world.core.state.commands and not world.core.state.messages_of(identity)
    assert sum(len(replies(units)) for units in made) == 1


def test_a_command_that_is_deleted_while_its_messages_are_written_says_so(world: World) -> None:
    made = turns(world, TOLD)
    next(made)
    (identity,) = world.core.desk.incomplete
    world.replies.clear()
    list(turns(world, events.DeleteCommand(id=identity, token=8)))
    assert {reply.token: reply.error for reply in world.replies} == {7: "conflict", 8: ""}
    assert not world.core.state.messages_of(identity) and identity not in world.core.state.commands


def test_another_command_is_answered_while_messages_are_written(world: World) -> None:
    next(turns(world, TOLD))
    world.replies.clear()
    next(turns(world, events.CreateApplication(version=version(SPACE, "small", 1), token=9)))
    assert [reply.token for reply in world.replies] == [9]


def test_a_plan_for_many_is_matched_in_slices_and_changes_nothing(world: World) -> None:
    before = {(record.kind, record.key) for record in world.core.state.records()}
    offers = world.core.offers()
    wanted = events.CreateApplication(version=version(SPACE, "new", MANY), dry_run=True, token=7)
    made = list(turns(world, wanted))
    assert len(made) > MANY // 512
    (reply,) = [reply for units in made for reply in replies(units)]
    data = reply.data or {}
    assert sorted(place["index"] for place in data["place"]) == list(range(MANY)) and data["unplaced"] == 0
    world.rest()
    assert {(record.kind, record.key) for record in world.core.state.records()} == before
    assert world.core.offers() == offers
    unbounded = events.CreateApplication(version=version(SPACE, "new", 300), dry_run=True, token=8)
    world.turn(unbounded)
    at_once = [place["agent"] for place in (world.replies[-1].data or {})["place"]]
    assert at_once == [place["agent"] for place in data["place"][:300]]


def test_a_plan_of_messages_to_many_writes_none(world: World) -> None:
    made = list(turns(world, msgspec.structs.replace(TOLD, dry_run=True)))
    (reply,) = [reply for units in made for reply in replies(units)]
    assert len((reply.data or {})["messages"]) == MANY
    assert not any(changes(units) for units in made)
    assert not any(message.taskgroup != "gone" for message in world.core.state.messages.values())


def test_an_update_ends_many_in_slices(world: World) -> None:
    changed = version(SPACE, APP, MANY, labels={"app": APP, "revision": "2"}, max_unavailable=MANY // 2)
    made = list(turns(world, events.UpdateApplication(version=changed)))
    assert max(map(changes, made)) <= MOST
    while any(not group.killing_since for group in list(world.core.state.taskgroups.values())[: MANY // 2]):
        world.now = world.core.next_wakeup(world.now)
        assert changes(next(turns(world))) <= MOST
    assert sum(bool(group.killing_since) for group in world.core.state.taskgroups.values()) == MANY // 2


def test_a_scale_down_is_not_looked_at_for_each_taskgroup_that_ends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    known = scale.victims

    def counted(*arguments: Any) -> Any:
        nonlocal looks
        looks += 1
        return known(*arguments)

    world.turn(events.ScaleApplication(namespace=SPACE, name=APP, instances=1))
    monkeypatch.setattr(scale, "victims", counted)
    ended = world.answers()
    assert len(ended) == MANY - 1
    for event in ended:
        world.turn(event)
    assert looks <= 3
    assert len(world.core.state.groups_of(f"{SPACE}/{APP}")) == 1
    assert world.core.state.applications[f"{SPACE}/{APP}"].status == "Running"


def test_a_deployment_waits_for_limits_until_all_messages_are_written() -> None:
    world = World(20, each=20)
    wanted = Deployment(namespace=SPACE, name="dep", instances=20, selector={"app": APP})
    world.turn(orders.CreateDeployment(deployment=wanted))
    current = world.core.state.deployments[f"{SPACE}/dep"]
    tighter = version(SPACE, APP, 20, containers=(TIGHTER,), labels={"app": APP, "tier": "web"})
    change = orders.UpdateDeployment(deployment=current, version=tighter, resources_only=True, token=7)
    for _ in turns(world, change):
        if world.core.desk.incomplete:
            assert world.core.state.deployments[current.key].status == "UpdateResource"
    assert not [reply.error for reply in world.replies if reply.error]
    assert world.core.state.deployments[current.key].status == "UpdateResource"


def test_agents_that_all_come_or_go_at_once_are_told_of_and_nothing_of_it_is_undone() -> None:
    """Their events do not fit into one unit together."""
    world = World(20)
    world.turn(events.AgentsListed(agents=listed(range(500))))
    told = [(line.key, line.reason) for unit in world.units for line in unit.effects if isinstance(line, effects.Story)]
    assert len([reason for _, reason in told if reason == "joined"]) == 498
    assert not [reason for _, reason in told if reason == "error"]


def test_many_drains_are_looked_at_in_slices_and_see_what_waits_once_per_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(400)
    looked: list[str] = []
    matched = 0
    outlook, honest = drains.outlook, Rehearsal.match

    def seen(state: Any, agents: Any, moves: Any) -> Any:
        looked.extend(agents)
        return outlook(state, agents, moves)

    def counted(*arguments: Any) -> Any:
        nonlocal matched
        matched += len(arguments[1])
        return honest(*arguments)

    monkeypatch.setattr(drains, "outlook", seen)
    monkeypatch.setattr(Rehearsal, "match", counted)
    world.turn(*(orders.DrainAgent(agent=str(attributes(number)["InnerIP"])) for number in range(20)))
    rounds: set[str] = set(looked)
    for _ in range(20):
        looked.clear()
        matched = 0
        under_way = len(world.core.state.active_transactions())
        world.turn(after=0.001)
        assert len(looked) <= drains.AT_ONCE
        assert matched <= under_way + drains.AT_ONCE, "what waits is matched once, and each that is moved"
        rounds.update(looked)
    assert rounds == {f"agent-{number}" for number in range(20)}
    assert len(world.core.state.active_transactions()) >= 20
