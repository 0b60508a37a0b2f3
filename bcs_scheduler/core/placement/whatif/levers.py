"""The changes that can help one demand, as levers, and the demand with levers applied.

The copy of the offers has the cordoned agents uncordoned and the possible new agents added. The demand excludes them
all (`Demand.except_agents`), and a lever takes agents out of this set, so that a trial changes nothing but the demand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from bcs_scheduler.core.placement.whatif.search import Lever, Strengths
from offers.ledger.offered import OfferPool
from offers.model import Attribute, Demand, Offer, ResourceKey
from offers.resources import PORTS
from offers.rules.constraints import Rules
from transactions.base import Slot

UNCORDON, REDUCE, DROP, ADD = "uncordonAgents", "reduceResource", "dropConstraint", "addAgents"
"""Codes of the kinds of changes."""
LEAST_PART = 10
"""A resource is reduced to a tenth of the containers' own request at most."""
GRANULES = {"cpus": 10, "mem": 1000, "disk": 1000}
"""Steps of a reduction in thousandths: 0.01 cores, 1 MB."""
SIZES = 2
"""Sizes of agents that are tried as new agents, the most frequent ones of the cluster."""
NEW_AGENTS = 256
"""New agents of one size at most."""
CORDONED = 512
"""Cordoned agents that are considered, those with room for the most taskgroups first."""
RANDOM_PORTS = ((31000, 32000),)
"""Ports of a new agent if no agent of its size offers any: the default of the cluster manager."""


class Size(NamedTuple):
    """The size of an agent that could be added, in thousandths."""

    cpus: int
    mem: int
    disk: int
    gpus: int
    attributes: tuple[tuple[str, Attribute], ...]
    """Attributes without the name of the agent."""


class Agents(NamedTuple):
    """Facts of a lever that adds agents to the choice: their ids in order, and the names that operators use."""

    ids: tuple[str, ...]
    names: tuple[str, ...]
    size: Size | None = None


def prepare(
    pool: OfferPool, demand: Demand[Slot], overhead: Mapping[str, int], known: OfferPool
) -> tuple[Demand[Slot], list[Lever]]:
    """Changes a copy of the offers, and returns the demand that sees the agents as they are, and the levers.
    `overhead`: the part of the request that no user can reduce, by resource, in thousandths. `known`: the offers that
    were copied; they know the sizes of agents without offers, too."""
    levers = [*_cordoned(pool, demand), *_resources(demand, overhead), *_constraints(demand.rules)]
    levers += _new_agents(pool, demand, _sizes(known, demand))
    hidden = {identity for lever in levers if isinstance(lever.facts, Agents) for identity in lever.facts.ids}
    return demand._replace(except_agents=demand.except_agents | hidden, min_members=0), levers


@contextmanager
def agents_present(pool: OfferPool, agents: Agents, number: int, role: str) -> Iterator[None]:
    """A block within one turn in which the first agents of a lever are there: new ones with an offer, others without
    the cordon."""
    if agents.size is not None:
        for name in agents.ids[:number]:
            _arrive(pool, name, agents.size, role)
        taken = len(pool.hand.taken)
        try:
            yield
        finally:
            for name in agents.ids[:number]:
                pool.hand.remove_agent(name)
            del pool.hand.taken[taken:]  # the cluster manager knows nothing of these offers
        return
    rows = {row.key: row.overrides for key in agents.ids[:number] for row in pool.rows_of(key)}
    for key, overrides in rows.items():
        pool.override(key, overrides._replace(disabled=False))
    try:
        yield
    finally:
        for key, overrides in rows.items():
            pool.override(key, overrides)


def applied(demand: Demand[Slot], levers: Sequence[Lever], strengths: Strengths) -> Demand[Slot]:
    """Returns the demand with the changes."""
    dropped: set[int] = set()
    for number, strength in strengths.items():
        lever = levers[number]
        if not strength:
            continue
        if lever.kind == REDUCE:
            amount = getattr(demand.request, lever.part) - strength * GRANULES[lever.part]
            demand = demand._replace(request=demand.request._replace(**{lever.part: amount}))
        elif lever.kind == DROP:
            dropped.add(lever.facts)
        elif isinstance(lever.facts, Agents):
            demand = demand._replace(except_agents=demand.except_agents.difference(lever.facts.ids[:strength]))
    if dropped:
        rules = demand.rules
        items = tuple(item for position, item in enumerate(rules.items) if position not in dropped)
        demand = demand._replace(rules=Rules(items, rules.tolerations, rules.terms, rules.tolerated))
    return demand


