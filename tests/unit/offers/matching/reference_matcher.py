"""The sequential greedy algorithm, written for obviousness: what offers.matching.statement must agree with placement
by placement.

It knows agents as plain values and shares no code with the matcher except the arithmetic of pots.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from offers.model import AgentOverrides, Demand, Offer, Placement, ResourceRequest
from offers.resources import SCALARS, ResourceMap, amount_of, amounts_of, draw, gather, numbers, ports_of, size
from offers.rules.constraints import Rule, Rules


def fits(resources: ResourceMap, request: ResourceRequest) -> bool:
    """Returns True if the request, without its extended resources, can be drawn from the resources."""
    if any(amount_of(resources, name) < wanted for name, wanted in zip(SCALARS, amounts_of(request), strict=True)):
        return False
    ports = ports_of(resources)
    fixed = frozenset(request.fixed_ports)
    return fixed <= set(numbers(ports)) and size(ports) >= request.random_ports + len(fixed)


@dataclass
class Agent:
    """All offers of one agent in one role."""

    offers: list[Offer]
    overrides: AgentOverrides
    resources: ResourceMap = field(init=False)

    def __post_init__(self) -> None:
        self.resources = gather(self.offers)
        self.totals = (amount_of(self.resources, "cpus"), amount_of(self.resources, "mem"))

    @property
    def first(self) -> Offer:
        return self.offers[-1]

    @property
    def attributes(self) -> dict[str, Any]:
        return {**self.first.attributes, **self.overrides.attributes, "hostname": self.first.hostname}

    @property
    def score(self) -> int:
        free = (amount_of(self.resources, "cpus"), amount_of(self.resources, "mem"))
        return sum(part * 2**20 // total for part, total in zip(free, self.totals, strict=True) if total)


@dataclass
class Live:
    """A taskgroup that runs."""

    application: str
    agent_id: str
    attributes: dict[str, Any]
    labels: tuple[str, ...] = ()
    extended: tuple[tuple[str, int], ...] = ()


class LiveCensus:
    """The census of a list of taskgroups (offers.model.Census)."""

    def __init__(self, groups: Sequence[Live]) -> None:
        self.groups = list(groups)

    def attribute_counts(self, application: str, attribute: str) -> Counter[Any]:
        mine = [group for group in self.groups if group.application == application]
        return Counter(
            group.attributes[attribute]
            for group in mine
            if isinstance(group.attributes.get(attribute), str | float | int)
        )

    def total(self, application: str) -> int:
        return sum(group.application == application for group in self.groups)

    def agents_with_label(self, pair: str, except_application: str) -> Counter[str]:
        return Counter(g.agent_id for g in self.groups if pair in g.labels and g.application != except_application)

    def extended_used(self, agent_id: str, name: str) -> int:
        return sum(
            amount for g in self.groups if g.agent_id == agent_id for known, amount in g.extended if known == name
        )


def reference(agents: list[Agent], demands: list[Demand[Any]], live: list[Live], scoring: str) -> list[Placement[Any]]:
    """Places the demands; agents are in the order of their rows. Changes `agents`, not `live`."""
    census = LiveCensus(live)
    placements: list[Placement[Any]] = []
    for demand in demands:
        used: set[str] = set()
        for slot in demand.slots:
            feasible = [
                agent
                for agent in agents
                if suits(agent, demand, census) and not (demand.per_agent and agent.first.agent_id in used)
            ]
            if not feasible:
                break
            best = (max if scoring == "spread" else min)(feasible, key=lambda agent: agent.score)
            allocation, ports, best.resources = draw(best.resources, demand.request)
            offer = best.first
            used.add(offer.agent_id)
            placements.append(
                Placement(demand.id, slot, offer.agent_id, offer.hostname, offer.ip, allocation, ports, best.attributes)
            )
            census.groups.append(
                Live(demand.application, offer.agent_id, best.attributes, demand.labels, demand.request.extended)
            )
    return placements


def suits(agent: Agent, demand: Demand[Any], census: LiveCensus) -> bool:
    """Every test, one after the other."""
    offer = agent.first
    request = demand.request
    extended: Counter[str] = Counter()
    for name, amount in request.extended:
        extended[name] += amount
    return (
        offer.role == demand.role
        and demand.only_host in ("", offer.hostname)
        and (not demand.only_agents or offer.agent_id in demand.only_agents)
        and offer.agent_id not in demand.except_agents
        and not agent.overrides.disabled
        and not any(offer.unavailable_from for offer in agent.offers)
        and all(taint in demand.rules.tolerations for taint in agent.overrides.taints.items())
        and constrained(agent, demand.rules, demand.application, census)
        and fits(agent.resources, request)
        and all(name in SCALARS for name, _ in request.amounts)
        and not request.host_ports
        and all(
            agent.overrides.extended.get(name, 0) - census.extended_used(offer.agent_id, name) >= amount
            for name, amount in extended.items()
            if amount > 0
        )
    )


def constrained(agent: Agent, rules: Rules, application: str, census: LiveCensus) -> bool:
    return all(any(holds(agent, rule, application, census) for rule in item) for item in rules.items)


def holds(agent: Agent, rule: Rule, application: str, census: LiveCensus) -> bool:
    value = agent.attributes.get(rule.name)
    if rule.operator == "EXCLUDE":
        return not any(agent.first.agent_id in census.agents_with_label(pair, application) for pair in rule.items)
    if value is None or isinstance(value, tuple):
        return False
    count = census.attribute_counts(application, rule.name)[value]
    text = isinstance(value, str)
    match rule.operator:
        case "UNIQUE":
            return count == 0
        case "MAXPER":
            return count < rule.limit
        case "GROUPBY":
            if not text or value not in rule.items:
                return False
            return count < math.ceil((census.total(application) + 1) / len(rule.items))
        case "CLUSTER":
            return text and value in rule.items
        case "LIKE":
            return text and any(matches(pattern, value) for pattern in rule.items)
        case "UNLIKE":
            return text and not any(matches(pattern, value) for pattern in rule.items)
        case "GREATER":
            return not text and value > rule.number
    raise AssertionError(rule.operator)


def matches(pattern: str, value: str) -> bool:
    if pattern.startswith("re:"):
        return re.fullmatch(pattern[3:], value) is not None
    return fnmatch.fnmatchcase(value, pattern)
