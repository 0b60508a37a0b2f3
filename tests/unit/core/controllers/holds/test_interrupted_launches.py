"""A leader ends between the decision to launch taskgroups and their launch: its successor keeps their room."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import cluster_manager, leased, requests
from bcs_scheduler.core.interface.cluster_manager import Launch, LaunchOnAgent, Reconcile
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.engines import simple
from offers.ledger.holds import ANSWER_SECONDS, PROMISE_SECONDS, Cause
from offers.ledger.offered import OfferPool, offer_pool
from offers.model import Allocation, ResourceRequest
from store.records import TaskGroup
from store.records.definition import Port
from store.state.validation import validate
from tests.unit.core.controllers.holds.test_kept_placeholders import OPTIONS, Keeper, asked_for_one_room, live
from tests.unit.core.controllers.managed.test_reservations import WHOLE, GangLab
from tests.unit.core.placement.engines import test_hierarchical as hierarchy
from tests.unit.lab import KEY, Lab, version
from transactions.rules.task_states import TaskState

RIVAL = "default/rival"


def launches(lab: Lab) -> list[Launch]:
    return [launch for effect in lab.sent(LaunchOnAgent) for launch in effect.launches]


def asked(lab: Lab) -> set[str]:
    return {task for effect in lab.sent(Reconcile) for task, _ in effect.tasks}


def tasks_of(*groups: TaskGroup) -> set[str]:
    return {task.id for group in groups for task in group.tasks}


def rival(lab: Lab, instances: int = 1) -> None:
    """Other work that waits for room, and is older than any replacement."""
    wanted = msgspec.structs.replace(version(instances), application="rival")
    reply = lab.ask(requests.CreateApplication(version=wanted))
    assert not reply.error, reply.message


def rivals(lab: Lab) -> int:
    return len(lab.core.state.groups_of(RIVAL))


def answer(lab: Lab, group: TaskGroup, state: TaskState) -> None:
    """The cluster manager answers the question for the tasks of a taskgroup."""
    lab.turn(
        *(
            cluster_manager.StatusUpdate(task_id=task.id, state=state, agent_id=group.agent_id, answer=True)
            for task in group.tasks
        )
    )


def interrupted(instances: int = 1, **more: Any) -> tuple[Lab, list[TaskGroup]]:
    """A new leader with taskgroups that are recorded on agents of room for one each; other work waits."""
    before = Lab()
    before.create(instances, **more)
    rival(before, instances)
    offers = [before.make_offer(f"agent-{number}", cpus=WHOLE) for number in range(instances)]
    before.turn(leased.OffersArrived(offers=tuple(offers)))
    before.wait(0.1)
    groups = before.groups
    assert len(groups) == instances and not rivals(before)
    return before.succeed(), groups


def offer(lab: Lab, number: int) -> None:
    """An agent offers room for one taskgroup, and a moment passes."""
    lab.offer(f"agent-{number}", cpus=WHOLE)
    lab.wait(0.1)


def test_the_replacement_of_a_launch_that_did_not_leave_gets_the_room() -> None:
    lab, (group,) = interrupted()
    lab.offer("agent-0", cpus=WHOLE)
    lab.wait(0.5)
    assert asked(lab) == tasks_of(group)
    assert (launches(lab), rivals(lab)) == ([], 0), "the room is held until the answer"
    answer(lab, group, TaskState.GONE)
    (launch,) = launches(lab)
    assert (launch.taskgroup.agent_id, launch.taskgroup.application) == ("agent-0", "web")
    assert launch.taskgroup.id != group.id, "a task is never launched twice"
    lab.report(lab.group(), "RUNNING")
    assert (lab.application.status, rivals(lab)) == ("Running", 0)
    assert not lab.core.turn_context.pool.holds
    assert list(validate(lab.core.state)) == []
    offer(lab, 1)
    assert rivals(lab) == 1


def test_a_launch_that_did_leave_holds_no_room() -> None:
    lab, (group,) = interrupted()
    answer(lab, group, TaskState.STAGING)
    offer(lab, 0)
    assert rivals(lab) == 1, "the offer shows other room"
    lab.report(group, "RUNNING")
    assert lab.application.status == "Running"


@pytest.mark.parametrize("state", ["STARTING", "RUNNING", "FINISHED", "UNREACHABLE", "UNKNOWN"])
def test_any_report_of_the_task_frees_the_room(state: str) -> None:
    lab, (group,) = interrupted()
    lab.offer("agent-0", cpus=WHOLE)
    assert rivals(lab) == 0
    lab.report(group, state)
    lab.wait(0.1)
    assert rivals(lab) == 1


def test_room_is_not_held_for_ever_without_an_answer() -> None:
    lab, _ = interrupted()
    lab.offer("agent-0", cpus=WHOLE)
    lab.wait(ANSWER_SECONDS - 1.0)
    assert rivals(lab) == 0
    lab.wait(2.0)
    offer(lab, 0)
    assert rivals(lab) == 1
    assert not lab.core.turn_context.pool.holds


def test_an_answer_before_the_room_is_offered_keeps_the_promise_for_some_seconds() -> None:
    lab, (group,) = interrupted()
    answer(lab, group, TaskState.GONE)
    lab.wait(PROMISE_SECONDS - 1.0)
    offer(lab, 0)
    again = lab.group()
    assert again.id != group.id and (again.agent_id, again.ended, rivals(lab)) == ("agent-0", False, 0)


def test_after_the_promise_the_replacement_takes_any_room() -> None:
    lab, (group,) = interrupted()
    answer(lab, group, TaskState.GONE)
    offer(lab, 1)
    assert rivals(lab) == 1, "the replacement waits for its own agent"
    lab.wait(PROMISE_SECONDS)
    assert not lab.core.turn_context.pool.holds
    offer(lab, 2)
    assert lab.group().agent_id == "agent-2"


def test_a_gang_of_which_a_part_was_launched_stays_whole() -> None:
    lab, groups = interrupted(4, min_available=4)
    for group in groups:
        if group.index < 2:
            lab.report(group, "RUNNING")
        else:
            lab.offer(group.agent_id, cpus=WHOLE)
    lab.wait(0.1)
    for group in groups[2:]:
        answer(lab, group, TaskState.GONE)
    lab.wait(0.1)
    for group in lab.groups[2:]:
        lab.report(group, "RUNNING")
    assert [group.agent_id for group in lab.groups] == [group.agent_id for group in groups]
    assert (lab.application.status, rivals(lab)) == ("Running", 0)


def test_many_replacements_share_the_time_of_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other work does not get the room meanwhile."""
    monkeypatch.setattr(simple, "MATCHING", -1.0)  # the time of each turn is used up before the matching
    before = Lab()
    for number in range(12):
        wanted = msgspec.structs.replace(version(), application=f"web-{number}")
        before.ask(requests.CreateApplication(version=wanted))
    agents = [f"agent-{number}" for number in range(12)]
    offers = tuple(before.make_offer(agent, cpus=WHOLE) for agent in agents)
    before.turn(leased.OffersArrived(offers=offers))
    groups = list(before.core.state.taskgroups.values())
    assert len(groups) == 12
    rival(before, 12)
    lab = before.succeed()
    lab.turn(leased.OffersArrived(offers=tuple(lab.make_offer(agent, cpus=WHOLE) for agent in agents)))
    answers = [
        cluster_manager.StatusUpdate(task_id=task, state=TaskState.GONE, agent_id=group.agent_id, answer=True)
        for group in groups
        for task in tasks_of(group)
    ]
    lab.turn(*answers)
    launched = lab.sent(LaunchOnAgent)
    assert 0 < len(launched) < 12
    while len(launched) < 12:
        assert lab.core.busy
        lab.turn()
        launched += lab.sent(LaunchOnAgent)
    assert {effect.agent_id for effect in launched} == set(agents)
    assert rivals(lab) == 0


