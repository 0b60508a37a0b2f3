"""No step of the core costs more because of objects that it does not concern.

Every kind of event and command is carried out in a core with 1,000 and in one with 50,000 running taskgroups. Two
figures are compared. Lines of Python that are executed are exact and find every loop written in Python. Processor time
finds the loops inside C (copies of dictionaries, sums, sorts) as well; of several runs, which take turns between the
two cores, the smallest counts, so the load of the machine matters little.
"""

from __future__ import annotations

import gc
import itertools
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from bcs_scheduler.api.views.applications import show_application
from bcs_scheduler.api.views.explain import explain_application
from bcs_scheduler.core.controllers.cluster import reconciler
from bcs_scheduler.core.interface import cluster_manager, inputs, leased, managed, requests, unknown
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.hierarchy import trees
from bcs_scheduler.core.placement.placer import Mode
from bcs_scheduler.core.placement.snapshots import role
from benchmarks.synthetic import HUGE, PER_AGENT, SPACE, START, World, agent_name, version
from benchmarks.whatif import POLICIES
from store.records import Service, ServicePort
from tests.counting import lines
from tests.unit.costcases import CASES, Case
from tests.unit.spenttime import Spent

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

SMALL, LARGE = 1_000, 50_000
MOST_LINES = 1.1
"""Ratio of the lines executed: heaps and the like may be a little deeper."""
MOST_TIME = 1.5
MOST_TIME_EACH = 4.0
"""The same for what concerns every agent or taskgroup, by the piece: 50,000 objects are in no cache, 1,000 are."""
FLOOR = 100e-6
"""Seconds of processor time that may come on top: one pass of numpy over 5,000 agents takes that long, and memory that
is in no cache costs more in the large core. To copy or sum up 50,000 objects takes longer."""
ASKED_FLOOR = 10e-6
"""The same for a question that is answered from what is known."""
RUNS = 7
ROUNDS = 4
"""How often a turn is measured anew while the ratio is above its bound: processes beside this one push its memory out
of the caches, which costs the large core more. The least times count."""
UNSEEN = {
    inputs.Input, requests.Request, requests.Creation, requests.Put, requests.OfObject, requests.ChangeTree,
    cluster_manager.Superseded,
    # A change of the tree of queues is about all applications that the tree has.
    requests.PutQueueTree, requests.RollbackQueueTree, requests.SetQueueState,
    # A rebalancing is about all agents; its plan is made in slices.
    requests.Rebalance,
}  # fmt: skip
"""Bases, and what is for the term only."""
Worlds = tuple[World, World]


@pytest.fixture(scope="module")
def worlds() -> Iterator[Worlds]:
    pair = (World(SMALL), World(LARGE))
    gc.collect()
    gc.freeze()
    yield pair
    gc.unfreeze()


