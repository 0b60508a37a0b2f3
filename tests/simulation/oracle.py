"""Placement judged in the plainest way, one agent and one taskgroup at a time: the matcher must agree with it."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from store.ids import nanoseconds_of
from store.records import AgentSetting, TaskGroup, Version
from store.records.definition import Constraint
from tests.simulation.agents import Agent
from tests.simulation.room import Room
from transactions import resource_request


class Site(NamedTuple):
    """An agent as placement sees it."""

    agent: Agent
    setting: AgentSetting

    def attribute(self, name: str) -> str | float | None:
        if name == "hostname":
            return self.agent.host
        found = self.setting.scalars.get(name, self.setting.strings.get(name))
        return found if found is not None else self.agent.attributes.get(name)


class Neighbours(NamedTuple):
    """Taskgroups that count: all that have not ended, and the definitions of all."""

    live: list[TaskGroup]
    versions: Mapping[tuple[str, str], Version]
    """By application key and version name."""

    def of(self, application: str) -> list[TaskGroup]:
        return [g for g in self.live if f"{g.namespace}/{g.application}" == application]


def objection(version: Version, site: Site, neighbours: Neighbours, *, gone: int = 0) -> str:
    """Why a taskgroup of this version must not run on this agent; empty if it may. `gone` taskgroups more may have
    counted for GROUPBY, which admits more the more there are."""
    if site.setting.disabled:
        return "the agent is disabled"
    for key, value in site.setting.taints.items():
        if not any(t.key == key and t.value == value for t in version.tolerations):
            return f"taint {key}={value}"
    for union in version.constraints:
        if not any(_holds(c, version, site, neighbours, gone) for c in union):
            return "constraint " + " or ".join(f"{c.operator} {c.name}" for c in union)
    for name, wanted in resource_request.extended(version).items():
        used = sum(g.extended.get(name, 0) for g in neighbours.live if g.agent_id == site.agent.id)
        if used + wanted > site.setting.extended.get(name, 0):
            return f"extended resource {name}: {used} used, {wanted} wanted"
    return ""


def objection_in_any_order(
    fresh: Sequence[TaskGroup], neighbours: Neighbours, site_of: Callable[[TaskGroup], Site], *, gone: int = 0
) -> str:
    """What is wrong with taskgroups of one application that were placed in one turn; empty if there is an order in
    which each of them was admissible when its turn came.

    The order of their ids tells nothing (they are written agent by agent), and their versions may differ: what GROUPBY
    of one version did not allow may have come later, under another version. `neighbours` are all that live, these among
    them; `gone` ones were removed in the same turn.
    """
    application = f"{fresh[0].namespace}/{fresh[0].application}"
    numbers = {group.id for group in fresh}
    settled = [group for group in neighbours.of(application) if group.id not in numbers]
    hopeless: set[frozenset[str]] = set()
    complaints: list[str] = []

    def completed(placed: frozenset[str]) -> bool:
        if placed == numbers or placed in hopeless:
            return placed == numbers
        own = [*settled, *(group for group in fresh if group.id in placed)]
        for group in fresh:
            if group.id in placed:
                continue
            # Of other applications those count that had been placed before: numbers in ids grow.
            others = [g for g in neighbours.live if g.application != group.application and _number(g) < _number(group)]
            version = neighbours.versions[application, group.version]
            words = objection(version, site_of(group), Neighbours([*own, *others], neighbours.versions), gone=gone)
            if words:
                complaints.append(f"{group.id} was placed on {group.agent_id} ({group.hostname}): {words}")
            elif completed(placed | {group.id}):
                return True
        hopeless.add(placed)
        return False

    return "" if completed(frozenset()) else complaints[0]


def shortage(version: Version, room: Room) -> str:
    """What is missing in a room for one taskgroup of this version; empty if nothing."""
    need = resource_request.request_of(version, resource_request.EXECUTOR)
    for name, amount in (("cpus", need.cpus), ("mem", need.mem), ("disk", need.disk)):
        if room.scalars.get(name, 0) < amount:
            return name
    if not set(need.fixed_ports) <= room.ports:
        return f"ports {need.fixed_ports}"
    if len(room.ports) < need.random_ports + len(need.fixed_ports):
        return "ports"
    return ""


def _holds(rule: Constraint, version: Version, site: Site, neighbours: Neighbours, gone: int) -> bool:
    application = f"{version.namespace}/{version.application}"
    value = site.attribute(rule.name)
    if rule.operator == "EXCLUDE":
        return not any(
            g.agent_id == site.agent.id
            and f"{g.namespace}/{g.application}" != application
            and _labels(neighbours, g) & set(rule.items)
            for g in neighbours.live
        )
    if value is None:
        return False
    same = sum(1 for g in neighbours.of(application) if recorded(g, rule.name) == value)
    match rule.operator:
        case "UNIQUE":
            return same == 0
        case "MAXPER":
            return same < rule.limit
        case "GROUPBY":
            total = len(neighbours.of(application)) + gone
            return value in rule.items and same < -(-(total + 1) // len(rule.items))
        case "CLUSTER":
            return value in rule.items
        case "LIKE":
            return any(_like(pattern, str(value)) for pattern in rule.items)
        case "UNLIKE":
            return not any(_like(pattern, str(value)) for pattern in rule.items)
        case "GREATER":
            return isinstance(value, float) and value > rule.number
    raise AssertionError(rule.operator)


def recorded(group: TaskGroup, name: str) -> str | float | None:
    """The value of an attribute that counts for this taskgroup: as copied at launch, or its host name."""
    if name == "hostname":
        return group.hostname
    value = group.attributes.get(name)
    if value is None:
        return None
    return value.text if value.number is None else value.number


def _labels(neighbours: Neighbours, group: TaskGroup) -> set[str]:
    version = neighbours.versions.get((f"{group.namespace}/{group.application}", group.version))
    return {f"{key}:{value}" for key, value in version.labels.items()} if version is not None else set()


def _like(pattern: str, value: str) -> bool:
    if pattern.startswith("re:"):
        return re.fullmatch(pattern[3:], value) is not None
    return fnmatch.fnmatchcase(value, pattern)


def neighbours_in(records: Iterable[object]) -> Neighbours:
    live: list[TaskGroup] = []
    versions: dict[tuple[str, str], Version] = {}
    for record in records:
        if isinstance(record, TaskGroup) and not record.ended:
            live.append(record)
        elif isinstance(record, Version):
            versions[f"{record.namespace}/{record.application}", record.name] = record
    return Neighbours(live, versions)


def _number(group: TaskGroup) -> int:
    return nanoseconds_of(group.id)