def test_a_deleted_application_leaves_the_room() -> None:
    lab, (group,) = interrupted()
    lab.offer("agent-0", cpus=WHOLE)
    lab.delete()
    answer(lab, group, TaskState.GONE)
    lab.wait(0.1)
    assert rivals(lab) == 1
    assert KEY not in lab.core.state.applications
    assert not lab.core.turn_context.pool.holds


def test_drawn_ports_stay_the_same_in_the_held_room() -> None:
    ports = (Port(name="http", container_port=80),)
    before = Lab()
    (container,) = version().containers
    container = msgspec.structs.replace(container, ports=ports)
    before.create(1, containers=(container,))
    before.offer("agent-0", cpus=WHOLE, ports=(31005, 31005))
    (group,) = before.groups
    assert [port.host_port for task in group.tasks for port in task.ports] == [31005]
    lab = before.succeed()
    lab.offer("agent-0", cpus=WHOLE, ports=(31000, 31004))
    lab.wait(0.5)
    assert not asked(lab), "the port is not in the offer: the room is not whole"
    lab.offer("agent-0", cpus=WHOLE, ports=(31005, 31005))
    lab.wait(0.5)
    assert asked(lab) == tasks_of(group)


# --- placeholders ---------------------------------------------------------------------------------------------


def keeper_with_lost_call() -> Keeper:
    """A new leader; the call that was to keep the second room of a gang did not leave. Other work waits."""
    lab = Keeper()
    lab.gang(3, 3)
    lab.keep("a")
    lab.offer("b", cpus=WHOLE)
    lab.wait(0.01)
    assert len(lab.sleeping) == 2
    for name in [name for name, (agent, _) in lab.rooms.items() if agent == "b"]:
        del lab.rooms[name]
    rival(lab)
    return lab.heir()


