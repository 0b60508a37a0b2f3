"""A decision log is repeated by a simulation: the same requests, agents and ends give the same figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.core.interface.requests import ScaleApplication
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.decisions.log import DecisionLog, file_name
from bcs_scheduler.decisions.recorded import RecordedCore
from bcs_scheduler.simulator import simulation
from bcs_scheduler.simulator.comparison import summary
from bcs_scheduler.simulator.inputs import with_events
from bcs_scheduler.simulator.model import AddAgent, Create, LoseAgent, Scenario, Submit
from bcs_scheduler.simulator.simulation import Simulation
from bcs_scheduler.simulator.specs import creations_of, namespaces_of, read_agents, read_load
from store.state import State

OPTIONS = CoreOptions(loss_share=0.0)
FIGURES = ("launched", "finished", "waiting", "preempted", "waitMedian", "waitLongest")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The figures of a recorded simulation, and its decision log."""
    made = DecisionLog(tmp_path, 1 << 24, 100, {}, queued=100_000)
    made.start()

    def recorded(records: Any, options: Any, wall: float) -> RecordedCore:
        return RecordedCore(made, 1, State(records), options, wall, None, None)

    monkeypatch.setattr(simulation, "Core", recorded)
    load = [read_load("12x3,cpus=0.5-2,duration=5m-10m,over=20m,queue=a"), read_load("1x2,over=1s,namespace=web")]
    creations = creations_of(load, 1)
    (web,) = [one.version.application for one in creations if one.version.namespace == "web"]
    actions = (
        LoseAgent(300.0, "agent-1"),
        AddAgent(900.0, read_agents("1x4cpu,8gb", first=7)[0]),
        Submit(1200.0, ScaleApplication(namespace="web", name=web, instances=3)),
    )
    given = Scenario(tuple(read_agents("3x4cpu,8gb")), tuple(namespaces_of(load)), creations, actions=actions)
    figures = summary(Simulation("run", given, OPTIONS).run(5400.0))
    made.stop(60.0)
    assert made.lost == 0
    monkeypatch.undo()
    return figures, tmp_path / file_name(1, 0)


def test_the_figures_of_a_repeated_log_are_those_of_the_run(log: Any) -> None:
    figures, file = log
    given = with_events(Scenario((), (), ()), file)
    assert {machine.id for machine in given.machines} == {"agent-0", "agent-1", "agent-2"}
    again = summary(Simulation("run", given, OPTIONS).run(5400.0))
    assert again["refused"] == []
    for name, row in figures["groups"].items():
        assert {key: again["groups"][name][key] for key in FIGURES} == pytest.approx(
            {key: row[key] for key in FIGURES}, abs=2.0
        ), name
        assert again["groups"][name]["coreHours"] == pytest.approx(row["coreHours"], rel=0.01)


def test_a_log_on_other_agents_keeps_the_given_cluster(log: Any) -> None:
    _, file = log
    given = with_events(Scenario(tuple(read_agents("1x64cpu,64gb", first=50)), (), ()), file)
    assert [machine.id for machine in given.machines] == ["agent-50"]
    assert not any(isinstance(create, Create) for create in given.creations)
    found = summary(Simulation("run", given, OPTIONS).run(5400.0))
    assert found["total"]["waitLongest"] < 1.0 and found["total"]["waiting"] == 0
