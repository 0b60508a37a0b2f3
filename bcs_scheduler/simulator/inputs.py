"""The scenario and the runs of `bcs simulate`, from its options. The form of a file of `--events` is known by its
contents; policies of sessions and trees of queues of `--policy` are read as the settings of a scheduler read them.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.decisions.format import MAGIC
from bcs_scheduler.settings.policies import policy_of_settings, queues_of_settings
from bcs_scheduler.settings.sections import ConfigError
from bcs_scheduler.simulator.amounts import BadInput
from bcs_scheduler.simulator.decision_log import read_log
from bcs_scheduler.simulator.dump import live_dump, read_dump
from bcs_scheduler.simulator.event_lines import read_lines
from bcs_scheduler.simulator.model import Scenario, start_of
from bcs_scheduler.simulator.recorded_events import RecordedEvent, read_recorded
from bcs_scheduler.simulator.specs import creations_of, namespaces_of, read_agents, read_load
from bcs_scheduler.wire.yamltext import BadYaml, document_of
from offers.policy.hierarchy.configuration.document import canonical, partition_of
from offers.policy.hierarchy.configuration.fields import BadQueues
from offers.resources import SCALARS
from transactions.base import Refused
from transactions.rules.queues import chosen_tree


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


class _Dump(msgspec.Struct, frozen=True):
    """A dump, of which only the events are read. `events` None: it has none."""

    format: str
    events: list[RecordedEvent] | None = None


class _Form(msgspec.Struct, frozen=True):
    """Tells events of a scheduler, which have a reason, from lines for simulations."""

    reason: str | None = None


def with_events(scenario: Scenario, file: Path) -> Scenario:
    """The scenario with the events of a file. A decision log brings the cluster of its start if the scenario has no
    agents. Raises BadInput, which names file and line."""
    place = f"--events: {file}"
    try:
        data = file.read_bytes()
        text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except OSError as error:
        raise BadInput(f"{place}: {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise BadInput(f"{place}: incomplete or damaged: {error}") from None
    if text.startswith(MAGIC[:-1]):
        return read_log(scenario, file)
    start = start_of(scenario)
    replay = None
    if text.lstrip().startswith(b"["):
        replay = read_recorded(place, _listed(place, text), start)
    elif text.lstrip().startswith(b"{\n"):  # `bcs dump` begins with a line of its own; an event fills its line
        replay = read_recorded(place, _dumped(place, text), start)
    else:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        recorded = [_form(place, number, line).reason is not None for number, line in lines[:1]]
        if recorded == [True]:
            replay = read_recorded(place, _recorded_lines(place, lines), start)
        else:
            replay = read_lines(place, lines, start)
    creations = sorted((*scenario.creations, *replay.creations), key=lambda one: one.at)
    return scenario._replace(creations=tuple(creations), actions=replay.actions, notes=(*scenario.notes, *replay.notes))


def _listed(place: str, text: bytes) -> list[tuple[int, RecordedEvent]]:
    """The output of `bcs get events -o json`; each event is named by its position."""
    try:
        return list(enumerate(msgspec.json.decode(text, type=list[RecordedEvent]), 1))
    except msgspec.DecodeError as error:
        raise BadInput(f"{place}: {error}") from None


def _dumped(place: str, text: bytes) -> list[tuple[int, RecordedEvent]]:
    try:
        dump = msgspec.json.decode(text, type=_Dump)
    except msgspec.DecodeError as error:
        raise BadInput(f"{place}: {error}") from None
    if dump.events is None:
        raise BadInput(f"{place}: $.events is missing: make the dump with --events")
    return list(enumerate(dump.events, 1))


def _recorded_lines(place: str, lines: list[tuple[int, bytes]]) -> Iterator[tuple[int, RecordedEvent]]:
    """The output of `bcs get events -o json -w`."""
    for number, line in lines:
        try:
            yield number, msgspec.json.decode(line, type=RecordedEvent)
        except msgspec.DecodeError as error:
            raise BadInput(f"{place}:{number}: {error}") from None


def _form(place: str, number: int, line: bytes) -> _Form:
    try:
        return msgspec.json.decode(line, type=_Form)
    except msgspec.DecodeError as error:
        raise BadInput(f"{place}:{number}: {error}") from None


SIMPLE = "simple"
"""Name of the policy without a file: demands in the order of their arrival."""


DUMPED = "dump"
"""Name of the policy that is the stored tree of queues of the dump; ``dump:NAME`` is that of a partition of roles."""
NO_TREES: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


def with_policy(options: CoreOptions, file: str, trees: Mapping[str, Mapping[str, Any]] = NO_TREES) -> CoreOptions:
    """The options with the policy of a YAML file: a tree of queues if the document has `queues` or `partitions`, else a
    policy of sessions; `simple` is the policy without a file, `dump` one of the `trees` of the dump, by partition.
    Raises BadInput with every problem."""
    if file == SIMPLE:
        return options
    kind, _, partition = file.partition(":")
    if kind == DUMPED:
        return _of_dump(options, file, trees, partition)
    try:
        if _is_tree(Path(file)):
            found = queues_of_settings("hierarchical", file)
            assert found is not None, "the kind of the policy has a tree"
            return replace(options, hierarchy=found.partition, hierarchy_document=found.document)
        return replace(options, policy=policy_of_settings("session", file))
    except ConfigError as error:
        raise BadInput(str(error).replace("scheduler.policy_file", "--policy")) from None


def _of_dump(options: CoreOptions, file: str, trees: Mapping[str, Mapping[str, Any]], partition: str) -> CoreOptions:
    if not trees:
        raise BadInput(f"--policy: {file}: the dump has no tree of queues")
    try:
        document = dict(trees[chosen_tree(trees, partition)])
    except Refused as refused:
        raise BadInput(f"--policy: {file}: {refused.message}") from None
    try:
        return replace(options, hierarchy=partition_of(document, SCALARS), hierarchy_document=canonical(document))
    except BadQueues as error:
        raise BadInput(f"--policy: {file}: the tree of queues is refused: {error.problems[0]}") from None


def _is_tree(file: Path) -> bool:
    try:
        found = document_of(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"--policy: {file}: {error.strerror or error}") from None
    except (UnicodeDecodeError, BadYaml) as error:
        raise BadInput(f"--policy: {file}: not YAML: {' '.join(str(error).split())}") from None
    return isinstance(found, dict) and bool({"queues", "partitions"} & found.keys())
