"""Commands on very many taskgroups: no turn does more than a slice of them, and the answer is whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.controllers import services
from bcs_scheduler.core.controllers.cluster import drains
from bcs_scheduler.core.interface import cluster_manager, effects, inputs, requests
from benchmarks.synthetic import CONTAINER, SPACE, World, attributes, listed, version
from store.records import Deployment, Service, ServicePort
from store.records.definition import Amounts
from tests.unit.test_core_offer_manager import Hasty
from transactions.kinds import scale
from transactions.rules import membership, rolling
from transactions.rules.draining import remaining_work

MANY = 1_500
MOST = 120
"""Records that a turn without time may change: two units, and the steps that follow from them."""
APP = "app-0"
TOLD = requests.CreateCommand(namespace=SPACE, name=APP, type="command", body={"command": ["true"]}, token=7)
TIGHTER = msgspec.structs.replace(CONTAINER, limits=Amounts(cpus=200, mem=64_000))
LIMITED = requests.UpdateApplication(
    version=version(SPACE, APP, MANY, containers=(TIGHTER,)), resources_only=True, token=7
)


@pytest.fixture
def world() -> World:
    """One application of very many taskgroups."""
    return World(MANY, each=MANY)


def turns(world: World, *batch: inputs.Input) -> Iterator[list[Any]]:
    """Turns whose time is up at once, until nothing is left to do; the units of each."""
    waiting: tuple[inputs.Input, ...] = batch
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


@pytest.mark.parametrize("command", [TOLD, LIMITED], ids=["command", "limits"])
def test_messages_to_many_are_written_in_slices_and_told_together(world: World, command: requests.Request) -> None:
    made = list(turns(world, command))
    assert max(map(changes, made)) <= MOST
    answered = [number for number, units in enumerate(made) if replies(units)]
    (reply,) = replies(made[answered[0]])
    assert len(answered) == 1 and not reply.error
    assert len(reply.data["messages"]) == len(world.core.state.messages_of(reply.data["commandID"])) == MANY
    assert not world.core.turn_context.incomplete


def test_a_command_with_many_messages_is_deleted_in_slices(world: World) -> None:
    world.turn(TOLD)
    identity = world.replies[-1].data["commandID"]
    made = list(turns(world, requests.DeleteCommand(id=identity, token=8)))
    assert max(map(changes, made)) <= MOST and len(made) > MANY // MOST
    assert identity not in world.core.state.commands and not world.core.state.messages_of(identity)
    assert sum(len(replies(units)) for units in made) == 1


def test_a_command_that_is_deleted_while_its_messages_are_written_says_so(world: World) -> None:
    made = turns(world, TOLD)
    next(made)
    (identity,) = world.core.turn_context.incomplete
    world.replies.clear()
    list(turns(world, requests.DeleteCommand(id=identity, token=8)))
    assert {reply.token: reply.error for reply in world.replies} == {7: "conflict", 8: ""}
    assert not world.core.state.messages_of(identity) and identity not in world.core.state.commands


def test_another_command_is_answered_while_messages_are_written(world: World) -> None:
    next(turns(world, TOLD))
    world.replies.clear()
    next(turns(world, requests.CreateApplication(version=version(SPACE, "small", 1), token=9)))
    assert [reply.token for reply in world.replies] == [9]


def test_a_plan_for_many_is_matched_in_slices_and_changes_nothing(world: World) -> None:
    before = {(record.kind, record.key) for record in world.core.state.records()}
    offers = world.core.offers()
    wanted = requests.CreateApplication(version=version(SPACE, "new", MANY), dry_run=True, token=7)
    made = list(turns(world, wanted))
    assert len(made) > MANY // 512
    (reply,) = [reply for units in made for reply in replies(units)]
    data = reply.data or {}
    assert sorted(place["index"] for place in data["place"]) == list(range(MANY)) and data["unplaced"] == 0
    world.rest()
    assert {(record.kind, record.key) for record in world.core.state.records()} == before
    assert world.core.offers() == offers
    unbounded = requests.CreateApplication(version=version(SPACE, "new", 300), dry_run=True, token=8)
    world.turn(unbounded)
    at_once = [place["agent"] for place in (world.replies[-1].data or {})["place"]]
    assert at_once == [place["agent"] for place in data["place"][:300]]


def test_a_plan_of_messages_to_many_writes_none(world: World) -> None:
    made = list(turns(world, msgspec.structs.replace(TOLD, dry_run=True)))
    (reply,) = [reply for units in made for reply in replies(units)]
    assert len((reply.data or {})["messages"]) == MANY
    assert not any(changes(units) for units in made)
    assert not any(message.taskgroup != "gone" for message in world.core.state.messages.values())


@pytest.mark.slow
def test_an_update_ends_many_in_slices(world: World) -> None:
    changed = version(SPACE, APP, MANY, labels={"app": APP, "revision": "2"}, max_unavailable=MANY // 2)
    made = list(turns(world, requests.UpdateApplication(version=changed)))
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

    world.turn(requests.ScaleApplication(namespace=SPACE, name=APP, instances=1))
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
    world.turn(requests.CreateDeployment(deployment=wanted))
    current = world.core.state.deployments[f"{SPACE}/dep"]
    tighter = version(SPACE, APP, 20, containers=(TIGHTER,), labels={"app": APP, "tier": "web"})
    change = requests.UpdateDeployment(deployment=current, version=tighter, resources_only=True, token=7)
    for _ in turns(world, change):
        if world.core.turn_context.incomplete:
            assert world.core.state.deployments[current.key].status == "UpdateResource"
    assert not [reply.error for reply in world.replies if reply.error]
    assert world.core.state.deployments[current.key].status == "UpdateResource"


def followed(selector: dict[str, str], name: str = "front") -> requests.PutService:
    port = ServicePort(name="http", service_port=80)
    return requests.PutService(service=Service(namespace=SPACE, name=name, selector=selector, ports=(port,)), token=7)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Taskgroups that services have been compared with."""
    found: list[str] = []
    honest = membership.member

    def seen(group: Any, *arguments: Any) -> Any:
        found.append(group.id)
        return honest(group, *arguments)

    monkeypatch.setattr(membership, "member", seen)
    return found


