"""After a large loss, lost taskgroups are not replaced until the loss is over, on request, or by time."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from bcs_scheduler.core.controllers.cluster.loss_guard import LEAST_AGENTS
from bcs_scheduler.core.interface import cluster_manager, effects, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from benchmarks.synthetic import START, World, agent_name, listed
from store.records import TaskGroup
from tests.unit.lab import Lab
from transactions.rules.losses import WINDOW

TASKGROUPS = 200
AGENTS = 20
LARGE = 7
"""Agents: more than 0.3 of all."""
OPTIONS = CoreOptions(strict=True, offer_hold=1e6)


class Losing(World):
    """A cluster of 20 agents with ten taskgroups each. The unreachable policy replaces lost taskgroups at once."""

    def __init__(self, options: CoreOptions = OPTIONS) -> None:
        self.told: list[tuple[str, str]] = []
        super().__init__(TASKGROUPS, options=options)

    def take(self, units: list) -> None:  # type: ignore[type-arg,override]
        for unit in units:
            for effect in unit.effects:
                if isinstance(effect, effects.EventsRecorded):
                    self.told += [
                        (event.reason, event.message) for event in effect.events if event.object == "framework"
                    ]
        super().take(units)

    def lose(self, agents: range) -> list[TaskGroup]:
        """All taskgroups on the agents become unreachable in one turn."""
        lost = [group for n in agents for group in self.core.state.groups_on(agent_name(n)).values()]
        self.turn(*[cluster_manager.AgentRemoved(agent_id=agent_name(n)) for n in agents])
        left = [n for n in range(self.agents) if n not in agents]
        self.turn(cluster_manager.AgentsListed(agents=listed(left)))
        self.turn(*[report for group in lost for report in self.reports(group, "UNREACHABLE")])
        return lost

    def come_back(self, agents: range, lost: list[TaskGroup]) -> None:
        self.turn(cluster_manager.AgentsListed(agents=listed(range(self.agents))))
        self.turn(*[report for group in lost for report in self.reports(group, "RUNNING")])

    def pass_time(self, seconds: float) -> None:
        """In steps of ten seconds."""
        for _ in range(int(seconds / 10)):
            self.turn(after=10.0)
            self.rest()

    def replaced(self, lost: list[TaskGroup]) -> int:
        return sum(1 for group in lost if group.id not in self.core.state.taskgroups)

    @property
    def reasons(self) -> list[str]:
        return [reason for reason, _ in self.told if reason.startswith("Replacements")]

    def reply(self, request: requests.Request) -> effects.Reply:
        self.replies.clear()
        self.turn(request)
        return self.replies[-1]


def test_a_large_loss_is_not_replaced_until_an_operator_resumes() -> None:
    world = Losing()
    lost = world.lose(range(LARGE))
    world.pass_time(600)
    assert world.replaced(lost) == 0
    halt = world.core.state.framework.halt
    assert halt is not None and (halt.agents, halt.taskgroups, halt.total) == (LARGE, 10 * LARGE, TASKGROUPS)
    assert world.reasons == ["ReplacementsHalted"]
    waiting = next(t for t in world.core.state.active_transactions() if t.taskgroup == lost[0].id)
    assert "large loss" in waiting.history[-1].text
    dry = world.reply(requests.ResumeReplacements(token=1, dry_run=True))
    assert not dry.error and world.core.state.framework.halt is not None
    answer = world.reply(requests.ResumeReplacements(token=2))
    assert answer.data == {"taskgroups": 10 * LARGE}
    world.pass_time(600)
    assert world.replaced(lost) == len(lost)
    assert world.reasons == ["ReplacementsHalted", "ReplacementsResumed"]
    assert world.reply(requests.ResumeReplacements(token=3)).error == effects.Reason.CONFLICT


def test_agents_that_come_back_end_the_halt() -> None:
    world = Losing()
    lost = world.lose(range(LARGE))
    world.pass_time(600)
    world.come_back(range(LARGE), lost)
    world.pass_time(600)
    assert world.replaced(lost) == 0, "all of them still ran"
    assert world.core.state.framework.halt is None
    assert world.reasons == ["ReplacementsHalted", "ReplacementsResumed"]


@pytest.mark.parametrize("launched", [0, 12])
def test_launches_that_did_not_happen_are_no_loss(launched: int) -> None:
    """A leader dies in a launch of 40 on 20 agents: the records are durable, and only some calls have left."""
    lab = Lab()
    lab.create(40)
    for number in range(AGENTS):
        lab.offer(f"a{number}", cpus=200)
    assert len({group.agent_id for group in lab.groups if group.status == "Staging"}) == AGENTS
    successor = lab.succeed()
    for number, group in enumerate(successor.groups):
        if number < launched:
            successor.report(group, "RUNNING")
        else:
            successor.report(group, "GONE", reason="REASON_RECONCILIATION", answer=True)
    assert successor.core.state.framework.halt is None
    for number in range(AGENTS):
        successor.offer(f"a{number}", cpus=200)
    assert successor.core.state.status_counts("default/web") == (
        {"Staging": 40 - launched, "Running": launched} if launched else {"Staging": 40}
    )


def test_the_halt_ends_by_time() -> None:
    world = Losing(replace(OPTIONS, loss_pause=900.0))
    lost = world.lose(range(LARGE))
    world.pass_time(890)
    assert world.replaced(lost) == 0
    world.pass_time(600)
    assert world.replaced(lost) == len(lost)


@pytest.mark.parametrize("agents", [LEAST_AGENTS - 1, 6])
def test_a_smaller_loss_is_replaced(agents: int) -> None:
    """Six of twenty agents are not more than the bound; four agents are too few in any cluster."""
    world = Losing(replace(OPTIONS, loss_share=0.3 if agents == 6 else 0.01))
    lost = world.lose(range(agents))
    world.pass_time(600)
    assert world.replaced(lost) == len(lost)
    assert world.reasons == []


def test_losses_that_are_far_apart_do_not_add_up() -> None:
    world = Losing()
    first = world.lose(range(4))
    world.pass_time(WINDOW + 20)
    second = world.lose(range(4, 8))
    world.pass_time(WINDOW)
    assert (world.replaced(first), world.replaced(second)) == (len(first), len(second))
    assert world.reasons == []


def test_the_guard_can_be_switched_off() -> None:
    world = Losing(replace(OPTIONS, loss_share=0.0))
    lost = world.lose(range(12))
    world.pass_time(900)
    assert world.replaced(lost) > 0
    assert world.core.state.framework.halt is None


def test_failures_are_replaced_during_a_halt() -> None:
    world = Losing()
    world.lose(range(LARGE))
    (group, *_) = world.core.state.groups_on(agent_name(15)).values()
    world.turn(*world.reports(group, "FAILED"))
    world.pass_time(120)
    assert group.id not in world.core.state.taskgroups
    assert world.core.state.framework.halt is not None


def test_a_new_leader_finds_the_halt_and_what_was_accepted() -> None:
    world = Losing()
    lost = world.lose(range(LARGE))
    world.rest()
    successor = Core(world.core.state.records(), world.options, world.now + 5)
    successor.turn([cluster_manager.Connected(framework_id="framework", cluster="cluster")], world.now + 6)
    assert successor.state.framework.halt is not None
    successor.turn([requests.ResumeReplacements(token=1)], world.now + 7)
    third = Core(successor.state.records(), world.options, world.now + 8)
    for second in range(9, 20):
        third.turn([], world.now + second)
    assert third.state.framework.halt is None, "the loss was accepted"
    assert all(third.state.taskgroups[group.id].unreachable_since for group in lost)
    assert third.state.framework.losses_accepted_at > START


def test_a_loss_that_an_undone_change_brings_back_keeps_its_time() -> None:
    """A dry run replaces taskgroups whose loss an operator has accepted: they are lost as before when it is undone."""
    world = Losing()
    lost = world.lose(range(LARGE))
    world.rest()
    core = Core(world.core.state.records(), world.options, world.now + 5)
    core.turn([cluster_manager.Connected(framework_id="framework", cluster="cluster")], world.now + 6)
    core.turn([requests.ResumeReplacements(token=1)], world.now + 7)
    assert core.state.framework.halt is None
    work, before = core.turn_context.uow, [core.state.taskgroups[group.id] for group in lost]
    found = [msgspec.structs.replace(group, unreachable_since=0.0, status="Running") for group in before]
    with work.held():
        for group in found:
            work.put(group)
    for second in range(8, 20):
        core.turn([], world.now + second)
    assert [core.state.taskgroups[group.id] for group in lost] == before
    assert core.state.framework.halt is None
    # Taskgroups that are lost once more are another loss.
    for records in (found, before):
        for group in records:
            work.put(group)
        core.turn([], world.now + 20)
    assert core.state.framework.halt is not None
