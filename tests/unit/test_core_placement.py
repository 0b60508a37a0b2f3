"""Turns that are bounded in time: placements are planned, launched in slices, fair between namespaces, and void when
their offers go."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from bcs_scheduler.core import effects, events
from bcs_scheduler.core.desk import CoreOptions
from offers.constraints import RuleSpec, compile_rules
from offers.matcher import match
from offers.model import Demand, Need
from offers.planned import PlannedCensus
from offers.pool import OfferPool
from store.definition import Constraint, UnreachablePolicy
from store.records import TaskGroup
from store.unit_of_work import Unit
from tests.unit.lab import KEY, Lab, version
from tests.unit.reference_matcher import LiveCensus
from tests.unit.test_core_supply import Hasty
from transactions import engine as engine_module
from transactions.fair import FairQueue


def application(name: str, namespace: str, instances: int = 1) -> events.CreateApplication:
    wanted = msgspec.structs.replace(version(instances), application=name, namespace=namespace)
    return events.CreateApplication(version=wanted, token=1)


def hurried(lab: Lab, *batch: events.Event, pressed: bool = False) -> list[effects.Effect]:
    """One turn whose time is up at once: each part does one piece of work."""
    units: list[Unit] = lab.core.turn(batch, lab.now, Hasty(pressed=pressed))
    lab.out = [effect for unit in units for effect in unit.effects]  # type: ignore[misc]
    return lab.out


def turns_until(lab: Lab, done: Callable[[], bool], limit: int) -> int:
    for number in range(1, limit + 1):
        hurried(lab)
        if done():
            return number
    raise AssertionError(f"not done after {limit} turns")


def with_agents(count: int, cpus: int = 16_000) -> Lab:
    lab = Lab()
    for number in range(count):
        lab.offer(f"agent-{number}", cpus=cpus)
    return lab


def test_a_small_launch_does_not_wait_for_a_big_one() -> None:
    lab = with_agents(300)
    hurried(lab, application("big", "crowd", 3000))
    turns_until(lab, lambda: bool(lab.sent(effects.Accept)), 20)
    hurried(lab, application("small", "other"))
    small = lambda: lab.core.state.groups_of("other/small")  # noqa: E731
    assert turns_until(lab, lambda: bool(small()), 10) <= 10
    assert len(lab.core.state.groups_of("crowd/big")) < 300, "the big launch has hardly begun"


def test_all_placements_of_an_agent_leave_in_one_accept() -> None:
    """Mesos takes an offer whole: an agent that is launched on too early is lost to the rest of the launch."""
    lab = with_agents(20)
    accepts = [
        effect for effect in hurried(lab, application("big", "crowd", 1000)) if isinstance(effect, effects.Accept)
    ]
    while lab.core.busy:
        hurried(lab)
        accepts += lab.sent(effects.Accept)
    assert len(accepts) == 20
    assert {len(accept.launches) for accept in accepts} == {50}


def test_under_pressure_one_agent_is_launched_on_in_a_turn() -> None:
    class Pressed:
        def spent(self) -> float:
            return 0.0

        def pressed(self) -> bool:
            return True

    lab = with_agents(5)
    units = lab.core.turn([application("big", "crowd", 50)], lab.now, Pressed())
    assert sum(isinstance(effect, effects.Accept) for unit in units for effect in unit.effects) == 1
    assert lab.core.busy
    seen = len(lab.core.state.taskgroups)
    lab.core.turn([], lab.now, Pressed())
    assert seen < len(lab.core.state.taskgroups) < 50


@pytest.mark.parametrize("loss", ["rescind", "agent", "disabled", "disconnect"])
def test_a_plan_whose_offers_are_gone_is_made_again(loss: str) -> None:
    lab = with_agents(2)
    hurried(lab, application("big", "crowd", 10))
    while lab.core._supply.placer._untried or not lab.core._supply.placer._planned:
        hurried(lab)
    planned = {agent for agent, _ in lab.core._supply.placer._planned}
    assert planned, "something is planned and not launched"
    agent = min(planned)
    serial = int(agent.rpartition("-")[2]) + 1
    match loss:
        case "rescind":
            lab.turn(events.OfferRescinded(offer_id=f"o{serial}"))
        case "agent":
            lab.turn(events.AgentRemoved(agent_id=agent))
        case "disabled":
            lab.turn(events.SetAgent(agent=agent, disabled=True))
        case "disconnect":
            lab.turn(events.Disconnected())
            lab.turn(events.Subscribed(framework_id="framework"))
    lab.offer("agent-9")
    groups = lab.core.state.groups_of("crowd/big").values()
    assert len(groups) == 10
    assert sorted(group.index for group in groups) == list(range(10))
    if loss != "disconnect":
        assert agent not in {group.agent_id for group in groups}
    assert not lab.core._supply.placer.planning
    assert not lab.core.desk.census._placements


def test_a_delete_ends_what_is_planned() -> None:
    lab = with_agents(50)
    hurried(lab, application("big", "crowd", 400))
    turns_until(lab, lambda: bool(lab.sent(effects.Accept)), 20)
    lab.ask(events.DeleteApplication(namespace="crowd", name="big", enforce=True, token=2))
    lab.wait(5.0)
    assert "crowd/big" not in lab.core.state.applications
    assert not lab.core._supply.placer.planning
    assert lab.core.pending == 0


def test_constraints_count_what_is_planned() -> None:
    """Two turns of matching, nothing launched in between: the second must know of the first."""
    unique = ((Constraint(name="hostname", operator="UNIQUE"),),)
    lab = with_agents(3)
    one = msgspec.structs.replace(version(2, constraints=unique))
    lab.core.turn([events.CreateApplication(version=one, token=1)], lab.now, Hasty(pressed=True))
    lab.core.turn([events.ScaleApplication(namespace="default", name="web", instances=3, token=2)], lab.now, Hasty())
    lab.turn()
    lab.scale(3)
    hosts = [group.hostname for group in lab.core.state.groups_of(KEY).values()]
    assert len(set(hosts)) == len(hosts)


def test_a_taskgroup_that_cannot_be_written_ends_its_own_operation_only(monkeypatch: pytest.MonkeyPatch) -> None:
    build = engine_module.groups.build

    def failing(ctx, application, version, slot, placement, transaction):  # type: ignore[no-untyped-def]
        if application.name == "cursed":
            raise RuntimeError("cannot be written")
        return build(ctx, application, version, slot, placement, transaction)

    monkeypatch.setattr(engine_module.groups, "build", failing)
    lab = Lab(CoreOptions())
    lab.offer(cpus=100_000)
    lab.turn(application("one", "a", 3), application("cursed", "b", 2), application("two", "a", 3))
    for _ in range(5):
        lab.offer(cpus=100_000)
    assert len(lab.core.state.groups_of("a/one")) == len(lab.core.state.groups_of("a/two")) == 3
    assert not lab.core.state.groups_of("b/cursed")
    (transaction,) = lab.core.state.transactions_of("b/cursed").values()
    assert transaction.status == "FAIL"
    assert "cannot be written" in transaction.message


def test_a_demand_that_cannot_be_matched_ends_its_own_operation_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from bcs_scheduler.core import placement

    def failing(demands, *rest, **more):  # type: ignore[no-untyped-def]
        if any(demand.application == "b/cursed" for demand in demands):
            raise RuntimeError("cannot be matched")
        return match(demands, *rest, **more)

    monkeypatch.setattr(placement, "match", failing)
    lab = Lab(CoreOptions())
    lab.offer(cpus=100_000)
    lab.turn(application("one", "a", 3), application("cursed", "b", 2), application("two", "a", 3))
    assert len(lab.core.state.groups_of("a/one")) == len(lab.core.state.groups_of("a/two")) == 3
    (transaction,) = lab.core.state.transactions_of("b/cursed").values()
    assert transaction.status == "FAIL"


@pytest.mark.parametrize("enforce", [False, True])
def test_a_big_delete_takes_many_turns_and_ends_everything(enforce: bool) -> None:
    lab = with_agents(5, cpus=100_000)
    lab.create(200)
    lab.run()
    groups = lab.groups
    hurried(lab, events.DeleteApplication(namespace="default", name="web", enforce=enforce, token=3))
    marked = lambda: sum(bool(group.killing_since) for group in lab.groups) + 200 - len(lab.groups)  # noqa: E731
    assert 0 < marked() < 200
    while lab.core.busy:
        hurried(lab)
    assert marked() == 200
    for group in groups:
        lab.report(group, "TASK_KILLED")
    lab.wait(2.0)
    assert KEY not in lab.core.state.applications


def test_a_big_scale_down_takes_many_turns() -> None:
    lab = with_agents(5, cpus=100_000)
    lab.create(200)
    lab.run()
    hurried(lab, events.ScaleApplication(namespace="default", name="web", instances=10, token=3))
    ending = lambda: sum(bool(group.killing_since) for group in lab.groups)  # noqa: E731
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


def test_the_planned_census_counts_until_a_placement_is_removed() -> None:
    pool = OfferPool()
    lab = with_agents(2)
    for offer in lab.core.offers():
        pool.add(offer)
    rules = compile_rules([[RuleSpec(name="hostname", operator="MAXPER", items=("1",), number=1, limit=1)]], [])
    demand = Demand("d", "ns/a", (0, 1), Need(cpus=100, extended=(("gpu", 5),)), rules, labels=("tier:web",))
    plain = demand._replace(rules=compile_rules([], []), need=Need(cpus=100))
    census = PlannedCensus(LiveCensus([]))
    placements = match([plain], pool, census).placements
    for placement in placements:
        census.add(demand, placement)
    assert census.total("ns/a") == 2
    assert sum(census.attribute_counts("ns/a", "hostname").values()) == 2
    assert census.agents_with_label("tier:web", "ns/b") == {placement.agent_id for placement in placements}
    assert census.agents_with_label("tier:web", "ns/a") == frozenset()
    assert sum(census.extended_used(placement.agent_id, "gpu") for placement in placements) == 10
    census.remove(demand, placements[0])
    assert census.total("ns/a") == 1
    assert dict(census.attribute_counts("ns/a", "hostname")) == {placements[1].hostname: 1}
    census.remove(demand, placements[1])
    assert census.total("ns/a") == 0
    assert not census.attribute_counts("ns/a", "hostname")
    assert census.agents_with_label("tier:web", "ns/b") == frozenset()


class Slowing:
    """A pace whose time is up after it has been asked for so many times."""

    def __init__(self, times: int) -> None:
        self._left = times

    def spent(self) -> float:
        self._left -= 1
        return 0.0 if self._left >= 0 else 2.0

    def pressed(self) -> bool:
        return False


def test_a_taskgroup_that_runs_again_is_not_replaced_by_a_plan_made_before() -> None:
    lab = Lab()
    lab.offer()
    lab.create(4, unreachable_policy=UnreachablePolicy(replace_after=30.0))
    lab.run()
    for group in lab.groups:
        lab.report(group, "TASK_UNREACHABLE")
    lab.wait(31.0)
    assert lab.core.pending == 4
    arrived: list[events.OffersArrived] = []
    lab.turn = lambda *batch: arrived.extend(batch)  # type: ignore[method-assign]
    for number in range(4):
        lab.offer(f"other-{number}", cpus=150)
    hurried(lab, events.OffersArrived(offers=tuple(offer for event in arrived for offer in event.offers)))
    if not lab.sent(effects.Accept):
        turns_until(lab, lambda: bool(lab.sent(effects.Accept)), 20)
    left = [group for group in lab.groups if group.unreachable_since]
    assert lab.core._supply.placer.planning, "replacements are planned and not launched"
    # Both are back; there is time for the step of one operation only before the next launch.
    back = [report_of(group, "TASK_RUNNING") for group in left]
    lab.core.turn(back, lab.now, Slowing(len(back)))
    while lab.core.busy:
        hurried(lab)
    assert {group.id for group in left} <= {group.id for group in lab.groups}
    assert len(lab.groups) == 4
    assert not lab.core._supply.placer.planning


def report_of(group: TaskGroup, state: str) -> events.StatusUpdate:
    return events.StatusUpdate(task_id=group.tasks[0].id, state=state, agent_id=group.agent_id, uuid=b"u")
