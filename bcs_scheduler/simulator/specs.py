"""The options `--agents` and `--load`: agents and synthetic applications from one line of text.

1000x16cpu,64gb,zone=a
500x10,cpus=0.5-2,mem=256-2gb,duration=10m-2h,over=24h,queue=batch
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from bcs_scheduler.simulator.amounts import BadInput, read_cores, read_duration, read_memory, read_number, read_range
from bcs_scheduler.simulator.model import Create, Machine
from store.records import DEFAULT_QUEUE, Namespace, Queue, Record, Version
from store.records.definition import Amounts, Container

MOST = 100_000
"""Agents, or taskgroups of one load, at most."""
DISK = 1_000_000_000
"""Disk of a synthetic agent: 1,000,000 MB."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
Value = TypeVar("Value")


def read_agents(spec: str, first: int = 0) -> list[Machine]:
    """``COUNTxCORES,MEMORY[,ATTRIBUTE=VALUE...]``, such as ``1000x16cpu,64gb,zone=a``. `first`: number of the first
    agent, which names the agents. Raises BadInput."""
    place = f'--agents "{spec}"'
    head, *rest = spec.split(",")
    count, times, size = head.partition("x")
    if not times or not rest or not size.endswith("cpu"):
        raise BadInput(f"{place}: must be COUNTxCORES,MEMORY[,NAME=VALUE...] such as 1000x16cpu,64gb,zone=a")
    number = _bounded(place, _read(place, "count", count, read_number))
    cores = _read(place, "cores", size.removesuffix("cpu"), read_cores)
    memory = _read(place, "memory", rest[0], read_memory)
    attributes: dict[str, str] = {}
    for part in rest[1:]:
        name, equals, value = part.partition("=")
        if not (name and equals and value):
            raise BadInput(f'{place}: "{part}" must be NAME=VALUE')
        attributes[name] = value
    total = {"cpus": cores, "mem": memory, "disk": DISK, "gpus": 0}
    return [_machine(first + rank, total, attributes) for rank in range(number)]


def _machine(number: int, total: dict[str, int], attributes: dict[str, str]) -> Machine:
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return Machine(f"agent-{number}", f"host-{number}", {**attributes, "InnerIP": address}, total)


class Load(NamedTuple):
    """Applications of one form. Pairs are bounds, from which values are drawn evenly (durations: by their logarithm).
    `over`: seconds within which all applications are created. `duration` None: without end."""

    applications: int
    taskgroups: int
    cpus: tuple[float, float]
    mem: tuple[float, float]
    duration: tuple[float, float] | None
    over: float
    namespace: str
    queue: str
    priority: int
    gang: bool


def read_load(spec: str) -> Load:
    """``APPLICATIONSxTASKGROUPS[,FIELD=VALUE...]``. Raises BadInput."""
    place = f'--load "{spec}"'
    head, *rest = spec.split(",")
    count, times, size = head.partition("x")
    if not times:
        raise BadInput(f"{place}: must begin with APPLICATIONSxTASKGROUPS such as 500x10")
    applications = _read(place, "applications", count, read_number)
    taskgroups = _read(place, "taskgroups", size, read_number)
    _bounded(place, applications * taskgroups)
    given: dict[str, Any] = {}
    for part in rest:
        name, equals, value = part.partition("=")
        reader = _FIELDS.get(name)
        if reader is None or not equals:
            raise BadInput(f'{place}: unknown field "{name}"; known are {", ".join(_FIELDS)}')
        if name in given:
            raise BadInput(f"{place}: {name} is given twice")
        given[name] = _read(place, name, value, reader)
    return Load(
        applications,
        taskgroups,
        given.get("cpus", (1000.0, 1000.0)),
        given.get("mem", (512_000.0, 512_000.0)),
        given.get("duration"),
        given.get("over", 86400.0),
        given.get("namespace", given.get("queue", "load")),
        given.get("queue", ""),
        given.get("priority", 0),
        given.get("gang", False),
    )


def _name(text: str) -> str:
    if not _NAME.match(text):
        raise BadInput(f'must be a name of lower-case letters, digits and "-", not "{text}"')
    return text


def _priority(text: str) -> int:
    if not re.fullmatch(r"-?\d{1,9}", text, re.ASCII):
        raise BadInput(f'must be a whole number, not "{text}"')
    return int(text)


def _switch(text: str) -> bool:
    if text not in ("true", "false"):
        raise BadInput(f'must be true or false, not "{text}"')
    return text == "true"


_FIELDS: dict[str, Callable[[str], Any]] = {
    "cpus": lambda text: read_range(text, read_cores),
    "mem": lambda text: read_range(text, read_memory),
    "duration": lambda text: read_range(text, read_duration),
    "over": read_duration,
    "namespace": _name,
    "queue": _name,
    "priority": _priority,
    "gang": _switch,
}


def namespaces_of(loads: list[Load]) -> list[Record]:
    """The queues of the loads, and a namespace for each that names a queue. Raises BadInput if one names two."""
    queues: dict[str, str] = {}
    for load in loads:
        if queues.setdefault(load.namespace, load.queue) != load.queue:
            raise BadInput(f"--load: the namespace {load.namespace} is given with two queues")
    named = sorted({queue for queue in queues.values() if queue not in ("", DEFAULT_QUEUE)})
    spaces = [Namespace(name=name, queue=queue) for name, queue in sorted(queues.items()) if queue]
    return [*(Queue(name=name) for name in named), *spaces]


def creations_of(loads: list[Load], seed: int) -> tuple[Create, ...]:
    """All applications of the loads, ordered by time. Equal loads and seeds give equal applications."""
    found = []
    for rank, load in enumerate(loads):
        chance = random.Random(f"{seed}/{rank}")
        found += [_creation(load, f"load{rank}-{number}", chance) for number in range(load.applications)]
    return tuple(sorted(found, key=lambda one: (one.at, one.version.application)))


def _creation(load: Load, name: str, chance: random.Random) -> Create:
    at = chance.uniform(0.0, load.over)
    requests = Amounts(cpus=round(chance.uniform(*load.cpus)), mem=round(chance.uniform(*load.mem)))
    version = Version(
        namespace=load.namespace,
        application=name,
        instances=load.taskgroups,
        containers=(Container(command="simulated", requests=requests),),
        priority=load.priority,
        priority_from="document" if load.priority else "",
        min_available=load.taskgroups if load.gang else 0,
    )
    durations: tuple[float, ...] = ()
    if load.duration is not None:
        low, high = map(math.log, load.duration)
        durations = tuple(math.exp(chance.uniform(low, high)) for _ in range(load.taskgroups))
    return Create(at, version, durations)


def _read(place: str, field: str, text: str, read: Callable[[str], Value]) -> Value:
    try:
        return read(text)
    except BadInput as error:
        raise BadInput(f"{place}: {field} {error}") from None


def _bounded(place: str, number: int) -> int:
    if number > MOST:
        raise BadInput(f"{place}: {number} is more than {MOST}")
    return number
