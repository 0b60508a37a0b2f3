"""Settings of the embedded cluster and the agents that follow from them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from bcs_scheduler.local.errors import SettingsError

PORT_STRIDE = 1000
"""Real agents share one machine, so the port range of each begins this much after that of the one before."""

USUAL_PORTS = "21000-21999"
"""Below the range from which Linux takes the local ports of outgoing connections (32768 on): a program that wants a
port of it may find it taken."""
MOST = 1e12
"""Of any resource of one agent, so that thousandths of it are still exact in a double."""

_PATTERN = re.compile(r"\{n(?:%(\d+))?\}")
_RANGE = re.compile(r"\[?(\d+)-(\d+)\]?")

AttributeValue = str | float | tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """Durations are seconds, mem and disk are MB.

    `attributes`: ``name:value;name:value``; ``{n}`` in a value becomes the agent's number, counted from 1, and
    ``{n%4}`` that number modulo 4. `ports`: ranges ``begin-end`` joined by commas, of the first agent.
    `reservations`: statically reserved scalars, ``role=cpus:1;mem:512`` joined by spaces; taken out of the totals.
    """

    host: str = "127.0.0.1"
    port: int = 0
    agents: int = 3
    cpus: float = 4.0
    mem: float = 4096.0
    disk: float = 8192.0
    gpus: float = 0.0
    ports: str = ""
    """Empty: USUAL_PORTS. Of agents that run processes: the next ranges that are free, if those are taken."""
    attributes: str = ""
    reservations: str = ""
    synthetic: bool = False
    start_delay: float = 0.0
    data: Path | None = None
    """Where agent ids and sandboxes are kept; None: a temporary directory, removed at the end."""
    cluster: str = "local"
    allocation_interval: float = 0.5
    allocation_delay: float = 0.02
    """How long freed resources wait for company before they are offered again."""
    heartbeat_interval: float = 15.0
    retry_interval: float = 10.0
    """First pause before an unacknowledged status update is sent again; doubles up to `retry_interval_max`."""
    retry_interval_max: float = 600.0
    agent_timeout: float = 0.0
    """How long an agent that lost its connection is waited for before it is marked unreachable."""
    executor_shutdown_grace: float = 5.0
    """How long an executor that was asked to end has before it is killed, where it does not say otherwise."""
    executor_registration_timeout: float = 60.0
    executor_reregistration_timeout: float = 2.0
    """How long a restarted agent waits for its executors; those that do not come back are killed."""
    executor_recovery_timeout: float = 900.0
    """How long an executor waits for its agent; the executor gets this value and applies it by itself."""
    executor_heartbeat_interval: float = 1800.0
    end_grace: float = 30.0
    """How long the tasks have at most when the cluster ends. Shorter grace periods of the tasks hold."""


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """The properties of one agent. Scalars are thousandths, port ranges inclusive."""

    number: int
    hostname: str
    ip: str
    scalars: dict[str, int]
    ports: tuple[tuple[int, int], ...]
    attributes: dict[str, AttributeValue]
    reserved: dict[str, dict[str, int]] = field(default_factory=dict)


def agent_specs(settings: ClusterSettings) -> list[AgentSpec]:
    """One spec per agent. Raises SettingsError naming the setting that is wrong."""
    if settings.agents < 1:
        raise SettingsError("agents: at least one is needed")
    ports = parse_ranges("ports", settings.ports or USUAL_PORTS)
    reserved = _parse_reservations(settings.reservations)
    amounts = {name: getattr(settings, name) for name in ("cpus", "mem", "disk", "gpus")}
    for name, amount in amounts.items():
        if not 0 <= amount <= MOST:
            raise SettingsError(f"{name}: must be a number from 0 to {MOST:g}, not {amount:g}")
    totals = {name: round(amount * 1000) for name, amount in amounts.items()}
    unreserved = dict(totals)
    for role, amounts in reserved.items():
        for name, amount in amounts.items():
            unreserved[name] = unreserved.get(name, 0) - amount
            if unreserved[name] < 0:
                raise SettingsError(f"reservations: {role} reserves more {name} than the agent has")
    return [
        AgentSpec(
            number=number,
            hostname=f"agent-{number}",
            ip="127.0.0.1",
            scalars={name: amount for name, amount in unreserved.items() if amount},
            ports=ports if settings.synthetic else _shifted(ports, (number - 1) * PORT_STRIDE),
            attributes=parse_attributes(settings.attributes, number),
            reserved=reserved,
        )
        for number in range(1, settings.agents + 1)
    ]


def parse_ranges(setting: str, text: str) -> tuple[tuple[int, int], ...]:
    """``31000-31999,40000-40100`` as sorted inclusive pairs; empty text gives none."""
    pairs = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        match = _RANGE.fullmatch(part)
        if not match or int(match[1]) > int(match[2]):
            raise SettingsError(f"{setting}: {part!r} is not a range like 31000-31999")
        pairs.append((int(match[1]), int(match[2])))
    pairs.sort()
    for (_, end), (begin, _) in pairwise(pairs):
        if begin <= end:
            raise SettingsError(f"{setting}: ranges overlap at {begin}")
    return tuple(pairs)


def parse_attributes(text: str, number: int) -> dict[str, AttributeValue]:
    """Values are read as a Mesos agent reads its --attributes: number, [ranges], otherwise text."""
    found: dict[str, AttributeValue] = {}
    for part in filter(None, (p.strip() for p in text.split(";"))):
        name, colon, value = part.partition(":")
        if not colon or not name or not value:
            raise SettingsError(f"attributes: {part!r} is not of the form name:value")
        found[name] = _attribute_value(_expand(value, number))
    return found


def _expand(value: str, number: int) -> str:
    return _PATTERN.sub(lambda m: str(number % int(m[1]) if m[1] else number), value)


def _attribute_value(value: str) -> AttributeValue:
    if value.startswith("["):
        return parse_ranges("attributes", value.strip("[]"))
    try:
        return float(value)
    except ValueError:
        return value


def _shifted(ports: tuple[tuple[int, int], ...], by: int) -> tuple[tuple[int, int], ...]:
    moved = tuple((begin + by, end + by) for begin, end in ports)
    if moved and moved[-1][1] > 65535:
        raise SettingsError(f"ports: there are none left below 65536 for agent {by // PORT_STRIDE + 1}")
    return moved


def _parse_reservations(text: str) -> dict[str, dict[str, int]]:
    reserved: dict[str, dict[str, int]] = {}
    for part in text.split():
        role, equals, amounts = part.partition("=")
        if not equals or not role or role == "*":
            raise SettingsError(f"reservations: {part!r} is not of the form role=cpus:1;mem:512")
        reserved[role] = {}
        for amount in amounts.split(";"):
            name, _, value = amount.partition(":")
            try:
                reserved[role][name] = round(float(value) * 1000)
            except ValueError:
                raise SettingsError(f"reservations: {amount!r} is not of the form name:number") from None
    return reserved
