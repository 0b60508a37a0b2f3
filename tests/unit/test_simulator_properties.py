"""Properties of simulations with drawn agents, loads, events and policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.simulator.comparison import summary
from bcs_scheduler.simulator.inputs import with_policy
from bcs_scheduler.simulator.model import Action, AddAgent, EndTaskGroup, LoseAgent, Scenario
from bcs_scheduler.simulator.simulation import SAMPLES, Outcome, Simulation
from bcs_scheduler.simulator.specs import creations_of, namespaces_of, read_agents, read_load
from store.records import TaskGroup

CONF = Path(__file__).resolve().parents[2] / "conf"
POLICIES = ("simple", str(CONF / "policy.yaml"), str(CONF / "queues.yaml"))
OPTIONS = CoreOptions(strict=True, loss_share=0.0)
SECONDS = 2400.0
LOADS = st.tuples(
    st.integers(1, 5), st.integers(1, 4), st.sampled_from(["0.5-2", "1", "0.1-3"]),
    st.sampled_from(["", ",duration=2m-20m", ",duration=5m"]), st.sampled_from(["", ",gang=true"]),
)  # fmt: skip


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[Scenario, str]:
    """A scenario with two queues, and the name of a policy."""
    seed = draw(st.integers(0, 1000))
    forms = [draw(LOADS) for _ in range(2)]
    loads = [
        read_load(f"{apps}x{groups},cpus={cpus}{duration}{gang},over=15m,queue={queue}")
        for queue, (apps, groups, cpus, duration, gang) in zip("ab", forms, strict=True)
    ]
    creations = creations_of(loads, seed)
    agents = draw(st.integers(1, 4))
    actions: list[Action] = [
        LoseAgent(at, f"agent-{number}")
        for at, number in draw(st.lists(st.tuples(st.floats(0, SECONDS), st.integers(0, 4)), max_size=2))
    ]
    actions += [
        AddAgent(at, read_agents("1x2cpu,4gb", first=9)[0]) for at in draw(st.lists(st.floats(0, SECONDS), max_size=2))
    ]
    ends = draw(st.lists(st.tuples(st.floats(0, SECONDS), st.integers(0, 3), st.booleans()), max_size=3))
    actions += [
        EndTaskGroup(at, creations[0].version.application_key, number, failed=failed) for at, number, failed in ends
    ]
    machines = tuple(read_agents(f"{agents}x{draw(st.integers(1, 4))}cpu,6gb"))
    ordered = tuple(sorted(actions, key=lambda one: one.at))
    found = Scenario(machines, tuple(namespaces_of(loads)), creations, actions=ordered)
    return found, draw(st.sampled_from(POLICIES))


class Watched:
    """A run whose agents and sums are examined with each report of progress."""

    def __init__(self, scenario: Scenario, policy: str) -> None:
        self.simulation = Simulation("run", scenario, with_policy(OPTIONS, policy))
        self.outcome: Outcome = self.simulation.run(SECONDS, self.examine)

    def examine(self, part: float) -> None:
        del part
        simulation: Any = self.simulation
        room, recorder = simulation._room, simulation._recorder
        free = room._free.values()
        assert all(amount >= 0 for amounts in free for amount in amounts.values()), "an agent beyond its capacity"
        assert room.cpus == sum(amounts["cpus"] for amounts in free)
        groups = recorder.groups.values()
        assert sum(one.cpus for one in groups) == room.total["cpus"] - room.cpus
        assert sum(one.mem for one in groups) == room.total["mem"] - sum(amounts["mem"] for amounts in free)
        live = [
            one for one in simulation._core.state.taskgroups.values() if isinstance(one, TaskGroup) and not one.ended
        ]
        assert len(live) == len(recorder._running)
        assert sum(one.pending for one in groups) == sum(len(work.waits) for work in recorder._work.values())
        assert all(one.pending >= 0 for one in groups)


@pytest.mark.rotating
@settings(max_examples=12, deadline=None)
@given(scenarios())
def test_no_agent_holds_more_than_its_capacity_and_sums_agree_at_every_moment(drawn: tuple[Scenario, str]) -> None:
    run = Watched(*drawn)
    figures = summary(run.outcome)
    total, groups = figures["total"], figures["groups"].values()
    for key in ("launched", "finished", "waiting", "preempted"):
        assert total[key] == sum(row[key] for row in groups)
    for row in (total, *groups):
        assert row["waitMedian"] <= row["waitP90"] <= row["waitP95"] <= row["waitLongest"]
        assert 0 <= row["served"] <= 1 + 1e-9 and row["coreHours"] <= row["wantedCoreHours"] + 1e-9
    history = figures["history"]
    assert len(history["at"]) == SAMPLES
    for key in ("cpus", "pending", "preempted"):
        for at, whole in enumerate(history[key]):
            assert abs(whole - sum(part[key][at] for part in history["groups"].values())) < 1e-5


@settings(max_examples=6, deadline=None)
@given(scenarios())
def test_equal_inputs_give_equal_figures(drawn: tuple[Scenario, str]) -> None:
    scenario, policy = drawn
    first, again = (summary(Simulation("run", scenario, with_policy(OPTIONS, policy)).run(SECONDS)) for _ in range(2))
    assert first == again
