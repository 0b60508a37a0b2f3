"""Standing capacity in the simulated world: some seeds hold, and faults put in on purpose are noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from bcs_scheduler.core.placement.source import Facts
from offers.ledger.nodes import Node, Nodes
from offers.ledger.table import Row
from offers.ledger.usage import AgentUse, Kind, Sending, UnitClaim, Usage
from offers.policy.applications.gang import Gang
from offers.policy.applications.placeholders import Nominations
from offers.policy.hierarchy.state.nodes import Nodes as TreeNodes
from offers.policy.session.plugins.nodeorder import Scores
from tests.effort import share
from tests.simulation.standing import scheduler
from tests.simulation.standing.cluster import Unit
from tests.simulation.standing.gangs import Gangs
from tests.simulation.standing.simulation import FAULTS, OPERATIONS, Simulation, simulate
from tests.simulation.standing.source import QUEUES, TREE, Pods, Work
from tests.simulation.violation import Violation

RESERVED = Gang.reserved
STEPS = 150
MUST_HAPPEN = (
    "asked for",
    "claims that do not stand",
    "fault: answer lost",
    "fault: request lost",
    "nominations",
    *(f"fault: {fault}" for fault in FAULTS),
    *(f"operation: {operation}" for _, operation in OPERATIONS),
)
"""Without these a clean run proves little."""


@pytest.mark.rotating
def test_no_agent_is_overcommitted_and_nothing_is_counted_twice_or_lost() -> None:
    counts: Counter[str] = Counter()
    for seed in range(1, 1 + share(16, 2)):
        result = simulate(seed, STEPS)
        assert result.violation is None, f"seed {seed}: {result.violation}\n" + "\n".join(result.story)
        counts.update(result.counts)
    missing = [name for name in MUST_HAPPEN if not counts[name]]
    assert not missing, f"never happened: {missing}"
    assert counts["units placed"] > 200


def test_a_seed_replays_exactly() -> None:
    assert simulate(3, 60).counts == simulate(3, 60).counts


def _foreign_units_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    honest = AgentUse.count

    def careless(self: AgentUse, holding: Any, step: int) -> None:
        honest(self, holding._replace(amounts=()) if holding.kind is Kind.FOREIGN else holding, step)

    patch.setattr(AgentUse, "count", careless)


def _claims_expire(patch: pytest.MonkeyPatch) -> None:
    honest = Usage.due

    def careless(self: Usage, now: float, timeout: float) -> list[UnitClaim]:
        found = honest(self, now, timeout)
        for allocation in found:
            self._drop(allocation.unit)
            self._recount(allocation.unit)
        return []

    patch.setattr(Usage, "due", careless)


def _nobody_is_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Usage, "due", lambda self, now, timeout: [])


def _a_list_ends_claims(patch: pytest.MonkeyPatch) -> None:
    honest = Usage.all_seen

    def careless(self: Usage, users: Any) -> None:
        honest(self, users)
        for unit in [unit for unit, allocation in self._claims.items() if allocation.sending is not Sending.ASSUMED]:
            self._drop(unit)
            self._recount(unit)

    patch.setattr(Usage, "all_seen", careless)


def _claims_are_sent_whatever_others_have_done(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Nodes, "stands", lambda self, unit: True)


def _what_ends_is_free_at_once(patch: pytest.MonkeyPatch) -> None:
    honest = AgentUse.count

    def careless(self: AgentUse, holding: Any, step: int) -> None:
        honest(self, holding._replace(amounts=()) if holding.kind is Kind.TERMINATING else holding, step)

    patch.setattr(AgentUse, "count", careless)


def _gone_is_not_freed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Usage, "gone", lambda self, unit: False)


def _plans_keep_what_they_took(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Nodes, "give_back", lambda self, claim: None)


class Mutant(NamedTuple):
    breaks: Callable[[pytest.MonkeyPatch], None]
    caught_by: tuple[str, ...]
    first: int = 1
    """The first seed that is tried: it catches the mutant."""


MUTANTS = (
    Mutant(_foreign_units_are_not_counted, ("S2",)),
    Mutant(_what_ends_is_free_at_once, ("S1", "S2")),
    Mutant(_claims_expire, ("S4",), 2),
    Mutant(_nobody_is_asked, ("S6",), 2),
    Mutant(_a_list_ends_claims, ("S4",), 4),
    Mutant(_claims_are_sent_whatever_others_have_done, ("S1",), 3),
    Mutant(_gone_is_not_freed, ("S6",)),
    Mutant(_plans_keep_what_they_took, ("S5",)),
)


@pytest.mark.rotating
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks.__name__.strip("_"))
def test_mutants_are_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.breaks(monkeypatch)
    for seed in range(mutant.first, 61):
        violation = simulate(seed, STEPS).violation
        if violation is not None:
            assert violation.number in mutant.caught_by, str(violation)
            return
    pytest.fail(f"nobody noticed: {mutant.breaks.__name__}")


# --- gangs ------------------------------------------------------------------------------------------------------------


@pytest.mark.rotating
def test_gangs_start_in_the_room_that_was_promised_to_them() -> None:
    counts: Counter[str] = Counter()
    for seed in range(1, 1 + share(16, 4)):
        result = simulate(seed, STEPS, gangs=True)
        assert result.violation is None, f"seed {seed}: {result.violation}\n" + "\n".join(result.story)
        counts.update(result.counts)
    names = ("gangs", "placeholders nominated", "nominations taken over", "nominations lost", "gangs continued")
    for name in (*names, "groups of gangs started"):
        assert counts[name], name


def _promised_room_looks_free(patch: pytest.MonkeyPatch) -> None:
    honest = AgentUse.count

    def careless(self: AgentUse, holding: Any, step: int) -> None:
        honest(self, holding._replace(amounts=()) if holding.kind is Kind.HELD else holding, step)

    patch.setattr(AgentUse, "count", careless)


def _withdrawn_promises_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Nominations, "remove", lambda self, spec: self._until.pop(spec.placeholder, None))


def _members_do_not_wait_for_their_gang(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gangs, "waits", lambda self, unit: False)


def _launches_that_were_lost_are_not_repeated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gang, "returned", lambda self, task, now: None)


def _gangs_of_a_group_start_alone(patch: pytest.MonkeyPatch) -> None:
    def hasty(gang: Any) -> bool:
        complete = bool(RESERVED.__get__(gang))
        if complete:
            gang.record = gang.record._replace(group="")
        return complete

    patch.setattr(Gang, "reserved", property(hasty))


OF_GANGS = (
    Mutant(_promised_room_looks_free, ("S2",)),
    Mutant(_withdrawn_promises_stay, ("S8",)),
    Mutant(_members_do_not_wait_for_their_gang, ("S9",)),
    Mutant(_launches_that_were_lost_are_not_repeated, ("S10",)),
    Mutant(_gangs_of_a_group_start_alone, ("S11",)),
)


@pytest.mark.rotating
@pytest.mark.parametrize("mutant", OF_GANGS, ids=lambda mutant: mutant.breaks.__name__.strip("_"))
def test_mutants_of_gangs_are_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.breaks(monkeypatch)
    for seed in range(mutant.first, 61):
        violation = simulate(seed, STEPS, gangs=True).violation
        if violation is not None:
            assert violation.number in mutant.caught_by, str(violation)
            return
    pytest.fail(f"nobody noticed: {mutant.breaks.__name__}")


# --- engines with queues ----------------------------------------------------------------------------------------------


@pytest.mark.rotating
@pytest.mark.parametrize("engine", ["session", "hierarchical"])
def test_queues_decide_about_units_that_are_no_records(engine: str) -> None:
    counts: Counter[str] = Counter()
    for seed in range(1, 1 + share(16, 4)):
        result = simulate(seed, STEPS, engine=engine)
        assert result.violation is None, f"seed {seed}: {result.violation}\n" + "\n".join(result.story)
        counts.update(result.counts)
    missing = [name for name in ("evictions", *(f"fault: {fault}" for fault in FAULTS)) if not counts[name]]
    assert not missing, f"never happened: {missing}"


def _decided(seed: int, engine: str, unit: int) -> object:
    """Where the units are in the end, and what has happened. `unit`: the integer units of one MB."""
    simulation, violation = Simulation(seed, engine=engine, memory=unit, uneven=True), ""
    try:
        simulation.run(STEPS)
    except Violation as caught:
        violation = caught.number
    units = simulation.cluster.units.values()
    return violation, [(unit.name, unit.node) for unit in units], simulation.world.counts


@pytest.mark.rotating
@pytest.mark.parametrize("engine", ["simple", "session", "hierarchical"])
def test_memory_in_bytes_and_in_thousandths_of_a_megabyte_gives_the_same_decisions(engine: str) -> None:
    """The amounts are eighths of a MB, which both units count exactly."""
    for seed in range(1, 1 + share(8, 2)):
        assert _decided(seed, engine, 2**20) == _decided(seed, engine, 1000), seed


def _requests_are_whole_thousands(patch: pytest.MonkeyPatch) -> None:
    """The memory of demands: whole MB, or almost exact numbers of bytes."""
    honest = Work._demand

    def careless(self: Work, alike: Any, names: Any) -> Any:
        demand = honest(self, alike, names)
        rounded = tuple((n, a // 1000 * 1000 if n == "memory" else a) for n, a in demand.request.amounts)
        return demand._replace(request=demand.request._replace(amounts=tuple(one for one in rounded if one[1])))

    patch.setattr(Work, "_demand", careless)


def _agents_are_compared_by_plain_amounts(patch: pytest.MonkeyPatch) -> None:
    """Cores and memory are added as they are, not as shares of the agent."""

    def rescore(self: Row) -> None:
        self.score = sum(self.amounts[:2])

    def resources(self: Any, need: Any) -> Callable[[int], int]:
        agents = self._session.agents
        return lambda rank: -int(agents.score_cpus[rank] + agents.score_mem[rank])

    def resources_all(self: Any, need: Any) -> Any:
        arrays = self._session.agents.arrays()
        return -(arrays.score_cpus + arrays.score_mem)

    def weigh(self: Any, node: Any) -> None:
        node.factors = tuple((name, node.total[name], 1) for name in self._weights if node.total.get(name))
        node.whole = 1

    patch.setattr(Row, "rescore", rescore)
    patch.setattr(Scores, "_resources", resources)
    patch.setattr(Scores, "_resources_all", resources_all)
    patch.setattr(TreeNodes, "_weigh", weigh)


@pytest.mark.rotating
@pytest.mark.parametrize("plant", [_requests_are_whole_thousands, _agents_are_compared_by_plain_amounts])
@pytest.mark.parametrize("engine", ["simple", "session", "hierarchical"])
def test_decisions_that_depend_on_the_unit_of_memory_are_noticed(
    engine: str, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert any(_decided(seed, engine, 2**20) != _decided(seed, engine, 1000) for seed in range(1, 5))


@pytest.mark.parametrize("beneficiary", ["app-1", "app-3"])
def test_a_new_leader_gives_the_room_of_a_victim_to_the_beneficiary(beneficiary: str) -> None:
    simulation = Simulation(1, engine="hierarchical")
    world, cluster = simulation.world, simulation.cluster
    world.calm = True
    part = (("cpu", 1000), ("pods", 1))
    cluster.put_node(Node("node", (("cpu", 1000), ("pods", 10))))
    cluster.put_unit(Unit("app-2-1", "app-2", part, node="node"))
    for name in ("app-1", "app-3"):
        cluster.put_unit(Unit(f"{name}-2", name, part, important=True, created=world.now - 60))
    cluster.end_unit("app-2-1", beneficiary)
    cluster.connect(simulation.scheduler)
    for _ in range(40):
        simulation._go_on(1.0)
    assert [unit.application for unit in cluster.units.values() if unit.node] == [beneficiary]


def _queues_have_no_capability(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Pods, "queues", lambda self: [queue._replace(capability=()) for queue in QUEUES])
    _each_queue_has(patch, max={})


def _no_queue_has_a_guarantee(patch: pytest.MonkeyPatch) -> None:
    _each_queue_has(patch, guaranteed={})


def _each_queue_has(patch: pytest.MonkeyPatch, **settings: Any) -> None:
    root = TREE.root._replace(queues=tuple(queue._replace(**settings) for queue in TREE.root.queues))
    patch.setattr(scheduler, "TREE", TREE._replace(root=root))


def _gangs_start_in_parts(patch: pytest.MonkeyPatch) -> None:
    honest = Pods.facts

    def careless(self: Pods, application: str) -> Facts | None:
        found = honest(self, application)
        return found._replace(least=1) if found is not None else None

    patch.setattr(Pods, "facts", careless)


OF_QUEUES = (
    Mutant(_queues_have_no_capability, ("S12",)),
    Mutant(_gangs_start_in_parts, ("S13",)),
)


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("mutant", "engine"),
    [
        *((mutant, engine) for mutant in OF_QUEUES for engine in ("session", "hierarchical")),
        (Mutant(_no_queue_has_a_guarantee, ("S14",), 25), "hierarchical"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.breaks.__name__.strip("_"),
)
def test_mutants_of_queues_are_caught(mutant: Mutant, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.breaks(monkeypatch)
    for seed in range(mutant.first, 61):
        violation = simulate(seed, STEPS, engine=engine).violation
        if violation is not None:
            assert violation.number in mutant.caught_by, str(violation)
            return
    pytest.fail(f"nobody noticed: {mutant.breaks.__name__}")
