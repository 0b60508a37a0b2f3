"""The scenario and the runs of `bcs simulate`, from its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.simulator.scenario.amounts import BadInput
from bcs_scheduler.simulator.scenario.dump import live_dump, read_dump
from bcs_scheduler.simulator.scenario.event_files import with_events
from bcs_scheduler.simulator.scenario.model import Scenario
from bcs_scheduler.simulator.scenario.policies import SIMPLE, with_policy
from bcs_scheduler.simulator.scenario.specs import creations_of, namespaces_of, read_agents, read_load


class Inputs(NamedTuple):
    """The options of the command that make the scenario."""

    dump: str | None
    live: dict[str, Any] | None
    """The dump of the running scheduler; None: not asked for."""
    agents: tuple[str, ...]
    loads: tuple[str, ...]
    events: str | None
    seed: int


def scenario_of(inputs: Inputs) -> Scenario:
    """Raises BadInput."""
    if not (inputs.loads or inputs.events or inputs.dump or inputs.live):
        raise BadInput("--load or --events is missing: they say which applications are created")
    if inputs.live is not None:
        scenario = live_dump(inputs.live)
    else:
        scenario = read_dump(Path(inputs.dump)) if inputs.dump else Scenario((), (), ())
    scenario = _with_agents(scenario, inputs.agents)
    read = [read_load(spec) for spec in inputs.loads]
    known = {(record.kind, record.key) for record in scenario.records}
    spaces = [record for record in namespaces_of(read) if (record.kind, record.key) not in known]
    scenario = scenario._replace(records=(*scenario.records, *spaces), creations=creations_of(read, inputs.seed))
    if inputs.events:
        scenario = with_events(scenario, Path(inputs.events))
    if not scenario.machines:
        raise BadInput("there are no agents: give --dump or --agents")
    return scenario


def _with_agents(scenario: Scenario, specs: tuple[str, ...]) -> Scenario:
    machines = list(scenario.machines)
    for spec in specs:
        machines += read_agents(spec, len(machines) - len(scenario.machines))
    if len({one.id for one in machines}) < len(machines):
        raise BadInput("--agents: the dump has agents of the same names")
    return scenario._replace(machines=tuple(machines))


def runs_of(policies: tuple[str, ...], scoring: Any, scenario: Scenario) -> list[tuple[str, CoreOptions]]:
    """Name and options of each run. Raises BadInput."""
    options = CoreOptions(scoring=scoring)
    return [(name, with_policy(options, name, scenario.trees)) for name in dict.fromkeys((SIMPLE, *policies))]