def test_a_room_that_was_not_kept_is_kept_by_the_next_leader() -> None:
    lab = keeper_with_lost_call()
    lab.offer_rooms("a")
    lab.offer_rooms("b", cpus=WHOLE)
    assert sorted(agent for agent, _ in lab.rooms.values()) == ["a", "b"]
    assert rivals(lab) == 0
    lab.offer_rooms("b")
    assert [group.status for group in lab.sleeping] == ["Running", "Running"]
    assert not lab.core.turn_context.pool.holds
    lab.wait(25.0)
    lab.offer_rooms("a")
    lab.offer_rooms("b")
    lab.offer("c", cpus=WHOLE)
    lab.wait(0.01)
    lab.offer_rooms("c")
    assert sorted(group.agent_id for group in live(lab)) == ["a", "b", "c"]
    assert rivals(lab) == 0
    assert list(validate(lab.core.state)) == []


def test_a_room_that_is_kept_is_not_kept_twice() -> None:
    before = asked_for_one_room()
    (name,) = before.rooms
    lab = before.heir()
    lab.turn(leased.OffersArrived(offers=(lab.rooms_of("a", cpus=WHOLE),)))
    again = [launch.taskgroup.id for launch in launches(lab)]
    assert len(again) == 1 and name not in again, "the rest of the agent is for the next placeholder"
    assert not lab.core.turn_context.pool.holds


def test_a_room_of_the_latest_list_is_not_kept_twice() -> None:
    before = asked_for_one_room()
    (name,) = before.rooms
    lab = before.heir()
    lab.list("a")
    lab.turn(leased.OffersArrived(offers=(lab.make_offer("a", cpus=WHOLE),)))
    again = [launch.taskgroup.id for launch in launches(lab)]
    assert len(again) == 1 and name not in again