def test_every_kind_of_event_and_command_has_a_case() -> None:
    kinds = {
        kind
        for module in (inputs, cluster_manager, leased, requests, requests, requests, managed, unknown)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, inputs.Input)
    }
    assert kinds - UNSEEN == {case.kind for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_cost_of_an_event_does_not_depend_on_the_size_of_the_cluster(worlds: Worlds, case: Case) -> None:
    lines = [_lines(world, case) / case.share(world) for world in worlds]
    shares = [case.share(world) for world in worlds]
    most = MOST_TIME if shares[1] == 1 else MOST_TIME_EACH
    small, large = _times(worlds, case, most, FLOOR)
    assert lines[1] <= MOST_LINES * lines[0], f"lines executed: {lines[0]:.0f} and {lines[1]:.0f}"
    assert large <= most * small + FLOOR / shares[1], (
        f"processor time: {small * 1e6:.0f} and {large * 1e6:.0f} microseconds"
    )


WAITING = {
    "a_task_starts",
    "a_report_that_changes_nothing",
    "a_task_fails",
    "a_task_is_unreachable",
    "create_application",
    "scale_up",
    "put_config_map",
    "put_secret",
    "offers_arrived",
    "offer_rescinded",
    "nothing_happens",
}
"""Cases of which it matters how many taskgroups wait for a place."""


@pytest.fixture(scope="module")
def crowded() -> Iterator[Worlds]:
    """The same cluster twice; very many launches wait for a place in the second one."""
    pair = (World(SMALL, queued=SMALL), World(SMALL, queued=LARGE))
    assert [world.core.pending for world in pair] == [SMALL, LARGE]
    assert len({world.agents for world in pair}) == 1
    gc.collect()
    gc.freeze()
    yield pair
    gc.unfreeze()


@pytest.mark.parametrize("case", [case for case in CASES if case.name in WAITING], ids=lambda case: case.name)
def test_the_cost_of_an_event_does_not_depend_on_how_many_taskgroups_wait_for_a_place(
    crowded: Worlds, case: Case
) -> None:
    lines = [_lines(world, case) for world in crowded]
    small, large = _times(crowded, case, MOST_TIME, FLOOR)
    assert lines[1] <= MOST_LINES * lines[0], f"lines executed: {lines[0]} and {lines[1]}"
    assert large <= MOST_TIME * small + FLOOR, f"processor time: {small * 1e6:.0f} and {large * 1e6:.0f} microseconds"


def test_asking_what_is_pending_does_not_walk_over_what_waits(crowded: Worlds) -> None:
    small, large = (min(_timed(partial(_pending, world)) for _ in range(RUNS)) for world in crowded)
    assert large <= MOST_TIME * small + ASKED_FLOOR


AGED = 10.0**8
"""The moment in Unix seconds at which the operations that wait in these worlds began, by their ids."""


def test_a_turn_without_old_work_costs_nothing_for_aging() -> None:
    counts = []
    for queued in (0, SMALL):
        world = World(PER_AGENT, options=CoreOptions(strict=True, offer_hold=1e6, aging=1e10), queued=queued)
        counts.append(lines(world.core._offer_manager.placing.loops[0].aging.step))
    assert counts[0] <= 5 and counts[1] <= 20


def test_work_that_becomes_old_at_once_does_so_in_bounded_steps() -> None:
    counts = []
    for queued in (SMALL, 5 * SMALL):
        options = CoreOptions(strict=True, offer_hold=1e6, aging=START + 100 - AGED)
        world = World(PER_AGENT, options=options, queued=queued)
        (placing,) = world.core._offer_manager.placing.loops
        world.core.turn_context.now = world.now + 200.0
        counts.append(lines(placing.aging.step))
    assert counts[1] <= MOST_LINES * counts[0]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_question_waits_for_bounded_turns_and_the_next_one_for_none(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (role, trees):
        monkeypatch.setattr(module, "STEP", 50)
    longest, counts = [], []
    for taskgroups in (SMALL, 4 * SMALL):
        world = World(taskgroups, options=CoreOptions(strict=True, offer_hold=1e6, **POLICIES[policy]))
        question = requests.CreateApplication(version=version(SPACE, "asked", 1), dry_run=True)
        for _ in range(2):  # at first, trees are made
            for number in range(world.agents):
                world.core.turn_context.pool.hand.remove_agent(agent_name(number))
            world.all_offers()
            answers = len(world.replies)
            turns = [lines(partial(_short_turn, world, question))]
            while len(world.replies) == answers:
                turns.append(lines(partial(_short_turn, world)))
        longest.append(max(turns))
        counts.append(lines(partial(world.turn, question)))
    assert longest[1] <= MOST_LINES * longest[0]
    assert counts[1] <= MOST_LINES * counts[0]


def _short_turn(world: World, *batch: inputs.Input) -> None:
    world.take(world.core.turn(batch, world.now, Spent()))


def _pending(world: World) -> int:
    return world.core.pending


def test_asking_when_the_next_turn_is_due_and_what_is_pending_costs_the_same(worlds: Worlds) -> None:
    for ask in (lambda w: w.core.next_wakeup(w.now), lambda w: w.core.pending, lambda w: w.core.open_questions):
        small, large = (min(_timed(partial(ask, world)) for _ in range(RUNS)) for world in worlds)
        assert large <= MOST_TIME * small + ASKED_FLOOR


@pytest.fixture(scope="module")
def served() -> Iterator[Worlds]:
    """Services with 5,000 members, more than find room in one record, and with 50,000."""
    pair = (World(FULL, each=FULL), World(LARGE, each=LARGE))
    port = ServicePort(name="http", service_port=80)
    for world in pair:
        world.turn(requests.PutService(service=Service(namespace=SPACE, name="all", selector=SERVED, ports=(port,))))
        world.rest()
        assert world.core.state.endpoints[f"{SPACE}/all"].omitted
        world.turn(after=10.0)
    gc.collect()
    gc.freeze()
    yield pair
    gc.unfreeze()


FULL = 5_000
SERVED = {"app": "app-0"}


def _member_restarts(world: World, name: str) -> tuple[inputs.Input, ...]:
    group = next(iter(world.core.state.taskgroups.values()))
    state = "RUNNING" if group.status == "Killing" or group.unreachable_since else "UNREACHABLE"
    return tuple(world.reports(group, state))


def _record_is_due(world: World, name: str) -> tuple[inputs.Input, ...]:
    """Another member changes after the time in which the record was not written again."""
    world.now += 1.0
    return _member_restarts(world, name)


@pytest.mark.parametrize("prepare", [_member_restarts, _record_is_due])
def test_the_change_of_one_member_does_not_cost_more_in_a_service_of_more_members(
    served: Worlds, prepare: Callable[[World, str], tuple[inputs.Input, ...]]
) -> None:
    case = Case(cluster_manager.StatusUpdate, "member", prepare, lambda world: 1)
    lines = [_lines(world, case) for world in served]
    small, large = _times(served, case, MOST_TIME, FLOOR)
    assert lines[1] <= MOST_LINES * lines[0], f"lines executed: {lines[0]} and {lines[1]}"
    assert large <= MOST_TIME * small + FLOOR, f"processor time: {small * 1e6:.0f} and {large * 1e6:.0f} microseconds"


# --- reads that show reasons ----------------------------------------------------------------------------------------


def _reasons(world: World, name: str) -> str:
    """What `explain` and the cell REASON say about an application."""
    state, diagnosis = world.core.state, world.core.diagnosis
    application = state.applications[f"{SPACE}/{name}"]
    found = explain_application(state, application, diagnosis, world.now)
    return f"{show_application(state, application, diagnosis, pods=False).reason}; {found.text}"


def _compare_reads(worlds: Worlds, name: str, words: str) -> None:
    assert all(words in _reasons(world, name) for world in worlds)
    counts = [lines(partial(_reasons, world, name)) for world in worlds]
    small, large = (min(_timed(partial(_reasons, world, name)) for _ in range(RUNS)) for world in worlds)
    assert counts[1] <= MOST_LINES * counts[0], f"lines executed: {counts}"
    assert large <= MOST_TIME * small + FLOOR, f"processor time: {small * 1e6:.0f} and {large * 1e6:.0f} microseconds"


def test_reasons_cost_the_same_in_a_large_cluster(worlds: Worlds) -> None:
    huge = version(SPACE, "explained", 1, containers=(HUGE,))
    for world in worlds:
        world.connected()
        world.turn(requests.CreateApplication(version=huge))
        world.rest()
    _compare_reads(worlds, "explained", "lack CPUs")
    _compare_alike(worlds[1])
    _compare_reads(worlds, "app-1", "10 of 10 taskgroups ready")
    for world in worlds:
        world.turn(requests.DeleteApplication(namespace=SPACE, name="explained", enforce=True))
        world.rest()


def test_reasons_cost_the_same_for_an_application_of_very_many_taskgroups(served: Worlds) -> None:
    for world in served:
        if not any(group.unreachable_since for group in world.core.state.unready_of(f"{SPACE}/app-0")):
            world.turn(*_member_restarts(world, ""))
    _compare_reads(served, "app-0", "is Lost: some tasks are lost")


PER_ALIKE = 40e-6
"""Seconds of processor time for a demand like one that is explained already; one pass over 5,000 agents takes more
than 100e-6."""


def _compare_alike(world: World) -> None:
    """A session explains up to 256 demands. The tests of agents are made once for each kind of them: not once for each
    demand."""
    (one,) = world.core.turn_context.engine.demands.values()
    kinds = [one._replace(request=one.request._replace(mem=one.request.mem + number)) for number in range(4)]
    gangs = [demand._replace(slots=demand.slots * 3, min_members=3) for demand in kinds]
    placer = world.core.turn_context.placer
    assert len(placer.reasons(kinds * 64, {})) == 256
    for explained in (lambda some: placer.reasons(some, {}), lambda some: placer.plan(some, Mode.DRY_RUN)):
        for few in (kinds, gangs):
            small, large = (min(_timed(partial(explained, some)) for _ in range(RUNS)) for some in (few, few * 64))
            assert large <= small + 256 * PER_ALIKE, f"{small * 1e6:.0f} and {large * 1e6:.0f} microseconds"


# --- measuring --------------------------------------------------------------------------------------------------------


def _prepared(world: World, case: Case, number: int) -> tuple[inputs.Input, ...]:
    world.after = lambda: None
    if case.kind not in (cluster_manager.Connected, cluster_manager.Disconnected, cluster_manager.RegistrationRevoked):
        world.connected()
    _finish_round(world)
    batch = case.prepare(world, f"{case.name.replace('_', '-')}-{number}")
    world.now += 0.0001
    return batch


def _finish_round(world: World) -> None:
    """A reconciliation concerns all taskgroups: it goes through some of them in each turn, whatever else happens."""
    for _ in range(LARGE // reconciler.SLICE + 1):
        if world.core.next_wakeup(world.now) > world.now:
            return
        world.turn()


def _finish(world: World, units: list[Any]) -> None:
    world.take(units)
    world.rest()
    world.after()
    world.rest()


def _lines(world: World, case: Case) -> int:
    """Lines of Python that one turn executes."""
    _finish(world, world.core.turn(_prepared(world, case, 0), world.now))  # caches fill
    batch = _prepared(world, case, 1)
    units: list[Any] = []
    count = lines(lambda: units.extend(world.core.turn(batch, world.now)))
    _finish(world, units)
    return count


def _times(worlds: Worlds, case: Case, most: float, floor: float) -> list[float]:
    """Least seconds of processor time of a turn in each of the cores, per object that it concerns."""
    shares = [case.share(world) for world in worlds]
    runs = RUNS if shares[1] == 1 else 2
    least = [math.inf, math.inf]
    numbers = itertools.count(2)
    for _ in range(ROUNDS):
        for number in itertools.islice(numbers, runs):
            for place, (world, share) in enumerate(zip(worlds, shares, strict=True)):
                batch = _prepared(world, case, number)
                units: list[Any] = []
                least[place] = min(least[place], _timed(partial(_turn, world, batch, units)) / share)
                _finish(world, units)
        if least[1] <= most * least[0] + floor / shares[1]:
            break
    return least


def _turn(world: World, batch: tuple[inputs.Input, ...], units: list[Any]) -> None:
    units += world.core.turn(batch, world.now)


def _timed(work: Callable[[], object]) -> float:
    gc.disable()
    try:
        began = time.thread_time()
        work()
        return time.thread_time() - began
    finally:
        gc.enable()
