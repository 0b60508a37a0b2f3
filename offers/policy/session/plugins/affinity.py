"""Rules about other work: where tasks with certain labels run, by the value of an attribute of their agents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from offers.policy.session.model import Agent, Template, WorkAffinity

if TYPE_CHECKING:
    from offers.policy.session.session import Session

Place = object
"""A value of a topology attribute, or the name of the agent."""


def place_of(agent: Agent, topology: str) -> Place | None:
    """The place of an agent; None if it lacks the attribute."""
    return agent.attributes.get(topology) if topology else agent.name


def carries(labels: tuple[tuple[str, str], ...], template: Template) -> bool:
    """True if work of a template carries all of the labels."""
    return set(labels) <= set(template.labels)


def present(session: Session) -> Iterator[tuple[int, Template]]:
    """Rank and template of every task that has room on an agent, those placed in this session included."""
    snapshot = session.snapshot
    for agent, tenants in snapshot.tenants.items():
        if agent in snapshot.rank:
            for task in tenants.values():
                yield snapshot.rank[agent], task.template
    for state in session.jobs.values():
        for position, rank in state.placed.items():
            yield rank, state.job.tasks[position].template


class Neighbours:
    """The required rules of one template, and those of others towards it."""

    def __init__(self, session: Session, template: Template) -> None:
        self._session, self._template = session, template
        self._own = [rule for rule in template.affinity if not rule.weight]
        self._seen = -1
        self._attracting: list[tuple[str, set[Place], bool]] = []
        self._refused: list[tuple[str, set[Place]]] = []

    @classmethod
    def required(cls, session: Session, template: Template) -> Neighbours | None:
        """Returns the rules, or None if no rule can concern the template."""
        if not session.snapshot.has_affinity:
            return None
        concerned = any(not rule.weight for rule in template.affinity) or any(
            rule.anti and not rule.weight and carries(rule.labels, template)
            for other in session.snapshot.templates
            for rule in other.affinity
        )
        return cls(session, template) if concerned else None

    def _refresh(self) -> None:
        table = self._session.agents
        if self._seen == len(table.log):
            return
        self._seen = len(table.log)
        everything = list(present(self._session))
        self._attracting, self._refused = [], []
        for rule in self._own:
            matching = [rank for rank, other in everything if carries(rule.labels, other)]
            places = self._places(matching, rule)
            if rule.anti:
                self._refused.append((rule.topology, places))
            else:
                first = not matching and carries(rule.labels, self._template)
                self._attracting.append((rule.topology, places, first))
        for rank, other in everything:
            for rule in other.affinity:
                if rule.anti and not rule.weight and carries(rule.labels, self._template):
                    self._refused.append((rule.topology, self._places([rank], rule)))

    def _places(self, ranks: list[int], rule: WorkAffinity) -> set[Place]:
        agents = self._session.agents.agents
        return {place_of(agents[rank], rule.topology) for rank in ranks} - {None}

    def accepts(self, rank: int) -> bool:
        """True if an agent keeps every required rule. A rule that nothing fulfils yet is kept by the first task if the
        task fulfils the rule itself, on any agent that has the attribute."""
        self._refresh()
        agent = self._session.agents.agents[rank]
        for topology, places, first in self._attracting:
            place = place_of(agent, topology)
            if place is None or not (first or place in places):
                return False
        return not any(place_of(agent, topology) in places for topology, places in self._refused)


def points(session: Session, template: Template) -> list[int]:
    """Points of each agent by preferred rules about other work: those of the template, and those of others towards it.
    A required rule of others to be near the template counts 1."""
    agents = session.agents.agents
    points_of: dict[tuple[str, Place], int] = {}

    def add(rank: int, topology: str, weight: int) -> None:
        place = place_of(agents[rank], topology)
        if place is not None:
            points_of[topology, place] = points_of.get((topology, place), 0) + weight

    own = [rule for rule in template.affinity if rule.weight]
    for rank, other in present(session):
        for rule in own:
            if carries(rule.labels, other):
                add(rank, rule.topology, -rule.weight if rule.anti else rule.weight)
        for rule in other.affinity:
            if carries(rule.labels, template) and (rule.weight or not rule.anti):
                weight = rule.weight or 1
                add(rank, rule.topology, -weight if rule.anti else weight)
    topologies = {topology for topology, _ in points_of}
    return [sum(points_of.get((topology, place_of(agent, topology)), 0) for topology in topologies) for agent in agents]
