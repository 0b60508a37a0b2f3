"""A file of `bcs dump`, or the same document of a running scheduler, as the start of a scenario."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import msgspec

from bcs_scheduler.simulator.scenario.amounts import BadInput
from bcs_scheduler.simulator.scenario.dump_format import FORMAT, FORMAT_VERSION, Dump, DumpedTaskGroup
from bcs_scheduler.simulator.scenario.dump_objects import added, machine_of, objects_of, ports_of
from bcs_scheduler.simulator.scenario.dump_workloads import Workloads
from bcs_scheduler.simulator.scenario.model import Scenario, Submit
from store.records import DEFAULT_PARTITION
from store.records.definition import Amounts

ENDED = frozenset({"Killed", "Finish", "Failed", "Error", "Lost"})
"""Statuses of taskgroups that hold no capacity."""


def read_dump(file: Path) -> Scenario:
    """The cluster of a dump, without a load. Raises BadInput, which names the file and the field."""
    try:
        data = file.read_bytes()
        text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        dump = msgspec.json.decode(text, type=Dump)
    except OSError as error:
        raise BadInput(f"--dump: {file}: {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise BadInput(f"--dump: {file}: incomplete or damaged: {error}") from None
    except msgspec.DecodeError as error:  # ValidationError, which names the field, is one
        raise BadInput(f"--dump: {file}: {error}") from None
    if dump.format != FORMAT or dump.format_version != FORMAT_VERSION:
        found = f"{dump.format} {dump.format_version}"
        raise BadInput(f"--dump: {file}: $.format: must be {FORMAT} {FORMAT_VERSION}, not {found}")
    return scenario_of(dump)


def live_dump(document: dict[str, Any]) -> Scenario:
    """The cluster of a dump that has just been read from a scheduler. Raises BadInput, which names the field."""
    try:
        return scenario_of(msgspec.convert(document, Dump))
    except msgspec.ValidationError as error:
        raise BadInput(f"--live: {error}") from None


def scenario_of(dump: Dump) -> Scenario:
    """The cluster of a dump, without a load."""
    agents = {agent.id: agent for agent in dump.agents if agent.active}
    held: defaultdict[str, Amounts] = defaultdict(Amounts)
    groups: defaultdict[tuple[str, str], list[DumpedTaskGroup]] = defaultdict(list)
    ended: Counter[tuple[str, str, str]] = Counter()
    left_out = 0
    for group in dump.taskgroups:
        if group.status in ENDED:
            ended[group.namespace, group.application, group.status] += 1
            continue
        if group.agent not in agents:
            left_out += 1
            continue
        groups[group.namespace, group.application].append(group)
        held[group.agent] = added(held[group.agent], group.resources)
    ports = ports_of(dump)
    workloads = Workloads(dump, agents, groups, ended)
    records = (*objects_of(dump, agents.values()), *workloads.records())
    notes = {
        "taskgroups without an active agent are left out.": left_out,
        "agents that are not active are left out.": len(dump.agents) - len(agents),
        "constraints are left out, because the dump hides their values.": workloads.hidden,
    }
    return Scenario(
        tuple(machine_of(agent, held[agent.id], ports) for agent in agents.values()),
        records,
        (),
        tuple(f"{number} {words}" for words, number in notes.items() if number),
        actions=tuple(Submit(0.0, request) for request in workloads.requests),
        moment=dump.time.timestamp() if dump.time else None,
        taskgroups=workloads.names,
        trees={
            one.partition or DEFAULT_PARTITION: one.spec
            for one in dump.queue_tree_documents or [dump.queue_tree_document]
            if one.spec
        },
    )