def _resources(demand: Demand[Slot], overhead: Mapping[str, int]) -> list[Lever]:
    resources = []
    for name, granule in GRANULES.items():
        own = getattr(demand.request, name) - overhead[name]
        most = (own - own // LEAST_PART) // granule
        if most > 0:
            resources.append(Lever(REDUCE, most, 2, name))
    return resources


def _constraints(rules: Rules) -> list[Lever]:
    """Conditions that no user has written (`Rule.why`) cannot be dropped."""
    return [
        Lever(DROP, 1, 3, rules.title(position), position)
        for position, item in enumerate(rules.items)
        if not any(rule.why for rule in item)
    ]


def _cordoned(pool: OfferPool, demand: Demand[Slot]) -> list[Lever]:
    """Uncordons the agents of the copy. The agents with room for the most taskgroups come first, so that the first ones
    that suffice are the fewest."""
    rows = [row for row in pool.rows_in(demand.role) if row.open and row.overrides.disabled]
    for row in rows:
        pool.override(row.key, row.overrides._replace(disabled=False))
    pool.table.flush()
    needs = [(pool.table.line_of[name], amount) for name, amount in _scalars(demand) if amount]
    room = {row.number: min((row.amounts[line] // amount for line, amount in needs), default=1) for row in rows}
    rows.sort(key=lambda row: (-room[row.number], row.key))
    chosen = [row for row in rows if room[row.number]][:CORDONED]
    kept = {row.number for row in chosen}
    for row in rows:
        if row.number not in kept:
            pool.override(row.key, row.overrides._replace(disabled=True))
    if not chosen:
        return []
    agents = Agents(tuple(row.agent_id for row in chosen), tuple(row.key for row in chosen))
    return [Lever(UNCORDON, len(chosen), 1, facts=agents)]


def _scalars(demand: Demand[Slot]) -> list[tuple[str, int]]:
    request = demand.request
    return [("cpus", request.cpus), ("mem", request.mem), ("disk", request.disk), ("gpus", request.gpus)]


def _new_agents(pool: OfferPool, demand: Demand[Slot], sizes: Sequence[Size]) -> list[Lever]:
    levers = []
    number = min(len(demand.slots), NEW_AGENTS)
    for place, size in enumerate(sizes):
        names = tuple(f"new-agent-{place + 1}-{index + 1}" for index in range(number))
        for name in names:
            _arrive(pool, name, size, demand.role)
        levers.append(Lever(ADD, number, 4, facts=Agents(names, names, size)))
    return levers


def _sizes(pool: OfferPool, demand: Demand[Slot]) -> list[Size]:
    """The most frequent sizes of agents that one taskgroup fits on, each with the attributes of such an agent that the
    constraints admit; if there is none, the size of one taskgroup. Empty if no attributes are acceptable."""
    seen: Counter[tuple[int, int]] = Counter()
    parts: dict[tuple[int, int], Size] = {}
    usable: Mapping[str, Attribute] | None = None
    least = demand.request.disk
    # Free disk says little about the disk of a whole agent, so a new agent is given the disk of one taskgroup at least.
    for row in pool.rows_in(demand.role):
        size = pool.totals.get(row.agent_id, row.totals)
        own = {name: value for name, value in row.own.items() if name != "InnerIP"}
        known = parts.get(size)
        disk, gpus = max(row.amounts[pool.table.line_of["disk"]], least), row.amounts[pool.table.line_of["gpus"]]
        if known is not None:
            seen[size] += 1
            parts[size] = known._replace(disk=max(known.disk, disk), gpus=max(known.gpus, gpus))
        elif demand.rules.could_admit({**own, "hostname": "new-agent"}):
            usable = own if usable is None else usable
            seen[size] += 1
            parts[size] = Size(*size, disk, gpus, tuple(sorted(own.items(), key=lambda pair: pair[0])))
    fitting = [
        parts[size]
        for size, _ in seen.most_common()
        if all(amount <= getattr(parts[size], name) for name, amount in _scalars(demand))
    ]
    if fitting or usable is None:
        return fitting[:SIZES]
    request = demand.request
    attributes = tuple(sorted(usable.items(), key=lambda pair: pair[0]))
    return [Size(request.cpus, request.mem, request.disk, request.gpus, attributes)]


def _arrive(pool: OfferPool, name: str, size: Size, role: str) -> None:
    pool.learn_total(name, size.cpus, size.mem)
    pool.hand.add(_offer(name, size, role))


def _offer(name: str, size: Size, role: str) -> Offer:
    scalars = (("cpus", size.cpus), ("mem", size.mem), ("disk", size.disk), ("gpus", size.gpus))
    return Offer(
        id=name,
        agent_id=name,
        hostname=name,
        ip="",
        role=role,
        attributes={**dict(size.attributes), "InnerIP": name},
        scalars=tuple((ResourceKey(resource, role), amount) for resource, amount in scalars if amount),
        ranges=((ResourceKey(PORTS, role), RANDOM_PORTS),),
    )
