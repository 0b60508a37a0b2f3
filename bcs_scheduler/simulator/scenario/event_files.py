"""The option `--events`: the form of the file is known by its contents."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bcs_scheduler.decisions.format import MAGIC
from bcs_scheduler.simulator.scenario.amounts import BadInput
from bcs_scheduler.simulator.scenario.decision_log import read_log
from bcs_scheduler.simulator.scenario.event_lines import read_lines
from bcs_scheduler.simulator.scenario.event_model import start_of
from bcs_scheduler.simulator.scenario.model import Scenario
from bcs_scheduler.simulator.scenario.recorded_events import RecordedEvent, read_recorded


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
