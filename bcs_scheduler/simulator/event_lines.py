"""Events in lines of JSON, in the format that docs/simulator.md describes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from bcs_scheduler.core.interface.requests import DeleteApplication, ScaleApplication
from bcs_scheduler.simulator.amounts import BadInput, read_duration
from bcs_scheduler.simulator.model import (
    Action,
    AddAgent,
    Create,
    EndTaskGroup,
    LoseAgent,
    Machine,
    Replay,
    Start,
    Submit,
    seconds_of,
)
from bcs_scheduler.simulator.specs import DISK
from offers.model import Attribute
from offers.names import name_of
from store.ids import object_key
from store.records import Version
from store.records.definition import Amounts, Container

Amount = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Count = Annotated[int, msgspec.Meta(ge=0, le=100_000)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e10)]


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", forbid_unknown_fields=True, rename="camel"):
    """`time`: seconds from the start of the simulation, or RFC 3339."""

    time: Seconds | str


class _AgentAdded(_Line, tag="agent-added", frozen=True, kw_only=True):
    """`cpus` in cores, `mem` and `disk` in MB, `gpus` in GPUs."""

    agent: Name
    cpus: Amount
    mem: Amount
    disk: Amount | None = None
    gpus: Amount = 0
    hostname: str = ""
    attributes: dict[str, str | float] = {}


class _AgentLost(_Line, tag="agent-lost", frozen=True, kw_only=True):
    agent: Name


class _Created(_Line, tag="application-created", frozen=True, kw_only=True):
    """`cpus` in cores and `mem`, `disk` in MB of each taskgroup. `duration`: as of --load; empty = without end."""

    namespace: Name
    application: Name
    instances: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    cpus: Amount = 1
    mem: Amount = 512
    disk: Amount = 0
    gpus: Amount = 0
    duration: Seconds | str = ""
    priority: int = 0
    gang: bool = False


class _Scaled(_Line, tag="application-scaled", frozen=True, kw_only=True):
    namespace: Name
    application: Name
    instances: Count


class _Deleted(_Line, tag="application-deleted", frozen=True, kw_only=True):
    namespace: Name
    application: Name


class _Ended(_Line, tag="taskgroup-ended", frozen=True, kw_only=True):
    namespace: Name
    application: Name
    index: Count
    failed: bool = False


Line = _AgentAdded | _AgentLost | _Created | _Scaled | _Deleted | _Ended
_DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


class _Numbered(msgspec.Struct, frozen=True):
    """`at`: seconds from the start. `place`: file and line."""

    at: float
    place: str
    line: Line


def read_lines(place: str, lines: Iterable[tuple[int, bytes]], start: Start) -> Replay:
    """`place`: option and file; `lines` with their numbers. Raises BadInput, which names file and line."""
    read: list[tuple[float, bool, str, Line]] = []
    for number, text in lines:
        at = f"{place}:{number}"
        try:
            line = _DECODER.decode(text)
            absolute = isinstance(line.time, str)
            read.append((_moment(line), absolute, at, line))
        except msgspec.DecodeError as error:
            raise BadInput(f"{at}: {error}") from None
        except BadInput as error:
            raise BadInput(f"{at}: time {error}") from None
    first = min((moment for moment, absolute, _, _ in read if absolute), default=0.0)
    zero = first if start.moment is None or start.moment > first else start.moment
    numbered = [_Numbered(moment - zero if absolute else moment, at, line) for moment, absolute, at, line in read]
    return _Reading(start).replay(sorted(numbered, key=lambda one: one.at))


def _moment(line: Line) -> float:
    return seconds_of(line.time) if isinstance(line.time, str) else line.time


class _Reading:
    """Checks that each event refers to an object that exists at its time."""

    def __init__(self, start: Start) -> None:
        self._agents = dict(start.agents)
        self._wanted = dict(start.applications)

    def replay(self, numbered: Iterable[_Numbered]) -> Replay:
        creations: list[Create] = []
        actions: list[Action] = []
        for one in numbered:
            try:
                found = self._one(one.at, one.line)
            except BadInput as error:
                raise BadInput(f"{one.place}: {error}") from None
            (creations if isinstance(found, Create) else actions).append(found)  # type: ignore[arg-type]
        return Replay(tuple(creations), tuple(actions))

    def _one(self, at: float, line: Line) -> Action | Create:
        match line:
            case _AgentAdded():
                return AddAgent(at, self._added(line))
            case _AgentLost():
                return LoseAgent(at, self._lost(line.agent))
            case _Created():
                return self._created(at, line)
            case _Scaled():
                self._known(line.namespace, line.application)
                return Submit(
                    at,
                    ScaleApplication(namespace=line.namespace, name=line.application, instances=line.instances),
                )
            case _Deleted():
                del self._wanted[self._known(line.namespace, line.application)]
                return Submit(at, DeleteApplication(namespace=line.namespace, name=line.application))
            case _Ended():
                return EndTaskGroup(at, self._known(line.namespace, line.application), line.index, line.failed)

    def _added(self, line: _AgentAdded) -> Machine:
        if line.agent in self._agents:
            raise BadInput(f'agent "{line.agent}" is in the cluster')
        total = {"cpus": line.cpus, "mem": line.mem, "gpus": line.gpus}
        amounts = {name: round(1000 * amount) for name, amount in total.items()}
        amounts["disk"] = DISK if line.disk is None else round(1000 * line.disk)
        attributes: dict[str, Attribute] = {"InnerIP": line.agent, **line.attributes}
        machine = Machine(line.agent, line.hostname or line.agent, attributes, amounts)
        self._agents[line.agent] = machine
        return machine

    def _lost(self, name: str) -> str:
        machine = self._agents.get(name)
        if machine is None:
            raise BadInput(f'agent "{name}" is not in the cluster')
        for other in (machine.id, machine.hostname, name_of(machine.attributes, machine.hostname), name):
            self._agents.pop(other, None)
        return machine.id

    def _created(self, at: float, line: _Created) -> Create:
        key = object_key(line.namespace, line.application)
        if key in self._wanted:
            raise BadInput(f'application "{key}" exists')
        self._wanted[key] = line.instances
        amounts = {name: round(1000 * getattr(line, name)) for name in ("cpus", "mem", "disk", "gpus")}
        version = Version(
            namespace=line.namespace,
            application=line.application,
            instances=line.instances,
            containers=(Container(command="simulated", requests=Amounts(**amounts)),),
            priority=line.priority,
            priority_from="document" if line.priority else "",
            min_available=line.instances if line.gang else 0,
        )
        return Create(at, version, (_duration(line.duration),) * line.instances if line.duration else ())

    def _known(self, namespace: str, name: str) -> str:
        key = object_key(namespace, name)
        if key not in self._wanted:
            raise BadInput(f'application "{key}" does not exist')
        return key


def _duration(given: float | str) -> float:
    if not isinstance(given, str):
        return given
    try:
        return read_duration(given)
    except BadInput as error:
        raise BadInput(f"duration {error}") from None
