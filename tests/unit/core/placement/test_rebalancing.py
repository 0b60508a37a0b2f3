"""Rebalancing: taskgroups move toward fewer or more even agents, within the disruption budgets, and it ends."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.controllers.cluster.rebalancer import Rebalancer
from bcs_scheduler.core.interface import effects, leased, requests
from bcs_scheduler.core.interface.requests import Rebalance
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement import rebalancing
from bcs_scheduler.core.placement.rebalancing import GATHER
from store.records import (
    ANNOTATION_OF_PLACEHOLDER,
    ANNOTATION_OF_TASK,
    GROUP_ANNOTATION,
    LossHalt,
    PodGroup,
    Strategy,
    TaskGroup,
    Version,
)
from store.records.definition import RestartPolicy
from tests.effort import share
from tests.unit.agentlab import Cluster
from tests.unit.core.policy_options import POLICIES
from tests.unit.lab import version
from tests.unit.rollinglab import NEW, wish
from tests.unit.test_core_agent_plans import waiting
from transactions.rules.lifecycle import is_ready

ROOM = 1000
"""Thousandths of a core on each agent: ten taskgroups."""


class Loaded(Cluster):
    """Agents of equal size that offer what is free. Taskgroups are placed on the agents that a test names."""

    def __init__(self, agents: int, policy: str = "simple", settings: dict[str, Any] = {}, **more: Any) -> None:  # noqa: B006
        options = CoreOptions(strict=True, validate=True, session_period=0.1, **POLICIES[policy], **settings)
        super().__init__(0, **{"options": options, **more})
        for number in range(agents):
            self.join(f"a{number}")

    def list(self) -> None:
        self.listed = {
            key: agent._replace(total={"cpus": ROOM, "mem": 64_000_000}) for key, agent in self.listed.items()
        }
        super().list()

    def offer_rest(self, *only: str) -> None:
        for agent in self.listed:
            used = sum(group.resources.cpus for group in self.alive if group.agent_id == agent)
            self.core.turn_context.pool.hand.remove_agent(agent)
            if not only or agent in only:
                self.offer(agent, cpus=ROOM - used)
        self.core.turn_context.pool.learn_totals(dict.fromkeys(self.listed, (ROOM, 64000000)))

    @property
    def alive(self) -> Sequence[TaskGroup]:
        return [group for group in self.core.state.taskgroups.values() if not group.ended]

    def place(self, name: str, **on: int) -> None:
        """An application with so many taskgroups on these agents."""
        fields = {"application": name, "max_unavailable": self.bound}
        sizes = list(on.items())
        self.offer_rest(sizes[0][0])
        created = msgspec.structs.replace(version(sizes[0][1]), **fields)
        self.create_version(created)
        self.run_all()
        total = sizes[0][1]
        for agent, number in sizes[1:]:
            total += number
            self.offer_rest(agent)
            self.scale_to(name, total)
            self.run_all()

    bound = 2

    @property
    def known(self) -> Version:
        """The version that taskgroups run."""
        found = self.core.state.version("default/web", self.alive[0].version)
        assert found is not None
        return found

    def create_version(self, created: Any) -> None:
        assert not self.ask(requests.CreateApplication(version=created)).error

    def scale_to(self, name: str, instances: int) -> None:
        assert not self.ask(requests.ScaleApplication(namespace="default", name=name, instances=instances)).error

    def run_all(self) -> None:
        self.wait(1.0)
        for group in self.alive:
            if not group.started:
                self.report(group, "RUNNING")
        self.wait(0.3)

    def rebalance(self, **fields: Any) -> effects.Reply:
        token = random.Random(self.now).randint(1, 1 << 30)
        units = self.core.turn([Rebalance(token=token, **fields)], self.now)
        for _ in range(2000):
            for unit in units:
                for effect in unit.effects:
                    if isinstance(effect, effects.Reply) and effect.token == token:
                        return effect
            self.now += 0.05  # declined offers are gathered first
            units = self.core.turn([], self.now)
        raise AssertionError("no answer")

    def play(self) -> None:
        """Ends and starts what is to end and to start, until nothing changes."""
        for _ in range(30):
            ready = Counter(group.application for group in self.alive if is_ready(group))
            for name, number in Counter(group.application for group in self.alive).items():
                wanted = self.core.state.applications[f"default/{name}"].instances
                assert ready[name] >= wanted - self.bound, (name, number)
            ending = [group for group in self.alive if group.killing_since]
            staged = [group for group in self.alive if not group.started and not group.killing_since]
            waits = self.core.pending
            if not (ending or staged or waits):
                return
            for group in ending:
                self.report(group, "KILLED")
            for group in staged:
                self.report(group, "RUNNING")
            self.offer_rest()
            self.wait(0.7)
        raise AssertionError("does not come to rest")

    def used(self) -> Sequence[int]:
        counts = Counter(group.agent_id for group in self.alive)
        return [counts[agent] for agent in self.listed]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("goal", "end"), [("spread", [4, 3, 3]), ("pack", [10, 0, 0])])
def test_rounds_come_to_the_goal_and_end(policy: str, goal: Any, end: list[int]) -> None:
    lab = Loaded(3, policy)
    lab.place("web", a0=7, a1=1, a2=2)
    lab.offer_rest()
    assert lab.used() == [7, 1, 2]
    for _ in range(20):
        before = lab.used()
        data = lab.rebalance(goal=goal, gain=0.001).data
        assert len(data["moves"]) <= lab.bound
        if not data["moves"]:
            break
        measure = data["after"] - data["before"]
        assert measure > 0 if goal == "pack" else measure < 0
        lab.play()
        assert lab.used() != before
    assert data["stopped"] == "GainBelowBound"
    assert sorted(lab.used(), reverse=True) == end


def test_a_dry_run_changes_nothing_and_has_the_moves_of_the_run() -> None:
    lab = Loaded(2)
    lab.place("web", a0=6, a1=1)
    lab.offer_rest()
    before = lab.records()
    planned = lab.rebalance(dry_run=True).data
    assert lab.records() == before and len(planned["moves"]) == 2 and planned["dryRun"]
    done = lab.rebalance().data
    assert done == {**planned, "dryRun": False}


@pytest.mark.parametrize(("policy", "questions"), [("session", 2), ("hierarchical", 1)])
def test_a_policy_that_decides_by_queues_is_asked_once_per_application(policy: str, questions: int) -> None:
    lab = Loaded(2, policy)
    lab.place("web", a0=6)
    lab.offer_rest()
    asked: list[int] = []
    placer = lab.core.turn_context.placer
    genuine = placer.foresee

    def counted(demands: Any, *rest: Any) -> Any:
        asked.append(len(demands))
        return genuine(demands, *rest)

    placer.foresee = counted  # type: ignore[assignment, method-assign]
    assert len(lab.rebalance(dry_run=True).data["moves"]) == 2
    assert asked == [1] * questions


def test_a_move_is_told_and_is_no_restart() -> None:
    lab = Loaded(2)
    lab.place("web", a0=6, a1=1)
    lab.offer_rest()
    (move, *_) = lab.rebalance(moves=1).data["moves"]
    (transaction,) = [t for t in lab.core.state.transactions.values() if t.type == "RESCHEDULE"]
    assert transaction.payload.rebalanced == "spread"  # type: ignore[attr-defined]
    assert transaction.deadline > transaction.created_at
    events = [event for log in lab.core.state.event_logs.values() for event in log.events]
    told = [(event.object, event.reason) for event in events][-8:]
    assert ("taskgroup", "TaskGroupRebalanced") in told and ("framework", "RebalanceFinished") in told
    lab.play()
    (new,) = [g for g in lab.alive if g.index == int(move["taskgroup"].partition(".")[0])]
    assert (new.agent_id, new.restarts) == (move["target"], 0)


def test_the_budget_of_an_application_is_shared_with_what_is_not_ready() -> None:
    lab = Loaded(2)
    lab.place("web", a0=6, a1=1)
    lab.offer_rest()
    assert len(lab.rebalance(dry_run=True).data["moves"]) == 2
    leaving = next(group for group in lab.alive if group.agent_id == "a1")
    assert not lab.ask(requests.RescheduleTaskGroup(taskgroup=leaving.id)).error
    assert len(lab.rebalance(dry_run=True).data["moves"]) == 1


@pytest.mark.parametrize("bound", [1, 2])
def test_both_sides_of_an_update_share_the_budget(bound: int) -> None:
    """The update is halted after one step, with taskgroups of both sides on one of two agents."""
    lab = Loaded(2)
    wanted = wish(5, strategy=Strategy(max_unavailable=bound, max_surge=bound, order="DeleteFirst", manual=True))

    def settle() -> None:
        for _ in range(6):
            for group in lab.alive:
                if group.killing_since:
                    lab.report(group, "KILLED")
            lab.offer_rest("a0")
            lab.run_all()

    assert not lab.ask(requests.CreateDeployment(deployment=wanted, version=version(5))).error
    settle()
    assert not lab.ask(requests.UpdateDeployment(deployment=wanted, version=version(5, **NEW))).error
    settle()
    assert lab.core.state.deployments["default/web"].status == "UpdatePaused"
    assert lab.used() == [5, 0] and len({group.application for group in lab.alive}) == 2
    lab.rebalance(dry_run=True)  # offers are kept from now on
    lab.offer_rest()
    assert len(lab.rebalance(dry_run=True).data["moves"]) == bound


def test_the_moves_of_one_rebalancing_end_before_the_next_one() -> None:
    lab = Loaded(2)
    lab.place("web", a0=6, a1=1)
    lab.offer_rest()
    assert len(lab.rebalance(moves=1).data["moves"]) == 1
    again = lab.rebalance().data
    assert (again["moves"], again["stopped"]) == ([], "MovesInProgress")


def test_while_taskgroups_wait_none_moves() -> None:
    lab = Loaded(2)
    lab.place("web", a0=6, a1=1)
    lab.offer_rest()
    waiting(lab, 5000)
    lab.wait(0.5)
    data = lab.rebalance().data
    assert (data["moves"], data["stopped"]) == ([], "TaskgroupsWait")


def test_a_cordoned_agent_is_no_target() -> None:
    lab = Loaded(2)
    lab.place("web", a0=6)
    lab.offer_rest()
    lab.set_agent("a1", disabled=True)
    assert lab.rebalance().data["moves"] == []
    lab.set_agent("a1", disabled=False)
    assert len(lab.rebalance(dry_run=True).data["moves"]) == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"min_available": 2},
        {"annotations": {GROUP_ANNOTATION: "together"}},
        {"annotations": {ANNOTATION_OF_PLACEHOLDER: "spark"}},
        {"annotations": {ANNOTATION_OF_TASK: "driver"}},
        {"restart_policy": RestartPolicy(policy="Never")},
    ],
)
def test_gangs_groups_reservations_and_work_that_would_be_lost_stay(fields: dict[str, Any]) -> None:
    lab = Loaded(2)
    lab.place("web", a0=6)
    lab.offer_rest()
    known = lab.known
    uow = lab.core.turn_context.uow
    uow.put(PodGroup(namespace="default", name="together"))
    uow.put(msgspec.structs.replace(known, **fields))
    application = lab.core.state.applications["default/web"]
    uow.put(msgspec.structs.replace(application, annotations=fields.get("annotations", {})))
    uow.cut()
    assert lab.rebalance().data["moves"] == []


def test_none_moves_while_a_large_loss_stops_replacements() -> None:
    lab = Loaded(2)
    lab.place("web", a0=6)
    lab.offer_rest()
    halt = LossHalt(since=lab.now, agents=5, taskgroups=9, total=10)
    uow = lab.core.turn_context.uow
    uow.put(msgspec.structs.replace(lab.core.state.framework, halt=halt))
    turn = lab.core.turn_context
    turn.start(lab.now, "test")
    data: dict[str, Any] = {"moves": [], "refused": []}
    list(rebalancing._work(turn, Rebalance(token=1), data))
    assert (data["moves"], data["stopped"]) == ([], "LargeLoss")


class Planned(Loaded):
    """A rebalancing that has chosen its moves and has not begun them."""

    def __init__(self) -> None:
        super().__init__(2)
        self.place("web", a0=6)
        self.offer_rest()
        turn = self.core.turn_context
        turn.start(self.now, "test")
        self.data: dict[str, Any] = {"moves": [], "refused": []}
        self.work = rebalancing._work(turn, Rebalance(token=1), self.data)
        while rebalancing._Begun not in self.seen():
            next(self.work)

    def seen(self) -> set[type]:
        """Types of the values that the work keeps."""
        return {type(value) for value in self.work.gi_frame.f_locals.values()}  # type: ignore[attr-defined]

    def rest(self) -> dict[str, Any]:
        """The data of the answer, after the rest of the work."""
        for _ in self.work:
            pass
        return self.data


def test_moves_that_became_impossible_do_not_begin() -> None:
    plan = Planned()
    assert len(plan.rest()["moves"]) == 2
    plan = Planned()
    plan.set_agent("a1", disabled=True)
    assert_refused(plan, "the new agent has no room any more")
    plan = Planned()
    plan.core.turn_context.pool.hand.remove_agent("a1")
    assert_refused(plan, "the taskgroup or its new agent is gone")
    plan = Planned()
    plan.core.turn_context.uow.put(msgspec.structs.replace(plan.known, restart_policy=RestartPolicy(policy="Never")))
    assert_refused(plan, "the taskgroup may not move any more")
    plan = Planned()
    plan.core.turn_context.rebalancings += 1
    assert_refused(plan, rebalancing.WORDS["MovesInProgress"])


def assert_refused(plan: Planned, reason: str) -> None:
    """All moves but one that had begun already are refused, and the answer has the measure without them."""
    begun = len(plan.data["moves"])
    data = plan.rest()
    assert len(data["moves"]) == begun
    assert {one["reason"] for one in data["refused"]} == {reason}
    gains = sum(move["gain"] for move in data["moves"])
    assert data["before"] - data["after"] == pytest.approx(gains, abs=1e-5)


def test_a_rebalancing_requests_the_offers_that_were_declined() -> None:
    lab = Loaded(2)
    lab.place("web", a0=6)
    lab.offer_rest()
    lab.wait(30.0)
    assert lab.core._offer_manager._suppressed or lab.core._offer_manager._refused
    units = lab.core.turn([Rebalance(token=77)], lab.now)
    sent = [effect for unit in units for effect in unit.effects]
    assert any(isinstance(effect, leased.Revive) for effect in sent)
    lab.offer_rest()
    assert not any(isinstance(effect, effects.Reply) for effect in sent)
    lab.now += GATHER
    units = [unit for _ in range(50) for unit in lab.core.turn([], lab.now)]
    (reply,) = [effect for unit in units for effect in unit.effects if isinstance(effect, effects.Reply)]
    assert len(reply.data["moves"]) == 2


def test_moves_and_gain_must_be_positive() -> None:
    lab = Loaded(1)
    lab.offer_rest()
    for fields in ({"moves": 0}, {"gain": 0.0}, {"gain": float("nan")}):
        assert lab.rebalance(**fields).error == "invalid"


@pytest.mark.parametrize("seed", range(share(40)))
def test_random_clusters_are_never_worse_and_end(seed: int) -> None:
    chance = random.Random(seed)
    goal = chance.choice(("pack", "spread"))
    lab = Loaded(chance.randint(2, 4))
    for name in ("one", "two"):
        lab.bound = 1
        agents = chance.sample(list(lab.listed), chance.randint(1, len(lab.listed)))
        lab.place(name, **{agent: chance.randint(1, 3) for agent in agents})
    lab.offer_rest()
    measures: list[float] = []
    for _ in range(40):
        data = lab.rebalance(goal=goal, moves=chance.randint(1, 3), gain=0.005).data
        measures.append(data["before"])
        if not data["moves"]:
            break
        lab.play()
    else:
        raise AssertionError("does not end")
    assert data["stopped"] == "GainBelowBound"
    assert measures == sorted(measures, reverse=goal == "spread")


# --- the controller -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("goal", "end"), [("spread", [4, 3, 3]), ("pack", [10, 0, 0])])
def test_the_controller_comes_to_the_goal_by_itself_and_then_rests(goal: str, end: list[int]) -> None:
    settings = {"rebalance": goal, "rebalance_period": 20.0, "rebalance_gain": 0.001}
    lab = Loaded(3, settings=settings)
    lab.place("web", a0=7, a1=1, a2=2)

    def moves() -> int:
        return [t.type for t in lab.core.state.transactions.values()].count("RESCHEDULE")

    known = [0]
    for _ in range(400):
        lab.offer_rest()
        lab.wait(1.0)
        lab.play()
        known.append(moves())
    assert sorted(lab.used(), reverse=True) == end
    assert known[200] == known[-1] > 0


def test_the_controller_is_off_without_the_setting() -> None:
    lab = Loaded(2)
    lab.place("web", a0=6)
    for _ in range(3):
        lab.offer_rest()
        lab.wait(400.0)
    assert lab.used() == [6, 0]


def test_the_controller_rests_during_a_large_loss() -> None:
    lab = Loaded(2, settings={"rebalance": "spread", "rebalance_period": 60.0})
    lab.place("web", a0=6)
    halt = LossHalt(since=lab.now, agents=5, taskgroups=9, total=10)
    uow = lab.core.turn_context.uow
    uow.put(msgspec.structs.replace(lab.core.state.framework, halt=halt))
    controller = next(c for p in lab.core._controllers if isinstance(c := p.controller, Rebalancer))
    lab.core.turn_context.now = lab.now + 60.0
    controller.tick()
    assert controller.next_timer() == lab.now + 120.0


def test_a_round_stops_where_the_time_of_the_turn_is_used_up() -> None:
    lab = Loaded(2, settings={"rebalance": "spread", "rebalance_period": 60.0})
    lab.place("web", a0=6)
    lab.offer_rest()
    controller = next(c for p in lab.core._controllers if isinstance(c := p.controller, Rebalancer))
    turn = lab.core.turn_context
    turn.context.time_is_up = lambda: True
    turn.start(lab.now + 60.0, "turn")
    controller.tick()
    turn.start(lab.now + 60.0 + GATHER, "turn")
    steps = 0
    while turn.now < (controller.next_timer() or 0.0) or not steps or controller._steps is not None:
        controller.tick()
        steps += 1
        assert steps < 1000
        if controller._steps is None:
            break
    assert steps > 3
    assert [t.type for t in lab.core.state.transactions.values()].count("RESCHEDULE") == 2
