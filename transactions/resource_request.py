"""The resource request of a version: resources, ports and constraints, as a demand of the offers room."""

from __future__ import annotations

from functools import lru_cache

from offers.model import Demand, ResourceRequest
from offers.rules.constraints import Rules, RuleSpec, compile_rules
from store.records import Version
from store.records.definition import Amounts, Container, Port
from transactions.base import Overhead, Refused, Slot, Step
from transactions.text import counted

FIXED_ADDRESS, EGRESS_LIMIT = "bcs-fixed-address", "bcs-egress-limit"
"""Attributes of agents that name the networks, separated by commas, in which an address can be asked for, or outgoing
bandwidth is limited; ``*`` = in all."""
EXECUTOR = Overhead(cpus=10, mem=64_000, disk=64_000, spared_from=100)
"""Resources of the executor of a taskgroup: 0.01 cores, 64 MB, 64 MB disk (docs/original.md#executor-resources)."""


def amounts(version: Version, overhead: Overhead) -> Amounts:
    """Scalar resources of one taskgroup, overhead included; one object for all taskgroups of the version."""
    return _amounts(_ById(version), overhead)


def total(version: Version, overhead: Overhead) -> Amounts:
    """Like `amounts`, but computed without the cache. Used for passes over all versions, which would evict useful
    entries."""
    requests = [c.requests for c in version.containers]
    extra = overhead.cpus if overhead.sparing(requests) is None else 0
    return Amounts(
        cpus=sum(r.cpus for r in requests) + extra,
        mem=sum(r.mem for r in requests) + overhead.mem,
        disk=sum(r.disk for r in requests) + overhead.disk,
        gpus=sum(r.gpus for r in requests),
    )


def extended(version: Version) -> dict[str, int]:
    """Extended resources of one taskgroup in thousandths, summed over its containers (a fresh dict each time,
    docs/original.md#shared-objects)."""
    total: dict[str, int] = {}
    for container in version.containers:
        for name, amount in container.extended.items():
            total[name] = total.get(name, 0) + amount
    return total


def is_random(version: Version, port: Port) -> bool:
    """The port is drawn from the offer (docs/original.md#ports): host network draws when the container port is 0,
    too."""
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
def _amounts(version: _ById, overhead: Overhead) -> Amounts:
    return total(version.value, overhead)


@lru_cache(maxsize=256)
def _request(version: _ById, overhead: Overhead) -> ResourceRequest:
    v = version.value
    sums = total(v, overhead)
    ports = [p for _, p in all_ports(v)]
    return ResourceRequest(
        cpus=sums.cpus,
        mem=sums.mem,
        disk=sums.disk,
        gpus=sums.gpus,
        random_ports=sum(1 for p in ports if is_random(v, p)),
        # A number that is used for tcp and udp is one port of the agent.
        fixed_ports=tuple(sorted({f for f in (fixed_port(v, p) for p in ports) if f})),
        extended=tuple(sorted(extended(v).items())),
    )


@lru_cache(maxsize=256)
def _rules(version: _ById, index: int | None = None) -> Rules:
    v = version.value
    items = [
        [RuleSpec(name=c.name, operator=c.operator, items=c.items, number=c.number, limit=c.limit) for c in union]
        for union in v.constraints
    ]
    items += [[rule] for rule in _network_rules(v, index)]
    return compile_rules(items, [(t.key, t.value) for t in v.tolerations])


def _network_rules(version: Version, index: int | None) -> list[RuleSpec]:
    """Returns the conditions that the network of the version puts on an agent (decision 42). `index`: index of the
    taskgroup; None: conditions for all taskgroups."""
    rules = []
    network = network_name(version)
    if network and version.egress_limit:
        rules.append(_capability(EGRESS_LIMIT, network, "limits no bandwidth"))
    if network and version.reserved:
        rules.append(_capability(FIXED_ADDRESS, network, "takes no reserved addresses"))
    if index is None or not version.reserved:
        return rules
    reserved = next((one for one in version.reserved if one.index == index), None)
    if reserved is None:
        return [*rules, RuleSpec("hostname", "CLUSTER", why=f"no address is reserved for taskgroup {index}")]
    if reserved.attribute:
        address = " and ".join(reserved.addresses)
        why = f"attribute {reserved.attribute} does not fit the reserved address {address} of taskgroup {index}"
        rules.append(RuleSpec(reserved.attribute, "LIKE", items=reserved.patterns, why=why))
    return rules


def _capability(attribute: str, network: str, what: str) -> RuleSpec:
    """The agent says in an attribute that its network can do it."""
    lists = (network, f"{network},*", f"*,{network}", f"*,{network},*", "[*]")
    return RuleSpec(
        attribute, "LIKE", items=lists, why=f"network {network} {what} (attribute {attribute} does not name it)"
    )


def network_name(version: Version) -> str:
    """The network of a user that containers join; empty for those of every agent. Mode USER means a network named like
    the namespace (docs/original.md#ports)."""
    mode = version.network_mode.upper()
    if mode in ("", "NONE", "HOST", "BRIDGE"):
        return ""
    return version.namespace if mode == "USER" else version.network_mode


def addresses_of(version: Version, index: int) -> tuple[str, ...]:
    """The reserved addresses of a taskgroup."""
    return next((one.addresses for one in version.reserved if one.index == index), ())


def refuse_too_few_addresses(version: Version | None, instances: int) -> None:
    """Raises Refused if a taskgroup with an index below `instances` lacks an address although others have one reserved.
    `version` None: nothing is checked."""
    if version is None or not version.reserved:
        return
    indexes = {one.index for one in version.reserved}
    missing = next((index for index in range(instances) if index not in indexes), None)
    if missing is not None:
        words = f"reserved addresses: {len(indexes)} for {counted(instances, 'taskgroup')}; none is for {missing}"
        raise Refused("invalid", words, "$.spec.instance")


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


def request_of(version: Version, overhead: Overhead) -> ResourceRequest:
    """The resource request of one taskgroup of the version, remembered per version and overhead."""
    return _request(_ById(version), overhead)


def rules_of(version: Version, index: int | None = None) -> Rules:
    """Returns the compiled constraints, compiled once per version. `index`: the taskgroup whose own conditions are
    added; None: only those of the version."""
    return _rules(_ById(version), index)


def demand(identity: str, version: Version, step: Step, role: str, overhead: Overhead) -> Demand[Slot]:
    """Returns the first of the `demands` of a step."""
    return demands(identity, version, step, role, overhead)[0]


def demands(identity: str, version: Version, step: Step, role: str, overhead: Overhead) -> list[Demand[Slot]]:
    """Returns the demands for the slots of a step. `role`: used if the version names none. Taskgroups with reserved
    addresses may be bound to agents of their own, so each has a demand of its own, and they are placed one after the
    other, as in the original."""
    if not version.reserved:
        return [_demand(identity, version, step, role, overhead, None)]
    return [_demand(identity, version, step._replace(slots=(slot,)), role, overhead, slot.index) for slot in step.slots]


def _demand(
    identity: str, version: Version, step: Step, role: str, overhead: Overhead, index: int | None
) -> Demand[Slot]:
    return Demand(
        id=identity,
        application=version.application_key,
        slots=step.slots,
        request=request_of(version, overhead),
        rules=rules_of(version, index),
        role=version.role or role,
        only_host=step.only_host,
        labels=tuple(f"{key}:{value}" for key, value in sorted(version.labels.items())),
        per_agent=step.per_agent,
        only_agents=step.only_agents,
        except_agents=step.except_agents,
    )
