"""Kept rooms are reservations with labels: how they are made, recognized and given up."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import leased
from bcs_scheduler.core.interface.cluster_manager import Launch, LaunchOnAgent
from bcs_scheduler.mesos import convert
from bcs_scheduler.mesos.calls import CallMaker
from bcs_scheduler.mesos.launches.resources import ranges_resource, scalar_resource
from bcs_scheduler.mesos.launches.rooms import Keeping, room_of, rooms_on
from bcs_scheduler.mesos.launches.task_info import DefaultExecutorBuilder
from bcs_scheduler.mesos.proto import master_pb2, scheduler_pb2
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from offers.model import Allocation, Reservation, ResourceKey
from store.records import FORM_OF_PLACEHOLDER
from store.records.definition import Amounts, Container
from tests.unit.test_mesos_taskinfo import launch

NAME = "3.web.ns.c.1"
OWNER = "bcs"
LABELS = (
    ("bcs.scheduler/framework", OWNER),
    ("bcs.scheduler/application", "ns/web"),
    ("bcs.scheduler/room", NAME),
)
LAYER = Reservation("DYNAMIC", "games", "ops", LABELS)
Operation = pb.Offer.Operation


def cpus(*layers: Reservation, room: str = "", role: str = "games") -> ResourceKey:
    return ResourceKey("cpus", role, layers, room)


def ports(*layers: Reservation, room: str = "") -> ResourceKey:
    return ResourceKey("ports", "games", layers, room)


def a_launch(allocation: Allocation, *, kept: bool) -> Launch:
    made = launch(Container(command="run", requests=Amounts(cpus=100)), allocation=allocation)
    annotations = {FORM_OF_PLACEHOLDER: "reserve"} if kept else {}
    return msgspec.structs.replace(made, version=msgspec.structs.replace(made.version, annotations=annotations))


def operations(item: Launch, owner: str = OWNER) -> tuple[list[Operation], list[tuple[str, str]]]:
    accept = LaunchOnAgent(agent_id="s1", offer_ids=("o1",), launches=(item,))
    body, _, failed = CallMaker("f", DefaultExecutorBuilder(), keeping=Keeping(owner, "ops")).accept(accept)
    return list(scheduler_pb2.Call.FromString(body).accept.operations), failed


def test_a_placeholder_is_a_reservation_that_names_its_taskgroup() -> None:
    allocation = Allocation(((cpus(), 200),), ((ports(), ((31000, 31001),)),))
    (operation,), failed = operations(a_launch(allocation, kept=True))
    assert (operation.type, failed) == (Operation.RESERVE, [])
    assert list(operation.reserve.resources) == [
        scalar_resource(cpus(LAYER), 200),
        ranges_resource(ports(LAYER), ((31000, 31001),)),
    ]


def test_a_launch_gives_the_opened_rooms_up_that_it_uses() -> None:
    allocation = Allocation(
        ((cpus(LAYER, room=NAME), 150), (cpus(), 50)), ((ports(LAYER, room=NAME), ((31000, 31000),)),)
    )
    (freed, reserved), _ = operations(a_launch(allocation, kept=True))
    assert freed.type == Operation.UNRESERVE
    assert list(freed.unreserve.resources) == [
        scalar_resource(cpus(LAYER), 150),
        ranges_resource(ports(LAYER), ((31000, 31000),)),
    ]
    assert next(iter(reserved.reserve.resources)) == scalar_resource(cpus(LAYER), 200)


def test_a_task_does_not_run_on_a_reservation() -> None:
    need = dict(launch(Container(command="run", requests=Amounts(cpus=100))).allocation.scalars)
    most = need.pop(cpus(role="*"))
    allocation = Allocation(((cpus(LAYER, room=NAME), most - 50), (cpus(), 50), *need.items()))
    (freed, launched), failed = operations(a_launch(allocation, kept=False))
    assert (freed.type, launched.type, failed) == (Operation.UNRESERVE, Operation.LAUNCH_GROUP, [])
    parts = [*launched.launch_group.executor.resources]
    parts += [part for task in launched.launch_group.task_group.tasks for part in task.resources]
    assert sum(round(part.scalar.value * 1000) for part in parts if part.name == "cpus") == most
    assert not any(part.reservations for part in parts)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (cpus(role="*"), "set mesos.roles"),
        (cpus(Reservation("STATIC", "games")), "are reserved for role games already"),
    ],
)
def test_what_cannot_be_reserved_fails_its_launch(key: ResourceKey, words: str) -> None:
    made, ((name, reason),) = operations(a_launch(Allocation(((key, 200),)), kept=True))
    assert (made, name) == ([], NAME)
    assert words in reason


def test_a_static_reservation_of_a_role_above_is_refined() -> None:
    key = ResourceKey("cpus", "games/chess", (Reservation("STATIC", "games"),))
    (operation,), failed = operations(a_launch(Allocation(((key, 200),)), kept=True))
    assert failed == []
    (resource,) = operation.reserve.resources
    assert [layer.role for layer in resource.reservations] == ["games", "games/chess"]


def test_unused_rooms_are_given_up_with_their_offers() -> None:
    effect = leased.GiveUpRooms(
        agent_id="s1", offer_ids=("o1", "o2"), rooms=Allocation(((cpus(LAYER, room=NAME), 150),))
    )
    call = scheduler_pb2.Call.FromString(CallMaker("f", DefaultExecutorBuilder()).call(effect))
    assert call.type == scheduler_pb2.Call.ACCEPT
    assert [one.value for one in call.accept.offer_ids] == ["o1", "o2"]
    assert call.accept.filters.refuse_seconds == 0.0
    (operation,) = call.accept.operations
    assert operation.type == Operation.UNRESERVE
    assert list(operation.unreserve.resources) == [scalar_resource(cpus(LAYER), 150)]


@pytest.mark.parametrize(
    ("layers", "owner", "room"),
    [
        ((), OWNER, ""),
        ((Reservation("STATIC", "games"),), OWNER, ""),
        ((Reservation("DYNAMIC", "games", "ops", (("team", "x"),)),), OWNER, ""),
        ((LAYER,), OWNER, NAME),
        ((Reservation("STATIC", "games"), LAYER), OWNER, NAME),
        ((LAYER,), "another", None),
    ],
)
def test_rooms_are_recognized_by_their_labels(layers: tuple[Reservation, ...], owner: str, room: str | None) -> None:
    assert room_of(layers, owner) == room


def test_offers_and_lists_name_the_rooms() -> None:
    offer: Any = pb.Offer(hostname="h")
    offer.id.value, offer.framework_id.value, offer.agent_id.value = "o", "f", "s1"
    offer.allocation_info.role = "games"
    offer.resources.extend([scalar_resource(cpus(LAYER), 150), scalar_resource(cpus(), 50)])
    assert convert.offer(offer, OWNER).scalars == ((cpus(LAYER, room=NAME), 150), (cpus(), 50))
    assert convert.offer(offer, "another").scalars == ((cpus(), 50),)
    assert rooms_on(offer.resources, OWNER) == (NAME,)
    assert rooms_on(offer.resources, "another") == ()
    response = master_pb2.Response(type=master_pb2.Response.GET_AGENTS)
    agent = response.get_agents.agents.add(active=True, version="1", total_resources=offer.resources)
    agent.agent_info.hostname = "h"
    (listed,) = convert.agents(response, "c", 0.0, OWNER).agents
    assert listed.rooms == (NAME,)
