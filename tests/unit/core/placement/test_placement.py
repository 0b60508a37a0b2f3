"""Turns that are bounded in time: placements are planned, launched in slices, fair between namespaces, and void when
their offers go."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import msgspec
import pytest

from bcs_scheduler.core.interface import cluster_manager, effects, inputs, leased, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.engines import simple
from bcs_scheduler.core.placement.placer import Mode
from offers.ledger.offered import offer_pool
from offers.matching.statement import match
from offers.model import Demand, Provisional, ResourceRequest
from offers.planned import PlannedCensus
from offers.rules.constraints import RuleSpec, compile_rules
from store.records import TaskGroup, Transaction
from store.records.definition import Constraint, UnreachablePolicy
from store.state.unit_of_work import Unit
from tests.unit.lab import KEY, Lab, version
from tests.unit.offers.matching.reference_matcher import LiveCensus
from tests.unit.test_core_offer_manager import Hasty
from transactions import groups, occupancy, resource_request
from transactions.base import Slot, Step
from transactions.engine.fair import FairQueue
from transactions.rules.task_states import TaskState


def application(name: str, namespace: str, instances: int = 1) -> requests.CreateApplication:
    wanted = msgspec.structs.replace(version(instances), application=name, namespace=namespace)
    return requests.CreateApplication(version=wanted, token=1)


def hurried(lab: Lab, *batch: inputs.Input, is_congested: bool = False) -> list[effects.Effect]:
    """One turn whose time is up at once: each part does one piece of work."""
    units: list[Unit] = lab.core.turn(batch, lab.now, Hasty(is_congested=is_congested))
    lab.out = [effect for unit in units for effect in unit.effects]  # type: ignore[misc]
    return lab.out


def turns_until(lab: Lab, done: Callable[[], bool], limit: int) -> int:
    for number in range(1, limit + 1):
        hurried(lab)
        if done():
            return number
    raise AssertionError(f"not done after {limit} turns")


def with_agents(count: int, cpus: int = 16_000) -> Lab:
    lab = Lab(CoreOptions(strict=True, offer_reserve=count))
    for number in range(count):
        lab.offer(f"agent-{number}", cpus=cpus)
    return lab


def test_a_small_launch_does_not_wait_for_a_big_one() -> None:
    lab = with_agents(300)
    hurried(lab, application("big", "crowd", 3000))
    turns_until(lab, lambda: bool(lab.sent(cluster_manager.LaunchOnAgent)), 20)
    hurried(lab, application("small", "other"))
    assert turns_until(lab, lambda: bool(lab.core.state.groups_of("other/small")), 10) <= 10
    assert len(lab.core.state.groups_of("crowd/big")) < 300, "the big launch has hardly begun"


def test_all_placements_of_an_agent_leave_in_one_accept() -> None:
    """Mesos takes an offer whole: an agent that is launched on too early is lost to the rest of the launch."""
    lab = with_agents(20)
    accepts = [
        effect
        for effect in hurried(lab, application("big", "crowd", 1000))
        if isinstance(effect, cluster_manager.LaunchOnAgent)
    ]
    while lab.core.busy:
        hurried(lab)
        accepts += lab.sent(cluster_manager.LaunchOnAgent)
    assert len(accepts) == 20
    assert {len(accept.launches) for accept in accepts} == {50}


def test_under_pressure_one_agent_is_launched_on_in_a_turn() -> None:
    class Pressed:
        def spent(self) -> float:
            return 0.0

        def is_congested(self) -> bool:
            return True

    lab = with_agents(5)
    units = lab.core.turn([application("big", "crowd", 50)], lab.now, Pressed())
    assert sum(isinstance(effect, cluster_manager.LaunchOnAgent) for unit in units for effect in unit.effects) == 1
    assert lab.core.busy
    seen = len(lab.core.state.taskgroups)
    lab.core.turn([], lab.now, Pressed())
    assert seen < len(lab.core.state.taskgroups) < 50


@pytest.mark.parametrize("loss", ["rescind", "agent", "disabled", "disconnect"])
def test_a_plan_whose_offers_are_gone_is_made_again(loss: str) -> None:
    lab = with_agents(2)
    hurried(lab, application("big", "crowd", 10))
    while lab.core._offer_manager.placing.loops[0]._untried or not lab.core._offer_manager.placing._launcher._planned:
        hurried(lab)
    planned = {agent for agent, _ in lab.core._offer_manager.placing._launcher._planned}
    assert planned, "something is planned and not launched"
    agent = min(planned)
    serial = int(agent.rpartition("-")[2]) + 1
    match loss:
        case "rescind":
            lab.turn(leased.OfferRescinded(offer_id=f"o{serial}"))
        case "agent":
            lab.turn(cluster_manager.AgentRemoved(agent_id=agent))
        case "disabled":
            lab.turn(requests.SetAgent(agent=agent, disabled=True))
        case "disconnect":
            lab.turn(cluster_manager.Disconnected())
            lab.turn(cluster_manager.Connected(framework_id="framework"))
    lab.offer("agent-9")
    groups = lab.core.state.groups_of("crowd/big").values()
    assert len(groups) == 10
    assert sorted(group.index for group in groups) == list(range(10))
    if loss != "disconnect":
        assert agent not in {group.agent_id for group in groups}
    assert not lab.core._offer_manager.placing.planning
    assert not lab.core.turn_context.census._placements


def test_a_delete_ends_what_is_planned() -> None:
    lab = with_agents(50)
    hurried(lab, application("big", "crowd", 400))
    turns_until(lab, lambda: bool(lab.sent(cluster_manager.LaunchOnAgent)), 20)
    lab.ask(requests.DeleteApplication(namespace="crowd", name="big", enforce=True, token=2))
    lab.wait(5.0)
    assert "crowd/big" not in lab.core.state.applications
    assert not lab.core._offer_manager.placing.planning
    assert lab.core.pending == 0


def test_constraints_count_what_is_planned() -> None:
    """Two turns of matching, nothing launched in between: the second must know of the first."""
    unique = ((Constraint(name="hostname", operator="UNIQUE"),),)
    lab = with_agents(3)
    one = msgspec.structs.replace(version(2, constraints=unique))
    lab.core.turn([requests.CreateApplication(version=one, token=1)], lab.now, Hasty(is_congested=True))
    lab.core.turn([requests.ScaleApplication(namespace="default", name="web", instances=3, token=2)], lab.now, Hasty())
    lab.turn()
    lab.scale(3)
    hosts = [group.hostname for group in lab.core.state.groups_of(KEY).values()]
    assert len(set(hosts)) == len(hosts)


def ended_operations(lab: Lab, key: str) -> list[Transaction]:
    """Without the FILL that waits for its time."""
    return [t for t in lab.core.state.transactions_of(key).values() if not t.active]


def test_a_taskgroup_that_cannot_be_written_ends_its_own_operation_only(monkeypatch: pytest.MonkeyPatch) -> None:
    build = groups.build

    def failing(ctx, application, version, slot, placement, transaction):  # type: ignore[no-untyped-def]
        if application.name == "cursed":
            raise RuntimeError("cannot be written")
        return build(ctx, application, version, slot, placement, transaction)

    monkeypatch.setattr(groups, "build", failing)
    lab = Lab(CoreOptions())
    lab.offer(cpus=100_000)
    lab.turn(application("one", "a", 3), application("cursed", "b", 2), application("two", "a", 3))
    for _ in range(5):
        lab.offer(cpus=100_000)
    assert len(lab.core.state.groups_of("a/one")) == len(lab.core.state.groups_of("a/two")) == 3
    assert not lab.core.state.groups_of("b/cursed")
    (transaction,) = ended_operations(lab, "b/cursed")
    assert transaction.status == "FAIL"
    assert transaction.message == "internal error: RuntimeError; the log has the rest"


def test_a_demand_that_cannot_be_matched_ends_its_own_operation_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from bcs_scheduler.core.placement import placer as placement

    def failing(demands, *rest, **more):  # type: ignore[no-untyped-def]
        if any(demand.application == "b/cursed" for demand in demands):
            raise RuntimeError("cannot be matched")
        return match(demands, *rest, **more)

    monkeypatch.setattr(placement, "match", failing)
    lab = Lab(CoreOptions())
    lab.offer(cpus=100_000)
    lab.turn(application("one", "a", 3), application("cursed", "b", 2), application("two", "a", 3))
    assert len(lab.core.state.groups_of("a/one")) == len(lab.core.state.groups_of("a/two")) == 3
    (transaction,) = ended_operations(lab, "b/cursed")
    assert transaction.status == "FAIL"


@pytest.mark.parametrize("enforce", [False, True])
def test_a_big_delete_takes_many_turns_and_ends_everything(enforce: bool) -> None:
    lab = with_agents(5, cpus=100_000)
    lab.create(200)
    lab.run()
    groups = lab.groups
    hurried(lab, requests.DeleteApplication(namespace="default", name="web", enforce=enforce, token=3))

    def marked() -> int:
        return sum(bool(group.killing_since) for group in lab.groups) + 200 - len(lab.groups)

    assert 0 < marked() < 200
    while lab.core.busy:
        hurried(lab)
    assert marked() == 200
    for group in groups:
        lab.report(group, "KILLED")
    lab.wait(2.0)
    assert KEY not in lab.core.state.applications


def test_a_big_scale_down_takes_many_turns() -> None:
    lab = with_agents(5, cpus=100_000)
    lab.create(200)
    lab.run()
    hurried(lab, requests.ScaleApplication(namespace="default", name="web", instances=10, token=3))

    def ending() -> int:
        return sum(bool(group.killing_since) for group in lab.groups)

    assert 0 < ending() < 190
    while lab.core.busy:
        hurried(lab)
    assert ending() == 190
    lab.run()
    assert len(lab.groups) == 10
    assert lab.application.status == "Running"


def test_a_fair_queue_serves_lanes_in_turn_and_classes_in_order() -> None:
    queue: FairQueue[str] = FairQueue(classes=2)
    for number in range(3):
        queue.push("a", f"a{number}", 1)
    queue.push("b", "b0", 1)
    queue.push("a", "urgent", 0)
    queue.push("a", "a1", 1)
    assert len(queue) == 5
    queue.discard("a", "a2", 1)
    queue.discard("a", "never there")
    assert [item for _, item in queue] == ["urgent", "a0", "a1", "b0"]
    taken = []
    while (found := queue.pop()) is not None:
        taken.append(found[2])
    assert taken == ["urgent", "b0", "a0", "a1"]
    assert len(queue) == 0


@pytest.mark.costs
def test_an_item_of_a_long_queue_is_taken_as_fast_as_one_of_a_short_queue() -> None:
    few, many = 1_000, 50_000
    costs = {few: math.inf, many: math.inf}
    for _ in range(3):
        for size in costs:
            queue: FairQueue[str] = FairQueue()
            for number in range(size):
                queue.push("a", f"a{number}")
            began = time.thread_time()
            taken = sum(queue.pop() is not None for _ in range(size))
            costs[size] = min(costs[size], (time.thread_time() - began) / size)
            assert taken == size
    assert costs[many] <= 4.0 * costs[few], costs  # 50,000 items are in no cache


def test_the_planned_census_counts_until_a_placement_is_removed() -> None:
    pool = offer_pool()
    lab = with_agents(2)
    for offer in lab.core.offers():
        pool.hand.add(offer)
    rules = compile_rules([[RuleSpec(name="hostname", operator="MAXPER", items=("1",), number=1, limit=1)]], [])
    demand = Demand("d", "ns/a", (0, 1), ResourceRequest(cpus=100, extended=(("gpu", 5),)), rules, labels=("tier:web",))
    plain = demand._replace(rules=compile_rules([], []), request=ResourceRequest(cpus=100))
    census = PlannedCensus(LiveCensus([]))
    placements = match([plain], pool, census).placements
    for placement in placements:
        census.add(demand, placement)
    assert census.total("ns/a") == 2
    assert sum(census.attribute_counts("ns/a", "hostname").values()) == 2
    assert set(census.agents_with_label("tier:web", "ns/b")) == {placement.agent_id for placement in placements}
    assert not census.agents_with_label("tier:web", "ns/a")
    assert sum(census.extended_used(placement.agent_id, "gpu") for placement in placements) == 10
    census.remove(demand, placements[0])
    assert census.total("ns/a") == 1
    assert dict(census.attribute_counts("ns/a", "hostname")) == {placements[1].hostname: 1}
    census.remove(demand, placements[1])
    assert census.total("ns/a") == 0
    assert not census.attribute_counts("ns/a", "hostname")
    assert not census.agents_with_label("tier:web", "ns/b")


class Slowing:
    """A pace whose time is up after it has been asked for so many times."""

    def __init__(self, times: int) -> None:
        self._left = times

    def spent(self) -> float:
        self._left -= 1
        return 0.0 if self._left >= 0 else 2.0

    def is_congested(self) -> bool:
        return False


def test_a_taskgroup_that_runs_again_is_not_replaced_by_a_plan_made_before() -> None:
    lab = Lab()
    lab.offer()
    lab.create(4, unreachable_policy=UnreachablePolicy(replace_after=30.0))
    lab.run()
    for group in lab.groups:
        lab.report(group, "UNREACHABLE")
    lab.wait(31.0)
    assert lab.core.pending == 4
    arrived: list[leased.OffersArrived] = []
    lab.turn = lambda *batch: arrived.extend(batch)  # type: ignore[method-assign, assignment]
    for number in range(4):
        lab.offer(f"other-{number}", cpus=150)
    hurried(lab, leased.OffersArrived(offers=tuple(offer for event in arrived for offer in event.offers)))
    if not lab.sent(cluster_manager.LaunchOnAgent):
        turns_until(lab, lambda: bool(lab.sent(cluster_manager.LaunchOnAgent)), 20)
    left = [group for group in lab.groups if group.unreachable_since]
    assert lab.core._offer_manager.placing.planning, "replacements are planned and not launched"
    # Both are back; there is time for the step of one operation only before the next launch.
    back = [report_of(group, "RUNNING") for group in left]
    lab.core.turn(back, lab.now, Slowing(len(back)))
    while lab.core.busy:
        hurried(lab)
    assert {group.id for group in left} <= {group.id for group in lab.groups}
    assert len(lab.groups) == 4
    assert not lab.core._offer_manager.placing.planning


def report_of(group: TaskGroup, state: str) -> cluster_manager.StatusUpdate:
    return cluster_manager.StatusUpdate(
        task_id=group.tasks[0].id, state=TaskState(state), agent_id=group.agent_id, uuid=b"u"
    )


# --- gangs, and plans beside each other ---------------------------------------------------------------------------


def test_a_gang_waits_for_its_minimum_and_others_get_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simple, "SLICE", 2)
    lab = Lab()
    gang = msgspec.structs.replace(version(5, min_available=3), application="gang", namespace="a")
    lab.turn(requests.CreateApplication(version=gang, token=1), application("plain", "b", 1))
    lab.offer(cpus=250)
    assert not lab.core.state.groups_of("a/gang")
    assert len(lab.core.state.groups_of("b/plain")) == 1
    (transaction,) = lab.core.state.transactions_of("a/gang").values()
    diagnosis = lab.core.diagnosis(transaction.id)
    assert diagnosis is not None
    assert (diagnosis.placed, diagnosis.min_members) == (0, 3)
    lab.offer(cpus=450)
    assert len(lab.core.state.groups_of("a/gang")) == 4, "the gang is not cut below its minimum by slices"
    lab.offer(cpus=150)
    assert len(lab.core.state.groups_of("a/gang")) == 5, "the rest of a gang that runs may be placed alone"


def test_who_uses_an_agent_is_known_before_and_after_the_launch() -> None:
    lab = with_agents(2)
    hurried(lab, application("one", "a", 10))
    while not lab.core._offer_manager.placing.planning:
        hurried(lab)
    pool = lab.core.turn_context.pool
    ((agent, _), *_) = lab.core._offer_manager.placing._launcher._planned
    planned = pool.occupants(agent)
    assert planned
    assert all(isinstance(occupant.unit, Provisional) and occupant.allocation is not None for occupant in planned)
    while lab.core.busy:
        hurried(lab)
    groups = {group.id: group for group in lab.core.state.groups_on(agent).values()}
    found = pool.occupants(agent)
    assert [occupant.unit for occupant in found] == sorted(groups)
    assert len(found) == len(planned)
    for running, claimed in zip(found, planned, strict=True):
        assert running.application == claimed.application == "a/one"
        assert running.amounts == claimed.amounts
        assert running.counted["hostname"] == claimed.counted["hostname"]
        assert running.allocation is None


def test_plans_of_a_rehearsal_see_each_other_and_leave_nothing() -> None:
    lab = Lab()
    lab.create(1)
    lab.offer(cpus=100)
    (group,) = lab.groups
    lab.offer(cpus=200)
    turn = lab.core.turn_context
    wanted = turn.state.version(group.namespace + "/" + group.application, group.version)
    assert wanted is not None
    step = Step(slots=(Slot(5), Slot(6)))
    demands = [resource_request.demand(name, wanted, step, "*", resource_request.EXECUTOR) for name in ("one", "two")]
    before = turn.pool.hand.amounts(group.agent_id, "*"), list(turn.pool.claims(group.agent_id, "*"))
    with turn.placer.trial() as trial:
        assert len(trial.plan(demands[:1]).placements) == 2
        assert not trial.plan(demands[1:]).placements
        gone = occupancy.occupant(turn.state, turn.agents, group)
        assert len(turn.placer.suppose(demands[1:], (gone,), trial).placements) == 1
        assert not turn.placer.suppose(demands[1:], (), trial).placements
    assert len(turn.placer.plan(demands[1:], Mode.DRY_RUN).placements) == 2
    assert (turn.pool.hand.amounts(group.agent_id, "*"), turn.pool.claims(group.agent_id, "*")) == before
    assert len(turn.placer.suppose(demands[1:], (gone,)).placements) == 2
