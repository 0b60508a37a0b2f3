"""The events of a file as parts of a scenario, and the facts of the start that events refer to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from bcs_scheduler.simulator.scenario.amounts import BadInput
from bcs_scheduler.simulator.scenario.model import Action, Create, Machine, Scenario
from offers.names import name_of
from store.records import Application, Version


class Start(NamedTuple):
    """The cluster at the start. `moment`: Unix seconds of virtual time 0; None = that of the first event. `agents`: by
    id, host name and name of operators. `taskgroups`: application key and index by id. `versions`: by application key;
    `applications`: wanted taskgroups by key."""

    moment: float | None
    agents: Mapping[str, Machine]
    taskgroups: Mapping[str, tuple[str, int]]
    versions: Mapping[str, Version]
    applications: Mapping[str, int]


class Replay(NamedTuple):
    """The parts of a scenario from events. `notes`: events that are left out, in sentences."""

    creations: tuple[Create, ...] = ()
    actions: tuple[Action, ...] = ()
    notes: tuple[str, ...] = ()


def start_of(scenario: Scenario) -> Start:
    """The facts of the start of a scenario."""
    versions = {(one.application_key, one.name): one for one in scenario.records if isinstance(one, Version)}
    found: dict[str, Version] = {}
    wanted: dict[str, int] = {}
    for record in scenario.records:
        if isinstance(record, Application):
            wanted[record.key] = record.instances
            version = versions.get((record.key, record.version))
            if version is not None:
                found[record.key] = version
    agents: dict[str, Machine] = {}
    for machine in scenario.machines:
        names = (name_of(machine.attributes, machine.hostname), machine.ip, machine.hostname, machine.id)
        agents.update((name, machine) for name in names if name)
    return Start(scenario.moment, agents, scenario.taskgroups, found, wanted)


def seconds_of(moment: str) -> float:
    """``2026-11-26T10:00:00Z``: Unix seconds. Raises BadInput."""
    try:
        found = datetime.fromisoformat(moment)
    except ValueError:
        raise BadInput(f'must be seconds or a time such as 2026-11-26T10:00:00Z, not "{moment}"') from None
    if found.tzinfo is None:
        raise BadInput(f'must have a time zone, not "{moment}"')
    return found.timestamp()