def test_a_service_of_many_is_compared_with_them_in_slices(world: World, looked: list[str]) -> None:
    answered = 0
    for number, units in enumerate(turns(world, followed({"app": APP}))):
        assert len(looked) <= services.SLICE
        looked.clear()
        if replies(units):
            answered += 1
            assert number == 0
    endpoint = world.core.state.endpoints[f"{SPACE}/front"]
    assert answered == 1 and len(endpoint.members) + endpoint.omitted == MANY
    indexes = [int(member.taskgroup.partition(".")[0]) for member in endpoint.members]
    assert indexes == sorted(indexes)
    made = list(turns(world, followed({"app": "other"})))
    assert len(made) > MANY // services.SLICE
    assert not world.core.state.endpoints[f"{SPACE}/front"].members


def test_a_small_service_does_not_wait_for_a_big_one(world: World) -> None:
    world.turn(requests.CreateApplication(version=version(SPACE, "small", 1)))
    world.rest()
    waited = 0
    for _ in turns(world, followed({"app": APP}), followed({"app": "small"}, "back")):
        waited += f"{SPACE}/back" not in world.core.state.endpoints
    assert waited <= 2 and len(world.core.state.endpoints[f"{SPACE}/back"].members) == 1


def test_what_a_service_drops_is_told_with_the_kill_while_others_are_compared(world: World) -> None:
    world.turn(followed({"app": APP}))
    made = turns(world, followed({"app": "other"}))
    next(made)
    endpoint = world.core.state.endpoints[f"{SPACE}/front"]
    doomed = endpoint.members[0].taskgroup
    assert world.core.busy
    units = next(turns(world, requests.RescheduleTaskGroup(taskgroup=doomed)))
    sent = [effect for unit in units for effect in unit.effects]
    assert any(isinstance(effect, cluster_manager.End) for effect in sent)
    assert any(isinstance(effect, effects.Changed) and effect.kind == "endpoint" for effect in sent)
    assert world.core.busy, "the comparison has not ended"
    assert doomed not in {member.taskgroup for member in world.core.state.endpoints[f"{SPACE}/front"].members}


@pytest.mark.rotating
@pytest.mark.slow
def test_an_update_of_a_big_deployment_looks_at_what_changes_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taskgroups that serve are counted, not looked at: neither side of the update is walked over."""
    wanted = Deployment(namespace=SPACE, name="dep", instances=MANY, selector={"app": APP})
    world.turn(requests.CreateDeployment(deployment=wanted))
    world.rest()
    current = world.core.state.deployments[f"{SPACE}/dep"]
    strategy = msgspec.structs.replace(current.strategy, max_surge=100, max_unavailable=0)
    changed = version(SPACE, APP, MANY, containers=(msgspec.structs.replace(CONTAINER, command="other"),))
    looks: list[int] = []
    honest = rolling.side

    def counted(*arguments: Any) -> Any:
        side = honest(*arguments)
        looks.append(len(side.unready) + len(side.leaving))
        return side

    monkeypatch.setattr(rolling, "side", counted)
    deployment = msgspec.structs.replace(current, strategy=strategy)
    waiting: list[inputs.Input] = [requests.UpdateDeployment(deployment=deployment, version=changed)]
    told: list[str] = []
    for _ in range(5_000):
        batch, waiting = waiting[:100], waiting[100:]
        for units in turns(world, *batch):
            told += [line.reason for unit in units for line in unit.effects if isinstance(line, effects.LogLine)]
            waiting += world.answers()
        if not waiting:
            world.now = max(world.now, world.core.next_wakeup(world.now))
        if world.core.state.deployments[current.key].status != "Update":
            break
    found = world.core.state.deployments[current.key]
    assert (found.status, found.message) == ("Running", "")
    assert max(looks) <= 200
    assert "spared" not in told, "nothing has failed, so nothing that was to go is needed"
    assert len(world.core.state.groups_of(f"{SPACE}/{found.application}")) == MANY


def test_agents_that_all_come_or_go_at_once_are_told_of_and_nothing_of_it_is_undone() -> None:
    """Their events do not fit into one unit together."""
    world = World(20)
    world.turn(cluster_manager.AgentsListed(agents=listed(range(500))))
    told = [
        (line.key, line.reason) for unit in world.units for line in unit.effects if isinstance(line, effects.LogLine)
    ]
    assert len([reason for _, reason in told if reason == "AgentJoined"]) == 498
    assert not [reason for _, reason in told if reason == "InternalError"]


def test_many_drains_are_looked_at_in_slices_and_see_what_waits_once_per_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(400)
    looked: list[str] = []
    matched = 0
    honest = drains._Waiting.add

    def seen(state: Any, agents: Any, moves: Any, now: float) -> Any:
        looked.extend(agents)
        return remaining_work(state, agents, moves, now)

    def counted(waiting: Any, demands: list[Any]) -> None:
        nonlocal matched
        matched += len(demands)
        honest(waiting, demands)

    monkeypatch.setattr(drains, "remaining_work", seen)
    monkeypatch.setattr(drains._Waiting, "add", counted)
    world.turn(*(requests.DrainAgent(agent=str(attributes(number)["InnerIP"])) for number in range(20)))
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
