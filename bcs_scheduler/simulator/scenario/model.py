"""The parts of a scenario. Scalars are in thousandths, as in records; times of actions are seconds from the start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from offers.model import Attribute, Ranges
from store.records import Record, Version

START = 1_700_000_000.0
"""Unix seconds at which the virtual time of every simulation begins."""
PORTS: Ranges = ((31_000, 32_000),)
"""Ports of agents whose ports are not known."""


class Machine(NamedTuple):
    """One agent. `total`: cpus, mem, disk and gpus."""

    id: str
    hostname: str
    attributes: Mapping[str, Attribute]
    total: Mapping[str, int]
    ports: Ranges = PORTS


class Create(NamedTuple):
    """An application is created. `durations`: seconds that each taskgroup runs, by index; empty = without end. The
    application is deleted when all its taskgroups have finished."""

    at: float
    version: Version
    durations: tuple[float, ...] = ()


class Scenario(NamedTuple):
    """`records`: those of the store at the start, the namespaces of the load included. `creations`: ordered by time."""

    machines: tuple[Machine, ...]
    records: tuple[Record, ...]
    creations: tuple[Create, ...]
    notes: tuple[str, ...] = ()
    """Parts of the dump that the scenario does not have, in sentences."""