def test_a_placeholder_whose_room_is_gone_is_given_up() -> None:
    lab = keeper_with_lost_call()
    lab.offer_rooms("a")
    lab.offer("b", cpus=WHOLE // 2)
    lab.wait(60.0)
    assert [agent for agent, _ in lab.rooms.values()] == ["a"]
    assert not lab.core.turn_context.pool.holds


@pytest.mark.parametrize("options", [CoreOptions(strict=True, placeholders="hold"), OPTIONS])
def test_placeholders_with_held_room_have_no_launch_that_could_be_interrupted(options: CoreOptions) -> None:
    lab = Keeper(options=options)
    lab.gang(2, 2)
    lab.offer("a", cpus=WHOLE)
    lab.wait(0.01)
    heir = lab.heir()
    heir.offer_rooms("a", cpus=0 if options.placeholders == "reserve" else WHOLE)
    heir.wait(1.0)
    assert [group.status for group in heir.sleeping] == ["Running"]
    assert not asked(heir)


def test_a_sleeping_placeholder_whose_launch_did_not_leave_is_launched_again() -> None:
    before = GangLab()
    before.gang(3, 3)
    before.offer("a", cpus=WHOLE)
    before.start()
    before.offer("b", cpus=WHOLE)
    assert len(before.sleeping) == 2
    rival(before)
    lab = before.successor()
    (staged,) = [group for group in lab.sleeping if not group.started]
    assert staged.agent_id == "b"
    lab.offer("b", cpus=WHOLE)
    lab.wait(0.5)
    assert (rivals(lab), asked(lab)) == (0, tasks_of(staged))
    answer(lab, staged, TaskState.GONE)
    (again,) = [group for group in lab.sleeping if not group.started]
    assert (again.agent_id, again.application) == ("b", staged.application)
    assert [launch.taskgroup.id for launch in launches(lab)] == [again.id]
    lab.start()
    lab.offer("c", cpus=WHOLE)
    lab.start()
    for group in lab.stop_ending():
        lab.offer(group.agent_id, cpus=WHOLE)
    lab.start()
    assert sorted(group.agent_id for group in lab.groups) == ["a", "b", "c"]
    assert (lab.application.status, rivals(lab)) == ("Running", 0)
    assert not lab.core.turn_context.pool.holds
    assert list(validate(lab.core.state)) == []


@pytest.mark.parametrize("offers", [True, False])
def test_a_sleeping_placeholder_that_finds_its_room_taken_goes_elsewhere(offers: bool) -> None:
    before = GangLab()
    before.gang(2, 2)
    before.offer("a", cpus=WHOLE)
    lab = before.successor()
    (staged,) = lab.sleeping
    if offers:
        lab.offer("a", cpus=WHOLE // 2)
    answer(lab, staged, TaskState.GONE)
    lab.wait(PROMISE_SECONDS + 1.0)
    for agent in ("b", "c"):
        lab.offer(agent, cpus=WHOLE)
        lab.start()
    for _ in range(2):  # a placeholder that has moved is replaced, and then those of the gang end
        for group in lab.stop_ending():
            lab.offer(group.agent_id, cpus=WHOLE)
        lab.start()
    assert sorted(group.agent_id for group in lab.groups) == ["b", "c"]
    assert lab.application.status == "Running"
    assert list(validate(lab.core.state)) == []


def test_the_room_of_an_ended_placeholder_is_for_no_other_work() -> None:
    """The step that promises the room may come in a later turn than the end of the placeholder."""
    lab = Keeper(options=OPTIONS)
    rival(lab)
    (key,) = [key for key, _ in lab.make_offer("a").scalars if key.name == "cpus"]
    memory = [key for key, _ in lab.make_offer("a").scalars if key.name == "mem"]
    lab.rooms["0.gone.default.dc1.1"] = ("a", Allocation(((key, WHOLE), (memory[0], 1_000_000))))
    lab.offer_rooms("a")
    lab.wait(1.0)
    assert (rivals(lab), lab.given_up) == (0, [])
    lab.wait(3.0)
    assert (rivals(lab), len(lab.given_up)) == (0, 1)
    lab.offer("a", cpus=WHOLE)
    assert rivals(lab) == 1


REQUEST = ResourceRequest(cpus=100)
BIG = ResourceRequest(cpus=200)
SITE = ("agent", "*")


def pool_with_ended_holds() -> OfferPool:
    """Four holds, of which the last one has not ended."""
    pool = offer_pool()
    pool.hand.add(Lab().make_offer("agent"))
    for name, request in (("a", BIG), ("b", REQUEST), ("c", REQUEST), ("d", REQUEST)):
        pool.holds.add(name, Cause.PLACEHOLDER, SITE, request)
        if name != "d":
            pool.holds.leave(name, Cause.SWAP, 7.0)
    return pool


@pytest.mark.parametrize(
    ("replaces", "request_", "taken"),
    [("", REQUEST, ["b"]), ("c", BIG, ["c"]), ("", BIG, ["a"]), ("", ResourceRequest(cpus=300), ["a", "b", "c"])],
)
def test_a_promised_unit_uses_the_room_of_one_placeholder(
    replaces: str, request_: ResourceRequest, taken: list[str]
) -> None:
    pool, site = pool_with_ended_holds(), SITE
    left = pool.hand.lend(site, request_, replaces)
    assert list(left) == taken
    assert [name for name, _ in pool.holds] == [name for name in "abcd" if name not in taken]
    pool.hand.end_lending(site, left, used=False)
    assert {name: pool.holds.leaving.get(name) for name, _ in pool.holds} == {"a": 7.0, "b": 7.0, "c": 7.0, "d": None}
    pool = pool_with_ended_holds()
    pool.hand.end_lending(site, pool.hand.lend(site, request_, replaces), used=True)
    assert [name for name, _ in pool.holds] == [name for name in "abcd" if name not in taken]


def test_a_launch_that_did_not_leave_is_repeated_although_the_tree_has_forgotten_its_application() -> None:
    """The only taskgroup of an application has ended, so a decision about other work takes the application out of the
    tree. The room of its agent comes afterwards."""
    former = Lab(hierarchy.options())
    hierarchy.create(former, "shop", 1)
    hierarchy.arrive(former, "one")
    assert len(hierarchy.groups(former, "shop")) == 1
    lab = former.succeed()
    hierarchy.create(lab, "reports", 2)
    (group,) = hierarchy.groups(lab, "shop")
    lab.turn(
        *(
            cluster_manager.StatusUpdate(task_id=task.id, state=TaskState.GONE, agent_id="one", answer=True)
            for task in group.tasks
        )
    )
    assert not hierarchy.groups(lab, "shop")
    hierarchy.arrive(lab, "two")
    assert len(hierarchy.groups(lab, "reports")) == 1
    lab.wait(0.6)
    lab.offer("one", cpus=hierarchy.WHOLE)
    lab.wait(0.1)
    assert [again.agent_id for again in hierarchy.groups(lab, "shop")] == ["one"]
