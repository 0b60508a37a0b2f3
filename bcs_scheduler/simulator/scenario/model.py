"""The parts of a scenario. Scalars are in thousandths, as in records; times of actions are seconds from the start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from bcs_scheduler.core.interface.requests import Request
from offers.model import Attribute, Ranges
from store.records import Record, Version

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
