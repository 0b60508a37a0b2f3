"""The parts of a scenario, the events of a file as parts of it, and the facts of the start that events refer to.
Scalars are in thousandths, as in records; times of actions are seconds from the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from bcs_scheduler.core.interface.requests import Request
from bcs_scheduler.simulator.amounts import BadInput
from offers.model import Attribute, Ranges
from offers.names import name_of
from store.records import Application, Record, Version

START = 1_700_000_000.0
"""Unix seconds at which the virtual time of simulations begins."""
PORTS: Ranges = ((31_000, 32_000),)
"""Ports of agents whose ports are not known."""


class Machine(NamedTuple):
    """One agent. `total`: cpus, mem, disk and gpus."""

    id: str
    hostname: str
    attributes: Mapping[str, Attribute]
    total: Mapping[str, int]
    ports: Ranges = PORTS
    ip: str = ""
    """Address that users see; empty = that of the attribute InnerIP."""


class Create(NamedTuple):
    """An application is created. `durations`: seconds that each taskgroup runs, by index; empty = without end. The
    application is deleted when all its taskgroups have finished."""

    at: float
    version: Version
    durations: tuple[float, ...] = ()


class Submit(NamedTuple):
    """A user sends a request."""

    at: float
    request: Request


class AddAgent(NamedTuple):
    """An agent joins the cluster. Nothing happens if the cluster has it."""

    at: float
    machine: Machine


class LoseAgent(NamedTuple):
    """An agent is gone for good, with its taskgroups. Nothing happens if the cluster does not have it."""

    at: float
    agent: str


class EndTaskGroup(NamedTuple):
    """A taskgroup ends by itself: `application` is ``namespace/name``, `number` the index. One that is not running yet
    ends when it runs; nothing happens without a taskgroup of this index."""

    at: float
    application: str
    number: int
    failed: bool = False


Action = Submit | AddAgent | LoseAgent | EndTaskGroup


class Scenario(NamedTuple):
    """`records`: those of the store at the start, the namespaces of the load included. `creations` and `actions`:
    ordered by time."""

    machines: tuple[Machine, ...]
    records: tuple[Record, ...]
    creations: tuple[Create, ...]
    notes: tuple[str, ...] = ()
    """Parts of the inputs that the scenario does not have, in sentences."""
    actions: tuple[Action, ...] = ()
    began: float = START
    """Unix seconds at which the virtual time begins; the times of the records are before it."""
    moment: float | None = None
    """Unix seconds of the dump; None = not known."""
    trees: Mapping[str, Mapping[str, Any]] = {}
    """The trees of queues of the dump, as queue configurations, by the name of the partition of roles."""
    taskgroups: Mapping[str, tuple[str, int]] = {}
    """Application key and index of the taskgroups of the dump, by their ids in the dump."""


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
