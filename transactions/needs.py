"""What a version needs of an agent: resources, ports, constraints, as a demand of the offers room."""

from __future__ import annotations

from functools import lru_cache

from offers.constraints import Rules, RuleSpec, compile_rules
from offers.model import Demand, Need
from store.definition import Amounts, Container, Port
from store.records import Version
from transactions.base import Step

EXECUTOR = Amounts(cpus=10, mem=64_000, disk=64_000)
"""What the executor of a taskgroup holds: 0.01 cores, 64 MB, 64 MB disk (bcs_internals 2.4). Its cores come out of the
first task that asks for at least GIVES_UP_FROM; a taskgroup of smaller tasks pays for them on top."""
GIVES_UP_FROM = 100


def amounts(version: Version) -> Amounts:
    """Scalar resources of one taskgroup, executor included; one object for all taskgroups of the version."""
    return _amounts(_ById(version))


def total(version: Version) -> Amounts:
    """As `amounts`, worked out anew: for looks at all versions, which would only wear out its memory."""
    requests = [c.requests for c in version.containers]
    extra = 0 if any(r.cpus >= GIVES_UP_FROM for r in requests) else EXECUTOR.cpus
    return Amounts(
        cpus=sum(r.cpus for r in requests) + extra,
        mem=sum(r.mem for r in requests) + EXECUTOR.mem,
        disk=sum(r.disk for r in requests) + EXECUTOR.disk,
        gpus=sum(r.gpus for r in requests),
    )


def extended(version: Version) -> dict[str, int]:
    """Extended resources of one taskgroup in thousandths, summed over its containers (a fresh dict each time, W-53)."""
    total: dict[str, int] = {}
    for container in version.containers:
        for name, amount in container.extended.items():
            total[name] = total.get(name, 0) + amount
    return total


def is_random(version: Version, port: Port) -> bool:
    """The port is drawn from the offer (bcs_api 6.7): host network draws when the container port is 0, too."""
    return port.host_port == 0 and not (version.network_mode == "HOST" and port.container_port > 0)


def fixed_port(version: Version, port: Port) -> int:
    """The host port that is asked for by number, or 0 if it is drawn or not wanted."""
    if port.host_port > 0:
        return port.host_port
    if port.host_port == 0 and version.network_mode == "HOST":
        return max(port.container_port, 0)
    return 0


def all_ports(version: Version) -> list[tuple[Container, Port]]:
    """Ports in the order in which random ones are drawn."""
    return [(c, p) for c in version.containers for p in c.ports]


@lru_cache(maxsize=256)
def _amounts(version: _ById) -> Amounts:
    return total(version.value)


@lru_cache(maxsize=256)
def _need(version: _ById) -> Need:
    v = version.value
    sums = total(v)
    ports = [p for _, p in all_ports(v)]
    return Need(
        cpus=sums.cpus,
        mem=sums.mem,
        disk=sums.disk,
        gpus=sums.gpus,
        random_ports=sum(1 for p in ports if is_random(v, p)),
        fixed_ports=tuple(sorted(f for f in (fixed_port(v, p) for p in ports) if f)),
        extended=tuple(sorted(extended(v).items())),
    )


@lru_cache(maxsize=256)
def _rules(version: _ById) -> Rules:
    v = version.value
    items = [
        [RuleSpec(name=c.name, operator=c.operator, items=c.items, number=c.number, limit=c.limit) for c in union]
        for union in v.constraints
    ]
    return compile_rules(items, [(t.key, t.value) for t in v.tolerations])


class _ById:
    """Versions are immutable and named uniquely, so the name is a sound cache key (their dicts cannot be hashed)."""

    __slots__ = ("key", "value")

    def __init__(self, version: Version) -> None:
        self.key = (version.key, version.created_at)
        self.value = version

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _ById):
            return False
        return self.value is other.value or (self.key == other.key and self.value == other.value)


def need_of(version: Version) -> Need:
    return _need(_ById(version))


def rules_of(version: Version) -> Rules:
    """The compiled constraints, compiled once per version."""
    return _rules(_ById(version))


def demand(identity: str, version: Version, step: Step, role: str) -> Demand:
    """What a step of a transaction wants a place for."""
    return Demand(
        id=identity,
        application=f"{version.namespace}/{version.application}",
        slots=step.slots,
        need=need_of(version),
        rules=rules_of(version),
        role=version.role or role,
        only_host=step.only_host,
        labels=tuple(f"{key}:{value}" for key, value in sorted(version.labels.items())),
        per_agent=step.per_agent,
        only_agents=step.only_agents,
        except_agents=step.except_agents,
    )
